"""Running long work in the background: one thread for each tenant that has any.

The work is that of large imports, and of what else is registered.

The thread of the process that took a file imports it; those of other processes wait for its lease
to end, as it does when its process has ended. A process begins to look after a tenant's imports
when it takes one, when it is asked about one, and, if it sends webhooks, when it starts and when
any process takes one.
"""

import logging
import threading
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from crm.errors import Busy, Conflict, CRMError, TenantUnavailable, UnknownTenant
from crm.spreadsheets import large_import
from crm.spreadsheets.large_import import LeaseLost
from crm.spreadsheets.reader import ParsedFile
from crm.storage.session import after_commit, current_session, row


class Job(NamedTuple):
    """A kind of work: the SQL that finds whether any runs, and the functions of large_import."""

    is_running: str
    claim: Callable[[], tuple[int, str] | None]
    resume: Callable[[int, str], None]
    fail: Callable[[int, CRMError], None]


RETRY_SECONDS = 3.0  # after Busy, and between looks at another process's lease

log = logging.getLogger("crm")
_lock = threading.Lock()
_active: set[tuple[int, str]] = set()  # (tenants, label)
_jobs = [
    Job(large_import.IS_RUNNING, large_import.claim, large_import.resume, large_import.fail),
]


def register(
    is_running: str,
    claim: Callable[[], tuple[int, str] | None],
    resume: Callable[[int, str], None],
    fail: Callable[[int, CRMError], None],
) -> None:
    """Let the threads of tenants do another kind of work, too, as a `Job`."""
    _jobs.append(Job(is_running, claim, resume, fail))


def _any_running() -> str:
    return f"{' UNION ALL '.join(job.is_running for job in _jobs)} LIMIT 1"


def start(file: ParsedFile, file_name: str | None) -> int:
    """Begin to import a large file, and give the id of its report; inside of a request."""
    id = large_import.start(file, file_name)
    look_after_current()
    after_commit(current_session().source.wake_sender)
    return id


def look_after_current() -> None:
    """Look after the imports of the current tenant, once the transaction has ended."""
    session = current_session()
    tenants, label = session.source.installation, session.label
    after_commit(lambda: look_after(tenants, label))


def look_after(tenants: Any, label: str) -> None:
    """Import what waits at a tenant, in a thread of its own, unless one does so already.

    `tenants`: an `installation.tenants.Tenants`.
    """
    key = id(tenants), label
    with _lock:
        if key in _active:
            return
        _active.add(key)
    threading.Thread(target=_work, args=(tenants, label, key), name="import", daemon=True).start()


def resume(tenants: Any, label: str) -> None:
    """Look after a tenant's imports if any runs. Never raises."""
    try:
        if tenants.tenant(label).read_first_row(_any_running()):
            look_after(tenants, label)
    except Exception as error:  # a session will tell what is wrong with the tenant
        log.debug("imports of %s cannot be looked for: %s", label, type(error).__name__)


def resume_current(tenants: Any, label: str) -> None:
    """Look after the imports of the session's tenant if any runs."""
    if row(_any_running()):
        look_after(tenants, label)


def _work(tenants: Any, label: str, key: tuple[int, str]) -> None:
    goes_on = True
    while goes_on:
        try:
            with tenants.session(label, sweeps_expired=False):
                goes_on = _run_next(label)
        except UnknownTenant:
            goes_on = False
        except (Busy, Conflict, TenantUnavailable):
            time.sleep(RETRY_SECONDS)
        except Exception:
            log.exception("background work of %s was interrupted", label)
            time.sleep(RETRY_SECONDS)
        if not goes_on:
            with _lock:
                _active.discard(key)


def _run_next(label: str) -> bool:
    """Do the tenant's next work; returns False if there is none. Raises Conflict, Busy."""
    claims = ((job, job.claim()) for job in _jobs)
    job, claimed = next(((job, claim) for job, claim in claims if claim), (None, None))
    if job is None or claimed is None:
        return False
    try:
        job.resume(*claimed)
    except LeaseLost:
        pass
    except (Busy, TenantUnavailable):
        raise
    except CRMError as error:
        log.warning("background work of %s has failed: %s", label, error.code)
        job.fail(claimed[0], error)
    return True
