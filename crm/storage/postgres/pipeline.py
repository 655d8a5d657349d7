"""One connection to PostgreSQL: statements sent together and answered together, by libpq's calls.

The connection is in pipeline mode all the time. send() writes a statement without waiting;
receive() sends a mark, at which the server answers all statements before it. So reading a tenant's
row costs one round trip with the statement that selects the tenant. What libpq returns for it:

    send(READ_TENANT)                        PREPARE s1   a result, then None
                                             EXECUTE s1   a result, then None
    send("SELECT name FROM lead")            EXECUTE s7   a result, then None
    receive()                                SYNC         a result, and no None

A statement is prepared when a connection gets it first; that has a result of its own. After one
that failed the server skips all others up to the mark: each of them still has a result, "aborted".
Outside of BEGIN the statements up to a mark are one transaction, which the mark commits.

With psycopg's cursors in its own pipeline mode GET one takes 50 % longer, a list of 50 records 30 %
and a create 60 %, in process. They also forget all prepared statements at each ROLLBACK.
"""

import contextlib
import select
import threading
import time
from collections.abc import Iterator, Sequence
from itertools import count
from typing import Any

import psycopg
from psycopg import adapt, pq
from psycopg.types.string import TextLoader

from crm import activity
from crm.errors import Busy
from crm.steady_clock import boot_seconds
from crm.storage.file_errors import ServerError
from crm.storage.postgres.server_errors import ConnectionLost, error_of_result, first_line

MAX_STATEMENTS = 512  # prepared in one connection
# What is prepared: other statements, such as CREATE TABLE or SAVEPOINT, have a text only once.
PREPARED = ("SELECT", "INSERT", "UPDATE", "DELETE", "WITH", "BEGIN", "COMMIT")
KEYS = ("client_id = $", "lead_id = $", "deal_id = $", "record_id = $", "noun = $")  # few have one
# The threads that wait for a database that does not answer at once are few if it hangs, so that it
# takes no server's threads from other tenants.
QUICK_SECONDS = 0.25  # a thread that has waited so long, for an answer or connection, is counted
MAX_WAITING = 8  # in one process, of the threads of one database that hangs
HANG_SECONDS = 0.5  # MAX_WAITING threads wait so long, and none of them goes on: the database hangs
SUCCESS = (pq.ExecStatus.COMMAND_OK, pq.ExecStatus.TUPLES_OK)


class Waiters:
    """The threads of this process that wait for one database.

    However many there are, a database that lets one of them after the other go on does not hang.
    """

    def __init__(self) -> None:
        self._threads: set[int] = set()
        self._went_on_at = 0.0  # when one of them did last, or when they became MAX_WAITING

    def require_few(self) -> None:
        """Raise Busy if the database hangs."""
        if len(self._threads) >= MAX_WAITING and time.monotonic() - self._went_on_at > HANG_SECONDS:
            raise Busy

    @contextlib.contextmanager
    def wait(self) -> Iterator[None]:
        """Count this thread in a `with` block, in which it computes nothing."""
        self._threads.add(thread := threading.get_ident())
        if len(self._threads) == MAX_WAITING:
            self._went_on_at = time.monotonic()
        try:
            with activity.waiting():
                yield
            self._went_on_at = time.monotonic()
        finally:
            self._threads.discard(thread)


class BooleanLoader(adapt.Loader):
    """Booleans are read as SQLite has them: 0 and 1."""

    def load(self, data: Any) -> int:
        return 1 if bytes(data) == b"t" else 0


class NumericLoader(adapt.Loader):
    """The sum of integers is read as an integer."""

    def load(self, data: Any) -> int | float:
        text = bytes(data)
        return float(text) if b"." in text or b"N" in text else int(text)


