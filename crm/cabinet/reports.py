"""The reports: a page for each, with a plot and a table, compared with the period before.

Each number links to the list of exactly the records that it counts: both come from the declarations
of the reports. Managers see their own figures unless they choose those of everybody.
"""

from collections.abc import Mapping, Sequence
from datetime import date
from typing import Any, NamedTuple

from babel import dates
from flask import request
from werkzeug.datastructures import MultiDict
from werkzeug.wrappers import Response

from crm.cabinet import choices, formatting
from crm.cabinet.languages import N_, coded_text, get_locale, gettext
from crm.cabinet.rendering import MANAGER, OWNER, Pages, me, render
from crm.cabinet.today import EVERYBODY
from crm.errors import NotFound
from crm.records.fields import Boolean
from crm.records.totals import HUNDREDTHS
from crm.resources import tenant
from crm.resources.reports import periods
from crm.resources.reports.counting import ReportRow, count
from crm.resources.reports.declarations import REPORTS, TAKEN, Number, Report, list_parameters
from crm.resources.reports.endpoints import filter_of, read_total
from crm.resources.reports.periods import Period
from crm.storage.heavy_work import heavy_work
from crm.values import as_number

FIRST = "funnel"
TITLES = {
    "funnel": N_("Funnel"),
    "stage-time": N_("Time in stages"),
    "forecast": N_("Forecast"),
    "lost": N_("Lost deals"),
    "sources": N_("Sources"),
    "people": N_("People"),
    "activity": N_("Activity"),
    "received": N_("Money received"),
}
ALL, OWN_DATES = "all", "own"
PERIODS = {
    "month": N_("This month"),
    "last_month": N_("Last month"),
    "quarter": N_("This quarter"),
    "year": N_("This year"),
}
MAX_BARS = 12  # of values that anybody may type; the table has more
BARS = {"people": "won"}  # what horizontal bars show, by default the first number
# The plots with vertical bars of a report, each the names of its numbers with the class of a bar.
VERTICAL = {
    "activity": (
        {"leads": "plot-bar"},
        {"won": "plot-won", "lost": "plot-lost"},
        {"tasks": "plot-bar"},
    ),
    "received": ({"payments": "plot-bar"},),
}


class Cell(NamedTuple):
    """A cell of the table; `path` is that of the list whose records it counts."""

    text: str
    path: str = ""


class Bar(NamedTuple):
    """The bars of one name, one for each series of the plot.

    `counts` and `paths` are in the order of the series, `paths` being the pages that the bars link
    to. `text` is written for a count that is no number of records. Horizontal bars have the `note`
    below. `mark` is the short name on the axis of vertical bars.
    """

    name: str
    counts: Sequence[int]
    paths: Sequence[str] = ()
    note: str = ""
    mark: str = ""
    text: str = ""


class Plot(NamedTuple):
    """A plot, which `reports/_plots.html` draws; the page has a table with the same numbers.

    `series` are (name, CSS class) of vertical bars, with a legend if there are several; without
    any the bars are horizontal.
    """

    id: str
    name: str
    bars: Sequence[Bar]
    series: Sequence[tuple[str, str]] = ()

    @property
    def max_count(self) -> int:
        return max((count for bar in self.bars for count in bar.counts), default=0)


pages = Pages("reports")


