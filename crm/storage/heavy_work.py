"""One heavy piece of work at a time per tenant, among all threads and processes.

Exports, imports and the reports compute for up to some seconds. A tenant that starts many of them
at once waits for its own; the processor stays free for the other tenants. Those of all tenants
share a part of each process's slots (`crm/activity.py`).
"""

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from crm.activity import computing
from crm.errors import Busy
from crm.storage.commit_groups import WriterLock
from crm.storage.session import current_session

MAX_WAITING = 8  # of one tenant in one process; each of them occupies a thread
WAIT_SECONDS = 10.0


class HeavyWorkLock(WriterLock):
    """The lock of one tenant, beside its writer lock."""

    def __init__(self, path: Path):
        """`path` is that of the tenant's lock file."""
        super().__init__(path.with_suffix(".heavy.lock"))
        self._places = threading.Semaphore(1 + MAX_WAITING)  # to hold it, and to wait for it

    @contextmanager
    def hold(self, wait_seconds: float) -> Iterator[None]:
        """Hold the lock. Raises Busy if it is not free in time, or MAX_WAITING wait already."""
        if not self._places.acquire(blocking=False):
            raise Busy
        with ExitStack() as stack:
            stack.callback(self._places.release)
            with suppress(OSError):  # a full disk may have no room for the file
                stack.enter_context(self(wait_seconds))
            yield


@contextmanager
def heavy_work(wait_seconds: float | None = None) -> Iterator[None]:
    """Hold the current tenant's lock for heavy work, and one of the process's slots for it.

    Raises Busy if its turn does not come. `wait_seconds`, for the lock, is WAIT_SECONDS unless
    given. Not reentrant, and not for use inside `transaction()`: writers would wait for it.
    """
    lock = current_session().source.heavy_work_lock
    with lock.hold(WAIT_SECONDS if wait_seconds is None else wait_seconds), computing():
        yield
