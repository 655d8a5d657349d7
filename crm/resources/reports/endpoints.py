"""Endpoints of the reports, as JSON and as CSV."""

from functools import partial
from typing import Any

from flask import Response
from marshmallow import fields as ma

from crm.api.blueprints import Blueprint
from crm.api.envelopes import Open, Records
from crm.records import fields, parameters, queries
from crm.records.nested import NestedList
from crm.records.parameters import Query
from crm.records.schemas import RecordSchema
from crm.resources.clients.record import MONEY
from crm.resources.reports import periods
from crm.resources.reports.counting import ReportRow, amounts, count
from crm.resources.reports.declarations import REPORTS, TAKEN, Report
from crm.resources.reports.periods import Period
from crm.spreadsheets import csv_format
from crm.spreadsheets.exporter import CSV, csv_response
from crm.storage.heavy_work import heavy_work
from crm.values import as_number


class ReportFilter(queries.Filter):
    """The parameters of the reports; those of OF_LISTS are handed on to the lists they count."""

    since = parameters.Option(
        fields.Date(), "The first day. By default that of the month of `until`."
    )
    until = parameters.Option(fields.Date(), "The last day. By default that of this month.")
    pipeline_id = parameters.Option(fields.Id(), "Only deals of this pipeline.")
    currency = parameters.Option(fields.Currency(), "Only deals in this currency.")
    assigned_to = parameters.Option(
        fields.Text(18), "Only records of this user; `me`, `none` as in lists."
    )
    group_by = parameters.Option(
        fields.Text(64),
        "`custom.<key>`: count by this field of the tenant's own, a choice, flag or user by which"
        " lists are filtered. The funnel is counted for each value.",
    )
    sum = parameters.Option(
        fields.Text(64), "`custom.<key>`: sum this number or amount of the records, too."
    )
    format = parameters.Option(fields.Choice("json", "csv"), "By default `json`.")


OF_LISTS = ("pipeline_id", "currency", "assigned_to")

blueprint = Blueprint("reports", "What was won, lost and done, and what is expected.")


class ReportMetaSchema(RecordSchema):
    """What a report is of."""

    since = fields.Date(dump_only=True, allow_none=True)
    until = fields.Date(dump_only=True, allow_none=True)
    pipeline_id = fields.Id(dump_only=True, allow_none=True, about="The only one, if it is of one.")


class Sum(fields.Number):
    """A sum of any size."""

    def schema_type(self) -> dict[str, Any]:
        return {"type": "number"}


# Fields that a row has on request.
SUM = Sum(allow_none=False, about="With `sum`.")
OF_VALUE = {
    "value": fields.Text(255, about="With `group_by`."),
    "label": fields.Text(255, allow_none=False, about="Of the value, with `group_by`."),
}
REPORT_META = ReportMetaSchema.out("ReportMetaOut")


def filter_of(report: Report) -> ReportFilter:
    """The parameters of a report."""
    of_papers = ("pipeline_id", "assigned_to") if report.needs == ("papers:read",) else ()
    none = ("limit", "cursor", "total", *of_papers, *TAKEN.keys() - report.takes)
    return ReportFilter(exclude=none)


def read_total(name: str, query: Query) -> ReportRow:
    """The total of a report, not counted yet, of what the parameters of a request select."""
    options = query.options
    since, until = options.get("since", ""), options.get("until", "")
    if name != "forecast":
        until = until or periods.named("month")[0].until
        since = since or f"{until[:7]}-01"
    filters = {name: str(options[name]) for name in OF_LISTS if name in options}
    return ReportRow(Period(since, until), filters)


def show_row(report: Report, row: ReportRow) -> dict[str, Any]:
    """A row as it is on the wire."""
    label = {report.label: row.label} if report.label else {}
    return {report.key: row.key, **label, **show_numbers(report, row)}


