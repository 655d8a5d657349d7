"""HTTP endpoints of imports: those of each resource, and the reports (D9).

The endpoints of a resource are added to its own blueprint by add_endpoints(). A choice of how a
file is read comes as a query parameter or as a part of the form beside the file; a part goes first.
"""

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

from flask import Request, Response
from marshmallow import fields as ma
from werkzeug.datastructures import MultiDict

from crm.access import rights
from crm.api.blueprints import Blueprint
from crm.api.bodies import MAX_ENVELOPE_BYTES, read_uploaded_file
from crm.api.envelopes import Open, ok_answer
from crm.json import loads
from crm.records import background, fields, parameters, queries
from crm.records.parameters import Query
from crm.spreadsheets import import_run
from crm.spreadsheets.cells import DECIMAL_MARKS
from crm.spreadsheets.exporter import CSV, DIALECT, add_export, csv_response
from crm.spreadsheets.foreign.aliases import aliases_of, fields_of
from crm.spreadsheets.foreign.headers import CONFIDENCES
from crm.spreadsheets.foreign.mapping import KEYS
from crm.spreadsheets.foreign.proposals import FileProposal, propose
from crm.spreadsheets.import_run import IMPORT_RUN, ImportRun, import_file, rejected_rows_file
from crm.spreadsheets.options import (
    DATE_ORDERS,
    HIDDEN_ROWS,
    KNOWN,
    ON_EMPTY,
    UNKNOWN,
    ImportOptions,
)
from crm.spreadsheets.reader import MAX_LARGE_FILE_BYTES, ParsedFile, read_file
from crm.spreadsheets.resource import ImportableResource, require_of_noun
from crm.storage.heavy_work import heavy_work
from crm.values import InvalidValue

# The right to create what a column names, where an import is told to.
CREATED_BY = {
    "assigned_to": "users:write",
    "manager": "users:write",
    "stage": "pipelines:write",
    "client": "clients:write",
    "contact": "clients:write",
}
MAX_JSON_CHARACTERS = 30_000


class JsonText(fields.Field):
    """The text of a JSON object; `is_valid` tells of each of its values whether it is one."""

    wire_schema = {"type": "string", "maxLength": MAX_JSON_CHARACTERS}

    def __init__(self, is_valid: Callable[[Any], bool], example: str):
        super().__init__(example=example)
        self._is_valid = is_valid

    def read(self, value: Any) -> dict[str, Any]:
        try:
            sent = loads(value) if len(value) <= MAX_JSON_CHARACTERS else None
        except (ValueError, RecursionError):
            sent = None
        if not isinstance(sent, dict) or not all(map(self._is_valid, sent.values())):
            raise InvalidValue("invalid_json", f"must be a JSON object such as {self.example}")
        return sent


class NumberText(fields.Integer):
    """The digits of a whole number in a range."""

    def read(self, value: str) -> int:
        is_number = value.isascii() and value.isdecimal() and len(value) < 6
        return super().read(int(value) if is_number else value)


def _is_choices(value: Any) -> bool:
    """Whether it is {text: what becomes of it}, as in ImportOptions.unknown_values."""
    return isinstance(value, dict) and all(
        isinstance(choice, str) and (choice in UNKNOWN or choice[:1] == "=")
        for choice in value.values()
    )


class ImportFilter(queries.DryRunFilter):
    dialect = DIALECT
    sheet = parameters.Option(
        fields.Text(31), "The sheet of a workbook, by default the first one that has content."
    )
    hidden_rows = parameters.Option(
        fields.Choice(*HIDDEN_ROWS),
        "Whether rows that a workbook hides are left out or read; by default `skip`.",
    )
    mapping = parameters.Option(
        JsonText(
            lambda field: field is None or isinstance(field, (str, dict)),
            '{"Артикул": "sku", "Залишок": null}',
        ),
        "Which field each column of the file is, null to leave it out, or"
        ' `{"new_field": {"key", "label", "type"}}`; without it the file has our columns.',
    )
    header_line = parameters.Option(
        NumberText(1, 1000),
        "The header's line, by default the first; with a mapping it is found.",
    )
    on_empty = parameters.Option(
        fields.Choice(*ON_EMPTY),
        "Whether empty cells keep or clear fields; by default `keep`.",
    )
    key = parameters.Option(
        fields.Choice(*KEYS), "The field that finds known records, as far as the resource has it."
    )
    known = parameters.Option(
        fields.Choice(*KNOWN), "What becomes of a record that `key` finds; by default `update`."
    )
    date_order = parameters.Option(
        fields.Choice(*DATE_ORDERS),
        "Which is first in dates such as 03/04/2026, if they do not tell.",
    )
    decimal_mark = parameters.Option(
        fields.Choice(*DECIMAL_MARKS),
        "Whether `1,250` has decimals or thousands, if its column does not tell.",
    )
    unknown_references = parameters.Option(
        fields.Choice(*UNKNOWN),
        "Whether colleagues, stages, clients and contacts that do not exist are"
        " created or left out; by default their rows are rejected.",
    )
    unknown_values = parameters.Option(
        JsonText(_is_choices, '{"stage": {"Переговори": "=Пропозиція", "*": "skip"}}'),
        "What becomes of texts that name no colleague, stage, client or choice, by"
        " column and text or `*`: `create`, `skip`, or `=` and the name or id of the one meant.",
    )


