"""The errors that rules raise; the API, the pages and the command line show each in their way.

Every error has a stable `code` and a `detail`, a lower-case sentence that a user can act on (D14).
"""

import sysconfig
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

MAX_FAULTS = 20  # of one request; after them the check stops


@dataclass(frozen=True, slots=True)
class Fault:
    """One error of one value.

    `where` is its JSON pointer, or the name of a parameter or header, as `kind` says.
    """

    where: str
    code: str
    detail: str
    kind: str = "pointer"


def describe_origin(error: BaseException) -> str:
    """Return the type of an error and its line in the embedding site's code, for a log.

    The error's text is left out, because it may contain personal data; the name of a missing
    attribute or variable is code. The line is the last one outside of installed packages, Python's
    library and this package, so an error that an ORM raises names the line that used the ORM.
    """
    frames = traceback.extract_tb(error.__traceback__)
    site_frames = [frame for frame in frames if not _is_library(frame.filename)]
    missing = getattr(error, "name", None) if isinstance(error, (AttributeError, NameError)) else ""
    kind = f"{type(error).__name__} ({missing!r})" if missing else type(error).__name__
    if not frames:
        return kind
    frame = (site_frames or frames)[-1]
    return f"{kind} in {frame.name}, {Path(frame.filename).name}:{frame.lineno}"


_LIBRARIES = (str(Path(__file__).parent), sysconfig.get_path("stdlib"), "<frozen ")


def _is_library(file: str) -> bool:
    return file.startswith(_LIBRARIES) or "-packages/" in file


class CRMError(Exception):
    """The base of all errors that this service raises on purpose."""

    code = "error"
    detail = "the request was refused"
    faults: Sequence[Fault] = ()

    def __init__(self, detail: str = "", code: str = "", reason: Any = "", **more: Any):
        """`reason` is for the operator alone, instead of the detail."""
        super().__init__(detail or self.detail)
        self.reason = reason
        self.detail = detail or self.detail
        self.code = code or self.code
        self.more = more


class Invalid(CRMError):
    """Values are not valid: `faults` names each one."""

    code = "validation_failed"
    detail = "some values do not fit"

    def __init__(self, faults: list[Fault] | Fault | str, code: str = "", **more: Any):
        if isinstance(faults, str):
            super().__init__(faults, code, **more)
            return
        self.faults = [faults] if isinstance(faults, Fault) else faults[:MAX_FAULTS]
        first = self.faults[0]
        super().__init__(f"{first.where.strip('/') or 'body'}: {first.detail}", code, **more)

    @classmethod
    def field(cls, name: str, code: str, detail: str) -> "Invalid":
        """Return the error of one field of a body, named as on the wire."""
        return cls(Fault(f"/{name}", code, detail))

    @classmethod
    @contextmanager
    def under(cls, name: str) -> Iterator[None]:
        """Let what is wrong in the block be wrong in this field of a body."""
        try:
            yield
        except cls as invalid:
            wheres = [f"/{name}/{fault.where.removeprefix('/')}" for fault in invalid.faults]
            faults = zip(wheres, invalid.faults, strict=True)
            raise cls([Fault(where, one.code, one.detail) for where, one in faults]) from None


class Malformed(CRMError):
    code, detail = "malformed_body", "the body is not valid JSON"


class Unauthorized(CRMError):
    code, detail = "invalid_key", "a valid API key is required: Authorization: Bearer <API_KEY>"


class Forbidden(CRMError):
    code, detail = "forbidden", "this key may not do that"


class NotFound(CRMError):
    code, detail = "not_found", "there is nothing here"
    id = ""  # of the record that was asked for, if it was merged into another


class UnknownTenant(NotFound):
    """There is no tenant of that label."""


class Gone(CRMError):
    code, detail = "gone", "this is not kept any more"


class Conflict(CRMError):
    code, detail = "conflict", "the record is in a state that does not allow this"


class Stale(CRMError):
    """The record has another version than the one that the caller expects (D4: If-Match)."""

    code, detail = "precondition_failed", "the record has changed since it was read"


class TooLarge(CRMError):
    code, detail = "too_large", "the body is larger than allowed"


class WrongType(CRMError):
    code, detail = "unsupported_media_type", "send the body as application/json"


class TooMany(CRMError):
    """Over a limit; `retry_after` in seconds."""

    code, detail = "rate_limited", "too many requests in this minute"

    def __init__(self, detail: str = "", code: str = "", retry_after: int = 1):
        super().__init__(detail, code)
        self.retry_after = retry_after


class Busy(CRMError):
    """The writer lock was not free in time; the same request may be sent again."""

    code, detail = "busy", "the service is busy, try again in a moment"
    retry_after = 1


class StorageFull(Busy):
    """The disk is full. What was acknowledged before is stored safely."""

    code, detail = "storage_full", "the service cannot store anything now: its disk is full"
    retry_after = 60


class StorageQuota(CRMError):
    """The tenant's file has reached what its plan allows (CRM_STORAGE)."""

    code, detail = "storage_quota", "the storage of this plan is used up"


class StorageReadOnly(StorageFull):
    """The file system is read-only: mounted so, or set so by the kernel after disk errors."""

    code = "storage_read_only"
    detail = "the service cannot store anything now: its disk is read-only"


class TenantElsewhere(Busy):
    """The tenant has a file on another node of the installation, which this one cannot serve."""

    code, detail = "tenant_elsewhere", "this account is served by another machine"
    retry_after = 60


class TenantUnavailable(CRMError):
    """The tenant's file is damaged or unreadable. Other tenants are not affected."""

    code = "tenant_unavailable"
    detail = "the data of this account cannot be used at this moment; its operator has been told"
    retry_after = 60


class DatabaseUnavailable(TenantUnavailable):
    """The database server of the tenant cannot be reached, or the database not be used."""

    detail = "the database cannot be reached at this moment: try again"
    retry_after = 5
    is_final = False  # the database lacks what is needed, so that waiting does not help


class Outdated(BaseException):
    """A request went on with rows as remembered, and they have changed: it begins again.

    No handler of errors catches it, since it is none.
    """


class NoTenant(RuntimeError):
    """A query without a session, in another thread than its session's, across two tenants, or a
    write outside a transaction: an error of the program, such as a call outside `crm.tenant(…)`."""


@dataclass(slots=True)
class FaultCollector:
    """Collects the faults of one body, so that the sender gets them together.

    At MAX_FAULTS add() raises Invalid itself.
    """

    faults: list[Fault] = field(default_factory=list)

    def add(self, name: str, code: str, detail: str) -> None:
        self.faults.append(Fault(f"/{name}", code, detail))
        if len(self.faults) == MAX_FAULTS:
            self.raise_any()

    def raise_any(self) -> None:
        if self.faults:
            raise Invalid(self.faults)


def operator_text(error: Exception) -> str:
    """Return an error as one line, with what is meant for the operator alone."""
    text = getattr(error, "reason", "") or str(error)
    return " ".join(text.split()) or type(error).__name__
