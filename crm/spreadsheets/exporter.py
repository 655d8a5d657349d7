"""Exporting records as files that an import takes as they are, and the operation for it (D9)."""

from collections import defaultdict
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from functools import cache
from types import SimpleNamespace
from typing import IO, Any

from flask import Response

from crm.access import rights
from crm.api.blueprints import Blueprint
from crm.errors import Fault, Invalid
from crm.json import dumps, loads
from crm.records import fields, parameters, queries
from crm.records.conditions import Condition
from crm.records.custom.fields import CustomField
from crm.records.list_plans import Listing, Plan, join_conditions, own_records
from crm.records.parameters import Query
from crm.spreadsheets import csv_format
from crm.spreadsheets.csv_columns import FileColumn, Write
from crm.spreadsheets.file_styles import FileStyle, write_workbook
from crm.spreadsheets.labels import LANGUAGES
from crm.spreadsheets.references import References
from crm.spreadsheets.resource import SOURCE_TENANT, ImportableResource
from crm.spreadsheets.vcards import VERSIONS, write_cards
from crm.storage.clocks import today
from crm.storage.dialect import selected
from crm.storage.heavy_work import heavy_work
from crm.storage.reading import SpooledFile, batches, snapshot
from crm.storage.session import current_session, value_of_all

CSV = "text/csv"
LIVE = Condition("deleted_at IS NULL")
MAX_WORKBOOK_ROWS = 100_000
XLSX = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"
VCARD = "text/vcard"
WITH_CARDS = ("clients", "leads")
TYPES = {"csv": f"{CSV}; charset=utf-8", "vcf": f"{VCARD}; charset=utf-8", "xlsx": XLSX}
DIALECT = parameters.Option(
    fields.Choice("excel"), "`excel`: BOM, semicolons, decimal comma, no formulas."
)
EXPORT_OPTIONS = {
    "dialect": DIALECT,
    "for": parameters.Option(fields.Choice("people"), "`people`: as Excel shows it to people."),
    "language": parameters.Option(fields.Choice(*LANGUAGES), "That of people, by default `uk`."),
    "format": parameters.Option(fields.Choice("csv", "xlsx"), "`xlsx`: a workbook for people."),
}
LIST_ONLY = {"limit", "cursor", "total", "include_deleted", "expand"}  # of a list's parameters

MayRead = Callable[[str], bool]  # may the reader see the resource of this plural?
Writers = list[tuple[int, Write]]  # (place of a column, what makes its cells)
Cells = Sequence[str | None]


def export_csv(
    to: IO[bytes],
    resource: ImportableResource,
    plan: Plan | None = None,
    order: str = "",
    excel: bool = False,
    may_read: MayRead = lambda plural: True,
    style: FileStyle | None = None,
    guards: bool = False,
    cards: str = "",
) -> None:
    """Write live records as a file of all columns: all, or those of a plan.

    `style`: that of a file for people, None for one for programs. `guards`: as in write_to().
    `cards`: as vCards of this version instead, of clients or leads.

    Records are written in batches, all as of one moment. A record with parts has a row for each;
    only its keys are repeated. Deleted records are named nowhere. Of resources that the reader may
    not read, the file has only ids (D12).
    """
    references, resource = References(), resource.of_tenant()
    unused = resource.unused_columns()
    record_columns = [one for one in resource.columns if one.sql and one.name not in unused]
    part_columns: Sequence[FileColumn] = resource.part_columns
    if cards:
        changed = FileColumn("updated_at", f"{resource.singular}.updated_at", lambda cell, _: cell)
        record_columns.insert(0, changed)
    if style is not None:
        excel = True
        record_columns = style.columns(resource.singular, record_columns)
        part_columns = style.columns(resource.part, part_columns)
    own = [place for place, column in enumerate(record_columns) if column.custom]
    expressions = [
        selected(column.sql, f"cell_{place}")
        for place, column in enumerate(record_columns)
        if place not in own[1:]  # all are in one
    ]
    if resource.part:
        expressions.append(f"{resource.singular}.id")
    plan = plan or Plan(resource.singular, [])
    where, params = join_conditions([LIVE, *plan.where()])
    sql = (
        f"SELECT {', '.join(expressions)} FROM {plan.table}"
        f" WHERE {where} ORDER BY {order or resource.export_order}"
    )
    writers = _own_writers(resource, record_columns, references, excel, may_read)
    part_writers = _writers(part_columns, excel)

    def rows() -> Generator[Cells, None, None]:
        for records in batches(sql, params):
            columns = list(zip(*records, strict=True))
            parts = _parts(resource, columns.pop(), part_writers) if resource.part else None
            if own:
                own_fields = [column.custom for column in record_columns if column.custom]
                columns[own[0] : own[0] + 1] = _own_values(own_fields, columns[own[0]])
            yield from _rows(resource, record_columns, _write_cells(columns, writers), parts)

    # One snapshot for all batches: a record changed meanwhile is neither repeated nor left out.
    columns = [one for one in resource.all_columns if one.sql and one.name not in unused]
    with snapshot(), closing(rows()) as cells:
        if cards:
            names = ["updated_at", *(column.name for column in columns)]
            write_cards(to, resource.singular, names, cells, cards)
            return
        if style is not None and style.is_workbook:
            _require_workbook_rows(resource, plan)
            write_workbook(to, style, columns, cells)
            return
        header = [style.header(column) if style else column.name for column in columns]
        by_name = dict(zip(header, columns, strict=True))
        texts = [name for name, column in by_name.items() if column.is_text]
        kept = [name for name in texts if style and not by_name[name].is_date]
        csv_format.write_to(to, header, cells, excel, texts, guards, kept)


