"""Figures of leads: how many came in, and from where. Deleted leads don't count."""

from collections.abc import Sequence

from crm.resources.spans import Span, spans_table
from crm.storage.session import one_row, rows

OPEN = "status IN ('new', 'in_progress', 'qualified') AND deleted_at IS NULL"


def count_created(spans: Sequence[Span]) -> list[int]:
    """How many leads were created in each of the spans."""
    table, params = spans_table(spans)
    counts = rows(
        f"{table} SELECT (SELECT count(*) FROM lead WHERE created_at >= begins"
        " AND created_at < ends AND deleted_at IS NULL) FROM span ORDER BY place",
        params,
    )
    return [count for (count,) in counts]


def count_open(limit: int) -> int:
    """How many leads are neither converted nor rejected, counted up to `limit`."""
    return one_row(
        f"SELECT count(*) FROM (SELECT 1 FROM lead WHERE {OPEN} LIMIT ?) AS counted", [limit]
    )[0]


def count_by_source(span: Span) -> list[tuple[str | None, int]]:
    """(source, number of leads) of the leads created in the span, the largest first."""
    # Selected by time of creation: by the index of sources all leads would be read.
    counts = rows(
        "SELECT coalesce(source, ''), count(*) FROM lead WHERE created_at >= ? AND created_at < ?"
        " AND deleted_at IS NULL GROUP BY coalesce(source, '') ORDER BY count(*) DESC, 1",
        span,
    )
    return [(source or None, count) for source, count in counts]
