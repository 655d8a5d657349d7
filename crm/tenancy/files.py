"""A tenant's file: opening connections, closing them, and what happens when it cannot be used.

On a full disk SQLite cannot create the index of the log (`-shm`) of a file that nobody has open,
and without it reads nothing. Then a connection keeps an index of its own in memory, which SQLite
does when the index's file may only be read (`readonly_shm`). Its session holds the file's writer
lock from beginning to end: nobody writes meanwhile, and no other connection of this process is
opened, which would share the index.

A file that cannot be used is not opened again until it changes: one `stat` per session instead.
"""

import math
import sqlite3
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol
from weakref import WeakValueDictionary

from crm.config import Config
from crm.errors import Busy, CRMError, NotFound, StorageFull, TenantUnavailable
from crm.tenancy import copies, disk, file_errors, litestream, migrations, upgrades
from crm.tenancy.connection_pool import ConnectionPool
from crm.tenancy.database import TenantSession, session_or_none
from crm.tenancy.engines.sqlite import Connection, connect, file_at
from crm.tenancy.file_errors import FILE_ERRORS, Cause
from crm.tenancy.heavy_work import HeavyWorkLock
from crm.tenancy.steady_clock import SteadyClock
from crm.tenancy.unavailable import Unavailable, Unusable, identity
from crm.tenancy.uploads import FileUploads
from crm.tenancy.wakeup import OnEvent, WakeupPipe
from crm.tenancy.writer_lock import MAX_LOCK_WAIT_SECONDS, WriterLock

# After which an unusable file is tried again where the cause may not be the file: its disk.
RETRY_SECONDS = 60.0


class UnknownTenant(NotFound):
    detail = "there is nothing here"


class Installation(Protocol):
    """What the tenants of an installation share: `tenants.Tenants`."""

    config: Config
    wakeup_pipe: WakeupPipe
    pool: ConnectionPool
    unavailable: Unavailable
    on_event: OnEvent | None
    steady_clock: SteadyClock
    clock: Callable[[], float]

    def find_moved(self, label: str) -> Any:
        """Return the tenant anew that is not where it was; None if there is no such tenant."""


class OpenFile:
    """What all connections to one file share in this process: SQLite's index of its log.

    `lock` is held while a connection is opened; `private` is the one with an index of its own.
    """

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.private: Connection | None = None


_open_files_lock = threading.Lock()
_open_files: "WeakValueDictionary[str, OpenFile]" = WeakValueDictionary()


