"""A tenant that lives in a PostgreSQL schema: the source of a session's connections."""

import time
from collections.abc import Callable
from pathlib import Path

from crm.errors import Busy, CRMError
from crm.tenancy import file_errors, upgrades
from crm.tenancy.database import TenantSession, current_session
from crm.tenancy.engines import schema, schema_archive
from crm.tenancy.engines.postgres import Database
from crm.tenancy.engines.schema_connection import SchemaConnection
from crm.tenancy.engines.schema_uploads import SchemaUploads
from crm.tenancy.file_errors import Cause, ServerError
from crm.tenancy.files import Installation, UnknownTenant
from crm.tenancy.heavy_work import HeavyWorkLock
from crm.tenancy.writer_lock import MAX_LOCK_WAIT_SECONDS

MEGABYTE = 1 << 20
LOCKS_FOLDER = "locks"  # in the data folder
OPERATORS_CAUSES = (Cause.FULL, Cause.READ_ONLY, Cause.UNUSABLE)  # which the operator removes
SIZE_SECONDS = 30.0  # for which a tenant's size is not measured again


class SchemaTenant:
    """A tenant's schema, as sessions use it."""

    engine_name = "postgres"
    has_one_sender = False

    def __init__(
        self,
        label: str,
        database: Database,
        installation: Installation,
        find_again: Callable[[str, Database], Database | None],
        notify_nodes: Callable[[str], None],
    ):
        """`find_again` is called when the schema is not in the database (any more), and returns
        the database to look in now; None if there is no such tenant. `notify_nodes` notifies the
        senders of other nodes."""
        self.label, self.database = label, database
        self.config, self.wakeup_pipe = installation.config, installation.wakeup_pipe
        self.on_event, self.steady_clock = installation.on_event, installation.steady_clock
        self.next_sweep_at = 0.0  # seconds of uptime
        self.uploads = SchemaUploads(self)
        # Of this node alone: it protects this machine's processor.
        self.heavy_work_lock = HeavyWorkLock(
            self.config.data / LOCKS_FOLDER / f"{label.lstrip('.')}.lock"
        )
        self._unavailable, self._clock = installation.unavailable, installation.clock
        self._find_again, self._notify_nodes = find_again, notify_nodes
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
                schema.end_stalled(self.database, self.label)
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
        if cause is Cause.NO_SERVER:
            return self._unavailable.report_server(self.database.name, error)
        if cause in OPERATORS_CAUSES or error.sqlstate.startswith("53"):
            whose = self.label if cause is Cause.UNUSABLE else ""
            self._unavailable.report_refusal(self.database.name, error, whose)
        return file_errors.refusal(error)

    def note_due(self, at: float | None) -> None:
        """Note in the current transaction when a sender is to look at the tenant's deliveries.

        Senders of all nodes find the note, also if this node fails.
        """
        current_session().connection.note_due(at)

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
            self._notify_nodes(self.label)

    def recent_bytes(self, measure: Callable[[], int]) -> int:
        """Return the size of the tenant's tables, measured now or some seconds ago.

        Measuring takes a millisecond. Near a quota it is done each time.
        """
        quota = self.config.smallest_quota * MEGABYTE
        measured, measured_at = self._size
        if measured > quota // 2 or time.monotonic() - measured_at > SIZE_SECONDS:
            self._size = measure(), time.monotonic()
        return self._size[0]

    def write_archive(self, to: Path) -> None:
        """Write the tenant to a path where nothing is, as one SQLite file of the same version.

        Raises UnknownTenant, DatabaseUnavailable, BadCopy, or what SQLite and the disk say.
        """
        database = self.database
        try:
            schema_archive.write(database, self.label, to)
        except ServerError as error:
            to.unlink(missing_ok=True)
            if not self.recover(error, database):
                raise self.refusal(error) or error from error
            schema_archive.write(self.database, self.label, to)

    def migrate(self) -> int:
        """Bring the schema up to date, if it is older: it is copied first; returns the steps taken.

        Raises NewerFile, NotUpgraded, Busy, ServerError.
        """
        return schema.migrate(
            self.database, self.label, self.label, MAX_LOCK_WAIT_SECONDS, self._copy_before_upgrade
        )

    def _copy_before_upgrade(self, version: int) -> None:
        upgrades.keep_archive(
            self.label, version, self.config.data, self._clock(), self.write_archive
        )

    def recover(self, error: ServerError, database: Database) -> bool:
        """Remove the cause of an error of selecting the tenant; returns whether to try again.

        `database` is where the error came from. A schema of an older version is
        migrated, and a tenant that was moved is found.
        """
        if error.sqlstate == schema.OTHER_VERSION:
            self.migrate()
            return True
        if error.sqlstate == schema.NO_TENANT and not self.label.startswith("."):
            if self.database is not database:
                return True  # another thread has found it meanwhile
            found = self._find_again(self.label, database)
            if found is not None:
                self.database = found
                return True
        return False
