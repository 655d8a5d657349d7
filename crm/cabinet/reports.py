"""The reports: figures of the business, each compared with the period before, and plots.

Each plot has a table of the same values. Each number of records links to the list of exactly those
records. Managers see their own figures unless they choose those of everybody.
"""

from collections.abc import Sequence
from datetime import date, timedelta
from typing import Any, NamedTuple
from urllib.parse import urlencode

from babel import dates
from flask import request
from werkzeug.wrappers import Response

from crm.cabinet import figures, formatting
from crm.cabinet.figures import Calendar
from crm.cabinet.languages import N_, get_locale, gettext, ngettext
from crm.cabinet.plots import Bar, Plot
from crm.cabinet.rendering import MANAGER, OWNER, Pages, me, render
from crm.cabinet.today import EVERYBODY
from crm.resources import tenant
from crm.resources.deals.figures import HUNDREDTHS, Deals
from crm.storage.heavy_work import heavy_work
from crm.storage.session import now
from crm.values import as_number

MAX_FUNNELS = 5
OPEN_DEALS = {"view": "list", "status": "open"}
SINCE_YESTERDAY = N_("%(change)s from this time yesterday")
# Title, icon, and what the change from the figure before is called.
TILES = {
    "leads": (N_("New leads in 7 days"), "person-plus", N_("%(change)s from the week before")),
    "open": (N_("Deals in work"), "kanban", N_("%(change)s from a week ago")),
    "won": (N_("Won this month"), "trophy", N_("%(change)s from the same days of last month")),
    "due": (N_("Tasks for the rest of today"), "calendar-check", SINCE_YESTERDAY),
    "overdue": (N_("Overdue tasks"), "alarm", SINCE_YESTERDAY),
}


class Tile(NamedTuple):
    """One figure and the path of its records; `then` compares it with the period before."""

    name: str
    icon: str
    path: str
    number: int
    then: str
    sums: Sequence[str]
    sums_then: str


pages = Pages("reports")


@pages.get("/reports")
def show_reports() -> Response:
    calendar = Calendar(formatting.time_zone(), now())
    user_id = None if _is_everybody() else me().user_id
    # Only the figures count as heavy work: rendering needs no further reads of many rows.
    with heavy_work():
        funnels = figures.funnels(user_id)
        tiles = _tiles(calendar, funnels, user_id)
        plots = _funnel_plots(funnels)
        plots += [plot(calendar, user_id) for plot in (_days_plot, _months_plot, _sources_plot)]
    context = {"is_everybody": user_id is None, "may_choose": me().role in (MANAGER, OWNER)}
    return render("reports/page.html", tiles=tiles, plots=plots, **context)


def _is_everybody() -> bool:
    """Whether the figures are those of all users."""
    usual = "me" if me().role == MANAGER else EVERYBODY
    return request.args.get("of", usual) == EVERYBODY


def _tiles(calendar: Calendar, funnels: list[dict[str, Any]], user_id: int | None) -> list[Tile]:
    open, open_before = figures.in_work(calendar, funnels, user_id)
    won, won_before = figures.won(calendar, user_id)
    due, overdue = figures.tasks(calendar, user_id)
    week = calendar.first_of_days(figures.WEEK), calendar.today
    won_list = _closed_list("won", calendar.today.replace(day=1), calendar.today)
    due_list = _list_at("/tasks", due_since=now(), due_before=calendar.today)
    then = gettext("Then: %(sums)s", sums=_sums(won_before)) if won_before.sums else ""
    return [
        _tile("leads", _leads_list(*week), *figures.new_leads(calendar, user_id)),
        _tile("open", _list_at("/deals", **OPEN_DEALS), open.count, open_before, _amounts(open)),
        _tile("won", won_list, won.count, won_before.count, _amounts(won), then),
        _tile("due", due_list, *due),
        _tile("overdue", _list_at("/tasks", due_before=now()), *overdue),
    ]


def _tile(
    key: str, path: str, count: int, before: int, sums: Sequence[str] = (), sums_then: str = ""
) -> Tile:
    title, icon, text = TILES[key]
    sign = "+" if count > before else "−" if count < before else "±"
    change = f"{sign}{formatting.number(abs(count - before))}"
    then = gettext(text, change=change) if count or before else ""
    return Tile(gettext(title), icon, path, count, then, sums, sums_then)


def _funnel_plots(funnels: list[dict[str, Any]]) -> list[Plot]:
    """Plots of the pipelines that have open deals, else of the first ones."""
    used = [funnel for funnel in funnels if any(stage["deals"].count for stage in funnel["stages"])]
    return [_funnel_plot(funnel) for funnel in (used or funnels)[:MAX_FUNNELS]]


