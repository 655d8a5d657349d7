"""Can the installation do its work now: write in its folder, read its files? Whose host is it?

A tenant whose file cannot be used does not make the installation unready: a load balancer would
take it away from all the others. How many there are is told beside.
"""

import logging
import os
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from urllib.parse import urlsplit

from crm.tenancy.database import row
from crm.tenancy.file_errors import Cause, cause_of
from crm.tenancy.tenants import BASE_HOST_FILE, Tenants, is_host

SECONDS = 1.0  # that writing and reading may take together
NOT_WRITABLE, FULL = "data_folder_not_writable", "storage_full"
UNREADABLE, SLOW = "file_unreadable", "storage_slow"
PAGE = b"\0" * 4096  # an empty file fits on a full disk
TRIED = 3  # tenants' files, of which one must be readable: a damaged one stops nobody else

log = logging.getLogger("crm")


class Readiness:
    """One look at the disk at a time: on a disk that hangs, threads must not pile up."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._look: _Look | None = None
        self._told: str | None = None
        # Tenants asked for lately whose files could not be used, at the last look.
        self.unavailable = 0

    def problem(self, tenants: Tenants) -> str | None:
        """Why the installation cannot do its work, in one word, or None; within SECONDS."""
        with self._lock:
            look = self._look
            if look is None or not look.is_alive():
                look = self._look = _Look(tenants)
                look.start()
        look.join(max(0.0, look.until - time.monotonic()))
        found = SLOW if look.is_alive() else look.problem
        self.unavailable = look.unavailable
        with self._lock:
            told, self._told = self._told, found
        if found and found != told:
            log.error("not ready: %s", found, exc_info=None if found == UNREADABLE else look.error)
        return found


class _Look(threading.Thread):
    def __init__(self, tenants: Tenants) -> None:
        super().__init__(name="readiness", daemon=True)  # a hanging disk must not hold up the end
        self.until = time.monotonic() + SECONDS
        self.problem: str | None = None
        self.error: Exception | None = None
        self.unavailable = 0
        self._tenants = tenants

    def run(self) -> None:
        try:
            write(self._tenants)
        except OSError as error:
            full = cause_of(error) is Cause.FULL
            self.problem, self.error = FULL if full else NOT_WRITABLE, error
            return
        self._try_files()
        self.unavailable = self._tenants.unavailable.count(self._tenants.path)

    def _try_files(self) -> None:
        for label in _labels(self._tenants):
            try:
                _read(self._tenants, label)
            except Exception as error:
                self.problem, self.error = UNREADABLE, error
            else:
                self.problem = self.error = None
                return


def is_address(tenants: Tenants, domain: str) -> bool:
    """Does a host, without a port, lead to a tenant that exists, or to the base host?"""
    config = tenants.config
    if ":" in domain or not is_host(domain):
        return False
    if config.tenant:  # it is served on every host, but not every host is its own
        own = urlsplit(config.url_of(config.tenant)).hostname
        return domain.lower() in (config.base_domain, own)
    label = tenants.label_of(domain)
    return label == BASE_HOST_FILE or (label is not None and tenants.exists(label))


def write(tenants: Tenants) -> None:
    """Write a page into the data folder and take it away; raises OSError."""
    path = tenants.config.data / ".ready"
    file = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        os.write(file, PAGE)
    finally:
        os.close(file)
        with suppress(FileNotFoundError):  # another process looked too
            path.unlink()


def _labels(tenants: Tenants) -> Iterator[str]:
    """Whose files are tried; none of an installation that has no file yet."""
    if tenants.config.tenant:
        yield tenants.config.tenant
        return
    if tenants.path(BASE_HOST_FILE).is_file():
        yield BASE_HOST_FILE
    with suppress(FileNotFoundError), os.scandir(tenants.folder) as found:
        names = (each.name.removesuffix(".db") for each in found if each.name.endswith(".db"))
        yield from islice(filter(tenants.exists, names), TRIED)


def _read(tenants: Tenants, label: str) -> None:
    with tenants.session(label, tidies=False):
        row("SELECT name FROM tenant")