READ_AS = ("encoding", "delimiter", "header_line", "hidden_rows", "formulas")  # of a table
OPTIONS = tuple(field.name for field in dataclasses.fields(ImportOptions))
IMPORT_FILTER = ImportFilter(only=("dry_run", "dialect", *OPTIONS))


class UploadReader:
    """Reads the file of a request for an operation: the operation's `upload`.

    read(data, excel, options): makes of the file what the operation takes beside its name, as heavy
    work.
    """

    filter, parts = IMPORT_FILTER, OPTIONS  # parts of the form beside the file

    def __init__(self, read: Callable[[bytes, bool, ImportOptions], Any]):
        self._read = read

    def __call__(self, request: Request, *_: str) -> tuple[str | None, Any]:
        """Raises what read_uploaded_file() does, and Invalid."""
        name, data, parts = read_uploaded_file(request, "file", MAX_LARGE_FILE_BYTES, OPTIONS)
        chosen = IMPORT_FILTER.read(MultiDict(request.args.to_dict() | parts))
        return self.of_bytes(data, chosen.options, name)

    def of_bytes(
        self, data: bytes, chosen: dict[str, Any], name: str | None = None
    ) -> tuple[str | None, Any]:
        """The same of a file with the options of ImportFilter. Raises what reading it does."""
        values = {option: chosen[option] for option in OPTIONS if option in chosen}
        with heavy_work():
            is_excel = chosen.get("dialect") == "excel"
            return name, self._read(data, is_excel, ImportOptions(**values))


NAMES = ma.List(ma.String(), metadata={"description": "Columns that are not stored."})
LEFT_OUT: dict[str, Any] = {"left_out_columns": NAMES}
SKIPPED = ma.Integer(required=True, metadata={"description": "Unchanged or rejected."})
COUNTS: dict[str, Any] = {"created": ma.Integer, "updated": ma.Integer, "skipped": SKIPPED}
STARTED = ok_answer("ImportStartedOut", says="running", import_id=ma.String, **LEFT_OUT)
IMPORTED = ok_answer("ImportedOut", **COUNTS, **LEFT_OUT)


class FieldOut(Open):
    """A field that a column of a file may be mapped to."""

    field = ma.String(required=True)
    type = ma.String(required=True, metadata={"examples": ["number"]})
    required = ma.Boolean(required=True)
    aliases = ma.List(ma.String(), required=True)
    example = ma.String(required=True, allow_none=True)


class FileColumnOut(Open):
    """A column of a file, and which field it seems to be."""

    file = ma.String(required=True)
    field = ma.String(required=True, allow_none=True)
    confidence = ma.String(required=True, metadata={"enum": list(CONFIDENCES)})
    samples = ma.List(ma.String(), required=True)


class ImportFieldsOut(Open):
    """The fields of a resource."""

    data = ma.List(ma.Nested(FieldOut), required=True)


class ImportPreviewOut(Open):
    """How a file would be read; `left_out` lines are no records, such as totals.

    Of a workbook, `hidden_rows` were left out, and `formulas` have values as last computed.
    """

    encoding = ma.String(required=True)
    delimiter = ma.String(required=True)
    header_line = ma.Integer(required=True)
    columns = ma.List(ma.Nested(FileColumnOut), required=True)
    entries = ma.Integer(required=True)
    left_out = ma.Integer(required=True)
    hidden_rows = ma.Integer(required=True)
    formulas = ma.Integer(required=True)


FIELDS, PREVIEW = ImportFieldsOut(), ImportPreviewOut()


