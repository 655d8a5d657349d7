"""Tenants: from the Host header to a label to a file (spec: What the service does, D18).

Nothing but an exact, valid label of the base domain reaches a file. Idle connections are kept for
the next visit, the least recently used closed first; their bound is soft, since a bound that makes
visits wait would starve nested ones.
"""

import os
import re
import secrets
import sqlite3
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from crm.config import LABEL, PLANS, Config
from crm.errors import Busy, Conflict, Invalid, NotFound
from crm.tenancy import migrations
from crm.tenancy.database import (
    Visit,
    WriterLock,
    begin_visit,
    connect,
    end_visit,
    time_text,
    visiting,
)

RESERVED = frozenset({"www", "api", "app", "admin", "mail", "static"})
HOST = re.compile(r"([a-z0-9.-]{1,253})(?::[0-9]{1,5})?\Z")


class UnknownTenant(NotFound):
    detail = "there is nothing here"


class Tenant:
    """A tenant's file with its idle connections. Small, and kept for as long as the process."""

    def __init__(self, label: str, path: Path):
        self.label = label
        self.path = path
        self.lock = WriterLock(path.with_suffix(".lock"))
        self.file: tuple[int, int] | None = None
        self.idle: list[sqlite3.Connection] = []

    def open(self) -> sqlite3.Connection:
        """A new connection to the file as it should be: migrated on first sight."""
        connection = connect(self.path)
        try:
            if migrations.version(connection) != len(migrations.STEPS):
                with self.lock():
                    migrations.migrate(connection, self.label)
            connection.execute("PRAGMA query_only = ON")
        except BaseException:
            connection.close()
            raise
        return connection

    def close(self, connection: sqlite3.Connection, wait: float = 10) -> None:
        # The last connection to close writes the log back, so it must not meet a writer.
        with self.lock(wait):
            connection.close()


class Tenants:
    """All tenants of an installation, below `config.data`."""

    def __init__(self, config: Config, clock: Callable[[], float] = time.time):
        self.config = config
        self.clock = clock
        self.folder = config.data / "tenants"
        self._tenants: dict[str, Tenant] = {}
        self._idle: OrderedDict[int, tuple[Tenant, sqlite3.Connection]] = OrderedDict()
        self._lock = threading.Lock()
        self._suffix = "." + config.base_domain

    def label_of(self, host: str) -> str | None:
        """The label that a Host header names, or None: one label before the base domain."""
        if self.config.tenant:
            return self.config.tenant
        found = HOST.match(host.lower())
        if not found or not found[1].endswith(self._suffix):
            return None
        label = found[1][: -len(self._suffix)]
        return label if LABEL.match(label) else None

    def path(self, label: str) -> Path:
        return self.folder / f"{label}.db"

    def labels(self) -> list[str]:
        """The labels of all tenants, in alphabetical order."""
        return sorted(path.stem for path in self.folder.glob("*.db") if LABEL.match(path.stem))

    def exists(self, label: str) -> bool:
        return bool(LABEL.match(label)) and self.path(label).is_file()

    @contextmanager
    def visit(self, label: str) -> Iterator[Visit]:
        """Be at a tenant for a while. A visit inside one to the same tenant is the same visit.

        Raises UnknownTenant when there is no such tenant.
        """
        outer = visiting()
        if outer is not None and outer.label == label and outer.thread == threading.get_ident():
            yield outer
            return
        tenant = self._tenant(label)
        connection, file = self._take(tenant)
        try:
            here = Visit(label, connection, tenant.lock, self.clock)
            token = begin_visit(here)
            try:
                yield here
            finally:
                end_visit(token)
        finally:
            self._give(tenant, connection, file)

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
        if not LABEL.match(label) or label in RESERVED:
            raise Invalid.field(
                "label", "invalid_label", "use Latin letters, digits and hyphen; not a reserved one"
            )
        if plan not in PLANS:
            raise Invalid.field("plan", "invalid_choice", f"must be one of {', '.join(PLANS)}")
        if self.path(label).exists():
            raise Conflict(f"the label {label} is taken", "label_taken")
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        unseen = Tenant(label, self.folder / f".new-{label}-{secrets.token_hex(4)}")
        try:
            self._build(unseen, name or label, plan, furnish)
            os.link(unseen.path, self.path(label))
        except FileExistsError:
            raise Conflict(f"the label {label} is taken", "label_taken") from None
        finally:
            for path in self.folder.glob(unseen.path.name + "*"):
                path.unlink()

    def forget_idle(self) -> None:
        """Close every idle connection, for a clean stop."""
        with self._lock:
            idle, self._idle = list(self._idle.values()), OrderedDict()
            for tenant, _ in idle:
                tenant.idle.clear()
        for tenant, connection in idle:
            tenant.close(connection)

    def _build(self, unseen: Tenant, name: str, plan: str, furnish: Callable[[], None]) -> None:
        os.close(os.open(unseen.path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        connection = connect(unseen.path)
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            migrations.migrate(connection, unseen.label)
            moment = time_text(int(self.clock()))
            connection.execute(
                "INSERT INTO tenant (id, name, plan, created_at, tidied_at) VALUES (1, ?, ?, ?, ?)",
                (name, plan, moment, moment),
            )
            connection.execute("PRAGMA query_only = ON")
            token = begin_visit(Visit(unseen.label, connection, unseen.lock, self.clock))
            try:
                furnish()
            finally:
                end_visit(token)
        finally:
            connection.close()

    def _tenant(self, label: str) -> Tenant:
        found = self._tenants.get(label)
        if found is None:
            if not self.exists(label):
                raise UnknownTenant
            found = self._tenants.setdefault(label, Tenant(label, self.path(label)))
        return found

    def _take(self, tenant: Tenant) -> tuple[sqlite3.Connection, tuple[int, int]]:
        try:
            stat = os.stat(tenant.path)
        except FileNotFoundError:
            raise UnknownTenant from None
        file = (stat.st_dev, stat.st_ino)
        with self._lock:
            strangers = []
            if tenant.file != file:  # another file stands there now: restored, or made anew
                strangers, tenant.idle, tenant.file = tenant.idle, [], file
                for connection in strangers:
                    self._idle.pop(id(connection), None)
            connection = tenant.idle.pop() if tenant.idle else None
            if connection is not None:
                del self._idle[id(connection)]
        for stranger in strangers:
            tenant.close(stranger)
        return connection or tenant.open(), file

    def _give(self, tenant: Tenant, connection: sqlite3.Connection, file: tuple[int, int]) -> None:
        surplus: list[tuple[Tenant, sqlite3.Connection]] = []
        with self._lock:
            if tenant.file != file:
                surplus.append((tenant, connection))
            else:
                tenant.idle.append(connection)
                self._idle[id(connection)] = (tenant, connection)
                if len(self._idle) > self.config.open_files:
                    _, oldest = self._idle.popitem(last=False)
                    oldest[0].idle.remove(oldest[1])
                    surplus.append(oldest)
        for owner, closing in surplus:
            with suppress(Busy):
                owner.close(closing, wait=1)
