"""Tenants: from the Host header to a label to a file (spec: What the service does, D18).

Nothing but an exact, valid label of the base domain reaches a file.
"""

import logging
import os
import re
import secrets
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from crm.config import LABEL, PLANS, Config
from crm.errors import Busy, Conflict, Invalid, TenantUnavailable
from crm.tenancy import disk, litestream, migrations, sweeps, uploads
from crm.tenancy.counters import Counters
from crm.tenancy.database import (
    LONGEST_WAIT,
    TenantSession,
    begin_session,
    connect,
    end_session_of_thread,
    peek,
    session_or_none,
    time_text,
)
from crm.tenancy.file_errors import FILE_ERRORS, Cause, cause_of
from crm.tenancy.files import Pool, Tenant, UnknownTenant
from crm.tenancy.labels import RESERVED
from crm.tenancy.steady_clock import SteadyClock, boot_seconds
from crm.tenancy.unavailable import Unavailable
from crm.tenancy.wakeup import OnEvent, WakeupPipe

BASE_HOST_FILE = (
    "_front"  # the base host's own file, visited like a tenant's; no label is spelled so
)
TIDIED_EVERY = 3600  # seconds: how often a visitor looks whether a tenant is to be tidied,
TIDIED_ON = 60  # and how soon the next one goes on where there was more to do than in
SWEEPS = 5  # in one go
KEY_BYTES = 32  # of secret.key
# Of new files. Each table and index of an empty one takes a page, 128 in all; lists, searches and
# imports of 500,000 rows are as fast as with SQLite's 4096.
PAGE_BYTES = 1024
MOST_HOSTS = 10_000  # spellings of hosts remembered
HOST = re.compile(r"([a-z0-9.-]{1,253})(?::[0-9]{1,5})?\Z")
IP_HOST = re.compile(
    r"(?:\[([0-9A-Fa-f:.]{2,45})\]|([0-9]{1,3}(?:\.[0-9]{1,3}){3}))(?::[0-9]{1,5})?"
)

log = logging.getLogger("crm")


def is_host(text: str) -> bool:
    """Is it a Host header that the libraries can read without an error?"""
    name = text.lower().partition(":")[0]
    try:
        return bool(HOST.match(text.lower()) and name.encode().decode("idna").encode("idna"))
    except UnicodeError:
        return False


def is_ip_address(host: str) -> bool:
    """Is a Host header an IP address and nothing else: `127.0.0.1:8000`, `[::1]`?"""
    found = IP_HOST.fullmatch(host)
    try:
        return bool(found) and bool(ip_address(found[1] or found[2]))
    except ValueError:
        return False


