"""The periods of reports: days of the tenant's time zone, both ends included."""

from calendar import monthrange
from collections.abc import Iterator
from datetime import date, timedelta
from typing import NamedTuple, Self

from crm import values
from crm.storage.clocks import today

A_DAY = timedelta(days=1)
MAX_DAYS, MAX_MONTHS = 62, 120  # parts of a period; one of more days is divided into months
TO_DATE = {"month": 1, "quarter": 3, "year": 12}  # periods that contain today, in months


class Period(NamedTuple):
    """The days `since` to `until` as `YYYY-MM-DD`; an empty text stands for no end."""

    since: str = ""
    until: str = ""

    @classmethod
    def of(cls, first: date, last: date) -> Self:
        return cls(first.isoformat(), last.isoformat())

    def before(self) -> "Period":
        """The same number of days before it; the same if it has no end, or too many days."""
        if not self.since or not self.until:
            return self
        first, last = date.fromisoformat(self.since), date.fromisoformat(self.until)
        days = last - first + A_DAY
        if not timedelta() < days <= first - date.fromisoformat(values.FIRST_DAY):
            return self
        return Period.of(first - days, first - A_DAY)

    def month(self, month: str) -> "Period":
        """The days of a month, `YYYY-MM`, that are in it."""
        first = date.fromisoformat(f"{month}-01")
        last = first.replace(day=monthrange(first.year, first.month)[1])
        until = min(f"{last}", self.until) if self.until else f"{last}"
        return Period(max(f"{first}", self.since), until)

    def parts(self) -> Iterator[tuple[str, "Period"]]:
        """(name, days) of its days, or of its months if it is long, as activity counts by."""
        first, last = date.fromisoformat(self.since), date.fromisoformat(self.until)
        if (last - first).days < MAX_DAYS:
            for count in range((last - first).days + 1):
                day = first + count * A_DAY
                yield f"{day}", Period.of(day, day)
            return
        for count in range((last.year - first.year) * 12 + last.month - first.month + 1):
            month = f"{shift_months(first, count):%Y-%m}"
            yield month, self.month(month)


def shift_months(day: date, count: int) -> date:
    """The first of the month so many months after the day's."""
    months = day.year * 12 + day.month - 1 + count
    return date(months // 12, months % 12 + 1, 1)


def named(name: str) -> tuple[Period, Period]:
    """The period `month`, `last_month`, `quarter` or `year`, and the one it is compared with.

    A period that has not ended is compared with the same days of the one before, which may be
    shorter.
    """
    day = today()
    if name == "last_month":
        first, last = shift_months(day, -1), day.replace(day=1) - A_DAY
        return Period.of(first, last), Period.of(shift_months(first, -1), first - A_DAY)
    months = TO_DATE[name]
    first = shift_months(day, -((day.month - 1) % months))
    earlier = shift_months(first, -months)
    same_days = Period.of(earlier, min(earlier + (day - first), first - A_DAY))
    return Period.of(first, shift_months(first, months) - A_DAY), same_days
