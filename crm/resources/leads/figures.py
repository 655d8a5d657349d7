"""Figures of leads: how many came in, and from where. Deleted leads don't count.

`user_id` is whose leads count, None for those of all.
"""

from collections.abc import Sequence

from crm.resources.spans import Span, owned_by, spans_table
from crm.storage.session import one_row, rows

OPEN = "status IN ('new', 'in_progress', 'qualified') AND deleted_at IS NULL"
MAX_LEADS = 50  # of a record whose leads' notes and tasks are shown


def count_created(spans: Sequence[Span], user_id: int | None = None) -> list[int]:
    """How many leads were created in each of the spans."""
    table, params = spans_table(spans)
    own, own_params = owned_by(user_id)
    counts = rows(
        f"{table} SELECT (SELECT count(*) FROM lead WHERE created_at >= begins"
        f" AND created_at < ends AND deleted_at IS NULL AND {own}) FROM span ORDER BY place",
        [*params, *own_params],
    )
    return [count for (count,) in counts]


def count_open(limit: int) -> int:
    """How many leads are neither converted nor rejected, counted up to `limit`."""
    return one_row(
        f"SELECT count(*) FROM (SELECT 1 FROM lead WHERE {OPEN} LIMIT ?) AS counted", [limit]
    )[0]


def ids_of(noun: str, id: int) -> list[int]:
    """The leads that became a deal or a client, at most MAX_LEADS."""
    sql = f"SELECT id FROM lead WHERE {noun}_id = ? AND deleted_at IS NULL LIMIT {MAX_LEADS}"
    return [lead for (lead,) in rows(sql, (id,))]


def count_by_source(span: Span, user_id: int | None = None) -> list[tuple[str | None, int]]:
    """(source, number of leads) of the leads created in the span, the largest first."""
    own, own_params = owned_by(user_id)
    # Selected by time of creation: by the index of sources all leads would be read.
    counts = rows(
        "SELECT coalesce(source, ''), count(*) FROM lead WHERE created_at >= ? AND created_at < ?"
        f" AND deleted_at IS NULL AND {own} GROUP BY coalesce(source, '')"
        " ORDER BY count(*) DESC, 1",
        (*span, *own_params),
    )
    return [(source or None, count) for source, count in counts]
