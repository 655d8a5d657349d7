"""The page of a list of records.

A page is made from a description: filters, sorting, tabs, columns, and a form for a new record.
_cells.html writes the rows.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import urlencode

from flask import abort, request
from werkzeug.datastructures import MultiDict
from werkzeug.wrappers import Response

from crm.cabinet import formatting, labels
from crm.cabinet.forms import Form
from crm.cabinet.languages import N_, coded_text, gettext
from crm.cabinet.records import bulk, saved_views
from crm.cabinet.records.filters import (
    ALL,
    COLUMNS,
    NOT_FILTERS,
    OPEN,
    SAVED,
    VIEW,
    Choices,
    FilterField,
    address_of,
    describe_filter,
    filter_field,
    is_filtered,
    own_filters,
    own_parameter,
    read_parameters,
    sent_parameters,
)
from crm.cabinet.records.record_fields import form_names, record_fields, with_focus
from crm.cabinet.rendering import me, render, see_other
from crm.records import pagination
from crm.records.custom import fields as custom_fields
from crm.records.custom.fields import HAS_PREFIX, PREFIX
from crm.records.queries import Filter
from crm.records.views import RecordView
from crm.resources import tenant
from crm.resources.agenda import count_open, phones_of_clients
from crm.resources.saved_views import NOT_SAVED
from crm.spreadsheets.exporter import export_filter_of

NEWEST_FIRST, OLDEST_FIRST = ("", N_("Newest first")), ("id", N_("Oldest first"))
UPDATED_FIRST, BY_NAME = ("-updated_at", N_("Recently updated first")), ("name", N_("By name"))
LARGEST_FIRST = ("-amount", N_("Largest first"))
NOBODYS = (N_("Nobody's"), {"assigned_to": "none"})
MAX_COUNT, MAX_TOTAL = 999, 10_000  # of a tab; of a list: more are shown as "10,000+"

OPEN_TABS = (
    (N_("All open"), {"status": OPEN}),
    (N_("Mine"), {"status": OPEN, "assigned_to": "me"}),
    (N_("Nobody's"), {"status": OPEN, "assigned_to": "none"}),
    (N_("All"), {"status": ALL}),
)


class Tab(NamedTuple):
    """A link above a list to another selection of its records."""

    label: str
    address: str
    is_current: bool
    note: str = ""


class ListPage(NamedTuple):
    """The page of a list. Its texts are marked by N_() and translated when they are shown.

    filters: the parameters that have a field above the list; the declarations say which.
    sorts: the values of `sort` with their labels, the first for its absence. columns: the fields
    shown, and `more_columns` that may be. tabs: (label, parameters). open_statuses: of the records
    shown unless the address has filters. defaults: of parameters that the address does not have.
    new: the title of the form for a new record; `values` has those that it begins with. fixed:
    parameters that every address of the list has.
    """

    view: RecordView
    filter: Filter
    title: str
    filters: Sequence[str]
    sorts: Choices
    columns: Sequence[str]
    more_columns: Sequence[str] = ()
    tabs: Sequence[tuple[str, Mapping[str, str]]] = ()
    open_statuses: Sequence[str] = ()
    defaults: Mapping[str, Sequence[str]] = {}
    new: str = ""
    values: Mapping[str, Any] = {}
    fixed: Mapping[str, str] = {}

    @property
    def path(self) -> str:
        return f"/{self.view.noun}s"

    def address_with(self, parameters: Iterable[tuple[str, str]] = ()) -> str:
        """The address of the list with these parameters."""
        return address_of(self.path, [*self.fixed.items(), *parameters])

    def shows_open(self) -> bool:
        """Whether only open records are shown because the address has no filter."""
        names = {name for name, _ in sent_parameters()} - NOT_FILTERS
        return bool(self.open_statuses) and names <= {"pipeline_id"}

    def parameters(self) -> list[tuple[str, str]]:
        """The parameters for the list: of the address, else the defaults."""
        parameters = sent_parameters()
        named = {name for name, _ in parameters}
        defaults = {"status": self.open_statuses} if self.shows_open() else self.defaults
        parameters += [(name, text) for name in defaults.keys() - named for text in defaults[name]]
        selected = []
        for name, text in parameters:
            if name == "status" and text == OPEN and self.open_statuses:
                selected += [(name, status) for status in self.open_statuses]
            elif name == "cursor":  # the last one of a trail of pages
                selected.append((name, text.rpartition(",")[2]))
            elif not (text == ALL and name in ("status", "assigned_to")):
                selected.append((name, text))
        return [*read_parameters(self.filter, selected)]


def list_tabs(page: ListPage) -> list[Tab]:
    """The tabs of a list with counts where they are cheap, then those of its saved views.

    A tab keeps the filters of the address, except those of a saved view.
    """
    counts = _counts(page)
    saved, named = request.args.get(SAVED, ""), {name for _, tab in page.tabs for name in tab}
    implied = {name: page.defaults[name][0] for name in page.defaults.keys() & named}
    if page.open_statuses:
        implied = {"status": OPEN if page.shows_open() else ALL}
    chosen = implied | {name: text for name, text in sent_parameters() if name in named}
    not_kept = named | page.fixed.keys() | {"cursor", SAVED}
    filters = [] if saved else [pair for pair in sent_parameters() if pair[0] not in not_kept]
    tabs = []
    for position, (label, tab) in enumerate(page.tabs):
        is_plain = not position and all(name in NOT_FILTERS for name, _ in filters)
        address = page.address_with([*filters, *({} if is_plain else tab).items()])
        count = counts[position] if position < len(counts) else ""
        tabs.append(Tab(gettext(label), address, not saved and chosen == tab, count))
    for view in saved_views.visible():
        if page.path == f"/{view['resource']}":
            # On the board the filters of a view narrow the board.
            path = view["path"] if VIEW in page.fixed else view["path"].replace(f"{VIEW}=list&", "")
            tabs.append(Tab(view["name"], request.root_path + path, view["id"] == saved))
    return tabs


def _counts(page: ListPage) -> list[str]:
    """The counts of OPEN_TABS, where records can be open: beyond MAX_COUNT only that there are."""
    if not page.open_statuses:
        return []
    counts = count_open(page.view.noun, me().user_id, MAX_COUNT + 1)
    return [f"{MAX_COUNT}+"] if counts[0] > MAX_COUNT else [str(count) for count in counts]


def active_filters(page: ListPage) -> list[tuple[str, str]]:
    """The filters in the address of the page: (sentence, address of the page without it)."""
    # A cursor belongs to the filters it was made with, so it goes with any change of them.
    parameters = [pair for pair in request.args.items(multi=True) if pair[0] != "cursor"]
    shown_by_tabs = {("status", ALL), ("assigned_to", ALL)}
    if page.open_statuses:
        shown_by_tabs.add(("status", OPEN))
    return [
        (
            describe_filter(page.view.noun, name, text),
            address_of(request.path, parameters[:position] + parameters[position + 1 :]),
        )
        for position, (name, text) in enumerate(parameters)
        if name not in NOT_FILTERS | page.fixed.keys()
        and text.strip()
        and (name, text) not in shown_by_tabs
    ]


def selection(page: ListPage, choices: Mapping[str, Choices] = {}) -> dict[str, Any]:
    """What `_tabs.html` and `_filters.html` need; choices: those of filters by records."""
    return {
        "list": page,
        "tabs": list_tabs(page),
        "filters": [
            *(_filter_field(page, name, choices.get(name, ())) for name in page.filters),
            *own_filters(page.view.noun),
        ],
        "sorts": [*((value, gettext(label)) for value, label in page.sorts), *_own_sorts(page)],
        "active_filters": active_filters(page),
        "is_filtered": is_filtered(),
    }


def render_list(page: ListPage, choices: Mapping[str, Choices] = {}, **context: Any) -> Response:
    """Render a list; choices: those of filters by records."""
    noun, parameters = page.view.noun, page.parameters()
    _leave_hidden_out(page)
    query = page.filter.read(MultiDict(parameters))
    # Not with `q`: to count the matches of a common word takes longer than to find a page.
    query.total, query.max_total = not request.args.get("q"), MAX_TOTAL
    records = pagination.page(page.view, query, page.filter.fields["sort"])
    own = {field.name: field for field in record_fields(noun, ["custom"], place="is_live")}
    columns = _columns(page, own)
    if own:
        records.records = [labels.flat(noun, record) for record in records.records]
        clients = [name for name, field in own.items() if field.kind == "client"]
        named = {record[name] for record in records.records for name in clients}
        labels.read_names("client", named - {None})
    of_export = export_filter_of(f"{noun}s").fields
    exported = [pair for pair in parameters if pair[0] in of_export]
    return render(
        f"{noun}s/list.html",
        **selection(page, choices),
        noun=noun,
        bulk_fields=bulk_fields(noun, choices),
        saved_view=next(
            (v for v in saved_views.visible() if v["id"] == request.args.get(SAVED)), None
        ),
        view_query=urlencode([pair for pair in parameters if pair[0] not in NOT_SAVED]),
        columns=columns,
        shown=[(one["name"], one["class"]) for one in columns if one["is_shown"]],
        own=own,
        page=records,
        total=_total_text(records.meta.get("total")),
        phones=_phones(noun, records.records),
        has_others=page.shows_open() and labels.MODELS[noun].has_rows(),
        export_links={
            "plural": f"{noun}s",
            "for_programs": urlencode(exported),
            "for_people": urlencode([*exported, ("for", "people")]),
        },
        **context,
    )


def _leave_hidden_out(page: ListPage) -> None:
    """Lead on from an address that filters or sorts by a field that lists no longer do."""
    sent, plural = [*request.args.items(multi=True)], f"{page.view.noun}s"
    kept = []
    for name, text in sent:
        by = text.removeprefix("-") if name == "sort" else name
        if not by.startswith((PREFIX, HAS_PREFIX)) or own_parameter(plural, by):
            kept.append((name, text))
    if len(kept) < len(sent):
        text = gettext("One of the filters is no longer there: the list is shown without it.")
        abort(see_other(f"{request.path}?{urlencode(kept)}", text, "danger"))


def _total_text(total: int | None) -> str:
    """How many records a list has; "" if that is not known."""
    if total is None:
        return ""
    return formatting.number(min(total, MAX_TOTAL)) + "+" * (total > MAX_TOTAL)


def render_new(page: ListPage, form: Form | None = None) -> Response:
    """Render the form for a new record; `form` is a refused one."""
    fields = with_focus(record_fields(page.view.noun, form_names(page.view.noun, new=True)), form)
    form = form or Form(new_values(**page.values))
    return render("new.html", list=page, form=form, fields=fields)


def bulk_fields(noun: str, choices: Mapping[str, Choices]) -> Iterator[dict[str, Any]]:
    """The fields that are set for many records at once, with their values."""
    for name in bulk.FIELDS[noun]:
        values = choices.get(name) or [*labels.choices(noun, name).items()]
        if name == "assigned_to":
            values = [*labels.user_choices(), (bulk.NOBODY, gettext("Nobody"))]
        values = [(value, label) for value, label in values if value != "converted"]
        button = gettext("Assign") if name == "assigned_to" else gettext("Set")
        label = labels.field(noun, name)
        yield {"name": name, "label": label, "choices": values, "button": button}


def _own_sorts(page: ListPage) -> Iterator[tuple[str, str]]:
    """The orders by the tenant's own fields."""
    for field in custom_fields.of(f"{page.view.noun}s").values() if page.sorts else ():
        if field.is_sorted:
            yield f"-{field.name}", gettext("%(field)s, falling", field=field.label)
            yield field.name, gettext("%(field)s, rising", field=field.label)


