"""The current tenant's database: whoever is visiting a tenant reads and writes its file, no other.

A visit belongs to one thread and one tenant, found through a context variable; without one every
query is an error, never a default. Writing needs `transaction()`, which holds the tenant's writer
lock among threads and processes: SQLite before 3.51.3 can corrupt a file when one connection
writes while another checkpoints, and a queue of our own is fairer than SQLite's busy loop.
"""

import os
import sqlite3
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from contextvars import ContextVar, Token
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, Protocol, cast

from peewee import SqliteDatabase, _ConnectionState

from crm.config import Config
from crm.errors import Busy, CRMError
from crm.tenancy.file_errors import FILE_ERRORS, Cause, cause_of, is_busy
from crm.tenancy.steady_clock import SteadyClock
from crm.tenancy.wakeup import OnEvent, WakeupPipe
from crm.tenancy.writer_lock import LONGEST_WAIT, WriterLock

LOG_BYTES = 8_192_000  # until a checkpoint: with SQLite's 1,000 pages a create takes 4 % longer
PRAGMAS = (
    "PRAGMA foreign_keys = ON",
    "PRAGMA synchronous = FULL",  # NORMAL lost acknowledged commits in simulated power cuts
    "PRAGMA busy_timeout = 10000",
    "PRAGMA trusted_schema = OFF",
    "PRAGMA journal_size_limit = 67108864",
)


class NoTenant(RuntimeError):
    """A mistake of ours: a query outside a visit, in another thread than its visit's, across two
    tenants, or a write outside a transaction."""


class Connection(sqlite3.Connection):
    """An open connection that knows its file: another may stand at the same path by now."""

    file: tuple[int, int]


def connect(path: Path, writes: bool = True, own_index: bool = False) -> Connection:
    """Open an existing file, to read or also to write. Raises FileNotFoundError.

    Which of the two never changes: toggling it would make SQLite prepare every text anew.
    `own_index`: SQLite keeps the index of the log in the connection's memory and writes nothing;
    the caller holds the file's writer lock while it is open (`Tenant.take`).
    """
    file = file_at(path)  # before it is opened: at worst a new file is taken for the old one
    connection = sqlite3.connect(
        f"file:{_uri_path(path)}?mode=rw{'&readonly_shm=1' if own_index else ''}",
        uri=True,
        isolation_level=None,
        check_same_thread=False,  # a connection is handed from visit to visit, never shared
        cached_statements=512,
        factory=Connection,
    )
    connection.file = file
    try:
        for pragma in PRAGMAS:
            connection.execute(pragma)
        (page,) = connection.execute("PRAGMA page_size").fetchone()
        connection.execute(f"PRAGMA wal_autocheckpoint = {LOG_BYTES // page}")
        if not writes:
            connection.execute("PRAGMA query_only = ON")
    except BaseException:
        connection.close()
        raise
    return connection


def peek(path: Path, sql: str) -> tuple | None:
    """The first row that one statement reads; who calls it holds the writer lock.

    For a look at many files in passing: a visit's connection takes twice as long.
    """
    connection = sqlite3.connect(f"file:{_uri_path(path)}?mode=rw", uri=True, isolation_level=None)
    try:
        return connection.execute(sql).fetchone()
    finally:
        connection.close()


def file_at(path: Path | str) -> tuple[int, int]:
    """Which file stands at a path. Raises FileNotFoundError."""
    stat = os.stat(path)
    return stat.st_dev, stat.st_ino


def _uri_path(path: Path) -> str:
    return str(path).replace("%", "%25").replace("?", "%3f").replace("#", "%23")


class ConnectionSource(Protocol):
    """Whoever keeps a tenant's open connections between visits."""

    lock: WriterLock
    heavy_work_lock: Any  # crm.tenancy.heavy_work.HeavyWorkLock
    config: Config
    bell: WakeupPipe
    hears: OnEvent | None
    steady: SteadyClock

    def take(self, writes: bool) -> Connection: ...

    def give(self, connection: Connection, writes: bool) -> None: ...

    def stands(self, *connections: Connection) -> bool: ...

    def refusal(self, error: BaseException) -> CRMError | None: ...

    def refusal_to_open(self, error: OSError) -> CRMError: ...


class TenantSession:
    """One thread's stay at one tenant, and in whose name: `user_id`, `key_id` with its `scopes`,
    None for a person or a program that acts without a key.

    It reads through a connection of its own; a transaction borrows one that may write. `wait`:
    seconds it waits for its turn to write.
    """

    __slots__ = (
        "clock",
        "connection",
        "keeper",
        "key_id",
        "label",
        "reader",
        "scopes",
        "state_",
        "thread",
        "user_id",
        "wait",
    )

    def __init__(
        self,
        label: str,
        connection: Connection,
        keeper: ConnectionSource,
        clock: Callable[[], float],
    ):
        self.label = label
        self.connection = self.reader = connection
        self.keeper = keeper
        self.clock = clock
        self.thread = threading.get_ident()
        self.state_: _ConnectionState | None = None
        self.user_id: int | None = None
        self.key_id: int | None = None
        self.scopes: frozenset[str] | None = None
        self.wait = LONGEST_WAIT

    @property
    def state(self) -> _ConnectionState:
        """peewee's, made when it is first asked for: most visits only read by prepared texts."""
        if self.state_ is None:
            self.state_ = _ConnectionState()
            self.state_.set_connection(self.connection)
        return self.state_

    @property
    def in_transaction(self) -> bool:
        return self.state_ is not None and bool(self.state_.transactions)


_visit: ContextVar[TenantSession | None] = ContextVar("visit", default=None)