@pages.get("/reports")
@pages.get("/reports/<name>")
def show_report(name: str = FIRST) -> Response:
    if name not in REPORTS:
        raise NotFound
    options = {parameter: REPORTS[name].custom_options(parameter) for parameter in TAKEN}
    # Another report may not have what the address names.
    chosen = {one: text for one in TAKEN if (text := request.args.get(one, "")) in options[one]}
    report, (total, before) = REPORTS[name].customized(chosen), _totals(name)
    # Only the counting is heavy work: rendering needs no further reads of many rows.
    with heavy_work():
        rows = count(name, total, report)
        if before:
            count(name, before, report)
    if name in BARS:  # the longest bars first
        number = _number_of_bars(name, report)
        rows.sort(key=lambda row: (row.key is None, -row.total(number).count))
    pipelines = choices.pipelines()
    return render(
        "reports/page.html",
        title=gettext(TITLES[name]),
        tabs=[(key, gettext(title), key == name) for key, title in TITLES.items()],
        periods=_period_links(name),
        has_own_dates=_period_name(name) == OWN_DATES,
        pipelines=[(one["id"], one["name"]) for one in pipelines] if pipelines[1:] else [],
        pipeline_id=total.filters.get("pipeline_id", ""),
        is_of_one_pipeline=report.key == "stage_id",
        custom={
            parameter: [(name, [*fields.values()][0].label) for name, fields in known.items()]
            for parameter, known in options.items()
        },
        chosen=chosen,
        is_everybody=_is_everybody(),
        may_choose=me().role in (MANAGER, OWNER) and name != "received",
        tiles=[_tile(number, total, before) for number in report.numbers if not number.value],
        plots=_plots(name, report, rows, total),
        heads=_heads(report),
        rows=[(_label(report, row), _cells(report, row)) for row in rows],
        total=_cells(report, total) if rows else [],
    )


def _is_everybody() -> bool:
    """Whether the figures are those of all users."""
    usual = "me" if me().role == MANAGER else EVERYBODY
    return request.args.get("of", usual) == EVERYBODY


def _period_name(name: str) -> str:
    """The chosen period of a report: one of PERIODS, ALL or OWN_DATES."""
    if request.args.get("since") or request.args.get("until"):
        return OWN_DATES
    usual = ALL if name == "forecast" else "month"
    period = request.args.get("period")
    return period if period in PERIODS else usual


def _period_links(name: str) -> list[tuple[str, str, bool]]:
    """(name, label, is current) of the periods to choose."""
    names = {ALL: N_("Any time")} if name == "forecast" else {}
    chosen = _period_name(name)
    return [(key, gettext(label), key == chosen) for key, label in (names | PERIODS).items()]


def _totals(name: str) -> tuple[ReportRow, ReportRow | None]:
    """The total to be counted, and that of the period before. Raises Invalid."""
    sent = {key: request.args.get(key) for key in ("since", "until", "pipeline_id")}
    sent["assigned_to"] = None if _is_everybody() else "me"
    parameters = filter_of(REPORTS[name])
    query = parameters.read(
        MultiDict((key, text) for key, text in sent.items() if text and key in parameters.fields)
    )
    total, period = read_total(name, query), _period_name(name)
    before = total.period.before()
    if period in PERIODS:
        total.period, before = periods.named(period)
    return total, ReportRow(before, {**total.filters}) if before != total.period else None


def _list_at(number: Number, period: Period, filters: Mapping[str, Any]) -> str:
    """The address of the list of the records that a number counts; of papers there is none."""
    if number.resource == "papers":
        return ""
    parameters = list_parameters(number, period, filters)
    if number.resource == "deals":
        parameters["view"] = "list"
    elif number.resource == "tasks":  # which has the user's own by default
        parameters = {"assigned_to": "all", **parameters}
    query = formatting.urlencode_all(parameters)
    return f"{request.root_path}/{number.resource}?{query}"


def _count(number: Number, row: ReportRow) -> Cell:
    path, totals = _list_at(number, row.period, row.filters), row.total(number)
    count = as_number(sum(totals.sums.values())) if number.value else totals.count
    return Cell(formatting.number(count), path)


def _tile(number: Number, total: ReportRow, before: ReportRow | None) -> dict[str, Any]:
    """A total and its list; `then` is that of the period before, if the page compares with one."""
    tile = {"name": _name(number), "total": _count(number, total), "sums": _sums(number, total)}
    if before is None:
        return tile
    change = total.total(number).count - before.total(number).count
    sign = "+" if change > 0 else "−" if change < 0 else "±"
    return tile | {
        "change": f"{sign}{formatting.number(abs(change))}",
        "then": _count(number, before),
        "sums_then": _sums(number, before),
    }


def _text(name: str) -> str:
    return coded_text("report_numbers", name)


def _name(number: Number) -> str:
    name = _text(number.name.removesuffix("_sum"))
    return f"{name} · {number.label}" if number.value else name


