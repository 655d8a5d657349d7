"""Readiness checks: whether the data folder can be written, tenants' files can be read, and the
database of CRM_DATABASE answers.

Tenants whose files cannot be used do not make the installation unready as long as others can be
read: a load balancer would stop it for those too. Their number is reported separately.
"""

import logging
import os
import random
import threading
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from crm.config import LABEL
from crm.errors import CRMError, StorageFull
from crm.installation.hosts import is_host
from crm.installation.tenants import Tenants
from crm.storage.engine import BASE_HOST_FILE
from crm.storage.file_errors import cause_of
from crm.storage.session import row
from crm.timed_checks import CheckThread

CHECK_TIMEOUT_SECONDS = 1.0  # for writing and reading together
NOT_WRITABLE, FULL = "data_folder_not_writable", "storage_full"
UNREADABLE, SLOW = "file_unreadable", "storage_slow"
NO_DATABASE = "database_unreachable"
TEST_DATA = b"\0" * 4096  # an empty file fits on a full disk
CHECK_FAILED = "check_failed"  # by an error that nobody expected, which the log has
MAX_FILES_TRIED = 8  # of tenants chosen at random; one of them must be readable

log = logging.getLogger("crm")


class ReadinessState(NamedTuple):
    """The result of a check: a problem as a code, or None; its error is for the log."""

    problem: str | None
    unavailable: int = 0  # tenants with recent requests whose files could not be used
    error: Exception | None = None


class Readiness:
    """Runs one check at a time: on a disk that hangs, threads must not pile up."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._check: CheckThread | None = None
        self._last_problem: str | None = None

    def state(self, tenants: Tenants) -> ReadinessState:
        """Return whether the installation is ready. Takes at most CHECK_TIMEOUT_SECONDS."""
        with self._lock:
            check = self._check
            if check is None or not check.is_alive():
                states = partial(_check, tenants)
                check = self._check = CheckThread("readiness", states, CHECK_TIMEOUT_SECONDS)
        check.is_late()
        state = check.results[-1] if check.results else ReadinessState(SLOW)
        if check.error is not None:
            state = ReadinessState(CHECK_FAILED, error=check.error)
        with self._lock:
            last_problem, self._last_problem = self._last_problem, state.problem
        if state.problem and state.problem != last_problem:
            # What cannot be used has a line of its own, which says why.
            has_line = state.problem in (UNREADABLE, NO_DATABASE)
            log.error("not ready: %s", state.problem, exc_info=None if has_line else state.error)
        return state


def _check(tenants: Tenants) -> Iterator[ReadinessState]:
    """Yield before each step the state if it hangs, and at the end the result."""
    yield ReadinessState(SLOW)
    try:
        write_test_file(tenants)
    except OSError as error:
        yield ReadinessState(FULL if cause_of(error) is StorageFull else NOT_WRITABLE, error=error)
        return
    yield ReadinessState(NO_DATABASE)
    try:
        tenants.check_database()
    except CRMError:
        return
    yield ReadinessState(SLOW)
    unreadable = _try_files(tenants)
    problem = None if unreadable is None else UNREADABLE
    yield ReadinessState(problem, tenants.unavailable.count(tenants.path), unreadable)


def _try_files(tenants: Tenants) -> Exception | None:
    """Return the first error if the folder, or each of the files tried, cannot be read."""
    try:
        labels = _choose_labels(tenants)
    except OSError as error:
        tenants.unavailable.report_folder(error)
        return error
    errors: list[Exception] = []
    for label in labels:  # each: who looks again and again learns of all that are damaged
        try:
            with tenants.session(label, sweeps_expired=False):
                row("SELECT name FROM tenant")
        except Exception as error:
            errors.append(error)
    return errors[0] if labels and len(errors) == len(labels) else None


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
    """Write a file into the data folder and delete it; raises OSError.

    A new installation has no data folder yet: then into the folder in which it will be made.
    """
    path = existing_folder(tenants.config.data) / ".ready"
    file = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        os.write(file, TEST_DATA)
    finally:
        os.close(file)
        with suppress(FileNotFoundError):  # another process checked too
            path.unlink()


def existing_folder(folder: Path) -> Path:
    """Return a folder, or the nearest one above it that is there."""
    return next(path for path in (folder, *folder.parents) if path.exists())


def _choose_labels(tenants: Tenants) -> list[str]:
    """Return the labels whose files are tried; none in an installation without files.

    The base host is tried if there is no tenant. Raises OSError if the folder cannot be read.
    """
    labels: list[str] = []
    with suppress(FileNotFoundError):
        names = os.listdir(tenants.files.folder)
        labels = [name[:-3] for name in names if name.endswith(".db") and LABEL.match(name[:-3])]
    if labels and tenants.config.tenant:
        return [tenants.config.tenant]
    if not labels and tenants.path(BASE_HOST_FILE).is_file():
        return [BASE_HOST_FILE]
    return random.sample(labels, min(len(labels), MAX_FILES_TRIED))
