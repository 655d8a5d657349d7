"""Keyset pages of records (D3): always tie-broken by id, so that no page loses or repeats a row.

A page has at most `limit` records, and at most MAX_PAGE_BYTES: large records come fewer at a time,
and the cursor goes on behind the last of them.
"""

import base64
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import orjson

from crm.errors import Malformed
from crm.records.conditions import OF_LIST, Condition, ordered
from crm.records.custom import fields as custom_fields
from crm.records.deletions import MERGED_INTO, of_deletion
from crm.records.fields import Id, Integer, Number
from crm.records.finished_json import without_keys
from crm.records.list_plans import Listing, Plan, join_conditions, own_records
from crm.records.parameters import Query, Sort
from crm.records.retention import KEPT_SECONDS
from crm.records.views import RecordView
from crm.storage.dialect import is_sqlite
from crm.storage.reading import BoundedRows
from crm.storage.session import time_before

MAX_INTEGER = (1 << 63) - 1  # that a column can store
MAX_PAGE_BYTES = 4 << 20  # of the stored values; one record is always shown


@dataclass(slots=True)
class Page:
    """A page as it is answered: its records, the cursor of the next one, and more of `meta`.

    The records are dicts, or `orjson.Fragment`s of finished JSON.
    """

    records: list[Any]
    next_cursor: str | None = None
    meta: dict[str, Any] = field(default_factory=dict)


def page(
    view: RecordView,
    query: Query,
    sort: Sort,
    where: str = "",
    params: Iterable[Any] = (),
    index: str = "",
    *,
    as_json: bool = False,
) -> Page:
    """Read the page of a list that the query asks for.

    where, params: an SQL condition that narrows the list beforehand. index: that by which the few
    records of the condition are read, for tables of parts. as_json: whether the records may be
    finished JSON. Raises InvalidCursor.
    """
    params = [*params]
    query.list_key = (view.table, where, *params)
    conditions = [*query.conditions, *own_records(view.table)]
    if where:
        conditions.insert(0, Condition(where, params, OF_LIST + where, in_order=True, walks=index))
    live = Condition(view.live)
    if query.include_deleted:
        live = Condition("(deleted_at IS NULL OR deleted_at >= ?)", [time_before(KEPT_SECONDS)])
    name, order = query.sort.removeprefix("-"), sort.expression(query)
    # PostgreSQL compares a column with a value of its own type only.
    wire = query.order.wire if query.order else view.schema.fields[name]
    query.sorts_numbers = isinstance(wire, (Id, Integer, Number))
    last = read_cursor(query) if query.cursor else None
    listing = Listing(view, query, sort, conditions, last)
    plan = listing.choose_plan()
    meta = {}
    if query.total:
        meta["total"] = listing.count_records(live, plan)

    added = "" if name == "id" else f", {order}"
    if query.include_deleted:
        into = of_deletion(MERGED_INTO, view.table)
        added += f", deleted_at, updated_at, CASE WHEN deleted_at IS NOT NULL THEN ({into}) END"
    as_json = as_json and bool(view.json) and not query.include_deleted and is_sqlite()
    columns = f"{view.json}, {view.source}.id" if as_json else view.columns
    if as_json and (hidden := custom_fields.current().hidden.get(f"{view.table}s")):
        columns = without_keys(columns, hidden)
    page_rows = BoundedRows(query.limit + 1, MAX_PAGE_BYTES)
    _read_rows(page_rows, f"SELECT {columns}{added} FROM ", query, order, live, plan, last)
    rows = page_rows.rows
    has_more = page_rows.is_cut or len(rows) > query.limit
    del rows[query.limit :]
    width = 2 if as_json else len(view.fields)  # behind which is the order's value
    if as_json:
        records: list[Any] = [orjson.Fragment(row[0]) for row in rows]
    else:
        records = view.of_rows([row[:width] for row in rows] if added else rows)
    next_cursor = None
    if has_more:
        id = rows[-1][1] if as_json else int(records[-1]["id"])
        next_cursor = build_cursor(query, id if name == "id" else rows[-1][width], id)
    if query.include_deleted:
        records = [hide_deleted(*pair) for pair in zip(records, rows, strict=True)]
    return Page(records, next_cursor, meta)


