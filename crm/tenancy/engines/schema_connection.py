"""What a session executes statements through, for a tenant that lives in a PostgreSQL schema.

Outside of a transaction each statement takes a connection from the pool for one round trip, in
which the tenant is selected too. Nothing of a session is left in the connection, so a session that
waits for something slow holds none, and a pooler may run each transaction in another backend.

Inside a transaction a statement without rows is sent, and its result received with that of the next
statement with rows, or of COMMIT: then its error is raised.
"""

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import suppress
from itertools import count
from typing import Any, Protocol

from crm.errors import Busy
from crm.tenancy import migrations
from crm.tenancy.database import NoTenant
from crm.tenancy.engines.postgres import Connection, ConnectionLost, Database
from crm.tenancy.engines.statements import (
    ALLOCATED_BYTES,
    NOTE_DUE,
    ROWS_TOGETHER,
    USED_BYTES,
    Statement,
    insert_of_rows,
    statement_of,
)
from crm.tenancy.file_errors import ServerError

READ_TENANT = "SELECT crm.read_tenant($1, $2)"
USE_TENANT = "SELECT crm.use_tenant($1, $2)"
WRITE_TENANT = "SELECT crm.write_tenant($1, $2, $3)"
BEGIN_SNAPSHOT = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
READ_ONLY = "25006"
MAX_UNREAD = 512  # statements sent before their results are received
FETCH_ROWS = 200  # of a query that is read in parts
MAX_TRIES = 16  # with connections that turn out to be broken when they are first used

_cursor_numbers = count()


class Result:
    """The rows of a statement, as a cursor of sqlite3 gives them; all are in memory."""

    __slots__ = ("_position", "_received", "_receive", "_rowcount", "_rows")

    def __init__(
        self,
        rows: list[tuple[Any, ...]],
        rowcount: int | None,
        receive: Callable[[], object] | None = None,
        received: Any = None,
    ):
        """`receive` is called for the number of rows; `received` is libpq's result."""
        self._rows, self._rowcount = rows, rowcount
        self._receive, self._received = receive, received
        self._position = 0

    @property
    def description(self) -> list[tuple[str]]:
        """The names of the columns, for peewee."""
        if self._received is None:
            return []
        columns = range(self._received.nfields)
        return [(self._received.fname(number).decode(),) for number in columns]

    @property
    def rowcount(self) -> int:
        """How many rows the statement changed or returned."""
        if self._rowcount is None and self._receive is not None:
            self._receive()
        return -1 if self._rowcount is None else self._rowcount

    def set_rowcount(self, rowcount: int) -> None:
        self._rowcount = rowcount

    def fetchall(self) -> list[tuple[Any, ...]]:
        rows, self._position = self._rows[self._position :], len(self._rows)
        return rows

    def fetchone(self) -> tuple[Any, ...] | None:
        return next(self, None)

    def fetchmany(self, size: int = 1) -> list[tuple[Any, ...]]:
        rows = self._rows[self._position : self._position + size]
        self._position += len(rows)
        return rows

    def close(self) -> None:
        """Nothing to close: all rows were received."""

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        return self

    def __next__(self) -> tuple[Any, ...]:
        if self._position >= len(self._rows):
            raise StopIteration
        self._position += 1
        return self._rows[self._position - 1]


class Cursor:
    """A cursor for peewee, which executes and then reads from one object."""

    def __init__(self, connection: "SchemaConnection"):
        self._connection = connection
        self._result = Result([], -1)

    def execute(self, sql: str, params: Sequence[Any] = ()) -> None:
        self._result = self._connection.execute(sql, params)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._result, name)

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        return self._result


class SchemaOwner(Protocol):
    """The tenant whose schema it is: `schema_tenant.SchemaTenant`."""

    label: str
    database: Database

    def recover(self, error: ServerError, database: Database) -> bool: ...

    def recent_bytes(self, measure: Callable[[], int]) -> int: ...


