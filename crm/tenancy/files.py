"""A tenant's file: its idle connections, its writer lock, and its shape when it is opened.

On a full disk SQLite cannot make the index of the log (`-shm`) of a file that nobody has open, and
without it reads nothing. Then a connection keeps an index of its own in memory, which SQLite does
when the index's file may only be read (`readonly_shm`). Its visit holds the file's writer lock from
beginning to end: nobody writes meanwhile, and no other connection of this process is opened, which
would share the index.

A file that cannot be used is set aside until it changes: one `stat` per visit, no attempt to open.
"""

import contextlib
import math
import os
import sqlite3
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from os import register_at_fork
from pathlib import Path
from typing import Any, NamedTuple, Protocol
from weakref import WeakSet, WeakValueDictionary

from crm.config import Config
from crm.errors import Busy, CRMError, NotFound, StorageFull, TenantUnavailable
from crm.open_files import divide_open_files
from crm.tenancy import disk, file_errors, litestream, migrations, upgrades
from crm.tenancy.database import Connection, connect, file_at, session_or_none
from crm.tenancy.file_errors import FILE_ERRORS, Cause
from crm.tenancy.heavy_work import HeavyWorkLock
from crm.tenancy.steady_clock import SteadyClock
from crm.tenancy.unavailable import Unavailable, identity
from crm.tenancy.wakeup import OnEvent, WakeupPipe
from crm.tenancy.writer_lock import WriterLock

FORK_WAIT = 1.0  # seconds for a connection whose file is being written
RETRY_SECONDS = 60.0  # for what may be mended without a change of the file: its folder, its disk


class UnknownTenant(NotFound):
    detail = "there is nothing here"


class Home(Protocol):
    """What the tenants of an installation share."""

    config: Config
    bell: WakeupPipe
    pool: "Pool"
    unavailable: Unavailable
    hears: OnEvent | None
    steady: SteadyClock
    clock: Callable[[], float]


class SetAside(NamedTuple):
    """Why a file is not opened, and as long as it is which."""

    cause: str
    identity: str
    retry_at: float  # monotonic seconds


class Opening:
    """What all that open one file in this process share: SQLite shares the log's index among them.

    `lock` is held while a connection is opened; `private` is the one with an index of its own.
    """

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.private: Connection | None = None


_openings_lock = threading.Lock()
_openings: "WeakValueDictionary[str, Opening]" = WeakValueDictionary()


