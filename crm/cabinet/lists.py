"""Lists of records: the API's filters in the address of a page, and the values to choose from.

In these addresses a time may also be a day of the tenant's time zone: `created_since=2026-03-01` is
its beginning, `created_until=2026-03-01` its end, so that both name the days that are included.
"""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import date, timedelta
from typing import NamedTuple
from urllib.parse import urlencode

from flask import request
from werkzeug.datastructures import MultiDict

from crm import values
from crm.cabinet import formatting, labels, user_choices
from crm.cabinet.languages import gettext
from crm.records import pagination
from crm.records.pagination import Page
from crm.records.parameters import Before, Query, Since
from crm.records.queries import Filter
from crm.records.views import RecordView
from crm.tenancy.database import rows

MAX_KNOWN_VALUES = 100
VIEW = "view"  # the parameter of a page with several views; not a filter
NOT_FILTERS = ("sort", "cursor", "limit", "total", "include_deleted", VIEW)
ALL = "all"  # the value of a parameter that lifts its default filter


class ActiveFilter(NamedTuple):
    """A filter that is on: its sentence, and the address of the page without it."""

    text: str
    without: str


def read_query(filter: Filter, defaults: Mapping[str, Iterable[str]] | None = None) -> Query:
    """The query in the address of the page; parameters without a value are ignored.

    `defaults` are the values of parameters that the address does not have; the value `all` lifts
    such a default. Raises Invalid as the API does.
    """
    defaults = defaults or {}
    parameters = [(name, _as_moment(filter, name, text)) for name, text in _parameters()]
    named = {name for name, _ in parameters}
    parameters += [(name, text) for name in defaults.keys() - named for text in defaults[name]]
    return filter.read(
        MultiDict((name, text) for name, text in parameters if name not in defaults or text != ALL)
    )


def read_page(
    view: RecordView, filter: Filter, defaults: Mapping[str, Iterable[str]] | None = None
) -> Page:
    """Return the page of a list that the address selects; a filtered list has its total.

    Not with `q`: to count the matches of a common word takes longer than to find a page.
    """
    query = read_query(filter, defaults)
    query.total = query.total or ((is_filtered() or bool(defaults)) and not request.args.get("q"))
    return pagination.page(view, query, filter.fields["sort"])


def is_filtered() -> bool:
    """Whether the address has a filter."""
    return any(name not in NOT_FILTERS for name, _ in _parameters())


def active_filters(noun: str) -> list[ActiveFilter]:
    """The filters in the address of the page, each with the address without it."""
    # A cursor belongs to the filters it was made with, so it goes with any change of them.
    parameters = [pair for pair in request.args.items(multi=True) if pair[0] != "cursor"]
    active = []
    for position, (name, text) in enumerate(parameters):
        is_all = noun == "task" and name in ("status", "assigned_to") and text == ALL
        if name in NOT_FILTERS or not text.strip() or is_all:
            continue
        remaining = parameters[:position] + parameters[position + 1 :]
        address = f"{request.root_path}{request.path}"
        without = f"{address}?{urlencode(remaining)}" if remaining else address
        active.append(ActiveFilter(_sentence(noun, name, text), without))
    return active


def known_values(table: str, column: str) -> list[str]:
    """The values that live records of a table have in a column, at most MAX_KNOWN_VALUES."""
    return [
        value
        for (value,) in rows(
            f"SELECT DISTINCT {column} FROM {table} WHERE {column} IS NOT NULL"
            f" AND deleted_at IS NULL ORDER BY {column} LIMIT {MAX_KNOWN_VALUES}"
        )
    ]


def _parameters() -> list[tuple[str, str]]:
    return [
        (name, text)
        for name, text in request.args.items(multi=True)
        if text.strip() and name != VIEW
    ]


def _as_moment(filter: Filter, name: str, text: str) -> str:
    """The moment at which a day begins or ends; any other text as it is."""
    parameter = filter.fields.get(name)
    if isinstance(parameter, Since):
        with suppress(values.InvalidValue, OverflowError):
            day = date.fromisoformat(values.day(text))
            # A day as an end is included, so it ends with the midnight after it.
            later = isinstance(parameter, Before)
            return values.midnight(day + timedelta(later), formatting.time_zone())
    return text


def _sentence(noun: str, name: str, text: str) -> str:
    """Return a filter of the address as a sentence for users."""
    when = _when(text)
    sentences = {
        "q": gettext("Search: %(q)s", q=text),
        "created_since": gettext("Created from %(when)s", when=when),
        "created_until": gettext("Created until %(when)s", when=when),
        "updated_since": gettext("Changed from %(when)s", when=when),
        "closed_since": gettext("Closed from %(when)s", when=when),
        "closed_until": gettext("Closed until %(when)s", when=when),
        "due_since": gettext("Due from %(when)s", when=when),
        "due_before": gettext("Due until %(when)s", when=when),
        "source_not": gettext("Source is not: %(source)s", source=text),
        "has_source": gettext("The source is known")
        if text == "true"
        else gettext("The source is not known"),
        "active": gettext("For sale") if text == "true" else gettext("Not for sale"),
        "tag": gettext("Tag: %(tag)s", tag=text),
        "category": gettext("Category: %(name)s", name=text),
    }
    if name in sentences:
        return sentences[name]
    return f"{labels.field(noun, name)}: {_value(noun, name, text)}"


def _when(text: str) -> str:
    with suppress(values.InvalidValue):
        return formatting.day(values.day(text))
    with suppress(values.InvalidValue):
        return formatting.moment(values.moment(text))
    return text


def _value(noun: str, name: str, text: str) -> str:
    if name == "assigned_to":
        special = {"me": gettext("Me"), "none": gettext("Nobody")}
        return special.get(text) or user_choices.everyone().get(text, text)
    if name.endswith("_id") and name != "external_id" and not text.isdecimal():
        return text
    return labels.value(noun, name, text, {})
