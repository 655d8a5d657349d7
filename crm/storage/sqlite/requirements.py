"""What is needed of SQLite."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing

from crm.storage.sqlite import migrations
from crm.timed_checks import FAULT, OK, LevelAndDetail


def check_sqlite() -> Iterator[LevelAndDetail]:
    """Check that SQLite has the features that tenants' files need."""
    version = sqlite3.sqlite_version
    try:
        with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
            migrations.migrate(connection, "")
    except sqlite3.Error as error:
        yield FAULT, f"SQLite {version} lacks what is needed: {error}"
        return
    yield OK, f"SQLite {version}"
