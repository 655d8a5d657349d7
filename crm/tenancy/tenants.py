"""Tenants: from the Host header to a label to a file (spec: What the service does, D18).

Nothing but an exact, valid label of the base domain reaches a file.
"""

import logging
import os
import secrets
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext, suppress
from pathlib import Path
from typing import Any

from crm.config import LABEL, PLANS, Config
from crm.errors import Busy, Conflict, CRMError, Invalid, TenantUnavailable
from crm.tenancy import disk, litestream, migrations, sweeps, uploads
from crm.tenancy.connection_pool import ConnectionPool
from crm.tenancy.database import (
    MAX_LOCK_WAIT_SECONDS,
    TenantSession,
    begin_session,
    end_session,
    time_text,
)
from crm.tenancy.engines.sqlite import connect, read_first_row
from crm.tenancy.file_errors import FILE_ERRORS, Cause, cause_of
from crm.tenancy.files import Tenant, UnknownTenant
from crm.tenancy.hosts import HOST
from crm.tenancy.limit_stores import open_limit_stores
from crm.tenancy.reserved_labels import RESERVED
from crm.tenancy.secret_key import load_secret_key
from crm.tenancy.session_context import TenantSessionContext
from crm.tenancy.steady_clock import SteadyClock, boot_seconds
from crm.tenancy.unavailable import Unavailable
from crm.tenancy.wakeup import OnEvent, WakeupPipe
from crm.timed_checks import LevelAndDetail

# The "label" of the base host's own file, which has sessions like a tenant's; not a valid label.
BASE_HOST_FILE = "_front"
# How soon after a sweep of a tenant's expired rows the next session that ends may sweep again, and
# how soon if MAX_SWEEPS runs were not enough.
SWEEP_INTERVAL_SECONDS, SWEEP_RETRY_SECONDS = 3600, 60
MAX_SWEEPS = 5
# Of new files. Each table and index of an empty one takes a page, 128 in all; lists, searches and
# imports of 500,000 rows are as fast as with SQLite's 4096.
PAGE_BYTES = 1024
MAX_CACHED_HOSTS = 10_000
INSERT_TENANT = "INSERT INTO tenant (id, name, plan, created_at, tidied_at) VALUES (1, ?, ?, ?, ?)"

# A check of `doctor`: its name, and a function.
DatabaseCheck = tuple[str, Callable[[], Iterable[LevelAndDetail]]]

log = logging.getLogger("crm")


