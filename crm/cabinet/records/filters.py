"""Filters in the address of a page: those of the API, with days of the tenant for moments.

`created_since=2026-03-01` is the beginning of that day, `created_until=2026-03-01` its end, so that
both name the days that are included.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple
from urllib.parse import urlencode

from flask import request
from werkzeug.datastructures import MultiDict

from crm import values
from crm.cabinet import formatting, labels
from crm.cabinet.languages import coded_text, gettext
from crm.records import columns, fields, suggestions
from crm.records.parameters import Query, Since
from crm.records.queries import Filter
from crm.resources import users

# Parameters of pages that lists do not have: one of several views of a page, the columns shown, the
# saved view whose address it is, and the stages of a board that show more cards.
VIEW, COLUMNS, SAVED, MORE = "view", "columns", "saved", "more"
# Not for the list itself. Of deleted records lists of the API know no more than their ids.
OF_PAGES = frozenset([VIEW, COLUMNS, SAVED, MORE, "include_deleted"])
NOT_FILTERS = OF_PAGES | {"sort", "cursor", "limit", "total"}
MAX_SUGGESTED_TAGS = 200
# Values of parameters: ALL lifts the filter that a page has by default, OPEN are several statuses.
ALL, OPEN = "all", "open"
Choices = Sequence[tuple[str, str]]  # (value, text)


class FilterField(NamedTuple):
    """A field of the filters above a list.

    kind: "text", "select", "tags" (one input for each tag and one for another) or "day".
    choices: of a select, of which `selected` is chosen, by default the one in the address.
    suggestions: values that the browser proposes for a text.
    """

    kind: str
    name: str
    label: str
    choices: Choices = ()
    suggestions: Sequence[str] = ()
    max_length: int = 64
    selected: str | None = None


def address_of(path: str, parameters: Iterable[tuple[str, str]]) -> str:
    """The address of a page, in the folder of the app."""
    query = urlencode([*parameters])
    return f"{request.root_path}{path}{'?' if query else ''}{query}"


def read_query(filter: Filter) -> Query:
    """The query in the address of the page; parameters without a value are ignored.

    Raises Invalid as the API does.
    """
    return filter.read(MultiDict(read_parameters(filter, sent_parameters())))


def is_filtered() -> bool:
    """Whether the address has a filter."""
    return any(name not in NOT_FILTERS for name, _ in sent_parameters())


def sent_parameters() -> list[tuple[str, str]]:
    """The parameters of the address that are for a list and have a value."""
    return [
        (name, text)
        for name, text in request.args.items(multi=True)
        if text.strip() and name not in OF_PAGES
    ]


def read_parameters(filter: Filter, sent: Iterable[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """The parameters as the API takes them; a source by its words is also that of its code."""
    for name, text in sent:
        yield name, _read_text(filter, name, text)
        if name == "source":
            yield from ((name, code) for code in formatting.source_codes(text))


def _read_text(filter: Filter, name: str, text: str) -> str:
    """The moment at which a day begins or ends, an amount as the API takes it; others as it is."""
    parameter = filter.fields.get(name)
    if isinstance(parameter, Since) and isinstance(parameter.inner, fields.Amount):
        return re.sub(r"\s", "", text).replace(",", ".")
    if isinstance(parameter, Since) and isinstance(parameter.inner, fields.DateTime):
        with suppress(values.InvalidValue):
            return parameter.of_day(text, formatting.time_zone())
    return text


def describe_filter(noun: str, name: str, text: str) -> str:
    """Return a filter of the address as a sentence for users."""
    table = "filter_values"
    if sentence := coded_text(table, f"{name} {text}") or coded_text(table, name):
        return sentence
    label = filter_label(noun, name)
    if name.endswith(("_since", "_until", "_before", "_from", "_to")) and name != "assigned_to":
        return f"{label} {_when(text)}"
    if name.endswith("_stage_id"):  # such as of the stage that deals have reached
        name = "stage_id"
    return f"{label}: {labels.value(noun, name, text, {})}"


def _when(text: str) -> str:
    with suppress(values.InvalidValue):
        return formatting.day(values.day(text))
    with suppress(values.InvalidValue):
        return formatting.moment(values.moment(text))
    return text


def filter_field(noun: str, name: str, choices: Choices = ()) -> FilterField:
    """The field of a parameter of a list; `choices` are those of a reference."""
    label = filter_label(noun, name)
    if name.endswith(("_since", "_until", "_before")) or name.startswith("expected_close_"):
        return FilterField("day", name, label)
    if name == "tag":
        known = suggestions.tags_of(noun, MAX_SUGGESTED_TAGS)
        return FilterField("tags", name, label, suggestions=known)
    if name.startswith("amount_"):
        return FilterField("text", name, label, max_length=20)
    if name == "assigned_to":
        special = [("me", gettext("Me")), ("none", gettext("Nobody"))]
        former = users.names_without_access().items()  # who still are responsible for records
        without_access = [(id, gettext("%(name)s (no access)", name=name)) for id, name in former]
        choices = [*special, *labels.user_choices(), *without_access]
    elif not choices:
        choices = [*labels.choices(noun, name).items()]
    if choices:
        return FilterField("select", name, label, choices)
    length = columns.declared(labels.MODELS[noun])[name].wire.schema_type()["maxLength"]
    return FilterField("text", name, label, (), suggest(noun, name), length)


def suggest(noun: str, name: str) -> list[str]:
    """The values that records have already; sources by their words."""
    known = suggestions.values_of(noun, name)
    return list(dict.fromkeys(map(formatting.source, known))) if name == "source" else known


def filter_label(noun: str, name: str) -> str:
    """What people call a parameter."""
    return coded_text("filters", name) or labels.field(noun, name)
