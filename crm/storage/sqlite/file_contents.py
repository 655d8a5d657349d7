"""The contents of a tenant in a file: `<label>.files.db` beside it, made for the first of them.

It has a log and a writer lock of its own, so that who stores a content holds up no writer of the
tenant. A tenant's archive has the contents in tables of the same names.
"""

import os
import secrets
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

from crm.errors import Busy, NotFound, UnknownTenant
from crm.storage import disk, file_errors
from crm.storage.contents import ADD_CHUNK, COMPLETE, Contents
from crm.storage.file_errors import FILE_ERRORS
from crm.storage.session import current_session
from crm.storage.sqlite import litestream, migrations
from crm.storage.sqlite.archive_file import require_alone
from crm.storage.sqlite.connection import FileConnection, connect
from crm.storage.sqlite.pooled_file import PooledFile

PAGE_BYTES = 8192
TABLES = ("file_content", "file_chunk")
CHUNKS_OF_COMPLETE = """
    SELECT ?, number, data FROM file_chunk JOIN file_content ON id = content_id WHERE sha256 = ?
    ORDER BY number
"""


def contents_path(path: Path) -> Path:
    """Return where the contents of the tenant in a file are, of a copy those left beside it.

    Those of a draft have no name that Litestream looks for either.
    """
    is_draft = path.suffix != ".db"
    return path.with_name(f"{path.name}-files") if is_draft else path.with_suffix(".files.db")


class FileContents(Contents, PooledFile):
    """The contents of one tenant, and the file that they are in."""

    def __init__(self, tenant: Any):
        """`tenant` is the `sqlite.tenant.Tenant` whose contents they are."""
        Contents.__init__(self, tenant)
        self._tenant = tenant
        PooledFile.__init__(self, contents_path(tenant.path), tenant.installation.pool)

    def exist(self) -> bool:
        return self.path.exists()

    def allocated_bytes(self, quota: int) -> int:
        total = 0
        with suppress(FileNotFoundError):
            for name in (self._name, f"{self._name}-wal"):
                total += os.stat(name).st_size
        return total

    def used_bytes(self) -> int:
        if not self.exist():
            return 0
        with self._using(writes=False) as connection:
            return connection.used_bytes()

    @contextmanager
    def _using(self, writes: bool) -> Iterator[FileConnection]:
        try:
            connection = self._take(writes)
            try:
                yield connection
            finally:
                self.give(connection, writes)
        except (OSError, *FILE_ERRORS) as error:
            raise file_errors.refusal(error, self.path) or error from error

    def _take(self, writes: bool) -> FileConnection:
        try:
            if connection := self.take_idle(writes):
                return connection
        except FileNotFoundError:
            if not writes:
                raise NotFound from None
            self._make()
        with disk.locked(self.path.parent, shared=True):  # opening it opens its log
            connection = connect(self.path, writes)
        connection.execute("PRAGMA secure_delete = ON")  # what is erased leaves the bytes, too
        if writes:
            litestream.leave_checkpoints(connection, self._source.config.data)
        return connection

    @contextmanager
    def _transaction(self, connection: FileConnection, syncs: bool = False) -> Iterator[None]:
        with self.lock(self._wait_seconds()):
            if not self.is_current(connection):
                raise Busy  # the tenant was deleted meanwhile
            # A commit that syncs the log syncs what is before it in there.
            connection.execute(f"PRAGMA synchronous = {'FULL' if syncs else 'NORMAL'}")
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:  # a full disk has ended it
                    connection.rollback()
                raise

    def _row_reader(self, connection: FileConnection) -> FileConnection:
        return current_session().connection

    def _scrub(self, has_deleted: bool) -> None:
        with self._using(writes=True) as connection, self.lock(self._wait_seconds()):
            blocked, *_ = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        if blocked:
            raise Busy("the log of the file is being read")

    # As a whole

    def write_into(self, archive: Path) -> None:
        """Add all contents to the tables of a tenant's archive, whose rows were copied before."""
        if self.exist():
            with self._using(writes=False) as connection:
                fill_archive(archive, connection)

    def take_from(self, file: sqlite3.Connection) -> bool:
        """Store the contents in the tables of a file that nobody else writes to.

        Returns whether there are any.
        """
        contents = file.execute(COMPLETE).fetchall()
        for id, sha256, size in contents:
            sql = "SELECT data FROM file_chunk WHERE content_id = ? ORDER BY number"
            self.store(sha256, size, (data for (data,) in file.execute(sql, (id,))))
        return bool(contents)

    def publish(self, draft: "FileContents") -> None:
        """Give a new tenant the contents of its draft, and nothing that another one has left."""
        if self.exist() or draft.exist():
            with self.lock():
                self.delete()
                if draft.exist():
                    require_alone(draft.path)
                    disk.name_file(draft.path, self.path)

    def delete(self, kept_as: Path | None = None) -> None:
        """Delete the file, or give it another name; the caller holds its lock."""
        with disk.locked(self.path.parent):
            if kept_as:
                with suppress(FileNotFoundError):
                    os.rename(self.path, kept_as)
                    os.rename(f"{self.path}-wal", f"{kept_as}-wal")
            self.path.unlink(missing_ok=True)
            disk.delete_logs(self.path)

    def _make(self) -> None:
        """Make the file with empty tables, unless another has made it, or the tenant is gone."""
        with self.lock():
            if self.exist():
                return
            if not self._tenant.path.exists():
                raise UnknownTenant
            draft = self.path.with_name(f".new-{self.path.stem}-{secrets.token_hex(4)}")
            try:
                disk.make(draft)
                with closing(sqlite3.connect(draft, isolation_level=None)) as file:
                    file.execute(f"PRAGMA page_size = {PAGE_BYTES}")
                    file.execute("PRAGMA journal_mode = WAL")
                    for _, statements in migrations.STEPS:
                        for statement in statements:
                            if any(f"CREATE TABLE {table} (" in statement for table in TABLES):
                                file.execute(statement)
                disk.name_file(draft, self.path)
            finally:
                draft.unlink(missing_ok=True)
                disk.delete_logs(draft)


def fill_archive(archive: Path, source: sqlite3.Connection) -> None:
    """Add the contents in a file to those of an archive that nobody else uses."""
    with closing(sqlite3.connect(archive, isolation_level=None)) as file:
        for name in ("journal_mode", "synchronous"):  # it is synced as a whole
            file.execute(f"PRAGMA {name} = OFF")
        file.execute("BEGIN")
        known = {sha256 for _, sha256, _ in file.execute(COMPLETE)}
        for _, sha256, size in source.execute(COMPLETE).fetchall():
            if sha256 in known:
                continue
            sql = "INSERT INTO file_content (sha256, size, stored_at) VALUES (?, ?, ?)"
            new_id = file.execute(sql, (sha256, size, "")).lastrowid
            chunks = source.execute(CHUNKS_OF_COMPLETE, (new_id, sha256))
            if size and file.executemany(ADD_CHUNK, chunks).rowcount < 1:  # erased meanwhile
                file.execute("DELETE FROM file_content WHERE id = ?", (new_id,))
        file.execute("COMMIT")