def add_endpoints(
    blueprint: Blueprint, resource: ImportableResource, list_filter: type[queries.Filter]
) -> None:
    """Add the operations of imports and of the export to a resource's blueprint.

    An export takes the parameters of the list, `list_filter`.
    """
    plural = resource.plural
    takes_file = {
        "query": IMPORT_FILTER,
        "max_body_bytes": MAX_LARGE_FILE_BYTES + MAX_ENVELOPE_BYTES,
        "kind": "json",
        "needs": (f"{plural}:write",),
    }

    @blueprint.operation(
        "POST",
        f"/{plural}/import",
        name=f"import_{plural}",
        about=_about_import(resource),
        upload=UploadReader(lambda data, *options: read_file(data, resource, *options)),
        answer=IMPORTED,
        other_status=202,
        other_answer=STARTED,
        conflicts=True,
        **takes_file,
    )
    def import_records(
        query: Query, upload: tuple[str | None, ParsedFile]
    ) -> tuple[dict[str, Any], dict[str, str], int]:
        file_name, file = upload
        # Some columns need a further right, known only when the file has been read.
        rights.require(required_scopes(file))
        result = import_file(file, file_name, query.dry_run, waits=False)
        id = result.import_id
        headers = {"Location": f"/imports/{id}"} if id else {}
        left_out = {name: names for name in LEFT_OUT if (names := file.left_out_columns)}
        if id and file.is_large:
            return {"status": "running", "import_id": str(id), **left_out}, headers, 202
        return {"status": "ok", **result.counts(), **left_out}, headers, 200

    @blueprint.operation(
        "GET",
        f"/{plural}/import/columns",
        name=f"list_{plural}_import_columns",
        about=f"List the fields that columns of a file may be.\n\nNeeds `{plural}:read`.",
        needs=(f"{plural}:read",),
        answer=FIELDS,
    )
    def list_columns() -> dict[str, Any]:
        return {"data": list(describe_fields(resource))}

    @blueprint.operation(
        "POST",
        f"/{plural}/import/preview",
        name=f"preview_{plural}_import",
        about="Tell how a file would be read, and what its columns seem to be; nothing is written."
        f"\n\nA column that nothing tells for sure has no field. Needs `{plural}:write`.",
        upload=UploadReader(lambda data, _, given: propose(data, resource, given)),
        answer=PREVIEW,
        **takes_file,
    )
    def preview(query: Query, upload: tuple[str | None, FileProposal]) -> dict[str, Any]:
        proposal = upload[1]
        mapping = proposal.file.mapping if proposal.file else {}
        columns = [
            {**guess._asdict(), "field": mapping.get(guess.file, guess.field)}
            for guess in proposal.guesses
        ]
        counts = {"entries": proposal.entries, "left_out": proposal.left_out}
        table = proposal.table
        read_as = {name: getattr(table, name) for name in READ_AS}
        return {**read_as, "columns": columns, **counts}

    add_export(blueprint, resource, list_filter)


def describe_fields(resource: ImportableResource) -> Iterator[dict[str, Any]]:
    """What a column may be mapped to, with what it may hold."""
    for name, column in fields_of(resource).items():
        wire, declared = column.field if column else None, resource.body.fields.get(name)
        example = wire.example if wire else None
        yield {
            "field": name,
            "type": type(wire).__name__.lower() if wire else "text",
            "required": name in resource.required_columns or bool(declared and declared.required),
            "aliases": aliases_of(resource)[name],
            "example": None if example is None else str(example),
        }


def required_scopes(file: ParsedFile) -> list[str]:
    """Rights that a file needs beside `<plural>:write`, for its columns and what it creates."""
    options, has_values = file.options, file.has_values
    created = [
        scope
        for column, scope in CREATED_BY.items()
        if has_values(column, f"{column}_phone", f"{column}_email") and options.creates(column)
    ]
    created += ["fields:write"] if file.resource.new_fields else []
    return list(dict.fromkeys([*file.resource.required_scopes(has_values), *created]))


def _about_import(resource: ImportableResource) -> str:
    plural, keys = resource.plural, " or ".join(resource.key_columns)
    columns = ", ".join(f"`{name}`" for name in resource.column_names)
    return (
        f"Import {plural}: rows with a known {keys} change records, others create them."
        f"\n\nNeeds `{plural}:write`{resource.about_required_scopes}, and its report"
        f" `{plural}:read`. Columns: {columns}."
    )


blueprint = Blueprint("imports", "What imports of CSV files did.")


# Which scope they need, depends on what was imported.
@blueprint.operation("GET", "/imports/<id>", needs=(), response_view=IMPORT_RUN)
def get_import(id: str) -> dict[str, Any]:
    """Get what an import did: its counts and its first 1000 errors.

    Needs the right to read its noun, such as `leads:read`.
    """
    _require(id, "read")
    report = IMPORT_RUN.one(id)
    if report["status"] == "running":
        background.look_after_current()
    return report


@blueprint.operation("GET", "/imports/<id>/errors.csv", needs=(), kind="raw", media_type=CSV)
def get_import_errors(id: str) -> Response:
    """Get the rejected rows of an import for repair; kept for 30 days.

    Needs the right to read its noun, such as `leads:read`.
    """
    _require(id, "read")
    return csv_response(f"import-{id}-errors.csv", rejected_rows_file(id))


CANCELLED = ok_answer("ImportCancelledOut", says="cancelled", batch_id=ma.String)


@blueprint.operation("POST", "/imports/<id>/cancel", needs=(), answer=CANCELLED, conflicts=True)
def cancel_import(id: str) -> dict[str, Any]:
    """End an import that runs: what it has done stays, until its batch is undone.

    Needs the right to write its noun, such as `leads:write`.
    """
    _require(id, "write")
    return {"status": "cancelled", "batch_id": str(import_run.cancel(id))}


def _require(id: str, right: str) -> None:
    """Raise Forbidden unless the key has this right to the imported resource, and NotFound."""
    require_of_noun(right, "imported", lambda: ImportRun.find(id).noun)
