"""What is done with a tenant in a schema as a whole: it is created, replaced, or deleted.

A new schema is a draft until it is whole, and gets its label in one transaction. What it replaces
is in the trash by then, as an archive.
"""

import logging
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from crm.tenancy import disk, trash, upgrades, uploads
from crm.tenancy.database import TenantSession, begin_session, end_session, row, transaction
from crm.tenancy.engines import schema, schema_archive
from crm.tenancy.engines.postgres import Connection, Database
from crm.tenancy.engines.schema_tenant import SchemaTenant
from crm.tenancy.file_errors import ServerError
from crm.tenancy.files import UnknownTenant
from crm.tenancy.tenants import Tenants
from crm.tenancy.writer_lock import MAX_LOCK_WAIT_SECONDS

log = logging.getLogger("crm.tenants")


class SchemaStore:
    """A tenant of a database as a whole, or one that is to be created in it."""

    def __init__(self, tenants: Tenants, label: str, database: Database, directory: Database):
        self._tenants, self.label = tenants, label
        self.database, self._directory = database, directory

    # Drafts

    def load(self, path: Path) -> SchemaTenant:
        """Create a draft from an archive of the newest version. Raises BadCopy, ServerError."""
        schema.drop_abandoned(self.database)
        token = secrets.token_hex(4)
        draft = SchemaTenant(
            f".new-{self.label}-{token}",
            self.database,
            self._tenants,
            find_again=lambda label, database: None,
            notify_nodes=lambda label: None,
        )
        try:
            schema_archive.load(self.database, draft.label, f"draft_{token}", path)
        except BaseException:
            self._tenants.delete_draft(draft)
            raise
        return draft

    def create(self, path: Path, prepare: Callable[[], Any]) -> Any:
        """Create the tenant from an archive, and return what `prepare` gives in its draft.

        Raises Conflict `label_taken`, BadCopy, ServerError.
        """
        draft = self.load(path)
        try:
            with self._session(draft), transaction():
                prepared = prepare()
            self._tenants.publish(draft)
        finally:
            self._tenants.delete_draft(draft)
        return prepared

    def replace(self, path: Path, prepare: Callable[[], Any]) -> tuple[Path | None, Any]:
        """Replace the tenant by an archive, or create it; `prepare` is called in the draft.

        Returns where the archive of the tenant before is, and what `prepare` gave. Raises Busy,
        BadCopy, ServerError; nothing has changed then.
        """
        if not self.exists():
            return None, self.create(path, prepare)
        draft = self.load(path)
        try:
            with self._session(draft), transaction():
                prepared = prepare()
            before = self._exchange(draft)
        finally:
            self._tenants.delete_draft(draft)
        return before, prepared

    def test(self, path: Path, prepare: Callable[[], Any], sql: str) -> tuple[Any, ...] | None:
        """Restore an archive aside, and return the first row of a query of it."""
        draft = self.load(path)
        try:
            with self._session(draft):
                with transaction():
                    prepare()
                return row(sql)
        finally:
            self._tenants.delete_draft(draft)

    @contextmanager
    def _session(self, draft: SchemaTenant) -> Iterator[None]:
        connection = draft.take(writes=True)
        token = begin_session(TenantSession(self.label, connection, draft, self._tenants.clock))
        try:
            yield
        finally:
            end_session(token)
            draft.give(connection, writes=True)

    # The tenant that is there

    def exists(self) -> bool:
        """Whether the schema is in the database: the directory alone may have the label."""
        return schema.exists(self.database, self.label)

    @contextmanager
    def locked(self, wait_seconds: float = MAX_LOCK_WAIT_SECONDS) -> Iterator[Connection]:
        """Hold the tenant's writer lock in a transaction, which is committed at the end.

        Raises UnknownTenant, Busy.
        """
        with schema.writing(self.database) as connection:
            schema.lock(connection, self.label, wait_seconds)
            connection.run("SELECT set_config('idle_in_transaction_session_timeout', '0', true)")
            sql = "SELECT 1 FROM crm.tenant WHERE label = $1"
            if not connection.run(sql, (self.label,)):
                raise UnknownTenant
            yield connection

    def write_to_trash(self, reason: str) -> Path:
        """Write the tenant's archive into the trash; the caller holds its writer lock."""
        path = trash.new_path(self._tenants, self.label, reason)
        write_named(self.database, self.label, path)
        return path

    def _exchange(self, draft: SchemaTenant) -> Path:
        """Give the draft the tenant's label; return where the archive of the one before is."""
        token, before = secrets.token_hex(4), None
        old_label = f".old-{self.label}-{token}"
        try:
            with self.locked() as connection:
                before = self.write_to_trash("before")
                with schema_archive.snapshot(self.database, self.label) as replaced:
                    numbers = replaced.numbers()
                schema_archive.continue_numbers(self.database, draft.label, numbers)
                schema.rename(connection, self.label, old_label, f"old_{token}")
                schema.rename(connection, draft.label, self.label, schema.schema_name(self.label))
        except BaseException:
            # Not when the server has perhaps committed: then it is the only copy of that.
            if before and self._has(draft.label):
                before.unlink()
            raise
        drop(self.database, old_label)
        return before

    def _has(self, label: str) -> bool:
        try:
            return schema.exists(self.database, label)
        except ServerError:
            return False

    def delete(self) -> Path:
        """Write the tenant's archive into the trash, and drop its schema; returns the path.

        Raises UnknownTenant, or Busy when it is in use for too long; nothing has changed then.
        """
        trashed = None
        try:
            with self.locked() as connection:
                trashed = self.write_to_trash("deleted")
                schema.drop(connection, self.label)
        except UnknownTenant:
            self.leave_directory()  # of a process that died before it did so
            raise
        except BaseException:
            if trashed and self._has(self.label):
                trashed.unlink()
            raise
        self.leave_directory()
        data = self._tenants.config.data
        uploads.delete_all(data, self.label)
        upgrades.delete_copies(data, self.label)
        return trashed

    def leave_directory(self) -> None:
        """Delete the tenant from the directory, unless its schema is there."""
        with schema.writing(self._directory) as connection:
            schema.lock_directory(connection)
            if not self.exists():
                connection.run("DELETE FROM crm.directory WHERE label = $1", (self.label,))


def write_named(database: Database, label: str, path: Path) -> None:
    """Write the archive of a schema, which gets its name, a path in the trash, when it is whole."""
    draft = path.with_name(f".new-{path.name}-{secrets.token_hex(4)}")
    try:
        schema_archive.write(database, label, draft)
        disk.name_file(draft, path)
    finally:
        draft.unlink(missing_ok=True)


def drop(database: Database, label: str) -> None:
    """Drop a schema that is not a tenant any more; if it is being read, it stays for a day."""
    try:
        with schema.writing(database) as connection:
            connection.run("SELECT set_config('lock_timeout', '10s', true)")
            schema.drop(connection, label)
    except ServerError as error:
        log.warning("%s stays in its database for now: %s", label, error)
