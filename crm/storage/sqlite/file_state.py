"""Whether a tenant's file can be used.

One that cannot is not opened again until it changes: one `stat` per session instead.
"""

import math
import time
from typing import Any

from crm.errors import Busy, CRMError, StorageReadOnly, TenantUnavailable, UnknownTenant
from crm.storage import file_errors
from crm.storage.file_errors import driver_error
from crm.storage.sqlite import result_codes
from crm.storage.sqlite.connection import file_at
from crm.storage.unavailable import Unavailable, Unusable, identity

# After which an unusable file is tried again where the cause may not be the file: its disk.
RETRY_SECONDS = 60.0


class FileState:
    """What is known of one tenant's file in this process."""

    def __init__(self, tenant: Any, unavailable: Unavailable):
        """`tenant` is the `tenant.Tenant` whose file it is."""
        self._tenant, self._unavailable = tenant, unavailable
        self._label, self._path = tenant.label, tenant.path
        # Why the file could not be used, or not written, when it was used last.
        self.unusable: Unusable | None = None

    def require_usable(self) -> None:
        """Raise TenantUnavailable while the file is as it was when it could not be used."""
        unusable = self.unusable
        if unusable is None:
            return
        changed = identity(self._path) != unusable.identity
        if not changed and time.monotonic() < unusable.retry_at:
            self._unavailable.report(self._label, unusable.identity, unusable.cause)
            raise TenantUnavailable
        self.unusable = None
        self._tenant.forget_connections()

    def refusal(self, error: BaseException) -> CRMError | None:
        """Return the error to raise for an error in using the file; None if it is another's."""
        cause = file_errors.cause_of(error, self._path)
        if cause is StorageReadOnly:
            # It can still be read, but a connection opened now may never write.
            self.unusable = Unusable("", identity(self._path), 0.0)
        if cause is TenantUnavailable:
            return self._mark_unusable(error)
        return cause() if cause else None

    def refusal_to_open(self, error: OSError | UnicodeError) -> CRMError:
        """Return the error to raise for an error in opening the file or its lock."""
        return file_errors.refusal(error, self._path) or self._mark_unusable(error)

    def _mark_unusable(self, error: BaseException) -> CRMError:
        if refused := self._refusal_if_gone():
            return refused
        is_temporary = result_codes.is_temporary(driver_error(error))
        retry_at = time.monotonic() + RETRY_SECONDS if is_temporary else math.inf
        file_identity = self._unavailable.add(self._label, self._path, error)
        self.unusable = Unusable(file_errors.describe(error), file_identity, retry_at)
        self._tenant.forget_connections()
        return TenantUnavailable()

    def _refusal_if_gone(self) -> CRMError | None:
        """Return the error to raise if the file was deleted or moved; None if it is there."""
        try:
            file_at(self._path)
            return None
        except FileNotFoundError:
            try:
                # If it was moved, the next session finds it.
                return UnknownTenant() if self._tenant.find_moved() is None else Busy()
            except CRMError as refused:
                return refused
        except OSError:
            return None
