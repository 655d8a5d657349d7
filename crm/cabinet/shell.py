"""The counts beside the names of pages in the menu: how many records wait there.

The bell has what waits for the person who looks, whatever it is.
"""

from crm.alerts import alerts
from crm.cabinet import formatting
from crm.cabinet.rendering import MANAGER, RANK, me
from crm.resources import agenda, proposals, task_figures
from crm.storage.session import now

MAX_COUNT = 999  # more are shown as "999+"


def waiting_counts() -> dict[str, tuple[str, bool]]:
    """(count, whether records are late) of each page of the menu, by its path.

    Leads and deals that are open; of the user's own tasks those that are overdue or due today.
    """
    user_id = me().user_id
    overdue, today = task_figures.count_own(user_id, now(), formatting.end_of_today())
    leads, deals = (agenda.count_open(noun, user_id, MAX_COUNT + 1)[0] for noun in agenda.OPEN)
    return {
        "/": (_text(overdue + today), overdue > 0),
        "/leads": (_text(leads), False),
        "/deals": (_text(deals), False),
        "/tasks": (_text(overdue), True),
    }


def count_by_page() -> dict[str, int]:
    """How much waits for the person who looks, by its page."""
    counts = {"/alerts": alerts.count_unseen(me().user_id, MAX_COUNT + 1)}
    if RANK[me().role] >= RANK[MANAGER]:
        counts["/proposals"] = proposals.count_open()
    return counts


def bell() -> tuple[str, tuple[str, bool]]:
    """The page that the bell leads to, and the count beside it.

    The page is the first one on which something waits.
    """
    counts = count_by_page()
    path = next((path for path, count in counts.items() if count), "/alerts")
    return path, (_text(sum(counts.values())), False)


def _text(count: int) -> str:
    return f"{MAX_COUNT}+" if count > MAX_COUNT else str(count or "")
