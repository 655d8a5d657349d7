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
from collections.abc import Sequence
from typing import Any

import psycopg
from psycopg import adapt, pq
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.types.string import TextLoader
from psycopg_pool import ConnectionPool, PoolTimeout

from crm.errors import Busy
from crm.tenancy.file_errors import ServerError
from crm.tenancy.steady_clock import boot_seconds

MIN_SERVER_VERSION = 140_000  # pipelines and the functions of the shared schema were tried on 15
# A backend that has worked for 1,000 schemas holds 0.4 to 0.9 GB, so none lives longer.
MAX_LIFETIME_SECONDS = 600.0
CONNECT_TIMEOUT_SECONDS = 3
POOL_TIMEOUT_SECONDS = 10.0  # that a session waits for a connection before Busy
FIRST_WAIT_SECONDS = 0.5  # after which is checked whether a connection can be made at all
RETRY_SECONDS = 1.0  # after a failed connection, for which no other one is tried
MAX_CLOCK_ERROR_SECONDS = 0.25
MAX_STATEMENTS = 512  # prepared in one connection
# Of a connection whose machine is gone, unless the address says otherwise.
DEFAULTS = {
    "connect_timeout": CONNECT_TIMEOUT_SECONDS,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 20_000,
    "application_name": "crm",
}

log = logging.getLogger("crm.tenants")
logging.getLogger("psycopg.pool").setLevel(logging.ERROR)  # it warns at each try to connect


class BooleanLoader(adapt.Loader):
    """Booleans are read as SQLite has them: 0 and 1."""

    def load(self, data: Any) -> int:
        return 1 if bytes(data) == b"t" else 0


class NumericLoader(adapt.Loader):
    """The sum of integers is read as an integer."""

    def load(self, data: Any) -> int | float:
        text = bytes(data)
        return float(text) if b"." in text or b"N" in text else int(text)


class Connection(psycopg.Connection[Any]):
    """One connection to a database, which sessions of any tenant use in turn."""

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__(*args, **kwargs)
        for name, loader in (
            ("json", TextLoader),
            ("jsonb", TextLoader),
            ("bool", BooleanLoader),
            ("numeric", NumericLoader),
        ):
            self.adapters.register_loader(name, loader)
        self.keeps_statements = True
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
        if self.pgconn.server_version < MIN_SERVER_VERSION:
            version = self.pgconn.server_version // 10_000
            raise ServerError(f"the server is PostgreSQL {version}, 14 is needed", "")
        self._poll.register(self.pgconn.socket, select.POLLIN)
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

    def send(self, sql: str, params: Sequence[Any] = ()) -> None:
        """Send a statement in PostgreSQL's dialect; receive() gives its result."""
        values, formats = _encode(params)
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
        if len(self._names) > MAX_STATEMENTS:
            self._forget_statements()
        if failure is not None:
            raise _server_error(failure)
        return results

    def send_once(self, sql: str, params: Sequence[Any] = ()) -> None:
        """Send a statement that is not kept prepared, such as CREATE TABLE."""
        values, formats = _encode(params)
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

    def lost(self, error: psycopg.Error) -> "ConnectionLost":
        """Close the connection and return the error to raise."""
        self.pgconn.finish()
        return ConnectionLost(_first_line(error), "08006")

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


class ConnectionLost(ServerError):
    """The connection broke, or none can be made; what was sent last may have been executed."""


class Database:
    """One PostgreSQL database and the connections of this process to it.

    `address` is a URL or a connection string of libpq.
    """

    def __init__(self, address: str, max_connections: int):
        parts: dict[str, Any] = {**DEFAULTS, **conninfo_to_dict(address)}
        self.address = make_conninfo("", **parts)
        self.name: str = parts.get("dbname") or parts.get("user") or "postgres"
        self._max_connections = max_connections
        self._lock, self._probing = threading.Lock(), threading.Lock()
        self._pool: ConnectionPool[Connection] | None = None
        self._pid = 0
        self._failed_at = float("-inf")
        self._failure = ""
        # Of the newest connection that gave it exactly; None until there was one.
        self.clock_offset: float | None = None

    def take(self) -> Connection:
        """Take an idle connection, or make one. Raises ConnectionLost, Busy."""
        pool = self._pool
        if pool is None or self._pid != os.getpid():
            pool = self._open()
        try:
            return pool.getconn(FIRST_WAIT_SECONDS)
        except PoolTimeout:
            self._probe()
        try:
            return pool.getconn()
        except PoolTimeout as error:
            raise Busy from error

    def _probe(self) -> None:
        """Raise ConnectionLost if no connection can be made; the pool does not say why it waits."""
        with self._probing:
            if time.monotonic() - self._failed_at >= RETRY_SECONDS:
                try:
                    self.connect().close()
                except ConnectionLost as error:
                    self._failed_at, self._failure = time.monotonic(), str(error)
                    raise
                return
        raise ConnectionLost(self._failure, "08001")

    def give(self, connection: Connection) -> None:
        """Give back a connection; one that is broken or inside a transaction is closed."""
        assert self._pool is not None
        if not connection.closed and not connection.is_idle:
            connection.pgconn.finish()
        self._pool.putconn(connection)

    def connect(self) -> "psycopg.Connection[Any]":
        """Make a connection of its own, with psycopg's cursors. Raises ConnectionLost."""
        try:
            return psycopg.connect(self.address, autocommit=True, prepare_threshold=None)
        except psycopg.Error as error:
            raise ConnectionLost(_first_line(error), "08001") from error

    def _start(self, connection: Connection) -> None:
        connection.start()
        if self.clock_offset is None or connection.clock_error < MAX_CLOCK_ERROR_SECONDS:
            self.clock_offset = connection.clock_offset

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
                self._pool = ConnectionPool(
                    self.address,
                    connection_class=Connection,
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


def _encode(params: Sequence[Any]) -> tuple[list[bytes | None], list[int] | None]:
    """Return the values of parameters as libpq takes them, and their formats."""
    values: list[bytes | None] = []
    formats = None  # all texts
    for value in params:
        if value is None:
            values.append(None)
        elif isinstance(value, str):
            # A text ends at NUL there; losing the rest silently would be worse.
            values.append(value.replace("\0", "\ufffd").encode())
        elif isinstance(value, (bytes, bytearray, memoryview)):
            formats = formats or [0] * len(params)
            formats[len(values)] = 1
            values.append(bytes(value))
        else:  # int, float and bool; True is 1, as SQLite has it
            values.append(repr(+value).encode())
    return values, formats


def _server_error(result: pq.abc.PGresult) -> ServerError:
    field = pq.DiagnosticField
    state = (result.error_field(field.SQLSTATE) or b"").decode()
    message = (result.error_field(field.MESSAGE_PRIMARY) or b"").decode(errors="replace")
    # The detail of an error may have values of a row, which must not reach a log.
    return ServerError(message, state)


def _first_line(error: psycopg.Error) -> str:
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
