"""Lists of records: the API's filters in the address of a page, and the page of such a list.

In these addresses a time may also be a day of the tenant's time zone: `created_since=2026-03-01` is
its beginning, `created_until=2026-03-01` its end, so that both name the days that are included.

A page is made from a description: filters, sorting, columns, and a form for a new record. A
template that extends list.html has the headings of the columns and the cells of a row.
"""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import date, timedelta
from typing import Any, NamedTuple
from urllib.parse import urlencode

from flask import request
from werkzeug.datastructures import MultiDict
from werkzeug.wrappers import Response

from crm import values
from crm.cabinet import formatting, labels
from crm.cabinet.forms import Form
from crm.cabinet.languages import N_, coded_text, gettext
from crm.cabinet.records.record_fields import form_names, known_values, record_fields
from crm.cabinet.rendering import me, render
from crm.records import columns, fields, pagination, search, tags
from crm.records.pagination import Page
from crm.records.parameters import Before, Query, Since
from crm.records.queries import Filter
from crm.records.views import RecordView
from crm.resources import tenant
from crm.spreadsheets.endpoints import export_filter_of

VIEW = "view"  # the parameter of a page with several views; not a filter
NOT_FILTERS = ("sort", "cursor", "limit", "total", "include_deleted", VIEW)
MAX_SUGGESTED_TAGS = 200
ALL = "all"  # the value of a parameter that lifts its default filter
NEWEST_FIRST, OLDEST_FIRST = ("", N_("Newest first")), ("id", N_("Oldest first"))
UPDATED_FIRST, BY_NAME = ("-updated_at", N_("Recently updated first")), ("name", N_("By name"))

Choices = Sequence[tuple[str, str]]  # (value, text)


class FilterField(NamedTuple):
    """A field of the filters above a list.

    kind: "text", "select", "tags" (one input for each tag and one for another) or "day".
    choices: of a select. suggestions: values that the browser proposes for a text.
    """

    kind: str
    name: str
    label: str
    choices: Choices = ()
    suggestions: Sequence[str] = ()
    max_length: int = 64


class ListPage(NamedTuple):
    """The page of a list. Its texts are marked by N_() and translated when they are shown.

    filters: the parameters that have a field above the list; the declarations say which.
    sorts: the values of `sort` with their labels, the first for its absence. new: the title of the
    form for a new record; `values` has those that it begins with. fixed: parameters that every
    address of the list has.
    """

    view: RecordView
    filter: Filter
    title: str
    filters: Sequence[str]
    sorts: Choices
    new: str = ""
    values: Mapping[str, Any] = {}
    fixed: Mapping[str, str] = {}

    @property
    def path(self) -> str:
        return f"/{self.view.noun}s"


def read_query(filter: Filter, defaults: Mapping[str, Iterable[str]] | None = None) -> Query:
    """The query in the address of the page; parameters without a value are ignored.

    `defaults` are the values of parameters that the address does not have; the value `all` lifts
    such a default. Raises Invalid as the API does.
    """
    parameters = with_defaults(defaults or {})
    return filter.read(
        MultiDict((name, _as_moment(filter, name, text)) for name, text in parameters)
    )


def with_defaults(defaults: Mapping[str, Iterable[str]]) -> list[tuple[str, str]]:
    """The parameters of the address, and the defaults that it does not have or lift."""
    parameters = _parameters()
    named = {name for name, _ in parameters}
    parameters += [
        (name, text) for name in defaults if name not in named for text in defaults[name]
    ]
    return [(name, text) for name, text in parameters if name not in defaults or text != ALL]


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


def active_filters(noun: str) -> list[tuple[str, str]]:
    """The filters in the address of the page: (sentence, address of the page without it)."""
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
        active.append((_sentence(noun, name, text), without))
    return active


