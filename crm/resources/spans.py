"""Stretches of time, as the figures of leads and deals count by them."""

from collections.abc import Sequence

Span = tuple[str, str]  # from a moment until before another, as times are stored


def spans_table(spans: Sequence[Span]) -> tuple[str, list[int | str]]:
    """A WITH clause of the table `span` (place, begins, ends), and its parameters."""
    values = ", ".join(["(CAST(? AS BIGINT), CAST(? AS TEXT), CAST(? AS TEXT))"] * len(spans))
    params = [value for place, span in enumerate(spans) for value in (place, *span)]
    return f"WITH span (place, begins, ends) AS (VALUES {values})", params
