"""The database of CRM_DATABASE: its address, and the connections of this process to it."""

import contextlib
import logging
import os
import re
import threading
import time
from collections.abc import Iterator
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg_pool import ConnectionPool, PoolTimeout

from crm.errors import Busy
from crm.storage.postgres.pipeline import QUICK_SECONDS, PipelineConnection, Waiters
from crm.storage.postgres.server_errors import (
    TOO_MANY_CONNECTIONS,
    ConnectionLost,
    Unsuitable,
    error_of_connecting,
    error_of_cursor,
)
from crm.storage.unavailable import LogLimit

EXAMPLE = (
    "it looks like postgresql://user:password@host:5432/name; in a user, password or name"
    " @ is %40 and / is %2F"
)
PORTS = re.compile(r"[0-9]{0,5}(,[0-9]{0,5})*")  # of several servers of one database
CONNECT_TIMEOUT_SECONDS = 3
# Of a connection whose machine is gone, unless the address says otherwise.
DEFAULTS = {
    "connect_timeout": CONNECT_TIMEOUT_SECONDS,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 20_000,
    "application_name": "crm",
    "client_encoding": "UTF8",
}
MIN_SERVER_VERSION = 14  # the oldest that PostgreSQL's makers maintain; tried on 15
# A backend that has worked for 1,000 schemas holds 0.4 to 0.9 GB, so none lives longer.
MAX_LIFETIME_SECONDS = 600.0
POOL_TIMEOUT_SECONDS = 10.0  # that a session waits for a connection before Busy
RETRY_SECONDS = 1.0  # after a failed connection, for which no other one is tried
MAX_CLOCK_ERROR_SECONDS = 0.25

log = logging.getLogger("crm.tenants")
logging.getLogger("psycopg.pool").setLevel(logging.ERROR)  # it warns at each try to connect


def read_address(address: str) -> dict[str, Any]:
    """Return the parts of an address by the names that libpq gives them.

    Raises ValueError for an address that cannot be right, without any part of it: a password with
    characters that are not escaped may be in each part.
    """
    try:
        parts: dict[str, Any] = dict(conninfo_to_dict(address))
    except psycopg.ProgrammingError:
        raise ValueError(EXAMPLE) from None
    host, name = str(parts.get("host", "")), str(parts.get("dbname", ""))
    if re.search("@|/", name) or "@" in host or not PORTS.fullmatch(str(parts.get("port", ""))):
        raise ValueError(EXAMPLE)
    return parts


class CursorConnection(psycopg.Connection[Any]):
    """A connection with psycopg's cursors, whose `with` block raises ServerError.

    psycopg's own errors have values of rows in their texts.
    """

    def read(self, sql: str, *params: Any) -> list[tuple[Any, ...]]:
        """Return the rows of a query."""
        return self.execute(sql.encode(), params or None).fetchall()

    def __exit__(self, kind: Any, error: BaseException | None, traceback: Any) -> None:
        super().__exit__(kind, error, traceback)
        if isinstance(error, psycopg.Error):
            raise error_of_cursor(error) from None