class Tenants:
    """All tenants of an installation, below `config.data`."""

    def __init__(
        self,
        config: Config,
        clock: Callable[[], float] = time.time,
        uptime: Callable[[], float] | None = None,
    ):
        """`uptime` gives the seconds that the machine has been running: needed beside a `clock` of
        the caller's own only where that may be set forward and back."""
        self.config = config
        self.clock = clock
        self.folder = config.data / "tenants"
        self._tenants: dict[str, Tenant] = {}
        self._hosts: dict[str, str] = {}
        if clock is time.time:
            uptime = uptime or boot_seconds
        self.steady = SteadyClock(clock, uptime, config.data / "clock", lambda: not self.labels())
        self.bell = WakeupPipe(config.data)
        self.counters = Counters(config.data, self.secret_key)
        self.pool = Pool(config.max_idle_connections)
        self.unavailable = Unavailable(config.data)
        self.hears: OnEvent | None = None  # to be set before the first visit
        self._suffix = "." + config.base_domain

    def label_of(self, host: str) -> str | None:
        """The label that a Host header names, or None: one label before the base domain."""
        if self.config.tenant:
            return self.config.tenant
        if host in self._hosts:
            return self._hosts[host]
        found = HOST.match(host.lower()) if host.isascii() else None
        if found and found[1] == self.config.base_domain:
            return BASE_HOST_FILE
        if not found or not found[1].endswith(self._suffix):
            return None
        label = found[1][: -len(self._suffix)]
        if not LABEL.match(label):
            return None
        if label in self._tenants and len(self._hosts) < MOST_HOSTS:  # strangers must not fill it
            self._hosts[host] = label
        return label

    def path(self, label: str) -> Path:
        if label == BASE_HOST_FILE:
            return self.config.data / "front.db"
        return self.folder / f"{label}.db"

    def labels(self) -> list[str]:
        """The labels of all tenants, in alphabetical order."""
        try:
            names = os.listdir(self.folder)
        except FileNotFoundError:
            return []
        found = (name.removesuffix(".db") for name in names if name.endswith(".db"))
        return sorted(label for label in found if self.exists(label))

    def recent_first(self) -> list[str]:
        """The labels of all tenants, those written to last at the beginning."""

        def written_at(label: str) -> float:
            found = 0.0
            for name in (f"{label}.db", f"{label}.db-wal"):
                with suppress(FileNotFoundError):
                    found = max(found, os.stat(self.folder / name).st_mtime)
            return found

        return sorted(self.labels(), key=written_at, reverse=True)

    def exists(self, label: str) -> bool:
        return bool(LABEL.match(label)) and self.path(label).is_file()

    def session(self, label: str, tidies: bool = True) -> "TenantSessionContext":
        """Be at a tenant for a while: `with tenants.visit(label) as here`.

        A visit inside one to the same tenant is the same visit. `tidies`: it may let outlived rows
        go as it ends. Raises UnknownTenant on entering when there is no such tenant, and
        TenantUnavailable, StorageFull or Busy, also on leaving, for what the file's errors mean.
        """
        return TenantSessionContext(self, label, tidies)

    def peek(self, label: str, sql: str, wait: float = 0) -> tuple | None:
        """The first row that one statement reads in a tenant's file, as it stands there; `wait`:
        seconds that it waits for a writer. Raises
        UnknownTenant, TenantUnavailable, StorageFull or Busy."""
        tenant = self.tenant(label)
        tenant.require_usable()
        try:
            with tenant.lock(wait):
                return peek(tenant.path, sql)
        except FILE_ERRORS as error:
            if cause_of(error, tenant.path) is not Cause.FULL:
                raise tenant.refusal(error) or error from error
        connection = tenant.connect(writes=False)
        try:
            return connection.execute(sql).fetchone()
        finally:
            tenant.close(connection)

    def version(self, label: str) -> int:
        """How many steps a tenant's file has had; it is left as it is. Raises what peek() does."""
        return self.peek(label, "PRAGMA user_version", wait=LONGEST_WAIT)[0]

    def tidy(self, tenant: Tenant, here: TenantSession) -> None:
        """Let outlived rows go at the end of a visit, which must neither wait nor fail for it."""
        tenant.tidy_at = self.steady.uptime() + TIDIED_EVERY
        here.wait = 0
        try:
            uploads.forget_old()
            finished = not sweeps.is_due() or any(sweeps.run() for _ in range(SWEEPS))
        except Busy:
            finished = False
        except Exception as error:
            finished = True
            if tenant.refusal(error) is None:
                log.exception("%s could not be tidied", tenant.label)
        if not finished:
            tenant.tidy_at = self.steady.uptime() + TIDIED_ON

    def create(
        self,
        label: str,
        *,
        name: str = "",
        plan: str = "start",
        furnish: Callable[[], None] = lambda: None,
    ) -> None:
        """Make a tenant. `furnish` runs inside its file before the tenant can be seen by anyone.

        Raises Invalid for a label that can't be an address, Conflict `label_taken`.
        """
        if plan not in PLANS:
            raise Invalid.field("plan", "invalid_choice", f"must be one of {', '.join(PLANS)}")
        unseen = self.unseen(label)
        try:
            self._build(unseen, name or label, plan, furnish)
            self.reveal(unseen)
        finally:
            self.forget_unseen(unseen)

    def unseen(self, label: str) -> Tenant:
        """A tenant to be, under a name that nobody finds; there is no file yet.

        Raises Invalid for a label that can't be an address, Conflict `label_taken`.
        """
        if not LABEL.match(label) or label in RESERVED:
            raise Invalid.field(
                "label", "invalid_label", "use Latin letters, digits and hyphen; not a reserved one"
            )
        if self.path(label).exists():
            raise _taken(label)
        disk.make_folder(self.folder)
        self.steady.now()  # a new installation's clock is believed from before its first tenant
        return Tenant(label, self.folder / f".new-{label}-{secrets.token_hex(4)}", self)

    def reveal(self, unseen: Tenant) -> None:
        """Give it its place, if nobody else took it meanwhile: else raises Conflict."""
        path = self.path(unseen.label)
        with Tenant(unseen.label, path, self).lock():
            if path.exists():
                raise _taken(unseen.label)
            disk.drop_logs(path)  # of one that had the label before and died with its deleter
            disk.name_file(unseen.path, path)
        self.record_labels()

    def record_labels(self) -> None:
        """Write down which tenants there are, for who restores all of them from copies."""
        litestream.record_labels(self.config.data, self.labels)

    def forget_unseen(self, unseen: Tenant) -> None:
        for path in unseen.path.parent.glob(unseen.path.name + "*"):
            path.unlink()

    def secret_key(self) -> bytes:
        """What signs the forms of pages and digests the names in counters; made on the first call,
        and anew when it cannot be used, and kept in the data folder.

        Raises StorageFull.
        """
        path = self.config.data / "secret.key"
        with suppress(FileNotFoundError):
            found = path.read_bytes()
            if len(found) == KEY_BYTES:
                return found
        disk.make_folder(self.config.data)
        with disk.making(self.config.data):
            with suppress(FileNotFoundError):
                found = path.read_bytes()
                if len(found) == KEY_BYTES:
                    return found  # another process has made it meanwhile
                log.warning(
                    "secret.key has %s bytes instead of %s and is made anew: forms that are open in"
                    " browsers are to be reloaded, and limits of requests, SMS and passwords count"
                    " from zero; sessions, API keys and data are not affected",
                    len(found),
                    KEY_BYTES,
                )
            disk.write_file(path, secrets.token_bytes(KEY_BYTES))
            return path.read_bytes()

    def forget_idle(self) -> None:
        """Close every idle connection, for a clean stop."""
        self.pool.forget()

    def _open_front(self) -> None:
        if self.path(BASE_HOST_FILE).exists():
            return
        disk.make_folder(self.config.data)
        unseen = Tenant(
            BASE_HOST_FILE, self.config.data / f".new-front-{secrets.token_hex(4)}", self
        )
        try:
            self._build(unseen, "", "start", lambda: None)
            with suppress(FileExistsError):
                disk.name_file(unseen.path, self.path(BASE_HOST_FILE))
        finally:
            self.forget_unseen(unseen)

    def _build(self, unseen: Tenant, name: str, plan: str, furnish: Callable[[], None]) -> None:
        disk.make(unseen.path)
        connection = connect(unseen.path)
        try:
            connection.execute(f"PRAGMA page_size = {PAGE_BYTES}")  # for good, once it has a page
            connection.execute("PRAGMA synchronous = OFF")  # it is synced before it has its name
            connection.execute("PRAGMA journal_mode = WAL")
            migrations.migrate(connection, unseen.label)
            moment = time_text(int(self.clock()))
            connection.execute(
                "INSERT INTO tenant (id, name, plan, created_at, tidied_at) VALUES (1, ?, ?, ?, ?)",
                (name, plan, moment, moment),
            )
            token = begin_session(TenantSession(unseen.label, connection, unseen, self.clock))
            try:
                furnish()
            finally:
                end_session_of_thread(token)
        finally:
            connection.close()
            self.pool.forget(unseen)

    def tenant(self, label: str) -> Tenant:
        found = self._tenants.get(label)
        if found is None:
            if label == BASE_HOST_FILE:
                self._open_front()
            elif not self._is_there(label):
                raise UnknownTenant
            found = self._tenants.setdefault(label, Tenant(label, self.path(label), self))
        return found

    def _is_there(self, label: str) -> bool:
        try:
            return self.exists(label)
        except OSError as error:  # the folder has lost its rights, or its disk is gone
            self.unavailable.tell_of_folder(error)
            raise TenantUnavailable from error


