"""HTTP endpoints of imports and exports: a pair for each resource, and the reports of imports (D9).

The endpoints of a resource are added to its own blueprint by add_endpoints().
"""

from datetime import datetime
from typing import IO, Any

from flask import Response
from marshmallow import fields as ma

from crm.access import rights
from crm.api.blueprints import Blueprint
from crm.api.bodies import MAX_ENVELOPE_BYTES
from crm.api.envelopes import ok_answer
from crm.records import background, fields, parameters, queries
from crm.records.conditions import EVERY_ROW
from crm.records.list_plans import join_conditions
from crm.records.parameters import Query
from crm.spreadsheets import import_run
from crm.spreadsheets.exporter import MayRead, export_csv
from crm.spreadsheets.file_styles import FileStyle
from crm.spreadsheets.import_run import IMPORT_RUN, ImportRun, import_file, rejected_rows_file
from crm.spreadsheets.labels import LANGUAGES
from crm.spreadsheets.mapping_endpoints import add_mapping_endpoints
from crm.spreadsheets.reader import MAX_LARGE_FILE_BYTES, ParsedFile, read_file
from crm.spreadsheets.resource import ImportableResource, require_of_noun
from crm.spreadsheets.uploaded_files import DIALECT, IMPORT_FILTER, UploadReader
from crm.storage.heavy_work import heavy_work
from crm.storage.reading import SpooledFile
from crm.storage.session import now, tenant_zone
from crm.values.transliteration import transliterate

CSV = "text/csv"
# The right to create what a column names, where an import is told to.
CREATED_BY = {
    "assigned_to": "users:write",
    "manager": "users:write",
    "stage": "pipelines:write",
    "client": "clients:write",
    "contact": "clients:write",
}
XLSX = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"
EXPORT_OPTIONS = {
    "dialect": DIALECT,
    "for": parameters.Option(fields.Choice("people"), "`people`: as Excel shows it to people."),
    "language": parameters.Option(fields.Choice(*LANGUAGES), "That of people, by default `uk`."),
    "format": parameters.Option(fields.Choice("csv", "xlsx"), "`xlsx`: a workbook for people."),
}
MAX_NAME_CHARACTERS = 80
LIST_ONLY = {"limit", "cursor", "total", "include_deleted", "expand"}  # of a list's parameters


SKIPPED = ma.Integer(required=True, metadata={"description": "Unchanged or rejected."})
STARTED = ok_answer("ImportStartedOut", says="running", import_id=ma.String)
IMPORTED = ok_answer("ImportedOut", created=ma.Integer, updated=ma.Integer, skipped=SKIPPED)

_export_filters: dict[str, queries.Filter] = {}


