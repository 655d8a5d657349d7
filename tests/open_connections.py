"""A file of quick tests must close the SQLite connections that it has opened.

From 3.13 on Python warns of each that is not, but only as it collects the garbage: in any test.
Other tests, which end threads and senders in the middle of work, are closed after.
"""

import contextlib
import sqlite3
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from tests import markers
from tests.concurrency import is_answering
from tests.waiting import TIMEOUT_SECONDS, wait_for

opened: list[tuple[sqlite3.Connection, pytest.Item]] = []  # and by which test


def _hear(event: str, arguments: tuple[Any, ...]) -> None:
    if event == "sqlite3.connect/handle" and markers.current_test is not None:
        opened.append((arguments[0], markers.current_test))


def is_open(connection: sqlite3.Connection) -> bool:
    """Whether a connection was not closed, as far as this thread may ask."""
    try:
        return connection.total_changes >= 0
    except sqlite3.ProgrammingError:
        return False


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[None]:
    if item.get_closest_marker("quick"):
        for thread in threading.enumerate():
            if thread.name in ("batches", "spool"):  # which give their connections back at the end
                thread.join(TIMEOUT_SECONDS)
    yield
    if nextitem is None or nextitem.path != item.path:  # its fixtures have ended too
        unclosed = set()
        wait_for(lambda: not is_answering(), what="a request is still answered")
        for connection, test in opened:
            if test.get_closest_marker("quick"):
                unclosed |= {test.nodeid} if is_open(connection) else set()
            else:
                with contextlib.suppress(sqlite3.ProgrammingError):  # it is another thread's
                    connection.close()
        opened.clear()
        assert not unclosed, f"they leave connections open: {unclosed}"


sys.addaudithook(_hear)
