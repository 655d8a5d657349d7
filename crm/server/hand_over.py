"""Threads that hand the event loop over to each other.

One thread runs the loop, and the application in it. If the application takes longer than
HAND_OVER_SECONDS, the supervisor has another thread continue the loop; the first one finishes its
request, passes the response to the loop, and waits as a spare thread. So a quick request needs no
change of threads, and a slow one delays no other.
"""

import os
import threading
import time
from collections.abc import Callable
from typing import Any

from crm.activity import thread

HAND_OVER_SECONDS = 0.005
# The supervisor rests after so many looks in a row that saw no running task.
QUIET_LOOKS = 20
REST_SECONDS = 1.0


class LoopTaken(Exception):
    """Another thread runs the loop by now, so this one must not use it any more."""


class HandOver:
    """Decides which thread runs the loop.

    The loop's thread calls begin() and end(), the supervisor calls check_task() and note_awake().
    """

    def __init__(self, loop: Callable[[], None], let_go: Callable[[Any], None], log: Any):
        """`loop` runs until the worker stops, or raises LoopTaken.

        `let_go` is called with a slow task before another thread continues the loop.
        """
        self._loop, self._let_go, self._log = loop, let_go, log
        self._lock = threading.Lock()
        self._task: Any = None
        self._began = 0.0
        self._spare_threads = 0
        self._run_again = threading.Semaphore(0)
        self._quiet_looks = 0
        self._is_resting = False
        self.wake_supervisor = -1  # a descriptor to write to
        self.exit_code: int | None = None  # set once the loop has ended

    def begin(self, task: Any) -> None:
        """Note that the loop's thread starts to run the application for a task."""
        thread.request = task
        self._began = time.monotonic()  # before _task, which the supervisor reads first
        self._task = task
        if self._is_resting:  # it sleeps for up to REST_SECONDS, too long for a slow request
            self._is_resting = False
            os.write(self.wake_supervisor, b"1")

    def end(self, task: Any) -> bool:
        """Note that the task is done; return False if another thread runs the loop by now."""
        thread.request = None
        # Under the lock of check_task(): either this thread keeps the loop, or another one has it.
        with self._lock:
            has_loop = self._task is task
            if has_loop:
                self._task = None
            return has_loop

    def check_task(self) -> float:
        """Hand the loop over if its task takes too long; return the seconds until the next call."""
        task = self._task
        if task is not None:
            self._quiet_looks = 0
            seconds = self._began + HAND_OVER_SECONDS - time.monotonic()
            if seconds > 0:
                return seconds
            with self._lock:
                if self._task is not task:  # it has ended since it was read above
                    return 0.0
                self._task = None
                self._let_go(task)  # while no thread runs the loop, so its lists may be changed
            self.start_thread()
        elif self._quiet_looks < QUIET_LOOKS:
            self._quiet_looks += 1
        else:
            self._is_resting = True  # set first: a task that starts now is seen here, or wakes
            if self._task is None:
                return REST_SECONDS
        return HAND_OVER_SECONDS

    def note_awake(self) -> None:
        """Note that the supervisor is awake, so that begin() need not wake it."""
        self._is_resting = False

    def start_thread(self) -> None:
        """Let a spare thread, or a new one, run the loop."""
        with self._lock:
            has_spare = self._spare_threads > 0
            self._spare_threads -= has_spare
        if has_spare:
            self._run_again.release()
        else:
            threading.Thread(target=self._run_loop, name="request", daemon=True).start()

    def _run_loop(self) -> None:
        code = 1
        try:
            while code:
                try:
                    self._loop()
                    code = 0
                except LoopTaken:  # its request was slow; it waits until the next one is
                    with self._lock:
                        self._spare_threads += 1
                    self._run_again.acquire()
        except BaseException:
            self._log.exception("the event loop failed")
        self.exit_code = code
        os.write(self.wake_supervisor, b"1")
