"""Waiting for a condition instead of for a time."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
TIMEOUT_SECONDS = 30.0


def wait_for(condition: Callable[[], T], seconds: float = TIMEOUT_SECONDS, what: object = "") -> T:
    """Call `condition` until what it returns is true, and return that.

    Raises AssertionError after so many seconds; `what`, or a function that returns it, says what
    was missing.
    """
    until = time.monotonic() + seconds
    while not (result := condition()):
        if time.monotonic() > until:
            raise AssertionError(what() if callable(what) else what or f"not within {seconds} s")
        time.sleep(0.01)
    return result
