"""The files of all tenants, brought up to this release."""

import time

import click

from crm.cli.commands import Failures, at, command, group, whole
from crm.config import Config
from crm.tenancy import migrations
from crm.tenancy.tenants import BASE_HOST_FILE, Tenants


@command(group, "migrate")
@click.option("--dry-run", is_flag=True, help="Tell which files are behind; change nothing.")
def migrate(config: Config, dry_run: bool) -> None:
    """Bring the files of all tenants up to this release; each is copied to <data>/upgrades first.

    A tenant that fails keeps its version and does not stop the others.
    """
    tenants, failures, begun = Tenants(config), Failures(), time.monotonic()
    labels = [BASE_HOST_FILE] if tenants.path(BASE_HOST_FILE).exists() else []
    labels += tenants.labels()
    done = 0
    for label in labels:
        name = tenants.path(label).name if label == BASE_HOST_FILE else label
        with failures.of(name):
            done += _tell(config, label, name) if dry_run else _bring(config, label, name)
    seconds = time.monotonic() - begun
    what = "behind" if dry_run else "brought up to date"
    click.echo(f"{done} of {len(labels)} {what}, {seconds:.1f} s", err=True)
    failures.tell("not of this release are" if dry_run else "not brought up to this release are")


def _tell(config: Config, label: str, name: str) -> bool:
    with whole(config, label) as tenants:
        version = tenants.version(label)
    if version > len(migrations.STEPS):
        raise migrations.newer(name, version)
    if behind := version < len(migrations.STEPS):
        click.echo(f"{name}: version {version} of {len(migrations.STEPS)}")
    return behind


def _bring(config: Config, label: str, name: str) -> bool:
    with whole(config, label) as tenants:
        was = tenants.version(label)
    with at(config, label):
        told = f"{name}: version {len(migrations.STEPS)}"
    if behind := was < len(migrations.STEPS):
        told += f", was {was}"
    click.echo(told)
    return behind
