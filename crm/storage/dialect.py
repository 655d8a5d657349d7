"""Parts of SQL statements that engines spell differently, and what depends on the session's engine.

They are in SQLite's spelling, as all statements are: `postgres/spelling.py` has the other engine's.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager

from crm.storage.session import current_session, session_or_none

FILLING_CACHE_BYTES = 64 << 20  # of pages kept in memory while many rows are written
KEYWORDS = frozenset({"user"})  # names of tables that are quoted
PLAIN_COLUMN = re.compile(r'[\w".]+\Z')


def is_sqlite() -> bool:
    """Whether the engine of the current session, or of work without one, is SQLite.

    It indexes words in tables that code keeps up, and writes JSON as this code does.
    """
    session = session_or_none()
    return session is None or session.source.engine_name == "sqlite"


def quoted(table: str) -> str:
    """Make the SQL text of a table's name."""
    return f'"{table}"' if table in KEYWORDS else table


def selected(expression: str, name: str) -> str:
    """Make the SELECT text of an expression: a plain column as it is, anything else named.

    Without a name PostgreSQL calls `CAST(lead.id AS TEXT)` id, and ORDER BY id would sort texts.
    name: one that no column has.
    """
    return expression if PLAIN_COLUMN.match(expression) else f"{expression} AS {name}"


def json_rows(columns: dict[str, str], rest: str) -> str:
    """Make an SQL expression: the rows of `SELECT columns FROM rest` as one JSON text."""
    names = ", ".join(f"'{name}', {name}" for name in columns)
    parts = ", ".join(f"{expression} AS {name}" for name, expression in columns.items())
    listed = f"SELECT json_group_array(json_object({names}))"
    return f"coalesce(({listed} FROM (SELECT {parts} FROM {rest}) AS part), '[]')"


def json_row(columns: dict[str, str], rest: str) -> str:
    """Make an SQL expression: the one row of `SELECT columns FROM rest` as a JSON text, or null."""
    pairs = ", ".join(f"'{name}', {expression}" for name, expression in columns.items())
    return f"(SELECT json_object({pairs}) FROM {rest})"


def comparable(column: str, value: str = "") -> str:
    """Make the SQL expression by which a column, or a value for it, is compared and indexed.

    E-mail addresses are compared without regard to the case of ASCII letters. Others are stored in
    lower case.
    """
    expression = value or column
    return f"lower({expression})" if column.rpartition(".")[2] == "email" else expression


def equals(column: str) -> str:
    """Make an SQL condition: a column has the value of the one parameter."""
    return f"{comparable(column)} = {comparable(column, '?')}"


def among(column: str, type_name: str = "BIGINT") -> str:
    """Make an SQL condition: the column is one of the values of a JSON array, its one parameter.

    type_name: of the values, BIGINT or TEXT.
    """
    # The plus lets SQLite use indexes of expressions, such as lower(email), too.
    return f"{column} IN (SELECT +CAST(value AS {type_name}) FROM json_each(?))"


def without_index(expression: str) -> str:
    """Make an SQL expression of the same value, for which SQLite uses no index."""
    return f"(+{expression})"


def by_index(table: str, index: str) -> str:
    """Make the FROM text for a table read by this index and no other; fails without it."""
    return f"{table} INDEXED BY {index}"


def by_id(table: str) -> str:
    """Make the FROM text for a table read in order of id, or by given ids."""
    return f"{table} NOT INDEXED"


@contextmanager
def filling(table: str) -> Iterator[None]:
    """Insert many rows into a table in a `with` block; inside `transaction()`.

    Their pages stay in memory meanwhile. On other engines the planner learns of the new rows.
    """
    connection = current_session().connection
    if not is_sqlite():
        yield
        connection.analyze(table)
        return
    (cache_size,) = connection.execute("PRAGMA cache_size").fetchone()
    connection.execute(f"PRAGMA cache_size = -{FILLING_CACHE_BYTES >> 10}")
    try:
        yield
    finally:
        connection.execute(f"PRAGMA cache_size = {cache_size}")
