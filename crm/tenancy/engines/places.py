"""Where a tenant that is moved comes from and goes to: a file, or a schema of a database."""

import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Protocol

from crm.errors import Conflict, TenantUnavailable
from crm.tenancy import archive, copies, disk, litestream, trash
from crm.tenancy.archive import Digest
from crm.tenancy.engines import schema, schema_archive
from crm.tenancy.engines.postgres import Connection, Database
from crm.tenancy.engines.schema_store import SchemaStore, drop, write_named
from crm.tenancy.engines.schema_tenants import SchemaTenants
from crm.tenancy.engines.sqlite import connect
from crm.tenancy.files import Tenant, UnknownTenant

REASON = "moved"  # in the name of the file in the trash


class Place(Protocol):
    """A place of a tenant. A draft is what load() returns."""

    @property
    def name(self) -> str:
        """What `crm.move` calls it."""

    @property
    def description(self) -> str:
        """What people call it."""

    def require_free(self) -> None:
        """Raise Conflict if another tenant of the label, or its remains, are there."""

    def locked(self) -> Any:
        """Keep everybody from writing in a `with` block; gives what hide() takes."""

    def write(self, to: Path) -> None:
        """Write the archive."""

    def load(self, path: Path) -> Any:
        """Make a draft from an archive."""

    def digests(self, draft: Any = None) -> dict[str, Digest]:
        """Return the digests of the tables of a draft, or of the tenant that is locked."""

    def numbers(self, draft: Any = None) -> dict[str, int]:
        """Return the last numbers given by the tables of a draft, or of the tenant."""

    def hide(self, hold: Any) -> None:
        """Let nobody find the tenant here once locked() has ended."""

    def is_hidden(self) -> bool:
        """Whether it was hidden, and neither discarded nor found again."""

    def unhide(self) -> None:
        """Let the tenant be found here again."""

    def enter(self, directory: Connection) -> None:
        """Let the directory name this place, in a transaction."""

    def publish(self, draft: Any) -> None:
        """Give a draft the label."""

    def is_published(self) -> bool:
        """Whether the tenant is found here."""

    def discard(self) -> Path:
        """Put what was hidden into the trash, and return its path there."""


class FilePlace:
    """A tenant's file on this machine."""

    name = "/"
    description = "a file"

    def __init__(self, tenants: SchemaTenants, label: str):
        self._tenants, self._label = tenants, label
        self._path = tenants.path(label)
        self._hidden = self._path.with_name(f".moving-{label}.db")

    def require_free(self) -> None:
        for path in (self._path, self._hidden):
            if path.exists():
                raise Conflict(f"there is a file already: {path}")

    @contextmanager
    def locked(self) -> Iterator[None]:
        data = self._tenants.config.data
        tenant = Tenant(self._label, self._path, self._tenants)
        with litestream.released(data, self._path), tenant.lock():
            if not self._path.exists():
                raise UnknownTenant
            # From here on the file has all: its log is empty.
            trashed = trash.free_path(self._tenants, self._label, REASON)
            if trash.checkpoint(self._path, trashed) is None:
                raise TenantUnavailable
            yield

    def write(self, to: Path) -> None:
        with closing(connect(self._path, writes=False)) as connection:
            copies.copy_pages(connection, to)

    def load(self, path: Path) -> Tenant:
        disk.delete_abandoned(
            self._tenants.folder, ".new-*", self._tenants.steady_clock.erasing_now()
        )
        draft = self._tenants.file_draft(self._label)
        disk.make(draft.path)
        shutil.copyfile(path, draft.path)
        with closing(connect(draft.path)) as connection:
            connection.execute("PRAGMA journal_mode = WAL")
        return draft

    def digests(self, draft: Tenant | None = None) -> dict[str, Digest]:
        path = draft.path if draft else self._path
        with closing(connect(path, writes=False)) as connection:
            return archive.file_digests(connection)

    def numbers(self, draft: Tenant | None = None) -> dict[str, int]:
        path = draft.path if draft else self._path
        with closing(connect(path, writes=False)) as connection:
            return archive.numbers(connection)

    def hide(self, hold: None) -> None:
        with disk.renaming(self._path):
            os.rename(self._path, self._hidden)
            disk.delete_logs(self._path)
        disk.sync(self._path.parent)

    def is_hidden(self) -> bool:
        return self._hidden.exists()

    def unhide(self) -> None:
        with Tenant(self._label, self._path, self._tenants).lock():
            with disk.renaming(self._path):
                disk.delete_logs(self._path)
                os.link(self._hidden, self._path)  # never over another file
                os.unlink(self._hidden)
            disk.sync(self._path.parent)

    def enter(self, directory: Connection) -> None:
        directory.run("DELETE FROM crm.directory WHERE label = $1", (self._label,))

    def publish(self, draft: Tenant) -> None:
        with Tenant(self._label, self._path, self._tenants).lock():
            disk.delete_logs(self._path)
            disk.name_file(draft.path, self._path)
        self._tenants.record_labels()

    def is_published(self) -> bool:
        return self._path.exists() and self._tenants.find_database(self._label) is None

    def discard(self) -> Path:
        trashed = trash.free_path(self._tenants, self._label, REASON)
        os.rename(self._hidden, trashed)
        disk.sync(trashed.parent)
        disk.sync(self._hidden.parent)
        litestream.delete_state(self._tenants.config.data, self._path)
        self._tenants.record_labels()
        return trashed


