"""Figures of tasks: those due in a stretch of time, and those overdue; the tasks of a record.

Deleted tasks don't count.
"""

from typing import Any

from crm.resources.leads.figures import ids_of
from crm.resources.spans import Span, owned_by
from crm.resources.tasks import TASK
from crm.storage.session import one_row
from crm.values.ids import integer_id

UNDONE = "status IN ('open', 'in_progress') AND deleted_at IS NULL"
# Without the index of statuses: the few tasks of some records are read by those of the records.
UNDONE_OF_RECORD = "task.status || '' IN ('open', 'in_progress') AND task.deleted_at IS NULL"
# A task left to do for a deal: its own, or one of a lead that became the deal.
STEP_OF_DEAL = (
    f"SELECT 1 FROM task WHERE task.deal_id = deal.id AND {UNDONE_OF_RECORD} UNION ALL"
    " SELECT 1 FROM lead JOIN task ON task.lead_id = lead.id"
    f" WHERE lead.deal_id = deal.id AND lead.deleted_at IS NULL AND {UNDONE_OF_RECORD}"
)
# Of the tasks that existed at a moment: those due from then until another moment, and overdue ones.
DUE = (
    "count(CASE WHEN created_at <= ? AND due_at >= ? AND due_at < ? THEN 1 END),"
    " count(CASE WHEN created_at <= ? AND due_at < ? THEN 1 END)"
)


def count_due(
    this: Span, then: Span, user_id: int | None = None
) -> tuple[tuple[int, int], tuple[int, int]]:
    """Count the tasks due in a span, and those overdue at its beginning; of a user, or of all.

    Returns a pair for each: the count of the present span, and that of an earlier one.
    """
    own, own_params = owned_by(user_id)
    params = [value for at, ends in (this, then) for value in (at, at, ends, at, at)]
    today, late, today_then, late_then = one_row(
        f"SELECT {DUE}, {DUE} FROM task WHERE {UNDONE} AND {own}", [*params, *own_params]
    )
    # A task done since then was also updated since then: the condition on updated_at has an index.
    since = "updated_at >= ? AND completed_at > ? AND status = 'done' AND deleted_at IS NULL"
    done = one_row(
        f"SELECT {DUE} FROM task WHERE {since} AND {own}",
        [*params[5:], then[0], then[0], *own_params],
    )
    return (today, today_then + done[0]), (late, late_then + done[1])


def count_own(user_id: int, moment: str, midnight: str) -> tuple[int, int]:
    """Count a user's tasks that are overdue, and those due from then until midnight."""
    sql = (
        "SELECT count(CASE WHEN due_at < ? THEN 1 END), count(*) FROM task WHERE assigned_to = ?"
        f" AND {UNDONE} AND due_at < ?"
    )
    overdue, due = one_row(sql, (moment, user_id, midnight))
    return overdue, due - overdue


def of_record(noun: str, id: int | str, limit: int) -> list[dict[str, Any]]:
    """The tasks of a record as they are shown: first those to do, by time, then those done.

    A deal and a client have those of the leads that they came from, too.
    """
    leads = [] if noun == "lead" else ids_of(noun, integer_id(id))
    return TASK.every(
        f"({noun}_id = ? OR lead_id IN ({', '.join('?' * len(leads)) or 'NULL'}))"
        " AND status <> 'cancelled' AND deleted_at IS NULL"
        " ORDER BY status = 'done', coalesce(due_at, '9999'), id LIMIT ?",
        integer_id(id),
        *leads,
        limit,
    )
