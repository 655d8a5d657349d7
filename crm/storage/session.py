"""The current tenant's database: reading and writing inside a session of one tenant.

A session belongs to one thread and one tenant, and is found through a context variable; without
one every query is an error, never a default. Writing needs `transaction()`, which holds the
tenant's writer lock among threads and processes.
"""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from contextvars import ContextVar, Token
from functools import lru_cache
from pathlib import Path
from typing import Any, Self
from zoneinfo import ZoneInfo

from crm.config import Config
from crm.errors import Busy, NoTenant, StorageFull
from crm.storage import own_rows
from crm.storage.commit_groups import MAX_LOCK_WAIT_SECONDS, Group
from crm.storage.connection_source import ConnectionSource
from crm.storage.file_errors import FILE_ERRORS, cause_of
from crm.storage.wakeup import WakeupPipe


class Actor:
    """Who acts in a session, which rows that one reads, and what changes belong to."""

    user_id: int | None = None
    key_id: int | None = None  # the API key used; None for a person or a program without one
    scopes: frozenset[str] | None = None  # of the key
    own_user_id: int | None = None  # whose own rows alone are read; None for those of all
    sees_unassigned = False  # also those of nobody, of tables that say so
    is_program = False  # no person acts, although a user is named
    tool: str | None = None  # of an assistant (MCP), which changes something
    batch_id: int | None = None  # the batch that notes what is changed
    is_undo = False  # they are the undo of a batch
    is_import = False  # they come from a file


class TenantSession(Actor):
    """One thread's work with one tenant's database, by an actor.

    It reads through a connection of its own (`reader`); during a transaction `connection` is one
    that may write. `lock_wait_seconds`: how long it waits for its turn to write. `joins_groups`:
    whether its transactions may be committed together with those of others (commit_groups.py);
    `group` is the one that it is in.
    """

    in_transaction = False
    joins_groups = False
    # Whether the client of a request sees that a response broke off, so that it may begin early.
    streams_responses = False
    group: Group | None = None
    begin_joined: Callable[[], None] | None = None  # see joined_transaction()
    fields_digest: str | None = ""  # of the tenant's own fields; empty if it is not known yet
    _token: "Token[TenantSession | None] | None" = None

    def __init__(
        self,
        label: str,
        connection: Any,
        source: ConnectionSource,
        clock: Callable[[], float],
    ):
        self.label, self.source, self.clock = label, source, clock
        self.connection = self.reader = connection
        self.thread_id = threading.get_ident()
        self.callbacks: list[Callable[[], None]] = []  # see after_commit()
        self.lock_wait_seconds = MAX_LOCK_WAIT_SECONDS
        self.memo: dict[Any, Any] = {}  # what the transaction has found out for those to follow

    def __enter__(self) -> Self:
        """Make it the current session. Raises NoTenant inside a transaction of another tenant."""
        outer = _session.get()
        if (
            outer is not None
            and outer.in_transaction
            and not outer.is_of(self.label, self.source.wakeup_pipe)
        ):
            raise NoTenant("a session of another tenant cannot begin inside a transaction")
        self._token = _session.set(self)
        return self

    def is_of(self, label: str, wakeup_pipe: WakeupPipe) -> bool:
        """Whether it is of this tenant of this installation.

        Two installations may have tenants of one label, but each has its own pipe.
        """
        return self.label == label and self.source.wakeup_pipe is wakeup_pipe

    def act_as(self, actor: Actor) -> None:
        """Act as another session does."""
        for name in vars(Actor).keys() & vars(actor).keys():
            setattr(self, name, getattr(actor, name))

    def limited(self, sql: str, params: Sequence[Any], own: bool = False) -> tuple[str, Any]:
        """A query and its parameters, limited to the rows that the actor may read.

        A transaction reads all rows unless `own`: the rules of a change, such as those of unique
        values, depend on the rows of others.
        """
        if self.own_user_id is None or (self.in_transaction and not own):
            return sql, params
        schema = "main." if self.source.engine_name == "sqlite" else ""
        return own_rows.limit(sql, params, self.own_user_id, self.sees_unassigned, schema)

    def __exit__(self, *_: object) -> None:
        """End it; the session around it, if any, is current again."""
        self.thread_id = 0  # a copied context may outlive it; its connection is reused soon
        if self._token:
            _session.reset(self._token)


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


def transaction() -> AbstractContextManager[Any]:
    """Write all or nothing in a `with` block; inside a transaction, join that one.

    Raises Busy on entering if its turn to write does not come within `lock_wait_seconds`.
    """
    session = current_session()
    if not session.in_transaction and session.begin_joined:
        session.begin_joined()
    return nullcontext() if session.in_transaction else _transaction(session)


@contextmanager
def joined_transaction(on_begin: Callable[[], None]) -> Iterator[None]:
    """Make the transactions in a `with` block one, from the beginning of the first to its end.

    What comes before the first holds up no other writer. on_begin: called as it begins; what it
    raises comes from there.
    """
    session = current_session()
    with ExitStack() as stack:

        def begin() -> None:
            stack.enter_context(_transaction(session))
            on_begin()

        session.begin_joined = begin
        try:
            yield
        finally:
            session.begin_joined = None


