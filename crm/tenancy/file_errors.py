"""What an error of SQLite or of the operating system means for the installation.

Errors are distinguished by SQLite's extended result codes and by `errno`, never by their texts. For
a code that has several causes (SQLITE_CANTOPEN), free descriptors and the disk are checked.
"""

import errno
import os
import sqlite3
from enum import Enum
from pathlib import Path

from peewee import PeeweeException

from crm.errors import (
    Busy,
    CRMError,
    DatabaseUnavailable,
    StorageFull,
    StorageReadOnly,
    TenantUnavailable,
)
from crm.open_files import FILES_PER_DATABASE


class ServerError(Exception):
    """An error of a database server; `sqlstate` is its code of five characters."""

    def __init__(self, message: str, sqlstate: str):
        super().__init__(message)
        self.sqlstate = sqlstate


UNSUITABLE = "CRM03"  # the SQLSTATE of a database that lacks what is needed

# What a tenant's database raises that cannot be used.
FILE_ERRORS = (sqlite3.Error, PeeweeException, ServerError)


class Cause(Enum):
    """Why a file could not be read or written."""

    BUSY = "another holds it for too long"
    NO_DESCRIPTORS = "this process or machine has too many open files"
    FULL = "the disk, or a quota, is full"
    READ_ONLY = "the file system is read-only"
    NO_RIGHT_TO_WRITE = "the file may only be read"
    NO_SERVER = "the database server cannot be reached"
    UNUSABLE = "the file is damaged, or its rights or its disk do not allow to use it"


# By primary code, unless the extended code says otherwise.
_PRIMARY = {
    sqlite3.SQLITE_BUSY: Cause.BUSY,
    sqlite3.SQLITE_LOCKED: Cause.BUSY,
    sqlite3.SQLITE_PROTOCOL: Cause.BUSY,
    sqlite3.SQLITE_NOMEM: Cause.BUSY,
    sqlite3.SQLITE_FULL: Cause.FULL,
    sqlite3.SQLITE_CORRUPT: Cause.UNUSABLE,
    sqlite3.SQLITE_NOTADB: Cause.UNUSABLE,
    sqlite3.SQLITE_FORMAT: Cause.UNUSABLE,
    sqlite3.SQLITE_CANTOPEN: Cause.UNUSABLE,
    sqlite3.SQLITE_PERM: Cause.UNUSABLE,
    sqlite3.SQLITE_AUTH: Cause.UNUSABLE,
    sqlite3.SQLITE_READONLY: Cause.NO_RIGHT_TO_WRITE,
    sqlite3.SQLITE_IOERR: Cause.UNUSABLE,
}
_EXTENDED = {
    # SQLite makes SQLITE_FULL of ENOSPC alone: a quota and RLIMIT_FSIZE come as IOERR_WRITE. The
    # log's index is made longer by writing to it, and whatever stops that comes as SHMSIZE.
    sqlite3.SQLITE_IOERR_WRITE: Cause.FULL,
    sqlite3.SQLITE_IOERR_SHMSIZE: Cause.FULL,
    sqlite3.SQLITE_IOERR_SHMOPEN: Cause.FULL,
    sqlite3.SQLITE_IOERR_GETTEMPPATH: Cause.FULL,  # a place for temporary files, not the tenant's
    sqlite3.SQLITE_IOERR_NOMEM: Cause.BUSY,
    sqlite3.SQLITE_IOERR_SHMMAP: Cause.BUSY,
    sqlite3.SQLITE_READONLY_DBMOVED: Cause.BUSY,  # restored meanwhile
}
# Of a server, by the SQLSTATE or its class, the first two characters.
_SQLSTATE = {
    "08": Cause.NO_SERVER,  # connection
    "57P": Cause.NO_SERVER,  # it is stopping, starting, or ended this connection
    "53300": Cause.BUSY,  # too many connections
    "53200": Cause.BUSY,  # out of memory
    "53100": Cause.FULL,
    "55P03": Cause.BUSY,  # lock_timeout
    "40": Cause.BUSY,  # deadlock
    "25P03": Cause.BUSY,  # idle_in_transaction_session_timeout
    "25006": Cause.READ_ONLY,  # a standby
    "28": Cause.NO_SERVER,  # the password or the user is refused
    "3D": Cause.NO_SERVER,  # there is no such database
    "58": Cause.NO_SERVER,  # its disk
    UNSUITABLE: Cause.NO_SERVER,
    "XX": Cause.UNUSABLE,  # damaged data
}
_ERRNO = {
    errno.ENOSPC: Cause.FULL,
    errno.EDQUOT: Cause.FULL,
    errno.EFBIG: Cause.FULL,
    errno.EROFS: Cause.READ_ONLY,
    errno.EMFILE: Cause.NO_DESCRIPTORS,
    errno.ENFILE: Cause.NO_DESCRIPTORS,
}


