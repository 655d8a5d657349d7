"""Counting what the reports show: the rows of each, and their total."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from werkzeug.datastructures import MultiDict

from crm.errors import Fault, Invalid
from crm.records.conditions import Condition, with_joined_ranges
from crm.records.queries import as_texts
from crm.records.totals import HUNDREDTHS, Totals, count_by_group
from crm.resources import task_figures, users
from crm.resources.deals import figures as deals
from crm.resources.leads import figures as leads
from crm.resources.main_resources import MAIN_RESOURCES
from crm.resources.pipelines.record import Pipeline, Stage, probabilities
from crm.resources.reports import periods
from crm.resources.reports.declarations import RANGES, REPORTS, Number, Report, list_parameters
from crm.resources.reports.periods import Period
from crm.storage.dialect import by_index
from crm.storage.session import rows as read_rows
from crm.storage.session import tenant_zone
from crm.values import as_number

FIGURES = {"leads": leads, "deals": deals, "tasks": task_figures}
CountRows = Callable[[Report, "ReportRow"], list["ReportRow"]]
MAX_ROWS = 200  # of reports by values that anybody may type, such as sources


@dataclass(slots=True)
class ReportRow:
    """A row of a report, or its total: the sum of its rows, or all of which they count parts.

    period: the days that it is of. filters: what else narrows the lists of its numbers, such as
    `assigned_to`. key, label: as the report calls them. totals: by the name of the number. more:
    the further fields, as they are shown.
    """

    period: Period = Period()
    filters: dict[str, Any] = field(default_factory=dict)
    key: str | None = None
    label: str = ""
    totals: dict[str, Totals] = field(default_factory=dict)
    more: dict[str, Any] = field(default_factory=dict)

    def total(self, number: Number) -> Totals:
        return self.totals.setdefault(number.name, Totals())

    def part(self, key: str | None, label: str = "", **filters: Any) -> "ReportRow":
        """A row that further filters narrow."""
        return ReportRow(self.period, self.filters | filters, key, label)


def count(name: str, total: ReportRow, report: Report | None = None) -> list[ReportRow]:
    """Count a report whose total has a period and filters: its rows; the total is filled in.

    A report of one pipeline is of the default one unless the filters name another, which is added
    to them. report: as it was customized, if so. Raises Invalid.
    """
    report = report or REPORTS[name]
    if report.key == "stage_id":
        total.filters.setdefault("pipeline_id", str(Pipeline.default().id))
    return COUNTING[name](report, total)


def conditions_of(
    number: Number, period: Period, filters: Mapping[str, Any]
) -> Sequence[Condition]:
    """The conditions of the list whose records a number counts."""
    list_filter = MAIN_RESOURCES[number.resource].list_filter
    parameters: MultiDict[str, str] = MultiDict(list_parameters(number, period, filters))
    for limit in RANGES[number.period]:
        if limit in parameters:
            day = parameters[limit]
            parameters[limit] = list_filter.fields[limit].of_day(day, tenant_zone().key)
    return list_filter.read(parameters).conditions


def _range_of(number: Number, period: Period) -> Condition:
    """The condition of the records of a number that belong to a period with both its ends."""
    list_fields = MAIN_RESOURCES[number.resource].list_filter.fields
    limits = [list_fields[name] for name in RANGES[number.period]]
    zone, days = tenant_zone().key, zip(limits, period, strict=True)
    ends = [limit.condition([limit.of_day(day, zone)], limit.column) for limit, day in days]
    (joined,) = with_joined_ranges(ends)
    return joined


def _count_by_group(
    number: Number,
    row: ReportRow,
    groups: Sequence[str] = (),
    parts: Sequence[Period] = (),
    **divided: Any,
) -> list[tuple[Any, ...]]:
    """(*groups, unit, number of records, their sum) of the records that a row is of.

    parts: of its period, if given; the position of the part comes first. divided: the cases, as in
    totals.
    """
    conditions = conditions_of(number, Period() if parts else row.period, row.filters)
    figures: Any = FIGURES[number.resource]
    source, condition = figures.PERIODS[number.period]
    sums = figures.SUMS if number.sums else {}
    if number.value:
        # As a floating number: the exact sum of large values may have more than 64 bits.
        sums = {"value": f"CAST({number.value} AS DOUBLE PRECISION)"}
    divided["parts"] = [_range_of(number, part) for part in parts]
    of_leads = number.resource == "leads"
    count_groups = leads.count_by_group if of_leads else count_by_group
    return count_groups(source, groups, [condition, *conditions], **sums, **divided)


def _count_numbers(
    numbers: Iterable[Number],
    row: ReportRow,
    groups: Sequence[str] = (),
    parts: Sequence[Period] = (),
) -> Iterator[tuple[Number, tuple[Any, ...], tuple[str, int, int]]]:
    """(number, values of the groups, figure) of the numbers of a row; Totals.add() takes a figure.

    groups: columns by which the records are grouped besides; the custom field of the numbers, if
    any, is the last. parts: of the period of the row, whose positions come first in the values.
    Numbers of one list and period share a statement.
    """
    lists: dict[tuple[str, str, str], list[Number]] = {}
    for number in numbers:
        lists.setdefault((number.resource, number.period, number.value), []).append(number)
    for alike in lists.values():
        grouping = [*groups, *filter(None, [alike[0].by])]
        width = len(grouping) + bool(parts)
        common = dict(set.intersection(*({*number.filters.items()} for number in alike)))
        together = alike[0]._replace(filters=common, sums="".join(one.sums for one in alike))
        own = (dict(number.filters.items() - common.items()) for number in alike)
        cases = [conditions_of(together._replace(filters=one), Period(), {}) for one in own]
        for counted in _count_by_group(together, row, grouping, parts, cases=cases):
            unit, *figures = counted[width:]
            for number, count, sum in zip(alike, figures[::2], figures[1::2], strict=True):
                if count:
                    has_sum = number.sums or number.value
                    yield number, counted[:width], (unit, count, round(sum) if has_sum else 0)


def _add_up(report: Report, total: ReportRow, rows: Iterable[ReportRow]) -> None:
    for row in rows:
        for number in report.numbers:
            total.total(number).add_all(row.total(number))


def _count_by_column(column: str, add_filters: Callable[[Any], dict[str, str]]) -> CountRows:
    """How to count a report with a row for each value of a column, or of the custom field that
    takes its place; a label is a user's name.

    add_filters: those of the row of a value.
    """

    def count_rows(report: Report, total: ReportRow) -> list[ReportRow]:
        by_value: dict[Any, ReportRow] = {}
        counted = _count_numbers(report.numbers, total, [] if report.by else [column])
        names = users.names() if report.label else {}
        for number, (value,), figure in counted:
            if value not in by_value:
                key = None if value is None else str(value)
                by_value[value] = (
                    _custom_part(report, total, value)
                    if report.by
                    else total.part(key, names.get(key or "", ""), **add_filters(value))
                )
            by_value[value].total(number).add(*figure)
        rows = sorted(by_value.values(), key=lambda row: _order(report, row))
        _add_up(report, total, rows)
        return rows[:MAX_ROWS]

    return count_rows


def _custom_part(report: Report, total: ReportRow, value: Any) -> ReportRow:
    """The row of a value of the custom field that a report is counted by."""
    field, key, label = report.by, None, ""
    if value is not None:
        key = as_texts({"value": field.wire.show(value)})["value"]
        label = users.names().get(key, key) if field.references else field.shown_text(key)
    return total.part(key, label, **_with_or_without(field.name)(key))


def _order(report: Report, row: ReportRow) -> tuple[Any, ...]:
    """The row without a value last, of the others those with the largest numbers first."""
    return row.key is None, *(-row.total(number).count for number in report.numbers), row.key


def _rows_of_period(total: ReportRow) -> list[ReportRow]:
    """A row for each day or month of the period; raises Invalid."""
    parts = [*islice(total.period.parts(), periods.MAX_MONTHS + 1)]
    if len(parts) > periods.MAX_MONTHS:
        detail = f"at most {periods.MAX_MONTHS} months"
        raise Invalid(Fault("until", "period_too_long", detail, "parameter"))
    return [ReportRow(part, total.filters, key) for key, part in parts]


def _count_activity(report: Report, total: ReportRow) -> list[ReportRow]:
    rows = _rows_of_period(total)
    periods_of_rows = [row.period for row in rows]
    counted = _count_numbers(report.numbers, total, parts=periods_of_rows) if rows else ()
    for number, (position,), figure in counted:
        rows[position].total(number).add(*figure)
    _add_up(report, total, rows)
    return rows


def _count_received(report: Report, total: ReportRow) -> list[ReportRow]:
    rows, (number,) = _rows_of_period(total), report.numbers
    by_key, currency = {row.key: row for row in rows}, total.filters.get("currency")
    paid = "kind = 'invoice' AND paid_at >= ? AND paid_at <= ?"
    params = [*total.period]
    if currency is not None:
        paid += " AND currency = ?"
        params.append(currency)
    papers = by_index("paper", "paper_paid_at")
    sql = f"SELECT paid_at, currency, count(*), sum(paid_amount) FROM {papers} WHERE {paid}"
    counted = read_rows(f"{sql} GROUP BY paid_at, currency", params)
    for day, unit, count, amount in counted:
        row = by_key.get(day) or by_key[day[:7]]
        row.total(number).add(unit, count, int(amount) // HUNDREDTHS)
    _add_up(report, total, rows)
    return rows


def _count_forecast(report: Report, total: ReportRow) -> list[ReportRow]:
    chances = probabilities()
    by_month: dict[str | None, ReportRow] = {}
    weighted: dict[str | None, dict[str, int]] = {}
    groups = ["expected_close_date", "stage_id"]
    for number, (day, stage_id), figure in _count_numbers(report.numbers, total, groups):
        month = day and day[:7]
        if month not in by_month:
            undated = {} if month else {"has_expected_close_date": "false"}
            by_month[month] = row = total.part(month, **undated)
            row.period = total.period.month(month) if month else Period()
        by_month[month].total(number).add(*figure)
        if number.value:
            continue
        currency, _, sum = figure
        for sums in (weighted.setdefault(month, {}), weighted.setdefault("", {})):
            sums[currency] = sums.get(currency, 0) + sum * chances.get(stage_id, 0)
    rows = sorted(by_month.values(), key=lambda row: (row.key is None, row.key))
    _add_up(report, total, rows)
    for row, month in [*((row, row.key) for row in rows), (total, "")]:
        sums = {code: (sum + 50) // 100 for code, sum in weighted.get(month, {}).items()}
        row.more["weighted_amounts"] = amounts(sums)
    return rows


def _count_funnel(report: Report, total: ReportRow) -> list[ReportRow]:
    stages = _stages(total)
    won = [stage for stage in stages if stage.type == "won"]
    parts: dict[Any, list[Any]] = {} if report.by else {(): []}
    for number, (rank, *value), figure in _count_numbers(
        report.numbers, total, [deals.furthest_rank(stages)]
    ):
        total.total(number).add(*figure)
        parts.setdefault((*value,), []).append((number, rank or 0, figure))
    rows = []
    for value, counted in sorted(parts.items(), key=lambda part: (part[0] == (None,), part[0])):
        part = _custom_part(report, total, *value) if value else total
        for stage in [stage for stage in stages if stage.type == "open"] + won[:1]:
            row = part.part(str(stage.id), stage.name, reached_stage_id=str(stage.id))
            if value:
                row.more = {"value": part.key, "label": part.label}
            for number, rank, figure in counted:
                if rank >= deals.rank_of(stage):
                    row.total(number).add(*figure)
            rows.append(row)
    return rows[:MAX_ROWS]


def _stages(total: ReportRow) -> list[Stage]:
    pipeline = Pipeline.first("id = ?", total.filters["pipeline_id"])
    return pipeline.list_stages() if pipeline else []


def _count_stage_times(report: Report, total: ReportRow) -> list[ReportRow]:
    (number,) = report.numbers
    for figure in _count_by_group(number, total):
        total.total(number).add(*figure)
    times = deals.sum_times_in_stages(conditions_of(number, total.period, total.filters))
    rows, all_seconds = [], 0
    for stage in _stages(total):
        if stage.type != "open":
            continue
        count, seconds = times.get(stage.id, (0, 0))
        row = total.part(str(stage.id), stage.name, left_stage_id=str(stage.id))
        row.total(number).count = count
        row.more["average_seconds"] = _average(seconds, count)
        all_seconds += seconds
        rows.append(row)
    total.more["average_seconds"] = _average(all_seconds, total.total(number).count)
    return rows


def _average(sum: int, count: int) -> int | None:
    return round(sum / count) if count else None


def amounts(sums: Mapping[str, int]) -> list[dict[str, Any]]:
    """The sums by currency as they are shown."""
    return [
        {"currency": code, "amount": as_number(sum, HUNDREDTHS)}
        for code, sum in sorted(sums.items())
    ]


def _with_or_without(name: str) -> Callable[[Any], dict[str, str]]:
    """The filter of a value of a column, or of records without one."""
    return lambda value: {f"has_{name}": "false"} if value is None else {name: value}


COUNTING: dict[str, CountRows] = {
    "funnel": _count_funnel,
    "stage-time": _count_stage_times,
    "forecast": _count_forecast,
    "lost": _count_by_column("lost_reason", _with_or_without("lost_reason")),
    "sources": _count_by_column("source", _with_or_without("source")),
    "people": _count_by_column(
        "assigned_to", lambda value: {"assigned_to": "none" if value is None else str(value)}
    ),
    "activity": _count_activity,
    "received": _count_received,
}