@contextmanager
def _transaction(session: TenantSession) -> Iterator[None]:
    session.source.begin(session)
    session.in_transaction, session.memo = True, {}
    try:
        try:
            yield
        finally:
            session.in_transaction = False
            callbacks, session.callbacks = session.callbacks, []
        session.source.commit(session)
    except BaseException:
        session.source.rollback(session)  # a failed COMMIT leaves the transaction open
        session.fields_digest = ""
        raise
    if session.group is not None:
        session.group.callbacks += callbacks
        return
    for callback in callbacks:
        callback()


@contextmanager
def savepoint() -> Iterator[None]:
    """Undo in a `with` block what was written in it if it raises; inside `transaction()`."""
    execute("SAVEPOINT block")
    session = current_session()
    try:
        yield
    except BaseException:
        session.fields_digest, session.memo = "", {}
        if session.connection.in_transaction:  # a full disk has ended it, with all blocks
            execute("ROLLBACK TO SAVEPOINT block")
            execute("RELEASE SAVEPOINT block")
        raise
    execute("RELEASE SAVEPOINT block")


def after_commit(callback: Callable[[], None]) -> None:
    """Call a function once the current transaction is committed; never on a rollback.

    Without a transaction it is called now. It must not raise: that would look like a failed commit.
    """
    session = current_session()
    if session.in_transaction:
        session.callbacks.append(callback)
    else:
        callback()


def notify_after_commit() -> None:
    """Once the current transaction is committed, notify the sender of the tenant's work."""
    session = current_session()
    session.source.note_due(0)
    after_commit(session.source.wake_sender)


def settings() -> Config:
    """Return the settings of the current tenant's installation."""
    return current_session().source.config


def rows(sql: str, params: Sequence[Any] = (), own: bool = False) -> list[tuple[Any, ...]]:
    """Return all rows of a query; `own` as in TenantSession.limited().

    All, because an unread cursor would hold back the checkpoint of the log.
    """
    session = current_session()
    return session.connection.execute(*session.limited(sql, params, own)).fetchall()


def rows_of_all(sql: str, params: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
    """As rows(), of all users' rows, whoever acts: for what records that the actor sees name."""
    return current_session().connection.execute(sql, params).fetchall()


def row(sql: str, params: Sequence[Any] = (), own: bool = False) -> tuple[Any, ...] | None:
    """Return the first row of a query that gives few, or None; `own` as in rows()."""
    result = rows(sql, params, own)
    return result[0] if result else None


def one_row(sql: str, params: Sequence[Any] = ()) -> tuple[Any, ...]:
    """Return the first row of a query that always gives one, such as a count."""
    return rows(sql, params)[0]


def value_of_all(sql: str, params: Sequence[Any]) -> Any:
    """Return the one value of a query of all users' rows, whoever acts; remembered as below.

    It is to choose how rows are read and is never shown.
    """
    return remembered_rows(sql, params, of_all=True)[0][0]


def remembered_row(sql: str, params: Sequence[Any] = ()) -> tuple[Any, ...] | None:
    """As row(), but remembered as by remembered_rows()."""
    result = remembered_rows(sql, params)
    return result[0] if result else None


def remembered_rows(
    sql: str, params: Sequence[Any] = (), of_all: bool = False
) -> list[tuple[Any, ...]]:
    """As rows(), but SQLite is asked again only after a commit, of whatever process.

    For few rows that many requests ask for alike, with parameters that can be keys of a dictionary.
    Nobody changes the list. of_all: as by value_of_all(), of all users' rows.
    """
    session = current_session()
    if not of_all:
        sql, params = session.limited(sql, params)
    if session.connection is not session.reader:  # it may have changed what the query reads
        return session.connection.execute(sql, params).fetchall()
    return session.reader.remember(sql, params)


def tenant_zone() -> ZoneInfo:
    """Return the time zone of the session's tenant."""
    settings = remembered_row("SELECT time_zone FROM tenant")
    assert settings is not None
    return ZoneInfo(settings[0])


def insert(sql: str, params: Sequence[Any] = ()) -> int:
    """Execute one INSERT of one row and return its id; raises NoTenant outside `transaction()`."""
    return _writing_connection().insert(sql, params)


def execute(sql: str, params: Sequence[Any] = ()) -> Any:
    """Execute one statement that writes; raises NoTenant outside `transaction()`."""
    return _writing_connection().execute(sql, params)


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
        if cause_of(error) is not StorageFull:
            raise
    finally:
        session.lock_wait_seconds = wait_seconds


def execute_many(sql: str, params: Sequence[Sequence[Any]]) -> None:
    """Execute one statement that writes, once for each sequence of parameters."""
    _writing_connection().executemany(sql, params)


def _writing_connection() -> Any:
    session = current_session()
    if not session.in_transaction:
        raise NoTenant("writing needs a transaction")
    return session.connection


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


def write_archive(to: Path) -> None:
    """Write the current tenant to a path where nothing is: checked, synced, readable by its owner.

    Raises BadCopy, or errors of the engine and the disk.
    """
    current_session().source.write_archive(to)
