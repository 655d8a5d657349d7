"""Tenants of an installation with CRM_DATABASE: new ones live in PostgreSQL schemas.

The first database has the directory, which says in which database each tenant lives. A tenant that
is not in it lives in a file, as without CRM_DATABASE, until `tenant move` moves it.
"""

import errno
import logging
import math
import secrets
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from typing import Any

from crm.config import LABEL, Config
from crm.errors import Busy, Conflict, CRMError, TenantUnavailable
from crm.tenancy import disk, migrations
from crm.tenancy.database import (
    TenantSession,
    begin_session,
    end_session,
    time_text,
    transaction,
)
from crm.tenancy.engines import schema, schema_checks
from crm.tenancy.engines.database_tenants import DatabaseTenants
from crm.tenancy.engines.due_watcher import CHANNEL, DueWatcher
from crm.tenancy.engines.postgres import Connection, Database
from crm.tenancy.engines.schema_store import SchemaStore
from crm.tenancy.engines.schema_tenant import LOCKS_FOLDER, SchemaTenant
from crm.tenancy.file_errors import ServerError
from crm.tenancy.files import Tenant, UnknownTenant
from crm.tenancy.secret_key import KEY_BYTES
from crm.tenancy.steady_clock import SteadyClock, boot_seconds
from crm.tenancy.tenants import (
    BASE_HOST_FILE,
    INSERT_TENANT,
    label_taken,
)

# Drafts have notes too, and have labels that begin with a dot.
DUE_LABELS = """
    SELECT label FROM crm.due JOIN crm.tenant USING (label)
    WHERE at <= $1 AND label !~ '^[.]' ORDER BY at
"""

log = logging.getLogger("crm.tenants")


