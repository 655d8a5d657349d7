"""Handing over the open leads, deals and tasks of a user, such as of one who has left.

All of a resource are changed as one batch, which can be undone.
"""

from typing import Any

from crm.json import dumps
from crm.resources.bulk import work
from crm.resources.tasks import UNDONE

# The statuses of open records, by resource.
OPEN = {"leads": ("new", "in_progress", "qualified"), "deals": ("open",), "tasks": UNDONE}


def count_open(user_id: int) -> dict[str, int]:
    """How many open records of each resource a user is responsible for."""
    return {plural: work.count(plural, _of_user(plural, user_id)) for plural in OPEN}


def hand_over(user_id: int, to: int | None) -> dict[str, tuple[dict[str, Any], bool]]:
    """Make another user responsible for a user's open records, or with None nobody.

    Returns what work.run() does, by resource; one without open records is not there. Raises
    Conflict `count_changed` or `too_many_batches`.
    """
    change = dumps({"assigned_to": None if to is None else str(to)}).decode()
    return {
        plural: work.run(plural, {**_of_user(plural, user_id), "set": change, "expect": count})
        for plural, count in count_open(user_id).items()
        if count
    }


def _of_user(plural: str, user_id: int) -> dict[str, Any]:
    query = {"assigned_to": [str(user_id)], "status": list(OPEN[plural])}
    return {"where": dumps(query).decode()}