def show_numbers(report: Report, row: ReportRow) -> dict[str, Any]:
    """The numbers of a row, or of the total, as they are on the wire."""
    shown: dict[str, Any] = {}
    for number in report.numbers:
        totals = row.total(number)
        if number.value:
            shown[number.name] = as_number(sum(totals.sums.values()))
            continue
        shown[number.name] = totals.count
        if number.sums.endswith("_amounts"):
            shown[number.sums] = amounts(totals.sums)
        elif number.sums:
            shown[number.sums] = sum(totals.sums.values())
    return shown | row.more


def write_csv(report: Report, rows: list[ReportRow]) -> bytes:
    """The rows as a CSV file, in which amounts have a column for each currency."""
    shown = [show_row(report, row) for row in rows]
    columns: dict[str, list[str | None]] = {}
    for name in _key_fields(report) | _number_fields(report):
        values = [row[name] for row in shown]
        if not name.endswith("_amounts"):
            columns[name] = [None if value is None else str(value) for value in values]
            continue
        sums = [{one["currency"]: f"{one['amount']:.2f}" for one in value} for value in values]
        for code in sorted({code for by_code in sums for code in by_code}):
            columns[f"{name}_{code}"] = [by_code.get(code) for by_code in sums]
    return csv_format.write([*columns], zip(*columns.values(), strict=True), guards=True)


def _key_fields(report: Report) -> dict[str, Any]:
    own = ("value", "label") if report.by else ()
    names = filter(None, (report.key, report.label, *own))
    return {name: fields.Text(255, dump_only=True, allow_none=name == report.key) for name in names}


def _number_fields(report: Report) -> dict[str, Any]:
    names = [name for number in report.numbers for name in (number.name, number.sums) if name]
    return {name: _number_field(name) for name in (*names, *report.more)}


def _number_field(name: str) -> Any:
    if name.endswith("_amounts"):
        return NestedList(MONEY, dump_only=True)
    return fields.Integer(dump_only=True, allow_none=name == "average_seconds")


def _answer(name: str, report: Report) -> Open:
    """The schema of a report's response."""
    title, numbers = name.title().replace("-", ""), _number_fields(report)
    sums = {f"{number.name}_sum": SUM for number in report.numbers if "sum" in report.takes}
    own = OF_VALUE if "group_by" in report.takes else {}
    parts = {
        "data": Records(_shown(f"{title}Row", _key_fields(report) | numbers, own | sums)),
        "total": ma.Nested(_shown(f"{title}Total", numbers, sums), required=True),
        "meta": ma.Nested(REPORT_META, required=True),
    }
    return type(f"{title}Report", (Open,), parts)()


def _shown(name: str, fields: dict[str, Any], optional: dict[str, Any]) -> RecordSchema:
    """The schema of fields of a report, and of those that it has on request."""
    shown = {
        field_name: field.variant(incoming=False, required=field_name not in optional)
        for field_name, field in (fields | optional).items()
    }
    return type(f"{name}Out", (RecordSchema,), shown)()


def _add_endpoint(name: str, report: Report) -> None:
    scopes = " and ".join(f"`{scope}`" for scope in report.needs)
    # What a row has without its own key: that of a custom field takes its place.
    replaced = {report.key: None, **dict.fromkeys(filter(None, [report.label]), "")}

    @blueprint.operation(
        "GET",
        f"/reports/{name}",
        name=f"get_{name.replace('-', '_')}_report",
        about=f"{report.title}\n\nNeeds {scopes}. {report.about}",
        needs=report.needs,
        query=filter_of(report),
        answer=partial(_answer, name, report),
        media_type=CSV,
    )
    def get_report(query: Query) -> dict[str, Any] | Response:
        total = read_total(name, query)
        shown = report.customized(query.options)
        with heavy_work():
            rows = count(name, total, shown)
        if query.options.get("format") == "csv":
            return csv_response(f"{name}.csv", write_csv(shown, rows))
        since, until = total.period
        pipeline_id = total.filters.get("pipeline_id")
        meta = {"since": since or None, "until": until or None, "pipeline_id": pipeline_id}
        data = [replaced | show_row(shown, row) for row in rows]
        return {"data": data, "total": show_numbers(shown, total), "meta": meta}


for _name, _report in REPORTS.items():
    _add_endpoint(_name, _report)
