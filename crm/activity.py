"""What the thread of a request does: it waits for a lock or a database, or computes heavily.

A server runs few slow requests at a time, because each that computes takes time from all others.
One that waits takes none, so the server does not count it among those (`crm/server/limits.py`), and
what is known to compute for seconds gets only a part of the server's slots: see `computing()`.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from crm.errors import Busy

SLOT_WAIT_SECONDS = 20.0  # that heavy work waits for a slot before Busy
MAX_WAITING_FOR_SLOT = 16  # in one process; each of them occupies a thread


class _ThreadState(threading.local):
    request: Any = None  # that the server runs here, with attributes `is_waiting`, `is_apart`
    is_computing = False  # heavily, so it has a slot


class Process:
    """The slots for heavy work in this process, and whom to tell that a request begins to wait.

    A thread that has waited goes on without waiting for a slot again: it may have a lock by then
    that others wait for. So for a time more may be used.
    """

    slots, used, waiting = 2, 0, 0
    on_wait: Callable[[], None] = staticmethod(lambda: None)


thread, process = _ThreadState(), Process()
_change = threading.Condition()  # of the slots used


@contextmanager
def waiting() -> Iterator[None]:
    """In a `with` block, this thread waits for something and computes nothing."""
    request, thread.request = thread.request, None  # a block inside of this one changes nothing
    is_computing, thread.is_computing = thread.is_computing, False
    _add_used(-is_computing)
    if request is not None:
        request.is_waiting = True
        process.on_wait()
    try:
        yield
    finally:
        if request is not None:
            request.is_waiting, thread.request = False, request
        thread.is_computing = is_computing
        _add_used(is_computing)


@contextmanager
def apart() -> Iterator[None]:
    """In a `with` block, other changes of the tenant need not wait for this one.

    It needs nothing that they need: it receives an upload, or another process works for it.
    """
    if (request := thread.request) is None:
        yield
        return
    request.is_apart = True
    process.on_wait()
    try:
        yield
    finally:
        request.is_apart = False


@contextmanager
def computing(wait_seconds: float = SLOT_WAIT_SECONDS) -> Iterator[None]:
    """Do heavy work in a `with` block, in a slot for it; inside of another one, join that.

    Not to be entered inside `transaction()`: writers would wait for the slot. Raises Busy if there
    is none in time, or too many wait already.
    """
    if thread.is_computing:
        yield
        return
    with waiting(), _change:
        if process.used >= process.slots and process.waiting >= MAX_WAITING_FOR_SLOT:
            raise Busy
        process.waiting += 1
        is_free = _change.wait_for(lambda: process.used < process.slots, wait_seconds)
        process.waiting -= 1
        if not is_free:
            raise Busy
        process.used += 1
    thread.is_computing = True
    try:
        yield
    finally:
        thread.is_computing = False
        _add_used(-1)


def _add_used(number: int) -> None:
    with _change:
        process.used += number
        _change.notify()
