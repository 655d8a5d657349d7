"""Reading lists (D3): filters, sorting and keyset pages, each from a documented parameter.

A `Filter` schema names the query parameters of a list. Every field of it reads the texts that came
and gives an SQL condition with its parameters; conditions are joined by AND, and the texts that
come of it are few enough for SQLite to keep them prepared.
"""

import base64
import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson
from marshmallow import Schema
from werkzeug.datastructures import MultiDict

from crm import values
from crm.errors import CRMError, Fault, Invalid
from crm.rest import fields
from crm.rest.shapes import Shape
from crm.tenancy import search
from crm.tenancy.database import row, rows, time_before, visit
from crm.tenancy.records import key
from crm.tenancy.retention import KEPT_DAYS

DEFAULT_LIMIT, MOST = 50, 200


class InvalidCursor(CRMError):
    code = "invalid_cursor"
    detail = "this cursor belongs to another list: start without one"


@dataclass(slots=True)
class Query:
    """The parameters of one request, read by their `Filter` schema."""

    conditions: list[str] = field(default_factory=list)
    params: list[Any] = field(default_factory=list)
    limit: int = DEFAULT_LIMIT
    cursor: str = ""
    sort: str = ""
    total: bool = False
    include_deleted: bool = False
    expand: tuple[str, ...] = ()
    chosen: dict[str, Any] = field(default_factory=dict)
    sent: tuple[tuple[str, tuple[str, ...]], ...] = ()

    @property
    def fingerprint(self) -> str:
        """Tells this list from others, so that a cursor of one is refused by another."""
        kept = [pair for pair in self.sent if pair[0] not in ("cursor", "limit", "total")]
        return hashlib.blake2b(repr(sorted(kept)).encode(), digest_size=6).hexdigest()


@dataclass(slots=True)
class Page:
    """A page as it is answered: its records, the cursor of the next one, and more of `meta`."""

    records: list[Any]
    next_cursor: str | None = None
    meta: dict[str, Any] = field(default_factory=dict)


class Parameter(fields.Field):
    """A query parameter. `repeated` ones may come more than once."""

    repeated = False
    inner: fields.Field

    def __init__(self, inner: fields.Field | None = None, column: str = "", about: str = ""):
        super().__init__(nullable=False, about=about, column=column)
        if inner is not None:
            self.inner = inner.variant(incoming=False, required=False)

    def apply(self, sent: list[str], query: Query) -> None:
        """Take what was sent into the query; raises values.Unfit."""
        sql, params = self.condition(sent, self.column or self.name)
        query.conditions.append(sql)
        query.params.extend(params)

    def condition(self, sent: list[str], column: str) -> tuple[str, Sequence[Any]]:
        """(SQL, parameters) of the texts that came."""
        raise NotImplementedError

    def schema_type(self) -> dict[str, Any]:
        return self.inner.schema_type()

    def json_schema(self) -> dict[str, Any]:
        found = {**self.schema_type(), **({"description": self.about} if self.about else {})}
        if not self.repeated:
            return found
        about = found.pop("description", None)
        return {"type": "array", "items": found, **({"description": about} if about else {})}


class Equals(Parameter):
    """Equal to any of the values sent."""

    repeated = True

    def condition(self, sent: list[str], column: str) -> tuple[str, Sequence[Any]]:
        return _among(column, [self.inner.read(text) for text in sent])


class Reference(Equals):
    """One of these records; an unknown or malformed id matches nothing (D2)."""

    def __init__(self, column: str = "", about: str = ""):
        super().__init__(fields.Id(nullable=False), column, about)

    def condition(self, sent: list[str], column: str) -> tuple[str, Sequence[Any]]:
        return _among(column, [key(text) for text in sent])


class Ids(Reference):
    """Records by id, also several in one value with commas between."""

    def condition(self, sent: list[str], column: str) -> tuple[str, Sequence[Any]]:
        ids = [id for text in sent for id in text.split(",")]
        if len(ids) > MOST:
            raise values.Unfit("too_many", f"at most {MOST} ids")
        return super().condition(ids, column)

    def schema_type(self) -> dict[str, Any]:
        return {"type": "string"}


