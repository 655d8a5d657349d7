"""One writer at a time for one file, among threads and processes."""

import fcntl
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from crm.errors import Busy

LONGEST_WAIT = 10.0  # seconds a writer waits for its turn before Busy


class WriterLock:
    """One writer at a time for one file, among the threads of this process and all processes."""

    def __init__(self, path: Path):
        self._path = path
        self._threads = threading.Lock()
        self._file = -1

    def acquire(self, wait: float = LONGEST_WAIT) -> None:
        """Take the lock within `wait` seconds or raise Busy."""
        deadline = time.monotonic() + wait
        if not self._threads.acquire(timeout=wait):
            raise Busy
        try:
            self._file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            pause = 0.0001
            while True:
                try:
                    fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    return
                except BlockingIOError:
                    if time.monotonic() + pause > deadline:
                        raise Busy from None
                    time.sleep(pause)
                    pause = min(pause * 1.5, 0.01)
        except BaseException:
            self.release()
            raise

    def release(self) -> None:
        if self._file >= 0:
            fcntl.flock(self._file, fcntl.LOCK_UN)  # a child forked meanwhile keeps the file open
            os.close(self._file)
            self._file = -1
        self._threads.release()

    @contextmanager
    def __call__(self, wait: float = LONGEST_WAIT) -> Iterator[None]:
        self.acquire(wait)
        try:
            yield
        finally:
            self.release()