def add_endpoints(
    blueprint: Blueprint, resource: ImportableResource, list_filter: type[queries.Filter]
) -> None:
    """Add `POST /<plural>/import` and `GET /<plural>/export` to a resource's blueprint.

    An export takes the parameters of the list, `list_filter`.
    """
    plural = resource.plural

    export_filter = _export_filter(resource, list_filter)
    _export_filters[plural] = export_filter

    @blueprint.operation(
        "POST",
        f"/{plural}/import",
        name=f"import_{plural}",
        about=_about_import(resource),
        needs=(f"{plural}:write",),
        query=IMPORT_FILTER,
        upload=UploadReader(lambda data, *options: read_file(data, resource, *options)),
        max_body_bytes=MAX_LARGE_FILE_BYTES + MAX_ENVELOPE_BYTES,
        kind="json",
        answer=IMPORTED,
        other_status=202,
        other_answer=STARTED,
        conflicts=True,
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
        if id and file.is_large:
            return {"status": "running", "import_id": str(id)}, headers, 202
        return {"status": "ok", **result.counts()}, headers, 200

    add_mapping_endpoints(blueprint, resource)

    @blueprint.operation(
        "GET",
        f"/{plural}/export",
        name=f"export_{plural}",
        about=f"Export {plural}, with the filters of the list.\n\nNeeds `{plural}:read`; users and"
        " others are told by their ids alone without the right to read them.",
        needs=(f"{plural}:read",),
        query=export_filter,
        kind="raw",
        media_type=f"{CSV} {XLSX}",
    )
    def export_records(query: Query) -> Response:
        return export_response(resource, query, rights.can_read)


def required_scopes(file: ParsedFile) -> list[str]:
    """Rights that a file needs beside `<plural>:write`, for its columns and what it creates."""
    options, has_values = file.options, file.has_values
    created = [
        scope
        for column, scope in CREATED_BY.items()
        if has_values(column) and options.creates(column)
    ]
    return list(dict.fromkeys([*file.resource.required_scopes(has_values), *created]))


def export_filter_of(plural: str) -> queries.Filter:
    """The parameters that the export of a resource takes."""
    return _export_filters[plural]


def export_response(
    resource: ImportableResource, query: Query, may_read: MayRead, guards: bool = False
) -> Response:
    """The file of an export, to be saved; `guards`: as in write_to().

    It is written to the end before the response begins: so it shows one moment, an error has its
    status and never cuts a file short, and a slow client holds neither a connection to the database
    nor memory.
    """
    condition, params = join_conditions(query.conditions)
    sort: Any = export_filter_of(resource.plural).fields["sort"]
    order = sort.order_by(query.sort)
    options, style = query.options, None
    kind, excel = options.get("format", "csv"), options.get("dialect") == "excel"
    if "for" in options or kind == "xlsx":
        style = FileStyle(options.get("language", LANGUAGES[0]), kind == "xlsx")

    def write(to: IO[bytes]) -> None:
        where = condition or EVERY_ROW
        export_csv(to, resource, where, params, order, excel, may_read, style, guards)

    with heavy_work():
        file = SpooledFile(write)
    name = resource.file_name if style is None else _file_name(resource, query, kind)
    return csv_response(name, file)


def _file_name(resource: ImportableResource, query: Query, kind: str) -> str:
    """The name of a file for people: the filters are in it, and today's date."""
    filters = [texts for name, texts in query.sent if name not in EXPORT_OPTIONS and name != "sort"]
    words = [transliterate(text) for texts in filters for text in texts]
    name = "-".join(filter(None, [resource.plural, *words]))[:MAX_NAME_CHARACTERS]
    today = datetime.fromisoformat(now()).astimezone(tenant_zone()).date()
    return f"{name}-{today}.{kind}"


def csv_response(name: str, data: bytes | SpooledFile) -> Response:
    """A CSV file to be saved."""
    headers = {"Content-Disposition": f'attachment; filename="{name}"'}
    if isinstance(data, SpooledFile):
        headers["Content-Length"] = str(data.length)
    content_type = XLSX if name.endswith(".xlsx") else f"{CSV}; charset=utf-8"
    return Response(data, headers=headers, content_type=content_type)


def _export_filter(
    resource: ImportableResource, list_filter: type[queries.Filter]
) -> queries.Filter:
    """The parameters of the list and the dialect; an export has no pages and no deleted rows."""
    declared = list_filter().fields
    attributes: dict[str, Any] = {**EXPORT_OPTIONS}
    if resource.export_order == "id":  # in the order in which the records were made
        orders = {name: sql for name, sql in declared["sort"].orders.items() if name != "id"}
        attributes["sort"] = parameters.Sort("id", **orders)
    name = list_filter.__name__.replace("Filter", "ExportFilter")
    export_filter: Any = type(name, (list_filter,), attributes)
    return export_filter(exclude=sorted(LIST_ONLY & export_filter().fields.keys()))


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


@blueprint.operation(
    "POST", "/imports/<id>/cancel", needs=(), kind="json", answer=CANCELLED, conflicts=True
)
def cancel_import(id: str) -> dict[str, Any]:
    """End an import that runs: what it has done stays, until its batch is undone.

    Needs the right to write its noun, such as `leads:write`.
    """
    _require(id, "write")
    return {"status": "cancelled", "batch_id": str(import_run.cancel(id))}


def _require(id: str, right: str) -> None:
    """Raise Forbidden unless the key has this right to the imported resource, and NotFound."""
    require_of_noun(right, "imported", lambda: ImportRun.find(id).noun)
