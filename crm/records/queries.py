"""Filters: which query parameters a list takes (D3).

A `Filter` schema reads the parameters of a request into a `Query`: SQL conditions, joined by AND,
with their parameters. Few different texts come of it, so they stay prepared. From the
conditions `list_plans` chooses how to read the list.
"""

import re
from typing import Any

from marshmallow import Schema
from peewee import Model
from werkzeug.datastructures import MultiDict

from crm import values
from crm.errors import MAX_FAULTS, Fault, Invalid
from crm.records import fields, pagination, search
from crm.records.columns import declared
from crm.records.conditions import with_joined_ranges
from crm.records.custom import fields as custom_fields
from crm.records.parameters import (
    Before,
    Equals,
    Ids,
    PageCursor,
    PageLimit,
    Parameter,
    Query,
    Since,
    Sort,
    Switch,
    UpTo,
)
from crm.records.schemas import SchemaType
from crm.storage.session import rows

LIST_SUFFIX = re.compile(r"\[\d*\]\Z")  # `status[]` or `status[0]`, as PHP and Ruby send lists
CUSTOM = (custom_fields.PREFIX, custom_fields.HAS_PREFIX)
SHORT_WORDS = " Words of one or two letters alone are looked for in the newest 20,000 records."


def as_texts(parameters: dict[str, Any]) -> MultiDict:
    """The parameters of a query as texts, without those that are None."""
    texts: MultiDict[str, str] = MultiDict()
    for name, value in parameters.items():
        for one in value if isinstance(value, list) else [value]:
            if one is not None:
                texts.add(name, str(one).lower() if isinstance(one, bool) else str(one))
    return texts


class Search(Parameter):
    """`q`: every word must be somewhere in the texts of a record of `table`."""

    def __init__(self, table: str, about: str):
        super().__init__(None, table, about)
        self.table = table

    def apply(self, sent: list[str], query: Query) -> None:
        if not 1 <= len(sent[0].strip()) <= 200:
            raise values.InvalidValue("invalid_length", "from 1 to 200 characters")
        text = values.one_line(sent[0], 200) or ""
        by_id = query.sort in ("id", "-id")
        below = None
        if query.sort == "-id" and not query.total:
            cursor = query.cursor
            below = pagination.decode_cursor(cursor)[2] if cursor else pagination.MAX_INTEGER
        matches = search.condition(
            self.table, text, rows, by_id=by_id, counts=query.total, below=below
        )
        query.conditions.append(matches)

    def schema_type(self) -> dict[str, Any]:
        return {"type": "string", "minLength": 1, "maxLength": 200}


class RecordSort(Sort):
    """The orders of a list of records; custom fields are some of them."""

    def apply(self, sent: list[str], query: Query) -> None:
        name, plural = sent[0].removeprefix("-"), getattr(self.root, "custom_of", "")
        if not plural or not name.startswith(custom_fields.PREFIX):
            super().apply(sent, query)
            return
        query.order, query.sort = custom_fields.order(plural, name), sent[0]


class Filter(Schema, metaclass=SchemaType):
    """The parameters of every list."""

    fields: dict[str, Any]  # Parameters: marshmallow's type is any field

    custom_of = ""  # the plural of the resource by whose own fields the list is filtered and sorted

    limit = PageLimit(about="How many records at most.")
    cursor = PageCursor(about="`meta.next_cursor` of the page before.")
    total = Switch(about="`true` adds `meta.total`.")

    def default(self) -> Query:
        """The query of a request without parameters."""
        sort = self.fields.get("sort")
        return Query(sort=sort.default_value if sort else "")

    def read(self, sent: MultiDict) -> Query:
        """The query of a request's parameters.

        Raises Invalid naming each parameter that is unknown, repeated or has a wrong value.
        """
        query = self.default()
        if any(name.endswith("]") for name in sent):
            named = [(LIST_SUFFIX.sub("", name), text) for name, text in sent.items(multi=True)]
            sent = MultiDict(named)
        query.sent = tuple((name, tuple(dict.fromkeys(texts))) for name, texts in sent.lists())
        faults = []
        for name, texts in sorted(query.sent, key=lambda pair: pair[0] == "q"):  # q reads the rest
            parameter = self.fields.get(name)
            try:
                if parameter is None and self.custom_of and name.startswith(CUSTOM):
                    parameter = custom_fields.parameter(self.custom_of, name)
                if parameter is None:
                    raise values.InvalidValue("unknown_parameter", "there is no such parameter")
                if not parameter.repeated and len(sent.getlist(name)) > 1:
                    raise values.InvalidValue("repeated", "may be sent only once")
                if len(texts) > parameter.max_values:
                    detail = f"at most {parameter.max_values} different values"
                    raise values.InvalidValue("repeated", detail)
                parameter.apply(list(texts), query)
            except values.InvalidValue as error:
                faults.append(Fault(name, error.code, error.detail, "parameter"))
                if len(faults) == MAX_FAULTS:
                    break
        if query.include_deleted and "updated_since" not in sent:
            detail = "goes with updated_since"
            faults.append(Fault("include_deleted", "needs_updated_since", detail, "parameter"))
        if faults:
            raise Invalid(faults)
        if len(query.conditions) > 1:
            query.conditions = with_joined_ranges(query.conditions)
        return query


