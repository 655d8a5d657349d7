"""A tenant's file: its idle connections, its writer lock, and its shape when it is opened."""

import sqlite3
import threading
from collections import OrderedDict
from collections.abc import Callable
from os import register_at_fork
from pathlib import Path
from typing import Protocol
from weakref import WeakSet

from crm.config import Config
from crm.errors import Busy, NotFound
from crm.tenancy import disk, migrations, upgrades
from crm.tenancy.bell import Bell, Hears
from crm.tenancy.database import Connection, WriterLock, connect, file_at
from crm.tenancy.steady_clock import SteadyClock

FORK_WAIT = 1.0  # seconds for a connection whose file is being written


class UnknownTenant(NotFound):
    detail = "there is nothing here"


class Home(Protocol):
    """What the tenants of an installation share."""

    config: Config
    bell: Bell
    pool: "Pool"
    hears: Hears | None
    steady: SteadyClock
    clock: Callable[[], float]


class Tenant:
    """A tenant's file and its writer lock. Small, and kept for as long as the process."""

    def __init__(self, label: str, path: Path, home: "Home"):
        self.label = label
        self.path = path
        self.config, self.bell = home.config, home.bell
        self.lock = WriterLock(path.with_suffix(".lock"))
        self.tidy_at = 0.0
        self.idle: dict[bool, list[Connection]] = {False: [], True: []}
        self.hears, self.steady = home.hears, home.steady
        self._pool, self._clock = home.pool, home.clock
        self._name = str(path)

    def take(self, writes: bool) -> Connection:
        """An open connection to the file that stands there now; raises UnknownTenant."""
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

    def stands(self, *connections: Connection) -> bool:
        """Is it their file that stands there now?"""
        try:
            file = file_at(self._name)
        except FileNotFoundError:
            return False
        return all(connection.file == file for connection in connections)

    def give(self, connection: Connection, writes: bool) -> None:
        """Keep the connection for the next visit."""
        self._pool.keep(self, connection, writes)

    def close(self, connection: Connection, wait: float = 10) -> None:
        # The last connection to close writes the log back, so it must not meet a writer.
        if not self.stands(connection):
            connection.close()  # SQLite leaves the log of another file alone
            return
        with self.lock(wait):
            connection.close()

    def _open(self, writes: bool) -> Connection:
        """A new connection to the file as it should be: migrated on first sight."""
        with disk.opening(self.path):  # reading from it opens its log
            connection = connect(self.path, writes)
            try:
                (mode,) = connection.execute("PRAGMA journal_mode").fetchone()
                version = migrations.version(connection)
                if not version:  # a new tenant's file has its steps before it has its name
                    raise sqlite3.DatabaseError("it is empty: restore a copy of it")
                is_ready = mode == "wal" and version == len(migrations.STEPS)
            except BaseException:
                connection.close()
                raise
        if not is_ready:
            try:
                self._migrate()
            except BaseException:
                connection.close()
                raise
        return connection

    def _migrate(self) -> None:
        with self.lock():
            connection = connect(self.path)
            try:
                if migrations.version(connection) < len(migrations.STEPS):
                    upgrades.keep(connection, self.label, self.config.data, self._clock())
                connection.execute("PRAGMA journal_mode = WAL")  # a copy by VACUUM INTO has none
                migrations.migrate(connection, self.label)
            finally:
                connection.close()


_all: "WeakSet[Pool]" = WeakSet()


class Pool:
    """The idle connections of all tenants, the least recently used closed first.

    Their bound is soft: one that made visits wait would starve nested ones.
    """

    def __init__(self, size: int):
        self._size = size
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

    def _close(self, found: list[tuple[Tenant, bool, Connection]], wait: float) -> None:
        for owner, writes, connection in found:
            try:
                owner.close(connection, wait)
            except Busy:  # it is being written: later
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