def _columns(page: ListPage, own: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The columns that the page shows or may show, with the address that sorts by them.

    own: the tenant's own fields by name, each of which may be one.
    """
    noun = page.view.noun
    orders = {*page.filter.fields["sort"].orders, *(name for name, _ in _own_sorts(page))}
    sort = request.args.get("sort") or page.defaults.get("sort", [page.sorts[0][0]])[0]
    sort = sort or page.filter.fields["sort"].default_value
    sort = sort.replace("-id", "-created_at") if sort == "-id" else sort
    usual = [*page.columns, *labels.with_own(noun, ["custom"], "in_list")]
    chosen = request.args.getlist(COLUMNS) or usual
    return [
        {
            "name": name,
            "label": coded_text("columns", name) or labels.field(noun, name),
            "class": f"col-own own-{own[name].kind}" if name in own else f"col-{name}",
            "is_shown": name in chosen,
            "order": name if name in orders else "",
            "sorted": {name: "ascending", f"-{name}": "descending"}.get(sort, ""),
        }
        for name in dict.fromkeys([*page.columns, *page.more_columns, *own])
    ]


def _phones(noun: str, records: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """The phones of the clients that the rows show, by the client's id."""
    name = {"client": "id", "deal": "client_id"}.get(noun)
    return phones_of_clients(record[name] for record in records) if name else {}


def new_values(**values: Any) -> dict[str, Any]:
    """The values that the form for a new record begins with."""
    return {"assigned_to": str(me().user_id), "currency": tenant.currency(), **values}


def _filter_field(page: ListPage, name: str, choices: Choices) -> FilterField:
    """The field of a filter; of a status also that of all open records together."""
    field = filter_field(page.view.noun, name, choices)
    if name == "assigned_to" and name in page.defaults:  # whose records the list shows by itself
        users = [("", gettext("Me")), (ALL, gettext("All")), *field.choices[1:]]
        return field._replace(choices=users, selected=request.args.get(name, ""))
    if name != "status" or not (page.open_statuses or page.defaults):
        return field
    sent = [text for name, text in sent_parameters() if name == "status"]
    first, selected = ("", gettext("To do")), ""
    if page.open_statuses:
        is_open = page.shows_open() or {*sent} == {*page.open_statuses}
        first, selected = (OPEN, gettext("All open")), OPEN if is_open else ALL
    statuses = dict([first, (ALL, gettext("All")), *field.choices])
    selected = sent[0] if len(sent) == 1 else selected
    return field._replace(choices=[*statuses.items()], selected=selected)
