"""What statements a run executes: `STATEMENTS=FOLDER pytest -p tests.statement_recorder …`.

Those of the code on tenants in files, without those about the files themselves: each once, as JSON
in a file for each process.
"""

import json
import os
import sqlite3
import sys
from pathlib import Path
from types import FrameType
from typing import Any

import peewee

import crm
from crm.storage.sqlite import connection

CRM = os.path.dirname(crm.__file__)
STORAGE = os.path.join(CRM, "storage")
OF_FILES = os.path.dirname(connection.__file__)

_statements: set[str] = set()


class Recording:
    """Notes what a connection or a cursor executes."""

    def execute(self, sql: str, *params: Any) -> Any:
        _note(sql)
        return super().execute(sql, *params)  # type: ignore[misc]

    def executemany(self, sql: str, *params: Any) -> Any:
        _note(sql)
        return super().executemany(sql, *params)  # type: ignore[misc]


class Cursor(Recording, sqlite3.Cursor):
    """A cursor, as peewee takes it."""


class Connection(Recording, connection.FileConnection):
    """A connection to a tenant's file."""

    def cursor(self, factory: Any = Cursor) -> Any:
        return super().cursor(factory)


def _note(sql: str) -> None:
    """Note a statement of the code; those of tests may be in SQLite's own SQL."""
    if sql in _statements:
        return
    frame: FrameType | None = sys._getframe(2)
    if frame and frame.f_code.co_filename.startswith(OF_FILES):
        return
    while frame and frame.f_code.co_filename.startswith((STORAGE, peewee.__file__, "<")):
        frame = frame.f_back
    if frame and frame.f_code.co_filename.startswith(CRM):
        _statements.add(sql)


def pytest_configure() -> None:
    connection.FileConnection = Connection


def pytest_unconfigure() -> None:
    folder = Path(os.environ["STATEMENTS"])
    (folder / f"{os.getpid()}.json").write_text(json.dumps(sorted(_statements)))
