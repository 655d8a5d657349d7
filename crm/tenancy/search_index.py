"""SQL texts about the full-text index of a table, in SQLite's own dialect (FTS5).

A searchable table has a column `search_text`, NULL when the row is deleted, and beside it an index
of all three-letter pieces of that text, `<table>_search`, made by the migrations. There are no
triggers: a trigger indexes 50,000 imported rows in 2.8 s, one statement for all in 0.4 to 1.
Therefore code that changes `search_text`, or deletes the row, executes `remove_statement` before
and `add_statement` after the change, in the same transaction.
"""

from collections.abc import Iterable
from functools import cache

from crm.tenancy.dialect import among

PIECE_LETTERS = 3  # shorter texts are not in the index

# Ascending: the index writes out what it holds in memory whenever an id is below the last one.
_OF_IDS = f" WHERE {among('id')} AND search_text IS NOT NULL ORDER BY id"


@cache
def add_statement(table: str) -> str:
    """Add a row to the index. Parameters: its id and its text, as just written.

    Without a query for them SQLite needs no savepoint, which would make the index write out what
    it holds in memory.
    """
    return f"INSERT INTO {table}_search (rowid, search_text) VALUES (?, ?)"


@cache
def remove_statement(table: str) -> str:
    """Remove a row from the index, before its text changes or the row goes. Parameter: its id."""
    return f"{_remove(table)} WHERE id = ? AND search_text IS NOT NULL"


@cache
def add_many_statement(table: str) -> str:
    """Add rows to the index, after they got their texts. Parameter: a JSON array of ids."""
    return _add(table) + _OF_IDS


@cache
def add_later_statement(table: str) -> str:
    """Add all rows with a higher id to the index. Parameter: that id."""
    return f"{_add(table)} WHERE id > ? AND search_text IS NOT NULL ORDER BY id"


@cache
def remove_many_statement(table: str) -> str:
    """Remove rows from the index, before any of them changes. Parameter: a JSON array of ids."""
    return _remove(table) + _OF_IDS


def _add(table: str) -> str:
    return f"INSERT INTO {table}_search (rowid, search_text) SELECT id, search_text FROM {table}"


def _remove(table: str) -> str:
    return (
        f"INSERT INTO {table}_search ({table}_search, rowid, search_text)"
        f" SELECT 'delete', id, search_text FROM {table}"
    )


def matching_ids(table: str) -> str:
    """A SELECT of the ids that match an index query, its one parameter: see `all_of`."""
    return f"SELECT rowid AS id FROM {table}_search WHERE {table}_search MATCH ?"


def newest_ids(table: str, ids: str, limit: int) -> str:
    """A SELECT of one row about the newest ids of the SELECT `ids`.

    Columns: a JSON array of at most `limit` ids, how many these are, and by how much the highest
    id of the table exceeds the lowest of them.
    """
    return (
        f"SELECT json_group_array(id), count(*), (SELECT max(id) FROM {table}) - min(id)"
        f" FROM ({ids} ORDER BY id DESC LIMIT {limit})"
    )


def contains(table: str) -> str:
    """A condition: the row's text contains the one parameter."""
    return f"instr({table}.search_text, ?)"


def is_searchable(table: str) -> str:
    """A condition: the row has a text to be searched, as every row has that is not deleted."""
    return f"{table}.search_text IS NOT NULL"


def all_of(queries: Iterable[str]) -> str:
    """An index query that matches where each of the queries does."""
    return " AND ".join(queries)


def any_of(queries: Iterable[str]) -> str:
    """An index query, in parentheses, that matches where one of the queries does."""
    return "(" + " OR ".join(f"({query})" for query in queries) + ")"


def piece(letters: str) -> str:
    """An index query for PIECE_LETTERS letters; quoted, AND and NEAR( are letters like others."""
    return '"' + letters.replace('"', '""') + '"'