class SchemaTenants(DatabaseTenants):
    """All tenants of an installation with CRM_DATABASE."""

    def __init__(
        self,
        config: Config,
        clock: Callable[[], float] = time.time,
        uptime: Callable[[], float] | None = None,
    ):
        super().__init__(config, clock, uptime)
        # Ends the move of a tenant that is not found; returns whether there was one.
        self.resolve_move: Callable[[str], bool] = lambda label: False
        if clock is time.time:
            # Nodes whose clocks differ would take each other's leases as expired.
            self.steady_clock = SteadyClock(
                self.server_time,
                boot_seconds,
                config.data / "clock",
                is_new=lambda: not self.labels(),
            )

    def place(self, label: str) -> str:
        """Return where a tenant's data is, for the operator."""
        database = self.find_database(label)
        if database is None:
            return super().place(label)
        return f"{schema.schema_name(label)} in {database.name}"

    def check_schema(self, label: str, full: bool) -> tuple[int, list[str]]:
        """Return the version of a tenant's schema, and what is wrong with it."""
        database = self.find_database(label)
        if database is None:
            raise UnknownTenant
        return schema_checks.check(database, label, full)

    # Which tenants there are

    def labels(self) -> list[str]:
        """List the labels of all tenants in alphabetical order."""
        sql = "SELECT label FROM crm.directory UNION SELECT label FROM crm.move"
        in_schemas = [label for (label,) in self._query(sql)]
        return sorted({*self.file_labels(), *in_schemas})

    def recent_first(self) -> list[str]:
        """List the labels of tenants that may have deliveries to be sent.

        Those in files, the last written to first, and those in schemas that are noted as due.
        """
        due = self.due_labels(math.inf)
        return [*due, *(label for label in super().recent_first() if label not in due)]

    # Senders of several nodes

    def due_labels(self, until: float) -> list[str]:
        """List the labels of tenants in schemas that are to be looked at until then.

        `until` is in epoch seconds of the steady clock. A database that cannot be reached, which is
        in the log then, is left out.
        """
        labels = []
        for database in self.databases:
            with suppress(CRMError, ServerError):
                labels += [label for (label,) in self._query(DUE_LABELS, (until,), database)]
        return labels

    def notify_nodes(self, label: str) -> None:
        """Notify the senders of all nodes of work for a tenant in a schema. Never raises."""
        try:
            self._query("SELECT pg_notify($1, $2)", (CHANNEL, label))
        except Exception as error:  # after a commit: the poll finds it
            log.debug("no node was notified of work for %s: %s", label, error)

    def follow_nodes(self) -> AbstractContextManager[object]:
        """In a `with` block, notify the sender of this process of what is due on any node."""
        return DueWatcher(
            self.databases[0],
            list_due=lambda: self.due_labels(self.steady_clock.now()),
            notify=self.wakeup_pipe.notify,
        )

    def server_time(self) -> float:
        """Return epoch seconds by the clock of the first database's server.

        By this machine's clock until there was a connection to it.
        """
        offset = self.databases[0].clock_offset
        return time.time() if offset is None else boot_seconds() + offset

    def exists(self, label: str) -> bool:
        """Whether there is a tenant of that label."""
        if not LABEL.match(label):
            return False
        if super().exists(label) or self.find_database(label) is not None:
            return True
        return self.resolve_move(label) and self.exists(label)

    def lives_in_file(self, label: str) -> bool:
        """Whether a tenant lives in a file of this machine."""
        return self.find_database(label) is None and super().lives_in_file(label)

    def version(self, label: str) -> int:
        """Return the version of a tenant's schema or file, which is not migrated."""
        database = self.find_database(label)
        if database is None:
            return super().version(label)
        rows = self._query("SELECT version FROM crm.tenant WHERE label = $1", (label,), database)
        if not rows:
            raise UnknownTenant
        return rows[0][0]

    def has_base_host(self) -> bool:
        """Whether the base host has a schema; the first request to that host makes it."""
        return self.has_schema(BASE_HOST_FILE, self.databases[0])

    def migrate(self, label: str) -> int:
        """Bring a tenant's schema or file up to date, and return the version that it had.

        A schema that has no role gets one, with CRM_DATABASE_ROLES.
        """
        database = self.find_database(label)
        if database is None:
            return super().migrate(label)
        try:
            taken = self.schema_tenant(label, database).migrate()
        except ServerError as error:
            if error.sqlstate == schema.NO_TENANT:
                raise UnknownTenant from None
            raise
        return len(migrations.STEPS) - taken

    def read_first_row(
        self, label: str, sql: str, wait_seconds: float = 0
    ) -> tuple[Any, ...] | None:
        """Read the first row of one statement of a tenant."""
        tenant = self.tenant(label)
        if isinstance(tenant, Tenant):
            return super().read_first_row(label, sql, wait_seconds)
        return tenant.take(writes=False).execute(sql).fetchone()

    def _open(self, label: str) -> Any:
        database = self.find_database(label)
        if database is None:
            try:
                return super()._open(label)
            except UnknownTenant:
                if not self.resolve_move(label):
                    raise
                return self._open(label)
        # For counters and files on their way to clients, and for the locks of heavy work.
        disk.make_folder(self.config.data / LOCKS_FOLDER)
        if label == BASE_HOST_FILE:
            self._create_base_host_file()
        return self.schema_tenant(label, database)

    def schema_tenant(self, label: str, database: Database) -> SchemaTenant:
        """Return a tenant, or a draft of one, in this database."""
        return SchemaTenant(label, database, self, self._find_again, self.notify_nodes)

    def forget(self, label: str) -> None:
        """Forget where a tenant lived."""
        self._tenants.pop(label, None)

    def find_moved(self, label: str) -> Any:
        """Return the tenant anew that is not where it was; None if there is no such tenant."""
        self.forget(label)
        self.resolve_move(label)
        try:
            # Not tenant(): another thread may just put there again what it had found before.
            tenant = self._tenants[label] = self._open(label)
        except UnknownTenant:
            return None
        return tenant

    def _find_again(self, label: str, before: Database) -> Database | None:
        """Return the database to look in for a tenant whose schema is not in the one before."""
        is_resolved = self.resolve_move(label)
        tenant = self.find_moved(label)
        if tenant is None:
            return None
        if isinstance(tenant, Tenant):
            raise Busy  # a session cannot go on in a file; the next one finds it
        if is_resolved or tenant.database is not before:
            return tenant.database
        # A move may have come to its end since the schema was not found.
        return before if self.has_schema(label, before) else None

    # Creating and deleting

    def draft(self, label: str) -> SchemaTenant:
        """Return a tenant to be, whose schema is not created yet."""
        self.steady_clock.now()  # a new installation's clock is believed
        database = self.directory if label == BASE_HOST_FILE else self.choose_database()
        return self.schema_tenant(f".new-{label}-{secrets.token_hex(4)}", database)

    def fill_draft(
        self, draft: SchemaTenant, name: str, plan: str, on_created: Callable[[], None]
    ) -> None:
        """Create the schema of a draft, its row `tenant`, and what `on_created` adds."""
        schema.create(draft.database, draft.label, _draft_schema(draft.label))
        moment = time_text(int(self.clock()))

        def add_first_rows() -> None:
            with transaction():
                session.connection.execute(INSERT_TENANT, (name, plan, moment, moment))
                on_created()

        connection = draft.take(writes=True)
        session = TenantSession(_label_of(draft), connection, draft, self.clock)
        token = begin_session(session)
        try:
            add_first_rows()
        finally:
            end_session(token)
            draft.give(connection, writes=True)

    def schema_store(self, label: str) -> SchemaStore | None:
        """Return the tenant as a whole, or the place for a new one; None if it is in a file."""
        database = self.find_database(label)
        if database is None:
            if super().lives_in_file(label):
                return None
            database = self.choose_database()
        return SchemaStore(self, label, database, self.directory)

    def publish(self, draft: SchemaTenant) -> None:
        """Give a draft its label. Raises Conflict if the label was taken meanwhile."""
        label = _label_of(draft)
        with schema.writing(self.directory) as directory:
            schema.lock_directory(directory)
            if self._is_taken(directory, label):
                raise label_taken(label)
            self.enter(directory, label, draft.database)
            if draft.database is self.directory:
                schema.rename(directory, draft.label, label, schema.schema_name(label))
        # In another database the directory has the label first: if this process dies here, the
        # label is free, because there is no schema.
        if draft.database is not self.directory:
            with schema.writing(draft.database) as connection:
                schema.rename(connection, draft.label, label, schema.schema_name(label))

    def enter(self, directory: Connection, label: str, database: Database) -> None:
        """Note in the directory, inside a transaction, where a tenant lives."""
        if label != BASE_HOST_FILE:
            directory.run(
                "INSERT INTO crm.directory (label, database) VALUES ($1, $2)"
                " ON CONFLICT (label) DO UPDATE SET database = excluded.database",
                (label, self.name_of(database)),
            )

    def _is_taken(self, directory: Connection, label: str) -> bool:
        if super().lives_in_file(label):
            return True
        rows = directory.run("SELECT database FROM crm.directory WHERE label = $1", (label,))
        names = [name for (name,) in rows]
        if label == BASE_HOST_FILE:
            names.append("")
        return any(
            self.has_schema(label, database)
            for database in self.databases
            if self.name_of(database) in names
        )

    def delete_draft(self, draft: SchemaTenant | Tenant) -> None:
        """Delete what is left of a draft: everything, unless it was published."""
        if isinstance(draft, Tenant):
            super().delete_draft(draft)
            return
        try:
            with schema.writing(draft.database) as connection:
                schema.drop(connection, draft.label)
        except ServerError as error:
            log.warning("a draft of %s stays in its database: %s", _label_of(draft), error)

    def _create_base_host_file(self) -> None:
        if self.has_base_host():
            return
        draft = self.draft(BASE_HOST_FILE)
        try:
            self.fill_draft(draft, "", "start", lambda: None)
            try:
                self.publish(draft)
            except Conflict:
                return  # another process has created it meanwhile
        finally:
            self.delete_draft(draft)

    # What nodes share

    def secret_key(self) -> bytes:
        """Return the installation's secret key, which all nodes share, creating it if needed.

        Raises OSError if the database cannot be reached, as for a file that cannot be read.
        """
        try:
            return self._load_secret_key()
        except TenantUnavailable as error:
            raise OSError(errno.EHOSTUNREACH, "the database cannot be reached") from error

    def _load_secret_key(self) -> bytes:
        sql = "SELECT value FROM crm.setting WHERE name = 'secret_key'"
        rows = self._query(sql)
        if not rows:
            insert = (
                "INSERT INTO crm.setting (name, value) VALUES ('secret_key', $1)"
                " ON CONFLICT DO NOTHING"
            )
            # The key that the tenants in files were served with until now.
            path = self.config.data / "secret.key"
            key = path.read_bytes() if path.is_file() else b""
            key = key if len(key) == KEY_BYTES else secrets.token_bytes(KEY_BYTES)
            self._query(insert, (key,))
            rows = self._query(sql)
        return rows[0][0]

    def forget_idle(self) -> None:
        """Close every idle connection, for a clean stop."""
        super().forget_idle()
        for database in self.databases:
            database.close()


def _draft_schema(label: str) -> str:
    return f"draft_{label.rpartition('-')[2]}"


def _label_of(draft: SchemaTenant) -> str:
    """Return the label that a draft is to have: `acme` of `.new-acme-0123abcd`."""
    return draft.label.removeprefix(".new-").rpartition("-")[0]
