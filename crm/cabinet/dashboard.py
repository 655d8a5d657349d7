"""The dashboard: figures of the business, each compared with the period before, and plots.

Each plot has a table of the same values. Each number of records links to the list of exactly those
records. A new business sees a list of first steps above.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any, NamedTuple
from urllib.parse import urlencode

from babel import dates
from flask import request
from markupsafe import Markup
from werkzeug.wrappers import Response

from crm.cabinet import figures, formatting, plots
from crm.cabinet.figures import Calendar, Deals, Funnel
from crm.cabinet.languages import get_locale, gettext, ngettext
from crm.cabinet.plots import Bar, Column
from crm.cabinet.rendering import OWNER, VIEWER, me, render
from crm.resources import tenant
from crm.tenancy.database import now, one_row
from crm.tenancy.heavy_work import heavy_work
from crm.values import as_number

MAX_FUNNELS = 5
HUNDREDTHS = 100


class Cell(NamedTuple):
    """A cell of a table, and the path of the list of the records that it counts."""

    text: str
    path: str = ""


@dataclass(frozen=True)
class Tile:
    """One figure and the path of its records; `then` compares it with the period before."""

    name: str
    icon: str
    path: str
    number: int
    then: str
    sums: Sequence[str] = ()
    sums_then: str = ""


class Plot(NamedTuple):
    """A picture and its table: headings of the columns, and rows whose first cell is the name."""

    id: str
    name: str
    picture: Markup | None  # None where there is nothing to show
    heads: Sequence[str]
    rows: Sequence[Sequence[Cell]]


def show() -> Response:
    """The page `/` of a tenant's host."""
    calendar = Calendar(formatting.time_zone(), now())
    # Only the figures count as heavy work: rendering needs no further reads of many rows.
    with heavy_work():
        funnels = figures.funnels()
        tiles = _tiles(calendar, funnels)
        plots = [
            *_funnel_plots(funnels),
            _days_plot(calendar),
            _months_plot(calendar),
            _sources_plot(calendar),
        ]
    return render("dashboard/page.html", steps=_first_steps(), tiles=tiles, plots=plots)


def _first_steps() -> list[tuple[str, str, bool]]:
    """(label, path, is done) of each step, while there is no deal and not all steps are done."""
    if me().role == VIEWER:
        return []
    *steps_done, has_deals = one_row(
        "SELECT EXISTS (SELECT 1 FROM lead), EXISTS (SELECT 1 FROM product),"
        ' (SELECT count(*) FROM "user") > 1, EXISTS (SELECT 1 FROM api_key),'
        " EXISTS (SELECT 1 FROM webhook), EXISTS (SELECT 1 FROM deal)"
    )
    to_do = [
        (gettext("Add a lead"), "/leads/new"),
        (gettext("Import the price list"), "/products/import"),
    ]
    if me().role == OWNER:
        to_do += [
            (gettext("Invite a colleague"), "/settings/users"),
            (gettext("Create an API key for your site"), "/settings/api-keys"),
            (gettext("Set up a webhook"), "/settings/webhooks"),
        ]
    # Not strict: only an owner has the last steps.
    steps = [(*step, bool(is_done)) for step, is_done in zip(to_do, steps_done, strict=False)]
    return [] if has_deals or all(is_done for *_, is_done in steps) else steps


