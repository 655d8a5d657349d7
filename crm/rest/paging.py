"""Keyset pages of records (D3): always tie-broken by id, so that no page loses or repeats a row."""

import base64
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import orjson

from crm.errors import Malformed
from crm.rest.filters import Query, Sort
from crm.rest.shapes import Shape
from crm.tenancy.database import row, rows, time_before
from crm.tenancy.retention import KEPT_DAYS


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
    shape: Shape, query: Query, sort: Sort, where: str = "", params: Iterable[Any] = ()
) -> Page:
    """The page of a list that the query asks for; `where` narrows the list beforehand."""
    params = [*params]
    query.of = (shape.table, where, *params)
    conditions, params = ([where] if where else []), params + query.params
    if not query.include_deleted:
        conditions.append(shape.live)
    conditions += query.conditions
    if query.include_deleted:
        conditions.append("(deleted_at IS NULL OR deleted_at >= ?)")
        params.append(time_before(KEPT_DAYS * 86_400))
    meta = {"total": _total(shape, conditions, params)} if query.total else {}

    descending, name = query.sort.startswith("-"), query.sort.removeprefix("-")
    order = sort.orders[name]
    if query.cursor:
        value, id = _position(query)
        sign = "<" if descending else ">"
        conditions.append(f"id {sign} ?" if name == "id" else f"({order}, id) {sign} (?, ?)")
        params += [id] if name == "id" else [value, id]
    added = "" if name == "id" else f", {order}"
    if query.include_deleted:
        added += ", deleted_at, updated_at"
    found = rows(
        f"SELECT {shape.columns}{added} FROM {shape.table} WHERE {' AND '.join(conditions)}"
        f" ORDER BY {sort.by(query.sort)} LIMIT ?",
        [*params, query.limit + 1],
    )
    more = len(found) > query.limit
    if more:
        del found[-1]
    of_row, width = shape.of_row, len(shape.fields)
    if query.include_deleted:
        records = [tomb(of_row(*values[:width]), *values[-2:]) for values in found]
    elif added:
        records = [of_row(*values[:width]) for values in found]
    else:
        records = [of_row(*values) for values in found]
    following = None
    if more:
        id = int(records[-1]["id"])
        following = _cursor(query, id if name == "id" else found[-1][width], id)
    return Page(records, following, meta)


def _total(shape: Shape, conditions: list[str], params: list[Any]) -> int:
    sql = f"SELECT count(*) FROM {shape.table} WHERE {' AND '.join(conditions)}"
    return row(sql, params)[0]


def tomb(record: dict[str, Any], deleted_at: str | None, updated_at: str) -> dict[str, Any]:
    """What a follower sees of a deleted record; a live one as it is."""
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
