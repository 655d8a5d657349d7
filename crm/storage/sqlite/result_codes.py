"""What the errors of SQLite mean, by their extended result codes.

For a code that has several causes (SQLITE_CANTOPEN), free descriptors and the disk are checked.
"""

import errno
import os
import sqlite3
from pathlib import Path

from crm.errors import Busy, CRMError, StorageFull, StorageReadOnly, TenantUnavailable
from crm.open_files import FILES_PER_DATABASE

SQLiteError = sqlite3.Error
# Of a damaged file, whose texts are none any more: this alone has no code of its own.
BLOB_IN_JSON = "JSON cannot hold BLOB values"
# By extended code, else by primary code.
_CAUSES: dict[int, type[CRMError]] = {
    sqlite3.SQLITE_BUSY: Busy,
    sqlite3.SQLITE_PROTOCOL: Busy,
    sqlite3.SQLITE_NOMEM: Busy,
    sqlite3.SQLITE_FULL: StorageFull,
    sqlite3.SQLITE_CORRUPT: TenantUnavailable,
    sqlite3.SQLITE_NOTADB: TenantUnavailable,
    sqlite3.SQLITE_CANTOPEN: TenantUnavailable,
    sqlite3.SQLITE_READONLY: StorageReadOnly,
    sqlite3.SQLITE_IOERR: TenantUnavailable,
    # SQLite makes SQLITE_FULL of ENOSPC alone: a quota and RLIMIT_FSIZE come as IOERR_WRITE. The
    # log's index is made longer by writing to it, and whatever stops that comes as SHMSIZE.
    sqlite3.SQLITE_IOERR_WRITE: StorageFull,
    sqlite3.SQLITE_IOERR_SHMSIZE: StorageFull,
    sqlite3.SQLITE_IOERR_SHMOPEN: StorageFull,
    sqlite3.SQLITE_IOERR_GETTEMPPATH: StorageFull,  # a place for temporary files, not the tenant's
    sqlite3.SQLITE_IOERR_NOMEM: Busy,
    sqlite3.SQLITE_IOERR_SHMMAP: Busy,
    sqlite3.SQLITE_READONLY_DBMOVED: Busy,  # restored meanwhile
}


def cause_of(error: sqlite3.Error, path: Path | None = None) -> type[CRMError] | None:
    """Return why a file could not be used: see `file_errors.cause_of`."""
    code = _code(error)
    if code is None:
        # Raised by `sqlite3` itself for a text that is no UTF-8, and by ours for an empty file.
        unusable = (sqlite3.OperationalError, sqlite3.DatabaseError)
        return TenantUnavailable if type(error) in unusable else None
    if code == sqlite3.SQLITE_ERROR and str(error) == BLOB_IN_JSON:
        return TenantUnavailable
    if code == sqlite3.SQLITE_CANTOPEN and _descriptors_are_used_up():
        return Busy
    cause = _CAUSES.get(code) or _CAUSES.get(code & 0xFF)
    if code & 0xFF == sqlite3.SQLITE_CANTOPEN and path is not None:
        cause = _cause_of_disk(path.parent) or cause
    return cause


def is_of_encoding(error: BaseException) -> bool:
    """Whether a text in the file, or in its schema, is not UTF-8."""
    is_text = type(error) is sqlite3.OperationalError and _code(error) is None
    return is_text or isinstance(error, UnicodeError)


def is_temporary(error: BaseException) -> bool:
    """Whether the cause of an UNUSABLE file may go away without a change of the file."""
    return (_code(error) or 0) & 0xFF not in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def _code(error: BaseException) -> int | None:
    return getattr(error, "sqlite_errorcode", None)


def _descriptors_are_used_up() -> bool:
    """Whether this process cannot open as many files as a connection needs."""
    descriptors: list[int] = []
    try:
        for _ in range(FILES_PER_DATABASE):
            descriptors.append(os.open("/", os.O_RDONLY | os.O_CLOEXEC))
    except OSError as error:
        return error.errno in (errno.EMFILE, errno.ENFILE)
    finally:
        for descriptor in descriptors:
            os.close(descriptor)
    return False


def _cause_of_disk(folder: Path) -> type[CRMError] | None:
    try:
        disk = os.statvfs(folder)
    except OSError:
        return None
    if disk.f_flag & os.ST_RDONLY:
        return StorageReadOnly
    return StorageFull if disk.f_files and not disk.f_favail else None
