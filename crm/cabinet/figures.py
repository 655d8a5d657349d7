"""Figures of the dashboard: new leads, open deals, won and lost deals, tasks to be done.

Days and months are those of the tenant's time zone. Each figure is compared with an earlier one:
counts of a period with those of the period before, open deals and tasks with those of a week ago.
Sums are kept for each currency and never mixed (D2). Deleted records don't count.

Earlier figures are computed from the records as they are today. A record that was deleted or
cancelled since is missing from the earlier figure too, and a reopened deal counts as never closed.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

from crm import values
from crm.tenancy.database import one_row, rows

Span = tuple[str, str]  # from a moment until before another, as times are stored

SECOND = timedelta(seconds=1)  # what happened in the last one of a stretch counts
WEEK = 7
DAYS, SOURCE_DAYS, MONTHS = 30, 90, 12
MAX_SOURCES = 8
UNDONE = "status IN ('open', 'in_progress') AND deleted_at IS NULL"
OPEN = "closed_at IS NULL AND deleted_at IS NULL"  # must match the partial index of open deals
# Of the tasks that existed at a moment: those due from then until another moment, and overdue ones.
DUE = (
    "count(CASE WHEN created_at <= ? AND due_at >= ? AND due_at < ? THEN 1 END),"
    " count(CASE WHEN created_at <= ? AND due_at < ? THEN 1 END)"
)


class Calendar:
    """Days and months of a time zone, counted back from a moment."""

    def __init__(self, zone: str, moment: str):
        self._zone = ZoneInfo(zone)
        self.now = datetime.fromisoformat(moment).astimezone(self._zone)
        self.today = self.now.date()

    def first_of_days(self, count: int) -> date:
        """The first of so many days, of which today is the last."""
        return self.today - timedelta(count - 1)

    def until_now(self, days: int) -> Span:
        """Today and the days before it, so many together."""
        return self._midnight(self.first_of_days(days)), _stored(self.now + SECOND)

    def until_then(self, days: int) -> Span:
        """The same stretch of so many days, so many days earlier."""
        first, end = self.today - timedelta(2 * days - 1), self.today - timedelta(days)
        return self._midnight(first), _stored(self._at(end, self.now.time()) + SECOND)

    def ago(self, days: int) -> str:
        """The same time of the day, so many days earlier."""
        return _stored(self._at(self.today - timedelta(days), self.now.time()))

    def remaining_day(self, days_ago: int = 0) -> Span:
        """The remaining part of a day, from the present time of day on."""
        return self.ago(days_ago), self._midnight(self.today + timedelta(1 - days_ago))

    def days(self, count: int) -> list[tuple[date, Span]]:
        """The last days, the earliest first."""
        dates = [self.today - timedelta(back) for back in reversed(range(count))]
        return [(day, (self._midnight(day), self._midnight(day + timedelta(1)))) for day in dates]

    def months(self, count: int) -> list[tuple[str, Span]]:
        """The last months as `YYYY-MM`, the earliest first."""
        firsts = [_month(self.today, back) for back in reversed(range(-1, count))]
        return [
            (f"{first:%Y-%m}", (self._midnight(first), self._midnight(following)))
            for first, following in zip(firsts, firsts[1:], strict=False)
        ]

    def month_until_now(self) -> Span:
        return self._midnight(_month(self.today)), _stored(self.now + SECOND)

    def month_until_then(self) -> Span:
        """The month before, up to the same day and time: all of it if it is shorter."""
        first, end = _month(self.today, 1), _month(self.today)
        then = first + timedelta(self.today.day - 1)
        if then >= end:  # such as on the 31st after a month of 30 days
            return self._midnight(first), self._midnight(end)
        return self._midnight(first), _stored(self._at(then, self.now.time()) + SECOND)

    def _midnight(self, day: date) -> str:
        return values.midnight(day, self._zone.key)

    def _at(self, day: date, hour: time) -> datetime:
        return datetime.combine(day, hour, self._zone)


def _month(day: date, back: int = 0) -> date:
    """The first of the month so many months before the day's."""
    count = day.year * 12 + day.month - 1 - back
    return date(count // 12, count % 12 + 1, 1)


def _stored(moment: datetime) -> str:
    return f"{moment.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"


@dataclass(slots=True)
class Deals:
    """A number of deals and the sum of their amounts in each currency, in 1/100.

    In 1/100, because amounts in 1/10 000 could add up to more than 64 bits.
    """

    count: int = 0
    sums: dict[str, int] = field(default_factory=dict)

    def add(self, currency: str, count: int, sum: int) -> None:
        self.count += count
        if sum:
            self.sums[currency] = self.sums.get(currency, 0) + sum


@dataclass(frozen=True, slots=True)
class OpenStage:
    """An open stage of a pipeline, and its open deals."""

    id: int
    name: str
    deals: Deals


@dataclass(frozen=True, slots=True)
class Funnel:
    """A pipeline and its open stages."""

    pipeline_id: int
    name: str
    stages: list[OpenStage]


def new_leads(calendar: Calendar) -> tuple[int, int]:
    """Count the leads of the last 7 days, and those of the 7 days before up to this time."""
    this, before = _leads_in([calendar.until_now(WEEK), calendar.until_then(WEEK)])
    return this, before


def leads_by_day(calendar: Calendar) -> list[tuple[date, int]]:
    days = calendar.days(DAYS)
    return list(zip((day for day, _ in days), _leads_in([span for _, span in days]), strict=True))


def sources(calendar: Calendar) -> tuple[list[tuple[str | None, int]], int]:
    """Return (source, number of leads) of the largest sources, and the number of all others."""
    begins, ends = calendar.until_now(SOURCE_DAYS)
    # Selected by time of creation: by the index of sources all leads would be read.
    counts = rows(
        "SELECT coalesce(source, ''), count(*) FROM lead WHERE created_at >= ? AND created_at < ?"
        " AND deleted_at IS NULL GROUP BY coalesce(source, '') ORDER BY count(*) DESC, 1",
        (begins, ends),
    )
    largest = [(source or None, count) for source, count in counts[:MAX_SOURCES]]
    return largest, sum(count for _, count in counts[MAX_SOURCES:])


def funnels() -> list[Funnel]:
    """All pipelines in their order."""
    by_id: dict[int, Funnel] = {}
    stages: dict[int, Deals] = {}
    for id, name, stage_id, stage in rows(
        "SELECT pipeline.id, pipeline.name, stage.id, stage.name FROM pipeline"
        " JOIN stage ON stage.pipeline_id = pipeline.id AND stage.type = 'open'"
        " ORDER BY pipeline.position, pipeline.id, stage.position, stage.id"
    ):
        stages[stage_id] = Deals()
        open_stage = OpenStage(stage_id, stage, stages[stage_id])
        by_id.setdefault(id, Funnel(id, name, [])).stages.append(open_stage)
    for stage_id, *deals in rows(
        "SELECT stage_id, currency, count(*), coalesce(sum(amount / 100), 0) FROM deal"
        f" WHERE {OPEN} GROUP BY stage_id, currency ORDER BY stage_id, currency"
    ):
        stages[stage_id].add(*deals)
    return list(by_id.values())


def in_work(calendar: Calendar, funnels: list[Funnel]) -> tuple[Deals, int]:
    """The open deals of all pipelines, and how many were open at this time a week ago."""
    open_deals = Deals()
    for deals in (stage.deals for funnel in funnels for stage in funnel.stages):
        open_deals.count += deals.count
        for currency, sum in deals.sums.items():
            open_deals.add(currency, 0, sum)
    # Open a week ago = open now − created since + closed since: two counts of few rows, where
    # counting all deals that were open then would read each of them.
    week_ago = calendar.ago(WEEK)
    begun, closed = one_row(
        f"SELECT (SELECT count(*) FROM deal WHERE created_at > ? AND {OPEN}),"
        " (SELECT count(*) FROM deal WHERE closed_at > ? AND created_at <= ?"
        " AND deleted_at IS NULL)",
        (week_ago, week_ago, week_ago),
    )
    return open_deals, open_deals.count - begun + closed


def won(calendar: Calendar) -> tuple[Deals, Deals]:
    """This month, and the month before up to this day and time."""
    this, before = _closed_in([calendar.month_until_now(), calendar.month_until_then()])
    return this["won"], before["won"]


def closed_by_month(calendar: Calendar) -> list[tuple[str, Deals, Deals]]:
    """(month as `YYYY-MM`, won, lost)."""
    months = calendar.months(MONTHS)
    closed = _closed_in([span for _, span in months])
    return [
        (month, deals["won"], deals["lost"])
        for (month, _), deals in zip(months, closed, strict=True)
    ]


def tasks(calendar: Calendar) -> tuple[tuple[int, int], tuple[int, int]]:
    """Count the tasks due in the rest of the day, and the overdue ones.

    Returns a pair for each: the count now, and the count yesterday at this time.
    """
    this, then = calendar.remaining_day(), calendar.remaining_day(1)
    params = [value for at, ends in (this, then) for value in (at, at, ends, at, at)]
    undone_counts = one_row(f"SELECT {DUE}, {DUE} FROM task WHERE {UNDONE}", params)
    # A task done since then was also updated since then: the condition on updated_at has an index.
    since = "updated_at >= ? AND completed_at > ? AND status = 'done' AND deleted_at IS NULL"
    done_counts = one_row(f"SELECT {DUE} FROM task WHERE {since}", [*params[5:], then[0], then[0]])
    today, late, today_then, late_then = undone_counts
    return (today, today_then + done_counts[0]), (late, late_then + done_counts[1])


def _leads_in(spans: Sequence[Span]) -> list[int]:
    counts = rows(
        f"{_table_of(spans)} SELECT (SELECT count(*) FROM lead WHERE created_at >= begins"
        " AND created_at < ends AND deleted_at IS NULL) FROM span ORDER BY place",
        _params_of(spans),
    )
    return [count for (count,) in counts]


def _closed_in(spans: Sequence[Span]) -> list[dict[str, Deals]]:
    """Deals won and lost in each of the spans."""
    closed = [{"won": Deals(), "lost": Deals()} for _ in spans]
    for place, status, *deals in rows(
        f"{_table_of(spans)} SELECT place, status, currency, count(*),"
        # CROSS JOIN: go through the spans, and look up the deals of each by the index.
        " coalesce(sum(amount / 100), 0) FROM span CROSS JOIN deal WHERE closed_at >= begins"
        " AND closed_at < ends AND deleted_at IS NULL GROUP BY place, status, currency"
        " ORDER BY place, status, currency",
        _params_of(spans),
    ):
        closed[place][status].add(*deals)
    return closed


def _table_of(spans: Sequence[Span]) -> str:
    values = ", ".join(["(CAST(? AS INTEGER), CAST(? AS TEXT), CAST(? AS TEXT))"] * len(spans))
    return f"WITH span (place, begins, ends) AS (VALUES {values})"


def _params_of(spans: Sequence[Span]) -> list[int | str]:
    return [value for place, span in enumerate(spans) for value in (place, *span)]
