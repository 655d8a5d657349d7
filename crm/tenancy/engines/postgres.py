"""Connections to PostgreSQL: statements of one round trip, sent by libpq's pipeline mode.

A statement is translated and prepared once per connection. Several statements are sent together
and answered together, so that reading a tenant's row costs one round trip with the statement that
selects the tenant. psycopg's own cursors would cost six times as much.
"""

import contextlib
import logging
import os
import select
import threading
import time
import weakref
from collections.abc import Sequence
from functools import partial
from typing import Any

import psycopg
from psycopg import adapt, pq
from psycopg.conninfo import make_conninfo
from psycopg_pool import ConnectionPool, PoolTimeout

from crm.errors import Busy
from crm.tenancy.engines.address import read_address
from crm.tenancy.engines.server_errors import (
    LOST,
    TOO_MANY_CONNECTIONS,
    ConnectionLost,
    Unsuitable,
    error_of_connecting,
    error_of_cursor,
    error_of_result,
    first_line,
)
from crm.tenancy.engines.wire_values import LOADERS, encode
from crm.tenancy.file_errors import ServerError
from crm.tenancy.steady_clock import boot_seconds
from crm.tenancy.unavailable import LogLimit

__all__ = ["Connection", "ConnectionLost", "CursorConnection", "Database"]

MIN_SERVER_VERSION = 14  # the oldest that PostgreSQL's makers maintain; tried on 15
# A backend that has worked for 1,000 schemas holds 0.4 to 0.9 GB, so none lives longer.
MAX_LIFETIME_SECONDS = 600.0
CONNECT_TIMEOUT_SECONDS = 3
POOL_TIMEOUT_SECONDS = 10.0  # that a session waits for a connection before Busy
FIRST_WAIT_SECONDS = 0.5  # after which is checked whether a connection can be made at all
RETRY_SECONDS = 1.0  # after a failed connection, for which no other one is tried
SHARED_TIMEOUT_SECONDS = 2.0  # for one of this process's connections if the server gives no more
MAX_CLOCK_ERROR_SECONDS = 0.25
READ_ONLY = "25006"  # the SQLSTATE of a write on a standby
MAX_STATEMENTS = 512  # prepared in one connection
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

log = logging.getLogger("crm.tenants")
logging.getLogger("psycopg.pool").setLevel(logging.ERROR)  # it warns at each try to connect


