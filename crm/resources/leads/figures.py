"""Figures of leads: how many there are. Deleted leads don't count."""

from collections.abc import Sequence
from typing import Any

from crm.records import totals
from crm.records.conditions import Condition
from crm.storage.dialect import by_index
from crm.storage.session import rows

OPEN = "status IN ('new', 'in_progress', 'qualified') AND deleted_at IS NULL"
MAX_LEADS = 50  # of a record whose leads' notes and tasks are shown


def count_by_group(
    groups: Sequence[str], conditions: Sequence[Condition], **divided: Any
) -> list[tuple[Any, ...]]:
    """(*groups, "", number of leads, 0) of leads selected by their time of creation.

    divided: the parts and cases, as in totals.
    """
    return totals.count_by_group(by_index("lead", "lead_created_at"), groups, conditions, **divided)


def ids_of(noun: str, id: int) -> list[int]:
    """The leads that became a deal or a client, at most MAX_LEADS."""
    sql = f"SELECT id FROM lead WHERE {noun}_id = ? AND deleted_at IS NULL LIMIT {MAX_LEADS}"
    return [lead for (lead,) in rows(sql, (id,))]