class SchemaConnection:
    """Executes one session's statements. Not a database connection: it takes those as needed."""

    def __init__(self, tenant: SchemaOwner):
        self.tenant = tenant
        self._connection: Connection | None = None  # of the transaction or snapshot
        self._database: Database | None = None  # that the connection is of
        self._generation: bytes | None = None  # of the schema, as first seen
        self._unread: list[Result] = []

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction or a snapshot was begun."""
        return self._connection is not None

    # Statements

    def execute(self, sql: str, params: Sequence[Any] = ()) -> Result:
        """Execute a statement in the canonical dialect. Raises ServerError."""
        statement = statement_of(sql)
        if not statement.sql:
            return Result([], 0)
        if self._connection is None:
            return self._read(statement.sql, params)
        if statement.returns_rows:
            self._connection.send(statement.sql, params)
            return self._receive_rows()
        return self._send(self._connection, statement, params)

    def insert(self, sql: str, params: Sequence[Any]) -> int:
        """Execute an INSERT of one row and return its id."""
        assert self._connection is not None
        self._connection.send(statement_of(sql, returns_id=True).sql, params)
        return self._receive_rows().fetchall()[0][0]

    def executemany(self, sql: str, params: Sequence[Sequence[Any]]) -> None:
        """Execute a statement that writes once for each sequence of parameters."""
        statement = statement_of(sql)
        assert self._connection is not None
        if not statement.sql:
            return
        start = 0
        if insert := insert_of_rows(statement.sql):
            for start in range(ROWS_TOGETHER, len(params) + 1, ROWS_TOGETHER):
                rows = params[start - ROWS_TOGETHER : start]
                self._send(self._connection, insert, [value for row in rows for value in row])
        for values in params[start:]:
            self._send(self._connection, statement, values)

    def used_bytes(self) -> int:
        """Return the size of the tables and indexes without what deleted rows left: an estimate."""
        return self.execute(USED_BYTES).fetchall()[0][0]

    def allocated_bytes(self) -> int:
        """Return the size of the tenant's tables and indexes, some seconds old at most."""
        return self.tenant.recent_bytes(lambda: self.execute(ALLOCATED_BYTES).fetchall()[0][0])

    def note_due(self, at: float | None) -> None:
        """Note in the transaction when to look at the tenant's deliveries: None for never."""
        assert self._connection is not None
        self._send(self._connection, NOTE_DUE, (self.tenant.label, at))

    def analyze(self, table: str) -> None:
        """Have the planner's statistics of a table made in the transaction.

        Autovacuum does it within a minute or two; until then a list may sort the whole table.
        """
        assert self._connection is not None
        analyze = f'ANALYZE "{table}"'
        self._send(self._connection, Statement(analyze, returns_rows=False, is_kept=False), ())

    def cursor(self) -> Cursor:
        """Return a cursor for peewee."""
        return Cursor(self)

    def stream(
        self, sql: str, params: Sequence[Any] = ()
    ) -> Generator[tuple[Any, ...], None, None]:
        """Yield the rows of a query, of which few are in memory at a time."""
        if self._connection is not None:
            yield from self._stream(self._connection, sql, params)
            return
        apart = SchemaConnection(self.tenant)
        apart.begin_snapshot()
        try:
            yield from apart.stream(sql, params)
        finally:
            apart.rollback()

    def _stream(
        self, connection: Connection, sql: str, params: Sequence[Any]
    ) -> Generator[tuple[Any, ...], None, None]:
        self._receive()
        name = f"rows_{next(_cursor_numbers)}"
        connection.send_once(f"DECLARE {name} NO SCROLL CURSOR FOR {statement_of(sql).sql}", params)
        connection.receive()
        try:
            while True:
                connection.send_once(f"FETCH {FETCH_ROWS} FROM {name}")
                rows = connection.rows(connection.receive()[-1])
                yield from rows
                if len(rows) < FETCH_ROWS:
                    return
        finally:
            if connection is self._connection:
                with suppress(ServerError):  # after another error, which is the one to raise
                    connection.send_once(f"CLOSE {name}")
                    connection.receive()

    def _read(self, sql: str, params: Sequence[Any]) -> Result:
        """Read outside of a transaction; on a connection that broke while idle, again.

        Raises NoTenant for a statement that writes: the server refuses it, also with RETURNING.
        """
        for is_last in self._tries():
            database = self.tenant.database
            connection = database.take()
            try:
                connection.send(READ_TENANT, (self.tenant.label, len(migrations.STEPS)))
                connection.send(sql, params)
                results = connection.receive()
                generation = results[0].get_value(0, 0)
                if self._generation not in (None, generation):
                    raise Busy  # restored meanwhile: a session reads one tenant, not two
                self._generation = generation
                return _result(connection, results[-1])
            except ConnectionLost:
                if is_last:
                    raise
            except ServerError as error:
                if error.sqlstate == READ_ONLY:  # that this transaction is, whatever the server
                    raise NoTenant("writing needs a transaction") from error
                if is_last or not self.tenant.recover(error, database):
                    raise
            finally:
                database.give(connection)
        raise AssertionError

    @staticmethod
    def _tries() -> Iterator[bool]:
        yield from (number == MAX_TRIES for number in range(1, MAX_TRIES + 1))

    def _send(self, connection: Connection, statement: Statement, params: Sequence[Any]) -> Result:
        if len(self._unread) >= MAX_UNREAD:
            self._receive()
        if statement.is_kept:
            connection.send(statement.sql, params)
        else:
            connection.send_once(statement.sql)
        result = Result([], None, self._receive)
        self._unread.append(result)
        return result

    def _receive(self) -> list[Any]:
        """Receive the results of all statements sent; raises the error of the first that failed."""
        if self._connection is None:
            return []
        unread, self._unread = self._unread, []
        if not unread:
            return []
        results = self._connection.receive()
        for result, received in zip(unread, results, strict=False):
            result.set_rowcount(received.command_tuples or 0)
        return results

    def _receive_rows(self) -> Result:
        assert self._connection is not None
        last = Result([], None)
        self._unread.append(last)
        results = self._receive()
        return _result(self._connection, results[-1])

    # Transactions

    def begin(self, wait_seconds: float) -> None:
        """Begin a transaction that writes, when it is its turn. Raises Busy, ServerError."""
        milliseconds = int(wait_seconds * 1000)
        version = len(migrations.STEPS)
        self._begin("BEGIN", WRITE_TENANT, (self.tenant.label, version, milliseconds))

    def begin_snapshot(self) -> None:
        """Begin to read as of one moment."""
        self._begin(BEGIN_SNAPSHOT, USE_TENANT, (self.tenant.label, len(migrations.STEPS)))

    def _begin(self, begin: str, use: str, params: Sequence[Any]) -> None:
        for is_last in self._tries():
            database = self.tenant.database
            connection = database.take()
            is_begun = False
            try:
                connection.send(begin)
                connection.send(use, params)
                generation = connection.receive()[-1].get_value(0, 0)
                if self._generation not in (None, generation):
                    raise Busy  # restored meanwhile: what was read so far is of the schema before
                self._generation = generation
                self._connection, is_begun = connection, True
                return
            except ConnectionLost:
                if is_last:
                    raise
            except ServerError as error:
                if error.sqlstate == "55P03":
                    raise Busy from error
                _end(connection)
                if is_last or not self.tenant.recover(error, database):
                    raise
            finally:
                if is_begun:
                    self._database = database
                else:
                    _end(connection)
                    database.give(connection)

    def commit(self) -> None:
        """Commit the transaction. Raises ServerError, after which rollback() ends it."""
        connection = self._connection
        assert connection is not None
        connection.send("COMMIT")
        self._unread.append(Result([], None))
        # A transaction in which a statement failed is rolled back by COMMIT, without an error.
        if self._receive()[-1].command_status != b"COMMIT":
            raise ServerError("the transaction was rolled back", "25P02")
        self._leave()

    def rollback(self) -> None:
        """Undo the transaction, or end the snapshot; does nothing outside of one."""
        if self._connection is not None:
            self._unread = []
            try:
                _end(self._connection)
            finally:
                self._leave()

    def _leave(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None and self._database is not None:
            self._database.give(connection)


def _end(connection: Connection) -> None:
    """Roll back what was begun. If that fails, giving the connection back closes it."""
    try:
        connection.discard()
        if not connection.closed and not connection.is_idle:
            connection.run("ROLLBACK")
    except ServerError:
        return


def _result(connection: Connection, result: Any) -> Result:
    rows = connection.rows(result)
    return Result(rows, result.command_tuples or 0, received=result)
