"""Tenants in PostgreSQL schemas, in the database of CRM_DATABASE: new ones live here.

Tenants that had files before keep them.
"""

import errno
import logging
import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, suppress
from functools import partial
from typing import Any

from crm.errors import CRMError, TenantUnavailable
from crm.steady_clock import boot_seconds
from crm.storage import disk
from crm.storage.engine import BASE_HOST_FILE, create_base_host, label_taken
from crm.storage.file_errors import ServerError
from crm.storage.postgres import database_checks, schema
from crm.storage.postgres.directory import FIND, Directory
from crm.storage.postgres.due_watcher import CHANNEL, DueWatcher
from crm.storage.postgres.schema_tenant import LOCKS_FOLDER, SchemaTenant
from crm.storage.postgres.shared_schema import SHARED_LOCK
from crm.storage.sqlite.engine import FileEngine
from crm.timed_checks import LevelAndDetail

# Drafts have notes too, and have labels that begin with a dot.
DUE_LABELS = """
    SELECT label FROM crm.due JOIN crm.tenant USING (label)
    WHERE at <= $1 AND label !~ '^[.]' ORDER BY at
"""

ADD_SETTING = "INSERT INTO crm.setting (name, value) VALUES ($1, $2) ON CONFLICT DO NOTHING"
ERASED = "SELECT name FROM crm.setting WHERE starts_with(name, $1)"

log = logging.getLogger("crm.tenants")


class PostgresEngine:
    """The tenants of the database of CRM_DATABASE, and what nodes share in it."""

    def __init__(self, installation: Any, files: FileEngine):
        """Nothing is connected yet. `files` are those of this node. Raises ConfigError."""
        self._installation = installation
        self.directory = Directory(installation.config, files, installation.unavailable)

    # Which tenants there are

    def labels(self) -> list[str]:
        """List the labels that have schemas."""
        rows = self.directory.query("SELECT label FROM crm.tenant WHERE label !~ '^[._]'")
        return [label for (label,) in rows]

    def has(self, label: str) -> bool:
        """Whether a label has a schema, or a file on any node."""
        has_schema, node = self.directory.find(label)
        return has_schema or node is not None

    def open(self, label: str) -> SchemaTenant | None:
        """Return the tenant of that label; None if it lives in a file or nowhere.

        Raises TenantElsewhere, DatabaseUnavailable.
        """
        if label == BASE_HOST_FILE:
            create_base_host(self._installation, self)
        return self.tenant(label) if self.directory.lives_in_schema(label) else None

    def tenant(self, label: str) -> SchemaTenant:
        """Return a tenant that has a schema, or a draft of one."""
        # For counters and files on their way to clients, and for the locks of heavy work.
        disk.make_folder(self._installation.config.data / LOCKS_FOLDER)
        return SchemaTenant(label, self.directory.prepared(), self._installation)

    # Creating and deleting

    def draft(self, label: str) -> SchemaTenant:
        """Return a tenant to be, whose schema is not created yet."""
        self._installation.steady_clock.now()  # a new installation's clock is believed
        return self.tenant(f".new-{label}-{secrets.token_hex(4)}")

    def create_tables(self, draft: SchemaTenant) -> None:
        """Create a draft with its tables, which are empty."""
        schema.create(draft.database, draft.label, f"draft_{draft.label.rpartition('-')[2]}")

    def publish(self, draft: SchemaTenant) -> None:
        """Give a draft its label. Raises Conflict if the label was taken meanwhile."""
        label = _label_of(draft)
        with schema.writing(draft.database) as connection:
            connection.run("SELECT pg_advisory_xact_lock($1)", (SHARED_LOCK,))
            ((has_schema, node),) = connection.run(FIND, (label,))
            if has_schema or (node and node != self.directory.node):
                raise label_taken(label)
            schema.publish(connection, draft.label, label)

    def delete_draft(self, draft: SchemaTenant) -> None:
        """Delete what is left of a draft: everything, unless it was published."""
        try:
            with schema.writing(draft.database) as connection:
                schema.drop(connection, draft.label)
        except ServerError as error:
            log.warning("a draft of %s stays in its database: %s", _label_of(draft), error)

    def leave_directory(self, label: str) -> None:
        """Delete a file of this node from the directory."""
        sql = "DELETE FROM crm.file WHERE label = $1 AND node = $2"
        self.directory.query(sql, (label, self.directory.node))

    # What nodes share

    def setting(self, name: str, make: Callable[[], bytes]) -> bytes:
        """Return a value that all nodes share, which `make` gives if there is none.

        Raises OSError if the database cannot be reached, as for a file that cannot be read.
        """
        sql = "SELECT value FROM crm.setting WHERE name = $1"
        try:
            if not (rows := self.directory.query(sql, (name,))):
                self.directory.query(ADD_SETTING, (name, make()))
                rows = self.directory.query(sql, (name,))
        except TenantUnavailable as error:
            raise OSError(errno.EHOSTUNREACH, "the database cannot be reached") from error
        return rows[0][0]

    def note_erased(self, instance: str, records: list[str]) -> None:
        """Note which records of an instance were erased (erased.py)."""
        with schema.writing(self.directory.prepared()) as connection:
            for record in records:
                connection.run(ADD_SETTING, (f"erased:{instance}:{record}", b""))

    def erased(self, instance: str) -> set[str]:
        """Return what note_erased() has noted."""
        prefix = f"erased:{instance}:"
        rows = self.directory.query(ERASED, (prefix,))
        return {name.removeprefix(prefix) for (name,) in rows}

    def server_time(self) -> float:
        """Return epoch seconds by the clock of the database's server.

        By this machine's clock until there was a connection to it.
        """
        offset = self.directory.database.clock_offset
        return time.time() if offset is None else boot_seconds() + offset

    def due_labels(self, until: float) -> list[str]:
        """List the labels of tenants in schemas that are to be looked at until then.

        `until` is in epoch seconds of the steady clock. Empty if the database cannot be reached,
        which is in the log then.
        """
        with suppress(CRMError, ServerError):
            return [label for (label,) in self.directory.query(DUE_LABELS, (until,))]
        return []

    def follow_nodes(self) -> AbstractContextManager[object]:
        """In a `with` block, notify the sender of this process of what is due on any node."""
        return DueWatcher(
            self.directory.database,
            list_due=lambda: self.due_labels(self._installation.steady_clock.now()),
            notify=self._installation.wakeup_pipe.notify,
        )

    def notify_nodes(self, label: str) -> None:
        """Notify the senders of all nodes of work for a tenant in a schema. Never raises."""
        try:
            self.directory.query("SELECT pg_notify($1, $2)", (CHANNEL, label))
        except Exception as error:  # after a commit: the poll finds it
            log.debug("no node was notified of work for %s: %s", label, error)

    def checks(self) -> Iterator[tuple[str, Callable[[], Iterator[LevelAndDetail]]]]:
        """Yield the doctor's checks: the name of each, and a function. Nothing is changed then."""
        self.directory.changes_nothing = True
        yield "database", partial(database_checks.check_database, self.directory)
        yield "directory", partial(database_checks.check_directory, self.directory)

    def close(self) -> None:
        """Close every idle connection."""
        self.directory.database.close()


def _label_of(draft: SchemaTenant) -> str:
    """Return the label that a draft is to have: `acme` of `.new-acme-0123abcd`."""
    return draft.label.removeprefix(".new-").rpartition("-")[0]
