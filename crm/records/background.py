"""The work of batches that takes several transactions, in this process or in another one.

Each transaction commits what was changed together with how far the work came and a lease. So work
whose process has ended goes on exactly where it was, in whichever process claims it next: in one
that is asked about the batch, or in a sender, which looks at a tenant when a lease ends. Others
write between the transactions, and readers see the records as they come.

The batches of a tenant in the background are done one after the other, by one thread of a process.
"""

import logging
import secrets
import threading
import time
from collections.abc import Callable
from contextlib import nullcontext, suppress
from typing import Any

from crm.errors import Busy, Conflict, CRMError, TenantUnavailable, UnknownTenant
from crm.json import dumps, loads
from crm.records import batches
from crm.records.batches import Batch
from crm.storage import chunks
from crm.storage.clocks import steady_now
from crm.storage.file_errors import FILE_ERRORS
from crm.storage.session import (
    after_commit,
    current_session,
    notify_after_commit,
    one_row,
    row,
    time_text,
    transaction,
)

LEASE_SECONDS = 30  # after which another process may go on; renewed with each transaction
MAX_RUNNING = 5  # batches of a kind and a tenant
RETRY_SECONDS = 3.0  # after Busy, such as on a full disk
UNFINISHED = "state IN ('running', 'undoing')"
ANY_UNFINISHED = f"EXISTS (SELECT 1 FROM batch WHERE {UNFINISHED})"
LEASES = f"SELECT coalesce(lease_until, '') FROM batch WHERE {UNFINISHED} ORDER BY id"

Step = Callable[[Batch, chunks.HasTime], bool]
Prepare = Callable[[Batch], Step]
OnEnd = Callable[[Batch, CRMError | None], None]

log = logging.getLogger("crm")


class LeaseLost(Exception):
    """The batch was cancelled, or another process goes on with it."""


_registered: dict[str, tuple[Prepare, OnEnd]] = {}  # by the kind of batch, or "undo"
_active: set[tuple[int, str]] = set()  # (tenants, label) that have a thread
other_work: list[Callable[[], None]] = []  # what such a thread does besides, in a session
_lock = threading.Lock()


def register(kind: str, prepare: Prepare, on_end: OnEnd = lambda batch, error: None) -> None:
    """Let batches of a kind be worked at.

    prepare: gives the function that does some of a batch's work in a transaction, as long as there
    is time, and returns whether there is more; called outside of a transaction. on_end: called in
    the last transaction with the state that the batch has then, and why it failed, if it did.
    """
    _registered[kind] = prepare, on_end


def start(
    kind: str, noun: str, note: str | None, details: dict[str, Any], here: bool = False
) -> Batch:
    """Add a batch to be worked at, as begin(). Raises Conflict `too_many_…`."""
    running = "SELECT count(*) FROM batch WHERE kind = ? AND state = 'running'"
    (count,) = one_row(running, (kind,))
    if count >= MAX_RUNNING:
        code = "too_many_imports" if kind == "import" else "too_many_batches"
        raise Conflict(f"{count} are running: wait for one of them", code)
    batch = batches.start(kind, noun, note)
    begin(batch, details, here)
    return batch


def begin(batch: Batch, details: dict[str, Any], here: bool) -> None:
    """Let a batch be worked at for whom the session acts; inside a transaction.

    here: by the caller, who calls run(); else by look_after_current(). Senders are told, which go
    on with it if the process ends.
    """
    session = current_session()
    scopes = None if session.scopes is None else sorted(session.scopes)
    actor = [session.user_id, session.key_id, scopes, session.own_user_id, session.sees_unassigned]
    stored = dumps(details | {"actor": actor}).decode()
    batch.save_changes({"details": stored, "lease_until": _new_lease() if here else None})
    notify_after_commit()


def claim() -> tuple[int, str] | None:
    """Take the lease of the oldest unfinished batch: (id, lease).

    None if there is none, or another process has it.
    """
    with transaction():
        batch = Batch.first(UNFINISHED)
        return None if batch is None or is_leased(batch) else (batch.id, _renew(batch))


def is_leased(batch: Batch) -> bool:
    """Whether a process works at a batch."""
    return (batch.lease_until or "") > steady_now()