class PipelineConnection(psycopg.Connection[Any]):
    """One connection to a database, which sessions of any tenant use in turn."""

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__(*args, **kwargs)
        for name, loader in (
            *(("json", TextLoader), ("jsonb", TextLoader)),
            *(("bool", BooleanLoader), ("numeric", NumericLoader)),
        ):
            self.adapters.register_loader(name, loader)
        self._names: dict[str, bytes] = {}  # of prepared statements, by their texts
        self._numbers = count(1)
        # What results are awaited of, in order: the text of a statement that is being prepared, or
        # None for one that is executed.
        self._sent: list[str | None] = []
        self.waiters = Waiters()  # those of its Database, once it is known
        self._transformer = adapt.Transformer(self)
        self._poll = select.poll()

    def start(self) -> tuple[float, float]:
        """Begin to use the connection; called once, when it is open.

        Returns the seconds from this machine's uptime to the server's epoch, and by how much they
        may be off.
        """
        self._poll.register(self.pgconn.socket, select.POLLIN)
        self.pgconn.nonblocking = 0
        sent_at = boot_seconds()
        ((server_time,),) = self.execute(
            "SELECT extract(epoch FROM clock_timestamp())::float8"
        ).fetchall()
        received_at = boot_seconds()
        self.pgconn.enter_pipeline_mode()
        return server_time - (sent_at + received_at) / 2, (received_at - sent_at) / 2

    @property
    def is_open(self) -> bool:
        """Whether the server has not ended the connection, which is idle."""
        return not self._poll.poll(0)  # an idle one is sent nothing but the reason of its end

    @property
    def is_idle(self) -> bool:
        """Whether the connection is open and outside of any transaction."""
        return not self._sent and self.pgconn.transaction_status == pq.TransactionStatus.IDLE

    def send(self, sql: str, params: Sequence[Any] = ()) -> None:
        """Send a statement in PostgreSQL's dialect; receive() gives its result."""
        values, formats = encode(params)
        pgconn = self.pgconn
        try:
            if name := self._names.get(sql) or self._prepare(sql):
                pgconn.send_query_prepared(name, values, formats)
            else:
                pgconn.send_query_params(sql.encode(), values, param_formats=formats)
        except psycopg.OperationalError as error:
            raise self._close(error) from error
        self._sent.append(None)

    def _prepare(self, sql: str) -> bytes:
        """Have a statement prepared and return its name; empty if it is not to be kept."""
        if not is_to_be_prepared(sql):
            return b""
        name = self._names[sql] = b"s%d" % next(self._numbers)
        self.pgconn.send_prepare(name, sql.encode())
        self._sent.append(sql)
        return name

    def receive(self, is_locking: bool = False) -> list[pq.abc.PGresult]:
        """Return the results of what was sent since the last time.

        `is_locking`: it waits for a lock, which says nothing about the server.
        Raises ServerError for the first statement that failed; those after it were not executed.
        """
        sent, self._sent = self._sent, []
        results: list[pq.abc.PGresult] = []
        failure: pq.abc.PGresult | None = None
        try:
            self.pgconn.pipeline_sync()
            for prepared in sent:
                result = self._next_result(is_locking)
                self._next_result()  # None, after each statement
                assert result is not None
                if result.status in SUCCESS:
                    if prepared is None:
                        results.append(result)
                    continue
                if prepared is not None:
                    del self._names[prepared]
                if failure is None:
                    failure = result
            self._next_result()  # of the mark
        except psycopg.OperationalError as error:
            raise self._close(error) from error
        if failure is not None:
            raise error_of_result(failure)
        if len(self._names) > MAX_STATEMENTS:
            self._names = {}
            self.run("DEALLOCATE ALL")
        return results

    def _next_result(self, is_locking: bool = False) -> pq.abc.PGresult | None:
        """Wait for the next result. libpq itself would wait without counting this thread."""
        pgconn = self.pgconn
        while pgconn.is_busy():
            if not self._poll.poll(QUICK_SECONDS * 1000):
                with (Waiters() if is_locking else self.waiters).wait():
                    self._poll.poll()
            pgconn.consume_input()
        return pgconn.get_result()

    def run(self, sql: str, params: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Send one statement in PostgreSQL's dialect and return its rows."""
        self.send(sql, params)
        return self.rows(self.receive()[-1])

    def rows(self, result: pq.abc.PGresult) -> list[tuple[Any, ...]]:
        """Return all rows of a result."""
        if not result.nfields:
            return []
        self._transformer.set_pgresult(result)
        return self._transformer.load_rows(0, result.ntuples, tuple)

    def commit_transaction(self) -> list[pq.abc.PGresult]:
        """Send COMMIT and return the results of what was sent since the last time, its own too.

        Raises ServerError if the transaction was rolled back instead: a statement in it has failed.
        """
        self.send("COMMIT")
        results = self.receive()
        if results[-1].command_status != b"COMMIT":
            raise ServerError("the transaction was rolled back", "25P02")
        return results

    def roll_back(self) -> None:
        """Undo a transaction, if there is one; never raises.

        If that fails the connection is not idle, and closed when it is given back.
        """
        with contextlib.suppress(ServerError):
            if self._sent:
                with contextlib.suppress(ServerError):
                    self.receive()
            if not self.closed and not self.is_idle:
                self.run("ROLLBACK")

    def _close(self, error: psycopg.Error) -> ConnectionLost:
        """Close the connection, which is lost, and return the error to raise."""
        self.pgconn.finish()
        return ConnectionLost(first_line(error))


def is_to_be_prepared(sql: str) -> bool:
    """Whether a statement comes again, and one plan is good for all its values.

    That of a figure over a period is not: by one plan for all periods it takes five times as long.
    Such a statement ends in GROUP BY, behind the parentheses of groups that are part of a record.
    That of a list with a filter is not either: for a value that few records have, the plan for the
    usual ones reads all records, and to plan it again takes 0.2 ms. Of one record's tasks or
    changes it is: they are few.
    """
    end = sql[sql.rfind(")") + 1 :]
    has_filter = " IN ($" in sql or sql.count(" = $") > sum(map(sql.count, KEYS))
    is_list = " LIMIT $" in end and has_filter
    is_figure = " GROUP BY " in end and " >= $" in sql
    return sql.lstrip().startswith(PREPARED) and not is_list and not is_figure


def encode(params: Sequence[Any]) -> tuple[list[bytes | None], list[int] | None]:
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
