"""Migration of the files and schemas of all tenants to the data model of this release."""

import time

import click

from crm.cli.commands import Failures, Progress, command, group, naming_tenant
from crm.config import Config
from crm.tenancy import migrations
from crm.tenancy.installation import open_tenants
from crm.tenancy.tenants import BASE_HOST_FILE, Tenants


@command(group, "migrate")
@click.option("--dry-run", is_flag=True, help="List the tenants that need it; change nothing.")
def migrate(config: Config, dry_run: bool) -> None:
    """Migrate all tenants to this release; files are copied to <data>/upgrades first.

    A tenant that fails keeps its version and does not stop the others. A schema in PostgreSQL takes
    each step in a transaction, whether servers run or not.
    """
    tenants, failures, started_at = open_tenants(config), Failures(), time.monotonic()
    labels = [BASE_HOST_FILE] if tenants.has_base_host() else []
    labels += tenants.labels()
    progress = Progress("checked" if dry_run else "migrated", len(labels))
    count = 0
    for label in labels:
        name = _name(tenants, label)
        with failures.collect(name), naming_tenant(label):
            count += _check(tenants, label, name) if dry_run else _migrate(tenants, label, name)
        progress.advance()
    tenants.forget_idle()
    seconds = time.monotonic() - started_at
    result = "to migrate" if dry_run else "migrated"
    click.echo(f"{count} of {len(labels)} {result}, {seconds:.1f} s", err=True)
    failures.raise_if_any("these cannot be read" if dry_run else "these could not be migrated")


def _name(tenants: Tenants, label: str) -> str:
    if label != BASE_HOST_FILE:
        return label
    return tenants.path(label).name if tenants.lives_in_file(label) else "base host"


def _check(tenants: Tenants, label: str, name: str) -> bool:
    """Print the version of a tenant that needs migration, and return whether it does."""
    version = tenants.version(label)
    if version > len(migrations.STEPS):
        kind = "file" if tenants.lives_in_file(label) else "schema"
        raise migrations.newer(name, version, kind)
    if is_old := version < len(migrations.STEPS):
        click.echo(f"{name}: version {version} of {len(migrations.STEPS)}")
    return is_old


def _migrate(tenants: Tenants, label: str, name: str) -> bool:
    """Migrate a tenant, print its version, and return whether it was an older one."""
    old_version = tenants.migrate(label)
    message = f"{name}: version {len(migrations.STEPS)}"
    if is_old := old_version < len(migrations.STEPS):
        message += f", was {old_version}"
    click.echo(message)
    return is_old
