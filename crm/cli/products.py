"""The price list as CSV, in and out."""

import sys
from pathlib import Path

import click

from crm.cli.frame import at, command, group
from crm.config import Config
from crm.resources.products import price_list

ERRORS_TOLD = 20


@group.group("import")
def import_() -> None:
    """Bring data in."""


@command(import_, "products")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--tenant", required=True)
@click.option("--dry-run", is_flag=True, help="Tell what would happen; change nothing.")
@click.option("--excel", is_flag=True, help="The file is in the dialect of `export --excel`.")
def import_products(config: Config, file: Path, tenant: str, dry_run: bool, excel: bool) -> None:
    """Import the price list FILE (CSV) by sku."""
    sheet = price_list.read(file.read_bytes(), excel=excel)
    hidden = dry_run or not sys.stderr.isatty()
    with (
        at(config, tenant),
        click.progressbar(length=len(sheet.rows), file=sys.stderr, hidden=hidden) as bar,
    ):
        result = price_list.import_csv(
            sheet,
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


@group.group("export")
def export() -> None:
    """Take data out."""


@command(export, "products")
@click.option("--tenant", required=True)
@click.option("--excel", is_flag=True, help="For a spreadsheet: BOM, semicolons, decimal comma.")
def export_products(config: Config, tenant: str, excel: bool) -> None:
    """Write the price list as CSV to stdout."""
    with at(config, tenant):
        click.echo(price_list.export_csv(excel=excel), nl=False)
