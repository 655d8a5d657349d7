"""Connections to tenants' SQLite files."""

import os
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

# Length of the log that is checkpointed. With SQLite's 1,000 pages a create takes 4 % longer.
CHECKPOINT_BYTES = 8_192_000
# Of new files. Each table and index of an empty one takes a page, 128 in all; lists, searches and
# imports of 500,000 rows are as fast as with SQLite's 4096.
PAGE_BYTES = 1024
MAX_CACHED_STATEMENTS = 512  # of one connection
MAX_REMEMBERED_ROWS = 100
PRAGMAS = (
    "PRAGMA foreign_keys = ON",
    "PRAGMA synchronous = FULL",  # NORMAL lost acknowledged commits in simulated power cuts
    "PRAGMA busy_timeout = 10000",
    "PRAGMA trusted_schema = OFF",
    "PRAGMA journal_size_limit = 67108864",
)


class Connection(sqlite3.Connection):
    """An open connection with the identity of its file: another may be at the same path by now."""

    file: tuple[int, int]  # device and inode
    page_bytes: int
    _remembered: dict[Any, Any]  # first rows of queries, as of _remembered_version
    _remembered_version = -1
    _counts: dict[Any, tuple[int, int, int]]  # changes of the table, its last id, rows counted

    def remember(self, sql: str, params: Sequence[Any]) -> tuple[Any, ...] | None:
        """Return the first row of a query, remembered until another connection commits.

        Of a connection that only reads: its own changes would not be seen.
        """
        # Read before the query: what is committed meanwhile makes the next call ask again.
        ((version,),) = self.execute("PRAGMA data_version").fetchall()
        if version != self._remembered_version or len(self._remembered) > MAX_REMEMBERED_ROWS:
            self._remembered, self._remembered_version = {}, version
        key = (sql, *params)
        if key not in self._remembered:
            rows = self.execute(sql, params).fetchall()
            self._remembered[key] = rows[0] if rows else None
        return self._remembered[key]

    def count_rows(
        self, sql: str, params: Sequence[Any], new: str, new_params: Sequence[Any]
    ) -> int:
        """Return what a query counts, from what it counted before and the rows added since.

        sql: the query. new: the table and the condition that the counted rows meet, as
        `lead WHERE status = ?`; it reads nothing else. Where rows were changed or deleted
        meanwhile, all are counted anew; so are those of a table that row_changes doesn't name.
        """
        key, table = (new, *new_params), new.partition(" ")[0]
        state = f"SELECT count, (SELECT coalesce(max(id), 0) FROM {table})"
        of_table = f"FROM row_changes WHERE table_name = '{table}'"
        if known := self._counts.get(key):
            changes, last_id, counted = known
            added = f"(SELECT count(*) FROM {new} AND id > ?)"
            (found,) = self.execute(
                f"{state}, {added} {of_table}", (*new_params, last_id)
            ).fetchall()
            if found[0] == changes:
                self._counts[key] = (changes, found[1], counted + found[2])
                return counted + found[2]
        rows = self.execute(f"{state}, ({sql}) {of_table}", params).fetchall()
        if not rows:
            return self.execute(sql, params).fetchall()[0][0]
        if len(self._counts) > MAX_REMEMBERED_ROWS:
            self._counts.clear()
        self._counts[key] = rows[0]
        return rows[0][2]

    def insert(self, sql: str, params: Sequence[Any]) -> int:
        """Execute an INSERT of one row and return its id."""
        return cast(int, self.execute(sql, params).lastrowid)

    def stream(self, sql: str, params: Sequence[Any] = ()) -> sqlite3.Cursor:
        """Return a cursor that reads rows as they are taken; the caller closes it."""
        return self.execute(sql, params)

    def allocated_bytes(self) -> int:
        """Return the size of the file, including the current transaction."""
        (pages,) = self._pragma("page_count")
        return pages * self.page_bytes

    def used_bytes(self) -> int:
        """Return the size of the file without the pages that deleted rows left."""
        (free_pages,) = self._pragma("freelist_count")
        return self.allocated_bytes() - free_pages * self.page_bytes

    def _pragma(self, name: str) -> tuple[int]:
        return self.execute(f"PRAGMA {name}").fetchone()

    def begin_snapshot(self) -> None:
        """Begin to read as of one moment, until rollback()."""
        self.execute("BEGIN")


def connect(path: Path, writes: bool = True) -> Connection:
    """Open an existing file, to read or also to write. Raises FileNotFoundError.

    A connection never changes from one to the other: that would make SQLite prepare every
    statement anew.
    """
    file = file_at(path)  # before it is opened: at worst a new file is taken for the old one
    connection = sqlite3.connect(
        f"file:{_uri_path(path)}?mode=rw",
        uri=True,
        isolation_level=None,
        check_same_thread=False,  # a connection is handed from session to session, never shared
        cached_statements=MAX_CACHED_STATEMENTS,
        factory=Connection,
    )
    connection.file, connection._remembered, connection._counts = file, {}, {}
    try:
        for pragma in PRAGMAS:
            connection.execute(pragma)
        (connection.page_bytes,) = connection.execute("PRAGMA page_size").fetchone()
        pages = CHECKPOINT_BYTES // connection.page_bytes
        connection.execute(f"PRAGMA wal_autocheckpoint = {pages}")
        if not writes:
            connection.execute("PRAGMA query_only = ON")
    except BaseException:
        connection.close()
        raise
    return connection


def read_first_row(path: Path, sql: str) -> tuple[Any, ...] | None:
    """Read the first row of one statement; the caller holds the writer lock.

    For reading from many files in turn: a connection for a session takes twice as long to open.
    """
    connection = sqlite3.connect(f"file:{_uri_path(path)}?mode=rw", uri=True, isolation_level=None)
    try:
        return connection.execute(sql).fetchone()
    finally:
        connection.close()


def file_at(path: Path | str) -> tuple[int, int]:
    """Return the device and inode of the file at a path. Raises FileNotFoundError."""
    stat = os.stat(path)
    return stat.st_dev, stat.st_ino


def _uri_path(path: Path) -> str:
    return str(path).replace("%", "%25").replace("?", "%3f").replace("#", "%23")