def cause_of(error: BaseException, path: Path | None = None) -> Cause | None:
    """Return why a file could not be used, or None if the error is of another kind.

    With the `path` of the file, a disk that is read-only or has no room for another file (inodes)
    is distinguished from a file that cannot be opened.
    """
    error = _original(error)
    if isinstance(error, OSError):
        return _ERRNO.get(error.errno or 0)
    if isinstance(error, ServerError):
        state = error.sqlstate
        return _SQLSTATE.get(state) or _SQLSTATE.get(state[:3]) or _SQLSTATE.get(state[:2])
    if not isinstance(error, sqlite3.Error):
        return None
    code = getattr(error, "sqlite_errorcode", None)
    if code is None:
        # Raised by `sqlite3` itself for a text that is no UTF-8, and by ours for an empty file.
        unusable = (sqlite3.OperationalError, sqlite3.DatabaseError)
        return Cause.UNUSABLE if type(error) in unusable else None
    if code == sqlite3.SQLITE_CANTOPEN and descriptors_are_used_up():
        return Cause.NO_DESCRIPTORS
    cause = _EXTENDED.get(code) or _PRIMARY.get(code & 0xFF)
    if code & 0xFF in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY) and path is not None:
        cause = _cause_of_disk(path.parent) or cause
    return cause


def is_of_schema(error: BaseException) -> bool:
    """Whether a statement names what SQLite does not find: by a bug, or in a damaged schema."""
    return getattr(_original(error), "sqlite_errorcode", None) == sqlite3.SQLITE_ERROR


def is_busy(error: BaseException) -> bool:
    """Whether SQLite gave up waiting because another connection held the file for too long."""
    return isinstance(error, FILE_ERRORS) and cause_of(error) is Cause.BUSY


def refusal(error: BaseException, path: Path | None = None) -> CRMError | None:
    """Return the error to raise for a caller, or None if it is not of a file; see cause_of()."""
    cause = cause_of(error, path)
    if cause is Cause.FULL:
        return StorageFull()
    if cause is Cause.READ_ONLY:
        return StorageReadOnly()
    if cause is Cause.NO_SERVER:
        return DatabaseUnavailable()
    if cause in (Cause.UNUSABLE, Cause.NO_RIGHT_TO_WRITE):
        return TenantUnavailable()
    return None if cause is None else Busy()


def describe(error: BaseException) -> str:
    """Describe the error to the operator, with the name of its code, and without any data."""
    error = _original(error)
    if isinstance(error, OSError):
        return ": ".join(str(part) for part in (error.strerror, error.filename) if part)
    name = getattr(error, "sqlite_errorname", None) or getattr(error, "sqlstate", None)
    if isinstance(error, UnicodeError):
        return "its schema is not UTF-8"
    if name is None and type(error) is sqlite3.OperationalError:
        return "it has a text that is not UTF-8"  # the error has the text itself
    return f"{error} ({name})" if name and name != UNSUITABLE else str(error)


def is_temporary(error: BaseException) -> bool:
    """Whether the cause of an UNUSABLE file may go away without a change of the file."""
    code = getattr(_original(error), "sqlite_errorcode", None) or 0
    return code & 0xFF not in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def is_unsuitable(error: BaseException | None) -> bool:
    """Whether a database lacks what is needed, so that waiting does not help."""
    return isinstance(error, ServerError) and error.sqlstate == UNSUITABLE


def descriptors_are_used_up() -> bool:
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


def _original(error: BaseException) -> BaseException:
    """Return the driver's error, which has the code, of an error of peewee's."""
    if isinstance(error, PeeweeException) and error.args:
        first = error.args[0]
        return first if isinstance(first, (sqlite3.Error, ServerError)) else error
    return error


def _cause_of_disk(folder: Path) -> Cause | None:
    try:
        disk = os.statvfs(folder)
    except OSError:
        return None
    if disk.f_flag & os.ST_RDONLY:
        return Cause.READ_ONLY
    return Cause.FULL if disk.f_files and not disk.f_favail else None
