"""Figures of leads: how many there are. Deleted leads don't count."""

from collections.abc import Sequence
from typing import Any

from crm.records import totals
from crm.records.conditions import EVERY_ROW, Condition
from crm.storage.dialect import by_index
from crm.storage.session import remembered_rows, rows

OPEN = "status IN ('new', 'in_progress', 'qualified') AND deleted_at IS NULL"
# As of deals (crm/resources/deals/figures.py); leads have no sums.
PERIODS = {"created": (by_index("lead", "lead_created_at"), Condition(EVERY_ROW))}
SUMS: dict[str, str] = {}
MAX_USERS = 10  # whose leads are counted one by one
MAX_LEADS = 50  # of a record whose leads' notes and tasks are shown


def count_by_group(
    source: str,
    groups: Sequence[str],
    conditions: Sequence[Condition],
    cases: Sequence[Sequence[Condition]] = ((),),
    **more: Any,
) -> list[tuple[Any, ...]]:
    """As of totals, of leads."""
    ids = remembered_rows(f'SELECT id FROM "user" LIMIT {MAX_USERS + 1}')
    if [*groups] != ["assigned_to"] or len(ids) > MAX_USERS:
        return totals.count_by_group(source, groups, conditions, cases=cases, **more)
    # As cases: to group them SQLite sorts the leads, which takes up to three times as long.
    users = [Condition("assigned_to IS NULL"), *(Condition("assigned_to = ?", id) for id in ids)]
    of_users = [[user, *case] for user in users for case in cases]
    counts, width = [], 2 * len(cases)
    for row in totals.count_by_group(source, [], conditions, cases=of_users, **more):
        (*part, unit), figures = row[: -2 * len(of_users)], row[-2 * len(of_users) :]
        for at, id in enumerate([None, *(id for (id,) in ids)]):
            counts.append((*part, id, unit, *figures[at * width : (at + 1) * width]))
    return counts


def ids_of(noun: str, id: int) -> list[int]:
    """The leads that became a deal or a client, at most MAX_LEADS."""
    sql = f"SELECT id FROM lead WHERE {noun}_id = ? AND deleted_at IS NULL LIMIT {MAX_LEADS}"
    return [lead for (lead,) in rows(sql, (id,))]