class Tenant:
    """A tenant's file and its locks: the source of a session's connections.

    A transaction holds the writer lock: SQLite before 3.51.3 can corrupt a file when one connection
    writes while another checkpoints, and a queue of our own is fairer than SQLite's busy loop.
    """

    engine_name = "sqlite"
    has_one_sender = True  # the one that holds the lock of the wake-up pipe

    def __init__(self, label: str, path: Path, installation: Installation):
        self.label = label
        self.path = path
        self.config, self.wakeup_pipe = installation.config, installation.wakeup_pipe
        self.lock = WriterLock(path.with_suffix(".lock"))
        self.heavy_work_lock = HeavyWorkLock(path.with_suffix(".lock"))
        self.next_sweep_at = 0.0  # seconds of uptime
        self.uploads = FileUploads(self.config.data, label)
        self.idle: dict[bool, list[Connection]] = {False: [], True: []}  # by whether they may write
        self.on_event, self.steady_clock = installation.on_event, installation.steady_clock
        self._pool, self._clock = installation.pool, installation.clock
        self._name = str(path)
        with _open_files_lock:
            self._open_file = _open_files.setdefault(self._name, OpenFile())
        self._unavailable = installation.unavailable
        self._unusable: Unusable | None = None
        self._find_moved = installation.find_moved

    def take(self, writes: bool) -> Connection:
        """Take an open connection to the file that is there now, to read or also to write.

        Raises UnknownTenant, TenantUnavailable, StorageFull, Busy.
        """
        self.require_usable()
        try:
            file = file_at(self._name)
            while connection := self._pool.take(self, writes):
                if connection.file == file:
                    return connection
                connection.close()  # of a file that is gone: restored, or made anew
            return self._open(writes)
        except FileNotFoundError:
            if any(self.idle.values()):
                self._pool.forget(self)  # of a file that was deleted: this frees its disk space
            raise UnknownTenant from None
        except (OSError, UnicodeError) as error:  # SQLite's message may have bytes of the file
            raise self.refusal_to_open(error) from error
        except FILE_ERRORS as error:
            raise self.refusal(error) or error from error

    def begin(self, session: TenantSession) -> None:
        """Begin a transaction that writes, through another connection than the session's reader.

        Raises Busy, and what take() does.
        """
        try:
            writer = self.take(writes=True)
        except UnknownTenant:
            if self._find_moved(self.label) is None:
                raise
            raise Busy from None  # the next session finds it where it is now
        try:
            self.lock.acquire(session.lock_wait_seconds)
        except BaseException as error:
            self.give(writer, writes=True)
            if isinstance(error, OSError):
                raise self.refusal_to_open(error) from error
            raise
        session.connection = session.state.conn = writer
        try:
            # The holder of the lock before may have restored the file: what is written to the old
            # one, or decided by it, is lost.
            if not self.is_current(writer, session.reader):
                raise Busy
            writer.execute("BEGIN IMMEDIATE")
        except BaseException as error:
            self._return_writer(session)
            if file_errors.is_busy(error):
                raise Busy from error
            raise

    def commit(self, session: TenantSession) -> None:
        """Commit the transaction; if that fails, rollback() ends it."""
        session.connection.execute("COMMIT")
        self._return_writer(session)

    def rollback(self, session: TenantSession) -> None:
        """Undo the transaction."""
        try:
            if session.connection.in_transaction:
                session.connection.rollback()
        finally:
            self._return_writer(session)

    def _return_writer(self, session: TenantSession) -> None:
        """Release the lock and give back the connection that a transaction wrote through."""
        writer, session.connection = session.connection, session.reader
        session.state.conn = session.reader
        self.lock.release()
        self.give(writer, writes=True)

    def note_due(self, at: float | None) -> None:
        """Nothing to note: the sender looks into the file when it is woken or starts."""

    def write_archive(self, to: Path) -> None:
        """Copy the file to a path where nothing is: checked, synced, readable by its owner."""
        session = session_or_none()
        if session is not None and session.source is self:
            copies.copy_pages(session.reader, to)
        else:
            connection = self.take(writes=False)
            try:
                copies.copy_pages(connection, to)
            finally:
                self.give(connection, writes=False)
        copies.check_copy(to)
        disk.sync(to)

    def is_due_noted(self, at: float | None) -> bool:
        """Whether nothing is to be noted, which is so: see note_due()."""
        return True

    def wake_sender(self) -> None:
        """Notify the sender of work for the tenant, if there is one. Never raises."""
        self.wakeup_pipe.notify(self.label)

    def refusal(self, error: BaseException) -> CRMError | None:
        """Return the error to raise for an error in using this file; None if it is another's.

        If the file cannot be used it is not opened again until it changes.
        """
        cause = file_errors.cause_of(error, self.path)
        if cause is None and file_errors.is_of_schema(error) and not self._has_schema():
            cause = Cause.UNUSABLE
        if cause is Cause.NO_DESCRIPTORS:
            self._pool.free_descriptors()
        if cause in (Cause.NO_RIGHT_TO_WRITE, Cause.READ_ONLY):
            # It can still be read, but a connection opened now may never write.
            self._unusable = Unusable("", identity(self.path), 0.0)
            if cause is Cause.NO_RIGHT_TO_WRITE:
                self._unavailable.add(self.label, self.path, error)
        return (
            self._mark_unusable(error)
            if cause is Cause.UNUSABLE
            else file_errors.refusal(error, self.path)
        )

    def _has_schema(self) -> bool:
        session = session_or_none()
        if session is None or session.source is not self:
            return True
        try:
            return migrations.has_schema(session.reader)
        except (UnicodeError, *FILE_ERRORS):
            return False

    def refusal_to_open(self, error: OSError | UnicodeError) -> CRMError:
        """Return the error to raise for an error in opening the file or its lock."""
        return file_errors.refusal(error, self.path) or self._mark_unusable(error)

    def _mark_unusable(self, error: BaseException) -> CRMError:
        if refused := self._refusal_if_gone():
            return refused
        is_temporary = file_errors.is_temporary(error)
        retry_at = time.monotonic() + RETRY_SECONDS if is_temporary else math.inf
        file_identity = self._unavailable.add(self.label, self.path, error)
        self._unusable = Unusable(file_errors.describe(error), file_identity, retry_at)
        self._pool.forget(self, wait_seconds=0)
        return TenantUnavailable()

    def _refusal_if_gone(self) -> CRMError | None:
        """Return the error to raise if the file was deleted or moved; None if it is there."""
        try:
            file_at(self._name)
            return None
        except FileNotFoundError:
            try:
                # If it was moved, the next session finds it.
                return UnknownTenant() if self._find_moved(self.label) is None else Busy()
            except CRMError as refused:
                return refused
        except OSError:
            return None

    def require_usable(self) -> None:
        """Raise TenantUnavailable while the file is as it was when it could not be used."""
        unusable = self._unusable
        if unusable is None:
            return
        changed = identity(self.path) != unusable.identity
        if not changed and time.monotonic() < unusable.retry_at:
            self._unavailable.report(self.label, unusable.identity, unusable.cause)
            raise TenantUnavailable
        self._unusable = None
        self._pool.forget(self, wait_seconds=0)
        if changed:
            self._unavailable.remove(self.label)

    def is_current(self, *connections: Connection) -> bool:
        """Whether the file at the tenant's path is the one that these connections have open."""
        try:
            file = file_at(self._name)
        except FileNotFoundError:
            return False
        return all(connection.file == file for connection in connections)

    def give(self, connection: Connection, writes: bool) -> None:
        """Give back a connection, which stays open for the next session."""
        if connection is self._open_file.private:
            self.close(connection)
            return
        self._pool.give(self, connection, writes)
        if self._unusable is not None:
            self._pool.forget(self, wait_seconds=0)

    def close(self, connection: Connection, wait_seconds: float = MAX_LOCK_WAIT_SECONDS) -> None:
        """Close a connection. Raises Busy if the file is being written for longer than that."""
        if connection is self._open_file.private:
            with self._open_file.lock:
                connection.close()
                self._open_file.private = None
            self.lock.release()
            return
        # The last connection to close writes the log back, so it must not meet a writer.
        if not self.is_current(connection):
            connection.close()  # SQLite leaves the log of another file alone
            return
        try:
            with self.lock(wait_seconds):
                connection.close()
        except OSError as error:
            if file_errors.cause_of(error) is not Cause.READ_ONLY:
                raise
            connection.close()  # there the lock cannot be opened, and nobody writes

    def _open(self, writes: bool) -> Connection:
        """Open a connection to the file, which is migrated first if it is not up to date."""
        connection = self.connect(writes)
        try:
            if writes:
                litestream.leave_checkpoints(connection, self.config.data)
            (mode,) = connection.execute("PRAGMA journal_mode").fetchone()
            version = migrations.version(connection)
            if not version:  # a new tenant's file has its steps before it has its name
                raise sqlite3.DatabaseError("the file is empty")
            if mode != "wal" or version != len(migrations.STEPS):
                if connection is self._open_file.private:
                    raise StorageFull
                self._migrate()
        except BaseException:
            self._close_opened(connection)
            raise
        return connection

    def connect(self, writes: bool) -> Connection:
        """Open a connection to the file as it is, of whatever version; close it by close().

        Raises StorageFull when it would write and the disk is full, Busy, and SQLite's errors.
        """
        try:
            if connection := self._connect(writes):
                return connection
        except (OSError, *FILE_ERRORS) as error:
            cause = file_errors.cause_of(error, self.path)
            if cause is Cause.NO_DESCRIPTORS:
                self._pool.free_descriptors()
                if connection := self._connect(writes):
                    return connection
            elif cause is not Cause.FULL:
                raise
        if writes:
            raise StorageFull
        return self._connect_privately()

    def _connect(self, writes: bool) -> Connection | None:
        """Open a connection; None if one is open that has its own index of the log."""
        with self._open_file.lock:
            return None if self._open_file.private else self._connect_and_read(writes)

    def _connect_and_read(self, writes: bool, own_index: bool = False) -> Connection:
        with disk.opening(self.path):  # reading from it opens its log
            connection = connect(self.path, writes or own_index, own_index)
            try:
                migrations.version(connection)
            except BaseException:
                connection.close()
                raise
        return connection

    def _connect_privately(self) -> Connection:
        """Open a connection with its own index of the log, and hold the writer lock until it is
        closed."""
        self.lock.acquire()
        try:
            with self._open_file.lock:
                try:  # while waiting for the lock, another may have made room
                    connection = self._connect_and_read(writes=False)
                except FILE_ERRORS as error:
                    if file_errors.cause_of(error, self.path) is not Cause.FULL:
                        raise
                    disk.make_index_name(self.path)
                    self._open_file.private = self._connect_and_read(writes=False, own_index=True)
                    return self._open_file.private
        except BaseException:
            self.lock.release()
            raise
        self.lock.release()
        return connection

    def _close_opened(self, connection: Connection) -> None:
        if connection is self._open_file.private:
            self.close(connection)
        else:
            connection.close()

    def _migrate(self) -> None:
        with self.lock():
            connection = connect(self.path)
            try:
                litestream.leave_checkpoints(connection, self.config.data)
                if migrations.version(connection) < len(migrations.STEPS):
                    upgrades.copy_before_upgrade(
                        connection, self.label, self.config.data, self._clock()
                    )
                connection.execute("PRAGMA journal_mode = WAL")  # a copy by VACUUM INTO has none
                migrations.migrate(connection, self.label)
            finally:
                connection.close()
