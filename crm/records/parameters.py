"""The query parameters of lists (D3): what each filter, order and option may be.

A parameter reads the texts that were sent and adds to the request's `Query`: most add an SQL
condition, which also says by which index it is read. `queries.py` declares which list takes which.
"""

import hashlib
import re
from dataclasses import dataclass, field
from typing import Any, Self

from crm import values
from crm.json import integer_id
from crm.records import fields
from crm.records.conditions import OF_LIST, Condition, ordered
from crm.storage.dialect import comparable
from crm.storage.session import current_session

DEFAULT_LIMIT, MAX_LIMIT = 50, 200  # records of a page
MAX_VALUES = 50  # different ones of one parameter


@dataclass(slots=True)
class Query:
    """The parameters of one request, read by their `Filter` schema.

    options: the stored values of the `Option` parameters that were sent, by name.
    sent: the texts of each parameter, as they were sent.
    list_key: which list it is, for its cursors: the table and the condition that narrows it.
    sorts_numbers: whether it is sorted by numbers; a cursor of another order has a text.
    as_json: whether the records of the page may be finished JSON.
    order: the custom field that it is sorted by.
    max_total: if given, a total beyond it may be any number that is more.
    """

    conditions: list[Condition] = field(default_factory=list)
    limit: int = DEFAULT_LIMIT
    cursor: str = ""
    sort: str = ""
    order: Any = None
    total: bool = False
    max_total: int = 0
    dry_run: bool = False
    include_deleted: bool = False
    expand: tuple[str, ...] = ()
    options: dict[str, Any] = field(default_factory=dict)
    sent: tuple[tuple[str, tuple[str, ...]], ...] = ()
    list_key: tuple[Any, ...] = ()
    sorts_numbers: bool = True
    as_json: bool = False

    @property
    def fingerprint(self) -> str:
        """A hash of list and filters: a cursor is refused by a list with another one."""
        pairs = sorted(pair for pair in self.sent if pair[0] not in ("cursor", "limit", "total"))
        return hashlib.blake2b(repr((*self.list_key, pairs)).encode(), digest_size=6).hexdigest()


class Parameter(fields.Field):
    """A query parameter, a field of a `Filter`.

    inner: the field that reads its values; by default that of the column it filters.
    column: the SQL expression that it compares, by default the column of its name.
    about: a sentence for the documentation.

    A subclass with `repeated` may be sent more than once, with `max_values` different values.
    """

    repeated = False
    max_values = MAX_VALUES
    inner: fields.Field
    name: str  # a parameter is always in a Filter
    field: Any = None  # the tenant's own field that it filters by

    def __init__(self, inner: fields.Field | None = None, column: str = "", about: str = ""):
        super().__init__(allow_none=False, about=about, column=column)
        if inner is not None:
            self.inner = inner.variant(incoming=False, required=False)

    def read_as(self, wire: fields.Field) -> Self:
        """Read its values as those of a column, unless it has a field already; returns itself."""
        if not hasattr(self, "inner"):
            self.inner = wire.variant(incoming=False, required=False)
        return self

    def apply(self, sent: list[str], query: Query) -> None:
        """Add what was sent to the query; raises values.InvalidValue."""
        query.conditions.append(self.condition(sent, self.column or self.name))

    def condition(self, sent: list[str], column: str) -> Condition:
        """The condition of the texts that were sent; raises values.InvalidValue."""
        raise NotImplementedError

    def schema_type(self) -> dict[str, Any]:
        return self.inner.schema_type()

    def json_schema(self) -> dict[str, Any]:
        """The JSON Schema of the parameter: of a list, if it may be repeated."""
        schema = self.schema_type()
        if self.repeated:
            schema = {"type": "array", "items": schema, "maxItems": self.max_values}
        return {**schema, "description": self.about} if self.about else schema


class Equals(Parameter):
    """Equal to any of the values sent.

    rare: whether one value is that of few records; then the indexes of the orders don't have the
    column. in_order: as in a Condition; by default unless it is rare.
    """

    repeated = True

    def __init__(
        self,
        inner: fields.Field | None = None,
        rare: bool = False,
        in_order: bool | None = None,
        **options: str,
    ):
        super().__init__(inner, **options)
        self.rare = rare
        self.in_order = not rare if in_order is None else in_order

    def condition(self, sent: list[str], column: str) -> Condition:
        return self.compare(column, [self.inner.read(text) for text in sent])

    def compare(self, column: str, stored: list[Any]) -> Condition:
        """The condition that the column is one of these stored values."""
        stored = list(dict.fromkeys(stored))  # texts may be different spellings of one value
        is_one, marks = len(stored) == 1, [comparable(column, "?")] * len(stored)
        if isinstance(self.inner, fields.Choice):  # PostgreSQL plans a list once for each choice
            marks, stored = [f"'{choice}'" for choice in stored], []
        among = f"= {marks[0]}" if is_one else f"IN ({', '.join(marks)})"
        sql = f"{comparable(column)} {among}"
        return Condition(sql, stored, OF_LIST + sql, self.in_order and is_one, reads_row=self.rare)


