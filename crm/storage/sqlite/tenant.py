"""A tenant's file: its connections, transactions and migration."""

import math
import sqlite3
import time
from collections.abc import Iterable
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from typing import Any

from crm.errors import Busy, CRMError, StorageReadOnly, TenantUnavailable, UnknownTenant
from crm.storage import commit_groups, disk, file_errors, upgrades
from crm.storage.commit_groups import MAX_LOCK_WAIT_SECONDS
from crm.storage.connection_source import ConnectionSource
from crm.storage.file_errors import FILE_ERRORS
from crm.storage.heavy_work import HeavyWorkLock
from crm.storage.session import TenantSession, session_or_none
from crm.storage.sqlite import archive_file, litestream, migrations, result_codes
from crm.storage.sqlite.connection import FileConnection, connect
from crm.storage.sqlite.file_contents import FileContents
from crm.storage.sqlite.file_uploads import FileUploads
from crm.storage.sqlite.pooled_file import PooledFile
from crm.storage.unavailable import Unusable, identity

# After which an unusable file is tried again where the cause may not be the file: its disk.
RETRY_SECONDS = 60.0


class Tenant(PooledFile, ConnectionSource):
    """A tenant's file and its locks: the source of a session's connections.

    A transaction holds the writer lock: SQLite before 3.51.3 can corrupt a file when one connection
    writes while another checkpoints, and a queue of our own is fairer than SQLite's busy loop.
    """

    engine_name = "sqlite"
    has_one_sender = True  # the one that holds the lock of the wake-up pipe

    def __init__(self, label: str, path: Path, installation: Any):
        """`installation` is the `installation.tenants.Tenants` that it is one of."""
        ConnectionSource.__init__(self, label, installation)
        PooledFile.__init__(self, path, installation.pool)
        self.heavy_work_lock = HeavyWorkLock(path.with_suffix(".lock"))
        self.uploads = FileUploads(self.config.data, label)
        self.contents = FileContents(self)
        # Why the file could not be used, or not written, when it was used last.
        self._unusable: Unusable | None = None

    def take(self, writes: bool) -> FileConnection:
        """Take an open connection to the file that is there now, to read or also to write.

        Raises UnknownTenant, TenantUnavailable, StorageFull, Busy.
        """
        self._require_usable()
        try:
            return self.take_idle(writes) or self._open(writes)
        except FileNotFoundError:
            for deleted in (self, self.contents):  # this frees the disk space of the files
                self._pool.forget(deleted)
            raise UnknownTenant from None
        except (OSError, UnicodeError) as error:  # SQLite's message may have bytes of the file
            raise self._refusal_to_open(error) from error
        except FILE_ERRORS as error:
            raise self.refusal(error) or error from error

    def begin(self, session: TenantSession) -> None:
        """Begin a transaction that writes, through another connection than the session's reader.

        It joins the open group of the thread (commit_groups.py). Raises Busy, and what take() does.
        """
        if commit_groups.join(self, session):
            return
        writer = self.take(writes=True)
        try:
            self.lock.acquire(session.lock_wait_seconds)
        except BaseException as error:
            self.give(writer, writes=True)
            if isinstance(error, OSError):
                raise self._refusal_to_open(error) from error
            raise
        session.connection = writer
        try:
            # The holder of the lock before may have restored the file: what is written to the old
            # one, or decided by it, is lost.
            if not self.is_current(writer, session.reader):
                raise Busy
            writer.execute("BEGIN IMMEDIATE")
            commit_groups.open_group(self, writer, session)
        except BaseException as error:
            self._return_writer(session)
            if file_errors.is_busy(error):
                raise Busy from error
            raise

    def commit(self, session: TenantSession) -> None:
        """Commit the transaction, or leave that to its group; if that fails, rollback() ends it."""
        if session.group is not None:
            session.group.leave()
            return
        session.connection.execute("COMMIT")
        self._return_writer(session)

    def rollback(self, session: TenantSession) -> None:
        """Undo the transaction."""
        if session.group is not None:
            session.group.undo()
            return
        try:
            if session.connection.in_transaction:
                session.connection.rollback()
        finally:
            self._return_writer(session)

    def _return_writer(self, session: TenantSession) -> None:
        """Release the lock and give back the connection that a transaction wrote through."""
        writer, session.connection = session.connection, session.reader
        self.lock.release()
        self.give(writer, writes=True)

    @property
    def place(self) -> str:
        """Where the tenant's data is, for the operator: the path of its file."""
        return self._name

    def read_first_row(self, sql: str, wait_seconds: float = 0) -> tuple[Any, ...] | None:
        """Read the first row of one statement in the file as it is, of whatever version.

        `wait_seconds`: how long to wait for a writer. Raises TenantUnavailable, StorageFull, Busy.
        """
        self._require_usable()
        try:
            with self.lock(wait_seconds), closing(connect(self.path)) as connection:
                return connection.execute(sql).fetchone()
        except FILE_ERRORS as error:
            raise self.refusal(error) or error from error

    def version(self) -> int:
        """Return the version of the file, which is not migrated.

        Raises NewerFile for an unreleased one, and as read_first_row().
        """
        row = self.read_first_row(migrations.READ_VERSION, MAX_LOCK_WAIT_SECONDS)
        assert row is not None  # SQLite always answers this
        return migrations.version_in(*row)

    def check(self, full: bool) -> tuple[int, list[str]]:
        """Return the version of the file, which is not migrated, and what is wrong with it.

        `full`: compare the indexes with their tables too.
        """
        connection = self.connect(writes=False)
        try:
            pragma = "integrity_check" if full else "quick_check"
            faults = [text for (text,) in connection.execute(f"PRAGMA {pragma}(3)").fetchall()]
            return migrations.version(connection), [] if faults == ["ok"] else faults
        finally:
            self.close(connection, 5)

    def migrate(self) -> int:
        """Bring the file up to date, and return the version that it had.

        Raises NewerFile, NotUpgraded, UnknownTenant, TenantUnavailable, StorageFull, Busy.
        """
        version = self.version()
        self.give(self.take(writes=False), writes=False)  # opening it migrates it
        self._pool.forget(self)
        return version

    def write_archive(self, to: Path) -> None:
        """Copy the file, then its contents, to a path where nothing is: checked and synced."""
        self.copy(to)
        disk.sync(to)

    def copy(self, to: Path) -> None:
        """Copy the file as write_archive() does, but don't sync the copy."""
        session = session_or_none()
        if session is not None and session.source is self:
            archive_file.copy_pages(session.reader, to)
        else:
            connection = self.take(writes=False)
            try:
                archive_file.copy_pages(connection, to)
            finally:
                self.give(connection, writes=False)
        self.contents.write_into(to)
        archive_file.check_copy(to, f"the copy of {self.label}")

    def scrub(self, tables: Iterable[str]) -> None:
        """Remove what was deleted from the bytes of the file and its log.

        The file is written anew, and so are the segments of its search indexes, which keep the
        pieces of deleted texts. Raises Busy while the log is being read for long.
        """
        writer = self.take(writes=True)
        try:
            with self.lock():
                names = "SELECT name FROM sqlite_master WHERE name LIKE '%\\_search' ESCAPE '\\'"
                for (name,) in writer.execute(names).fetchall():
                    writer.execute(f"INSERT INTO {name} ({name}) VALUES ('optimize')")
                writer.execute("VACUUM")
                blocked, *_ = writer.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            if blocked:
                raise Busy("the log of the file is being read")
        finally:
            self.give(writer, writes=True)

    def refusal(self, error: BaseException) -> CRMError | None:
        """Return the error to raise for an error in using this file; None if it is another's.

        If the file cannot be used it is not opened again until it changes.
        """
        cause = file_errors.cause_of(error, self.path)
        if cause is StorageReadOnly:
            # It can still be read, but a connection opened now may never write.
            self._unusable = Unusable("", identity(self.path), 0.0)
        if cause is TenantUnavailable:
            return self._mark_unusable(error)
        return cause() if cause else None

    def _refusal_to_open(self, error: OSError | UnicodeError) -> CRMError:
        """Return the error to raise for an error in opening the file or its lock."""
        return file_errors.refusal(error, self.path) or self._mark_unusable(error)

    def _mark_unusable(self, error: BaseException) -> CRMError:
        with suppress(PermissionError):
            if not self.is_current():  # it was deleted or moved: the next session looks for it
                return UnknownTenant()
        is_temporary = result_codes.is_temporary(error)
        retry_at = time.monotonic() + RETRY_SECONDS if is_temporary else math.inf
        file_identity = self.installation.unavailable.add(self.label, self.path, error)
        self._unusable = Unusable(file_errors.describe(error), file_identity, retry_at)
        self.forget_connections()
        return TenantUnavailable()

    def _require_usable(self) -> None:
        """Raise TenantUnavailable while the file is as it was when it could not be used.

        So one that cannot is not opened again until it changes: one `stat` per session instead.
        """
        unusable = self._unusable
        if unusable is None:
            return
        changed = identity(self.path) != unusable.identity
        if not changed and time.monotonic() < unusable.retry_at:
            self.installation.unavailable.report(self.label, unusable.identity, unusable.cause)
            raise TenantUnavailable
        self._unusable = None
        self.forget_connections()

    def give(self, connection: FileConnection, writes: bool) -> None:
        """Give back a connection, which stays open for the next session."""
        super().give(connection, writes)
        if self._unusable:
            self.forget_connections()

    def _open(self, writes: bool) -> FileConnection:
        """Open a connection to the file, which is migrated first if it is not up to date."""
        connection = self.connect(writes)
        try:
            if writes:
                litestream.leave_checkpoints(connection, self.config.data)
            (mode,) = connection.execute("PRAGMA journal_mode").fetchone()
            version = migrations.version(connection)
            if not version:  # a new tenant's file has its steps before it has its name
                raise sqlite3.DatabaseError("the file is empty")
            if mode != "wal" or version != len(migrations.STEPS):
                self._migrate()
        except BaseException:
            connection.close()
            raise
        return connection

    def connect(self, writes: bool) -> FileConnection:
        """Open a connection to the file as it is, of whatever version; close it by close().

        Raises OSError and SQLite's errors: on a full disk also to read, because SQLite cannot
        create the index of the log there (`-shm`).
        """
        with disk.locked(self.path.parent, shared=True):  # reading from it opens its log
            connection = connect(self.path, writes)
            try:
                migrations.version(connection)
            except BaseException:
                connection.close()
                raise
        return connection

    def _migrate(self) -> None:
        with self.lock():
            connection = connect(self.path)
            try:
                litestream.leave_checkpoints(connection, self.config.data)
                if migrations.version(connection) < len(migrations.STEPS):
                    copy = partial(archive_file.copy_before_upgrade, connection)
                    upgrades.keep_archive(self, migrations.version(connection), copy)
                connection.execute("PRAGMA journal_mode = WAL")  # a copy by VACUUM INTO has none
                migrations.migrate(connection, self.label)
                if self.contents.take_from(connection):  # it is an archive
                    connection.execute("DELETE FROM file_content")  # chunks are deleted with it
                    connection.execute("VACUUM")
            finally:
                connection.close()
