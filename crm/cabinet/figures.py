"""Figures of the reports: new leads, open deals, won and lost deals, tasks to be done.

Days and months are those of the tenant's time zone. Each figure is compared with an earlier one:
counts of a period with those of the period before, open deals and tasks with those of a week ago.
The queries are those of the resources. Deleted records don't count. `user_id` is whose records
count, None for those of all.

Earlier figures are computed from the records as they are today. A record that was deleted or
cancelled since is missing from the earlier figure too, and a reopened deal counts as never closed.
"""

from datetime import UTC, date, datetime, time, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from crm import values
from crm.cabinet.deals import choices
from crm.resources import task_figures
from crm.resources.deals import figures as deals
from crm.resources.deals.figures import Deals
from crm.resources.leads import figures as leads
from crm.resources.spans import Span

SECOND = timedelta(seconds=1)  # what happened in the last one of a stretch counts
WEEK = 7
DAYS, SOURCE_DAYS, MONTHS = 30, 90, 12
MAX_SOURCES = 8


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


def new_leads(calendar: Calendar, user_id: int | None = None) -> tuple[int, int]:
    """Count the leads of the last 7 days, and those of the 7 days before up to this time."""
    spans = [calendar.until_now(WEEK), calendar.until_then(WEEK)]
    this, before = leads.count_created(spans, user_id)
    return this, before


def leads_by_day(calendar: Calendar, user_id: int | None = None) -> list[tuple[date, int]]:
    days, spans = zip(*calendar.days(DAYS), strict=True)
    return list(zip(days, leads.count_created(spans, user_id), strict=True))


def sources(
    calendar: Calendar, user_id: int | None = None
) -> tuple[list[tuple[str | None, int]], int]:
    """Return (source, number of leads) of the largest sources, and the number of all others."""
    counts = leads.count_by_source(calendar.until_now(SOURCE_DAYS), user_id)
    return counts[:MAX_SOURCES], sum(count for _, count in counts[MAX_SOURCES:])


def funnels(user_id: int | None = None) -> list[dict[str, Any]]:
    """All pipelines in their order, with their open stages alone and the `deals` of each."""
    by_stage, pipelines = deals.open_deals(user_id), choices.pipelines()
    for pipeline in pipelines:
        open_stages = [stage for stage in pipeline["stages"] if stage["type"] == "open"]
        for stage in open_stages:
            stage["deals"] = by_stage.get(int(stage["id"]), Deals())
        pipeline["stages"] = open_stages
    return pipelines


def in_work(
    calendar: Calendar, funnels: list[dict[str, Any]], user_id: int | None = None
) -> tuple[Deals, int]:
    """The open deals of all pipelines, and how many were open at this time a week ago."""
    all_open = Deals()
    for of_stage in (stage["deals"] for funnel in funnels for stage in funnel["stages"]):
        all_open.count += of_stage.count
        for currency, sum in of_stage.sums.items():
            all_open.add(currency, 0, sum)
    return all_open, deals.count_open_at(calendar.ago(WEEK), all_open.count, user_id)


def won(calendar: Calendar, user_id: int | None = None) -> tuple[Deals, Deals]:
    """This month, and the month before up to this day and time."""
    spans = [calendar.month_until_now(), calendar.month_until_then()]
    this, before = deals.closed_in(spans, user_id)
    return this["won"], before["won"]


def closed_by_month(
    calendar: Calendar, user_id: int | None = None
) -> list[tuple[str, Deals, Deals]]:
    """(month as `YYYY-MM`, won, lost)."""
    months, spans = zip(*calendar.months(MONTHS), strict=True)
    closed = deals.closed_in(spans, user_id)
    return [(month, of["won"], of["lost"]) for month, of in zip(months, closed, strict=True)]


def tasks(
    calendar: Calendar, user_id: int | None = None
) -> tuple[tuple[int, int], tuple[int, int]]:
    """Count the tasks due in the rest of the day, and the overdue ones.

    Returns a pair for each: the count now, and the count yesterday at this time.
    """
    return task_figures.count_due(calendar.remaining_day(), calendar.remaining_day(1), user_id)