class Tenant:
    """A tenant's file and its writer lock. Small, and kept for as long as the process."""

    def __init__(self, label: str, path: Path, home: "Home"):
        self.label = label
        self.path = path
        self.config, self.bell = home.config, home.bell
        self.lock = WriterLock(path.with_suffix(".lock"))
        self.heavy_work_lock = HeavyWorkLock(path.with_suffix(".lock"))
        self.tidy_at = 0.0
        self.idle: dict[bool, list[Connection]] = {False: [], True: []}
        self.hears, self.steady = home.hears, home.steady
        self._pool, self._clock = home.pool, home.clock
        self._name = str(path)
        with _openings_lock:
            self._opening = _openings.setdefault(self._name, Opening())
        self._unavailable = home.unavailable
        self._set_aside: SetAside | None = None

    def take(self, writes: bool) -> Connection:
        """An open connection to the file that stands there now.

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
                self._pool.forget(self)  # of a file that was deleted: its room is free then
            raise UnknownTenant from None
        except (OSError, UnicodeError) as error:  # SQLite's message may have bytes of the file
            raise self.refusal_to_open(error) from error
        except FILE_ERRORS as error:
            raise self.refusal(error) or error from error

    def refusal(self, error: BaseException) -> CRMError | None:
        """The error that tells of one in the use of this file, which is set aside if it cannot be
        used; None: the error is not the file's."""
        cause = file_errors.cause_of(error, self.path)
        if cause is None and file_errors.is_of_schema(error) and not self._has_schema():
            cause = Cause.UNUSABLE
        if cause is Cause.NO_DESCRIPTORS:
            self._pool.free_descriptors()
        if cause in (Cause.NO_RIGHT_TO_WRITE, Cause.READ_ONLY):
            # It can still be read, but a connection opened now may never write.
            self._set_aside = SetAside("", identity(self.path), 0.0)
            if cause is Cause.NO_RIGHT_TO_WRITE:
                self._unavailable.add(self.label, self.path, error)
        return (
            self._put_aside(error)
            if cause is Cause.UNUSABLE
            else file_errors.refusal(error, self.path)
        )

    def _has_schema(self) -> bool:
        here = session_or_none()
        if here is None or here.keeper is not self:
            return True
        try:
            return migrations.has_schema(here.reader)
        except (UnicodeError, *FILE_ERRORS):
            return False

    def refusal_to_open(self, error: OSError | UnicodeError) -> CRMError:
        """The same for an error in opening the file, or its lock."""
        return file_errors.refusal(error, self.path) or self._put_aside(error)

    def _put_aside(self, error: BaseException) -> TenantUnavailable:
        until = time.monotonic() + RETRY_SECONDS if file_errors.may_pass(error) else math.inf
        found = self._unavailable.add(self.label, self.path, error)
        self._set_aside = SetAside(file_errors.describe(error), found, until)
        self._pool.forget(self, wait=0)
        return TenantUnavailable()

    def require_usable(self) -> None:
        """Raise TenantUnavailable while the file is as it was when it could not be used."""
        found = self._set_aside
        if found is None:
            return
        changed = identity(self.path) != found.identity
        if not changed and time.monotonic() < found.retry_at:
            self._unavailable.touch(self.label, found.identity, found.cause)
            raise TenantUnavailable
        self._set_aside = None
        self._pool.forget(self, wait=0)
        if changed:
            self._unavailable.remove(self.label)

    def stands(self, *connections: Connection) -> bool:
        """Is it their file that stands there now?"""
        try:
            file = file_at(self._name)
        except FileNotFoundError:
            return False
        return all(connection.file == file for connection in connections)

    def give(self, connection: Connection, writes: bool) -> None:
        """Keep the connection for the next visit."""
        if connection is self._opening.private:
            self.close(connection)
            return
        self._pool.keep(self, connection, writes)
        if self._set_aside is not None:
            self._pool.forget(self, wait=0)

    def close(self, connection: Connection, wait: float = 10) -> None:
        if connection is self._opening.private:
            with self._opening.lock:
                connection.close()
                self._opening.private = None
            self.lock.release()
            return
        # The last connection to close writes the log back, so it must not meet a writer.
        if not self.stands(connection):
            connection.close()  # SQLite leaves the log of another file alone
            return
        try:
            with self.lock(wait):
                connection.close()
        except OSError as error:
            if file_errors.cause_of(error) is not Cause.READ_ONLY:
                raise
            connection.close()  # there the lock cannot be opened, and nobody writes

    def _open(self, writes: bool) -> Connection:
        """A new connection to the file as it should be: migrated on first sight."""
        connection = self.connect(writes)
        try:
            if writes:
                litestream.leave_checkpoints(connection, self.config.data)
            (mode,) = connection.execute("PRAGMA journal_mode").fetchone()
            version = migrations.version(connection)
            if not version:  # a new tenant's file has its steps before it has its name
                raise sqlite3.DatabaseError("the file is empty")
            if mode != "wal" or version != len(migrations.STEPS):
                if connection is self._opening.private:
                    raise StorageFull
                self._migrate()
        except BaseException:
            self._drop(connection)
            raise
        return connection

    def connect(self, writes: bool) -> Connection:
        """A connection to the file as it stands there, to be given to close().

        Raises StorageFull when it would write and the disk is full, Busy, and what SQLite says.
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
        """None: one is open that has its own index of the log."""
        with self._opening.lock:
            return None if self._opening.private else self._connect_and_read(writes)

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
        """A connection with an index of its own, which holds the writer lock until it is closed."""
        self.lock.acquire()
        try:
            with self._opening.lock:
                try:  # there may be room by now, and whoever waited for the lock is to find it
                    connection = self._connect_and_read(writes=False)
                except FILE_ERRORS as error:
                    if file_errors.cause_of(error, self.path) is not Cause.FULL:
                        raise
                    disk.make_index_name(self.path)
                    self._opening.private = self._connect_and_read(writes=False, own_index=True)
                    return self._opening.private
        except BaseException:
            self.lock.release()
            raise
        self.lock.release()
        return connection

    def _drop(self, connection: Connection) -> None:
        if connection is self._opening.private:
            self.close(connection)
        else:
            connection.close()

    def _migrate(self) -> None:
        with self.lock():
            connection = connect(self.path)
            try:
                litestream.leave_checkpoints(connection, self.config.data)
                if migrations.version(connection) < len(migrations.STEPS):
                    upgrades.keep(connection, self.label, self.config.data, self._clock())
                connection.execute("PRAGMA journal_mode = WAL")  # a copy by VACUUM INTO has none
                migrations.migrate(connection, self.label)
            finally:
                connection.close()


class Spare:
    """A descriptor kept open, for when there is no other: under it connections are closed."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._descriptor: int | None = None
        self._open()

    def _open(self) -> None:
        with contextlib.suppress(OSError):
            self._descriptor = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)

    def __enter__(self) -> None:
        self._lock.acquire()
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def __exit__(self, *_: Any) -> None:
        self._open()
        self._lock.release()


