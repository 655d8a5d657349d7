"""The context manager of a session of a tenant."""

import threading
from typing import Any

from crm.errors import UnknownTenant
from crm.storage.file_errors import FILE_ERRORS
from crm.storage.session import TenantSession, session_or_none


class TenantSessionContext:
    """The context manager of a session. A generator would take twice as long, on every request."""

    def __init__(self, tenants: Any, label: str, sweeps_expired: bool = True):
        self._tenants, self.label, self._sweeps_expired = tenants, label, sweeps_expired
        self._session: TenantSession | None = None  # None: inside the same session

    def __enter__(self) -> TenantSession:
        outer = session_or_none()
        if (
            outer is not None
            and outer.is_of(self.label, self._tenants.wakeup_pipe)
            and outer.thread_id == threading.get_ident()
        ):
            return outer
        tenant = self._tenants.tenant(self.label)
        try:
            connection = tenant.take(writes=False)
        except UnknownTenant:
            if (tenant := self._tenants.find_moved(self.label)) is None:
                raise
            connection = tenant.take(writes=False)
        try:
            session = TenantSession(self.label, connection, tenant, self._tenants.clock)
            self._session = session.__enter__()
        except BaseException:
            tenant.give(connection, writes=False)
            raise
        return session

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
        session, self._session = self._session, None
        if session is None:
            return
        try:
            if sweep and self._tenants.steady_clock.uptime() >= session.source.next_sweep_at:
                self._tenants.sweep(session)
        finally:
            session.__exit__()
            session.source.give(session.reader, writes=False)