class SchemaPlace:
    """A tenant's schema in a database."""

    def __init__(self, tenants: SchemaTenants, label: str, database: Database):
        self._tenants, self._label, self.database = tenants, label, database
        self._store = SchemaStore(tenants, label, database, tenants.directory)
        self._hidden = f".moved-{label}"
        self._hidden_schema = schema.schema_name(f"{label}_moved")

    @property
    def name(self) -> str:
        return self._tenants.name_of(self.database)

    @property
    def description(self) -> str:
        return f"the database {self.database.name}"

    def require_free(self) -> None:
        if self._store.exists() or self._has(self._hidden):
            raise Conflict(f"{self.description} has a schema of {self._label} already")

    def locked(self) -> Any:
        return self._store.locked()

    def write(self, to: Path) -> None:
        schema_archive.write(self.database, self._label, to)

    def load(self, path: Path) -> Any:
        return self._store.load(path)

    def digests(self, draft: Any = None) -> dict[str, Digest]:
        label = draft.label if draft else self._label
        with schema_archive.snapshot(self.database, label) as snapshot:
            return snapshot.digests()

    def numbers(self, draft: Any = None) -> dict[str, int]:
        label = draft.label if draft else self._label
        with schema_archive.snapshot(self.database, label) as snapshot:
            return snapshot.numbers()

    def hide(self, hold: Connection) -> None:
        schema.rename(hold, self._label, self._hidden, self._hidden_schema)

    def is_hidden(self) -> bool:
        return self._has(self._hidden)

    def unhide(self) -> None:
        with schema.writing(self.database) as connection:
            schema.rename(connection, self._hidden, self._label, schema.schema_name(self._label))

    def enter(self, directory: Connection) -> None:
        self._tenants.enter(directory, self._label, self.database)

    def publish(self, draft: Any) -> None:
        with schema.writing(self.database) as connection:
            schema.rename(connection, draft.label, self._label, schema.schema_name(self._label))

    def is_published(self) -> bool:
        return self._tenants.find_database(self._label) is self.database and self._store.exists()

    def discard(self) -> Path:
        path = trash.free_path(self._tenants, self._label, REASON)
        write_named(self.database, self._hidden, path)
        token = secrets.token_hex(4)
        old_label = f".old-{self._label}-{token}"
        with schema.writing(self.database) as connection:
            schema.rename(connection, self._hidden, old_label, f"old_{token}")
        drop(self.database, old_label)
        return path

    def _has(self, label: str) -> bool:
        return schema.exists(self.database, label)
