"""Endpoints of moving in and out: each noun's `import` and `export`, as products have them (D9)."""

from typing import Any, BinaryIO

from flask import Response, g

from crm.access import rights
from crm.api.operations import Blueprint, named
from crm.records.queries import Filter, Query, ResourceFilter, Sort
from crm.resources import csv_files, moving
from crm.resources.clients.endpoints import ClientFilter
from crm.resources.csv_files import CSV, IMPORT_FILTER, ImportedOut, as_file
from crm.resources.deals.endpoints import DealFilter
from crm.resources.leads.endpoints import LeadFilter
from crm.resources.moving.table import Table
from crm.resources.tasks import TaskFilter

FILTERS: dict[str, type[ResourceFilter]] = {
    "leads": LeadFilter,
    "clients": ClientFilter,
    "deals": DealFilter,
    "tasks": TaskFilter,
}


def _export_filter(of: type[ResourceFilter]) -> Filter:
    listed: Sort = of._declared_fields["sort"]
    orders = {name: sql for name, sql in listed.orders.items() if name != "id"}
    return csv_files.export_filter(of, Sort("id", **orders))  # as they came: so they move in


EXPORT_FILTERS = {plural: _export_filter(of) for plural, of in FILTERS.items()}

blueprint = Blueprint("moving", "CSV files of leads, clients, deals and tasks, in and out.")


def _add_endpoints(plural: str, chosen: Filter) -> None:
    about_rows = "rows with a known id or external_id change records, others create them"
    columns = ", ".join(f"`{column.name}`" for column in moving.MOVING[plural].all_columns)
    also = ", to convert leads `deals:write` too" if plural == "leads" else ""

    @blueprint.post(f"/{plural}/import")
    @blueprint.needs(f"{plural}:write")
    @blueprint.arguments(IMPORT_FILTER, location="query")
    @blueprint.upload(csv_files.sent_by(lambda data, excel: moving.read(data, plural, excel)))
    @blueprint.answer(ImportedOut())
    @named(
        f"import_{plural}",
        f"Import {plural}: {about_rows}.\n\nNeeds `{plural}:write`{also}, and its"
        f" report `{plural}:read`. Columns: {columns}.",
    )
    def import_file(
        query: Query, sent: tuple[str | None, Table]
    ) -> tuple[dict[str, Any], dict[str, str]]:
        file_name, sheet = sent
        if plural == "leads" and sheet.names("deal_id", "deal_external_id"):
            rights.require(g.caller.scopes, ["deals:write"])  # as to convert a lead
        return csv_files.answer_of(moving.import_csv(sheet, file_name, csv_files.is_dry(query)))

    @blueprint.get(f"/{plural}/export")
    @blueprint.needs(f"{plural}:read")
    @blueprint.arguments(chosen, location="query")
    @blueprint.raw(CSV)
    @named(
        f"export_{plural}",
        f"Export {plural}, with the filters of the list.\n\nNeeds `{plural}:read`; users and others"
        " are told by their ids alone without the right to read them.",
    )
    def export_file(query: Query) -> Response:
        def export(to: BinaryIO, *wanted: Any) -> None:
            moving.export_csv(to, plural, *wanted, _may_read)

        data = csv_files.export_of(query, chosen.fields["sort"], export)
        return as_file(moving.FILES[plural], data)


def _may_read(plural: str) -> bool:
    return rights.allows(g.caller.scopes, f"{plural}:read")


for _plural, _chosen in EXPORT_FILTERS.items():
    _add_endpoints(_plural, _chosen)
