"""Filters in the address of a page: those of the API, with days of the tenant for moments.

`created_since=2026-03-01` is the beginning of that day, `created_until=2026-03-01` its end, so that
both name the days that are included.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any, NamedTuple
from urllib.parse import urlencode

from flask import request
from werkzeug.datastructures import MultiDict

from crm import values
from crm.cabinet import formatting, labels
from crm.cabinet.choices import clients
from crm.cabinet.languages import N_, coded_text, gettext
from crm.records import columns, fields, suggestions
from crm.records.custom import fields as custom_fields
from crm.records.custom.fields import HAS_PREFIX, PREFIX, CustomField
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
# Of the tenant's own fields: what follows the name of one, and what comes before it.
OWN_TEXTS = {
    "_from": N_("%(field)s from"),
    "_to": N_("%(field)s to"),
    "has": N_("“%(field)s” is filled in"),
}
Choices = Sequence[tuple[str, str]]  # (value, text)


class FilterField(NamedTuple):
    """A field of the filters above a list.

    kind: "text", "select", "client" (a name that is looked up), "tags" (one input for each tag and
    one for another) or "day".
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
        own = own_parameter(filter.custom_of, name)
        is_client = own and own.field.references == "client" and name.startswith(PREFIX)
        if is_client and not text.isdecimal():
            named = [one["id"] for one in clients(text) if one["name"] == text]
            yield from ((name, id) for id in named or ["0"])  # which is nobody's
            continue
        yield name, _read_text(filter, name, text)
        if name == "source":
            yield from ((name, code) for code in formatting.source_codes(text))


def _read_text(filter: Filter, name: str, text: str) -> str:
    """The moment at which a day begins or ends, an amount as the API takes it; others as it is."""
    parameter = filter.fields.get(name) or own_parameter(filter.custom_of, name)
    if isinstance(getattr(parameter, "inner", None), fields.Number):
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
    if parameter := own_parameter(f"{noun}s", name):
        if parameter.field.wire.is_range and not name.startswith(HAS_PREFIX):
            return f"{label} {_when(text)}"
        chosen = dict(filter_field(noun, name).choices).get(text)
        return f"{label}: {chosen or labels.value(noun, parameter.field.name, text, {})}"
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
    if parameter := own_parameter(f"{noun}s", name):
        return _own_field(name, label, parameter.field)
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


def own_parameter(plural: str, name: str) -> Any:
    """The parameter by which a list is filtered by one of the tenant's own fields, or None."""
    return custom_fields.current().parameters.get(plural, {}).get(name)


def own_filters(noun: str) -> list[FilterField]:
    """The fields of the parameters of the tenant's own fields; numbers and dates have a range."""
    every = custom_fields.current().parameters.get(f"{noun}s", {}).values()
    shown = [one.name for one in every if not one.field.wire.is_range or one.name != one.field.name]
    return [filter_field(noun, name) for name in shown]


def _own_field(name: str, label: str, own: CustomField) -> FilterField:
    values = [(one["key"], one["label"]) for one in own.options]
    if name.startswith(HAS_PREFIX) or isinstance(own.wire, fields.Boolean):
        values = [("true", gettext("Yes")), ("false", gettext("No"))]
    elif own.references == "user":
        values = labels.user_choices()
    if values:
        return FilterField("select", name, label, values)
    kind = "day" if isinstance(own.wire, fields.Date) else own.references or "text"
    return FilterField(kind, name, label, max_length=getattr(own.wire, "max_length", 255))


def suggest(noun: str, name: str) -> list[str]:
    """The values that records have already; sources by their words."""
    known = suggestions.values_of(noun, name)
    return list(dict.fromkeys(map(formatting.source, known))) if name == "source" else known


def filter_label(noun: str, name: str) -> str:
    """What people call a parameter."""
    if parameter := own_parameter(f"{noun}s", name):
        own = parameter.field
        part = "has" if name.startswith(HAS_PREFIX) else name.removeprefix(own.name)
        text = OWN_TEXTS.get(part, "%(field)s")
        return gettext(text, field=own.label)
    return coded_text("filters", name) or labels.field(noun, name)