class Database:
    """One PostgreSQL database and the connections of this process to it.

    `address` is a URL or a connection string of libpq. Raises ValueError for one that is none.
    """

    def __init__(self, address: str, max_connections: int):
        parts: dict[str, Any] = {**DEFAULTS, **read_address(address)}
        self.address = make_conninfo("", **parts)
        self.name: str = parts.get("dbname") or parts.get("user") or "postgres"
        self._max_connections = max_connections
        self.waiters = Waiters()
        self._lock, self._probing = threading.Lock(), threading.Lock()
        self._pool: ConnectionPool[PipelineConnection] | None = None
        self._pid = 0
        self._failed_at = float("-inf")
        self._failure: ConnectionLost | None = None
        self._log_limit = LogLimit()
        # Of the newest connection that gave it exactly; None until there was one.
        self.clock_offset: float | None = None

    def take(self, wait_seconds: float = POOL_TIMEOUT_SECONDS) -> PipelineConnection:
        """Take an idle connection, or make one. Raises ConnectionLost, Unsuitable, Busy.

        `wait_seconds`: for one of those in use, once it is known that one can be made at all; 0
        also asks a server that many threads wait for.
        """
        self.require_no_recent_failure()
        if wait_seconds:
            self.waiters.require_few()
        pool = self._pool
        if pool is None or self._pid != os.getpid():
            pool = self._open()
        # All idle ones are lost if the server was restarted. The pool's own check would wait longer
        # and longer after each of them.
        while True:
            connection = self._wait(pool, wait_seconds)
            if connection.is_open:
                return connection
            connection.pgconn.finish()
            pool.putconn(connection)

    def _wait(
        self, pool: "ConnectionPool[PipelineConnection]", wait_seconds: float
    ) -> PipelineConnection:
        with contextlib.suppress(PoolTimeout):
            return pool.getconn(QUICK_SECONDS)
        with self.waiters.wait():
            self._probe()
            try:
                return pool.getconn(wait_seconds)
            except PoolTimeout as error:
                raise Busy from error

    def ping(self) -> None:
        """Raise ConnectionLost or Unsuitable if there is no connection and none can be made.

        It is no failure that all of them are in use.
        """
        with contextlib.suppress(Busy), self.taken(wait_seconds=0) as connection:
            connection.run("SELECT 1")

    def require_no_recent_failure(self) -> None:
        """Raise the error of the last try to connect if it was less than RETRY_SECONDS ago."""
        failure = self._failure
        if failure is not None and time.monotonic() - self._failed_at < RETRY_SECONDS:
            raise ConnectionLost(str(failure), failure.sqlstate)

    def _probe(self) -> None:
        """Raise ConnectionLost if no connection can be made; the pool does not say why it waits.

        If the server has none left for us, those of this process are shared.
        """
        with self._probing:
            self.require_no_recent_failure()  # of another thread that was here before
            try:
                self.connect().close()
            except ConnectionLost as error:
                if error.sqlstate != TOO_MANY_CONNECTIONS:
                    raise
                if self._log_limit.allows(error.sqlstate):
                    log.error("the database %s gives no more connections: %s", self.name, error)

    @contextlib.contextmanager
    def taken(self, wait_seconds: float = POOL_TIMEOUT_SECONDS) -> Iterator[PipelineConnection]:
        """Use a connection in a `with` block: take() and give()."""
        connection = self.take(wait_seconds)
        try:
            yield connection
        finally:
            self.give(connection)

    def give(self, connection: PipelineConnection) -> None:
        """Give back a connection; one that is broken or inside a transaction is closed."""
        assert self._pool is not None
        if not connection.closed and not connection.is_idle:
            connection.pgconn.finish()
        self._pool.putconn(connection)

    def connect(self) -> CursorConnection:
        """Make a connection of its own, with psycopg's cursors. Raises ConnectionLost, Unsuitable.

        It is meant for `with`, which closes it.
        """
        try:
            connection = CursorConnection.connect(
                self.address, autocommit=True, prepare_threshold=None
            )
        except psycopg.Error as error:
            failure = error_of_connecting(error)
            if failure.sqlstate != TOO_MANY_CONNECTIONS:
                self._failure, self._failed_at = failure, time.monotonic()
            raise failure from error
        version = connection.pgconn.server_version // 10_000
        if version < MIN_SERVER_VERSION:
            connection.close()
            raise Unsuitable(
                f"its server is PostgreSQL {version}, and {MIN_SERVER_VERSION} is the oldest that"
                " will do"
            )
        self._failure = None
        return connection

    def close(self) -> None:
        """Close all idle connections."""
        with self._lock:
            pool, self._pool = self._pool, None
        if pool is not None and self._pid == os.getpid():
            pool.close()

    def _open(self) -> "ConnectionPool[PipelineConnection]":
        with self._lock:
            if self._pool is None or self._pid != os.getpid():
                # After a fork the parent's connections are the parent's.
                self._pid = os.getpid()
                self._pool = ConnectionPool(
                    self.address,
                    connection_class=PipelineConnection,
                    kwargs={"autocommit": True},
                    min_size=0,
                    max_size=self._max_connections,
                    max_lifetime=MAX_LIFETIME_SECONDS,
                    timeout=POOL_TIMEOUT_SECONDS,
                    reconnect_timeout=RETRY_SECONDS,
                    num_workers=1,
                    configure=self._start,
                    open=True,
                )
            return self._pool

    def _start(self, connection: PipelineConnection) -> None:
        """Begin to use a connection."""
        clock_offset, error_seconds = connection.start()
        connection.waiters = self.waiters
        if self.clock_offset is None or error_seconds < MAX_CLOCK_ERROR_SECONDS:
            self.clock_offset = clock_offset
