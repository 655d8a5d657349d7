"""The counts beside the names of pages in the menu: how many records wait there.

The bell has what waits for the person who looks, whatever it is: WAITING lists its kinds.
"""

from collections.abc import Callable
from typing import NamedTuple

from crm.alerts import alerts
from crm.cabinet import formatting
from crm.cabinet.rendering import MANAGER, RANK, VIEWER, me
from crm.resources import proposals, task_figures
from crm.resources.deals import figures as deals
from crm.resources.leads import figures as leads
from crm.storage.session import now

MAX_COUNT = 999  # more are shown as "999+"


class Waiting(NamedTuple):
    """A kind of what waits for a person: its page, the role that it needs, how many there are."""

    path: str
    role: str
    count_waiting: Callable[[], int]


def count_alerts() -> int:
    """How many alerts the user has not seen."""
    return alerts.count_unseen(me().user_id, MAX_COUNT + 1)


WAITING = [
    Waiting("/alerts", VIEWER, count_alerts),
    Waiting("/proposals", MANAGER, proposals.count_open),
]


def waiting_counts() -> dict[str, tuple[str, bool]]:
    """(count, whether records are late) of each page of the menu, by its path.

    Leads and deals that are open; of the user's own tasks those that are overdue or due today.
    """
    overdue, today = task_figures.count_own(me().user_id, now(), formatting.end_of_today())
    return {
        "/": (_text(overdue + today), overdue > 0),
        "/leads": (_text(leads.count_open(MAX_COUNT + 1)), False),
        "/deals": (_text(deals.count_open(MAX_COUNT + 1)), False),
        "/tasks": (_text(overdue), True),
    }


def count_by_page() -> dict[str, int]:
    """How much waits of each kind for the user's role, by its page."""
    kinds = [kind for kind in WAITING if RANK[me().role] >= RANK[kind.role]]
    return {kind.path: kind.count_waiting() for kind in kinds}


def bell() -> tuple[str, tuple[str, bool]] | None:
    """The page that the bell leads to, and the count beside it; None without a kind for the role.

    The page is that of the first kind of which something waits.
    """
    counts = count_by_page()
    path = next((path for path, count in counts.items() if count), next(iter(counts), ""))
    return (path, (_text(sum(counts.values())), False)) if path else None


def _text(count: int) -> str:
    return f"{MAX_COUNT}+" if count > MAX_COUNT else str(count or "")