def period(column: str, what: str, is_order: bool = True, absent: str = "") -> tuple[Since, Before]:
    """`…_since` and `…_until` of a list by a time; `what` happened then, such as "Created"."""
    until = f"{what} before this moment; the moment itself is not included."
    return (
        Since(column, f"{what} at or after this moment.", is_order, absent=absent),
        Before(column, until, is_order, absent=absent),
    )


def amount_range() -> tuple[Since, UpTo]:
    """`amount_from` and `amount_to` of a list that can be sorted by the amount."""
    column, inner, absent = "coalesce(amount, -1)", fields.Amount(), "-1"
    least, most = "Of at least this amount, in any currency.", "Of at most this amount."
    return (
        Since(column, least, inner=inner, absent=absent),
        UpTo(column, most, inner=inner, absent=absent),
    )


class ResourceFilter(Filter):
    """The parameters of the lists of the specification's resources, besides their own (D3)."""

    ids = Ids(column="id", about="Only these.")
    external_id = Equals(fields.Text(128), about="The id in another system.", rare=True)
    created_since, created_until = period("created_at", "Created")
    updated_since = Since("updated_at", about="Changed at or after this moment.")
    include_deleted = Switch(
        about="With `updated_since`: also what was deleted in the last 30 days, as "
        "`{id, deleted_at, updated_at}`."
    )


class DryRunFilter(Filter):
    """The parameter of an operation that can be tried."""

    dry_run = Switch(about="`true`: only count, change nothing.")


DRY_RUN = DryRunFilter(only=("dry_run",))


def sorted_by(default: str, **orders: str) -> Filter:
    """The filter of a list that is only sorted; the arguments are those of Sort."""
    return type("SortedFilter", (Filter,), {"sort": Sort(default, **orders)})()


def filter_of(
    model: type[Model],
    base: type[Filter] = ResourceFilter,
    sort: str = "-id",
    unsorted: tuple[str, ...] = (),
) -> type[Filter]:
    """Make the filter of a record's lists from the declarations of its columns.

    sort: the order of a list whose request names none.
    unsorted: sorted columns of a base class by which this list is not.
    A subclass may add parameters that are no columns, such as `source_not`.
    """
    parameters: dict[str, Any] = {}
    orders: dict[str, str] = {}
    searched = []
    for name, column in declared(model).items():
        if column.filtered is not None:
            parameters[name] = column.filtered.read_as(column.wire)
        if column.sorted and name not in unsorted:
            orders[name] = name if column.sorted is True else column.sorted
        if column.searched:
            searched.append(name)
    if searched:
        words = f"{', '.join(searched[:-1])} or {searched[-1]}" if searched[1:] else searched[0]
        parameters["q"] = Search(model._meta.table_name, f"Words in {words}.{SHORT_WORDS}")
    if "custom" in declared(model):
        parameters["custom_of"] = f"{model._meta.table_name}s"
    parameters["sort"] = RecordSort(sort, **orders)
    return type(f"{model.__name__}Filter", (base,), parameters)