class Tenants:
    """All tenants of an installation whose tenants are files below `config.data`."""

    def __init__(
        self,
        config: Config,
        clock: Callable[[], float] = time.time,
        uptime: Callable[[], float] | None = None,
    ):
        """`clock` returns epoch seconds, `uptime` the seconds that the machine has been running.

        With a `clock` other than `time.time`, `uptime` is needed only if that clock may be set
        forward and back.
        """
        self.config = config
        self.clock = clock
        self.folder = config.data / "tenants"
        self._tenants: dict[str, Any] = {}
        self._hosts: dict[str, str] = {}
        if clock is time.time:
            uptime = uptime or boot_seconds
        self.steady_clock = SteadyClock(
            clock, uptime, config.data / "clock", is_new=lambda: not self.labels()
        )
        self.wakeup_pipe = WakeupPipe(config.data)
        self.counters, self.sms_log = open_limit_stores(config, self.secret_key)
        self.pool = ConnectionPool(config.max_idle_connections)
        self.unavailable = Unavailable(config.data)
        self.on_event: OnEvent | None = None  # to be set before the first session
        self._suffix = "." + config.base_domain

    def label_of(self, host: str) -> str | None:
        """Return the label that a Host header names, or None: one label before the base domain."""
        if self.config.tenant:
            return self.config.tenant
        if host in self._hosts:
            return self._hosts[host]
        match = HOST.match(host.lower()) if host.isascii() else None
        if match and match[1] == self.config.base_domain:
            return BASE_HOST_FILE
        if not match or not match[1].endswith(self._suffix):
            return None
        label = match[1][: -len(self._suffix)]
        if not LABEL.match(label):
            return None
        # Only hosts of tenants in use, so that strangers can't fill the cache.
        if label in self._tenants and len(self._hosts) < MAX_CACHED_HOSTS:
            self._hosts[host] = label
        return label

    def path(self, label: str) -> Path:
        """Return where a tenant's file is, or would be."""
        if label == BASE_HOST_FILE:
            return self.config.data / "front.db"
        return self.folder / f"{label}.db"

    def labels(self) -> list[str]:
        """List the labels of all tenants in alphabetical order."""
        return self.file_labels()

    def file_labels(self) -> list[str]:
        """List the labels of tenants that have a file on this machine, in alphabetical order."""
        try:
            names = os.listdir(self.folder)
        except FileNotFoundError:
            return []
        labels = (name.removesuffix(".db") for name in names if name.endswith(".db"))
        return sorted(
            label for label in labels if LABEL.match(label) and self.path(label).is_file()
        )

    def recent_first(self) -> list[str]:
        """List the labels of all tenants in files, those written to last first."""

        def written_at(label: str) -> float:
            newest = 0.0
            for name in (f"{label}.db", f"{label}.db-wal"):
                with suppress(FileNotFoundError):
                    newest = max(newest, os.stat(self.folder / name).st_mtime)
            return newest

        return sorted(Tenants.labels(self), key=written_at, reverse=True)

    def follow_nodes(self) -> AbstractContextManager[object]:
        """In a `with` block, notify the sender of this process of what is due on any node.

        Files have no other nodes.
        """
        return nullcontext()

    def notify_nodes(self, label: str) -> None:
        """Notify the senders of other nodes of work for a tenant. Never raises."""

    def exists(self, label: str) -> bool:
        """Whether there is a tenant of that label; raises OSError if the folder can't be read."""
        return bool(LABEL.match(label)) and self.path(label).is_file()

    def session(self, label: str, sweeps_expired: bool = True) -> TenantSessionContext:
        """Open a session: `with tenants.session(label) as session`.

        Inside a session of the same tenant it is that session. `sweeps_expired`: expired rows may
        be deleted as it ends. Raises UnknownTenant on entering when there is no such tenant, and
        TenantUnavailable, StorageFull or Busy, also on leaving, for errors of the file.
        """
        return TenantSessionContext(self, label, sweeps_expired)

    def read_first_row(
        self, label: str, sql: str, wait_seconds: float = 0
    ) -> tuple[Any, ...] | None:
        """Read the first row of one statement in a tenant's file as it is, of whatever version.

        `wait_seconds`: how long to wait for a writer. Raises UnknownTenant, TenantUnavailable,
        StorageFull or Busy.
        """
        tenant = self.file_tenant(label)
        tenant.require_usable()
        try:
            with tenant.lock(wait_seconds):
                return read_first_row(tenant.path, sql)
        except FILE_ERRORS as error:
            if cause_of(error, tenant.path) is not Cause.FULL:
                raise tenant.refusal(error) or error from error
        connection = tenant.connect(writes=False)
        try:
            return connection.execute(sql).fetchone()
        finally:
            tenant.close(connection)

    def version(self, label: str) -> int:
        """Return the version of a tenant's file, which is not migrated.

        Raises what `read_first_row` does.
        """
        row = self.read_first_row(label, "PRAGMA user_version", MAX_LOCK_WAIT_SECONDS)
        assert row is not None  # SQLite always answers this
        return row[0]

    def has_base_host(self) -> bool:
        """Whether the base host's file is there; the first request to that host makes it."""
        return self.path(BASE_HOST_FILE).is_file()

    def migrate(self, label: str) -> int:
        """Bring a tenant's file up to date, and return the version that it had.

        Raises NewerFile, UnknownTenant, TenantUnavailable, StorageFull, Busy.
        """
        version = self.version(label)  # before the session, which migrates it
        with self.session(label):
            pass
        self.pool.forget(self.tenant(label))
        return version

    def sweep(self, tenant: Any, session: TenantSession) -> None:
        """Delete expired rows at the end of a session, which must neither wait nor fail for it."""
        tenant.next_sweep_at = self.steady_clock.uptime() + SWEEP_INTERVAL_SECONDS
        session.lock_wait_seconds = 0
        try:
            uploads.delete_expired()
            finished = not sweeps.is_due() or any(
                sweeps.run(if_due=True) for _ in range(MAX_SWEEPS)
            )
        except Busy:
            finished = False
        except CRMError:
            finished = True  # such as NewerFile, which the session's work has raised too
        except Exception as error:
            finished = True
            if tenant.refusal(error) is None:
                log.exception("%s could not be tidied", tenant.label)
        if not finished:
            tenant.next_sweep_at = self.steady_clock.uptime() + SWEEP_RETRY_SECONDS

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
        draft = self.draft(label)
        try:
            self.fill_draft(draft, name or label, plan, on_created)
            self.publish(draft)
        finally:
            self.delete_draft(draft)

    def require_free(self, label: str) -> None:
        """Raise Invalid for a label that can't be an address, Conflict `label_taken`."""
        if not LABEL.match(label) or label in RESERVED:
            raise Invalid.field(
                "label", "invalid_label", "use Latin letters, digits and hyphen; not a reserved one"
            )
        if self.exists(label) or self.path(label).exists():
            raise label_taken(label)

    def draft(self, label: str) -> Any:
        """Return a tenant to be, which is not created yet and which no session opens."""
        return self.file_draft(label)

    def file_draft(self, label: str) -> Tenant:
        """Return a tenant to be whose file, not created yet, has a name that no session opens."""
        disk.make_folder(self.folder)
        # A new installation's clock is believed, which is new only before its first tenant.
        self.steady_clock.now()
        return Tenant(label, self.folder / f".new-{label}-{secrets.token_hex(4)}", self)

    def schema_store(self, label: str) -> Any:
        """Return the `SchemaStore` of a tenant that lives in no file, or will; None for a file."""
        return None

    def publish(self, draft: Any) -> None:
        """Give a draft's file its name. Raises Conflict if the label was taken meanwhile."""
        path = self.path(draft.label)
        with Tenant(draft.label, path, self).lock():
            if path.exists():
                raise label_taken(draft.label)
            disk.delete_logs(path)  # left by a process that died while deleting a former tenant
            disk.name_file(draft.path, path)
        self.record_labels()

    def record_labels(self) -> None:
        """Update the list of tenants, which restoring all of them from copies needs."""
        litestream.record_labels(self.config.data, self.file_labels)

    def delete_draft(self, draft: Any) -> None:
        """Delete what is left of a draft: everything, unless it was published."""
        for path in draft.path.parent.glob(draft.path.name + "*"):
            path.unlink()

    def secret_key(self) -> bytes:
        """Return the installation's secret key, creating it if needed. Raises StorageFull."""
        return load_secret_key(self.config.data)

    def check_databases(self) -> Iterator[CRMError | None]:
        """Yield for each database whether it is ready: None, or the error that its tenants get.

        Files have no server to ask.
        """
        yield from ()

    def database_checks(self) -> list[DatabaseCheck]:
        """Return the doctor's checks of databases: the name of each, and a function."""
        return []

    def check_schema(self, label: str, full: bool) -> tuple[int, list[str]]:
        """Return the version of a tenant's schema and what is wrong with it; here there is none."""
        raise UnknownTenant

    def place(self, label: str) -> str:
        """Return where a tenant's data is, for the operator: the path of its file."""
        return str(self.path(label))

    def forget_idle(self) -> None:
        """Close every idle connection, for a clean stop."""
        self.pool.forget()

    def _create_base_host_file(self) -> None:
        if self.path(BASE_HOST_FILE).exists():
            return
        disk.make_folder(self.config.data)
        draft = Tenant(
            BASE_HOST_FILE, self.config.data / f".new-front-{secrets.token_hex(4)}", self
        )
        try:
            self.fill_draft(draft, "", "start", lambda: None)
            with suppress(FileExistsError):  # another process has created it meanwhile
                disk.name_file(draft.path, self.path(BASE_HOST_FILE))
        finally:
            self.delete_draft(draft)

    def fill_draft(self, draft: Any, name: str, plan: str, on_created: Callable[[], None]) -> None:
        """Create the tables of a draft, its row `tenant`, and what `on_created` adds."""
        disk.make(draft.path)
        connection = connect(draft.path)
        try:
            connection.execute(f"PRAGMA page_size = {PAGE_BYTES}")  # for good, once it has a page
            connection.execute("PRAGMA synchronous = OFF")  # it is synced before it has its name
            connection.execute("PRAGMA journal_mode = WAL")
            migrations.migrate(connection, draft.label)
            moment = time_text(int(self.clock()))
            connection.execute(INSERT_TENANT, (name, plan, moment, moment))
            token = begin_session(TenantSession(draft.label, connection, draft, self.clock))
            try:
                on_created()
            finally:
                end_session(token)
        finally:
            connection.close()
            self.pool.forget(draft)

    def tenant(self, label: str) -> Any:
        """Return the tenant of that label; raises UnknownTenant or TenantUnavailable."""
        return self._tenants.get(label) or self._tenants.setdefault(label, self._open(label))

    def file_tenant(self, label: str) -> Tenant:
        """Return the tenant of that label, which lives in a file; raises what tenant() does."""
        tenant = self.tenant(label)
        assert isinstance(tenant, Tenant), label
        return tenant

    def find_moved(self, label: str) -> Any:
        """Return a tenant anew that is not where it was, or None; raises Busy if on its way."""
        return None

    def lives_in_file(self, label: str) -> bool:
        """Whether a tenant, or the base host, lives in a file of this machine."""
        return self.path(label).is_file()

    def _open(self, label: str) -> Any:
        if label == BASE_HOST_FILE:
            self._create_base_host_file()
        else:
            self._require_tenant(label)
        return Tenant(label, self.path(label), self)

    def _require_tenant(self, label: str) -> None:
        try:
            exists = self.exists(label)
        except OSError as error:  # the folder has lost its rights, or its disk is gone
            self.unavailable.report_folder(error)
            raise TenantUnavailable from error
        if not exists:
            raise UnknownTenant


def label_taken(label: str) -> Conflict:
    return Conflict(f"the label {label} is taken", "label_taken")
