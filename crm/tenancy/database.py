"""The current tenant's database: whoever is visiting a tenant reads and writes its file, no other.

A visit belongs to one thread and one tenant, found through a context variable; without one every
query is an error, never a default. Writing needs `transaction()`, which holds the tenant's writer
lock among threads and processes: SQLite before 3.51.3 can corrupt a file when one connection
writes while another checkpoints, and a queue of our own is fairer than SQLite's busy loop.
"""

import fcntl
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar, Token
from functools import lru_cache
from pathlib import Path
from typing import Any

from peewee import SqliteDatabase, _ConnectionState

from crm.errors import Busy, CRMError

LONGEST_WAIT = 10.0  # seconds a writer waits for its turn before Busy
PRAGMAS = (
    "PRAGMA foreign_keys = ON",
    "PRAGMA synchronous = FULL",  # NORMAL lost acknowledged commits in simulated power cuts
    "PRAGMA busy_timeout = 10000",
    "PRAGMA trusted_schema = OFF",
    "PRAGMA journal_size_limit = 67108864",
)


class NoTenant(CRMError):
    """A query outside a visit, in another thread than its visit's, or across two tenants."""

    code = "no_tenant"


class WriterLock:
    """One writer at a time for one file, among the threads of this process and all processes."""

    def __init__(self, path: Path):
        self._path = path
        self._threads = threading.Lock()
        self._file = -1

    def acquire(self, wait: float = LONGEST_WAIT) -> None:
        """Take the lock within `wait` seconds or raise Busy."""
        deadline = time.monotonic() + wait
        if not self._threads.acquire(timeout=wait):
            raise Busy
        try:
            self._file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            pause = 0.001
            while True:
                try:
                    fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    return
                except BlockingIOError:
                    if time.monotonic() + pause > deadline:
                        raise Busy from None
                    time.sleep(pause)
                    pause = min(pause * 2, 0.02)
        except BaseException:
            self.release()
            raise

    def release(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1
        self._threads.release()

    @contextmanager
    def __call__(self, wait: float = LONGEST_WAIT) -> Iterator[None]:
        self.acquire(wait)
        try:
            yield
        finally:
            self.release()


def connect(path: Path) -> sqlite3.Connection:
    """Open an existing file. It reads only, until a transaction lets it write."""
    connection = sqlite3.connect(
        f"file:{_uri_path(path)}?mode=rw",
        uri=True,
        isolation_level=None,
        check_same_thread=False,  # a connection is handed from visit to visit, never shared
        cached_statements=512,
    )
    for pragma in PRAGMAS:
        connection.execute(pragma)
    return connection


def _uri_path(path: Path) -> str:
    return str(path).replace("%", "%25").replace("?", "%3f").replace("#", "%23")


class Visit:
    """One thread's stay at one tenant, and in whose name: `user_id`, `key_id`."""

    __slots__ = ("clock", "connection", "key_id", "label", "lock", "state", "thread", "user_id")

    def __init__(
        self,
        label: str,
        connection: sqlite3.Connection,
        lock: WriterLock,
        clock: Callable[[], float],
    ):
        self.label = label
        self.connection = connection
        self.lock = lock
        self.clock = clock
        self.thread = threading.get_ident()
        self.state = _ConnectionState()
        self.state.set_connection(connection)
        self.user_id: int | None = None
        self.key_id: int | None = None


_visit: ContextVar[Visit | None] = ContextVar("visit", default=None)


def visit() -> Visit:
    """The visit under way; raises NoTenant where there is none or it is another thread's."""
    found = _visit.get()
    if found is None:
        raise NoTenant("no tenant is being visited here")
    if found.thread != threading.get_ident():
        raise NoTenant("this visit belongs to another thread")
    return found


def visiting() -> Visit | None:
    """The visit under way, or None."""
    return _visit.get()


def begin_visit(new: Visit) -> Token[Visit | None]:
    outer = _visit.get()
    if outer is not None and outer.state.transactions and outer.label != new.label:
        raise NoTenant("another tenant cannot be visited inside a transaction")
    return _visit.set(new)


def end_visit(token: Token[Visit | None]) -> None:
    _visit.reset(token)


class TenantDatabase(SqliteDatabase):
    """peewee's database, whose connection is always the current visit's."""

    def __init__(self) -> None:
        super().__init__("tenant", thread_safe=False, autoconnect=False)

    @property
    def _state(self) -> _ConnectionState:
        return visit().state

    @_state.setter
    def _state(self, value: _ConnectionState) -> None:
        """peewee sets one for all; each visit has its own."""

    def is_closed(self) -> bool:
        return _visit.get() is None

    def init(self, database: str, **options: Any) -> None:
        self.database, self.deferred, self._pragmas, self._timeout = database, False, (), 10

    def begin(self, *_: Any) -> None:
        here = visit()
        here.lock.acquire()
        try:
            here.connection.execute("PRAGMA query_only = OFF")
            here.connection.execute("BEGIN IMMEDIATE")
        except BaseException as error:
            here.connection.execute("PRAGMA query_only = ON")
            here.lock.release()
            if is_busy(error):
                raise Busy from error
            raise

    def commit(self) -> None:
        # A failed COMMIT leaves the transaction open: peewee then calls rollback, which frees.
        here = visit()
        here.connection.execute("COMMIT")
        self._free(here)

    def rollback(self) -> None:
        here = visit()
        try:
            if here.connection.in_transaction:
                here.connection.execute("ROLLBACK")
        finally:
            self._free(here)

    @staticmethod
    def _free(here: Visit) -> None:
        here.connection.execute("PRAGMA query_only = ON")
        here.lock.release()


database = TenantDatabase()


@contextmanager
def transaction() -> Iterator[None]:
    """All or nothing; joins the transaction under way. Raises Busy when its turn doesn't come."""
    if visit().state.transactions:
        yield
    else:
        with database.transaction():
            yield


def after_commit(wake: Callable[[], None]) -> None:
    """Call `wake` once the transaction under way is committed; never on a rollback.

    `wake` may only wake: an exception of its would look like a failed commit.
    """
    database.after_commit(wake)


def rows(sql: str, params: Sequence[Any] = ()) -> list[tuple]:
    """All rows of a prepared text: an unfinished cursor would hold back the log's checkpoint."""
    return visit().connection.execute(sql, params).fetchall()


def row(sql: str, params: Sequence[Any] = ()) -> tuple | None:
    found = visit().connection.execute(sql, params).fetchall()
    return found[0] if found else None


def execute(sql: str, params: Sequence[Any] = ()) -> sqlite3.Cursor:
    """Run one changing statement; only inside `transaction()`."""
    here = visit()
    if not here.state.transactions:
        raise NoTenant("writing needs a transaction")
    return here.connection.execute(sql, params)


def execute_many(sql: str, params: Sequence[Sequence[Any]]) -> None:
    here = visit()
    if not here.state.transactions:
        raise NoTenant("writing needs a transaction")
    here.connection.executemany(sql, params)


def now() -> str:
    """The time by the tenant's clock: RFC 3339, UTC, whole seconds (D2)."""
    return time_text(int(visit().clock()))


@lru_cache(maxsize=64)
def time_text(seconds: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


def time_before(seconds: int) -> str:
    """The time `seconds` ago by the tenant's clock."""
    return time_text(int(visit().clock()) - seconds)


def json_rows(columns: dict[str, str], rest: str) -> str:
    """An SQL expression: the rows of `SELECT columns FROM rest` as one JSON text."""
    names = ", ".join(f"'{name}', {name}" for name in columns)
    chosen = ", ".join(f"{expression} AS {name}" for name, expression in columns.items())
    return f"(SELECT json_group_array(json_object({names})) FROM (SELECT {chosen} FROM {rest}))"


def is_busy(error: BaseException) -> bool:
    """Is it SQLite saying that another holds the file for too long?"""
    return "database is locked" in str(error) or "database table is locked" in str(error)
