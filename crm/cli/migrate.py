"""Migration of the files of all tenants to the schema of this release."""

import time

import click

from crm.cli.commands import Failures, command, group, tenant_file, tenant_session
from crm.config import Config
from crm.tenancy import migrations
from crm.tenancy.installation import open_tenants
from crm.tenancy.tenants import BASE_HOST_FILE


@command(group, "migrate")
@click.option("--dry-run", is_flag=True, help="List the files that need it; change nothing.")
def migrate(config: Config, dry_run: bool) -> None:
    """Migrate the files of all tenants to this release; each is copied to <data>/upgrades first.

    A tenant that fails keeps its version and does not stop the others.
    """
    tenants, failures, started_at = open_tenants(config), Failures(), time.monotonic()
    labels = [BASE_HOST_FILE] if tenants.path(BASE_HOST_FILE).exists() else []
    labels += tenants.labels()
    count = 0
    for label in labels:
        name = tenants.path(label).name if label == BASE_HOST_FILE else label
        with failures.collect(name):
            count += _check(config, label, name) if dry_run else _migrate(config, label, name)
    seconds = time.monotonic() - started_at
    result = "to migrate" if dry_run else "migrated"
    click.echo(f"{count} of {len(labels)} {result}, {seconds:.1f} s", err=True)
    failures.raise_if_any("these cannot be read" if dry_run else "these could not be migrated")


def _check(config: Config, label: str, name: str) -> bool:
    """Print the version of a file that needs migration, and return whether it does."""
    with tenant_file(config, label) as tenants:
        version = tenants.version(label)
    if version > len(migrations.STEPS):
        raise migrations.newer(name, version)
    if is_old := version < len(migrations.STEPS):
        click.echo(f"{name}: version {version} of {len(migrations.STEPS)}")
    return is_old


def _migrate(config: Config, label: str, name: str) -> bool:
    """Migrate a file by opening it, print its version, and return whether it was an older one."""
    # Read before the session, which migrates the file when it opens it.
    with tenant_file(config, label) as tenants:
        old_version = tenants.version(label)
    with tenant_session(config, label):
        message = f"{name}: version {len(migrations.STEPS)}"
    if is_old := old_version < len(migrations.STEPS):
        message += f", was {old_version}"
    click.echo(message)
    return is_old