def _require_workbook_rows(resource: ImportableResource, plan: Plan) -> None:
    """Raise Invalid `too_many_rows` if a workbook does not take the records' rows."""
    most, table = MAX_WORKBOOK_ROWS + 1, resource.singular
    conditions = [condition.of_all for condition in plan.where()]
    where, params = join_conditions([LIVE, *conditions])
    all_rows = f"SELECT id FROM {table} WHERE {where} LIMIT {most}"
    # Those of one condition alone are counted in its index, in a tenth of the time.
    counted = [
        (f"{ids.format(table=table, live=LIVE.sql)} LIMIT {most}", of_ids[: ids.count("?")])
        for _, of_ids, ids, *_ in conditions
        if ids and not resource.part_record
    ]
    if resource.part_record is not None:
        part = resource.part_record._meta.table_name
        joined = f"LEFT JOIN {part} ON {part}.{table}_id = record.id LIMIT {most}"
        all_rows = f"SELECT 1 FROM ({all_rows}) AS record {joined}"
    if all(
        value_of_all(f"SELECT count(*) FROM ({sql}) AS file_row", params) == most
        for sql, params in (*counted, (all_rows, params))
    ):
        detail = f"a workbook has at most {MAX_WORKBOOK_ROWS} rows: choose csv"
        raise Invalid(Fault("/format", "too_many_rows", detail), "too_many_rows")


def _own_writers(
    resource: ImportableResource,
    columns: list[FileColumn],
    references: References,
    excel: bool,
    may_read: MayRead,
) -> Writers:
    names = resource.reference_names(references)
    names[SOURCE_TENANT] = lambda _: references.own_tenant
    writers = dict(_writers(columns, excel))
    for place, column in enumerate(columns):
        if column.shows and not may_read(column.shows):
            # The id of a user has no column of its own, other records' ids have one beside this.
            has_no_id = column.shows == "users" or column.custom
            writers[place] = str if has_no_id else lambda _: ""
        elif column.name in names:
            writers[place] = cache(names[column.name])  # few are named, again and again
    return list(writers.items())


def _writers(columns: Sequence[FileColumn], excel: bool) -> Writers:
    """Return functions that turn stored values into cells, for columns that need it."""
    return [(place, column.write(excel)) for place, column in enumerate(columns) if column.write]


def _write_cells(columns: Sequence[Sequence[Any]], writers: Writers) -> Iterator[Cells]:
    """Turn columns of stored values into rows of cells; None is an empty cell."""
    # Column by column: most have nothing to convert, and csv writes their values as they are.
    cells = list(columns)
    for place, write in writers:
        values = columns[place]
        if None in values:
            cells[place] = [None if value is None else write(value) for value in values]
        else:
            cells[place] = list(map(write, values))
    return zip(*cells, strict=True)


def _own_values(
    own_fields: list[CustomField], stored: Sequence[str | None]
) -> Iterator[tuple[Any, ...]]:
    """The stored values of each of the tenant's own fields."""
    records = [loads(text) if text else {} for text in stored]
    for field in own_fields:
        read = field.wire.variant(incoming=False, required=False).read  # what was checked once
        values = [record.get(field.key) for record in records]
        yield tuple(None if value is None else read(value) for value in values)


def _parts(resource: ImportableResource, ids: Sequence[int], writers: Writers) -> list[list[Cells]]:
    """The cells of the parts of each record."""
    by_record: dict[int, list[Cells]] = defaultdict(list)
    parts = resource.parts_of(dumps(ids).decode())
    if parts:
        record_ids, *columns = zip(*parts, strict=True)
        for id, row in zip(record_ids, _write_cells(columns, writers), strict=True):
            by_record[id].append(row)
    return [by_record.get(id, []) for id in ids]


