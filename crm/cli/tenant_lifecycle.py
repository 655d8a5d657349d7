"""Commands for a tenant as a whole: export, clone, move, delete."""

import sys
from pathlib import Path

import click

from crm.cli.commands import command, tenant_file
from crm.cli.tenants import tenant
from crm.config import Config
from crm.errors import Conflict
from crm.resources import export
from crm.resources import tenant as tenants_rules
from crm.tenancy import disk, trash
from crm.tenancy.installation import move_tenant

STDOUT = Path("-")


@command(tenant, "export")
@click.argument("label")
@click.option(
    "--to",
    type=click.Path(path_type=Path, dir_okay=False, allow_dash=True),
    metavar="FILE",
    show_default="<label>-<time>.zip in the current folder",
    help="- for the standard output.",
)
def tenant_export(config: Config, label: str, to: Path | None) -> None:
    """Export the tenant LABEL as a zip file: its SQLite file and CSV files."""
    with tenant_file(config, label) as tenants:
        if to == STDOUT:
            export.send(tenants, label, sys.stdout.buffer)
            return
        path = to or Path(f"{label}-{disk.stamp(tenants.clock())}.zip")
        export.write(tenants, label, path)
    click.echo(f"{path}\t{path.stat().st_size}")


@command(tenant, "clone")
@click.argument("label")
@click.argument("new")
@click.option("--name", default="", help="Name of the business; by default unchanged.")
def tenant_clone(config: Config, label: str, new: str, name: str) -> None:
    """Create the tenant NEW as a copy of LABEL, to try things out.

    Users log in to it as they do to LABEL. Its API keys are revoked and its webhooks switched off.
    """
    with tenant_file(config, label) as tenants:
        tenants_rules.clone(tenants, label, new, name)
    click.echo(config.url_of(new))


@command(tenant, "move")
@click.argument("label")
@click.option(
    "--to",
    required=True,
    metavar="PLACE",
    help="files, postgres (the first database with room), or the name of a database.",
)
def tenant_move(config: Config, label: str, to: str) -> None:
    """Move the tenant LABEL between files and the databases of CRM_DATABASE.

    It can be read meanwhile, but not be written: who waits for longer than 10 seconds is told to
    try again. The file or schema before goes to <data>/trash.
    """
    if not config.database:
        raise Conflict("CRM_DATABASE is not set: all tenants live in files")
    with tenant_file(config, label) as tenants:
        moved = move_tenant(tenants, label, to)
    if moved.rows is None:
        click.echo(f"{label} is in {moved.place}: a move that was interrupted is finished")
    else:
        click.echo(
            f"{label} is in {moved.place}: {moved.rows} rows compared, "
            f"nobody could write for {moved.seconds:.1f} s"
        )
    click.echo(f"its file from before: {moved.before}")


@command(tenant, "delete")
@click.argument("label")
@click.option("--yes", is_flag=True, help="Don't ask.")
def tenant_delete(config: Config, label: str, yes: bool) -> None:
    """Delete the tenant LABEL. Its file goes to <data>/trash and can be restored from there."""
    with tenant_file(config, label) as tenants:
        if tenants.exists(label) and not yes:
            click.confirm(f"Delete {label}? Its users lose access at once.", abort=True, err=True)
        file = trash.delete(tenants, label)
    click.echo(f"{label} is deleted; its file: {file}")
