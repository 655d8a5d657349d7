"""Long work in short transactions, so that other writers of the tenant get their turn between."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress

from crm import activity
from crm.storage.commit_groups import MAX_PAUSE_SECONDS
from crm.storage.session import current_session, savepoint, transaction

CHUNK_SECONDS = 0.1  # of one transaction
PAUSE_SECONDS = 1.2 * MAX_PAUSE_SECONDS  # longer than the time between two tries of those who wait

HasTime = Callable[[], bool]


def begin() -> HasTime:
    """Whether there is time in the chunk that begins now."""
    deadline = time.perf_counter() + CHUNK_SECONDS
    return lambda: time.perf_counter() < deadline


def run(work: Callable[[HasTime], bool], is_trial: bool = False) -> None:
    """Call `work(has_time)` in one transaction after the other until it returns False.

    `work` does some of its work as long as has_time() is true, and returns whether there is more.
    With `is_trial` each transaction is undone. Inside a transaction of the caller's, all is in that
    one. Raises Busy, after which everything before is committed, and what `work` raises.
    """
    goes_on = True
    while goes_on:
        # Inside a transaction of the caller's, other writers would wait for the slot.
        slot = nullcontext() if current_session().in_transaction else activity.computing()
        with slot, transaction(), dry_run_block(True) if is_trial else nullcontext():
            goes_on = work(begin())
        if goes_on:
            with activity.waiting():
                time.sleep(PAUSE_SECONDS)


class _DryRun(Exception):
    """Ends the savepoint of a dry run."""


@contextmanager
def dry_run_block(is_dry_run: bool) -> Iterator[None]:
    """As savepoint(); a dry run undoes what was written also if nothing raises.

    Whom it wanted to be called after the commit is forgotten then.
    """
    callbacks = current_session().callbacks
    count = len(callbacks)
    with suppress(_DryRun), savepoint():
        yield
        if is_dry_run:
            del callbacks[count:]
            raise _DryRun