def _taken(label: str) -> Conflict:
    return Conflict(f"the label {label} is taken", "label_taken")


class TenantSessionContext:
    """A visit's beginning and end. A generator would take twice as long, on every request."""

    __slots__ = ("_connection", "_here", "_tenant", "_tenants", "_tidies", "_token", "label")

    def __init__(self, tenants: Tenants, label: str, tidies: bool = True):
        self._tenants, self.label, self._tidies = tenants, label, tidies
        self._token = None

    def __enter__(self) -> TenantSession:
        outer = session_or_none()
        if (
            outer is not None
            and outer.label == self.label
            and outer.keeper.bell is self._tenants.bell  # there may be two installations
            and outer.thread == threading.get_ident()
        ):
            return outer
        self._tenant = tenant = self._tenants.tenant(self.label)
        self._connection = tenant.take(writes=False)
        try:
            self._here = TenantSession(self.label, self._connection, tenant, self._tenants.clock)
            self._token = begin_session(self._here)
        except BaseException:
            tenant.give(self._connection, writes=False)
            raise
        return self._here

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: Any
    ) -> None:
        tenant = session_or_none().keeper
        self.end(tidy=error is None and self._tidies)
        if isinstance(error, FILE_ERRORS) and (refusal := tenant.refusal(error)):
            raise refusal from error

    def end(self, tidy: bool = True) -> None:
        """Leave; the connection is kept for the next visit."""
        if self._token is None:
            return
        try:
            if tidy and self._tenants.steady.uptime() >= self._tenant.tidy_at:
                self._tenants.tidy(self._tenant, self._here)
        finally:
            end_session_of_thread(self._token)
            self._tenant.give(self._connection, writes=False)