class Unindexed(Equals):
    """Equal to any of the values sent, in a column with which no index begins."""

    def compare(self, column: str, stored: list[Any]) -> Condition:
        return super().compare(column, stored)._replace(ids="", in_order=False, reads_row=True)


class NotEquals(Equals):
    """None of the values sent; records without a value pass."""

    def compare(self, column: str, stored: list[Any]) -> Condition:
        marks = ", ".join("?" * len(stored))
        return Condition(f"({column} IS NULL OR {column} NOT IN ({marks}))", stored)


class Reference(Equals):
    """One of these records; an unknown or malformed id matches nothing (D2)."""

    def __init__(self, **options: Any):
        super().__init__(fields.Id(allow_none=False), **options)

    def condition(self, sent: list[str], column: str) -> Condition:
        return self.compare(column, [integer_id(text) for text in sent])

    def schema_type(self) -> dict[str, Any]:
        return {"type": "string"}


class Ids(Reference):
    """Records by id, also several in one value with commas between: as many as a page has."""

    max_values = MAX_LIMIT

    def condition(self, sent: list[str], column: str) -> Condition:
        ids = [id for text in sent for id in text.split(",")]
        if len(ids) > MAX_LIMIT:
            raise values.InvalidValue("too_many", f"at most {MAX_LIMIT} ids")
        return super().condition(ids, column)._replace(names_ids=True)


class UserReference(Reference):
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
        condition = super().condition(users, column)
        if len(users) == len(sent):
            return condition
        ids = f"{OF_LIST}{nobody} UNION ALL {condition.ids}"  # for an OR no index would be used
        return Condition(f"({nobody} OR {condition.sql})", condition.params, ids)


class BooleanFilter(Parameter):
    """`true` or `false`. No index finds them: half of all records may have either value."""

    def __init__(self, column: str = "", about: str = ""):
        super().__init__(fields.Boolean(), column, about)

    def condition(self, sent: list[str], column: str) -> Condition:
        return Condition(f"{column} = ?", (int(read_boolean(sent[0])),))


class HasValue(BooleanFilter):
    """`true`: records that have a value in the column. `false`: those that have none.

    is_indexed: whether an index of live records begins with the column. absent: as in Since.
    """

    def __init__(self, column: str, about: str = "", is_indexed: bool = True, absent: str = ""):
        super().__init__(column, about)
        self.is_indexed, self.absent = is_indexed, absent

    def condition(self, sent: list[str], column: str) -> Condition:
        reads_row = not self.is_indexed or bool(self.absent)
        sql = f"{column} = {self.absent}" if self.absent else f"{column} IS NULL"
        if read_boolean(sent[0]):
            return Condition(f"NOT {sql}", reads_row=reads_row)
        ids = OF_LIST + sql if self.is_indexed else ""
        return Condition(sql, (), ids, self.is_indexed, reads_row=reads_row)


class HasRelated(BooleanFilter):
    """`true`: records for which a query has a row. `false`: those for which it has none.

    query: a SELECT by an index, about the id of the record. ids: one of the ids of all of them.
    """

    def __init__(self, query: str, ids: str, about: str):
        super().__init__("id", about)  # the index of each order has it
        self.query, self.ids = query, ids

    def condition(self, sent: list[str], column: str) -> Condition:
        negation = "" if read_boolean(sent[0]) else "NOT "
        for_all = Condition(f"{column} {negation}IN ({self.ids})")
        return Condition(f"{negation}EXISTS ({self.query})", for_all=for_all)


class RelatedTo(Reference):
    """Records for which a query with the id that was sent, its one parameter, has a row."""

    repeated = False

    def __init__(self, query: str, about: str):
        super().__init__(column="id", about=about)
        self.query = query

    def compare(self, column: str, stored: list[Any]) -> Condition:
        return Condition(f"EXISTS ({self.query})", stored)