class User(Reference):
    """A user's id, `me` (the key's user) or `none`."""

    def condition(self, sent: list[str], column: str) -> tuple[str, Sequence[Any]]:
        users = [str(visit().user_id) if text == "me" else text for text in sent if text != "none"]
        if not users:
            return f"{column} IS NULL", ()
        sql, params = super().condition(users, column)
        return (f"({column} IS NULL OR {sql})" if len(users) < len(sent) else sql), params


class Tag(Parameter):
    """Tagged with all of these; `column` is a condition with a place for the folded tag."""

    repeated = True

    def __init__(self, column: str, about: str = ""):
        super().__init__(fields.Text(64), column, about)

    def condition(self, sent: list[str], column: str) -> tuple[str, Sequence[Any]]:
        tags = [search.fold(self.inner.read(text)) for text in sent]
        return " AND ".join([column] * len(tags)), tags


class Yes(Parameter):
    """`true` or `false`."""

    def __init__(self, column: str = "", about: str = ""):
        super().__init__(fields.Flag(), column, about)

    def condition(self, sent: list[str], column: str) -> tuple[str, Sequence[Any]]:
        return f"{column} = ?", (int(_yes(sent[0])),)


class Since(Parameter):
    """At or after a moment."""

    sign = ">="

    def __init__(self, column: str, about: str = ""):
        super().__init__(fields.Moment(), column, about)

    def condition(self, sent: list[str], column: str) -> tuple[str, Sequence[Any]]:
        return f"{column} {self.sign} ?", (self.inner.read(sent[0]),)


class Before(Since):
    """Earlier than a moment."""

    sign = "<"


class Search(Parameter):
    """`q`: every word must be somewhere in the record's texts."""

    def __init__(self, table: str, about: str):
        super().__init__(None, table, about)

    def apply(self, sent: list[str], query: Query) -> None:
        text = sent[0].strip()
        if not 1 <= len(text) <= 200:
            raise values.Unfit("invalid_length", "from 1 to 200 characters")
        by_id = query.sort in ("id", "-id")
        sql, params = search.condition(self.column, text, rows, by_id=by_id)
        query.conditions.append(sql)
        query.params.extend(params)

    def schema_type(self) -> dict[str, Any]:
        return {"type": "string", "minLength": 1, "maxLength": 200}


class Switch(Yes):
    """A `Yes` that sets the attribute of the query with its name."""

    def apply(self, sent: list[str], query: Query) -> None:
        setattr(query, self.name, _yes(sent[0]))


class Chosen(Parameter):
    """A parameter that narrows nothing: what was sent is in `chosen`, in stored form."""

    def __init__(self, inner: fields.Field, about: str = "", repeated: bool = False):
        super().__init__(inner, about=about)
        self.repeated = repeated

    def apply(self, sent: list[str], query: Query) -> None:
        found = [self.inner.read(text) for text in sent]
        query.chosen[self.name] = found if self.repeated else found[0]


class Limit(Parameter):
    def apply(self, sent: list[str], query: Query) -> None:
        text = sent[0]
        if not (text.isascii() and text.isdecimal() and len(text) < 6 and 1 <= int(text) <= MOST):
            raise values.Unfit("out_of_range", f"must be from 1 to {MOST}")
        query.limit = int(text)

    def schema_type(self) -> dict[str, Any]:
        return {"type": "integer", "minimum": 1, "maximum": MOST, "default": DEFAULT_LIMIT}


class Cursor(Parameter):
    def apply(self, sent: list[str], query: Query) -> None:
        query.cursor = sent[0]

    def schema_type(self) -> dict[str, Any]:
        return {"type": "string", "maxLength": 2000}