class Connection(psycopg.Connection[Any]):
    """One connection to a database, which sessions of any tenant use in turn."""

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__(*args, **kwargs)
        for name, loader in LOADERS:
            self.adapters.register_loader(name, loader)
        self.keeps_statements = True
        self.is_read_only = False  # a statement was refused for that
        # Seconds from this machine's uptime to the server's epoch, and by how much they may be off.
        self.clock_offset = self.clock_error = 0.0
        self._names: dict[str, bytes] = {}
        self._count = 0
        self._sent: list[
            str | None
        ] = []  # what answers are awaited: a text being prepared, or a run
        self._transformer = adapt.Transformer(self)
        self._poll = select.poll()

    def start(self) -> None:
        """Begin to use the connection; called once, when it is open."""
        self._poll.register(self.pgconn.socket, select.POLLIN)
        self.opened_at = time.monotonic()
        self.pgconn.nonblocking = 0
        # A pooler such as PgBouncer has its own process numbers, and may run each transaction in
        # another backend, which does not know this connection's prepared statements.
        sent_at = boot_seconds()
        ((pid, server_time),) = self.execute(
            "SELECT pg_backend_pid(), extract(epoch FROM clock_timestamp())::float8"
        ).fetchall()
        received_at = boot_seconds()
        self.clock_offset = server_time - (sent_at + received_at) / 2
        self.clock_error = (received_at - sent_at) / 2
        self.keeps_statements = pid == self.pgconn.backend_pid
        self.pgconn.enter_pipeline_mode()

    @property
    def is_open(self) -> bool:
        """Whether the server has not ended the connection, which is idle."""
        return not self._poll.poll(0)  # an idle one is sent nothing but the reason of its end

    def send(self, sql: str, params: Sequence[Any] = ()) -> None:
        """Send a statement in PostgreSQL's dialect; receive() gives its result."""
        values, formats = encode(params)
        pgconn = self.pgconn
        try:
            if not self.keeps_statements:
                pgconn.send_query_params(sql.encode(), values, param_formats=formats)
                self._sent.append(None)
                return
            name = self._names.get(sql)
            if name is None:
                name = self._prepare(sql)
            pgconn.send_query_prepared(name, values, formats)
        except psycopg.OperationalError as error:
            raise self.lost(error) from error
        self._sent.append(None)

    def _prepare(self, sql: str) -> bytes:
        self._count += 1
        name = self._names[sql] = b"s%d" % self._count
        self.pgconn.send_prepare(name, sql.encode())
        self._sent.append(sql)
        return name

    def receive(self) -> list[pq.abc.PGresult]:
        """Return the results of what was sent since the last time.

        Raises ServerError for the first statement that failed; those after it were not executed.
        """
        pgconn, sent = self.pgconn, self._sent
        results: list[pq.abc.PGresult] = []
        failure: pq.abc.PGresult | None = None
        self._sent = []
        try:
            pgconn.pipeline_sync()
            for prepared in sent:
                result = self._next_result()
                self._next_result()  # None, after each statement
                assert result is not None
                if result.status in (pq.ExecStatus.COMMAND_OK, pq.ExecStatus.TUPLES_OK):
                    if prepared is None:
                        results.append(result)
                    continue
                if prepared is not None:
                    self._names.pop(prepared, None)
                if failure is None:
                    failure = result
            self._next_result()  # the end of the pipeline
        except psycopg.OperationalError as error:
            raise self.lost(error) from error
        if failure is None and len(self._names) > MAX_STATEMENTS:
            self._forget_statements()
        if failure is not None:
            refused = error_of_result(failure)
            self.is_read_only = self.is_read_only or refused.sqlstate == READ_ONLY
            raise refused
        return results

    def send_once(self, sql: str, params: Sequence[Any] = ()) -> None:
        """Send a statement that is not kept prepared, such as CREATE TABLE."""
        values, formats = encode(params)
        try:
            self.pgconn.send_query_params(sql.encode(), values, param_formats=formats)
        except psycopg.OperationalError as error:
            raise self.lost(error) from error
        self._sent.append(None)

    def run(self, sql: str, params: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Send one statement in PostgreSQL's dialect and return its rows."""
        self.send(sql, params)
        return self.rows(self.receive()[-1])

    def discard(self) -> None:
        """Receive what was sent and ignore its results and errors."""
        if self._sent:
            with contextlib.suppress(ServerError):
                self.receive()

    def rows(self, result: pq.abc.PGresult) -> list[tuple[Any, ...]]:
        """Return all rows of a result."""
        if not result.nfields:
            return []
        self._transformer.set_pgresult(result)
        return self._transformer.load_rows(0, result.ntuples, tuple)

    def lost(self, error: psycopg.Error) -> ConnectionLost:
        """Close the connection and return the error to raise."""
        self.pgconn.finish()
        return ConnectionLost(first_line(error), LOST)

    @property
    def is_idle(self) -> bool:
        """Whether the connection is open and outside of any transaction."""
        return not self._sent and self.pgconn.transaction_status == pq.TransactionStatus.IDLE

    def _next_result(self) -> pq.abc.PGresult | None:
        pgconn = self.pgconn
        while pgconn.is_busy():
            self._poll.poll()
            pgconn.consume_input()
        return pgconn.get_result()

    def _forget_statements(self) -> None:
        self._names = {}
        self.pgconn.send_query_params(b"DEALLOCATE ALL", None)
        self._sent.append(None)
        self.receive()


class CursorConnection(psycopg.Connection[Any]):
    """A connection with psycopg's cursors, whose `with` block raises ServerError.

    psycopg's own errors have values of rows in their texts.
    """

    def __exit__(self, kind: Any, error: BaseException | None, traceback: Any) -> None:
        super().__exit__(kind, error, traceback)
        if isinstance(error, psycopg.Error):
            raise error_of_cursor(error) from None


class Database:
    """One PostgreSQL database and the connections of this process to it.

    `address` is a URL or a connection string of libpq. `makes_roles`: each new tenant has a role of
    its own there. Raises ValueError for an address that is none.
    """

    def __init__(self, address: str, max_connections: int, makes_roles: bool = False):
        parts: dict[str, Any] = {**DEFAULTS, **read_address(address)}
        self.address = make_conninfo("", **parts)
        self.name: str = parts.get("dbname") or parts.get("user") or "postgres"
        self.makes_roles = makes_roles
        self._max_connections = max_connections
        self._lock, self._probing = threading.Lock(), threading.Lock()
        self._pool: ConnectionPool[Connection] | None = None
        self._pid = 0
        self._failed_at = float("-inf")
        self._failure: ConnectionLost | None = None
        self._log_limit = LogLimit()
        self.renewed_at = float("-inf")  # connections made before are not used any more
        # Of the newest connection that gave it exactly; None until there was one.
        self.clock_offset: float | None = None

    def take(self, wait_seconds: float = POOL_TIMEOUT_SECONDS) -> Connection:
        """Take an idle connection, or make one. Raises ConnectionLost, Unsuitable, Busy.

        `wait_seconds`: for one of those in use, once it is known that one can be made at all.
        """
        self.require_no_recent_failure()
        pool = self._pool
        if pool is None or self._pid != os.getpid():
            pool = self._open()
        # All idle ones are lost if the server was restarted. The pool's own check would wait longer
        # and longer after each of them.
        while not self._is_usable(connection := self._wait(pool, wait_seconds)):
            connection.pgconn.finish()
            pool.putconn(connection)
        return connection

    def _is_usable(self, connection: Connection) -> bool:
        return connection.opened_at >= self.renewed_at and connection.is_open

    def _wait(self, pool: "ConnectionPool[Connection]", wait_seconds: float) -> Connection:
        try:
            return pool.getconn(FIRST_WAIT_SECONDS)
        except PoolTimeout:
            if not self._probe():
                wait_seconds = min(wait_seconds, SHARED_TIMEOUT_SECONDS)
        try:
            return pool.getconn(wait_seconds)
        except PoolTimeout as error:
            raise Busy from error

    def ping(self) -> None:
        """Raise ConnectionLost or Unsuitable if there is no connection and none can be made.

        It is no failure that all of them are in use. Raises ServerError also for a database that
        may only be read: 25006.
        """
        try:
            connection = self.take(wait_seconds=0)
        except Busy:
            return
        try:
            ((is_read_only,),) = connection.run("SELECT current_setting('transaction_read_only')")
        finally:
            self.give(connection)
        if is_read_only == "on":
            raise ServerError("it may only be read: a standby, or set so", READ_ONLY)

    def require_no_recent_failure(self) -> None:
        """Raise the error of the last try to connect if it was less than RETRY_SECONDS ago."""
        failure = self._failure
        if failure is not None and time.monotonic() - self._failed_at < RETRY_SECONDS:
            raise ConnectionLost(str(failure), failure.sqlstate)

    def _probe(self) -> bool:
        """Raise ConnectionLost if no connection can be made; the pool does not say why it waits.

        Returns False if the server has none left for us; then those of this process are shared.
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
                return False
            return True

    def give(self, connection: Connection) -> None:
        """Give back a connection; one that is broken or inside a transaction is closed."""
        assert self._pool is not None
        if connection.is_read_only:
            # It is to a standby; so others may be, which would read old data.
            self.renewed_at = time.monotonic()
        if not connection.closed and (connection.is_read_only or not connection.is_idle):
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

    def _open(self) -> "ConnectionPool[Connection]":
        with self._lock:
            if self._pool is None or self._pid != os.getpid():
                # After a fork the parent's connections are the parent's.
                self._pid = os.getpid()
                self._pool = pool = ConnectionPool(
                    self.address,
                    connection_class=Connection,
                    kwargs={"autocommit": True},
                    min_size=0,
                    max_size=self._max_connections,
                    max_lifetime=MAX_LIFETIME_SECONDS,
                    timeout=POOL_TIMEOUT_SECONDS,
                    reconnect_timeout=RETRY_SECONDS,
                    num_workers=1,
                    configure=partial(_start, weakref.ref(self)),
                    open=True,
                )
                # The pool itself would wait for its threads, maybe in one of these.
                weakref.finalize(self, _close_apart, pool, self._pid).atexit = False
            return self._pool


def _close_apart(pool: "ConnectionPool[Connection]", pid: int) -> None:
    if pid == os.getpid():
        threading.Thread(target=pool.close, daemon=True).start()


def _start(reference: "weakref.ref[Database]", connection: Connection) -> None:
    """Begin to use a connection. The pool must not keep its Database alive."""
    connection.start()
    database = reference()
    if database is not None:
        is_exact = connection.clock_error < MAX_CLOCK_ERROR_SECONDS
        if database.clock_offset is None or is_exact:
            database.clock_offset = connection.clock_offset
