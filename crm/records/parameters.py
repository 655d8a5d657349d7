"""The query parameters of lists (D3): what each filter, order and option may be.

A parameter reads the texts that were sent and adds to the request's `Query`: most add an SQL
condition, which also says by which index it is read. `queries.py` declares which list takes which.
"""

import hashlib
import re
from dataclasses import dataclass, field
from typing import Any, Self

from crm import values
from crm.records import fields, search
from crm.records.conditions import OF_LIST, Condition
from crm.tenancy.database import current_session, rows
from crm.values.ids import integer_id

DEFAULT_LIMIT, MOST = 50, 200
MOST_REPEATED = 50  # different values of one parameter


@dataclass(slots=True)
class Query:
    """The parameters of one request, read by their `Filter` schema."""

    conditions: list[Condition] = field(default_factory=list)
    limit: int = DEFAULT_LIMIT
    cursor: str = ""
    sort: str = ""
    total: bool = False
    include_deleted: bool = False
    expand: tuple[str, ...] = ()
    chosen: dict[str, Any] = field(default_factory=dict)
    sent: tuple[tuple[str, tuple[str, ...]], ...] = ()
    of: tuple[Any, ...] = ()  # which list: its table and what narrows it beforehand

    @property
    def fingerprint(self) -> str:
        """Tells these filters from others, so that a cursor of one list is refused by another."""
        kept = [pair for pair in self.sent if pair[0] not in ("cursor", "limit", "total")]
        return hashlib.blake2b(repr((*self.of, sorted(kept))).encode(), digest_size=6).hexdigest()


class Parameter(fields.Field):
    """A query parameter. `repeated` ones may come more than once, with `most` different values."""

    repeated = False
    most = MOST_REPEATED
    inner: fields.Field
    name: str  # a parameter is always in a Filter

    def __init__(self, inner: fields.Field | None = None, column: str = "", about: str = ""):
        super().__init__(allow_none=False, about=about, column=column)
        if inner is not None:
            self.inner = inner.variant(incoming=False, required=False)

    def reading(self, wire: fields.Field) -> Self:
        """This parameter, whose values are read as those of a column unless it says otherwise."""
        if not hasattr(self, "inner"):
            self.inner = wire.variant(incoming=False, required=False)
        return self

    def apply(self, sent: list[str], query: Query) -> None:
        """Take what was sent into the query; raises values.Unfit."""
        query.conditions.append(self.condition(sent, self.column or self.name))

    def condition(self, sent: list[str], column: str) -> Condition:
        """The condition of the texts that came."""
        raise NotImplementedError

    def schema_type(self) -> dict[str, Any]:
        return self.inner.schema_type()

    def json_schema(self) -> dict[str, Any]:
        found = {**self.schema_type(), **({"description": self.about} if self.about else {})}
        if not self.repeated:
            return found
        about = found.pop("description", None)
        more = {"description": about} if about else {}
        return {"type": "array", "items": found, "maxItems": self.most, **more}


class Equals(Parameter):
    """Equal to any of the values sent.

    `rare`: one value is that of few records, and the indexes of the orders don't have the column.
    `in_order` is as in a condition.
    """

    repeated = True

    def __init__(
        self,
        inner: fields.Field | None = None,
        column: str = "",
        about: str = "",
        rare: bool = False,
        in_order: bool = True,
    ):
        super().__init__(inner, column, about)
        self.rare = rare
        self.in_order = in_order and not rare

    def condition(self, sent: list[str], column: str) -> Condition:
        return self.among(column, [self.inner.read(text) for text in sent])

    def among(self, column: str, wanted: list[Any]) -> Condition:
        """The column is one of these values."""
        wanted = list(dict.fromkeys(wanted))  # texts may have been different spellings of one
        if len(wanted) == 1:
            sql = f"{column} = ?"
        else:
            sql = f"{column} IN ({', '.join('?' * len(wanted))})"
        in_order = self.in_order and len(wanted) == 1
        return Condition(sql, wanted, OF_LIST + sql, in_order, reads_row=self.rare)


class NotEquals(Equals):
    """None of the values sent; records without a value pass."""

    def among(self, column: str, wanted: list[Any]) -> Condition:
        refused = ", ".join("?" * len(wanted))
        return Condition(f"({column} IS NULL OR {column} NOT IN ({refused}))", wanted)


class Reference(Equals):
    """One of these records; an unknown or malformed id matches nothing (D2)."""

    def __init__(
        self, column: str = "", about: str = "", rare: bool = False, in_order: bool = True
    ):
        super().__init__(fields.Id(allow_none=False), column, about, rare, in_order)

    def condition(self, sent: list[str], column: str) -> Condition:
        return self.among(column, [integer_id(text) for text in sent])

    def schema_type(self) -> dict[str, Any]:
        return {"type": "string"}


