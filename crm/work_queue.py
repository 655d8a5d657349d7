"""Work in the background, which a thread of the process that has added it does in order."""

import atexit
import heapq
import itertools
import os
import threading
import time
from collections.abc import Callable
from weakref import WeakSet

IDLE_THREAD_SECONDS = 2.0  # without work, after which the thread ends until there is some again

_instances: "WeakSet[WorkQueue]" = WeakSet()


class WorkQueue:
    """Work that waits, and the thread that does it. Nothing of it is stored."""

    def __init__(self, name: str, on_exit: Callable[[], object]):
        """`name` is that of the thread. `on_exit` is called when the process ends, as long as there
        is a thread."""
        self._name, self._on_exit = name, on_exit
        self._numbers = itertools.count()
        self._reset()
        _instances.add(self)

    def _reset(self) -> None:
        """Forget all work: at the start, and after a fork, as the parent does its own."""
        self._changed = threading.Condition()
        self._waiting: list[tuple[float, int, Callable[[], None]]] = []  # a heap, by when it is due
        self._thread: threading.Thread | None = None
        self._is_working = self._is_hurried = False

    def count_waiting(self) -> int:
        """Return how much work waits."""
        return len(self._waiting)

    def add(self, work: Callable[[], None], delay_seconds: float = 0.0) -> bool:
        """Let a function that raises nothing be called, after a delay if there is one.

        Returns False if no thread can be started.
        """
        with self._changed:
            due = time.monotonic() + delay_seconds
            heapq.heappush(self._waiting, (due, next(self._numbers), work))
            self._changed.notify_all()
            if self._thread is None:
                thread = threading.Thread(target=self._run, name=self._name, daemon=True)
                try:
                    thread.start()
                except RuntimeError:  # too many threads, or the process is ending
                    self._waiting.clear()
                    return False
                self._thread = thread
                atexit.register(self._on_exit)
            return True

    def wait(self, seconds: float) -> bool:
        """Wait until all work is done; False if it takes longer."""
        with self._changed:
            return self._changed.wait_for(
                lambda: not self._waiting and not self._is_working, seconds
            )

    def hurry(self) -> None:
        """Do work without delays from now on, and keep no thread without work."""
        with self._changed:
            self._is_hurried = True
            self._changed.notify_all()

    def close(self, seconds: float) -> int:
        """Wait until all work is done, or drop the rest, and return how much is not done."""
        self.hurry()
        with self._changed:
            self._changed.wait_for(lambda: self._thread is None, seconds)
            unfinished = len(self._waiting) + self._is_working
            self._waiting.clear()
            return unfinished

    def _run(self) -> None:
        while work := self._take():
            work()

    def _take(self) -> Callable[[], None] | None:
        """Return the next work when it is due; None if there is none for a while."""
        with self._changed:
            self._is_working = False
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._waiting or self._is_hurried, IDLE_THREAD_SECONDS)
            while self._waiting:
                seconds = self._waiting[0][0] - time.monotonic()
                if seconds <= 0 or self._is_hurried:
                    self._is_working = True
                    return heapq.heappop(self._waiting)[2]
                self._changed.wait(seconds)
            self._thread = None
            self._changed.notify_all()
            atexit.unregister(self._on_exit)
            return None


def _reset_after_fork() -> None:
    for queue in _instances:
        queue._reset()


os.register_at_fork(after_in_child=_reset_after_fork)
