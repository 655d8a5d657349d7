"""Connections to tenants' SQLite files, and those kept open for the next session."""

import os
import sqlite3
import threading
from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast
from weakref import WeakSet

from crm.errors import Busy
from crm.open_files import divide_open_files
from crm.storage.commit_groups import MAX_LOCK_WAIT_SECONDS

# Length of the log that is checkpointed. With SQLite's 1,000 pages a create takes 4 % longer.
CHECKPOINT_BYTES = 8_192_000
# Of new files. Each table and index of an empty one takes a page, 128 in all; lists, searches and
# imports of 500,000 rows are as fast as with SQLite's 4096.
PAGE_BYTES = 1024
MAX_CACHED_STATEMENTS = 128  # of one connection; 512 took 9 MB more after all pages
MAX_REMEMBERED_QUERIES = 100
PRAGMAS = (
    "PRAGMA foreign_keys = ON",
    "PRAGMA synchronous = FULL",  # NORMAL lost acknowledged commits in simulated power cuts
    "PRAGMA busy_timeout = 10000",
    "PRAGMA trusted_schema = OFF",
    "PRAGMA journal_size_limit = 67108864",
)
FORK_WAIT_SECONDS = 1.0  # before a fork, for a connection whose file is being written

ConnectionOwner = Any  # tenant.Tenant: a tenant whose connections are pooled
_pools: "WeakSet[ConnectionPool]" = WeakSet()


class FileConnection(sqlite3.Connection):
    """An open connection with the identity of its file: another may be at the same path by now."""

    file: tuple[int, int]  # device and inode
    page_bytes: int
    _remembered: dict[Any, Any]  # rows of queries, as of _remembered_version
    _remembered_version = -1
    can_begin_again = False  # as of postgres.schema_connection.SchemaConnection, and unused
    _counts: dict[Any, tuple[int, int, int]]  # changes of the table, its last id, rows counted

    def remember(self, sql: str, params: Sequence[Any]) -> list[tuple[Any, ...]]:
        """Return the rows of a query, remembered until another connection commits.

        Of a connection that only reads: its own changes would not be seen.
        """
        # Read before the query: what is committed meanwhile makes the next call ask again.
        ((version,),) = self.execute("PRAGMA data_version").fetchall()
        if version != self._remembered_version or len(self._remembered) > MAX_REMEMBERED_QUERIES:
            self._remembered, self._remembered_version = {}, version
        key = (sql, *params)
        if key not in self._remembered:
            self._remembered[key] = self.execute(sql, params).fetchall()
        return self._remembered[key]

    def check_remembered(self) -> None:
        """Nothing to check: remember() has looked whether anything was committed."""

    def count_rows(
        self,
        sql: str,
        params: Sequence[Any],
        table: str,
        where: str,
        where_params: Sequence[Any],
    ) -> int:
        """Return what a query counts, from what it counted before and the rows added since.

        where: the condition that the counted rows of the table meet, which reads nothing else.
        Where rows were changed or deleted meanwhile, all are counted anew; so are those of a table
        that row_changes doesn't name.
        """
        key = (sql, where, *where_params)
        state = f"SELECT count, (SELECT coalesce(max(id), 0) FROM {table})"
        of_table = f"FROM row_changes WHERE table_name = '{table}'"
        if known := self._counts.get(key):
            changes, last_id, counted = known
            # By the id: there are more rows of any condition.
            added = f"(SELECT count(*) FROM {table} NOT INDEXED WHERE {where} AND id > ?)"
            sql_of_new = f"{state}, {added} {of_table}"
            ((now, newest_id, new_rows),) = self.execute(
                sql_of_new, (*where_params, last_id)
            ).fetchall()
            if now == changes:
                self._counts[key] = (changes, newest_id, counted + new_rows)
                return counted + new_rows
        rows = self.execute(f"{state}, ({sql}) {of_table}", params).fetchall()
        if not rows:
            return self.execute(sql, params).fetchall()[0][0]
        if len(self._counts) > MAX_REMEMBERED_QUERIES:
            self._counts.clear()
        self._counts[key] = rows[0]
        return rows[0][2]

    def insert(self, sql: str, params: Sequence[Any]) -> int:
        """Execute an INSERT of one row and return its id."""
        return cast(int, self.execute(sql, params).lastrowid)

    def stream(self, sql: str, params: Sequence[Any] = ()) -> sqlite3.Cursor:
        """Return a cursor that reads rows as they are taken; the caller closes it."""
        return self.execute(sql, params)

    def allocated_bytes(self, *_: int) -> int:
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


