"""What is needed of SQLite."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing

from crm.timed_checks import FAULT, OK, LevelAndDetail

# The first release of SQLite without the fault that the writer lock prevents.
FIXED_SQLITE = (3, 51, 3)
REQUIRED_STATEMENTS = (  # the features of SQLite that are used, each tried
    "CREATE TABLE a (id INTEGER PRIMARY KEY, b TEXT) STRICT",
    "CREATE VIRTUAL TABLE c USING fts5 (b, content = 'a', content_rowid = 'id',"
    " tokenize = 'trigram case_sensitive 1', detail = none, columnsize = 0)",
    "INSERT INTO a (b) VALUES ('d') RETURNING id",
    "SELECT json_group_array(value) FROM json_each('[1]')",
)


def check_sqlite() -> Iterator[LevelAndDetail]:
    """Check that SQLite has the required features."""
    version = sqlite3.sqlite_version
    with closing(sqlite3.connect(":memory:")) as connection:
        for statement in REQUIRED_STATEMENTS:
            try:
                connection.execute(statement).fetchall()
            except sqlite3.Error as error:
                yield FAULT, f"SQLite {version} lacks what is needed: {error}"
                return
    is_fixed = sqlite3.sqlite_version_info >= FIXED_SQLITE
    yield OK, f"SQLite {version}" + ("" if is_fixed else ", whose writers queue for a lock")