def _read_rows(
    page_rows: BoundedRows,
    select: str,
    query: Query,
    order: str,
    live: Condition,
    plan: Plan,
    last: tuple[Any, int] | None,
) -> None:
    """Read the rows of a page, and one more if there are more."""
    descends = query.sort.startswith("-")
    sign = "<" if descends else ">"
    order, id_column = plan.order or (order, "id")

    def read(order: str, *conditions: Condition, of: Plan = plan) -> None:
        where, params = join_conditions([live, *conditions])
        by = ordered(order, descends, id_column if of is plan else "id")
        sql = f"{select}{of.table} WHERE {where} ORDER BY {by} LIMIT "
        if params:
            page_rows.read(f"{sql}?", [*params, page_rows.remaining])
        else:  # PostgreSQL plans it once
            page_rows.read(f"{sql}{page_rows.remaining}", ())

    value, id = last or (None, 0)
    beyond = Condition(f"{id_column} {sign} ?", [id])
    is_in_rest = last is not None and plan.rest and value in custom_fields.ENDS
    if last is None or is_in_rest:
        if not is_in_rest:
            read(order, *plan.where())
    elif order == "id":
        read(order, *plan.where(beyond))
    else:
        # Of `(order, id) > (?, ?)` the order alone would be looked up, and all records of one value
        # be walked over from there: 50,000 that were imported in one second. So these are first.
        same = Condition(f"{order} = ?", [value])
        read(id_column, same, *plan.where(beyond))
        if page_rows.remaining:
            further = Condition(f"{order} {sign} ?", [value])
            read(order, further, *plan.where())
    if plan.rest and page_rows.remaining:
        behind = [Condition(f"id {sign} ?", [id])] if is_in_rest else []
        read("id", *behind, *plan.rest.where(), of=plan.rest)


def hide_deleted(record: dict[str, Any], row: tuple) -> dict[str, Any]:
    """The id and the times of a deleted record; a live one as it is (D3).

    row: its row, which ends in deleted_at, updated_at and the record that it was merged into.
    """
    deleted_at, updated_at, merged_into = row[-3:]
    if deleted_at is None:
        return record
    deleted = {"id": record["id"], "deleted_at": deleted_at, "updated_at": updated_at}
    return deleted | ({"merged_into": merged_into} if merged_into else {})


class InvalidCursor(Malformed):
    """The cursor is no cursor, or one of a list with other filters."""

    code = "invalid_cursor"
    detail = "this cursor belongs to another list: start without one"


def build_cursor(query: Query, value: Any, id: int) -> str:
    """The cursor of the records behind one with this id and this value of the order."""
    text = orjson.dumps([query.fingerprint, value, id])
    return base64.urlsafe_b64encode(text).rstrip(b"=").decode()


def read_cursor(query: Query) -> tuple[Any, int]:
    """The order's value and the id of the last record of the page before; raises InvalidCursor."""
    fingerprint, value, id = decode_cursor(query.cursor)
    fits = _is_integer(value) if query.sorts_numbers else type(value) is str
    if fingerprint != query.fingerprint or not fits:
        raise InvalidCursor
    return value, id


def decode_cursor(text: str) -> tuple[Any, Any, int]:
    """The fingerprint, the value and the id of a cursor, which may be any; raises InvalidCursor."""
    try:
        padded = text + "=" * (-len(text) % 4)
        fingerprint, value, id = orjson.loads(base64.b64decode(padded, b"-_", validate=True))
    except (ValueError, TypeError):
        raise InvalidCursor from None
    if not _is_integer(id):
        raise InvalidCursor
    return fingerprint, value, id


def _is_integer(value: Any) -> bool:
    """Whether it is an integer that a column can store."""
    return type(value) is int and abs(value) <= MAX_INTEGER