class Sort(Parameter):
    """The orders of a list: {name: SQL expression that is never null}; `id` is always one."""

    def __init__(self, default: str = "-id", **orders: str):
        super().__init__(None, about="One field; `-` in front for descending.")
        self.default = default
        self.orders = {"id": "id", **orders}

    def apply(self, sent: list[str], query: Query) -> None:
        if sent[0].removeprefix("-") not in self.orders:
            raise values.Unfit("invalid_choice", f"must be one of {', '.join(self.orders)}")
        query.sort = sent[0]

    def by(self, chosen: str) -> str:
        """What stands after ORDER BY: ties are broken by id."""
        name = chosen.removeprefix("-")
        way = "DESC" if chosen.startswith("-") else "ASC"
        return f"id {way}" if name == "id" else f"{self.orders[name]} {way}, id {way}"

    def schema_type(self) -> dict[str, Any]:
        names = [sign + name for name in self.orders for sign in ("", "-")]
        return {"type": "string", "enum": names, "default": self.default}


class Expand(Parameter):
    """Parts that are shown only on request."""

    repeated = True

    def __init__(self, *names: str):
        super().__init__(fields.Choice(*names), about="Show this part too.")

    def apply(self, sent: list[str], query: Query) -> None:
        query.expand = tuple(self.inner.read(text) for text in sent)


class Filter(Schema):
    """What every list takes."""

    limit = Limit(about="How many records at most.")
    cursor = Cursor(about="`meta.next_cursor` of the page before.")
    total = Switch(about="`true` adds `meta.total`.")

    def unasked(self) -> Query:
        """The query of a request without parameters."""
        sort = self.fields.get("sort")
        return Query(sort=sort.default if sort else "")

    def read(self, sent: MultiDict) -> Query:
        """The query of a request's parameters; raises Invalid naming each that doesn't fit."""
        query = self.unasked()
        query.sent = tuple((name, tuple(texts)) for name, texts in sent.lists())
        found = []
        for name, texts in sorted(query.sent, key=lambda pair: pair[0] == "q"):  # q knows the rest
            parameter = self.fields.get(name)
            try:
                if parameter is None:
                    raise values.Unfit("unknown_parameter", "there is no such parameter")
                if len(texts) > (MOST if parameter.repeated else 1):
                    raise values.Unfit("repeated", "may be sent only once")
                parameter.apply(list(texts), query)
            except values.Unfit as unfit:
                found.append(Fault(name, unfit.code, unfit.detail, "parameter"))
        if query.include_deleted and "updated_since" not in sent:
            found.append(
                Fault("include_deleted", "needs_updated_since", "goes with updated_since", "parameter")
            )
        if found:
            raise Invalid(found)
        return query


class KeptFilter(Filter):
    """What the lists of the specification's nouns take besides their own filters (D3)."""

    ids = Ids(column="id", about="Only these.")
    external_id = Equals(fields.Text(128), about="The id in another system.")
    created_since = Since("created_at", about="Created at or after this moment.")
    updated_since = Since("updated_at", about="Changed at or after this moment.")
    include_deleted = Switch(
        about="With `updated_since`: also what was deleted in the last 30 days, as "
        "`{id, deleted_at, updated_at}`."
    )


def page(
    shape: Shape, query: Query, sort: Sort, where: str = "", params: Iterable[Any] = ()
) -> Page:
    """The page of a list that the query asks for; `where` narrows the list beforehand."""
    conditions, params = ([where] if where else []), [*params, *query.params]
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
    if fingerprint != query.fingerprint or not all(map(_keepable, (id, value))):
        raise InvalidCursor
    return value, id


def _keepable(part: Any) -> bool:
    return type(part) is str or (type(part) is int and abs(part) < 1 << 63)


def _among(column: str, found: list[Any]) -> tuple[str, list[Any]]:
    if len(found) == 1:
        return f"{column} = ?", found
    return f"{column} IN ({', '.join('?' * len(found))})", found


def _yes(text: str) -> bool:
    if text not in ("true", "false"):
        raise values.Unfit("invalid_choice", "must be true or false")
    return text == "true"
