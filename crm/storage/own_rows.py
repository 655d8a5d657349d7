"""Which rows are somebody's own, and how a query is limited to them.

Each table declares it once. A query of a user who may see own records only gets a WITH clause, in
which the name of each such table means the user's rows. It is the same clause whatever the query
reads: no query can leave it out, and what is not read costs nothing. Nobody else's queries change,
nor do those whose result nobody sees: they choose a plan (`session.value_of_all`), or values whose
records are then looked up as one's own. Of all rows are read name and phone of the client of an own
deal or task (`session.rows_of_all`). Parts, such as notes, follow their record.
"""

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

# A user's row of a table of records meets one of these conditions, and no two; each has an index.
OWN = ("assigned_to = ?", "created_by = ? AND coalesce(assigned_to, 0) <> ?")
OWN_OR_UNASSIGNED = (
    "assigned_to = ?",
    "assigned_to IS NULL",
    "created_by = ? AND assigned_to <> ?",
)
INDEX_CHOICE = re.compile(r"\b(\w+) (?:INDEXED BY (\w+)|NOT INDEXED\b)")  # as dialect.py makes it

_records: dict[str, bool] = {}  # tables whose rows have both columns: whether others are anybody's
_conditions: dict[str, str] = {}  # of other tables, an owner before its parts
_parts_of_any: list[str] = []


def declare_records(table: str, unassigned: bool = False) -> None:
    """Let the rows of a table belong to whom they are assigned to, and to who made them.

    unassigned: whether a session may see those of nobody, too.
    """
    _records[table] = unassigned


def declare(table: str, condition: str) -> None:
    """Let the rows of a table be a user's that meet an SQL condition; its parameters are the id."""
    _conditions[table] = condition


def declare_parts(table: str, owner: str) -> None:
    """Let the rows of a table follow those of `owner`, which their column `<owner>_id` names."""
    declare(table, f"EXISTS (SELECT 1 FROM {owner} WHERE {owner}.id = {table}.{owner}_id)")


def declare_parts_of_any(table: str) -> None:
    """Let the rows of a table follow the records that their `noun` and `record_id` name."""
    _parts_of_any.append(table)


def alternatives(table: str, unassigned: bool) -> tuple[str, ...]:
    """The conditions of own rows of a table of records, as OWN; () of other tables."""
    if table not in _records:
        return ()
    return OWN_OR_UNASSIGNED if unassigned and _records[table] else OWN


def record_condition(table: str, user_id: int, unassigned: bool) -> str:
    """An SQL condition: the record that `noun` and `record_id` of a row name is a user's own.

    It is for queries of sessions that read all rows. Other rows than those of records meet it.
    """
    own = {noun: f" AND ({' OR '.join(alternatives(noun, unassigned))})" for noun in _records}
    condition = f"({table}.noun IS NULL OR {_of_any(table, own)})"
    return condition.replace("?", str(user_id))


def _list_conditions(unassigned: bool) -> list[tuple[str, str]]:
    """(table, condition) of all tables, a record before its parts."""
    records = [(table, " OR ".join(alternatives(table, unassigned))) for table in _records]
    return [*records, *_conditions.items(), *((part, _of_any(part)) for part in _parts_of_any)]


def _of_any(table: str, further: Mapping[str, str] = {}) -> str:
    """The record that a row names exists, and meets the further condition of its noun."""
    nouns = ", ".join(f"'{noun}'" for noun in _records)
    # Not EXISTS: in an OR, PostgreSQL would read all records for it.
    of_records = " OR ".join(
        f"{table}.noun = '{noun}' AND 1 ="
        f" (SELECT 1 FROM {noun} WHERE {noun}.id = {table}.record_id{further.get(noun, '')})"
        for noun in _records
    )
    return f"{table}.noun NOT IN ({nouns}) OR {of_records}"


def limit(
    sql: str, params: Sequence[Any], user_id: int, unassigned: bool, schema: str
) -> tuple[str, list[Any]]:
    """A query and its parameters, limited to a user's own rows.

    unassigned: whether rows of nobody count, where they may. schema: what stands before the name of
    a table that the WITH clause hides.
    """
    limited, count = _limit(sql, unassigned, schema)
    return limited, [user_id] * count + [*params]


@lru_cache(maxsize=256)  # 4 KB each
def _limit(sql: str, unassigned: bool, schema: str) -> tuple[str, int]:
    """The text of a query, limited, and how many parameters come before its own."""
    conditions = dict(_list_conditions(unassigned))
    sources = {table: (table, table) for table in conditions}  # by name: FROM text, table

    def name_source(match: re.Match[str]) -> str:
        """Name a table that is read by an index of choice; without a name it would be refused."""
        table, index = match.groups()
        if table not in conditions:
            return match[0]
        name = f"by_{index or f'{table}_id'}"
        sources[name] = (match[0], table)
        return f"{name} AS {table}"

    query = INDEX_CHOICE.sub(name_source, sql)
    if query.lstrip().startswith("WITH "):  # a statement has one such clause
        query = f"SELECT * FROM ({query}) AS result"
    # NOT MATERIALIZED: the rows are looked up by the indexes that the query needs.
    clause = ", ".join(
        f"{name} AS NOT MATERIALIZED (SELECT * FROM {schema}{source} WHERE {conditions[table]})"
        for name, (source, table) in sources.items()
    )
    return f"WITH {clause} {query}", clause.count("?")