def _heads(report: Report) -> list[str]:
    """The headings of the table."""
    heads = [head for number in report.numbers for head in (_name(number), _text(number.sums))]
    heads += map(_text, report.more)
    key = report.by.label if report.key == "value" else coded_text("report_keys", report.key)
    return [key, *filter(None, heads)]


def _cells(report: Report, row: ReportRow) -> list[Cell]:
    cells = []
    for number in report.numbers:
        cells.append(_count(number, row))
        if number.sums:
            cells.append(Cell(_sums(number, row)))
    return cells + [Cell(_more(row.more[name])) for name in report.more]


def _more(value: Any) -> str:
    """A further field of a row: amounts, or a time."""
    if isinstance(value, list):
        return " · ".join(formatting.money(one["amount"], one["currency"]) for one in value)
    return formatting.duration(value)


def _sums(number: Number, row: ReportRow) -> str:
    """A sum for each currency, the tenant's own first, or how long tasks took."""
    totals = row.total(number)
    if not number.sums.endswith("_amounts"):
        return formatting.duration(totals.sums.get("s"))
    tenant_currency = tenant.currency()
    sums = sorted(totals.sums.items(), key=lambda sum: (sum[0] != tenant_currency, sum[0]))
    return " · ".join(formatting.money(as_number(sum, HUNDREDTHS), code) for code, sum in sums)


def _label(report: Report, row: ReportRow) -> str:
    """What a row is of."""
    if "value" in row.more:  # a stage of the funnel of one value
        of_value = ReportRow(key=row.more["value"], label=row.more["label"])
        return f"{_label(report._replace(key='value'), of_value)} · {row.label}"
    if row.key is None:
        return coded_text("report_keys", f"no_{report.key}")
    if report.key == "value" and isinstance(report.by.wire, Boolean):
        return gettext("Yes") if row.key == "true" else gettext("No")
    if report.key in ("month", "period"):
        return formatting.day(row.key) if len(row.key) == 10 else formatting.month(row.key)
    return row.label or (formatting.source(row.key) if report.key == "source" else row.key)


def _plots(name: str, report: Report, rows: Sequence[ReportRow], total: ReportRow) -> list[Plot]:
    if name in VERTICAL:
        return [_vertical_plot(report, classes, rows) for classes in VERTICAL[name]]
    number = _number_of_bars(name, report)
    bars = [_horizontal_bar(report, number, row, total) for row in rows[:MAX_BARS]]
    title = report.by.label if report.key == "value" else gettext(TITLES[name])
    return [Plot("plot", title, bars)]


def _number_of_bars(name: str, report: Report) -> Number:
    return next(one for one in report.numbers if one.name == BARS.get(name, one.name))


def _horizontal_bar(report: Report, number: Number, row: ReportRow, total: ReportRow) -> Bar:
    count, path = row.total(number).count, _list_at(number, row.period, row.filters)
    if "average_seconds" in row.more:
        seconds = row.more["average_seconds"]
        return Bar(row.label, [seconds or 0], [path], text=formatting.duration(seconds) or "—")
    note, of = _sums(number, row), total.total(number).count
    if report.key == "stage_id" and of:
        note = f"{100 * count / of:.0f}\u00a0% · {note}".removesuffix(" · ")
    return Bar(_label(report, row), [count], [path], note)


def _vertical_plot(report: Report, classes: Mapping[str, str], rows: Sequence[ReportRow]) -> Plot:
    numbers = [number for number in report.numbers if number.name in classes]
    series = [(_name(number), classes[number.name]) for number in numbers]
    bars = []
    for row in rows:
        counts = [row.total(number).count for number in numbers]
        paths = [_list_at(number, row.period, row.filters) for number in numbers]
        pattern = "d MMM" if row.period.since == row.period.until else "LLL"
        mark = dates.format_date(date.fromisoformat(row.period.since), pattern, locale=get_locale())
        bars.append(Bar(_label(report, row), counts, paths, mark=mark))
    title = " · ".join(label for label, _ in series)
    return Plot("-".join(classes), title, bars, series)
