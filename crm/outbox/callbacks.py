"""Callbacks: what a program that embeds the CRM does when something has happened.

They run after the commit, in a thread of their own, in a visit to the tenant and in the application
context of the site around the CRM, one event after another as they were committed. They hear the
changes of this process and are kept nowhere: what must not be missed is for webhooks or the feed of
events.
"""

import atexit
import inspect
import logging
import threading
from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from os import register_at_fork
from typing import Any
from weakref import WeakSet

from crm.errors import describe_origin
from crm.json import loads
from crm.outbox import events
from crm.tenancy.database import current_session, row

ALL_KINDS = "*"
EXIT_TIMEOUT_SECONDS = 5.0  # for those that wait when the process ends
IDLE_THREAD_SECONDS = 2.0  # after which the thread ends, until there is something to tell again

log = logging.getLogger("crm")

Callback = Callable[[dict[str, Any]], Any]


_instances: "WeakSet[Callbacks]" = WeakSet()


class Callbacks:
    """Those of one installation; `visits` gives the visit to a tenant by its label.

    `app_context` gives the context that each callback runs in, a new one every time.
    """

    def __init__(
        self,
        visits: Callable[[str], AbstractContextManager[Any]],
        app_context: Callable[[], AbstractContextManager[Any]] = nullcontext,
    ):
        self._visits, self._app_context = visits, app_context
        self._wanted: dict[str, list[Callback]] = {}
        self._begin()
        _instances.add(self)

    def _begin(self) -> None:
        """Also after a fork: the parent tells of what it has written."""
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._written: dict[str, deque[tuple[int, str]]] = {}  # by tenant: sequence and id
        self._committed: deque[tuple[str, int]] = deque()
        self._at_work = False

    def on(self, *kinds: str) -> Callable[[Callback], Callback]:
        """A decorator: call the function with every event of these kinds, `*` for all.

        The event is the body of its webhook. Raises ValueError for a kind that isn't one of the 14,
        TypeError for an async function.
        """
        for kind in kinds or ("",):
            if kind != ALL_KINDS and kind not in events.KINDS:
                raise ValueError(f"{kind!r} is none of {', '.join(events.KINDS)}, or *")

        def listen(callback: Callback) -> Callback:
            if inspect.iscoroutinefunction(callback):
                raise TypeError("a callback is a plain function, not an async one")
            for kind in (ALL_KINDS,) if ALL_KINDS in kinds else dict.fromkeys(kinds):
                self._wanted.setdefault(kind, []).append(callback)
            return callback

        return listen

    def on_event(self, label: str, kind: str, sequence: int, id: str) -> Callable[[], None] | None:
        """An event is written and perhaps never committed. Gives what to call if it is."""
        if kind not in self._wanted and ALL_KINDS not in self._wanted:
            return None
        with self._changed:
            written = self._written.setdefault(label, deque())
            while written and written[-1][0] >= sequence:
                written.pop()  # it was rolled back: its number is given again
            written.append((sequence, id))
        return partial(self._wake, label, sequence)

    def wait(self, seconds: float) -> bool:
        """Until all that is committed has been told; False when that takes longer."""
        with self._changed:
            return self._changed.wait_for(
                lambda: not self._committed and not self._at_work, seconds
            )

    def _wake(self, label: str, sequence: int) -> None:
        with self._changed:
            self._committed.append((label, sequence))
            self._changed.notify_all()
            if self._thread is None:
                thread = threading.Thread(target=self._work, name="callbacks", daemon=True)
                try:
                    thread.start()
                except RuntimeError:  # the process ends
                    log.error("events after %s of %s come too late to be told", sequence, label)
                    return
                self._thread = thread
                atexit.register(self.wait, EXIT_TIMEOUT_SECONDS)

    def _work(self) -> None:
        while True:
            with self._changed:
                if not self._changed.wait_for(lambda: self._committed, IDLE_THREAD_SECONDS):
                    self._thread = None
                    atexit.unregister(self.wait)
                    return
                label, last = self._committed.popleft()
                # Writers take turns, so whatever was written before it has been decided as well:
                # this is their order, though one thread may be late to say so.
                written, found = self._written[label], []
                while written and written[0][0] <= last:
                    found.append(written.popleft())
                self._at_work = True
            for sequence, id in found:
                try:
                    self._tell(label, sequence, id)
                except Exception as error:
                    log.error(
                        "event %s of %s cannot be told: %s", id, label, describe_origin(error)
                    )
            with self._changed:
                self._at_work = False
                self._changed.notify_all()

    def _tell(self, label: str, sequence: int, id: str) -> None:
        with self._visits(label):
            if not row("SELECT 1 FROM event WHERE sequence = ? AND id = ?", (sequence, id)):
                return  # it was rolled back
            _, body = events.load_event_body(sequence)
            kind = loads(body)["type"]
            for callback in (*self._wanted.get(kind, ()), *self._wanted.get(ALL_KINDS, ())):
                self._call(callback, kind, loads(body))

    def _call(self, callback: Callback, kind: str, event: dict[str, Any]) -> None:
        here = current_session()
        here.user_id = here.key_id = None
        try:
            with self._app_context():  # its end may fail too, by what the site does there
                callback(event)
        except BaseException as error:  # an exit of this thread would leave the others unheard
            name = getattr(callback, "__qualname__", type(callback).__name__)
            told = (name, kind, event["id"], here.label, describe_origin(error))
            log.error("the callback %s failed for %s %s of %s: %s", *told)


def _reset_after_fork() -> None:
    for each in _instances:
        each._begin()


register_at_fork(after_in_child=_reset_after_fork)
