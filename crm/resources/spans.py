"""What the figures of leads, deals and tasks count by: stretches of time, and whose records."""

from collections.abc import Sequence

Span = tuple[str, str]  # from a moment until before another, as times are stored


def owned_by(user_id: int | None) -> tuple[str, tuple[int, ...]]:
    """The condition of a user's records, and its parameters; None stands for those of all.

    It uses no index: figures read records by time, of which those of one user are a large part.
    """
    return ("TRUE", ()) if user_id is None else ("coalesce(assigned_to, 0) = ?", (user_id,))


def spans_table(spans: Sequence[Span]) -> tuple[str, list[int | str]]:
    """A WITH clause of the table `span` (place, begins, ends), and its parameters."""
    values = ", ".join(["(CAST(? AS BIGINT), CAST(? AS TEXT), CAST(? AS TEXT))"] * len(spans))
    params = [value for place, span in enumerate(spans) for value in (place, *span)]
    return f"WITH span (place, begins, ends) AS (VALUES {values})", params
