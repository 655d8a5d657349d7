"""Tenants in PostgreSQL schemas: those of CRM_DATABASE. New ones of the installation live here.

Tenants that had files before keep them.
"""

import errno
import logging
import math
import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, suppress

from crm.errors import Busy, CRMError, TenantUnavailable
from crm.steady_clock import boot_seconds
from crm.storage import disk
from crm.storage.engine import BASE_HOST_FILE, create_base_host, label_taken
from crm.storage.file_errors import ServerError
from crm.storage.postgres import schema
from crm.storage.postgres.connections import Connection, Database
from crm.storage.postgres.database_checks import DatabaseCheck, checks_of
from crm.storage.postgres.directory import FIND, Directory
from crm.storage.postgres.due_watcher import CHANNEL, DueWatcher
from crm.storage.postgres.schema_tenant import LOCKS_FOLDER, SchemaTenant
from crm.storage.sqlite.engine import FileEngine
from crm.storage.sqlite.tenant import Installation

# Drafts have notes too, and have labels that begin with a dot.
DUE_LABELS = """
    SELECT label FROM crm.due JOIN crm.tenant USING (label)
    WHERE at <= $1 AND label !~ '^[.]' ORDER BY at
"""

log = logging.getLogger("crm.tenants")


class PostgresEngine:
    """The tenants of the databases of CRM_DATABASE, and what nodes share in the first of them."""

    def __init__(self, installation: Installation, files: FileEngine):
        """Nothing is connected yet. `files` are those of this node. Raises ConfigError."""
        self._installation = installation
        self.directory = Directory(installation.config, files, installation.unavailable)

    # Which tenants there are

    def labels(self) -> list[str]:
        """List the labels that the directory has, without those of files of other nodes."""
        sql = "SELECT label FROM crm.directory WHERE database !~ '^/' OR database = $1"
        rows = self.directory.query(sql, (self.directory.file_place,))
        return [label for (label,) in rows]

    def recent_first(self) -> list[str]:
        """List the labels of tenants that are noted as due, the earliest first."""
        return self.due_labels(math.inf)

    def has(self, label: str) -> bool:
        """Whether the directory has a label, on any node, or the base host has a schema."""
        if label == BASE_HOST_FILE:
            return self.directory.has_schema(label, self.directory.databases[0])
        return self.directory.has(label)

    def open(self, label: str) -> SchemaTenant | None:
        """Return the tenant of that label; None if it lives in a file or nowhere.

        Raises TenantElsewhere, DatabaseUnavailable.
        """
        database = self.directory.find_database(label)
        if database is None:
            return None
        # For counters and files on their way to clients, and for the locks of heavy work.
        disk.make_folder(self._installation.config.data / LOCKS_FOLDER)
        if label == BASE_HOST_FILE:
            create_base_host(self._installation, self)
        return self.tenant_in(database, label)

    def tenant_in(self, database: Database, label: str) -> SchemaTenant:
        """Return a tenant, or a draft of one, in this database."""
        return SchemaTenant(label, database, self._installation, self)

    def find_again(self, label: str, before: Database) -> Database | None:
        """Return the database to look in for a tenant whose schema is not in the one before."""
        tenant = self._installation.find_moved(label)
        if tenant is None:
            return None
        if tenant.engine_name != SchemaTenant.engine_name:
            raise Busy  # a session cannot go on in a file; the next one finds it
        if tenant.database is not before:
            return tenant.database
        # A move may have come to its end since the schema was not found.
        return before if self.directory.has_schema(label, before) else None

    # Creating and deleting

    def draft(self, label: str) -> SchemaTenant:
        """Return a tenant to be, whose schema is not created yet. Raises Conflict."""
        self._installation.steady_clock.now()  # a new installation's clock is believed
        is_base_host = label == BASE_HOST_FILE
        database = self.directory.main if is_base_host else self.directory.choose_database()
        return self.tenant_in(database, f".new-{label}-{secrets.token_hex(4)}")

    def create_tables(self, draft: SchemaTenant) -> None:
        """Create a draft with its tables, which are empty."""
        schema.create(draft.database, draft.label, f"draft_{draft.label.rpartition('-')[2]}")

    def publish(self, draft: SchemaTenant) -> None:
        """Give a draft its label. Raises Conflict if the label was taken meanwhile."""
        label, main = _label_of(draft), self.directory.main
        with schema.writing(main) as directory:
            schema.lock_directory(directory)
            if self._is_taken(directory, label):
                raise label_taken(label)
            if label != BASE_HOST_FILE:
                directory.run(
                    "INSERT INTO crm.directory (label, database) VALUES ($1, $2)"
                    " ON CONFLICT (label) DO UPDATE SET database = excluded.database",
                    (label, self.directory.name_of(draft.database)),
                )
            if draft.database is main:
                schema.publish(directory, draft.label, label)
        # In another database the directory has the label first: if this process dies here, the
        # label is free, because there is no schema.
        if draft.database is not main:
            with schema.writing(draft.database) as connection:
                schema.publish(connection, draft.label, label)

    def delete_draft(self, draft: SchemaTenant) -> None:
        """Delete what is left of a draft: everything, unless it was published."""
        try:
            with schema.writing(draft.database) as connection:
                schema.drop(connection, draft.label)
        except ServerError as error:
            log.warning("a draft of %s stays in its database: %s", _label_of(draft), error)

    def leave_directory(self, label: str) -> None:
        """Delete a tenant from the directory, unless it is where that says."""
        with schema.writing(self.directory.main) as directory:
            schema.lock_directory(directory)
            if not self._is_taken(directory, label):
                directory.run("DELETE FROM crm.directory WHERE label = $1", (label,))

    def _is_taken(self, directory: Connection, label: str) -> bool:
        if label == BASE_HOST_FILE:
            return self.has(label)
        if self.directory.files.has(label):
            return True
        return self.directory.is_found(label, directory.run(FIND, (label,)))

    # What nodes share

    def setting(self, name: str, make: Callable[[], bytes]) -> bytes:
        """Return a value that all nodes share, which `make` gives if there is none.

        Raises OSError if the database cannot be reached, as for a file that cannot be read.
        """
        sql = "SELECT value FROM crm.setting WHERE name = $1"
        insert = "INSERT INTO crm.setting (name, value) VALUES ($1, $2) ON CONFLICT DO NOTHING"
        try:
            if not (rows := self.directory.query(sql, (name,))):
                self.directory.query(insert, (name, make()))
                rows = self.directory.query(sql, (name,))
        except TenantUnavailable as error:
            raise OSError(errno.EHOSTUNREACH, "the database cannot be reached") from error
        return rows[0][0]

    def server_time(self) -> float:
        """Return epoch seconds by the clock of the first database's server.

        By this machine's clock until there was a connection to it.
        """
        offset = self.directory.databases[0].clock_offset
        return time.time() if offset is None else boot_seconds() + offset

    def due_labels(self, until: float) -> list[str]:
        """List the labels of tenants in schemas that are to be looked at until then.

        `until` is in epoch seconds of the steady clock. A database that cannot be reached, which is
        in the log then, is left out.
        """
        labels = []
        for database in self.directory.databases:
            with suppress(CRMError, ServerError):
                rows = self.directory.query(DUE_LABELS, (until,), database)
                labels += [label for (label,) in rows]
        return labels

    def follow_nodes(self) -> AbstractContextManager[object]:
        """In a `with` block, notify the sender of this process of what is due on any node."""
        return DueWatcher(
            self.directory.databases[0],
            list_due=lambda: self.due_labels(self._installation.steady_clock.now()),
            notify=self._installation.wakeup_pipe.notify,
        )

    def notify_nodes(self, label: str) -> None:
        """Notify the senders of all nodes of work for a tenant in a schema. Never raises."""
        try:
            self.directory.query("SELECT pg_notify($1, $2)", (CHANNEL, label))
        except Exception as error:  # after a commit: the poll finds it
            log.debug("no node was notified of work for %s: %s", label, error)

    def checks(self) -> Iterator[DatabaseCheck]:
        """Yield the doctor's checks: the name of each, and a function. Nothing is changed then."""
        self.directory.changes_nothing = True
        return checks_of(self.directory)

    def close(self) -> None:
        """Close every idle connection."""
        for database in self.directory.databases:
            database.close()


def _label_of(draft: SchemaTenant) -> str:
    """Return the label that a draft is to have: `acme` of `.new-acme-0123abcd`."""
    return draft.label.removeprefix(".new-").rpartition("-")[0]
