"""Readiness checks: whether the data folder can be written, tenants' files can be read, and the
databases of CRM_DATABASE answer.

A tenant whose file cannot be used does not make the installation unready: a load balancer would
stop it for all the others. The number of such tenants is reported separately.
"""

import logging
import os
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from urllib.parse import urlsplit

from crm.errors import StorageReadOnly
from crm.tenancy.database import row
from crm.tenancy.file_errors import Cause, cause_of
from crm.tenancy.hosts import is_host
from crm.tenancy.tenants import BASE_HOST_FILE, Tenants

CHECK_TIMEOUT_SECONDS = 1.0  # for writing and reading together
NOT_WRITABLE, FULL = "data_folder_not_writable", "storage_full"
UNREADABLE, SLOW = "file_unreadable", "storage_slow"
NO_DATABASE, DATABASE_READ_ONLY = "database_unreachable", "database_read_only"
TEST_DATA = b"\0" * 4096  # an empty file fits on a full disk
MAX_FILES_TRIED = 3  # one of them must be readable: a damaged one stops nobody else

log = logging.getLogger("crm")


class Readiness:
    """Runs one check at a time: on a disk that hangs, threads must not pile up."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._check: _Check | None = None
        self._last_problem: str | None = None
        # Tenants with recent requests whose files could not be used, at the last check.
        self.unavailable = 0
        self.databases = 0  # that did not answer then, other than the first

    def problem(self, tenants: Tenants) -> str | None:
        """Return why the installation is not ready, as a code, or None.

        Takes at most CHECK_TIMEOUT_SECONDS.
        """
        with self._lock:
            check = self._check
            if check is None or not check.is_alive():
                check = self._check = _Check(tenants)
                check.start()
        check.join(max(0.0, check.deadline - time.monotonic()))
        problem = check.slow if check.is_alive() else check.problem
        self.unavailable, self.databases = check.unavailable, max(check.databases, 0)
        with self._lock:
            last_problem, self._last_problem = self._last_problem, problem
        if problem and problem != last_problem:
            # What cannot be used has a line of its own, which says why.
            has_line = problem in (UNREADABLE, NO_DATABASE, DATABASE_READ_ONLY)
            error = None if has_line else check.error
            log.error("not ready: %s", problem, exc_info=error)
        return problem


class _Check(threading.Thread):
    def __init__(self, tenants: Tenants) -> None:
        super().__init__(name="readiness", daemon=True)  # a hanging disk must not delay the exit
        self.deadline = time.monotonic() + CHECK_TIMEOUT_SECONDS
        self.problem: str | None = None
        self.error: Exception | None = None
        self.slow: str | None = SLOW  # the problem if it is not done in time
        self.unavailable = self.databases = 0
        self._tenants = tenants

    def run(self) -> None:
        try:
            write_test_file(self._tenants)
        except OSError as error:
            is_full = cause_of(error) is Cause.FULL
            self.problem, self.error = FULL if is_full else NOT_WRITABLE, error
            return
        databases = self._tenants.check_databases()
        self.slow = NO_DATABASE
        refusal = next(databases, None)
        if refusal is not None:
            is_read_only = isinstance(refusal, StorageReadOnly)
            self.problem = DATABASE_READ_ONLY if is_read_only else NO_DATABASE
            return
        self.slow = SLOW
        self._try_files()
        self.unavailable = self._tenants.unavailable.count(self._tenants.path)
        self.slow = None
        # Without one of the others, a load balancer must not stop this machine for all tenants.
        self.databases = len(self._tenants.config.database) - 1
        for refusal in databases:
            self.databases -= refusal is None

    def _try_files(self) -> None:
        for label in _labels(self._tenants):
            try:
                _read(self._tenants, label)
            except Exception as error:
                self.problem, self.error = UNREADABLE, error
            else:
                self.problem = self.error = None
                return


def is_served_host(tenants: Tenants, domain: str) -> bool:
    """Whether a host name, without a port, is that of an existing tenant or the base host."""
    config = tenants.config
    if ":" in domain or not is_host(domain):
        return False
    if config.tenant:  # it is served on every host, but not every host is its own
        own_host = urlsplit(config.url_of(config.tenant)).hostname
        return domain.lower() in (config.base_domain, own_host)
    label = tenants.label_of(domain)
    return label == BASE_HOST_FILE or (label is not None and tenants.exists(label))


def write_test_file(tenants: Tenants) -> None:
    """Write a file into the data folder and delete it; raises OSError."""
    path = tenants.config.data / ".ready"
    file = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        os.write(file, TEST_DATA)
    finally:
        os.close(file)
        with suppress(FileNotFoundError):  # another process checked too
            path.unlink()


def _labels(tenants: Tenants) -> Iterator[str]:
    """Yield the labels whose files are tried; none in an installation without files."""
    if tenants.config.tenant:
        yield tenants.config.tenant
        return
    if tenants.path(BASE_HOST_FILE).is_file():
        yield BASE_HOST_FILE
    with suppress(FileNotFoundError), os.scandir(tenants.folder) as entries:
        names = (entry.name.removesuffix(".db") for entry in entries if entry.name.endswith(".db"))
        yield from islice(filter(tenants.exists, names), MAX_FILES_TRIED)


def _read(tenants: Tenants, label: str) -> None:
    with tenants.session(label, sweeps_expired=False):
        row("SELECT name FROM tenant")
