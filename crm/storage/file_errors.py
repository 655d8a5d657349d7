"""What an error of a database or of the operating system means for the installation.

Errors are distinguished by SQLSTATEs, SQLite's result codes (sqlite/result_codes.py) and `errno`,
but for one of SQLite's never by their texts.
"""

import errno
from pathlib import Path

from crm.errors import (
    Busy,
    CRMError,
    DatabaseUnavailable,
    StorageFull,
    StorageReadOnly,
    TenantUnavailable,
)
from crm.storage.sqlite import result_codes
from crm.storage.sqlite.result_codes import SQLiteError


class ServerError(Exception):
    """An error of a database server; `sqlstate` is its code of five characters."""

    def __init__(self, message: str, sqlstate: str):
        super().__init__(message)
        self.sqlstate = sqlstate


UNSUITABLE = "CRM03"  # the SQLSTATE of a database that lacks what is needed

# What a tenant's database raises that cannot be used.
FILE_ERRORS = (SQLiteError, ServerError)


# Of a server, by the SQLSTATE or its class, the first two characters.
_SQLSTATE: dict[str, type[CRMError]] = {
    "08": DatabaseUnavailable,  # connection
    "57P": DatabaseUnavailable,  # it is stopping, starting, or ended this connection
    "53300": Busy,  # too many connections
    "53200": Busy,  # out of memory
    "53100": StorageFull,
    "55P03": Busy,  # lock_timeout
    "57014": Busy,  # statement_timeout, or a statement cancelled by an administrator
    "40": Busy,  # deadlock
    "25P03": Busy,  # idle_in_transaction_session_timeout
    "25P04": Busy,  # transaction_timeout
    "25006": StorageReadOnly,  # a standby
    "28": DatabaseUnavailable,  # the password or the user is refused
    "3D": DatabaseUnavailable,  # there is no such database
    "58": DatabaseUnavailable,  # its disk
    UNSUITABLE: DatabaseUnavailable,
    "XX": TenantUnavailable,  # damaged data
}
_ERRNO: dict[int, type[CRMError]] = {
    errno.ENOSPC: StorageFull,
    errno.EDQUOT: StorageFull,
    errno.EFBIG: StorageFull,
    errno.EROFS: StorageReadOnly,
    errno.EMFILE: Busy,
    errno.ENFILE: Busy,
}


def cause_of(error: BaseException, path: Path | None = None) -> type[CRMError] | None:
    """Return why a file could not be used: the error to raise; None if it is of another kind.

    With the `path` of the file, a disk that is read-only or has no room for another file (inodes)
    is distinguished from a file that cannot be opened.
    """
    if isinstance(error, OSError):
        return _ERRNO.get(error.errno or 0)
    if isinstance(error, ServerError):
        state = error.sqlstate
        return _SQLSTATE.get(state) or _SQLSTATE.get(state[:3]) or _SQLSTATE.get(state[:2])
    return result_codes.cause_of(error, path) if isinstance(error, SQLiteError) else None


def is_busy(error: BaseException) -> bool:
    """Whether SQLite gave up waiting because another connection held the file for too long."""
    return isinstance(error, FILE_ERRORS) and cause_of(error) is Busy


def refusal(error: BaseException, path: Path | None = None) -> CRMError | None:
    """Return the error to raise for a caller, or None if it is not of a file; see cause_of()."""
    cause = cause_of(error, path)
    return cause() if cause else None


def describe(error: BaseException) -> str:
    """Describe the error to the operator, with the name of its code, and without any data."""
    if isinstance(error, OSError):
        return ": ".join(str(part) for part in (error.strerror, error.filename) if part)
    name = getattr(error, "sqlite_errorname", None) or getattr(error, "sqlstate", None)
    if result_codes.is_of_encoding(error):
        return "it has a text that is not UTF-8"  # the error has the text itself
    return f"{error} ({name})" if name and name != UNSUITABLE else str(error)
