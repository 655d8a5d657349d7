"""Import and export of files."""

import sys
from contextlib import closing
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import click

import crm.resources  # noqa: F401  (registers what has files)
from crm.cli.column_questions import ask_options, may_ask, read_options, write_options
from crm.cli.commands import FILE, as_json, command, subgroup, tenant_session
from crm.config import Config
from crm.errors import Invalid
from crm.json import dumps
from crm.spreadsheets import all_resources, export_csv, import_file, read_file
from crm.spreadsheets.file_styles import FileStyle
from crm.spreadsheets.importer import Progress
from crm.spreadsheets.labels import LANGUAGES
from crm.spreadsheets.options import PLAIN
from crm.spreadsheets.resource import ImportableResource
from crm.storage.reading import SpooledFile

MAX_PRINTED_ERRORS = 20


def _add_commands(resource: ImportableResource) -> None:
    noun = resource.plural
    resource_group = subgroup(noun, f"Import and export {noun} as CSV files.")

    @click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
    @click.option("--dry-run", is_flag=True, help="Count what would change; change nothing.")
    @click.option("--excel", is_flag=True, help="The file is in the format of `export --excel`.")
    @click.option("--sheet", help="Of a workbook; by default the first sheet.")
    @click.option("--map", "map_file", type=FILE, help="JSON: which field each column is.")
    @click.option("--save-map", type=FILE, help="Write what was answered, for --map.")
    @as_json
    def import_noun(
        config: Config,
        tenant: str,
        file: Path,
        dry_run: bool,
        sheet: str | None,
        map_file: Path | None,
        save_map: Path | None,
        as_json: bool,
        **reading: Any,
    ) -> None:
        data, hidden = file.read_bytes(), dry_run or not sys.stderr.isatty()
        reading |= {"max_bytes": sys.maxsize, "max_rows": sys.maxsize}
        with tenant_session(config, tenant):  # whose time zone files for people have
            options = read_options(map_file) if map_file else PLAIN
            options = replace(options, sheet=sheet or options.sheet)
            try:
                parsed = read_file(data, resource, options=options, **reading)
            except Invalid as invalid:
                if map_file or not may_ask(invalid):
                    raise
                options = ask_options(data, resource, options, reading)
                parsed = read_file(data, resource, options=options, **reading)
        if save_map:
            write_options(save_map, options)
        with (
            tenant_session(config, tenant),
            click.progressbar(
                length=len(parsed.rows), file=sys.stderr, hidden=hidden, update_min_steps=100
            ) as bar,
        ):
            progress: Progress = lambda rows_done, _: bar.update(rows_done - bar.pos)  # noqa: E731
            result = import_file(parsed, file.name, dry_run, progress)
        for error in result.errors[:MAX_PRINTED_ERRORS]:
            click.echo(f"line {error['line']}: {error['message']}", err=True)
        if len(result.errors) > MAX_PRINTED_ERRORS:
            click.echo(f"… and {len(result.errors) - MAX_PRINTED_ERRORS} more", err=True)
        click.echo(
            dumps(asdict(result) | {"skipped": result.skipped})
            if as_json
            else f"created {result.created}, updated {result.updated}, skipped {result.skipped}"
            f" ({result.unchanged} unchanged, {result.rejected} rejected)"
        )
        if parsed.is_large and not dry_run:
            click.echo(f"to undo it: POST /api/v1/batches/{result.batch_id}/undo", err=True)
        if result.rejected:
            raise SystemExit(1)

    @click.option(
        "--excel", is_flag=True, help="For a spreadsheet: BOM, semicolons, decimal comma."
    )
    @click.option("--xlsx", type=click.Choice(LANGUAGES), help="A workbook, in this language.")
    def export_noun(config: Config, tenant: str, excel: bool, xlsx: str | None) -> None:
        style = FileStyle(xlsx, is_workbook=True) if xlsx else None
        with tenant_session(config, tenant):
            file = SpooledFile(lambda to: export_csv(to, resource, excel=excel, style=style))
        with closing(file):  # after the tenant is closed: the reader of stdout may be slow
            file.copy_to(sys.stdout.buffer)
            sys.stdout.flush()

    import_noun.__doc__ = f"Import {noun} from FILE (CSV); exits with 1 if rows are rejected."
    export_noun.__doc__ = f"Write {noun} as CSV to stdout."
    command(resource_group, "import", "tenant")(import_noun)
    command(resource_group, "export", "tenant")(export_noun)


for _resource in all_resources():
    _add_commands(_resource)
