"""Import and export of files.

Which field each column of a foreign file is: from a file of JSON, or asked on a terminal.
"""

import sys
from contextlib import closing
from dataclasses import asdict, replace
from pathlib import Path
from shlex import quote
from typing import Any

import click

import crm.resources  # noqa: F401  (registers what has files)
from crm.cli.commands import FILE, as_json, command, subgroup, tenant_session
from crm.config import Config
from crm.errors import Invalid
from crm.json import dumps, loads
from crm.spreadsheets import all_resources, export_csv, import_file, read_file
from crm.spreadsheets.cells import DECIMAL_MARKS
from crm.spreadsheets.file_styles import FileStyle
from crm.spreadsheets.foreign.aliases import fields_of
from crm.spreadsheets.foreign.mapping import EXTRA
from crm.spreadsheets.foreign.proposals import HEADER_CODES, FileProposal, propose, unanswered
from crm.spreadsheets.importer import Progress
from crm.spreadsheets.labels import LANGUAGES
from crm.spreadsheets.options import DATE_ORDERS, PLAIN, UNKNOWN, ImportOptions
from crm.spreadsheets.resource import ImportableResource
from crm.storage.reading import SpooledFile

LEAVE_OUT = "-"
MAX_NAMED = 10  # unknown texts in a question
MAX_PRINTED_ERRORS = 20


def _add_commands(resource: ImportableResource) -> None:
    noun = resource.plural
    resource_group = subgroup(noun, f"Import and export {noun} as CSV files.")

    @click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
    @click.option("--dry-run", is_flag=True, help="Count what would change; change nothing.")
    @click.option("--excel", is_flag=True, help="The file is in the format of `export --excel`.")
    @click.option("--sheet", help="Of a workbook; by default the first sheet with content.")
    @click.option("--hidden-rows", is_flag=True, help="Read those of a workbook too.")
    @click.option(
        "--decimal-mark", type=click.Choice([*DECIMAL_MARKS]), help="Of numbers such as 1,250."
    )
    @click.option("--map", "mapping", help="Which field each column is: JSON, or a file of it.")
    @click.option("--save-map", type=FILE, help="Write what was answered, for --map.")
    @as_json
    def import_noun(
        config: Config,
        tenant: str,
        file: Path,
        dry_run: bool,
        sheet: str | None,
        hidden_rows: bool,
        decimal_mark: str | None,
        mapping: str | None,
        save_map: Path | None,
        as_json: bool,
        **reading: Any,
    ) -> None:
        data, hidden = file.read_bytes(), dry_run or not sys.stderr.isatty()
        reading |= {"max_bytes": sys.maxsize, "max_rows": sys.maxsize}
        with tenant_session(config, tenant):  # whose time zone files for people have
            options = read_options(mapping) if mapping else PLAIN
            mark = decimal_mark or options.decimal_mark
            options = replace(options, sheet=sheet or options.sheet, decimal_mark=mark)
            if hidden_rows:
                options = replace(options, hidden_rows="read")
            try:
                parsed = read_file(data, resource, options=options, **reading)
            except Invalid as invalid:
                # What a person at a terminal can remedy is asked there.
                if mapping or invalid.faults[0].code not in HEADER_CODES:
                    raise
                if not _is_terminal():
                    guess = guessed_option(data, resource, options, reading)
                    raise Invalid(f"{invalid.detail}; say which field each is by {guess}") from None
                options = ask_options(data, resource, options, reading)
                parsed = read_file(data, resource, options=options, **reading)
        if save_map:
            save_map.write_bytes(dumps(asdict(options)) + b"\n")
        with (
            tenant_session(config, tenant),
            click.progressbar(
                length=len(parsed.rows), file=sys.stderr, hidden=hidden, update_min_steps=100
            ) as bar,
        ):
            progress: Progress = lambda rows_done, _: bar.update(rows_done - bar.pos)  # noqa: E731
            result = import_file(parsed, file.name, dry_run, progress)
        if count := parsed.sheet.hidden_rows:
            click.echo(f"{count} hidden rows are left out", err=True)
        if parsed.left_out_columns:
            click.echo(f"left out: {', '.join(parsed.left_out_columns)}", err=True)
        if count := parsed.sheet.formulas:
            click.echo(f"{count} formulas are read with their last results", err=True)
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
            sys.stdout.buffer.writelines(file)
            sys.stdout.flush()

    import_noun.__doc__ = f"Import {noun} from FILE (CSV); exits with 1 if rows are rejected."
    export_noun.__doc__ = f"Write {noun} as CSV to stdout."
    command(resource_group, "import", "tenant")(import_noun)
    command(resource_group, "export", "tenant")(export_noun)


