"""The context manager of a session of a tenant."""

import threading
from contextvars import Token
from typing import Any

from crm.tenancy.database import TenantSession, begin_session, end_session, session_or_none
from crm.tenancy.file_errors import FILE_ERRORS
from crm.tenancy.files import UnknownTenant


class TenantSessionContext:
    """The context manager of a session. A generator would take twice as long, on every request."""

    __slots__ = (
        "_connection",
        "_session",
        "_sweeps_expired",
        "_tenant",
        "_tenants",
        "_token",
        "label",
    )

    def __init__(self, tenants: Any, label: str, sweeps_expired: bool = True):
        self._tenants, self.label, self._sweeps_expired = tenants, label, sweeps_expired
        self._token: Token[TenantSession | None] | None = None  # None: inside the same session

    def __enter__(self) -> TenantSession:
        outer = session_or_none()
        if (
            outer is not None
            and outer.label == self.label
            # Two installations may have tenants of one label, but each has its own pipe.
            and outer.source.wakeup_pipe is self._tenants.wakeup_pipe
            and outer.thread_id == threading.get_ident()
        ):
            return outer
        tenant = self._tenants.tenant(self.label)
        try:
            self._connection = tenant.take(writes=False)
        except UnknownTenant:
            if (tenant := self._tenants.find_moved(self.label)) is None:
                raise
            self._connection = tenant.take(writes=False)
        self._tenant = tenant
        try:
            self._session = TenantSession(self.label, self._connection, tenant, self._tenants.clock)
            self._token = begin_session(self._session)
        except BaseException:
            tenant.give(self._connection, writes=False)
            raise
        return self._session

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: Any
    ) -> None:
        session = session_or_none()
        self.end(sweep=error is None and self._sweeps_expired)
        if session is None or not isinstance(error, FILE_ERRORS):
            return
        if refusal := session.source.refusal(error):
            raise refusal from error

    def end(self, sweep: bool = True) -> None:
        """End the session; the connection is kept for the next one."""
        if self._token is None:
            return
        try:
            if sweep and self._tenants.steady_clock.uptime() >= self._tenant.next_sweep_at:
                self._tenants.sweep(self._tenant, self._session)
        finally:
            end_session(self._token)
            self._tenant.give(self._connection, writes=False)