def current_session() -> TenantSession:
    """The visit under way; raises NoTenant where there is none or it is another thread's."""
    found = _visit.get()
    if found is None:
        raise NoTenant("no tenant is being visited here")
    if found.thread != threading.get_ident():
        raise NoTenant("this visit belongs to another thread")
    return found


def session_or_none() -> TenantSession | None:
    """The visit under way, or None."""
    return _visit.get()


def begin_session(new: TenantSession) -> Token[TenantSession | None]:
    outer = _visit.get()
    there = outer and (outer.label, outer.keeper.bell)
    if outer is not None and outer.in_transaction and there != (new.label, new.keeper.bell):
        raise NoTenant("another tenant cannot be visited inside a transaction")
    return _visit.set(new)


def end_session_of_thread(token: Token[TenantSession | None]) -> None:
    _visit.get().thread = 0  # a copied context may outlive it; its connection is another's soon
    _visit.reset(token)


class TenantDatabase(SqliteDatabase):
    """peewee's database, whose connection is always the current visit's."""

    def __init__(self) -> None:
        super().__init__("tenant", thread_safe=False, autoconnect=False)

    @property
    def _state(self) -> _ConnectionState:
        return current_session().state

    @_state.setter
    def _state(self, value: _ConnectionState) -> None:
        """peewee sets one for all; each visit has its own."""

    def is_closed(self) -> bool:
        return _visit.get() is None

    def cursor(self, named_cursor: Any = None) -> sqlite3.Cursor:
        return current_session().connection.cursor()

    def init(self, database: str, **options: Any) -> None:
        self.database, self.deferred, self._pragmas, self._timeout = database, False, (), 10

    def begin(self, *_: Any) -> None:
        here = current_session()
        writer = here.keeper.take(writes=True)
        try:
            here.keeper.lock.acquire(here.wait)
        except BaseException as error:
            here.keeper.give(writer, writes=True)
            if isinstance(error, OSError):
                raise here.keeper.refusal_to_open(error) from error
            raise
        here.connection = here.state.conn = writer
        try:
            # Whoever held the lock may have restored the file: what is written to the old one,
            # or decided by it, is lost.
            if not here.keeper.stands(writer, here.reader):
                raise Busy
            writer.execute("BEGIN IMMEDIATE")
        except BaseException as error:
            self._free(here)
            if is_busy(error):
                raise Busy from error
            raise

    def commit(self) -> None:
        # A failed COMMIT leaves the transaction open: peewee then calls rollback, which frees.
        here = current_session()
        here.connection.execute("COMMIT")
        self._free(here)

    def rollback(self) -> None:
        here = current_session()
        try:
            if here.connection.in_transaction:
                here.connection.execute("ROLLBACK")
        finally:
            self._free(here)

    @staticmethod
    def _free(here: TenantSession) -> None:
        writer, here.connection = here.connection, here.reader
        here.state.conn = here.reader
        here.keeper.lock.release()
        here.keeper.give(writer, writes=True)


database = TenantDatabase()


def transaction() -> AbstractContextManager[Any]:
    """All or nothing; joins the transaction under way. Raises Busy when its turn doesn't come."""
    return nullcontext() if current_session().in_transaction else database.transaction()


def after_commit(wake: Callable[[], None]) -> None:
    """Call `wake` once the transaction under way is committed; never on a rollback.

    `wake` may only wake: an exception of its would look like a failed commit.
    """
    database.after_commit(wake)


def notify_after_commit() -> None:
    """Once the transaction under way is committed, tell the background that there is work."""
    here = current_session()
    after_commit(partial(here.keeper.bell.ring, here.label))


def settings() -> Config:
    """The settings of the installation that is being visited."""
    return current_session().keeper.config


def rows(sql: str, params: Sequence[Any] = ()) -> list[tuple]:
    """All rows of a prepared text: an unfinished cursor would hold back the log's checkpoint."""
    return current_session().connection.execute(sql, params).fetchall()


def row(sql: str, params: Sequence[Any] = ()) -> tuple | None:
    found = current_session().connection.execute(sql, params).fetchall()
    return found[0] if found else None


def one_row(sql: str, params: Sequence[Any] = ()) -> tuple[Any, ...]:
    """Return the first row of a query that always gives one, such as a count."""
    return current_session().connection.execute(sql, params).fetchall()[0]


def insert(sql: str, params: Sequence[Any] = ()) -> int:
    """Execute one INSERT of one row and return its id; raises NoTenant outside `transaction()`."""
    return cast(int, execute(sql, params).lastrowid)


def execute(sql: str, params: Sequence[Any] = ()) -> sqlite3.Cursor:
    """Run one changing statement; only inside `transaction()`."""
    here = current_session()
    if not here.in_transaction:
        raise NoTenant("writing needs a transaction")
    return here.connection.execute(sql, params)


def note(sql: str, params: Sequence[Any] = ()) -> None:
    """Run one changing statement by itself, unless somebody is writing or the disk is full: a
    reader waits for nobody, and what it notes in passing can be noted the next time."""
    here = current_session()
    patience, here.wait = here.wait, 0
    try:
        with transaction():
            execute(sql, params)
    except Busy:
        return
    except FILE_ERRORS as error:
        if cause_of(error) is not Cause.FULL:
            raise
    finally:
        here.wait = patience


def execute_many(sql: str, params: Sequence[Sequence[Any]]) -> None:
    here = current_session()
    if not here.in_transaction:
        raise NoTenant("writing needs a transaction")
    here.connection.executemany(sql, params)


def now() -> str:
    """The time by the tenant's clock: RFC 3339, UTC, whole seconds (D2)."""
    return time_text(int(current_session().clock()))


@lru_cache(maxsize=64)
def time_text(seconds: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


def time_before(seconds: int) -> str:
    """The time `seconds` ago by the tenant's clock."""
    return time_text(int(current_session().clock()) - seconds)
