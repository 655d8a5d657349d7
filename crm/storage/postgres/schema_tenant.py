"""A tenant that lives in a PostgreSQL schema: the source of a session's connections."""

import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from crm.errors import Busy, CRMError, DatabaseUnavailable, TenantUnavailable, UnknownTenant
from crm.storage import file_errors, upgrades
from crm.storage.connection_source import ConnectionSource
from crm.storage.file_errors import ServerError
from crm.storage.heavy_work import HeavyWorkLock
from crm.storage.postgres import schema, schema_archive, schema_checks
from crm.storage.postgres.connections import Database
from crm.storage.postgres.schema_connection import SchemaConnection
from crm.storage.postgres.schema_contents import SchemaContents
from crm.storage.postgres.schema_uploads import SchemaUploads
from crm.storage.session import TenantSession, current_session
from crm.storage.sqlite.archive import quoted

LOCKS_FOLDER = "locks"  # in the data folder
# SQLSTATEs whose cause the operator removes: no room or memory, cancelled, a standby, damaged.
OPERATORS_STATES = ("53", "57014", "25006", "XX")
SIZE_SECONDS = 30.0  # for which a tenant's size is not measured again
MAX_GROWTH = 128 << 20  # bytes by which a tenant can grow in a second; imports take 20 MB
SCRUB_SECONDS = 10.0  # for which a scrub waits for transactions that began before
OLDER_TRANSACTIONS = """
    SELECT count(*) FROM pg_stat_activity
    WHERE datname = current_database() AND age(backend_xmin) > age(%s::text::xid)
"""


