"""The bell: any process of the installation tells the one that works in the background which tenant
has work for it.

It is a named pipe in the data folder, with a lock that makes sure that one listens at a time. A
ring that nobody hears is lost, so whoever begins to listen looks at every tenant once.
"""

import contextlib
import fcntl
import math
import os
import select
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from crm.tenancy import disk

# Who is told, in this process, of each event as it is written: its tenant, kind, sequence and id.
# What that gives is called once the event is committed.
OnEvent = Callable[[str, str, int, str], Callable[[], None] | None]

FULL = 60_000  # bytes in the pipe from which on a ring may have been lost


class WakeupPipe:
    """To ring, and to listen."""

    def __init__(self, folder: Path):
        self._folder = folder
        self._pipe = folder / "bell"

    def ring(self, label: str) -> None:
        """There is work for the tenant: never waits, never raises."""
        with contextlib.suppress(OSError):  # nobody listens, or so much is in the pipe already
            pipe = os.open(self._pipe, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            try:
                os.write(pipe, f"{label}\n".encode())
            finally:
                os.close(pipe)

    @contextmanager
    def listening(self) -> Iterator["WakeupListener"]:
        """Wait until no other process listens, then be the one that does."""
        disk.make_folder(self._folder)
        lock = os.open(self._folder / "sender.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            with contextlib.suppress(FileExistsError):
                os.mkfifo(self._pipe, 0o600)
            # Also opened to write: without a writer it would be at its end all the time.
            pipe = os.open(self._pipe, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
            try:
                yield WakeupListener(pipe)
            finally:
                os.close(pipe)
        finally:
            os.close(lock)


class WakeupListener:
    """What whoever listens hears."""

    def __init__(self, pipe: int):
        self._pipe = pipe
        self._poll = select.poll()
        self._poll.register(pipe, select.POLLIN)
        self._cut = b""

    def hear(self, seconds: float | None) -> tuple[set[str], bool]:
        """The labels rung, at the latest after `seconds`; True: rings may have been lost."""
        if not self._poll.poll(None if seconds is None else math.ceil(seconds * 1000)):
            return set(), False
        heard = b""
        with contextlib.suppress(BlockingIOError):
            heard = os.read(self._pipe, 1 << 20)
        *labels, self._cut = (self._cut + heard).split(b"\n")
        return {label.decode(errors="replace") for label in labels}, len(heard) >= FULL
