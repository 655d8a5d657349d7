"""What a session executes statements through, for a tenant that lives in a PostgreSQL schema.

Outside of a transaction each statement takes a connection from the pool for one round trip, in
which the tenant is selected too. Nothing of a session is left in the connection, so a session that
waits for something slow holds none.

Inside a transaction a statement is sent, and its result received when somebody looks at a result,
or with that of COMMIT: then the error of a statement is raised. So an import sends hundreds of rows
in one round trip.
"""

import re
from collections.abc import Generator, Iterator, Sequence
from contextlib import suppress
from functools import lru_cache
from itertools import count
from typing import Any

from crm.errors import Busy, NoTenant, Outdated
from crm.storage.file_errors import ServerError
from crm.storage.postgres.pipeline import PipelineConnection
from crm.storage.postgres.server_errors import ConnectionLost
from crm.storage.postgres.spelling import MAX_CACHED_TEXTS, spell, spell_insert
from crm.storage.sqlite import migrations
from crm.storage.sqlite.connection import MAX_REMEMBERED_QUERIES

# Each begins what is sent: it selects the tenant, and returns the generation of its schema. The
# function says why a tenant cannot be read; for others it would take twice as long as this CASE.
READ_TENANT = """
    SELECT CASE WHEN generation IS NULL THEN crm.read_tenant($1, $2)
        WHEN set_config('search_path', quote_ident(schema), true) IS NOT NULL
            AND set_config('transaction_read_only', 'on', true) IS NOT NULL THEN generation END
    FROM (SELECT 1) AS one LEFT JOIN crm.tenant ON label = $1 AND version = $2
"""
WRITE_TENANT = "SELECT crm.write_tenant($1, $2, $3)"
BEGIN_SNAPSHOT = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
LOCK_TIMEOUT, READ_ONLY = "55P03", "25006"  # SQLSTATEs
MAX_UNREAD = 512  # statements sent before their results are received
FETCH_ROWS = 200  # of a query that is read in parts
MAX_TRIES = 16  # with connections that turn out to be broken when they are first used
ROWS_TOGETHER = 50  # inserted by one statement, of many: a statement each takes twice as long
INSERT = re.compile(r"(?P<head>INSERT INTO [^()]+\([^()]+\) VALUES )(?P<values>\([^()]+\))\Z")
PARAMETER = re.compile(r"\$(\d+)")

_cursor_numbers = count()


class Cursor:
    """A statement and its result, like a cursor of sqlite3; all rows are in memory."""

    __slots__ = ("_connection", "_result", "_rows")

    def __init__(self, connection: "SchemaConnection"):
        self._connection = connection
        self._result: Any = None  # libpq's
        self._rows: Iterator[tuple[Any, ...]] = iter(())

    def set_result(self, connection: PipelineConnection, result: Any) -> None:
        self._result, self._rows = result, iter(connection.rows(result))

    @property
    def rowcount(self) -> int:
        """How many rows the statement changed or returned."""
        self._connection.receive()
        return (self._result and self._result.command_tuples) or 0

    def fetchall(self) -> list[tuple[Any, ...]]:
        return list(self)

    def fetchone(self) -> tuple[Any, ...] | None:
        return next(iter(self), None)

    def close(self) -> None:
        """Nothing to close: all rows were received."""

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        self._connection.receive()
        return self._rows


