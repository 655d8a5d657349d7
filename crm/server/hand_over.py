"""Threads that take the event loop over from one another.

One thread leads the loop and runs the application in it. If the application takes longer than
HAND_OVER_SECONDS, the supervisor lets another thread lead the loop; the first one ends its request,
gives the answer to the loop, and waits to lead it again. So a quick request costs no change of
thread, and a slow one stops nobody.
"""

import os
import threading
import time
from collections.abc import Callable
from typing import Any

HAND_OVER_SECONDS = 0.005
# The supervisor rests when it saw nothing running so often in a row.
QUIET_LOOKS = 20
REST_SECONDS = 1.0


class LoopTaken(Exception):
    """Another thread leads the loop by now: this one must not touch it any more."""


class HandOver:
    """Who leads the loop. `begin()` and `end()` are for its thread, `look()` for the supervisor."""

    def __init__(self, loop: Callable[[], None], let_go: Callable[[Any], None], log: Any):
        """`loop` runs until the worker stops, or raises LoopTaken. `let_go` is called with the task
        that goes on without the loop, before another thread leads it."""
        self._loop, self._let_go, self._log = loop, let_go, log
        self._lock = threading.Lock()
        self._task: Any = None
        self._began = 0.0
        self._spare_threads = 0
        self._lead_again = threading.Semaphore(0)
        self._quiet_looks = 0
        self._is_resting = False
        self.wake_supervisor = -1  # a descriptor to write to
        self.exit_code: int | None = None  # of the loop, once it has ended

    def begin(self, task: Any) -> None:
        """The loop's thread is about to run the application for a task."""
        self._began = time.monotonic()
        self._task = task
        if self._is_resting:
            self._is_resting = False
            os.write(self.wake_supervisor, b"1")

    def end(self, task: Any) -> bool:
        """It has; False: it took so long that another thread leads the loop by now."""
        with self._lock:
            leads = self._task is task
            if leads:
                self._task = None
            return leads

    def look(self) -> float:
        """Hand the loop over if its thread works for too long on one task.

        Returns the seconds until the next look.
        """
        task = self._task
        if task is not None:
            self._quiet_looks = 0
            seconds = self._began + HAND_OVER_SECONDS - time.monotonic()
            if seconds > 0:
                return seconds
            with self._lock:
                if self._task is not task:
                    return 0.0
                self._task = None
                self._let_go(task)
            self.start_thread()
        elif self._quiet_looks < QUIET_LOOKS:
            self._quiet_looks += 1
        else:
            self._is_resting = True  # before the last look: a task is seen, or wakes us
            if self._task is None:
                return REST_SECONDS
        return HAND_OVER_SECONDS

    def go_on_looking(self) -> None:
        """The supervisor is awake."""
        self._is_resting = False

    def start_thread(self) -> None:
        """Let a thread lead the loop: one that waits for it, or a new one."""
        with self._lock:
            waits = self._spare_threads > 0
            self._spare_threads -= waits
        if waits:
            self._lead_again.release()
        else:
            threading.Thread(target=self._lead, name="request", daemon=True).start()

    def _lead(self) -> None:
        code = 1
        try:
            while code:
                try:
                    self._loop()
                    code = 0
                except LoopTaken:
                    with self._lock:
                        self._spare_threads += 1
                    self._lead_again.acquire()
        except BaseException:
            self._log.exception("the event loop failed")
        self.exit_code = code
        os.write(self.wake_supervisor, b"1")
