"""The current tenant's database: reading and writing inside a session of one tenant.

A session belongs to one thread and one tenant, and is found through a context variable; without
one every query is an error, never a default. Writing needs `transaction()`, which holds the
tenant's writer lock among threads and processes: SQLite before 3.51.3 can corrupt a file when one
connection writes while another checkpoints, and a queue of our own is fairer than SQLite's busy
loop.
"""

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from contextvars import ContextVar, Token
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol

from peewee import SqliteDatabase, _ConnectionState

from crm.config import Config
from crm.errors import Busy, CRMError
from crm.tenancy.file_errors import FILE_ERRORS, Cause, cause_of
from crm.tenancy.steady_clock import SteadyClock
from crm.tenancy.wakeup import OnEvent, WakeupPipe
from crm.tenancy.writer_lock import MAX_LOCK_WAIT_SECONDS


class NoTenant(RuntimeError):
    """An error of this program: a query without a session, in another thread than its session's,
    across two tenants, or a write outside a transaction."""


class ConnectionSource(Protocol):
    """Where a session takes its connections from: in production a `files.Tenant`."""

    engine_name: str  # "sqlite" or "postgres"
    has_one_sender: bool  # else those of several nodes send the tenant's deliveries
    label: str
    heavy_work_lock: Any  # crm.tenancy.heavy_work.HeavyWorkLock
    uploads: Any  # crm.tenancy.uploads.UploadStore
    config: Config
    wakeup_pipe: WakeupPipe
    on_event: OnEvent | None
    steady_clock: SteadyClock

    def take(self, writes: bool) -> Any:
        """Take a connection to read, or also to write."""

    def give(self, connection: Any, writes: bool) -> None:
        """Give back a connection."""

    def begin(self, session: "TenantSession") -> None:
        """Begin a transaction that writes. Raises Busy if its turn does not come in time."""

    def commit(self, session: "TenantSession") -> None:
        """Commit the transaction; if that fails, rollback() ends it."""

    def rollback(self, session: "TenantSession") -> None:
        """Undo the transaction."""

    def note_due(self, at: float | None) -> None:
        """Note in the current transaction when a sender is to look at the tenant's deliveries.

        `at` is in epoch seconds of the steady clock; None: none is pending.
        """

    def is_due_noted(self, at: float | None) -> bool:
        """Whether a sender is going to look at the tenant's deliveries then, and not before."""

    def wake_sender(self) -> None:
        """Notify a sender of work for the tenant. Never raises."""

    def write_archive(self, to: Path) -> None:
        """Write the tenant to a path where nothing is, as one SQLite file: checked and synced."""

    def refusal(self, error: BaseException) -> CRMError | None:
        """Return the error to raise for an error of the engine; None if it is another's."""


class TenantSession:
    """One thread's work with one tenant's database.

    `user_id` is who acts, `key_id` the API key used, with its `scopes`; None for a person or a
    program that acts without a key. It reads through a connection of its own (`reader`); during a
    transaction `connection` is one that may write. `lock_wait_seconds`: how long it waits for its
    turn to write.
    """

    __slots__ = (
        "_state",
        "clock",
        "connection",
        "key_id",
        "label",
        "lock_wait_seconds",
        "reader",
        "scopes",
        "source",
        "thread_id",
        "user_id",
    )

    def __init__(
        self,
        label: str,
        connection: Any,
        source: ConnectionSource,
        clock: Callable[[], float],
    ):
        self.label = label
        self.connection = self.reader = connection
        self.source = source
        self.clock = clock
        self.thread_id = threading.get_ident()
        self._state: _ConnectionState | None = None
        self.user_id: int | None = None
        self.key_id: int | None = None
        self.scopes: frozenset[str] | None = None
        self.lock_wait_seconds = MAX_LOCK_WAIT_SECONDS

    @property
    def state(self) -> _ConnectionState:
        """peewee's state, made on first use: most sessions only execute prepared statements."""
        if self._state is None:
            self._state = _ConnectionState()
            self._state.set_connection(self.connection)
        return self._state

    @property
    def in_transaction(self) -> bool:
        return self._state is not None and bool(self._state.transactions)


_session: ContextVar[TenantSession | None] = ContextVar("tenant_session", default=None)


def current_session() -> TenantSession:
    """Return the session of this thread; raises NoTenant if there is none."""
    session = _session.get()
    if session is None:
        raise NoTenant("there is no tenant session here")
    if session.thread_id != threading.get_ident():
        raise NoTenant("this tenant session belongs to another thread")
    return session


def session_or_none() -> TenantSession | None:
    """Return the session of this context, or None."""
    return _session.get()