def render_list(
    page: ListPage,
    form: Form | None = None,
    *,
    is_form_open: bool = False,
    choices: Mapping[str, Choices] = {},
    **context: Any,
) -> Response:
    """Render a list; `form` is a refused one for a new record.

    The form is shown closed unless `is_form_open`, or it was refused. choices: those of filters
    by records.
    """
    noun = page.view.noun
    fields = record_fields(noun, form_names(noun, new=True)) if page.new else []
    # Not for a refused form, whose faults are to be read first.
    if is_form_open and fields:
        fields[0] = fields[0]._replace(attributes={**fields[0].attributes, "autofocus": True})
    return render(
        f"{noun}s/list.html",
        list=page,
        filters=[_filter_field(noun, name, choices.get(name, ())) for name in page.filters],
        sorts=[(value, gettext(label)) for value, label in page.sorts],
        page=read_page(page.view, page.filter),
        active_filters=active_filters(noun),
        is_filtered=is_filtered(),
        export_links=export_links(page.path.removeprefix("/")),
        form=form or Form(new_values(**page.values)),
        fields=fields,
        is_form_open=is_form_open or form is not None,
        **context,
    )


def export_links(plural: str, filters: list[tuple[str, str]] | None = None) -> dict[str, Any]:
    """What `spreadsheets/_links.html` needs on the page of a list.

    The files have the filters of the page's address, or `filters` where that does not have them.
    """
    parameters = list(request.args.items(multi=True)) if filters is None else filters
    filter_fields = export_filter_of(plural).fields
    query = [(name, text) for name, text in parameters if name in filter_fields]
    for_people = urlencode([*query, ("for", "people")])
    return {"plural": plural, "for_programs": urlencode(query), "for_people": for_people}


def new_values(**values: Any) -> dict[str, Any]:
    """The values that the form for a new record begins with."""
    return {"assigned_to": str(me().user_id), "currency": tenant.currency(), **values}


def _label(noun: str, name: str) -> str:
    return coded_text("filters", name) or labels.field(noun, name)


def _filter_field(noun: str, name: str, choices: Choices) -> FilterField:
    label = _label(noun, name)
    if name.endswith(("_since", "_until")):
        return FilterField("day", name, label)
    if name == "tag":
        return FilterField("tags", name, label, suggestions=_known_tags(noun))
    if name == "assigned_to":
        choices = [("me", gettext("Me")), ("none", gettext("Nobody")), *labels.user_choices()]
    elif not choices:
        choices = [*labels.choices(noun, name).items()]
    if choices:
        return FilterField("select", name, label, choices)
    length = columns.declared(labels.MODELS[noun])[name].wire.schema_type()["maxLength"]
    return FilterField("text", name, label, (), known_values(noun, name), length)


def _known_tags(noun: str) -> list[str]:
    known = tags.of_live_records(noun, MAX_SUGGESTED_TAGS)
    return list({search.fold(tag): tag for tag in known}.values())


def _parameters() -> list[tuple[str, str]]:
    return [
        (name, text)
        for name, text in request.args.items(multi=True)
        if text.strip() and name != VIEW
    ]


def _as_moment(filter: Filter, name: str, text: str) -> str:
    """The moment at which a day begins or ends; any other text as it is."""
    parameter = filter.fields.get(name)
    if isinstance(parameter, Since) and isinstance(parameter.inner, fields.DateTime):
        with suppress(values.InvalidValue, OverflowError):
            day = date.fromisoformat(values.day(text))
            # A day as an end is included, so it ends with the midnight after it.
            later = isinstance(parameter, Before)
            return values.midnight(day + timedelta(later), formatting.time_zone())
    return text


def _sentence(noun: str, name: str, text: str) -> str:
    """Return a filter of the address as a sentence for users."""
    table = "filter_values"
    if sentence := coded_text(table, f"{name} {text}") or coded_text(table, name):
        return sentence
    label = _label(noun, name)
    if name.endswith(("_since", "_until", "_before")):
        return f"{label} {_when(text)}"
    return f"{label}: {_value(noun, name, text)}"


def _when(text: str) -> str:
    with suppress(values.InvalidValue):
        return formatting.day(values.day(text))
    with suppress(values.InvalidValue):
        return formatting.moment(values.moment(text))
    return text


def _value(noun: str, name: str, text: str) -> str:
    if name == "assigned_to":
        special = {"me": gettext("Me"), "none": gettext("Nobody")}
        return special.get(text) or labels.user_name(text) or text
    if name.endswith("_id") and name != "external_id" and not text.isdecimal():
        return text
    return labels.value(noun, name, text, {})
