"""HTTP endpoints of imports and exports: a pair for each resource, and the reports of imports (D9).

The endpoints of a resource are added to its own blueprint by add_endpoints().
"""

from collections.abc import Callable
from typing import IO, Any

from flask import Request, Response, g
from marshmallow import fields as ma

from crm.access import rights
from crm.api.operations import Blueprint, build_path, named
from crm.api.upload import read_uploaded_file
from crm.errors import Forbidden
from crm.records import fields, parameters, queries
from crm.records.conditions import EVERY_ROW
from crm.records.parameters import Query
from crm.records.schemas import RecordSchema
from crm.spreadsheets.exporter import MayRead, export_csv
from crm.spreadsheets.import_run import IMPORT_RUN, ImportRun, rejected_rows_file
from crm.spreadsheets.importer import import_file
from crm.spreadsheets.reader import MAX_FILE_BYTES, ParsedFile, read_file
from crm.spreadsheets.resource import ImportableResource, all_resources
from crm.tenancy.heavy_work import heavy_work
from crm.tenancy.reading import SpooledFile

CSV = "text/csv"
DIALECT = parameters.Option(
    fields.Choice("excel"), "`excel`: BOM, semicolons, decimal comma, no formulas."
)
LIST_ONLY = {"limit", "cursor", "total", "include_deleted", "expand"}  # of a list's parameters


class ImportFilter(queries.Filter):
    dry_run = parameters.Option(
        fields.Choice("true", "false"), "`true`: only count, write nothing."
    )
    dialect = DIALECT


class ImportedOut(RecordSchema):
    status = ma.String(required=True, metadata={"enum": ["ok"]})
    created = ma.Integer(required=True)
    updated = ma.Integer(required=True)
    skipped = ma.Integer(required=True, metadata={"description": "Unchanged or rejected."})


IMPORT_FILTER = ImportFilter(only=("dry_run", "dialect"))

_export_filters: dict[str, queries.Filter] = {}


def add_endpoints(
    blueprint: Blueprint,
    resource: ImportableResource,
    list_filter: type[queries.Filter],
    about_import: str = "",
    about_export: str = "",
) -> None:
    """Add `POST /<plural>/import` and `GET /<plural>/export` to a resource's blueprint.

    An export takes the parameters of the list, `list_filter`. The descriptions are for the
    documentation; by default they describe what all resources with an `external_id` have in common.
    """
    plural = resource.plural
    export_filter = _export_filter(resource, list_filter)
    _export_filters[plural] = export_filter

    @blueprint.post(f"/{plural}/import")
    @blueprint.needs(f"{plural}:write")
    @blueprint.arguments(IMPORT_FILTER, location="query")
    @blueprint.upload(_uploaded_file(resource))
    @blueprint.answer(ImportedOut())
    @named(f"import_{plural}", about_import or _about_import(resource))
    def import_records(
        query: Query, upload: tuple[str | None, ParsedFile]
    ) -> tuple[dict[str, Any], dict[str, str]]:
        file_name, file = upload
        # Some columns need a further right, known only when the file has been read.
        rights.require(g.caller.scopes, resource.required_scopes(file.has_values))
        result = import_file(file, file_name, query.options.get("dry_run") == "true")
        headers = {}
        if result.import_id is not None:
            headers["Location"] = build_path(f"/imports/{result.import_id}")
        return {"status": "ok", **result.counts()}, headers

    @blueprint.get(f"/{plural}/export")
    @blueprint.needs(f"{plural}:read")
    @blueprint.arguments(export_filter, location="query")
    @blueprint.raw(CSV)
    @named(f"export_{plural}", about_export or _about_export(resource))
    def export_records(query: Query) -> Response:
        return export_response(
            resource, query, lambda plural: rights.allows(g.caller.scopes, f"{plural}:read")
        )


def export_filter_of(plural: str) -> queries.Filter:
    """The parameters that the export of a resource takes."""
    return _export_filters[plural]


