"""Requests per minute (spec: Limits, D13): one counter per tenant, in memory, fixed windows."""

import ipaddress
import threading
from typing import NamedTuple

from crm.errors import TooMany

WINDOW = 60  # seconds
FAILED_KEYS = 30  # bad keys a minute from one address, then they are refused unread
FORM_SENDS = 10  # requests a minute of a website's visitors at one address
MOST_ADDRESSES = 100_000


class Turn(NamedTuple):
    """What a request was told: may it go on, and what is left of the window."""

    allowed: bool
    limit: int
    remaining: int
    reset: int  # UTC epoch seconds when the window ends


class Limiter:
    """Counts exactly: the read and the write of a counter are one step under a lock."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._windows: dict[str, list[int]] = {}  # label: [window, all requests, forms' requests]
        self._failures: dict[str, int] = {}
        self._failures_window = 0
        self._visitors: dict[tuple[str, str], int] = {}
        self._visitors_window = 0

    def take(
        self, label: str, limit: int, moment: float, form: bool = False, refused: bool = False
    ) -> Turn:
        """Count one request of a tenant. A refused one isn't counted.

        Website forms together have half of the window (D12), so that they can't lock the
        integrations out. `refused`: for another reason already, it is only told what is left.
        """
        window = int(moment) // WINDOW
        with self._lock:
            counter = self._windows.get(label)
            if counter is None or counter[0] != window:
                counter = self._windows[label] = [window, 0, 0]
            left = limit - counter[1]
            if form:
                left = min(left, max(1, limit // 2) - counter[2])
            allowed = left > 0 and not refused
            if allowed:
                counter[1] += 1
                counter[2] += form
                left -= 1
            return Turn(allowed, limit, max(0, left), (window + 1) * WINDOW)

    def used(self, label: str, moment: float) -> int:
        """How many requests of a tenant were counted in this minute."""
        with self._lock:
            counter = self._windows.get(label)
            return counter[1] if counter and counter[0] == int(moment) // WINDOW else 0

    def crowded(self, label: str, address: str, moment: float) -> bool:
        """Note that a form of the tenant is used from an address; True when it is too often.

        One robot would else fill the forms' half of the window, and no visitor could write.
        """
        window, visitor = int(moment) // WINDOW, (label, network(address))
        with self._lock:
            if window != self._visitors_window or len(self._visitors) > MOST_ADDRESSES:
                self._visitors_window, self._visitors = window, {}
            count = self._visitors[visitor] = self._visitors.get(visitor, 0) + 1
            return count > FORM_SENDS

    def failed(self, address: str, moment: float) -> bool:
        """Note a bad key from an address; True when there were too many in this minute."""
        window = int(moment) // WINDOW
        with self._lock:
            if window != self._failures_window or len(self._failures) > MOST_ADDRESSES:
                self._failures_window, self._failures = window, {}
            count = self._failures[address] = self._failures.get(address, 0) + 1
            return count > FAILED_KEYS


class Tries:
    """At most so many tries of each of a few kinds in a fixed window: passwords, letters.

    Counted before the work that they cost, and whether they fit or not.
    """

    def __init__(self, seconds: int, **most: int) -> None:
        self._seconds, self._most = seconds, most
        self._lock = threading.Lock()
        self._counts: dict[tuple[str, str], int] = {}
        self._window = 0

    def take(self, moment: float, **names: str) -> None:
        """Count a try by its names, one of each kind; raises TooMany, which doesn't count."""
        window = int(moment) // self._seconds
        with self._lock:
            if window != self._window or len(self._counts) > MOST_ADDRESSES:
                self._window, self._counts = window, {}
            counts = self._counts
            if any(counts.get(each, 0) >= self._most[each[0]] for each in names.items()):
                retry_after = (window + 1) * self._seconds - int(moment)
                raise TooMany("too many tries", "too_many_tries", retry_after)
            for each in names.items():
                counts[each] = counts.get(each, 0) + 1

    def forget(self, **names: str) -> None:
        """What was tried by these names was right: it doesn't count. Not for strangers, whom it
        would tell that somebody came in."""
        with self._lock:
            for each in names.items():
                self._counts.pop(each, None)


def network(address: str) -> str:
    """One customer's addresses count as one: of IPv6 he has 2^64."""
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return address
    if found.version == 6 and not found.ipv4_mapped:
        return str(ipaddress.ip_network((found, 64), strict=False))
    return str(getattr(found, "ipv4_mapped", None) or found)
