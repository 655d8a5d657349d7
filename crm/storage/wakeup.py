"""The wake-up pipe: any process notifies the background sender which tenant has work for it.

It is a named pipe in the data folder, with a lock so that one process listens at a time. A
notification that nobody reads is lost, so a new listener looks at every tenant once.
"""

import contextlib
import fcntl
import math
import os
import select
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from crm.storage import disk

# Called with each event as it is written: its tenant's label, kind, sequence and id. What it
# returns is called once the event is committed.
OnEvent = Callable[[str, str, int, str], Callable[[], None] | None]

LOSS_PART = 0.9  # of what the pipe can hold: with so much in it, notifications may have been lost
READ_BYTES = 1 << 20


class WakeupPipe:
    """The pipe of one installation: to notify through it, and to listen to it."""

    def __init__(self, folder: Path):
        self._folder = folder
        self._pipe = folder / "bell"

    def notify(self, label: str) -> bool:
        """Notify the sender of work for a tenant, and return whether anybody listens.

        Never waits, never raises.
        """
        try:
            pipe = os.open(self._pipe, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            return False
        try:
            with contextlib.suppress(OSError):  # it is full, and its reader will notice
                os.write(pipe, f"{label}\n".encode())
        finally:
            os.close(pipe)
        return True

    @contextmanager
    def listening(self) -> Iterator["WakeupListener"]:
        """Wait until no other process listens, then be the only listener."""
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
    """Reading end of the wake-up pipe."""

    def __init__(self, pipe: int):
        self._pipe = pipe
        self._poll = select.poll()
        self._poll.register(pipe, select.POLLIN)
        self._incomplete = b""  # the beginning of a label whose end was not read yet

    def wait(self, seconds: float | None) -> tuple[set[str], bool]:
        """Wait for notifications, at most `seconds`, or without limit if None.

        Returns the labels, and whether notifications may have been lost.
        """
        if not self._poll.poll(None if seconds is None else math.ceil(seconds * 1000)):
            return set(), False
        data = b""
        with contextlib.suppress(BlockingIOError):
            data = os.read(self._pipe, READ_BYTES)
        *labels, self._incomplete = (self._incomplete + data).split(b"\n")
        # Mostly 65,536 bytes; 4,096 where the user has many pipes.
        pipe_bytes = fcntl.fcntl(self._pipe, fcntl.F_GETPIPE_SZ)
        has_lost = len(data) >= LOSS_PART * pipe_bytes
        return {label.decode(errors="replace") for label in labels}, has_lost