_spare = Spare()
_all: "WeakSet[Pool]" = WeakSet()


class Pool:
    """The idle connections of all tenants, the least recently used closed first.

    Their bound is soft: one that made visits wait would starve nested ones.
    """

    def __init__(self, size: int):
        self._size = divide_open_files(size).databases
        self._lock = threading.Lock()
        self._idle: OrderedDict[int, tuple[Tenant, bool, Connection]] = OrderedDict()
        _all.add(self)

    def take(self, tenant: Tenant, writes: bool) -> Connection | None:
        with self._lock:
            if not tenant.idle[writes]:
                return None
            connection = tenant.idle[writes].pop()
            del self._idle[id(connection)]
            return connection

    def keep(self, tenant: Tenant, connection: Connection, writes: bool) -> None:
        surplus = None
        with self._lock:
            self._add(tenant, writes, connection)
            if len(self._idle) > self._size:
                _, surplus = self._idle.popitem(last=False)
                surplus[0].idle[surplus[1]].remove(surplus[2])
        if surplus:
            self._close([surplus], wait=0)

    def forget(self, tenant: Tenant | None = None, wait: float = 10) -> None:
        """Close the idle connections of a tenant, or of all."""
        with self._lock:
            found = [kept for kept in self._idle.values() if tenant in (None, kept[0])]
            for owner, writes, connection in found:
                owner.idle[writes].remove(connection)
                del self._idle[id(connection)]
        self._close(found, wait)

    def free_descriptors(self) -> None:
        """Close all idle connections: this process has no descriptor left, not even for a lock."""
        with _spare:
            self.forget(wait=0)

    def _close(self, found: list[tuple[Tenant, bool, Connection]], wait: float) -> None:
        for owner, writes, connection in found:
            try:
                owner.close(connection, wait)
            except (Busy, OSError):  # it is being written, or its lock cannot be opened: later
                with self._lock:
                    self._add(owner, writes, connection)

    def _add(self, tenant: Tenant, writes: bool, connection: Connection) -> None:
        tenant.idle[writes].append(connection)
        self._idle[id(connection)] = (tenant, writes, connection)


def _leave_none_to_a_fork() -> None:
    """What a child writes through a connection of its parent's is lost when the parent closes it:
    SQLite's locks are not inherited."""
    for pool in tuple(_all):
        pool.forget(wait=FORK_WAIT)


register_at_fork(before=_leave_none_to_a_fork)
