"""What is needed of SQLite."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing

from crm.storage.sqlite import migrations
from crm.timed_checks import FAULT, OK, LevelAndDetail

# The first release of SQLite without the fault that the writer lock prevents.
FIXED_SQLITE = (3, 51, 3)


def check_sqlite() -> Iterator[LevelAndDetail]:
    """Check that SQLite has the features that tenants' files need."""
    version = sqlite3.sqlite_version
    try:
        with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
            migrations.migrate(connection, "")
    except sqlite3.Error as error:
        yield FAULT, f"SQLite {version} lacks what is needed: {error}"
        return
    is_fixed = sqlite3.sqlite_version_info >= FIXED_SQLITE
    yield OK, f"SQLite {version}" + ("" if is_fixed else ", whose writers queue for a lock")
