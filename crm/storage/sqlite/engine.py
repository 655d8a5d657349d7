"""Tenants in SQLite files of this machine, `<data>/tenants/<label>.db`."""

import os
import secrets
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

from crm.config import LABEL
from crm.errors import TenantUnavailable
from crm.storage import disk
from crm.storage.engine import BASE_HOST_FILE, create_base_host, label_taken
from crm.storage.sqlite import migrations
from crm.storage.sqlite.archive_file import require_alone
from crm.storage.sqlite.connection import PAGE_BYTES, connect
from crm.storage.sqlite.file_contents import contents_path
from crm.storage.sqlite.tenant import Tenant


class FileEngine:
    """The tenants that have a file below the data folder."""

    def __init__(self, installation: Any):
        self._installation = installation
        self._data = installation.config.data
        self.folder = self._data / "tenants"

    def path(self, label: str) -> Path:
        """Return where a tenant's file is, or would be."""
        return self._data / "front.db" if label == BASE_HOST_FILE else self.folder / f"{label}.db"

    def databases(self, label: str) -> list[Path]:
        """List the paths of a tenant's file and, if it has contents, of theirs."""
        path = self.path(label)
        return [path, *filter(Path.exists, [contents_path(path)])]

    def labels(self) -> list[str]:
        """List the labels in alphabetical order."""
        names: list[str] = []
        with suppress(FileNotFoundError):
            names = os.listdir(self.folder)
        labels = (name.removesuffix(".db") for name in names if name.endswith(".db"))
        return sorted(label for label in labels if label != BASE_HOST_FILE and self.has(label))

    def has(self, label: str) -> bool:
        """Whether a tenant, or the base host, has a file; raises OSError if that can't be read."""
        return bool(label == BASE_HOST_FILE or LABEL.match(label)) and self.path(label).is_file()

    def open(self, label: str) -> Tenant | None:
        """Return the tenant of that label; None if it has no file. Raises TenantUnavailable."""
        if label == BASE_HOST_FILE:
            create_base_host(self._installation, self)
        try:
            has_file = self.has(label)
        except OSError as error:  # the folder has lost its rights, or its disk is gone
            self._installation.unavailable.report_folder(error)
            raise TenantUnavailable from error
        return Tenant(label, self.path(label), self._installation) if has_file else None

    def draft(self, label: str) -> Tenant:
        """Return a tenant to be whose file, not created yet, has a name that no session opens."""
        disk.make_folder(self.folder)
        # A new installation's clock is believed, which is new only before its first tenant.
        self._installation.steady_clock.now()
        name = f".new-{label}-{secrets.token_hex(4)}"
        return Tenant(label, self.folder / name, self._installation)

    def create_tables(self, draft: Tenant) -> None:
        """Create a draft with its tables, which are empty."""
        disk.make(draft.path)
        with closing(connect(draft.path)) as connection:
            connection.execute(f"PRAGMA page_size = {PAGE_BYTES}")  # for good, once it has a page
            connection.execute("PRAGMA synchronous = OFF")  # it is synced before it has its name
            connection.execute("PRAGMA journal_mode = WAL")
            migrations.migrate(connection, draft.label)

    def publish(self, draft: Tenant) -> None:
        """Give a draft's file its name. Raises Conflict if the label was taken meanwhile."""
        path = self.path(draft.label)
        tenant = Tenant(draft.label, path, self._installation)
        with tenant.lock():
            if path.exists():
                raise label_taken(draft.label)
            disk.delete_logs(path)  # left by a process that died while deleting a former tenant
            require_alone(draft.path)
            tenant.contents.publish(draft.contents)
            disk.name_file(draft.path, path)

    def delete_draft(self, draft: Tenant) -> None:
        """Delete what is left of a draft: everything, unless it was published."""
        for path in draft.path.parent.glob(draft.path.name + "*"):
            path.unlink()

    def close(self) -> None:
        """Close every idle connection, for a clean stop."""
        self._installation.pool.forget()