def export_response(resource: ImportableResource, query: Query, may_read: MayRead) -> Response:
    """The file of an export, to be saved.

    It is written to the end before the response begins: so it shows one moment, an error has its
    status and never cuts a file short, and a slow client holds neither a connection to the database
    nor memory.
    """
    condition = " AND ".join(part.sql for part in query.conditions) or EVERY_ROW
    params = [value for part in query.conditions for value in part.params]
    sort: Any = export_filter_of(resource.plural).fields["sort"]
    order = sort.order_by(query.sort)
    excel = query.options.get("dialect") == "excel"

    def write(to: IO[bytes]) -> None:
        export_csv(to, resource, condition, params, order, excel, may_read)

    with heavy_work():
        file = SpooledFile(write)
    return csv_response(resource.file_name, file)


def csv_response(name: str, data: bytes | SpooledFile) -> Response:
    """A CSV file to be saved."""
    headers = {"Content-Disposition": f'attachment; filename="{name}"'}
    if isinstance(data, SpooledFile):
        headers["Content-Length"] = str(data.length)
    return Response(data, headers=headers, content_type=f"{CSV}; charset=utf-8")


def _uploaded_file(
    resource: ImportableResource,
) -> Callable[[Request], tuple[str | None, ParsedFile]]:
    """Return a function that reads the file of a request: its name and its content."""

    def read(request: Request) -> tuple[str | None, ParsedFile]:
        name, data = read_uploaded_file(request, "file", MAX_FILE_BYTES)
        with heavy_work():
            return name, read_file(data, resource, request.args.get("dialect") == "excel")

    return read


def _export_filter(
    resource: ImportableResource, list_filter: type[queries.Filter]
) -> queries.Filter:
    """The parameters of the list and the dialect; an export has no pages and no deleted rows."""
    declared = list_filter().fields
    attributes: dict[str, Any] = {"dialect": DIALECT}
    if resource.export_order == "id":  # in the order in which the records were made
        orders = {name: sql for name, sql in declared["sort"].orders.items() if name != "id"}
        attributes["sort"] = parameters.Sort("id", **orders)
    name = list_filter.__name__.replace("Filter", "ExportFilter")
    export_filter: Any = type(name, (list_filter,), attributes)
    return export_filter(exclude=sorted(LIST_ONLY & export_filter().fields.keys()))


def _about_import(resource: ImportableResource) -> str:
    plural = resource.plural
    columns = ", ".join(f"`{name}`" for name in resource.column_names)
    return (
        f"Import {plural}: rows with a known id or external_id change records, others create them."
        f"\n\nNeeds `{plural}:write`{resource.about_required_scopes}, and its report"
        f" `{plural}:read`. Columns: {columns}."
    )


def _about_export(resource: ImportableResource) -> str:
    return (
        f"Export {resource.plural}, with the filters of the list.\n\nNeeds"
        f" `{resource.plural}:read`; users and others are told by their ids alone without the right"
        " to read them."
    )


blueprint = Blueprint("imports", "What imports of CSV files did.")


@blueprint.get("/imports/<id>")
@blueprint.needs()  # which scope, depends on what was imported
@blueprint.one(IMPORT_RUN)
def get_import(id: str) -> dict[str, Any]:
    """Get what an import did: its counts and its first 1000 errors.

    Needs the right to read its noun, such as `leads:read`.
    """
    _require_reading(id)
    return IMPORT_RUN.one(id)


@blueprint.get("/imports/<id>/errors.csv")
@blueprint.needs()
@blueprint.raw(CSV)
def get_import_errors(id: str) -> Response:
    """Get the rejected rows of an import for repair; kept for 30 days.

    Needs the right to read its noun, such as `leads:read`.
    """
    _require_reading(id)
    return csv_response(f"import-{id}-errors.csv", rejected_rows_file(id))


def _require_reading(id: str) -> None:
    """Raise Forbidden unless the key may read the imported resource, and NotFound.

    A key without any right to read always gets Forbidden: it must not learn which imports exist.
    """
    scopes = {resource.singular: f"{resource.plural}:read" for resource in all_resources()}
    key_scopes = g.caller.scopes
    if not any(rights.allows(key_scopes, scope) for scope in scopes.values()):
        detail = "this key lacks the right to read what was imported"
        raise Forbidden(detail, "missing_scope", scope=next(iter(scopes.values())))
    rights.require(key_scopes, [scopes[ImportRun.find(id).noun]])
