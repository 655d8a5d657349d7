"""Keyset pages of records (D3): always tie-broken by id, so that no page loses or repeats a row.

A page has at most `limit` records, and at most PAGE_BYTES: large records come fewer at a time, and
the cursor goes on behind the last of them.
"""

import base64
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import orjson

from crm.errors import Malformed
from crm.records import list_plans
from crm.records.conditions import OF_LIST, Condition
from crm.records.list_plans import Plan, joined
from crm.records.parameters import Query, Sort
from crm.records.retention import KEPT_DAYS
from crm.records.views import RecordView
from crm.tenancy.database import time_before
from crm.tenancy.reading import BoundedRows

PAGE_BYTES = 4 << 20  # of the stored values of a page's records; one record is always told


class InvalidCursor(Malformed):
    code = "invalid_cursor"
    detail = "this cursor belongs to another list: start without one"


@dataclass(slots=True)
class Page:
    """A page as it is answered: its records, the cursor of the next one, and more of `meta`."""

    records: list[Any]
    next_cursor: str | None = None
    meta: dict[str, Any] = field(default_factory=dict)


def page(
    shape: RecordView, query: Query, sort: Sort, where: str = "", params: Iterable[Any] = ()
) -> Page:
    """The page of a list that the query asks for; `where` narrows the list beforehand."""
    params = [*params]
    query.of = (shape.table, where, *params)
    conditions = [*query.conditions]
    if where:
        conditions.insert(0, Condition(where, params, OF_LIST + where, in_order=True))
    live = Condition(shape.live)
    if query.include_deleted:
        since = time_before(KEPT_DAYS * 86_400)
        live = Condition("(deleted_at IS NULL OR deleted_at >= ?)", [since])
    plan = list_plans.choose(shape, query, sort, conditions)
    meta = {}
    if query.total:
        meta["total"] = list_plans.count(shape, query, sort, live, conditions, plan)

    name = query.sort.removeprefix("-")
    order = sort.orders[name]
    added = "" if name == "id" else f", {order}"
    if query.include_deleted:
        added += ", deleted_at, updated_at"
    select = f"SELECT {shape.columns}{added} FROM {plan.table}"
    page_rows = BoundedRows(query.limit + 1, shape.row_bytes, PAGE_BYTES)
    _read(page_rows, select, query, sort, live, plan)
    found = page_rows.rows
    more = page_rows.is_cut
    if len(found) > query.limit:
        more = True
        del found[-1]
    width = len(shape.fields)
    records = shape.of_rows([values[:width] for values in found] if added else found)
    if query.include_deleted:
        records = [tombstone(*pair) for pair in zip(records, found, strict=True)]
    following = None
    if more:
        id = int(records[-1]["id"])
        following = _cursor(query, id if name == "id" else found[-1][width], id)
    return Page(records, following, meta)


def _read(
    found: BoundedRows, select: str, query: Query, sort: Sort, live: Condition, plan: Plan
) -> None:
    """Read the rows of a page, and one more if there are more."""
    descends = query.sort.startswith("-")
    name, sign = query.sort.removeprefix("-"), "<" if descends else ">"
    order = sort.orders[name]

    def read(by: str, *conditions: Condition) -> None:
        where, params = joined([live, *conditions])
        sql = f"{select} WHERE {where} ORDER BY {sort.by(by)} LIMIT ?"
        found.read(sql, [*params, found.remaining])

    if not query.cursor:
        read(query.sort, *plan.where())
        return
    value, id = _position(query)
    beyond = Condition(f"id {sign} ?", [id])
    if name == "id":
        read(query.sort, *plan.where(beyond))
        return
    # Of `(order, id) > (?, ?)` SQLite looks up the order alone, and walks from there over all
    # records of one value: 50,000 that were imported in one second. So these are read first.
    same = Condition(f"{order} = ?", [value])
    read("-id" if descends else "id", same, *plan.where(beyond))
    if found.remaining:
        further = Condition(f"{order} {sign} ?", [value])
        read(query.sort, further, *plan.where())


def tombstone(record: dict[str, Any], values: tuple) -> dict[str, Any]:
    """What a follower sees of a deleted record; a live one as it is. `values` end in deleted_at
    and updated_at."""
    deleted_at, updated_at = values[-2:]
    if deleted_at is None:
        return record
    return {"id": record["id"], "deleted_at": deleted_at, "updated_at": updated_at}


def _cursor(query: Query, value: Any, id: int) -> str:
    text = orjson.dumps([query.fingerprint, value, id])
    return base64.urlsafe_b64encode(text).rstrip(b"=").decode()


def _position(query: Query) -> tuple[Any, int]:
    try:
        padded = query.cursor + "=" * (-len(query.cursor) % 4)
        fingerprint, value, id = orjson.loads(base64.b64decode(padded, b"-_", validate=True))
    except (ValueError, TypeError):
        raise InvalidCursor from None
    fits = type(value) is str or _is_whole(value)
    if fingerprint != query.fingerprint or not _is_whole(id) or not fits:
        raise InvalidCursor
    return value, id


def _is_whole(part: Any) -> bool:
    return type(part) is int and abs(part) < 1 << 63
