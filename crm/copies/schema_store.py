"""A tenant in a schema of a database as a whole (tenant_store.py).

A draft gets its label in one transaction. What it replaces is in the trash by then, as an archive.
"""

import logging
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from crm.copies import trash
from crm.copies.tenant_store import Numbers, TenantStore
from crm.errors import UnknownTenant
from crm.installation.tenants import Tenants
from crm.storage import disk
from crm.storage.file_errors import ServerError
from crm.storage.postgres import schema, schema_archive
from crm.storage.postgres.connections import Database
from crm.storage.postgres.directory import ENTER
from crm.storage.postgres.pipeline import PipelineConnection
from crm.storage.postgres.schema_tenant import SchemaTenant

log = logging.getLogger("crm.tenants")


class SchemaStore(TenantStore):
    """A tenant's schema, or one that is to be created."""

    def __init__(self, tenants: Tenants, label: str):
        super().__init__(tenants, label, tenants.postgres)
        self.database = self._engine.directory.prepared()

    def exists(self) -> bool:
        # The directory alone may have the label.
        return bool(schema.read(self.database, schema.SCHEMA_OF, (self.label,)))

    def load(self, archive: Path) -> SchemaTenant:
        schema.drop_abandoned(self.database)
        token = secrets.token_hex(4)
        draft = self._engine.tenant(f".new-{self.label}-{token}")
        try:
            schema_archive.load(self.database, draft.label, f"draft_{token}", archive)
        except BaseException:
            self._engine.delete_draft(draft)
            raise
        return draft

    @contextmanager
    def _locked(self, reason: str) -> Iterator[tuple[PipelineConnection, Path, Numbers]]:
        """Hold the writer lock in a transaction, with the tenant's archive in the trash.

        Gives also the last numbers that the tenant has given. The archive stays if it fails: the
        server has perhaps committed, and then it is the only copy. Raises UnknownTenant, Busy.
        """
        with schema.writing(self.database) as connection:
            schema.lock(connection, self.label)
            no_timeout = "SELECT set_config('idle_in_transaction_session_timeout', '0', true)"
            connection.run(no_timeout)
            if not connection.run(schema.SCHEMA_OF, (self.label,)):
                raise UnknownTenant
            trashed = self._write_to_trash(reason)
            with schema_archive.snapshot(self.database, self.label) as snapshot:
                numbers = snapshot.numbers()
            yield connection, trashed, numbers

    def _exchange(self, draft: SchemaTenant) -> Path:
        # Until it is dropped it keeps its name.
        old_label = f".old-{self.label}-{secrets.token_hex(4)}"
        with self._locked("before") as (connection, before, numbers):
            schema_archive.continue_numbers(self.database, draft.label, numbers)
            schema.replace(connection, self.label, old_label, draft.label)
        drop(self.database, old_label)
        return before

    @contextmanager
    def _removing(self, reason: str) -> Iterator[tuple[Path, Numbers]]:
        with self._locked(reason) as (connection, trashed, numbers):
            yield trashed, numbers
            schema.drop(connection, self.label)
            if self._tenants.files.has(self.label):  # from now on the label is the file's
                connection.run(ENTER, (self.label, self._engine.directory.node))

    def _write_to_trash(self, reason: str) -> Path:
        """Write the archive of the schema; it gets its name when it is whole."""
        path = trash.free_path(self._tenants, self.label, reason)
        draft = path.with_name(f".new-{path.name}-{secrets.token_hex(4)}")
        try:
            schema_archive.write(self.database, self.label, draft)
            disk.name_file(draft, path)
        finally:
            draft.unlink(missing_ok=True)
        return path


def drop(database: Database, label: str) -> None:
    """Drop a schema that is not a tenant any more; if it is being read, it stays for a day."""
    try:
        with schema.writing(database) as connection:
            connection.run("SELECT set_config('lock_timeout', '10s', true)")
            schema.drop(connection, label)
    except ServerError as error:
        log.warning("%s stays in its database for now: %s", label, error)
