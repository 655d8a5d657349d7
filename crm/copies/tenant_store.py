"""A tenant as a whole, where it lives or will: created from an archive, replaced, deleted.

`FileStore` does it with a file, `SchemaStore` (schema_store.py) with a schema of a database. A new
tenant is a draft until it is whole; what it replaces is in the trash by then.
"""

import os
import secrets
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from crm.copies import trash
from crm.errors import Conflict, UnknownTenant
from crm.installation.tenants import Tenants
from crm.storage import disk
from crm.storage.engine import draft_session
from crm.storage.session import one_row, transaction
from crm.storage.sqlite import archive, archive_file, litestream
from crm.storage.sqlite.connection import connect
from crm.storage.sqlite.file_contents import contents_path
from crm.storage.sqlite.tenant import Tenant

Numbers = dict[str, int]  # the last one that each table has given


class Restored(NamedTuple):
    """What a restore did: where the tenant before is now, and what `prepare` returned; None if it
    was not called."""

    before: Path | None
    prepared: Any


class TenantStore(ABC):
    """A tenant in one place. Archives are of the newest version, and nobody else uses them."""

    def __init__(self, tenants: Tenants, label: str, engine: Any):
        self._tenants, self.label, self._engine = tenants, label, engine

    def create(self, archive: Path, prepare: Callable[[], Any]) -> None:
        """Create the tenant from an archive; nobody sees it before `prepare` is done.

        Raises Conflict `label_taken`, BadCopy, or errors of the engine and the disk.
        """
        with self._draft(archive, prepare) as (draft, _):
            self._engine.publish(draft)

    def replace(self, archive: Path, prepare: Callable[[], Any]) -> Restored:
        """Replace the tenant by an archive, or create it; `prepare` is called in the draft.

        Raises Busy, and what create() does; nothing has changed then.
        """
        with self._draft(archive, prepare) as (draft, prepared):
            if self.exists():
                return Restored(self._exchange(draft), prepared)
            self._engine.publish(draft)
            return Restored(None, prepared)

    def test(self, archive: Path, prepare: Callable[[], Any], sql: str) -> tuple[Any, ...]:
        """Restore an archive aside: the first row of a query of it, and its number of contents."""
        with (
            self._draft(archive, prepare) as (draft, _),
            draft_session(self._tenants, draft, self.label),
        ):
            return (*one_row(sql), draft.contents.count())

    @contextmanager
    def _draft(self, archive: Path, prepare: Callable[[], Any]) -> Iterator[tuple[Any, Any]]:
        """Make a draft of an archive for a `with` block: the draft, and what `prepare` returned."""
        draft = self.load(archive)
        try:
            with draft_session(self._tenants, draft, self.label), transaction():
                prepared = prepare()
            yield draft, prepared
        finally:
            self._engine.delete_draft(draft)

    @abstractmethod
    def exists(self) -> bool:
        """Whether the tenant is in this place."""

    @abstractmethod
    def load(self, archive: Path) -> Any:
        """Return a draft made of an archive, as engines have it."""

    @abstractmethod
    def _exchange(self, draft: Any) -> Path:
        """Give a draft the tenant's label; return where the tenant before is."""

    @abstractmethod
    def _removing(self, reason: str) -> AbstractContextManager[tuple[Path, Numbers | None]]:
        """Hold the tenant's writer lock in a `with` block, and then move it to the trash.

        Gives its path there, and the last numbers that it has given, None if its file is damaged.
        Raises UnknownTenant, Busy.
        """

    def delete(self) -> Path:
        """Move the tenant to the trash, and return its path there. Raises UnknownTenant, Busy."""
        with self._removing("deleted") as (trashed, _):
            return trashed

    def move(self, target: "TenantStore", archive: Path, numbers: Numbers) -> Path:
        """Create the tenant in another place from an archive, and move this one to the trash.

        `numbers` are those that the tenant had given when the archive was made. Raises Conflict if
        it has given others since, and what replace() and delete() do; nothing has changed then. If
        this process dies, both may be there.
        """
        with self._removing("moved") as (trashed, given):
            ids = {"file_content": 0}  # a content gets another id in each place
            if given is None or {**given, **ids} != {**numbers, **ids}:
                raise Conflict(f"{self.label} has changed since this copy: make another one")
            target.replace(archive, lambda: None)
            return trashed