class Ids(Reference):
    """Records by id, also several in one value with commas between: as many as a page has."""

    most = MOST

    def condition(self, sent: list[str], column: str) -> Condition:
        ids = [id for text in sent for id in text.split(",")]
        if len(ids) > MOST:
            raise values.InvalidValue("too_many", f"at most {MOST} ids")
        return super().condition(ids, column)._replace(names_ids=True)


class User(Reference):
    """A user's id, `me` (the key's user) or `none`."""

    def condition(self, sent: list[str], column: str) -> Condition:
        users = [
            str(current_session().user_id) if text == "me" else text
            for text in sent
            if text != "none"
        ]
        nobody = f"{column} IS NULL"
        if not users:
            return Condition(nobody, (), OF_LIST + nobody, self.in_order)
        found = super().condition(users, column)
        if len(users) == len(sent):
            return found
        ids = f"{OF_LIST}{nobody} UNION ALL {found.ids}"  # of an OR no index would be used
        return Condition(f"({nobody} OR {found.sql})", found.params, ids)


class Tag(Parameter):
    """Tagged with all of these. `tags` is a table of (tag, record's id), read by that key."""

    repeated = True

    def __init__(self, tags: str, owner: str, column: str, about: str = ""):
        super().__init__(fields.Text(64), column, about)
        self.tagged = f"FROM {tags} WHERE tag = ?"
        self.owner = owner

    def apply(self, sent: list[str], query: Query) -> None:
        for text in sent:
            query.conditions.append(self.condition([text], self.column))

    def condition(self, sent: list[str], column: str) -> Condition:
        tag = search.fold(self.inner.read(sent[0]))
        return Condition(
            f"EXISTS (SELECT 1 {self.tagged} AND {self.owner} = {column})",
            [tag],
            f"SELECT {self.owner} AS id {self.tagged}",
            reads_row=True,
        )


class BooleanFilter(Parameter):
    """`true` or `false`. Of two values an index tells little: records are only checked."""

    def __init__(self, column: str = "", about: str = ""):
        super().__init__(fields.Boolean(), column, about)

    def condition(self, sent: list[str], column: str) -> Condition:
        return Condition(f"{column} = ?", (int(_yes(sent[0])),))


class HasValue(BooleanFilter):
    """`true`: records that have a value in the column. `false`: those that have none."""

    def condition(self, sent: list[str], column: str) -> Condition:
        if _yes(sent[0]):
            return Condition(f"{column} IS NOT NULL")
        sql = f"{column} IS NULL"
        return Condition(sql, (), OF_LIST + sql, in_order=True)


class Since(Parameter):
    """At or after a moment. `column` is an order of the list, unless `is_order` is false: then an
    index of the live records begins with it."""

    sign = ">="

    def __init__(self, column: str, about: str = "", is_order: bool = True):
        super().__init__(fields.DateTime(), column, about)
        self.is_order = is_order

    def condition(self, sent: list[str], column: str) -> Condition:
        text = re.sub(r" (?=\d\d:\d\d\Z)", "+", sent[0])  # the + of an offset, sent unescaped
        sql = f"{column} {self.sign} ?"
        found = Condition(sql, (self.inner.read(text),), OF_LIST + sql, span=column)
        if not self.is_order:
            return found._replace(reads_row=True)
        return found._replace(order=column, sign=self.sign)


class Before(Since):
    """Earlier than a moment."""

    sign = "<"


class Search(Parameter):
    """`q`: every word must be somewhere in the record's texts."""

    def __init__(self, table: str, about: str):
        super().__init__(None, table, about)
        self.table = table

    def apply(self, sent: list[str], query: Query) -> None:
        if not 1 <= len(sent[0].strip()) <= 200:
            raise values.InvalidValue("invalid_length", "from 1 to 200 characters")
        text = values.one_line(sent[0], 200) or ""
        by_id = query.sort in ("id", "-id")
        sql, params = search.condition(self.table, text, rows, by_id=by_id, counts=query.total)
        # It begins with the ids if records are to be read by them.
        names_ids = sql.startswith(f"{self.table}.id IN")
        query.conditions.append(Condition(sql, params, names_ids=names_ids, reads_row=True))

    def schema_type(self) -> dict[str, Any]:
        return {"type": "string", "minLength": 1, "maxLength": 200}


class Switch(BooleanFilter):
    """A `Yes` that sets the attribute of the query with its name."""

    def apply(self, sent: list[str], query: Query) -> None:
        setattr(query, self.name, _yes(sent[0]))


class Option(Parameter):
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
            raise values.InvalidValue("out_of_range", f"must be from 1 to {MOST}")
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
            raise values.InvalidValue("invalid_choice", f"must be one of {', '.join(self.orders)}")
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


def _yes(text: str) -> bool:
    if text not in ("true", "false"):
        raise values.InvalidValue("invalid_choice", "must be true or false")
    return text == "true"
