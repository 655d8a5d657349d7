"""One heavy piece of work at a time per tenant, among all threads and processes.

Exports, imports and the dashboard compute for up to some seconds. A tenant that starts many of them
at once waits for its own; the processor stays free for the other tenants.
"""

import fcntl
import os
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from crm.errors import Busy
from crm.tenancy.counters import byte_lock
from crm.tenancy.database import current_session

MAX_WAITING = 8  # of one tenant in one process; each of them occupies a thread
WAIT_SECONDS = 10.0
LOCKED_BYTE = 1  # of the tenant's lock file, beside its writer lock


class HeavyWorkLock:
    """The lock of one tenant. The kernel releases it when a process dies."""

    def __init__(self, path: Path):
        self._path = path
        self._threads = threading.Lock()
        self._counting = threading.Lock()
        self._count = 0  # of those that hold it or wait for it

    @contextmanager
    def hold(self, wait_seconds: float) -> Iterator[None]:
        """Hold the lock. Raises Busy if it is not free in time, or MAX_WAITING wait already."""
        deadline = time.monotonic() + wait_seconds
        with self._counting:
            if self.is_full():
                raise _too_many()
            self._count += 1
        with ExitStack() as stack:
            stack.callback(self._leave)
            if not self._threads.acquire(timeout=wait_seconds):
                raise _too_many()
            stack.callback(self._threads.release)
            with suppress(OSError):  # a full disk may have no room for the file
                descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
                stack.callback(os.close, descriptor)  # which ends its lock
                self._lock(descriptor, deadline)
            yield

    def _leave(self) -> None:
        with self._counting:
            self._count -= 1

    def is_full(self) -> bool:
        """Whether MAX_WAITING others wait already."""
        return self._count > MAX_WAITING

    @staticmethod
    def _lock(descriptor: int, deadline: float) -> None:
        if not hasattr(fcntl, "F_OFD_SETLK"):
            return  # macOS: each process has a lock of its own
        while True:
            try:
                fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, byte_lock(fcntl.F_WRLCK, LOCKED_BYTE))
                return
            except BlockingIOError:
                if time.monotonic() >= deadline:
                    raise _too_many() from None
                time.sleep(0.01)


@contextmanager
def heavy_work(wait_seconds: float | None = None) -> Iterator[None]:
    """Hold the current tenant's lock for heavy work; raises Busy if its turn does not come.

    `wait_seconds` is WAIT_SECONDS unless given. Not reentrant, and not for use inside
    `transaction()`: writers would wait for it.
    """
    lock = current_session().source.heavy_work_lock
    with lock.hold(WAIT_SECONDS if wait_seconds is None else wait_seconds):
        yield


def _too_many() -> Busy:
    return Busy("other files and reports of this account are being made: try again in a moment")
