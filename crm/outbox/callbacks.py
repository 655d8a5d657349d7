"""Callbacks: functions of a program that embeds the CRM, called when an event has happened.

They run after the commit, in a thread of their own, in a session of the tenant and in the app
context of the surrounding site, one event after another in the order of the commits. They get the
events of this process only, and nothing is stored: an event that must not be missed needs a webhook
or the event feed.
"""

import inspect
import logging
from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any

from crm.errors import describe_origin
from crm.json import loads
from crm.outbox import events
from crm.storage.session import current_session, row
from crm.work_queue import WorkQueue

ALL_KINDS = "*"
EXIT_TIMEOUT_SECONDS = 5.0  # for callbacks that wait when the process ends

log = logging.getLogger("crm")

Callback = Callable[[dict[str, Any]], Any]


class Callbacks(WorkQueue):
    """The callbacks of one installation, and the queue in which they are called."""

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
        super().__init__("callbacks", partial(self.wait, EXIT_TIMEOUT_SECONDS))

    def _reset(self) -> None:
        super()._reset()
        self._written: dict[str, deque[tuple[int, str]]] = {}  # by tenant: sequence and id

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

    def _wake(self, label: str, last: int) -> None:
        if not self.add(partial(self._call_until, label, last)):
            text = "the process ends before the events after %s of %s reach callbacks"
            log.error(text, last, label)

    def _call_until(self, label: str, last: int) -> None:
        """Call the callbacks of all events of a tenant up to one that is committed.

        Writers take turns, so those before it are committed or rolled back, even if the thread of
        an earlier one has not reported its commit yet.
        """
        with self._changed:
            written, ready = self._written[label], []
            while written and written[0][0] <= last:
                ready.append(written.popleft())
        for sequence, id in ready:
            try:
                self._call_all(label, sequence, id)
            except Exception as error:
                reason = describe_origin(error)
                log.error("event %s of %s cannot be passed to callbacks: %s", id, label, reason)

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
