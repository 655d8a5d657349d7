"""Figures of tasks: those done, and those of a user that wait; the tasks of a record.

Deleted tasks don't count, nor do those of deleted records.
"""

from typing import Any

from crm.json import integer_id
from crm.records.conditions import Condition
from crm.resources.leads.figures import ids_of
from crm.resources.tasks import DUE, OF_LIVE, TASK
from crm.storage.dialect import by_id, by_index
from crm.storage.session import one_row

UNDONE = f"status IN ('open', 'in_progress') AND deleted_at IS NULL AND {OF_LIVE}"
# Without the index of statuses: the few tasks of some records are read by those of the records.
UNDONE_OF_RECORD = (
    f"task.status || '' IN ('open', 'in_progress') AND task.deleted_at IS NULL AND {OF_LIVE}"
)
# A task left to do for a deal: its own, or one of a lead that became the deal.
STEP_OF_DEAL = (
    f"SELECT 1 FROM task WHERE task.deal_id = deal.id AND {UNDONE_OF_RECORD} UNION ALL"
    " SELECT 1 FROM lead JOIN task ON task.lead_id = lead.id"
    f" WHERE lead.deal_id = deal.id AND lead.deleted_at IS NULL AND {UNDONE_OF_RECORD}"
)
WAITING = by_index("task", "task_waiting")
# The deals that have such a task, for figures of all deals.
DEALS_WITH_STEP = (
    f"SELECT deal_id FROM {WAITING} WHERE deal_id IS NOT NULL AND {UNDONE} UNION ALL"
    f" SELECT deal_id FROM {by_id('lead')} WHERE deal_id IS NOT NULL AND deleted_at IS NULL"
    f" AND id IN (SELECT lead_id FROM {WAITING} WHERE lead_id IS NOT NULL AND {UNDONE})"
)
# As of deals (crm/resources/deals/figures.py).
DONE = by_index("task", "task_completed_at")
PERIODS = {"completed": (DONE, Condition("completed_at IS NOT NULL"))}
SUMS = {"value": "duration_seconds", "unit": "s"}


def count_own(user_id: int, moment: str, midnight: str, limit: int) -> tuple[int, int]:
    """Count a user's tasks that are overdue, and those due from then until midnight.

    Of each at most `limit` are counted.
    """
    waiting = f"SELECT 1 FROM {WAITING} WHERE assigned_to = ? AND {UNDONE}"
    return one_row(
        f"SELECT (SELECT count(*) FROM ({waiting} AND {DUE} < ? LIMIT ?) AS overdue),"
        f" (SELECT count(*) FROM ({waiting} AND {DUE} >= ? AND {DUE} < ? LIMIT ?) AS due)",
        (user_id, moment, limit, user_id, moment, midnight, limit),
    )


def of_record(noun: str, id: int | str, limit: int) -> list[dict[str, Any]]:
    """The tasks of a record as they are shown: first those to do, by time, then those done.

    A deal and a client have those of the leads that they came from, too.
    """
    leads = [] if noun == "lead" else ids_of(noun, integer_id(id))
    return TASK.every(
        f"({noun}_id = ? OR lead_id IN ({', '.join('?' * len(leads)) or 'NULL'}))"
        f" AND status <> 'cancelled' AND deleted_at IS NULL AND {OF_LIVE}"
        " ORDER BY status = 'done', coalesce(due_at, '9999'), id LIMIT ?",
        integer_id(id),
        *leads,
        limit,
    )
