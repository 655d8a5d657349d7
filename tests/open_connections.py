"""A file of quick tests must close the SQLite connections that it has opened.

From 3.13 on Python warns of each that is not, but only as it collects the garbage: in any test.
Those of other tests, which end threads and senders in the middle of work, and those that a thread
has opened, which may still be one of a test before, are closed here.
"""

import contextlib
import sqlite3
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from tests import markers

# And by which test; None: by a thread.
opened: list[tuple[sqlite3.Connection, pytest.Item | None]] = []


def _hear(event: str, arguments: tuple[Any, ...]) -> None:
    if event == "sqlite3.connect/handle" and markers.current_test is not None:
        is_own = threading.current_thread() is threading.main_thread()
        opened.append((arguments[0], markers.current_test if is_own else None))


def is_open(connection: sqlite3.Connection) -> bool:
    """Whether a connection was not closed, as far as this thread may ask."""
    try:
        return connection.total_changes >= 0
    except sqlite3.ProgrammingError:
        return False


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[None]:
    yield
    if nextitem is None or nextitem.path != item.path:  # its fixtures have ended too
        unclosed = set()
        for connection, test in opened:
            if test and test.get_closest_marker("quick"):
                unclosed |= {test.nodeid} if is_open(connection) else set()
            else:
                with contextlib.suppress(sqlite3.ProgrammingError):  # it is another thread's
                    connection.close()
        opened.clear()
        assert not unclosed, f"they leave connections open: {unclosed}"


sys.addaudithook(_hear)
