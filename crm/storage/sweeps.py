"""Periodic deletion of expired rows.

The owner of a table registers a sweep, a function that deletes at most `max_rows` expired rows and
returns how many it deleted. A tenant is swept about once a day, at the end of a session, each sweep
in a short transaction of its own, so that writers get their turn in between. Sweeps compare with
the clock that may erase (steady_clock.py): the machine's own may be wrong.
"""

from collections.abc import Callable

from crm.storage.clocks import erasing_before
from crm.storage.session import current_session, execute, now, one_row, transaction

Sweep = Callable[[int], int]

DAY_SECONDS = 86_400
MAX_ROWS = 200  # of one sweep
_sweeps: list[Sweep] = []


def register(sweep: Sweep) -> Sweep:
    """Register a sweep; a decorator."""
    _sweeps.append(sweep)
    return sweep


def is_due() -> bool:
    """Whether the current tenant was last swept a day ago or longer, or by a clock set ahead."""
    (tidied_at,) = one_row("SELECT tidied_at FROM tenant")
    return not erasing_before(DAY_SECONDS) < tidied_at <= now()


def run(max_rows: int = MAX_ROWS, if_due: bool = False) -> bool:
    """Run every sweep once, each in a transaction of its own, then delete unused contents.

    Returns False when a sweep reached `max_rows`: more may be expired, and the tenant stays due.
    With `if_due` it ends, and returns True, as soon as another process or node has finished.
    """
    counts = [0]
    for sweep in _sweeps:
        with transaction():
            if if_due and not is_due():
                return True
            counts.append(sweep(max_rows))
    is_last = current_session().source.contents.delete_unused()
    finished = max(counts) < max_rows and is_last
    if finished:
        with transaction():
            execute("UPDATE tenant SET tidied_at = ?", (now(),))
    return finished