def _tiles(calendar: Calendar, funnels: list[Funnel]) -> list[Tile]:
    leads, leads_before = figures.new_leads(calendar)
    open, open_before = figures.in_work(calendar, funnels)
    won, won_before = figures.won(calendar)
    (today, today_before), (late, late_before) = figures.tasks(calendar)

    def week(change: str) -> str:
        return gettext("%(change)s from the week before", change=change)

    def ago(change: str) -> str:
        return gettext("%(change)s from a week ago", change=change)

    def month(change: str) -> str:
        return gettext("%(change)s from the same days of last month", change=change)

    def day(change: str) -> str:
        return gettext("%(change)s from this time yesterday", change=change)

    to_do = {"assigned_to": "all"}  # the list of tasks has the user's own by default
    month_then = gettext("Then: %(sums)s", sums=_sums(won_before)) if won_before.sums else ""
    return [
        Tile(
            gettext("New leads in 7 days"),
            "person-plus",
            _leads_list(calendar.first_of_days(figures.WEEK), calendar.today),
            leads,
            _change(leads, leads_before, week),
        ),
        Tile(
            gettext("Deals in work"),
            "kanban",
            _list_at("/deals", view="list", status="open"),
            open.count,
            _change(open.count, open_before, ago),
            _amounts(open),
        ),
        Tile(
            gettext("Won this month"),
            "trophy",
            _closed_list("won", calendar.today.replace(day=1), calendar.today),
            won.count,
            _change(won.count, won_before.count, month),
            _amounts(won),
            month_then,
        ),
        Tile(
            gettext("Tasks for the rest of today"),
            "calendar-check",
            _list_at("/tasks", **to_do, due_since=now(), due_before=calendar.today),
            today,
            _change(today, today_before, day),
        ),
        Tile(
            gettext("Overdue tasks"),
            "alarm",
            _list_at("/tasks", **to_do, due_before=now()),
            late,
            _change(late, late_before, day),
        ),
    ]


def _funnel_plots(funnels: list[Funnel]) -> list[Plot]:
    """Plots of the pipelines that have open deals, else of the first ones."""
    used = [funnel for funnel in funnels if any(stage.deals.count for stage in funnel.stages)]
    return [_funnel_plot(funnel) for funnel in (used or funnels)[:MAX_FUNNELS]]


def _funnel_plot(funnel: Funnel) -> Plot:
    id = f"funnel-{funnel.pipeline_id}"
    name = gettext("Funnel “%(name)s”", name=funnel.name)
    count = sum(stage.deals.count for stage in funnel.stages)
    about = ngettext("%(num)d open deal", "%(num)d open deals", count)
    bars = [
        Bar(
            stage.name,
            stage.deals.count,
            _sums(stage.deals),
            _list_at("/deals", view="list", stage_id=stage.id, status="open"),
        )
        for stage in funnel.stages
    ]
    return Plot(
        id,
        name,
        plots.draw_horizontal_bars(id, name, about, bars, formatting.number) if count else None,
        (gettext("Stage"), gettext("Deals"), gettext("Sum")),
        [(*_row(bar), Cell(bar.note)) for bar in bars],
    )


def _days_plot(calendar: Calendar) -> Plot:
    days = figures.leads_by_day(calendar)
    name = gettext("Leads per day, 30 days")
    count = sum(count for _, count in days)
    columns = [
        Column(formatting.day(f"{day}"), _day_mark(day), (count_of_day,), (_leads_list(day, day),))
        for day, count_of_day in days
    ]
    series = [(gettext("Leads"), "plot-bar")]
    drawn = plots.draw_vertical_bars(
        "days", name, _leads(count), series, columns, formatting.number
    )
    heads = (gettext("Day"), gettext("Leads"))
    return Plot("days", name, drawn if count else None, heads, _rows(columns))


def _months_plot(calendar: Calendar) -> Plot:
    months = figures.closed_by_month(calendar)
    name = gettext("Won and lost deals, 12 months")
    won = sum(deals.count for _, deals, _ in months)
    lost = sum(deals.count for _, _, deals in months)
    about = gettext(
        "Won: %(won)s, lost: %(lost)s", won=formatting.number(won), lost=formatting.number(lost)
    )
    columns = [
        Column(
            formatting.month(month),
            _month_mark(month),
            (won.count, lost.count),
            _month_lists(month),
        )
        for month, won, lost in months
    ]
    series = [(gettext("Won deals"), "plot-won"), (gettext("Lost deals"), "plot-lost")]
    drawn = plots.draw_vertical_bars("months", name, about, series, columns, formatting.number)
    sums = [(Cell(_sums(won)), Cell(_sums(lost))) for _, won, lost in months]
    return Plot(
        "months",
        name,
        drawn if won or lost else None,
        (
            gettext("Month"),
            gettext("Won deals"),
            gettext("Lost deals"),
            gettext("Won amount"),
            gettext("Lost amount"),
        ),
        [(*cells, *sum) for cells, sum in zip(_rows(columns), sums, strict=True)],
    )