class SchemaConnection:
    """Executes one session's statements. Not a database connection: it takes those as needed."""

    def __init__(self, tenant: Any):
        """`tenant` is the `schema_tenant.SchemaTenant` whose schema it is."""
        self.tenant = tenant
        self._connection: PipelineConnection | None = None  # of the transaction or snapshot
        self._generation: bytes | None = None  # of the schema, as first seen
        self._unread: list[Cursor] = []
        self.can_begin_again = False  # the request does so after Outdated
        self._assumed: dict[Any, list[tuple[Any, ...]]] = {}  # by remember(), to be read again

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction or a snapshot was begun."""
        return self._connection is not None

    # Statements

    def execute(self, sql: str, params: Sequence[Any] = ()) -> Cursor:
        """Execute a statement in SQLite's spelling. Raises ServerError.

        Raises NoTenant for one that writes outside of a transaction.
        """
        return self._run(spell(sql), params)

    def remember(self, sql: str, params: Sequence[Any]) -> list[tuple[Any, ...]]:
        """Return the rows of a query; in a request that can begin again, as they were last.

        They are read with the next statement, in one round trip. That raises Outdated if they are
        others by now: nothing else tells whether another node has committed.
        """
        known, key = self.tenant.remembered, (sql, *params)
        if self.can_begin_again and (rows := known.get(key)):
            return self._assumed.setdefault(key, rows)
        if len(known) > MAX_REMEMBERED_QUERIES:
            known.clear()
        known[key] = self.execute(sql, params).fetchall()
        return known[key]

    def check_remembered(self) -> None:
        """Raise Outdated if rows that remember() has returned are others by now."""
        if self._assumed:
            self._run("SELECT 1")

    def count_rows(self, sql: str, params: Sequence[Any], *_: Any) -> int:
        """Return what a query counts."""
        return self.remember(sql, params)[0][0]

    def insert(self, sql: str, params: Sequence[Any]) -> int:
        """Execute an INSERT of one row and return its id."""
        return self._run(spell_insert(sql), params).fetchall()[0][0]

    def executemany(self, sql: str, params: Sequence[Sequence[Any]]) -> None:
        """Execute a statement that writes once for each sequence of parameters."""
        text, start = spell(sql), 0
        if insert := insert_of_rows(text):
            for start in range(ROWS_TOGETHER, len(params) + 1, ROWS_TOGETHER):
                rows = params[start - ROWS_TOGETHER : start]
                self._run(insert, [value for row in rows for value in row])
        for values in params[start:]:
            self._run(text, values)

    def used_bytes(self) -> int:
        """Return the size of the tables and indexes without what deleted rows left: an estimate."""
        return self._run("SELECT crm.used_bytes()").fetchall()[0][0]

    def allocated_bytes(self, quota: int) -> int:
        """Return the size of the tenant's tables and indexes, exact only near below a quota."""
        sql = "SELECT crm.allocated_bytes()"
        return self.tenant.recent_bytes(quota, lambda: self._run(sql).fetchall()[0][0])

    def note_due(self, at: float | None) -> None:
        """Note in the transaction when to look at the tenant's deliveries: None for never."""
        self._run("SELECT crm.note_due($1, $2)", (self.tenant.label, at))

    def analyze(self, table: str) -> None:
        """Have the planner's statistics of a table made in the transaction.

        Autovacuum does it within a minute or two; until then a list may sort the whole table.
        """
        self._run(f'ANALYZE "{table}"')

    def stream(
        self, sql: str, params: Sequence[Any] = ()
    ) -> Generator[tuple[Any, ...], None, None]:
        """Yield the rows of a query, of which few are in memory at a time."""
        reader = self
        if self._connection is None:
            reader = SchemaConnection(self.tenant)
            reader.begin_snapshot()
        connection, name = reader._connection, f"rows_{next(_cursor_numbers)}"
        try:
            reader._run(f"DECLARE {name} NO SCROLL CURSOR FOR {spell(sql)}", params)
            while True:
                rows = reader._run(f"FETCH {FETCH_ROWS} FROM {name}").fetchall()
                yield from rows
                if len(rows) < FETCH_ROWS:
                    return
        finally:
            if reader is not self:
                reader.rollback()
            elif connection is self._connection:  # the transaction goes on
                with suppress(ServerError):  # after another error, which is the one to raise
                    self._run(f"CLOSE {name}")
                    self.receive()

    def _run(self, sql: str, params: Sequence[Any] = ()) -> Cursor:
        """Execute a statement in PostgreSQL's dialect; an empty one does nothing."""
        cursor = Cursor(self)
        if not sql:
            return cursor
        if self._connection is not None:
            if len(self._unread) >= MAX_UNREAD:
                self.receive()
            self._connection.send(sql, params)
            self._unread.append(cursor)
            return cursor
        use = READ_TENANT, (self.tenant.label, len(migrations.STEPS))
        connection, results = self._select_tenant(use, (sql, params))
        try:
            cursor.set_result(connection, results[1])
        finally:
            self.tenant.database.give(connection)
        return cursor

    def receive(self) -> None:
        """Receive the results of all statements sent; raises the error of the first that failed."""
        if self._unread and self._connection is not None:
            unread, self._unread = self._unread, []
            for cursor, result in zip(unread, self._connection.receive(), strict=True):
                cursor.set_result(self._connection, result)

    # Transactions

    def begin(self, wait_seconds: float) -> None:
        """Begin a transaction that writes, when it is its turn. Raises Busy, ServerError."""
        milliseconds = int(wait_seconds * 1000)
        use = WRITE_TENANT, (self.tenant.label, len(migrations.STEPS), milliseconds)
        self._connection, _ = self._select_tenant(("BEGIN", ()), use)

    def begin_snapshot(self) -> None:
        """Begin to read as of one moment."""
        use = READ_TENANT, (self.tenant.label, len(migrations.STEPS))
        self._connection, _ = self._select_tenant((BEGIN_SNAPSHOT, ()), use)

    def _select_tenant(
        self, *statements: tuple[str, Sequence[Any]]
    ) -> tuple[PipelineConnection, list[Any]]:
        """Send statements, of which one selects the tenant, on a connection from the pool.

        Returns the connection, which is the caller's to give back, and the results. On a connection
        that broke while it was idle, or if the tenant can be brought up to date, it is tried again.
        Rows as remembered are read after them. Raises Busy, NoTenant, ServerError, Outdated.
        """
        begins, database = statements[0][0].startswith("BEGIN"), self.tenant.database
        assumed, self._assumed = self._assumed, {}
        queries = [(spell(sql), params) for sql, *params in assumed]
        for tries_left in range(MAX_TRIES - 1, -1, -1):
            connection = database.take()
            try:
                for sql, params in (*statements, *queries):
                    connection.send(sql, params)
                results = connection.receive(is_locking=statements[-1][0] is WRITE_TENANT)
                generation = results[begins].get_value(0, 0)
                if self._generation not in (None, generation):
                    raise Busy  # restored meanwhile: a session reads one tenant, not two
                self._generation = generation
                if [*map(connection.rows, results[len(statements) :])] != [*assumed.values()]:
                    raise Outdated
                return connection, results
            except BaseException as error:
                connection.roll_back()
                database.give(connection)
                if not isinstance(error, ServerError):
                    raise
                if error.sqlstate == LOCK_TIMEOUT:
                    raise Busy from error
                if error.sqlstate == READ_ONLY and not begins:  # the transaction, not the server
                    raise NoTenant("writing needs a transaction") from error
                is_lost = isinstance(error, ConnectionLost)
                if not tries_left or not (is_lost or self.tenant.recover(error)):
                    raise
        raise AssertionError

    def commit(self) -> None:
        """Commit the transaction. Raises ServerError, after which rollback() ends it."""
        connection = self._connection
        assert connection is not None
        unread, self._unread = self._unread, []
        for cursor, result in zip(unread, connection.commit_transaction(), strict=False):
            cursor.set_result(connection, result)
        self.tenant.remembered.clear()
        self._leave()

    def rollback(self) -> None:
        """Undo the transaction, or end the snapshot; does nothing outside of one."""
        self._unread = []
        if self._connection is not None:
            self._connection.roll_back()
            self._leave()

    def _leave(self) -> None:
        """Give back the connection of the transaction that has ended."""
        connection, self._connection = self._connection, None
        assert connection is not None
        self.tenant.database.give(connection)


@lru_cache(MAX_CACHED_TEXTS)
def insert_of_rows(sql: str) -> str:
    """Return the INSERT of ROWS_TOGETHER rows for one of a row; empty for another statement.

    Its parameters are those of the rows, one after the other.
    """
    match = INSERT.match(sql)
    if match is None:
        return ""
    numbers = [int(number) for number in PARAMETER.findall(match["values"])]
    if numbers != list(range(1, len(numbers) + 1)):
        return ""

    def values_of(row: int) -> str:
        first = row * len(numbers)
        return PARAMETER.sub(lambda number: f"${int(number[1]) + first}", match["values"])

    return match["head"] + ", ".join(map(values_of, range(ROWS_TOGETHER)))
