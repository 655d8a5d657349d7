"""Values that forms and filters propose: the different ones that live records have already.

An actor of own records alone gets those of the newest MAX_OWN_RECORDS, which are read by the
indexes of assigned_to and created_by. All others are read one by one, each by an index that begins
with it: DISTINCT would read every record.
"""

from typing import Any

from crm.records.list_plans import own_alternatives
from crm.storage.session import remembered_rows
from crm.values import folding

MAX_OWN_RECORDS = 500  # assigned to the actor, and as many that the actor made


def values_of(noun: str, column: str, limit: int = 100) -> list[Any]:
    """The different values that live records have in a column of texts, in order."""
    live = f"{noun} WHERE {column} IS NOT NULL AND deleted_at IS NULL"
    own = "SELECT DISTINCT value FROM {newest} WHERE value IS NOT NULL ORDER BY value"
    return _propose(noun, column, _each(column, live), own, limit)


def tags_of(noun: str, limit: int) -> list[str]:
    """The different tags of live records, in order, folded."""
    tagged = f"{noun}_tag WHERE {noun}_tag.tag"
    live = (
        f"(SELECT 1 FROM {tagged} = value AND EXISTS (SELECT 1 FROM {noun}"
        f" WHERE {noun}.id = {noun}_tag.{noun}_id AND deleted_at IS NULL) LIMIT 1) IS NOT NULL"
    )
    own = f"SELECT DISTINCT tag FROM {{newest}} JOIN {noun}_tag ON {noun}_id = value ORDER BY tag"
    return _propose(noun, "id", f"{_each('tag', f'{tagged} IS NOT NULL')} AND {live}", own, limit)


def _each(column: str, source: str) -> str:
    """An SQL query of the different values in a column of `source`, a table with conditions."""
    smallest = f"SELECT min({column}) FROM {source}"
    return (
        f"WITH RECURSIVE known (value) AS ({smallest} UNION ALL"
        f" SELECT ({smallest} AND {column} > value) FROM known WHERE value IS NOT NULL)"
        " SELECT value FROM known WHERE value IS NOT NULL"
    )


def _propose(noun: str, column: str, of_all: str, of_own: str, limit: int) -> list[Any]:
    """The values that a query lists: that of all records, or of `newest`, the own records'."""
    sql, params = of_all, []
    if alternatives := own_alternatives(noun):
        newest = " UNION ALL ".join(
            f"SELECT value FROM (SELECT id, {column} AS value FROM {noun} WHERE {alternative.sql}"
            f" AND deleted_at IS NULL ORDER BY id DESC LIMIT {MAX_OWN_RECORDS}) AS own"
            for alternative in alternatives
        )
        sql = of_own.format(newest=f"({newest}) AS newest")
        params = [value for alternative in alternatives for value in alternative.params]
    values = remembered_rows(f"{sql} LIMIT ?", [*params, limit])
    return sorted((value for (value,) in values), key=folding.sort_key)
