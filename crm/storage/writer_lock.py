"""One writer at a time for one file, among threads and processes."""

import fcntl
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from crm.activity import waiting
from crm.errors import Busy
from crm.storage import commit_groups

MAX_LOCK_WAIT_SECONDS = 10.0  # that a writer waits for its turn before Busy
FIRST_PAUSE_SECONDS, MAX_PAUSE_SECONDS = 0.0001, 0.01  # between two tries


class WriterLock:
    """The lock of one file, held by one thread of one process; `path` is the lock's own file."""

    def __init__(self, path: Path):
        self._path = path
        self._threads = threading.Lock()
        self._file = -1

    def acquire(self, wait_seconds: float = MAX_LOCK_WAIT_SECONDS) -> None:
        """Take the lock; a group of this thread that holds one is committed.

        Raises Busy if it is not free in time, OSError if it can't be opened.
        """
        commit_groups.commit()
        deadline = time.monotonic() + wait_seconds
        if not self._threads.acquire(blocking=False):
            with waiting():
                if not self._threads.acquire(timeout=wait_seconds):
                    raise Busy
        try:
            self._file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            pause = FIRST_PAUSE_SECONDS
            while True:
                try:
                    self._lock(self._file)
                    return
                except BlockingIOError:
                    if time.monotonic() + pause > deadline:
                        raise Busy from None
                    with waiting():
                        time.sleep(pause)
                    pause = min(pause * 1.5, MAX_PAUSE_SECONDS)
        except BaseException:
            self.release()
            raise

    def _lock(self, file: int) -> None:
        """Lock the open file for other processes. Raises BlockingIOError."""
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def release(self) -> None:
        """Give up the lock, which this thread holds."""
        if self._file >= 0:
            # Unlocked too: a child that was forked meanwhile keeps the file open.
            fcntl.flock(self._file, fcntl.LOCK_UN)
            os.close(self._file)
            self._file = -1
        self._threads.release()

    @contextmanager
    def __call__(self, wait_seconds: float = MAX_LOCK_WAIT_SECONDS) -> Iterator[None]:
        """Hold the lock in a `with` block. Raises what `acquire` does."""
        self.acquire(wait_seconds)
        try:
            yield
        finally:
            self.release()