def _rows(
    resource: ImportableResource,
    columns: list[FileColumn],
    records: Iterator[Cells],
    parts: list[list[Cells]] | None,
) -> Iterator[Cells]:
    """Yield the rows of a file: the record's cells, those of a part, and the source of the ids."""
    if parts is None:
        yield from records
        return
    repeated = (*resource.key_columns, SOURCE_TENANT)
    is_repeated = [column.name in repeated for column in columns]
    no_part = [""] * len(resource.part_columns)
    for cells, part_rows in zip(records, parts, strict=True):
        for number, part in enumerate(part_rows or [no_part]):
            if number == 1:
                pairs = zip(cells, is_repeated, strict=True)
                cells = [cell if repeat else "" for cell, repeat in pairs]
            yield [*cells[:-1], *part, cells[-1]]


# The operation

_filters: dict[str, queries.Filter] = {}


def add_export(
    blueprint: Blueprint, resource: ImportableResource, list_filter: type[queries.Filter]
) -> None:
    """Add `GET /<plural>/export` to a resource's blueprint, with the parameters of its list."""
    plural = resource.plural
    _filters[plural] = _export_filter(resource, list_filter)

    @blueprint.operation(
        "GET",
        f"/{plural}/export",
        name=f"export_{plural}",
        about=f"Export {plural}, with the filters of the list.\n\nNeeds `{plural}:read`; users and"
        " others are told by their ids alone without the right to read them.",
        needs=(f"{plural}:read",),
        query=_filters[plural],
        kind="raw",
        media_type=f"{CSV} {XLSX}{f' {VCARD}' * (plural in WITH_CARDS)}",
    )
    def export_records(query: Query) -> Response:
        return export_response(resource, query, rights.can_read)


def export_filter_of(plural: str) -> queries.Filter:
    """The parameters that the export of a resource takes."""
    return _filters[plural]


def export_response(
    resource: ImportableResource, query: Query, may_read: MayRead, guards: bool = False
) -> Response:
    """The file of an export, to be saved; `guards`: as in write_to()."""
    sort: Any = export_filter_of(resource.plural).fields["sort"]
    order = sort.order_by(query)
    records: Any = SimpleNamespace(source=resource.singular, live=LIVE.sql)
    options, style = query.options, None
    kind, excel = options.get("format", "csv"), options.get("dialect") == "excel"
    cards = options.get("vcard_version", "4.0") if kind == "vcf" else ""
    if kind == "xlsx" or ("for" in options and kind == "csv"):
        style = FileStyle(options.get("language", LANGUAGES[0]), kind == "xlsx")

    def write(to: IO[bytes]) -> None:
        conditions = [*query.conditions, *own_records(resource.singular)]
        query.limit = MAX_WORKBOOK_ROWS  # It begins as soon as the first page of the list.
        plan = Listing(records, query, sort, conditions).choose_plan()
        if plan.rest:  # A page has these behind the others, a file all in one order.
            plan = Plan(plan.rest.table, conditions)
        export_csv(to, resource, plan, order, excel, may_read, style, guards, cards)

    name = resource.file_name
    if style is not None or cards:
        name = f"{resource.plural}-{today()}.{kind}"
    return written_response(name, write)


def written_response(name: str, write: Callable[[IO[bytes]], None]) -> Response:
    """A file to be saved, which `write` writes.

    It is written at full speed, so it shows one moment and a slow client holds neither a connection
    to the database nor memory. It is sent meanwhile, where the client sees if the response breaks
    off. Else the response begins after the end, so that every error has its status.
    """

    def write_in_turn(to: IO[bytes]) -> None:
        with heavy_work():
            write(to)

    return csv_response(name, SpooledFile(write_in_turn, current_session().streams_responses))


def csv_response(name: str, data: bytes | SpooledFile) -> Response:
    """A CSV file to be saved."""
    headers = {"Content-Disposition": f'attachment; filename="{name}"'}
    if isinstance(data, SpooledFile) and data.length is not None:
        headers["Content-Length"] = str(data.length)
    return Response(data, headers=headers, content_type=TYPES[name.rpartition(".")[2]])


def _export_filter(
    resource: ImportableResource, list_filter: type[queries.Filter]
) -> queries.Filter:
    """The parameters of the list and the dialect; an export has no pages and no deleted rows."""
    declared = list_filter().fields
    attributes: dict[str, Any] = {**EXPORT_OPTIONS}
    if resource.plural in WITH_CARDS:
        about = "`xlsx`: a workbook for people; `vcf`: vCards."
        attributes["format"] = parameters.Option(fields.Choice("csv", "vcf", "xlsx"), about)
        about = "Of vCards, by default 4.0; phones and Apple's Contacts read 3.0 alone."
        attributes["vcard_version"] = parameters.Option(fields.Choice(*VERSIONS), about)
    if resource.export_order == "id":  # in the order in which the records were made
        orders = {name: sql for name, sql in declared["sort"].orders.items() if name != "id"}
        attributes["sort"] = queries.RecordSort("id", **orders)
    name = list_filter.__name__.replace("Filter", "ExportFilter")
    export_filter: Any = type(name, (list_filter,), attributes)
    return export_filter(exclude=sorted(LIST_ONLY & export_filter().fields.keys()))
