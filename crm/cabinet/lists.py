"""Lists of records: the API's filters in the address of the page, and what there is to choose.

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
from crm.records.queries import Before, Filter, Query, Since
from crm.records.views import RecordView
from crm.tenancy.database import rows

MOST = 100  # values to choose from
VIEW = "view"  # in the address of a page with several views; no filter
NOT_FILTERS = ("sort", "cursor", "limit", "total", "include_deleted", VIEW)
ALL = "all"  # of tasks: everybody's, and of every status


class ActiveFilter(NamedTuple):
    """A filter that is on: what it says, and the address of the page without it."""

    text: str
    without: str


def asked(filter: Filter, usual: Mapping[str, Iterable[str]] | None = None) -> Query:
    """The query that the page's address asks for; a field left blank narrows nothing.

    `usual` are the values of parameters that the address doesn't name; named as `all`, such a
    parameter narrows nothing either. Raises Invalid as the API does.
    """
    sent = [(name, _as_moment(filter, name, text)) for name, text in _sent()]
    usual = usual or {}
    named = {name for name, _ in sent}
    sent += [(name, text) for name in usual.keys() - named for text in usual[name]]
    return filter.read(MultiDict(each for each in sent if each[0] not in usual or each[1] != ALL))


def page(
    shape: RecordView, filter: Filter, usual: Mapping[str, Iterable[str]] | None = None
) -> Page:
    """The page of a list that the address asks for; a part of the list tells how many it has.

    Not so for `q`: to count the matches of a common word takes longer than to find a page.
    """
    query = asked(filter, usual)
    query.total = query.total or ((is_narrowed() or bool(usual)) and not request.args.get("q"))
    return pagination.page(shape, query, filter.fields["sort"])


def is_narrowed() -> bool:
    """Is this only a part of the list?"""
    return any(name not in NOT_FILTERS for name, _ in _sent())


def active_filters(noun: str) -> list[ActiveFilter]:
    """The filters that the page's address names, each with the address without it."""
    sent = [each for each in request.args.items(multi=True) if each[0] != "cursor"]
    found = []
    for place, (name, text) in enumerate(sent):
        is_all = noun == "task" and name in ("status", "assigned_to") and text == ALL
        if name in NOT_FILTERS or not text.strip() or is_all:
            continue
        others = sent[:place] + sent[place + 1 :]
        address = f"{request.root_path}{request.path}"
        without = f"{address}?{urlencode(others)}" if others else address
        found.append(ActiveFilter(_told(noun, name, text), without))
    return found


def known(table: str, column: str) -> list[str]:
    """The values that live records of a table have in a column."""
    return [
        value
        for (value,) in rows(
            f"SELECT DISTINCT {column} FROM {table} WHERE {column} IS NOT NULL"
            f" AND deleted_at IS NULL ORDER BY {column} LIMIT {MOST}"
        )
    ]


def _sent() -> list[tuple[str, str]]:
    return [
        (name, text)
        for name, text in request.args.items(multi=True)
        if text.strip() and name != VIEW
    ]


def _as_moment(filter: Filter, name: str, text: str) -> str:
    """A day as the moment at which it begins or ends; any other text as it is."""
    parameter = filter.fields.get(name)
    if isinstance(parameter, Since):
        with suppress(values.InvalidValue, OverflowError):
            day = date.fromisoformat(values.day(text))
            later = isinstance(parameter, Before)
            return values.midnight(day + timedelta(later), formatting.time_zone())
    return text


def _told(noun: str, name: str, text: str) -> str:
    """What a filter says, for people."""
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
    return f"{labels.field(name)}: {_value(noun, name, text)}"


def _when(text: str) -> str:
    with suppress(values.InvalidValue):
        return formatting.day(values.day(text))
    with suppress(values.InvalidValue):
        return formatting.moment(values.moment(text))
    return text


def _value(noun: str, name: str, text: str) -> str:
    if name == "assigned_to":
        others = {"me": gettext("Me"), "none": gettext("Nobody")}
        return others.get(text) or user_choices.everyone().get(text, text)
    if name == "type" and noun == "task":
        return dict(labels.task_types()).get(text, text)
    if name.endswith("_id") and name != "external_id" and not text.isdecimal():
        return text
    return labels.value(noun, name, text, {})
