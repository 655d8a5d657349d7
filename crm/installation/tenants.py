"""Tenants: from the Host header to a label to where the tenant lives (spec: What the service does,
D18).

Nothing but an exact, valid label of the base domain reaches a file or a schema.
"""

import logging
import math
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crm.config import LABEL, PLANS, Config, ConfigError
from crm.errors import Busy, CRMError, Invalid, UnknownTenant
from crm.installation.hosts import HOST
from crm.installation.secret_key import load_secret_key, new_key
from crm.limits.counters import Counters
from crm.steady_clock import SteadyClock, boot_seconds
from crm.storage import erased, sweeps, uploads
from crm.storage.engine import BASE_HOST_FILE, Engine, create_tenant, label_taken
from crm.storage.file_errors import FILE_ERRORS
from crm.storage.session import TenantSession, session_or_none
from crm.storage.sqlite.connection import ConnectionPool
from crm.storage.sqlite.engine import FileEngine
from crm.storage.unavailable import Unavailable
from crm.storage.wakeup import OnEvent, WakeupPipe

if TYPE_CHECKING:
    from crm.storage.postgres.engine import PostgresEngine

# How soon after a sweep of a tenant's expired rows the next session that ends may sweep again, and
# how soon if MAX_SWEEPS runs were not enough.
SWEEP_INTERVAL_SECONDS, SWEEP_RETRY_SECONDS = 3600, 60
MAX_SWEEPS = 5

# That no new tenant gets (D18); one that has such a label keeps it.
_RESERVED_TEXT = resources.files(__package__).joinpath("reserved_labels.txt").read_text("utf-8")
RESERVED = frozenset(
    label for line in _RESERVED_TEXT.splitlines() if line[:1] != "#" for label in line.split()
)

log = logging.getLogger("crm")


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


