"""Figures of tasks: those due in a stretch of time, and those overdue; the tasks of a record.

Deleted tasks don't count.
"""

from typing import Any

from crm.resources.spans import Span
from crm.resources.tasks import TASK
from crm.storage.session import one_row
from crm.values.ids import integer_id

UNDONE = "status IN ('open', 'in_progress') AND deleted_at IS NULL"
# Of the tasks that existed at a moment: those due from then until another moment, and overdue ones.
DUE = (
    "count(CASE WHEN created_at <= ? AND due_at >= ? AND due_at < ? THEN 1 END),"
    " count(CASE WHEN created_at <= ? AND due_at < ? THEN 1 END)"
)


def count_due(this: Span, then: Span) -> tuple[tuple[int, int], tuple[int, int]]:
    """Count the tasks due in a span, and those overdue at its beginning.

    Returns a pair for each: the count of the present span, and that of an earlier one.
    """
    params = [value for at, ends in (this, then) for value in (at, at, ends, at, at)]
    today, late, today_then, late_then = one_row(
        f"SELECT {DUE}, {DUE} FROM task WHERE {UNDONE}", params
    )
    # A task done since then was also updated since then: the condition on updated_at has an index.
    since = "updated_at >= ? AND completed_at > ? AND status = 'done' AND deleted_at IS NULL"
    done = one_row(f"SELECT {DUE} FROM task WHERE {since}", [*params[5:], then[0], then[0]])
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
    """The tasks of a record as they are shown: first those to do, by time, then those done."""
    return TASK.every(
        f"{noun}_id = ? AND status <> 'cancelled' AND deleted_at IS NULL"
        " ORDER BY status = 'done', coalesce(due_at, '9999'), id LIMIT ?",
        integer_id(id),
        limit,
    )