def _sources_plot(calendar: Calendar) -> Plot:
    counts, other_leads = figures.sources(calendar)
    name = gettext("Lead sources, 90 days")
    days = (calendar.first_of_days(figures.SOURCE_DAYS), calendar.today)
    bars = [
        Bar(
            source or gettext("Unknown"),
            count,
            path=_leads_list(*days, source=source)
            if source
            else _leads_list(*days, has_source="false"),
        )
        for source, count in counts
    ]
    if other_leads:
        named_sources = [source for source, _ in counts if source]
        # Leads without a source are among the others unless they have a bar of their own.
        source_filter: dict[str, Any] = (
            {"has_source": "true"} if len(named_sources) < len(counts) else {}
        )
        path = _leads_list(*days, source_not=named_sources, **source_filter)
        bars.append(Bar(gettext("All others"), other_leads, path=path))
    about = _leads(sum(bar.count for bar in bars))
    return Plot(
        "sources",
        name,
        plots.draw_horizontal_bars("sources", name, about, bars, formatting.number)
        if bars
        else None,
        (gettext("Source"), gettext("Leads")),
        [_row(bar) for bar in bars],
    )


def _row(bar: Bar) -> tuple[Cell, ...]:
    return Cell(bar.name), Cell(formatting.number(bar.count), bar.path)


def _rows(columns: list[Column]) -> list[tuple[Cell, ...]]:
    return [
        (Cell(column.name), *map(Cell, map(formatting.number, column.counts), column.paths))
        for column in columns
    ]


def _list_at(path: str, **filters: object) -> str:
    """The address of a list with these filters; a day is one of the tenant's time zone."""
    return f"{request.root_path}{path}?{urlencode(filters, doseq=True)}"


def _leads_list(first: date, last: date, /, **filters: object) -> str:
    """Leads that came in on these days, both included."""
    return _list_at("/leads", **filters, created_since=first, created_until=last)


def _closed_list(status: str, first: date, last: date) -> str:
    """Deals that were won, or lost, on these days, both included."""
    return _list_at("/deals", view="list", status=status, closed_since=first, closed_until=last)


def _month_lists(month: str) -> tuple[str, str]:
    first = date.fromisoformat(f"{month}-01")
    last = (first + timedelta(31)).replace(day=1) - timedelta(1)
    return _closed_list("won", first, last), _closed_list("lost", first, last)


def _leads(count: int) -> str:
    return ngettext("%(num)d lead", "%(num)d leads", count)


def _change(count: int, before: int, describe: Callable[[str], str]) -> str:
    """The difference as a sentence, made by `describe("+3")`."""
    sign = "+" if count > before else "−" if count < before else "±"
    return describe(f"{sign}{formatting.number(abs(count - before))}")


def _amounts(deals: Deals) -> list[str]:
    """A sum for each currency, the tenant's own first."""
    tenant_currency = tenant.currency()
    sums = sorted(deals.sums.items(), key=lambda sum: (sum[0] != tenant_currency, sum[0]))
    return [formatting.money(as_number(sum, HUNDREDTHS), currency) for currency, sum in sums]


def _sums(deals: Deals) -> str:
    return " · ".join(_amounts(deals))


def _day_mark(day: date) -> str:
    return dates.format_date(day, "d MMM", locale=get_locale())


def _month_mark(month: str) -> str:
    return dates.format_date(date.fromisoformat(f"{month}-01"), "LLL", locale=get_locale())