class Tenants:
    """All tenants of an installation: in `files`, and with CRM_DATABASE also in `postgres`."""

    def __init__(
        self,
        config: Config,
        clock: Callable[[], float] = time.time,
        uptime: Callable[[], float] | None = None,
    ):
        """`clock` returns epoch seconds, `uptime` the seconds that the machine has been running.

        With a `clock` other than `time.time`, `uptime` is needed only if that clock may be set
        forward and back. Raises ConfigError if CRM_DATABASE needs a package that is not installed.
        """
        self.config = config
        self.clock = clock
        self._tenants: dict[str, Any] = {}
        self.wakeup_pipe = WakeupPipe(config.data)
        self.pool = ConnectionPool(config.max_idle_connections)
        self.unavailable = Unavailable(config.data)
        self.on_event: OnEvent | None = None  # to be set before the first session
        self.files = FileEngine(self)
        self.postgres = _open_postgres(self) if config.database else None
        shared_clock = clock
        if clock is time.time:
            uptime = uptime or boot_seconds
            if self.postgres:
                # Nodes whose clocks differ would take each other's leases as expired.
                shared_clock = self.postgres.server_time
        self.steady_clock = SteadyClock(
            shared_clock, uptime, config.data / "clock", is_new=lambda: not self.labels()
        )
        self.counters = Counters(config.data, self.secret_key)
        self._suffix = "." + config.base_domain

    @property
    def engines(self) -> list[Engine]:
        """Where a tenant is looked for, in this order; new ones live in the first."""
        return [self.postgres, self.files] if self.postgres else [self.files]

    def label_of(self, host: str) -> str | None:
        """Return the label that a Host header names, or None: one label before the base domain."""
        if self.config.tenant:
            return self.config.tenant
        match = HOST.match(host.lower()) if host.isascii() else None
        if match and match[1] == self.config.base_domain:
            return BASE_HOST_FILE
        if not match or not match[1].endswith(self._suffix):
            return None
        label = match[1][: -len(self._suffix)]
        return label if LABEL.match(label) else None

    # Which tenants there are

    def labels(self) -> list[str]:
        """List the labels in alphabetical order, without those of files of other nodes."""
        return sorted({label for engine in self.engines for label in engine.labels()})

    def with_deliveries(self) -> list[str]:
        """List the labels of tenants that may have deliveries to be sent."""
        due = self.postgres.due_labels(math.inf) if self.postgres else []
        return [*due, *self.files.labels()]

    def exists(self, label: str) -> bool:
        """Whether there is a tenant of that label, on any node.

        Raises OSError if the folder of files can't be read, DatabaseUnavailable.
        """
        return bool(LABEL.match(label)) and any(engine.has(label) for engine in self.engines)

    def may_exist(self, label: str) -> bool:
        """Whether there may be a tenant of that label, as far as it is known without waiting."""
        if label == BASE_HOST_FILE or label in self._tenants or self.postgres:
            return True
        try:
            return self.exists(label)
        except OSError:
            return True

    def has_base_host(self) -> bool:
        """Whether the base host's data is there; the first request to that host makes it."""
        return self.engines[0].has(BASE_HOST_FILE)

    def lives_in_file(self, label: str) -> bool:
        """Whether a tenant, or the base host, lives in a file of this machine."""
        if self.postgres and self.postgres.directory.lives_in_schema(label):
            return False
        return self.files.has(label)

    def path(self, label: str) -> Path:
        """Return where a tenant's file is, or would be."""
        return self.files.path(label)

    # One tenant

    def session(self, label: str, sweeps_expired: bool = True) -> TenantSessionContext:
        """Open a session: `with tenants.session(label) as session`.

        Inside a session of the same tenant it is that session. `sweeps_expired`: expired rows may
        be deleted as it ends. Raises UnknownTenant on entering when there is no such tenant, and
        TenantUnavailable, StorageFull or Busy, also on leaving, for errors of the file.
        """
        return TenantSessionContext(self, label, sweeps_expired)

    def tenant(self, label: str) -> Any:
        """Return the tenant of that label; raises UnknownTenant or TenantUnavailable."""
        return self._tenants.get(label) or self._tenants.setdefault(label, self._open(label))

    def _open(self, label: str) -> Any:
        if label == BASE_HOST_FILE or LABEL.match(label):
            for engine in self.engines:
                if tenant := engine.open(label):
                    return tenant
        raise UnknownTenant

    def forget(self, label: str) -> None:
        """Forget where a tenant lived."""
        self._tenants.pop(label, None)

    def find_moved(self, label: str) -> Any:
        """Return a tenant anew that is not where it was, or None; raises Busy if on its way."""
        if self.postgres is None:
            return None
        self.forget(label)
        try:
            # Not tenant(): another thread may just put there again what it had found before.
            tenant = self._tenants[label] = self._open(label)
        except UnknownTenant:
            return None
        return tenant

    def sweep(self, session: TenantSession) -> None:
        """Delete expired rows at the end of a session, which must neither wait nor fail for it."""
        tenant = session.source
        tenant.next_sweep_at = self.steady_clock.uptime() + SWEEP_INTERVAL_SECONDS
        session.lock_wait_seconds = 0
        try:
            uploads.delete_expired()
            finished = not sweeps.is_due() or any(
                sweeps.run(if_due=True) for _ in range(MAX_SWEEPS)
            )
        except CRMError as error:
            finished = not isinstance(error, Busy)  # NewerFile the session's work has raised too
        except Exception as error:
            finished = True
            if tenant.refusal(error) is None:
                log.exception("%s could not be tidied", tenant.label)
        if not finished:
            tenant.next_sweep_at = self.steady_clock.uptime() + SWEEP_RETRY_SECONDS

    # Creating and deleting

    def create(
        self,
        label: str,
        *,
        name: str = "",
        plan: str = "start",
        on_created: Callable[[], None] = lambda: None,
    ) -> None:
        """Create a tenant. `on_created` is called in a session of it before anyone can see it.

        Raises Invalid for a label that can't be an address, Conflict `label_taken`.
        """
        if plan not in PLANS:
            raise Invalid.field("plan", "invalid_choice", f"must be one of {', '.join(PLANS)}")
        self.require_free(label)
        create_tenant(self, self.engines[0], label, name or label, plan, on_created)

    def require_free(self, label: str) -> None:
        """Raise Invalid for a label that can't be an address, Conflict `label_taken`."""
        if label in RESERVED:
            raise Invalid.field("label", "reserved_label", "it is reserved: choose another")
        if not LABEL.match(label):
            detail = "use lower-case Latin letters, digits and hyphen"
            raise Invalid.field("label", "invalid_label", detail)
        if self.exists(label) or self.path(label).exists():
            raise label_taken(label)

    def leave_directory(self, label: str) -> None:
        """Let other nodes know that a tenant was deleted."""
        if self.postgres:
            self.postgres.leave_directory(label)

    # What the installation shares

    def secret_key(self) -> bytes:
        """Return the installation's secret key, creating it if needed.

        Raises StorageFull, or OSError, also if the database of CRM_DATABASE cannot be reached.
        """
        if self.postgres is None:
            return load_secret_key(self.config.data)
        return self.postgres.setting("secret_key", lambda: new_key(self.config.data))

    def note_erased(self, instance: str, records: list[str]) -> None:
        """Note outside a tenant's data which records of it were erased, wherever it lives.

        `instance` is what the tenant has in common with its copies (erased.py).
        """
        erased.note(self.config.data, instance, records)
        if self.postgres:
            self.postgres.note_erased(instance, records)

    def erased(self, instance: str) -> set[str]:
        """Return what note_erased() has noted."""
        noted = erased.read(self.config.data, instance)
        return noted | self.postgres.erased(instance) if self.postgres else noted

    def follow_nodes(self) -> AbstractContextManager[object]:
        """In a `with` block, notify the sender of this process of what is due on any node."""
        return self.postgres.follow_nodes() if self.postgres else nullcontext()

    def notify_nodes(self, label: str) -> None:
        """Notify the senders of other nodes of work for a tenant. Never raises."""
        if self.postgres:
            self.postgres.notify_nodes(label)

    def check_database(self) -> None:
        """Raise the error that all tenants get if the database of CRM_DATABASE is not ready."""
        if self.postgres:
            self.postgres.directory.check()

    def forget_idle(self) -> None:
        """Close every idle connection, for a clean stop."""
        for engine in self.engines:
            engine.close()


def _open_postgres(tenants: Tenants) -> "PostgresEngine":
    """Return the engine of CRM_DATABASE. Raises ConfigError."""
    try:  # only here: without CRM_DATABASE no driver is imported
        from crm.storage.postgres.engine import PostgresEngine
    except ImportError as error:
        raise ConfigError(
            "CRM_DATABASE: it needs the extra `postgres`: pip install 'crm[postgres]', or a single"
            f" file with it ({error})"
        ) from error
    return PostgresEngine(tenants, tenants.files)