def begin_session(session: TenantSession) -> Token[TenantSession | None]:
    """Make a session the current one; returns what `end_session` takes.

    Raises NoTenant inside a transaction of another tenant.
    """
    outer = _session.get()
    if (
        outer is not None
        and outer.in_transaction
        # Two installations may have tenants of one label, but each has its own pipe.
        and (outer.label, outer.source.wakeup_pipe) != (session.label, session.source.wakeup_pipe)
    ):
        raise NoTenant("another tenant cannot be visited inside a transaction")
    return _session.set(session)


def end_session(token: Token[TenantSession | None]) -> None:
    """End the current session; the one around it, if any, is current again."""
    session = _session.get()
    if session is not None:
        session.thread_id = 0  # a copied context may outlive it; its connection is reused soon
    _session.reset(token)


class TenantDatabase(SqliteDatabase):
    """peewee's database, whose connection is always the current session's."""

    def __init__(self) -> None:
        super().__init__("tenant", thread_safe=False, autoconnect=False)

    @property
    def _state(self) -> _ConnectionState:
        return current_session().state

    @_state.setter
    def _state(self, value: _ConnectionState) -> None:
        """Ignore the one state that peewee sets; each session has its own."""

    def is_closed(self) -> bool:
        return _session.get() is None

    def cursor(self, named_cursor: Any = None) -> Any:
        return current_session().connection.cursor()

    def begin(self, *_: Any) -> None:
        session = current_session()
        session.source.begin(session)

    def commit(self) -> None:
        # A failed COMMIT leaves the transaction open: peewee then calls rollback.
        session = current_session()
        session.source.commit(session)

    def rollback(self) -> None:
        session = current_session()
        session.source.rollback(session)


database = TenantDatabase()


def transaction() -> AbstractContextManager[Any]:
    """Write all or nothing in a `with` block; inside a transaction, join that one.

    Raises Busy on entering if its turn to write does not come within `lock_wait_seconds`.
    """
    return nullcontext() if current_session().in_transaction else database.transaction()


def after_commit(callback: Callable[[], None]) -> None:
    """Call a function once the current transaction is committed; never on a rollback.

    It must not raise: its exception would look like a failed commit.
    """
    database.after_commit(callback)


def notify_after_commit() -> None:
    """Once the current transaction is committed, tell the sender that the tenant has work."""
    session = current_session()
    session.source.note_due(0)
    after_commit(session.source.wake_sender)


def settings() -> Config:
    """Return the settings of the current tenant's installation."""
    return current_session().source.config


def rows(sql: str, params: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
    """Return all rows of a query: an unread cursor would hold back the checkpoint of the log."""
    return current_session().connection.execute(sql, params).fetchall()


def row(sql: str, params: Sequence[Any] = ()) -> tuple[Any, ...] | None:
    """Return the first row of a query that gives few, or None."""
    result = current_session().connection.execute(sql, params).fetchall()
    return result[0] if result else None


def one_row(sql: str, params: Sequence[Any] = ()) -> tuple[Any, ...]:
    """Return the first row of a query that always gives one, such as a count."""
    return current_session().connection.execute(sql, params).fetchall()[0]


def insert(sql: str, params: Sequence[Any] = ()) -> int:
    """Execute one INSERT of one row and return its id; raises NoTenant outside `transaction()`."""
    session = current_session()
    if not session.in_transaction:
        raise NoTenant("writing needs a transaction")
    return session.connection.insert(sql, params)


def execute(sql: str, params: Sequence[Any] = ()) -> Any:
    """Execute one statement that writes; raises NoTenant outside `transaction()`."""
    session = current_session()
    if not session.in_transaction:
        raise NoTenant("writing needs a transaction")
    return session.connection.execute(sql, params)


def try_execute(sql: str, params: Sequence[Any] = ()) -> None:
    """Execute one statement in a transaction of its own, or not at all.

    It is left out while somebody else writes or when the disk is full. For what a reader notes in
    passing, such as when a key was last used: it waits for nobody and can note it the next time.
    """
    session = current_session()
    wait_seconds, session.lock_wait_seconds = session.lock_wait_seconds, 0
    try:
        with transaction():
            execute(sql, params)
    except Busy:
        return
    except FILE_ERRORS as error:
        if cause_of(error) is not Cause.FULL:
            raise
    finally:
        session.lock_wait_seconds = wait_seconds


def execute_many(sql: str, params: Sequence[Sequence[Any]]) -> None:
    """Execute one statement that writes, once for each sequence of parameters."""
    session = current_session()
    if not session.in_transaction:
        raise NoTenant("writing needs a transaction")
    session.connection.executemany(sql, params)


def now() -> str:
    """Return the time by the tenant's clock: RFC 3339, UTC, whole seconds (D2)."""
    return time_text(int(current_session().clock()))


@lru_cache(maxsize=64)
def time_text(seconds: int) -> str:
    """Write epoch seconds as all times are stored: 2026-11-21T06:59:00Z (D2)."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


def time_before(seconds: int) -> str:
    """Return the time `seconds` ago by the tenant's clock."""
    return time_text(int(current_session().clock()) - seconds)
