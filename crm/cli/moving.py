"""Moving in and out: the files of each noun as CSV."""

import sys
from contextlib import closing
from pathlib import Path

import click

import crm.resources  # noqa: F401  (registers what has files)
from crm.cli.commands import at, command, group
from crm.config import Config
from crm.spreadsheets import all_resources, export_csv, import_file, read_file
from crm.spreadsheets.resource import ImportableResource
from crm.tenancy.reading import SpooledFile

ERRORS_TOLD = 20
IMPORTED = {
    "products": "Import the price list FILE (CSV) by sku.",
    "clients": "Import clients with their contacts from FILE (CSV).",
    "deals": "Import deals with their items from FILE (CSV).",
    "leads": "Import leads from FILE (CSV).",
    "tasks": "Import tasks from FILE (CSV).",
}
EXPORTED = {
    "products": "Write the price list as CSV to stdout.",
    "clients": "Write clients with their contacts as CSV to stdout.",
    "deals": "Write deals with their items as CSV to stdout.",
    "leads": "Write leads as CSV to stdout.",
    "tasks": "Write tasks as CSV to stdout.",
}


@group.group("import")
def import_() -> None:
    """Bring data in."""


@group.group("export")
def export() -> None:
    """Take data out."""


def _add_commands(resource: ImportableResource) -> None:
    noun = resource.plural

    def import_noun(config: Config, file: Path, tenant: str, dry_run: bool, excel: bool) -> None:
        parsed = read_file(file.read_bytes(), resource, excel)
        hidden = dry_run or not sys.stderr.isatty()
        with (
            at(config, tenant),
            click.progressbar(length=len(parsed.rows), file=sys.stderr, hidden=hidden) as bar,
        ):
            result = import_file(
                parsed,
                file_name=file.name,
                dry_run=dry_run,
                progress=lambda done, _: bar.update(done - bar.pos),
            )
        for error in result.errors[:ERRORS_TOLD]:
            click.echo(f"line {error['line']}: {error['message']}", err=True)
        if len(result.errors) > ERRORS_TOLD:
            click.echo("… and more", err=True)
        click.echo(
            f"created {result.created}, updated {result.updated}, skipped {result.skipped}"
            f" ({result.unchanged} unchanged, {result.rejected} rejected)"
        )

    def export_noun(config: Config, tenant: str, excel: bool) -> None:
        with at(config, tenant):
            file = SpooledFile(lambda to: export_csv(to, resource, excel=excel))
        with closing(file):  # who reads it may take his time
            file.copy_to(sys.stdout.buffer)
            sys.stdout.flush()

    import_noun.__doc__, export_noun.__doc__ = IMPORTED[noun], EXPORTED[noun]
    tenant = click.option("--tenant", required=True)
    dry_run = click.option(
        "--dry-run", is_flag=True, help="Tell what would happen; change nothing."
    )
    dialect = click.option(
        "--excel", is_flag=True, help="The file is in the dialect of `export --excel`."
    )
    file = click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
    command(import_, noun)(file(tenant(dry_run(dialect(import_noun)))))
    about = "For a spreadsheet: BOM, semicolons, decimal comma."
    command(export, noun)(tenant(click.option("--excel", is_flag=True, help=about)(export_noun)))


for _resource in all_resources():
    _add_commands(_resource)