def read_options(given: str) -> ImportOptions:
    """The options in JSON of --save-map, or that is {column: field} alone; `given` or its file."""
    try:
        values = loads(given if given.startswith("{") else Path(given).read_bytes())
        is_mapping = not isinstance(values.get("mapping"), dict)
        return ImportOptions(**({"mapping": values} if is_mapping else values))
    except (ValueError, TypeError, AttributeError):
        detail = f'{given} must have JSON such as {{"Артикул": "sku", "Залишок": null}}'
        raise Invalid.field("map", "invalid_json", detail) from None


def guessed_option(
    data: bytes, resource: ImportableResource, options: ImportOptions, reading: dict[str, Any]
) -> str:
    """What the columns of a foreign file seem to be, null where nothing tells it, for a shell."""
    guesses = propose(data, resource, options, **reading).guesses
    return f"--map {quote(dumps({guess.file: guess.field for guess in guesses}).decode())}"


def ask_options(
    data: bytes, resource: ImportableResource, options: ImportOptions, reading: dict[str, Any]
) -> ImportOptions:
    """Ask at the terminal how a foreign file is to be read; `reading` is as for read_file()."""
    proposal = propose(data, resource, options, **reading)
    options = replace(proposal.options, mapping=_ask_mapping(resource, proposal))
    if propose(data, resource, options=options, **reading).asks_date_order:
        order = click.prompt("Dates such as 03/04/2026 begin with", type=click.Choice(DATE_ORDERS))
        options = replace(options, date_order=order)
    if propose(data, resource, options=options, **reading).asks_decimal_mark:
        question, marks = "The decimal mark of 1,250 and the like", click.Choice([*DECIMAL_MARKS])
        options = replace(options, decimal_mark=click.prompt(question, type=marks))
    file = read_file(data, resource, options=options, **reading)
    unknown = dict(options.unknown_values)
    for column, texts in unanswered(resource, file).items():
        named = {text: text for text in texts}
        if len(texts) > MAX_NAMED:
            named = {"*": f"{', '.join(texts[:MAX_NAMED])} …"}
        for text, shown in named.items():
            question = f"{column}: there is no {shown} ({', '.join(UNKNOWN)}, reject, =NAME)"
            choice = click.prompt(question, default="reject", value_proc=_read_choice)
            if choice != "reject":
                unknown[column] = unknown.get(column, {}) | {text: choice}
    return replace(options, unknown_values=unknown)


def _read_choice(text: str) -> str:
    if text in (*UNKNOWN, "reject") or text[:1] == "=" != text:
        return text
    raise click.UsageError(f"{', '.join(UNKNOWN)}, reject, or = and the name of the one meant")


def _is_terminal() -> bool:
    return sys.stdin.isatty()


def _ask_mapping(resource: ImportableResource, proposal: FileProposal) -> dict[str, str | None]:
    names = list(fields_of(resource))
    click.echo(f"Fields: {', '.join(names)}; {EXTRA}NAME keeps other data, {LEAVE_OUT} leaves out.")
    mapping: dict[str, str | None] = {}
    for guess in proposal.guesses:
        if not guess.samples:
            mapping[guess.file] = guess.field
            continue
        text = f"{guess.file} ({', '.join(sample[:30] for sample in guess.samples)})"
        field = ""
        while field not in (LEAVE_OUT, *names) and not field.startswith(EXTRA):
            field = click.prompt(text, default=guess.field or LEAVE_OUT)
        mapping[guess.file] = None if field == LEAVE_OUT else field
    return mapping


for _resource in all_resources():
    _add_commands(_resource)
