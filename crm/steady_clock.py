"""A clock for decisions that a wrong clock of the machine must not make.

The wall clock can be set forward and back at any moment; the time that the machine has been running
(`uptime`) cannot, and goes on while it sleeps. Therefore `<data>/clock` stores two times of the
wall clock with the uptime at which they were right, and each is computed from the uptime that has
passed since. After a restart of the machine that is the uptime since the restart: less than what
has passed, never more.

`now()` is for schedules, leases, and limits of hours and days. It never goes back: it approaches a
wall clock that was set back by a minute a day, so that what is due waits no longer than that. A
wall clock that is ahead is believed after a minute.

`erasing_now()` is for what cannot be undone. It is never ahead of the wall clock, and believes one
that is ahead only after a whole day of running: long enough to notice and to correct it, and a
server that was off for two months deletes expired data from its second day on. The same holds for
an installation whose file is missing, unless it has no tenants yet.
"""

import fcntl
import json
import os
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import NamedTuple

TOLERANCE_SECONDS = 60.0  # by which the wall clock may differ from the expected time
# For so long a wall clock must have been ahead until now() and erasing_now() believe it.
SCHEDULE_DOUBT_SECONDS, ERASING_DOUBT_SECONDS = 60.0, 86_400.0
MAX_GAP_SECONDS = 3600.0  # between two readings of the clock, as far as it counts for that
APPROACH = 60 / 86_400  # seconds a second by which now() comes back to a clock that was set back
WRITE_INTERVAL_SECONDS = 60.0
FILE_BYTES = 256


class Times(NamedTuple):
    """Both times at a moment of the uptime, in epoch seconds.

    A doubt is for how many seconds of running the wall clock has been ahead: -1 when it is not.
    """

    uptime: float
    now: float
    now_doubt: float
    erasing: float
    erasing_doubt: float

    def at(self, wall: float, uptime: float) -> "Times":
        """Return the times at a later moment, whose wall clock shows `wall`."""
        passed = uptime - self.uptime
        if passed < 0:  # the machine was started anew, or a clock of the caller's is not exact
            passed = 0.0 if passed > -1 else uptime
        now, now_doubt = _follow(
            self.now + passed, self.now_doubt, passed, wall, SCHEDULE_DOUBT_SECONDS
        )
        if now > wall + TOLERANCE_SECONDS:
            now -= passed * APPROACH
        erasing, erasing_doubt = _follow(
            self.erasing + passed, self.erasing_doubt, passed, wall, ERASING_DOUBT_SECONDS
        )
        return Times(uptime, now, now_doubt, min(erasing, wall), erasing_doubt)

    def doubts(self) -> tuple[bool, bool]:
        return self.now_doubt >= 0, self.erasing_doubt >= 0


def _follow(
    expected: float, doubt: float, passed: float, wall: float, enough: float
) -> tuple[float, float]:
    """Return the time and its doubt: the wall clock's time if it is near the expected one or was
    ahead for `enough` seconds, else the expected one."""
    if wall > expected + TOLERANCE_SECONDS:
        doubt = 0.0 if doubt < 0 else doubt + min(passed, MAX_GAP_SECONDS)
        return (wall, -1.0) if doubt >= enough else (expected, doubt)
    return (wall if wall >= expected - TOLERANCE_SECONDS else expected), -1.0


# Seconds since the machine was started; they include its sleep where the system can count it.
boot_seconds: Callable[[], float] = (
    partial(time.clock_gettime, time.CLOCK_BOOTTIME)
    if hasattr(time, "CLOCK_BOOTTIME")
    else time.monotonic
)


class SteadyClock:
    """The times of an installation, which its processes share by a file."""

    def __init__(
        self,
        wall: Callable[[], float],
        uptime: Callable[[], float] | None,
        path: Path,
        is_new: Callable[[], bool],
    ):
        """`is_new` returns whether there is no data yet that could be deleted. Without an `uptime`
        the wall clock is always believed."""
        self._wall, self._path, self._is_new = wall, path, is_new
        self.uptime = uptime or wall
        self._is_believed = uptime is None
        self._times: Times | None = None  # as last written

    def now(self) -> float:
        """Return epoch seconds that no step of the wall clock moves."""
        return self._wall() if self._is_believed else self._current().now

    def erasing_now(self) -> float:
        """Return epoch seconds by which it is decided what is old enough to be deleted for good."""
        return self._wall() if self._is_believed else self._current().erasing

    def is_doubted(self) -> bool:
        """Whether the wall clock is ahead of the expected time; False where that is not known.

        Nothing is written.
        """
        try:
            times = _parse(self._path.read_bytes())
        except OSError:
            return False
        return times is not None and times.at(self._wall(), self.uptime()).erasing_doubt >= 0

    def _current(self) -> Times:
        written = self._times  # before the clocks: another thread writes meanwhile
        if written is not None:
            times = written.at(self._wall(), self.uptime())
            is_fresh = 0 <= times.uptime - written.uptime < WRITE_INTERVAL_SECONDS
            if is_fresh and times.doubts() == written.doubts():
                return times
        return self._write()

    def _write(self) -> Times:
        try:
            # Each call has an open file of its own, so the lock excludes threads too.
            file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError:  # no folder yet, a full disk, or another user's file
            times = self._times = self._continue(self._times)
            return times
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
            times = self._times = self._continue(_parse(os.pread(file, 4096, 0)) or self._times)
            text = json.dumps(times._asdict()).ljust(FILE_BYTES - 1)
            with suppress(OSError):  # a full disk
                os.pwrite(file, text.encode() + b"\n", 0)
            return times
        finally:
            os.close(file)

    def _continue(self, times: Times | None) -> Times:
        wall, uptime = self._wall(), self.uptime()
        if times is None:
            times = Times(uptime, wall, -1.0, wall if self._is_new() else 0.0, -1.0)
        return times.at(wall, uptime)


def _parse(text: bytes) -> Times | None:
    """Return the times in the file; None where it is new, or cut by a crash of the machine."""
    try:
        return Times(**{name: float(number) for name, number in json.loads(text).items()})
    except (ValueError, TypeError, AttributeError):
        return None