def resume(id: int, lease: str, step: Step | None = None) -> None:
    """Work at a batch whose lease the caller has, and renew it in each transaction, to its end.

    step: as `prepare` of register() gives it, by default for whom has begun the batch. Raises
    LeaseLost; Busy and TenantUnavailable, after which anybody may go on; and what the work raises,
    by which the batch has failed.
    """

    def do_some(has_time: chunks.HasTime) -> bool:
        nonlocal lease
        batch = Batch.find(id)
        if batch.lease_until != lease:
            raise LeaseLost
        is_undo = batch.state == "undoing"
        with nullcontext() if is_undo else batches.recording(batch):
            goes_on = work(batch, has_time)
        if goes_on:
            lease = _renew(batch)
        else:
            _end(batch, "undone" if is_undo else "done")
        return goes_on

    try:
        work = step or _prepare(Batch.find(id))
        chunks.run(do_some)
    except (Busy, TenantUnavailable, *FILE_ERRORS):
        # Another process may go on, if this one still has the lease and the disk allows it.
        with suppress(CRMError, *FILE_ERRORS), transaction():
            if (batch := Batch.find(id)).lease_until == lease:
                batch.save_changes({"lease_until": None})
        raise
    except LeaseLost:
        raise
    except BaseException as error:
        fail(id, error if isinstance(error, CRMError) else CRMError("", "unexpected"))
        raise


def _prepare(batch: Batch) -> Step:
    """Act for whom has begun a batch, and return what does some of its work."""
    session, actor = current_session(), loads(batch.details or "{}")["actor"]
    session.user_id, session.key_id, scopes, *own = actor
    session.scopes = None if scopes is None else frozenset(scopes)
    session.own_user_id, session.sees_unassigned = own or (None, False)
    return _functions_of(batch)[0](batch)


def run(batch: Batch, step: Step | None = None) -> None:
    """Work here and now at a batch that begin() has leased to the caller, as resume()."""
    resume(batch.id, batch.lease_until or "", step)


def end(id: int | str, state: str, error: CRMError | None = None) -> Batch:
    """End a batch that runs; what it has done stays. Raises NotFound, Conflict `not_running`."""
    with transaction():
        batch = Batch.find(id)
        if batch.state not in ("running", "undoing"):
            raise not_running()
        _end(batch, state, error)
        return batch


def not_running() -> Conflict:
    return Conflict("this does not run any more", "not_running")


def fail(id: int, error: CRMError) -> None:
    """End a batch that went wrong, if it runs still. Never raises what the disk or a lock does."""
    with suppress(CRMError, *FILE_ERRORS):
        end(id, "failed", error)


def _new_lease() -> str:
    """A lease from now on; a random part tells it from others."""
    until = current_session().source.steady_clock.now() + LEASE_SECONDS
    return f"{time_text(int(until))} {secrets.token_hex(8)}"


def _renew(batch: Batch) -> str:
    lease = _new_lease()
    batch.save_changes({"lease_until": lease})
    return lease


def _end(batch: Batch, state: str, error: CRMError | None = None) -> None:
    _, on_end = _functions_of(batch)
    batch.save_changes({"lease_until": None})
    batches.finish(batch, state)
    on_end(batch, error)


def _functions_of(batch: Batch) -> tuple[Prepare, OnEnd]:
    return _registered["undo" if batch.state == "undoing" else batch.kind]


# In the background


def next_due() -> str | None:
    """When the first unfinished batch of the tenant can be claimed; "" for at once, None: none."""
    lease = row(f"{LEASES} LIMIT 1")
    return None if lease is None else lease[0].partition(" ")[0]


def look_after_current() -> None:
    """Work at what the current tenant has, once the transaction has ended."""
    session = current_session()
    tenants, label = session.source.installation, session.label
    after_commit(lambda: look_after(tenants, label))


def look_after(tenants: Any, label: str) -> None:
    """Work at what a tenant has and nobody works at, in a thread, unless one does so already.

    `tenants`: an `installation.tenants.Tenants`.
    """
    key = id(tenants), label
    with _lock:
        if key in _active:
            return
        _active.add(key)
    threading.Thread(target=_work, args=(tenants, label, key), name="batches", daemon=True).start()


def _work(tenants: Any, label: str, key: tuple[int, str]) -> None:
    goes_on = True
    while goes_on:
        try:
            with tenants.session(label, sweeps_expired=False):
                if claimed := claim():
                    resume(*claimed)
                else:
                    for work in other_work:
                        work()
                goes_on = claimed is not None
        except UnknownTenant:
            goes_on = False
        except LeaseLost:
            pass
        except (Busy, TenantUnavailable):
            time.sleep(RETRY_SECONDS)
        except CRMError as error:
            log.warning("a batch of %s has failed: %s", label, error.code)
        except Exception:
            log.exception("a batch of %s was interrupted", label)
            time.sleep(RETRY_SECONDS)
        if not goes_on:
            with _lock:
                _active.discard(key)
