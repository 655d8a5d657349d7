"""Requests per minute (spec: Limits, D13): one counter per tenant, in memory, fixed windows."""

import threading
from typing import NamedTuple

WINDOW = 60  # seconds
FAILED_KEYS = 30  # bad keys a minute from one address, then they are refused unread
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

    def take(self, label: str, limit: int, moment: float, form: bool = False) -> Turn:
        """Count one request of a tenant. A refused one isn't counted.

        Website forms together have half of the window (D12), so that they can't lock the
        integrations out.
        """
        window = int(moment) // WINDOW
        with self._lock:
            counter = self._windows.get(label)
            if counter is None or counter[0] != window:
                counter = self._windows[label] = [window, 0, 0]
            left = limit - counter[1]
            if form:
                left = min(left, max(1, limit // 2) - counter[2])
            allowed = left > 0
            if allowed:
                counter[1] += 1
                counter[2] += form
                left -= 1
            return Turn(allowed, limit, max(0, left), (window + 1) * WINDOW)

    def failed(self, address: str, moment: float) -> bool:
        """Note a bad key from an address; True when there were too many in this minute."""
        window = int(moment) // WINDOW
        with self._lock:
            if window != self._failures_window or len(self._failures) > MOST_ADDRESSES:
                self._failures_window, self._failures = window, {}
            count = self._failures[address] = self._failures.get(address, 0) + 1
            return count > FAILED_KEYS
