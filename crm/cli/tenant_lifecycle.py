"""A tenant as a whole: taken along, tried on a copy, taken away."""

import sys
from pathlib import Path

import click

from crm.cli.commands import command, whole
from crm.cli.tenants import tenant
from crm.config import Config
from crm.resources import export
from crm.resources import tenant as tenants_rules
from crm.tenancy import disk, trash

STDOUT = Path("-")


@command(tenant, "export")
@click.argument("label")
@click.option(
    "--to",
    type=click.Path(path_type=Path, dir_okay=False, allow_dash=True),
    metavar="FILE",
    show_default="<label>-<time>.zip here",
    help="A dash: the standard output.",
)
def tenant_export(config: Config, label: str, to: Path | None) -> None:
    """Write all of the tenant LABEL into a zip: its SQLite file, and CSV to read."""
    with whole(config, label) as tenants:
        if to == STDOUT:
            export.send(tenants, label, sys.stdout.buffer)
            return
        path = to or Path(f"{label}-{disk.stamp(tenants.clock())}.zip")
        export.write(tenants, label, path)
    click.echo(f"{path}\t{path.stat().st_size}")


@command(tenant, "clone")
@click.argument("label")
@click.argument("new")
@click.option("--name", default="", help="Name of the business; as it is when absent.")
def tenant_clone(config: Config, label: str, new: str, name: str) -> None:
    """Make the tenant NEW of a copy of LABEL, to try things out.

    People log in to it as they do to LABEL. It has no live API key, and sends to no webhook.
    """
    with whole(config, label) as tenants:
        tenants_rules.clone(tenants, label, new, name)
    click.echo(config.url_of(new))


@command(tenant, "delete")
@click.argument("label")
@click.option("--yes", is_flag=True, help="Don't ask.")
def tenant_delete(config: Config, label: str, yes: bool) -> None:
    """Take the tenant LABEL away: its file goes to <data>/trash, and can be restored from there."""
    with whole(config, label) as tenants:
        if tenants.exists(label) and not yes:
            click.confirm(f"Take {label} away from all who use it?", abort=True, err=True)
        kept = trash.delete(tenants, label)
    click.echo(f"{label} is deleted; what it was: {kept}")