class FileStore(TenantStore):
    """A tenant's file on this machine.

    Connections that are open to a file find, before each transaction, that it is gone.
    """

    def __init__(self, tenants: Tenants, label: str):
        super().__init__(tenants, label, tenants.files)
        self._data, self._path = tenants.config.data, tenants.path(label)
        tenant = Tenant(label, self._path, tenants)
        self._lock, self._contents = tenant.lock, tenant.contents

    def exists(self) -> bool:
        return self._path.exists()

    def load(self, archive: Path) -> Tenant:
        return Tenant(self.label, archive, self._tenants)

    @contextmanager
    def _locked(self, reason: str) -> Iterator[tuple[Path, Numbers | None]]:
        """Hold the file's locks in a `with` block, and write its log back into it.

        Gives a path in the trash, and what trash.checkpoint() does. Raises UnknownTenant, Busy.
        """
        with litestream.stopped(self._data, self._path), self._lock():
            if not self._path.exists():
                raise UnknownTenant  # another deleted it while this one waited
            trashed = trash.free_path(self._tenants, self.label, reason)
            numbers = trash.checkpoint(self._path, trashed)
            yield trashed, numbers
            if numbers is not None:
                archive_file.mark(trashed)  # by now the file has no other name
                disk.sync(trashed)

    def _rename(self, to: Path) -> None:
        """Take the file's name away. A process that dies here leaves one file with one name."""
        with disk.locked(self._path.parent):
            os.rename(self._path, to)
            # Last: connections still open to it must find that their file is gone, not its log.
            disk.delete_logs(self._path)
        disk.sync(to.parent)
        disk.sync(self._path.parent)

    def _exchange(self, draft: Tenant) -> Path:
        with self._locked("before") as (before, numbers):
            is_replaced = False
            try:
                if numbers is None or not self._write_archive(before):
                    os.link(self._path, before)
                    disk.sync(before.parent)
                with closing(connect(draft.path)) as connection:
                    connection.execute("BEGIN IMMEDIATE")
                    archive.continue_numbers(connection, numbers or {})
                    connection.execute("COMMIT")
                archive_file.require_alone(draft.path)
                disk.sync(draft.path)
                if draft.contents.exist():
                    archive_file.require_alone(draft.contents.path)
                    with closing(archive_file.open_copy(draft.contents.path)) as contents:
                        self._contents.take_from(contents)
                with disk.locked(self._path.parent):
                    # An empty log goes last, as in _rename(). Any other would damage the new file.
                    if numbers is None:
                        disk.delete_logs(self._path)
                    os.replace(draft.path, self._path)
                    is_replaced = True
                    disk.delete_logs(self._path)
            except BaseException:
                if not is_replaced:
                    for second_name in (before, Path(f"{before}-wal")):
                        second_name.unlink(missing_ok=True)
                raise
            disk.sync(self._path.parent)
        return before

    @contextmanager
    def _removing(self, reason: str) -> Iterator[tuple[Path, Numbers | None]]:
        files = self._contents.path
        with litestream.stopped(self._data, files), self._locked(reason) as (trashed, numbers):
            yield trashed, numbers
            with self._contents.lock():
                if numbers is not None and self._write_archive(trashed):
                    self._delete_file()
                    self._contents.delete()
                else:  # a file that is too damaged to be read has its contents beside it
                    self._rename(trashed)
                    self._contents.delete(kept_as=contents_path(trashed))
        for path in (self._path, files):
            litestream.delete_state(self._data, path)

    def _write_archive(self, to: Path) -> bool:
        """Write the file and its contents to the trash as one; returns False if it has none.

        The file is still there, so a process that dies leaves it as it is, and an archive too many.
        """
        if not self._contents.exist():
            return False
        draft = to.with_name(f".new-{to.name}-{secrets.token_hex(4)}")
        try:
            with closing(connect(self._path)) as connection:
                archive_file.copy_pages(connection, draft)
            self._contents.write_into(draft)
            disk.name_file(draft, to)
        finally:
            draft.unlink(missing_ok=True)
        return True

    def _delete_file(self) -> None:
        with disk.locked(self._path.parent):
            self._path.unlink()
            disk.delete_logs(self._path)
        disk.sync(self._path.parent)