def _funnel_plot(funnel: dict[str, Any]) -> Plot:
    count = sum(stage["deals"].count for stage in funnel["stages"])
    bars = []
    for stage in funnel["stages"]:
        deals, path = stage["deals"], _list_at("/deals", **OPEN_DEALS, stage_id=stage["id"])
        bars.append(Bar(stage["name"], [deals.count], [path], [_sums(deals)]))
    return Plot(
        f"funnel-{funnel['id']}",
        gettext("Funnel “%(name)s”", name=funnel["name"]),
        ngettext("%(num)d open deal", "%(num)d open deals", count),
        (gettext("Stage"), gettext("Deals"), gettext("Sum")),
        bars,
    )


def _days_plot(calendar: Calendar, user_id: int | None) -> Plot:
    bars = [
        Bar(formatting.day(f"{day}"), [count], [_leads_list(day, day)], mark=_mark(day, "d MMM"))
        for day, count in figures.leads_by_day(calendar, user_id)
    ]
    heads = gettext("Day"), gettext("Leads")
    name, series = gettext("Leads per day, 30 days"), [(gettext("Leads"), "plot-bar")]
    return Plot("days", name, _leads(bars), heads, bars, series)


def _months_plot(calendar: Calendar, user_id: int | None) -> Plot:
    bars = []
    for month, *closed in figures.closed_by_month(calendar, user_id):
        first = date.fromisoformat(f"{month}-01")
        last = (first + timedelta(31)).replace(day=1) - timedelta(1)
        paths = [_closed_list(status, first, last) for status in ("won", "lost")]
        counts, sums = [deals.count for deals in closed], [_sums(deals) for deals in closed]
        bars.append(Bar(formatting.month(month), counts, paths, sums, _mark(first, "LLL")))
    won, lost = (formatting.number(sum(bar.counts[side] for bar in bars)) for side in (0, 1))
    heads = (gettext("Won deals"), gettext("Lost deals"))
    return Plot(
        "months",
        gettext("Won and lost deals, 12 months"),
        gettext("Won: %(won)s, lost: %(lost)s", won=won, lost=lost),
        (gettext("Month"), *heads, gettext("Won amount"), gettext("Lost amount")),
        bars,
        list(zip(heads, ("plot-won", "plot-lost"), strict=True)),
    )


def _sources_plot(calendar: Calendar, user_id: int | None) -> Plot:
    counts, other_leads = figures.sources(calendar, user_id)
    days = (calendar.first_of_days(figures.SOURCE_DAYS), calendar.today)
    bars = []
    for source, count in counts:
        filters = {"source": source} if source else {"has_source": "false"}
        name = formatting.source(source) or gettext("Unknown")
        bars.append(Bar(name, [count], [_leads_list(*days, **filters)]))
    if other_leads:
        named_sources = [source for source, _ in counts if source]
        # Leads without a source are among the others unless they have a bar of their own.
        known = {"has_source": "true"} if len(named_sources) < len(counts) else {}
        path = _leads_list(*days, source_not=named_sources, **known)
        bars.append(Bar(gettext("All others"), [other_leads], [path]))
    heads = gettext("Source"), gettext("Leads")
    return Plot("sources", gettext("Lead sources, 90 days"), _leads(bars), heads, bars)


def _list_at(path: str, **filters: object) -> str:
    """The address of a list with these filters; a day is one of the tenant's time zone."""
    if not _is_everybody():
        filters["assigned_to"] = "me"
    elif path == "/tasks":  # which has the user's own by default
        filters["assigned_to"] = "all"
    return f"{request.root_path}{path}?{urlencode(filters, doseq=True)}"


def _leads_list(first: date, last: date, /, **filters: object) -> str:
    """Leads that came in on these days, both included."""
    return _list_at("/leads", **filters, created_since=first, created_until=last)


def _closed_list(status: str, first: date, last: date) -> str:
    """Deals that were won, or lost, on these days, both included."""
    return _list_at("/deals", view="list", status=status, closed_since=first, closed_until=last)


def _leads(bars: Sequence[Bar]) -> str:
    count = sum(count for bar in bars for count in bar.counts)
    return ngettext("%(num)d lead", "%(num)d leads", count)


def _amounts(deals: Deals) -> list[str]:
    """A sum for each currency, the tenant's own first."""
    tenant_currency = tenant.currency()
    sums = sorted(deals.sums.items(), key=lambda sum: (sum[0] != tenant_currency, sum[0]))
    return [formatting.money(as_number(sum, HUNDREDTHS), currency) for currency, sum in sums]


def _sums(deals: Deals) -> str:
    return " · ".join(_amounts(deals))


def _mark(day: date, pattern: str) -> str:
    return dates.format_date(day, pattern, locale=get_locale())
