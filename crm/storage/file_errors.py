"""What an error of a database or of the operating system means for the installation.

Errors are distinguished by SQLSTATEs, SQLite's result codes (sqlite/result_codes.py) and `errno`,
never by their texts.
"""

import errno
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
from crm.storage.causes import Cause
from crm.storage.sqlite import result_codes
from crm.storage.sqlite.result_codes import SQLiteError


class ServerError(Exception):
    """An error of a database server; `sqlstate` is its code of five characters."""

    def __init__(self, message: str, sqlstate: str):
        super().__init__(message)
        self.sqlstate = sqlstate


UNSUITABLE = "CRM03"  # the SQLSTATE of a database that lacks what is needed

# What a tenant's database raises that cannot be used.
FILE_ERRORS = (SQLiteError, PeeweeException, ServerError)


# Of a server, by the SQLSTATE or its class, the first two characters.
_SQLSTATE = {
    "08": Cause.NO_SERVER,  # connection
    "57P": Cause.NO_SERVER,  # it is stopping, starting, or ended this connection
    "53300": Cause.BUSY,  # too many connections
    "53200": Cause.BUSY,  # out of memory
    "53100": Cause.FULL,
    "55P03": Cause.BUSY,  # lock_timeout
    "57014": Cause.BUSY,  # statement_timeout, or a statement cancelled by an administrator
    "40": Cause.BUSY,  # deadlock
    "25P03": Cause.BUSY,  # idle_in_transaction_session_timeout
    "25P04": Cause.BUSY,  # transaction_timeout
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
    errno.EMFILE: Cause.BUSY,
    errno.ENFILE: Cause.BUSY,
}
_REFUSALS: dict[Cause, type[CRMError]] = {
    Cause.FULL: StorageFull,
    Cause.READ_ONLY: StorageReadOnly,
    Cause.NO_SERVER: DatabaseUnavailable,
    Cause.UNUSABLE: TenantUnavailable,
    Cause.NO_RIGHT_TO_WRITE: TenantUnavailable,
}


def cause_of(error: BaseException, path: Path | None = None) -> Cause | None:
    """Return why a file could not be used, or None if the error is of another kind.

    With the `path` of the file, a disk that is read-only or has no room for another file (inodes)
    is distinguished from a file that cannot be opened.
    """
    error = driver_error(error)
    if isinstance(error, OSError):
        return _ERRNO.get(error.errno or 0)
    if isinstance(error, ServerError):
        state = error.sqlstate
        return _SQLSTATE.get(state) or _SQLSTATE.get(state[:3]) or _SQLSTATE.get(state[:2])
    return result_codes.cause_of(error, path) if isinstance(error, SQLiteError) else None


def is_busy(error: BaseException) -> bool:
    """Whether SQLite gave up waiting because another connection held the file for too long."""
    return isinstance(error, FILE_ERRORS) and cause_of(error) is Cause.BUSY


def refusal(error: BaseException, path: Path | None = None) -> CRMError | None:
    """Return the error to raise for a caller, or None if it is not of a file; see cause_of()."""
    cause = cause_of(error, path)
    return None if cause is None else _REFUSALS.get(cause, Busy)()


def describe(error: BaseException) -> str:
    """Describe the error to the operator, with the name of its code, and without any data."""
    error = driver_error(error)
    if isinstance(error, OSError):
        return ": ".join(str(part) for part in (error.strerror, error.filename) if part)
    name = getattr(error, "sqlite_errorname", None) or getattr(error, "sqlstate", None)
    if result_codes.is_of_encoding(error):
        return "it has a text that is not UTF-8"  # the error has the text itself
    return f"{error} ({name})" if name and name != UNSUITABLE else str(error)


def is_unsuitable(error: BaseException | None) -> bool:
    """Whether a database lacks what is needed, so that waiting does not help."""
    return isinstance(error, ServerError) and error.sqlstate == UNSUITABLE


def driver_error(error: BaseException) -> BaseException:
    """Return the driver's error, which has the code, of an error of peewee's."""
    if isinstance(error, PeeweeException) and error.args:
        first = error.args[0]
        return first if isinstance(first, (SQLiteError, ServerError)) else error
    return error
