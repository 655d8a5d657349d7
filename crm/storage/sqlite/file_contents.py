"""The contents of a tenant in a file: `<label>.files.db` beside it, made for the first of them.

It has a log and a writer lock of its own, so that who stores a content holds up no writer of the
tenant. A tenant's archive has the contents in tables of the same names.
"""

import os
import secrets
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from typing import Any

from crm.errors import Busy, NotFound, UnknownTenant
from crm.storage import disk, file_errors
from crm.storage.contents import Contents
from crm.storage.file_errors import FILE_ERRORS
from crm.storage.sqlite import litestream, migrations
from crm.storage.sqlite.connection import FileConnection, connect
from crm.storage.sqlite.pooled_file import PooledFile

PAGE_BYTES = 8192
TABLES = ("file_content", "file_chunk")


class FileContents(Contents, PooledFile):
    """The contents of one tenant, and the file that they are in."""

    def __init__(self, tenant: Any):
        """`tenant` is the `sqlite.tenant.Tenant` whose contents they are."""
        Contents.__init__(self, tenant)
        self._tenant = tenant
        PooledFile.__init__(self, tenant.path.with_suffix(".files.db"), tenant.installation.pool)

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
        with self.lock():
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