def connect(path: Path, writes: bool = True) -> FileConnection:
    """Open an existing file, to read or also to write. Raises FileNotFoundError.

    A connection never changes from one to the other: that would make SQLite prepare every
    statement anew.
    """
    file = file_at(path)  # before it is opened: at worst a new file is taken for the old one
    connection = sqlite3.connect(
        f"{path.absolute().as_uri()}?mode=rw",
        uri=True,
        isolation_level=None,
        check_same_thread=False,  # a connection is handed from session to session, never shared
        cached_statements=MAX_CACHED_STATEMENTS,
        factory=FileConnection,
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
            # KiB: with SQLite's 2,000, two processes take 10 MB more after all pages of a tenant
            # with 350,000 leads, and show them no sooner.
            connection.execute("PRAGMA cache_size = -500")
    except BaseException:
        connection.close()
        raise
    return connection


def file_at(path: Path | str) -> tuple[int, int]:
    """Return the device and inode of the file at a path. Raises FileNotFoundError."""
    stat = os.stat(path)
    return stat.st_dev, stat.st_ino


class ConnectionPool:
    """The idle connections of all tenants of an installation; the longest unused closes first.

    Its size bounds idle connections only: a bound that made sessions wait would deadlock nested
    ones.
    """

    def __init__(self, size: int):
        self._size = divide_open_files(size).databases
        self._lock = threading.Lock()
        # By owner and whether they may write; those that were given back last are at the end.
        self._idle: OrderedDict[tuple[ConnectionOwner, bool], list[FileConnection]] = OrderedDict()
        self._count = 0
        _pools.add(self)

    def take(self, owner: ConnectionOwner, writes: bool) -> FileConnection | None:
        """Take an idle connection of a tenant out of the pool, or return None."""
        with self._lock:
            return self._remove(owner, writes) if (owner, writes) in self._idle else None

    def give(self, owner: ConnectionOwner, connection: FileConnection, writes: bool) -> None:
        """Put a connection into the pool; closes one that is long unused if that is too many."""
        surplus = None
        with self._lock:
            self._add(owner, writes, connection)
            if self._count > self._size:
                key = next(iter(self._idle))
                surplus = (*key, self._remove(*key))
        if surplus:
            self._close(*surplus, wait_seconds=0)

    def forget(
        self,
        owner: ConnectionOwner | None = None,
        wait_seconds: float = MAX_LOCK_WAIT_SECONDS,
    ) -> None:
        """Close the idle connections of a tenant, or of all tenants."""
        with self._lock:
            keys = [key for key in self._idle if owner in (None, key[0])]
            closing = [(*key, self._remove(*key)) for key in keys for _ in [*self._idle[key]]]
        for idle in closing:
            self._close(*idle, wait_seconds)

    def _close(
        self, owner: ConnectionOwner, writes: bool, connection: FileConnection, wait_seconds: float
    ) -> None:
        try:
            owner.close(connection, wait_seconds)
        except (Busy, OSError):  # it is being written, or its lock cannot be opened: later
            with self._lock:
                self._add(owner, writes, connection)

    def _add(self, owner: ConnectionOwner, writes: bool, connection: FileConnection) -> None:
        self._idle.setdefault((owner, writes), []).append(connection)
        self._idle.move_to_end((owner, writes))
        self._count += 1

    def _remove(self, owner: ConnectionOwner, writes: bool) -> FileConnection:
        connections = self._idle[owner, writes]
        connection = connections.pop()
        if not connections:
            del self._idle[owner, writes]
        self._count -= 1
        return connection


def _close_before_fork() -> None:
    """Close all idle connections: SQLite's locks are not inherited by a child process, so what it
    writes through a connection of its parent's is lost when the parent closes it."""
    for pool in tuple(_pools):
        pool.forget(wait_seconds=FORK_WAIT_SECONDS)


os.register_at_fork(before=_close_before_fork)