class Since(Parameter):
    """At or after a moment; of another `inner` field, at or above a value.

    is_order: whether the list can be sorted by the column; if not, an index of the live records
    begins with it. absent: what an order has in place of null, as SQL; it never passes.
    """

    sign = ">="

    def __init__(
        self,
        column: str,
        about: str = "",
        is_order: bool = True,
        inner: fields.Field | None = None,
        absent: str = "",
    ):
        super().__init__(inner or fields.DateTime(), column, about)
        self.is_order, self.absent = is_order, absent

    def condition(self, sent: list[str], column: str) -> Condition:
        text = re.sub(r" (?=\d\d:\d\d\Z)", "+", sent[0])  # the + of an offset, sent unescaped
        sql = f"{column} {self.sign} ?"
        if self.absent:  # -1 is less than all amounts, '9999' stands among the days of its year
            sql += f" AND {column} {'>' if self.absent == '-1' else '<>'} {self.absent}"
        value = text if text == values.END else self.inner.read(text)
        condition = Condition(sql, (value,), OF_LIST + sql, span=column)
        if not self.is_order:
            return condition._replace(reads_row=True)
        return condition._replace(order=column, sign=self.sign)

    def of_day(self, day: str, zone: str) -> str:
        """The text to send for a day of a time zone, so that a range has both its days.

        Raises values.InvalidValue.
        """
        if not isinstance(self.inner, fields.DateTime):
            return day
        return values.midnight(day, zone, isinstance(self, Before))  # an end is included


class Before(Since):
    """Earlier than a moment, or a day."""

    sign = "<"


class UpTo(Since):
    """At or below a value."""

    sign = "<="


class Switch(BooleanFilter):
    """`true` or `false`, which sets the attribute of the query with its name."""

    def apply(self, sent: list[str], query: Query) -> None:
        setattr(query, self.name, read_boolean(sent[0]))


class Option(Parameter):
    """A parameter that narrows nothing: its stored value goes into the query's `options`."""

    def __init__(self, inner: fields.Field, about: str = "", repeated: bool = False):
        super().__init__(inner, about=about)
        self.repeated = repeated

    def apply(self, sent: list[str], query: Query) -> None:
        stored = [self.inner.read(text) for text in sent]
        query.options[self.name] = stored if self.repeated else stored[0]


class PageLimit(Parameter):
    """How many records a page has at most."""

    def apply(self, sent: list[str], query: Query) -> None:
        text = sent[0]
        is_number = text.isascii() and text.isdecimal() and len(text) < 6  # int() of more is slow
        if not (is_number and 1 <= int(text) <= MAX_LIMIT):
            raise values.InvalidValue("out_of_range", f"must be from 1 to {MAX_LIMIT}")
        query.limit = int(text)

    def schema_type(self) -> dict[str, Any]:
        return {"type": "integer", "minimum": 1, "maximum": MAX_LIMIT, "default": DEFAULT_LIMIT}


class PageCursor(Parameter):
    """Where the page begins; pagination.py makes it and reads it."""

    def apply(self, sent: list[str], query: Query) -> None:
        query.cursor = sent[0]

    def schema_type(self) -> dict[str, Any]:
        return {"type": "string", "maxLength": 2000}


class Sort(Parameter):
    """The orders of a list: {name: SQL expression that is never null}; `id` is always one."""

    def __init__(self, default: str = "-id", **orders: str):
        super().__init__(None, about="One field; `-` in front for descending.")
        self.default_value = default
        self.orders = {"id": "id", **orders}

    def apply(self, sent: list[str], query: Query) -> None:
        if sent[0].removeprefix("-") not in self.orders:
            raise values.InvalidValue("invalid_choice", f"must be one of {', '.join(self.orders)}")
        query.sort = sent[0]

    def expression(self, query: Query) -> str:
        """The SQL expression by which a list is sorted; it is never null."""
        if query.order is not None:
            return query.order.order(query.sort.startswith("-"))
        return self.orders[query.sort.removeprefix("-")]

    def order_by(self, query: Query) -> str:
        """What follows ORDER BY: ties are broken by id."""
        return ordered(self.expression(query), query.sort.startswith("-"))

    def schema_type(self) -> dict[str, Any]:
        names = [sign + name for name in self.orders for sign in ("", "-")]
        return {"type": "string", "enum": names, "default": self.default_value}


class Expand(Parameter):
    """Parts of a record that are shown only on request."""

    repeated = True

    def __init__(self, *names: str):
        super().__init__(fields.Choice(*names), about="Show this part too.")

    def apply(self, sent: list[str], query: Query) -> None:
        query.expand = tuple(self.inner.read(text) for text in sent)


def read_boolean(text: str) -> bool:
    """The value of `true`, `false`, `1` or `0`; raises values.InvalidValue."""
    if text not in ("true", "false", "1", "0"):
        raise values.InvalidValue("invalid_choice", "must be true or false")
    return text in ("true", "1")
