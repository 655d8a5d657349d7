"""Numbered steps of a tenant's file. The file's version is the number of steps it has had.

A step is a page of SQL statements; each runs in one transaction with the version it leads to, so a
step happens whole or not at all. Never change a step that was released: add the next one.
"""

import sqlite3
from contextlib import closing
from functools import cache
from importlib import resources

from crm.errors import CRMError

# Tables of older files by their names there, and what step 9 calls them.
RENAMED_TABLES = {
    "price_import": "import_run",
    "answer": "idempotency_response",
    "change": "audit_entry",
    "code": "sms_code",
    "link": "one_time_link",
}


class NewerFile(CRMError):
    """The file was written by a newer release; older code must not touch it."""

    code = "newer_file"


def _steps() -> list[tuple[str, list[str]]]:
    pages = [page for page in resources.files(__name__).iterdir() if page.name.endswith(".sql")]
    return [(page.name, _statements(page.read_text("utf-8"))) for page in sorted(pages, key=str)]


def _statements(page: str) -> list[str]:
    """The statements of a page: `executescript` would commit the step's transaction."""
    found, begun = [], ""
    for line in page.splitlines(keepends=True):
        begun += line
        if sqlite3.complete_statement(begun):
            found.append(begun.strip())
            begun = ""
    return found


STEPS = _steps()


def version(connection: sqlite3.Connection) -> int:
    return connection.execute("PRAGMA user_version").fetchone()[0]


def has_schema(connection: sqlite3.Connection) -> bool:
    """Are the tables and indexes of an up to date file those that the steps make?"""
    return _schema(connection) == _expected_schema()


@cache
def _expected_schema() -> frozenset[tuple[str, ...]]:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as made:
        migrate(made, "")
        return _schema(made)


def _schema(connection: sqlite3.Connection) -> frozenset[tuple[str, ...]]:
    asked = "SELECT type, name, sql FROM sqlite_schema WHERE name NOT LIKE 'sqlite\\_%' ESCAPE '\\'"
    return frozenset(connection.execute(asked).fetchall())


def newer(name: str, version: int) -> NewerFile:
    """The error that tells of a file ahead of this code."""
    return NewerFile(
        f"the file of {name} has version {version}, this release knows {len(STEPS)}: upgrade it"
    )


def migrate(connection: sqlite3.Connection, name: str) -> int:
    """Bring an open file up to date; the caller holds its writer lock. Gives the steps taken.

    Raises NewerFile when the file is ahead of this code.
    """
    begun = version(connection)
    if begun > len(STEPS):
        raise newer(name, begun)
    for number, (_, statements) in enumerate(STEPS[begun:], begun + 1):
        connection.execute("BEGIN IMMEDIATE")
        try:
            for statement in statements:
                connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {number}")
        except BaseException:
            connection.execute("ROLLBACK")
            raise
        connection.execute("COMMIT")
    return len(STEPS) - begun
