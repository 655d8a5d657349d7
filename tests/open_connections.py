"""A file of tests must close the SQLite connections that it has opened.

From 3.13 on Python warns of each that is not, but only as it collects the garbage: in any test.
"""

import sqlite3
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from tests import markers

opened: list[tuple[sqlite3.Connection, str]] = []  # and where


def _hear(event: str, arguments: tuple[Any, ...]) -> None:
    if event == "sqlite3.connect/handle" and markers.current_test is not None:
        opened.append((arguments[0], markers.current_test.nodeid))


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
        unclosed = {test for connection, test in opened if is_open(connection)}
        opened.clear()
        assert not unclosed, f"they leave connections open: {unclosed}"


sys.addaudithook(_hear)
