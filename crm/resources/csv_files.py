"""What the doors of CSV files share: the file sent, the answer, the report, the file to save."""

from collections.abc import Callable
from typing import Any, BinaryIO

from flask import Request, Response, g
from marshmallow import fields as ma

from crm.access import rights
from crm.api.operations import Blueprint, address
from crm.api.upload import one_file
from crm.errors import Forbidden
from crm.records import fields, queries
from crm.records.queries import Query
from crm.records.schemas import RecordSchema
from crm.resources.imports import IMPORT, MOST_BYTES, NOUNS, Import, Result, rejected_rows
from crm.tenancy.heavy_work import heavy_work
from crm.tenancy.reading import SpooledFile

CSV = "text/csv"
DIALECT = queries.Option(
    fields.Choice("excel"), "`excel`: BOM, semicolons, decimal comma, no formulas."
)


class ImportFilter(queries.Filter):
    dry_run = queries.Option(fields.Choice("true", "false"), "`true`: only count, write nothing.")
    dialect = DIALECT


class ImportedOut(RecordSchema):
    status = ma.String(required=True, metadata={"enum": ["ok"]})
    created = ma.Integer(required=True)
    updated = ma.Integer(required=True)
    skipped = ma.Integer(required=True, metadata={"description": "Unchanged or rejected."})


IMPORT_FILTER = ImportFilter(only=("dry_run", "dialect"))


def sent_by(read: Callable[[bytes, bool], Any]) -> Callable[[Request], tuple[str | None, Any]]:
    """What gives the name of the file sent and what `read(data, excel)` makes of it."""

    def sent(asked: Request) -> tuple[str | None, Any]:
        name, data = one_file(asked, "file", MOST_BYTES)
        with heavy_work():
            return name, read(data, asked.args.get("dialect") == "excel")

    return sent


def is_dry(query: Query) -> bool:
    return query.chosen.get("dry_run") == "true"


def answer_of(result: Result) -> tuple[dict[str, Any], dict[str, str]]:
    """The counts, and where the report of an import is that wrote one."""
    counts = {"created": result.created, "updated": result.updated, "skipped": result.skipped}
    headers = {}
    if result.import_id is not None:
        headers["Location"] = address(f"/imports/{result.import_id}")
    return {"status": "ok", **counts}, headers


def export_filter(
    of: type[queries.ResourceFilter], sort: queries.Sort | None = None
) -> queries.Filter:
    """The parameters of an export: those of the list and the dialect; it has no pages, no parts
    and no deleted rows."""
    more = {"dialect": DIALECT, **({"sort": sort} if sort else {})}
    whole = type(of.__name__.replace("Filter", "ExportFilter"), (of,), more)
    left_out = {"limit", "cursor", "total", "include_deleted", "expand"}
    return whole(exclude=sorted(left_out & whole._declared_fields.keys()))


def export_of(
    query: Query,
    order: queries.Sort,
    export: Callable[[BinaryIO, str, list[Any], str, bool], None],
) -> SpooledFile:
    """What `export(to, condition, parameters, order, excel)` writes of an export's query.

    It is written to the end before the answer begins: so it is of one moment, an error is told by
    its status and never by a file that is cut, and a client who reads slowly holds neither a
    connection to the database nor memory.
    """
    condition = " AND ".join(each.sql for each in query.conditions) or "1"
    params = [value for each in query.conditions for value in each.params]
    excel = query.chosen.get("dialect") == "excel"
    by = order.by(query.sort)
    with heavy_work():
        return SpooledFile(lambda to: export(to, condition, params, by, excel))


def as_file(name: str, data: bytes | SpooledFile) -> Response:
    """A CSV file to be saved."""
    headers = {"Content-Disposition": f'attachment; filename="{name}"'}
    if isinstance(data, SpooledFile):
        headers["Content-Length"] = str(data.length)
    return Response(data, headers=headers, content_type=f"{CSV}; charset=utf-8")


blueprint = Blueprint("imports", "What imports of CSV files did.")


@blueprint.get("/imports/<id>")
@blueprint.needs()  # which scope, depends on what was imported
@blueprint.one(IMPORT)
def get_import(id: str) -> dict[str, Any]:
    """Get what an import did: its counts and its first 1000 errors.

    Needs the right to read its noun, such as `leads:read`.
    """
    _may_read(id)
    return IMPORT.one(id)


@blueprint.get("/imports/<id>/errors.csv")
@blueprint.needs()
@blueprint.raw(CSV)
def get_import_errors(id: str) -> Response:
    """Get the rejected rows of an import for repair; kept for 30 days.

    Needs the right to read its noun, such as `leads:read`.
    """
    _may_read(id)
    return as_file(f"import-{id}-errors.csv", rejected_rows(id))


def _may_read(id: str) -> None:
    """The key may read the import's noun, or Forbidden; NotFound only for who may read any."""
    held = g.caller.scopes
    if not any(rights.allows(held, f"{noun}s:read") for noun in NOUNS):
        detail = "this key lacks the right to read what was imported"
        raise Forbidden(detail, "missing_scope", scope=f"{NOUNS[0]}s:read")
    rights.require(held, [f"{Import.find(id).noun}s:read"])
