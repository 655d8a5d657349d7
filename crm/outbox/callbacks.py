"""Callbacks: functions of a program that embeds the CRM, called when an event has happened.

They run after the commit, in a thread of their own, in a session of the tenant and in the app
context of the surrounding site, one event after another in the order of the commits. They get the
events of this process only, and nothing is stored: an event that must not be missed needs a webhook
or the event feed.
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
from crm.storage.session import current_session, row

ALL_KINDS = "*"
EXIT_TIMEOUT_SECONDS = 5.0  # for callbacks that wait when the process ends
IDLE_THREAD_SECONDS = 2.0  # without an event, after which the thread ends until the next one

log = logging.getLogger("crm")

Callback = Callable[[dict[str, Any]], Any]


_instances: "WeakSet[Callbacks]" = WeakSet()


class Callbacks:
    """The callbacks of one installation, and the thread that calls them."""

    def __init__(
        self,
        open_session: Callable[[str], AbstractContextManager[Any]],
        app_context: Callable[[], AbstractContextManager[Any]] = nullcontext,
    ):
        """`open_session` opens the session of a tenant by its label.

        `app_context` returns the context that a callback runs in, a new one for each call.
        """
        self._open_session, self._app_context = open_session, app_context
        self._callbacks_by_kind: dict[str, list[Callback]] = {}
        self._reset()
        _instances.add(self)

    def _reset(self) -> None:
        """Forget all events: at the start, and after a fork, since the parent handles its own."""
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._written: dict[str, deque[tuple[int, str]]] = {}  # by tenant: sequence and id
        self._committed: deque[tuple[str, int]] = deque()  # tenant and sequence
        self._is_calling = False

    def on(self, *kinds: str) -> Callable[[Callback], Callback]:
        """Return a decorator that registers a function for events of these kinds, `*` for all.

        The function gets the event as the body of its webhook. Raises ValueError for a kind that
        does not exist, TypeError for an async function.
        """
        for kind in kinds or ("",):
            if kind != ALL_KINDS and kind not in events.KINDS:
                raise ValueError(f"{kind!r} is none of {', '.join(events.KINDS)}, or *")

        def register(callback: Callback) -> Callback:
            if inspect.iscoroutinefunction(callback):
                raise TypeError("a callback is a plain function, not an async one")
            for kind in (ALL_KINDS,) if ALL_KINDS in kinds else dict.fromkeys(kinds):
                self._callbacks_by_kind.setdefault(kind, []).append(callback)
            return callback

        return register

    def on_event(self, label: str, kind: str, sequence: int, id: str) -> Callable[[], None] | None:
        """Note an event that is written but not committed; None if no callback wants its kind.

        Returns the function to call once the event is committed.
        """
        if kind not in self._callbacks_by_kind and ALL_KINDS not in self._callbacks_by_kind:
            return None
        with self._changed:
            written = self._written.setdefault(label, deque())
            while written and written[-1][0] >= sequence:
                written.pop()  # it was rolled back, so its sequence is used again
            written.append((sequence, id))
        return partial(self._wake, label, sequence)

    def wait(self, seconds: float) -> bool:
        """Wait until the callbacks of all committed events have run; False if it takes longer."""
        with self._changed:
            return self._changed.wait_for(
                lambda: not self._committed and not self._is_calling, seconds
            )

    def _wake(self, label: str, sequence: int) -> None:
        with self._changed:
            self._committed.append((label, sequence))
            self._changed.notify_all()
            if self._thread is None:
                thread = threading.Thread(target=self._run, name="callbacks", daemon=True)
                try:
                    thread.start()
                except RuntimeError:  # the process is ending
                    log.error(
                        "the process ends before the events after %s of %s reach callbacks",
                        sequence,
                        label,
                    )
                    return
                self._thread = thread
                atexit.register(self.wait, EXIT_TIMEOUT_SECONDS)

    def _run(self) -> None:
        while True:
            with self._changed:
                if not self._changed.wait_for(lambda: self._committed, IDLE_THREAD_SECONDS):
                    self._thread = None
                    atexit.unregister(self.wait)
                    return
                label, last = self._committed.popleft()
                # Writers take turns, so all events up to this one are committed or rolled back,
                # even if the thread of an earlier one has not reported its commit yet.
                written, ready = self._written[label], []
                while written and written[0][0] <= last:
                    ready.append(written.popleft())
                self._is_calling = True
            for sequence, id in ready:
                try:
                    self._call_all(label, sequence, id)
                except Exception as error:
                    reason = describe_origin(error)
                    log.error("event %s of %s cannot be passed to callbacks: %s", id, label, reason)
            with self._changed:
                self._is_calling = False
                self._changed.notify_all()

    def _call_all(self, label: str, sequence: int, id: str) -> None:
        with self._open_session(label):
            if not row("SELECT 1 FROM event WHERE sequence = ? AND id = ?", (sequence, id)):
                return  # it was rolled back
            _, body = events.load_event_body(sequence)
            kind = loads(body)["type"]
            by_kind = self._callbacks_by_kind
            for callback in (*by_kind.get(kind, ()), *by_kind.get(ALL_KINDS, ())):
                self._call(callback, kind, loads(body))  # a copy: a callback may change it

    def _call(self, callback: Callback, kind: str, event: dict[str, Any]) -> None:
        session = current_session()
        session.user_id = session.key_id = None
        try:
            with self._app_context():  # the site's code runs at its end too, and may raise
                callback(event)
        except BaseException as error:  # SystemExit would end the thread for all other callbacks
            name = getattr(callback, "__qualname__", type(callback).__name__)
            details = (name, kind, event["id"], session.label, describe_origin(error))
            log.error("the callback %s failed for %s %s of %s: %s", *details)


def _reset_after_fork() -> None:
    for callbacks in _instances:
        callbacks._reset()


register_at_fork(after_in_child=_reset_after_fork)
