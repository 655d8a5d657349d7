"""What people are going to do in a quarter, and when: only in working hours, and until now.

Time is followed as one line of working hours, so who plans something for two days later never
plans it for a night or a Sunday. What would come after now is not planned.
"""

from collections.abc import Callable
from heapq import heappop, heappush
from itertools import count
from random import Random

from crm.tenancy.database import current_session

DAY = 86_400
DAYS = 90
KYIV = 7200  # seconds; at 23:00 UTC it is tomorrow already in Kyiv
OPENS, CLOSES = 7 * 3600, 15 * 3600 + 1800  # of UTC: office hours in Kyiv in summer and in winter
WORKDAY = CLOSES - OPENS
HALF_HOUR = 1800
GROWTH = 0.68  # the exponent that bends evenly spread moments towards now

Act = Callable[[], None]


class Hours:
    """The working hours between a quarter ago and `now`, counted in seconds from 0 to `total`."""

    def __init__(self, now: float):
        today = int(now) // DAY * DAY
        days = range(today - DAYS * DAY, today + DAY, DAY)
        self._openings = [day + OPENS for day in days if is_workday(day) and day + OPENS < now]
        last = min(WORKDAY, now - self._openings[-1])
        self.total = (len(self._openings) - 1) * WORKDAY + last

    def at(self, passed: float) -> float:
        """The moment at which so much of `total` has passed."""
        return self._openings[int(passed // WORKDAY)] + passed % WORKDAY


class Agenda:
    """Plans and plays what happens. `moment` is what the clock shows meanwhile."""

    def __init__(self, now: float, random: Random):
        self.now = now
        self.random = random
        self.hours = Hours(now)
        self.moment = self.hours.at(0)
        self._passed = 0.0
        self._order = count()
        self._entries: list[tuple[float, int, int, Act]] = []

    def run(self) -> None:
        """Do all that is planned, each thing at its moment and in the name of who does it."""
        while self._entries:
            self._passed, _, current_session().user_id, act = heappop(self._entries)
            self.moment = self.hours.at(self._passed)
            act()
        current_session().user_id = None
        self.moment = self.now

    def at(self, share: float, act: Act, by: int) -> None:
        """Plan something for when this share of the quarter has passed."""
        self._plan(share * self.hours.total, act, by)

    def later(self, least: float, most: float, act: Act, by: int | None = None) -> None:
        """Plan something some working days from now; the same person does it unless told."""
        self._plan(self._passed + self.days(least, most), act, by or current_session().user_id)

    def days(self, least: float, most: float) -> float:
        """Some working days, in seconds of working hours."""
        return self.random.uniform(least, most) * WORKDAY

    def spread(self, number: int) -> list[float]:
        """So many shares of the quarter, growing denser."""
        return [((at + self.random.random()) / number) ** GROWTH for at in range(number)]

    def come(self) -> float:
        """The share of what is spread so that has come by now."""
        return (self._passed / self.hours.total) ** (1 / GROWTH)

    def office_hour(self, day: float, at_weekends: bool = False) -> float:
        """Some full hour of that day, or of the next one on which people work."""
        while not at_weekends and not is_workday(day):
            day += DAY
        return day // DAY * DAY + OPENS + 3600 * self.random.randint(1, 8)

    def happens(self, chance: float) -> bool:
        return self.random.random() < chance

    def _plan(self, when: float, act: Act, by: int) -> None:
        if when < self.hours.total:
            heappush(self._entries, (when, next(self._order), by, act))


def is_workday(moment: float) -> bool:
    return (int(moment) // DAY + 3) % 7 < 5  # the first of January 1970 was a Thursday
