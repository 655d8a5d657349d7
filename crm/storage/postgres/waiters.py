"""The threads that wait for a database that does not answer at once: few if it hangs, so that it
takes no server's threads from other tenants."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from crm import activity
from crm.errors import Busy

QUICK_SECONDS = 0.25  # a thread that has waited so long, for an answer or connection, is counted
MAX_WAITING = 8  # in one process, of the threads of one database that hangs
HANG_SECONDS = 0.5  # MAX_WAITING threads wait so long, and none of them goes on: the database hangs


class Waiters:
    """The threads of this process that wait for one database.

    However many there are, a database that lets one of them after the other go on does not hang.
    """

    def __init__(self) -> None:
        self._threads: set[int] = set()
        self._went_on_at = 0.0  # when one of them did last, or when they became MAX_WAITING

    def require_few(self) -> None:
        """Raise Busy if the database hangs."""
        if len(self._threads) >= MAX_WAITING and time.monotonic() - self._went_on_at > HANG_SECONDS:
            raise Busy

    @contextmanager
    def wait(self) -> Iterator[None]:
        """Count this thread in a `with` block, in which it computes nothing."""
        self._threads.add(thread := threading.get_ident())
        if len(self._threads) == MAX_WAITING:
            self._went_on_at = time.monotonic()
        try:
            with activity.waiting():
                yield
            self._went_on_at = time.monotonic()
        finally:
            self._threads.discard(thread)
