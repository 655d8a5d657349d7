"""Import and export of CSV files."""

import sys
from contextlib import closing
from pathlib import Path

import click

import crm.resources  # noqa: F401  (registers what has files)
from crm.cli.commands import command, group, tenant_session
from crm.config import Config
from crm.spreadsheets import all_resources, export_csv, import_file, read_file
from crm.spreadsheets.resource import ImportableResource
from crm.tenancy.reading import SpooledFile

MAX_PRINTED_ERRORS = 20
IMPORT_HELP = {
    "products": "Import the price list FILE (CSV) by sku.",
    "clients": "Import clients with their contacts from FILE (CSV).",
    "deals": "Import deals with their items from FILE (CSV).",
    "leads": "Import leads from FILE (CSV).",
    "tasks": "Import tasks from FILE (CSV).",
}
EXPORT_HELP = {
    "products": "Write the price list as CSV to stdout.",
    "clients": "Write clients with their contacts as CSV to stdout.",
    "deals": "Write deals with their items as CSV to stdout.",
    "leads": "Write leads as CSV to stdout.",
    "tasks": "Write tasks as CSV to stdout.",
}


@group.group("import")
def import_() -> None:
    """Import a CSV file."""


@group.group("export")
def export() -> None:
    """Export a CSV file."""


def _add_commands(resource: ImportableResource) -> None:
    noun = resource.plural

    def import_noun(config: Config, file: Path, tenant: str, dry_run: bool, excel: bool) -> None:
        parsed = read_file(file.read_bytes(), resource, excel)
        hidden = dry_run or not sys.stderr.isatty()
        with (
            tenant_session(config, tenant),
            click.progressbar(length=len(parsed.rows), file=sys.stderr, hidden=hidden) as bar,
        ):
            result = import_file(
                parsed,
                file_name=file.name,
                dry_run=dry_run,
                progress=lambda rows_done, _: bar.update(rows_done - bar.pos),
            )
        for error in result.errors[:MAX_PRINTED_ERRORS]:
            click.echo(f"line {error['line']}: {error['message']}", err=True)
        if len(result.errors) > MAX_PRINTED_ERRORS:
            click.echo(f"… and {len(result.errors) - MAX_PRINTED_ERRORS} more", err=True)
        click.echo(
            f"created {result.created}, updated {result.updated}, skipped {result.skipped}"
            f" ({result.unchanged} unchanged, {result.rejected} rejected)"
        )

    def export_noun(config: Config, tenant: str, excel: bool) -> None:
        with tenant_session(config, tenant):
            file = SpooledFile(lambda to: export_csv(to, resource, excel=excel))
        with closing(file):  # after the tenant is closed: the reader of stdout may be slow
            file.copy_to(sys.stdout.buffer)
            sys.stdout.flush()

    import_noun.__doc__, export_noun.__doc__ = IMPORT_HELP[noun], EXPORT_HELP[noun]
    tenant = click.option("--tenant", required=True)
    dry_run = click.option(
        "--dry-run", is_flag=True, help="Count what would change; change nothing."
    )
    dialect = click.option(
        "--excel", is_flag=True, help="The file is in the format of `export --excel`."
    )
    file = click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
    command(import_, noun)(file(tenant(dry_run(dialect(import_noun)))))
    about = "For a spreadsheet: BOM, semicolons, decimal comma."
    command(export, noun)(tenant(click.option("--excel", is_flag=True, help=about)(export_noun)))


for _resource in all_resources():
    _add_commands(_resource)