class SchemaTenant(ConnectionSource):
    """A tenant's schema, as sessions use it."""

    engine_name = "postgres"
    has_one_sender = False

    def __init__(self, label: str, database: Database, installation: Any):
        super().__init__(label, installation)
        self.database = database
        self.uploads = SchemaUploads(self)
        self.contents = SchemaContents(self)
        # Of this node alone: it protects this machine's processor.
        self.heavy_work_lock = HeavyWorkLock(
            self.config.data / LOCKS_FOLDER / f"{label.lstrip('.')}.lock"
        )
        self._unavailable = installation.unavailable
        self.remembered: dict[Any, list[tuple[Any, ...]]] = {}  # see SchemaConnection.remember()
        self._size = 0, float("-inf")  # bytes, and when they were measured

    def take(self, writes: bool) -> SchemaConnection:
        """Return what a session executes its statements through; nothing is sent yet."""
        return SchemaConnection(self)

    def give(self, connection: SchemaConnection, writes: bool) -> None:
        """End the work of a session; a transaction that is open is rolled back."""
        connection.rollback()

    def begin(self, session: TenantSession) -> None:
        """Begin a transaction that writes, when it is the session's turn. Raises Busy."""
        try:
            session.connection.begin(session.lock_wait_seconds)
        except Busy as error:
            if session.lock_wait_seconds and isinstance(error.__cause__, ServerError):
                # Of the transaction that has the turn, if its node stopped a minute ago.
                with suppress(Busy, ServerError):  # such as of another user's transaction
                    schema.read(self.database, "SELECT crm.end_stalled($1)", (self.label,))
            raise

    def commit(self, session: TenantSession) -> None:
        session.connection.commit()

    def rollback(self, session: TenantSession) -> None:
        session.connection.rollback()

    def refusal(self, error: BaseException) -> CRMError | None:
        """Return the error to raise for an error of the server; None if it is another's."""
        if not isinstance(error, ServerError):
            return file_errors.refusal(error)
        if error.sqlstate == schema.NO_TENANT:
            return UnknownTenant()
        cause = file_errors.cause_of(error)
        if cause is DatabaseUnavailable:
            return self._unavailable.report_server(self.database.name, error)
        if error.sqlstate.startswith(OPERATORS_STATES):
            whose = self.label if cause is TenantUnavailable else ""
            self._unavailable.report_refusal(self.database.name, error, whose)
        return cause() if cause else None

    def note_due(self, at: float | None) -> None:
        """Note in the current transaction when a sender is to look at the tenant's deliveries.

        Senders of all nodes find the note, also if this node fails.
        """
        current_session().connection.note_due(at)

    def scrub(self, tables: Iterable[str]) -> None:
        """Write tables anew, without the rows that were deleted.

        Rows that a transaction of any tenant may still read would stay in them, so it waits for
        those that began before. Raises Busy if one takes long.
        """
        name, _ = schema.find(self.database, self.label)
        with self.database.connect() as connection:
            ((now,),) = connection.read("SELECT pg_current_xact_id()::xid::text")
            until = time.monotonic() + SCRUB_SECONDS
            while connection.read(OLDER_TRANSACTIONS, now) != [(0,)]:
                if time.monotonic() > until:
                    raise Busy("a transaction that began before may read what was deleted")
                time.sleep(0.05)
            for table in tables:
                connection.execute(f"VACUUM (FULL) {quoted(name)}.{quoted(table)}".encode())

    def is_due_noted(self, at: float | None) -> bool:
        """Whether a sender is going to look at the tenant's deliveries then, and not before."""
        sql = "SELECT at FROM crm.due WHERE label = $1"
        rows = schema.read(self.database, sql, (self.label,))
        if at is None or not rows:
            return at is None and not rows
        noted, now = rows[0][0], self.steady_clock.now()
        # A note of the past makes all nodes look again and again.
        return noted <= at and (noted > now or at <= now)

    def wake_sender(self) -> None:
        """Notify the sender of this node of work for the tenant, or else those of others."""
        if not self.label.startswith(".") and not self.wakeup_pipe.notify(self.label):
            self.installation.notify_nodes(self.label)

    def recent_bytes(self, quota: int, measure: Callable[[], int]) -> int:
        """Return the size of the tenant's tables, measured now or some seconds ago.

        Measuring takes 2 ms. It is done again once a smaller tenant can have reached the quota.
        """
        measured, measured_at = self._size
        seconds = SIZE_SECONDS
        if measured < quota:
            seconds = min(seconds, (quota - measured) / MAX_GROWTH)
        if time.monotonic() - measured_at > seconds:
            self._size = measure(), time.monotonic()
        return self._size[0]

    def write_archive(self, to: Path) -> None:
        """Write the tenant to a path where nothing is, as one SQLite file of the same version.

        Raises UnknownTenant, DatabaseUnavailable, BadCopy, or what SQLite and the disk say.
        """
        try:
            schema_archive.write(self.database, self.label, to)
        except ServerError as error:
            to.unlink(missing_ok=True)
            if not self.recover(error):
                raise self.refusal(error) or error from error
            schema_archive.write(self.database, self.label, to)

    @property
    def place(self) -> str:
        """Where the tenant's data is, for the operator."""
        return f"the database {self.database.name}"

    def read_first_row(self, sql: str, wait_seconds: float = 0) -> tuple[Any, ...] | None:
        """Read the first row of one statement; readers wait for no writer."""
        return self.take(writes=False).execute(sql).fetchone()

    def version(self) -> int:
        """Return the version of the schema, which is not migrated. Raises UnknownTenant."""
        return schema.find(self.database, self.label)[1]

    def check(self, full: bool) -> tuple[int, list[str]]:
        """Return the version of the schema, and what is wrong with it. Raises UnknownTenant."""
        return schema_checks.check(self.database, self.label, full)

    def migrate(self) -> int:
        """Bring the schema up to date, if it is older, and return the version that it had.

        It is copied first. Raises UnknownTenant, NewerFile, NotUpgraded, Busy, ServerError.
        """
        copy = partial(upgrades.keep_archive, self, write=self.write_archive)
        return schema.migrate(self.database, self.label, copy)

    def recover(self, error: ServerError) -> bool:
        """Remove the cause of an error of reading the tenant; returns whether to try again.

        A schema of an older version is migrated. Raises Busy if the tenant lives in a file now.
        """
        if error.sqlstate == schema.OTHER_VERSION:
            self.migrate()
            return True
        is_gone = error.sqlstate == schema.NO_TENANT and not self.label.startswith(".")
        if is_gone and self.installation.find_moved(self.label) is not None:
            raise Busy  # a session cannot go on in a file; the next one finds it
        # Else the schema that was selected has been replaced, and dropped, since.
        return error.sqlstate == schema.NO_TABLE
