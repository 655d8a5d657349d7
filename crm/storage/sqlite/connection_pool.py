"""Idle connections to the files of all tenants, kept open for the next session."""

import contextlib
import os
import threading
from collections import OrderedDict
from os import register_at_fork
from typing import Any
from weakref import WeakSet

from crm.errors import Busy
from crm.open_files import divide_open_files
from crm.storage.sqlite.connection import Connection
from crm.storage.writer_lock import MAX_LOCK_WAIT_SECONDS

FORK_WAIT_SECONDS = 1.0  # before a fork, for a connection whose file is being written


ConnectionOwner = Any  # tenant.Tenant: a tenant whose connections are pooled
# Owner, whether it may write, connection. Making a NamedTuple would take five times as long.
IdleConnection = tuple[ConnectionOwner, bool, Connection]


# Held in reserve, at most one: closing a connection takes a lock, which needs a descriptor too.
_spare_descriptors: list[int] = []
_spare_lock = threading.Lock()
_pools: "WeakSet[ConnectionPool]" = WeakSet()


class ConnectionPool:
    """The idle connections of all tenants of an installation; the longest unused closes first.

    Its size bounds idle connections only: a bound that made sessions wait would deadlock nested
    ones.
    """

    def __init__(self, size: int):
        self._size = divide_open_files(size).databases
        self._lock = threading.Lock()
        self._idle: OrderedDict[int, IdleConnection] = OrderedDict()
        _pools.add(self)

    def take(self, owner: ConnectionOwner, writes: bool) -> Connection | None:
        """Take an idle connection of a tenant out of the pool, or return None."""
        with self._lock:
            if not owner.idle[writes]:
                return None
            connection = owner.idle[writes].pop()
            del self._idle[id(connection)]
            return connection

    def give(self, owner: ConnectionOwner, connection: Connection, writes: bool) -> None:
        """Put a connection into the pool; closes the longest unused one if that is too many."""
        surplus = None
        with self._lock:
            self._add(owner, writes, connection)
            if len(self._idle) > self._size:
                _, surplus = self._idle.popitem(last=False)
                self._remove(*surplus)
        if surplus:
            self._close([surplus], wait_seconds=0)

    def forget(
        self,
        owner: ConnectionOwner | None = None,
        wait_seconds: float = MAX_LOCK_WAIT_SECONDS,
    ) -> None:
        """Close the idle connections of a tenant, or of all tenants."""
        with self._lock:
            closing = [idle for idle in self._idle.values() if owner in (None, idle[0])]
            for idle in closing:
                self._remove(*idle)
                del self._idle[id(idle[2])]
        self._close(closing, wait_seconds)

    def free_descriptors(self) -> None:
        """Close all idle connections when this process has no descriptor left."""
        with _spare_lock:
            while _spare_descriptors:
                os.close(_spare_descriptors.pop())
            try:
                self.forget(wait_seconds=0)
            finally:
                _hold_spare_descriptor()

    def _close(self, closing: list[IdleConnection], wait_seconds: float) -> None:
        for owner, writes, connection in closing:
            try:
                owner.close(connection, wait_seconds)
            except (Busy, OSError):  # it is being written, or its lock cannot be opened: later
                with self._lock:
                    self._add(owner, writes, connection)

    def _add(self, owner: ConnectionOwner, writes: bool, connection: Connection) -> None:
        owner.idle[writes].append(connection)
        self._idle[id(connection)] = (owner, writes, connection)

    @staticmethod
    def _remove(owner: ConnectionOwner, writes: bool, connection: Connection) -> None:
        owner.idle[writes].remove(connection)


def _hold_spare_descriptor() -> None:
    with contextlib.suppress(OSError):
        _spare_descriptors.append(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))


def _close_before_fork() -> None:
    """Close all idle connections: SQLite's locks are not inherited by a child process, so what it
    writes through a connection of its parent's is lost when the parent closes it."""
    for pool in tuple(_pools):
        pool.forget(wait_seconds=FORK_WAIT_SECONDS)


_hold_spare_descriptor()
register_at_fork(before=_close_before_fork)
