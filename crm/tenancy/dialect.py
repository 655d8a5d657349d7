"""Parts of SQL statements in SQLite's own dialect, for statements otherwise in standard SQL."""

from collections.abc import Iterator
from contextlib import contextmanager

from crm.tenancy.database import current_session, execute

FILLING_CACHE_BYTES = 64 << 20  # of pages kept in memory while many rows are written
INDEXES_OF = (
    "SELECT name, sql FROM sqlite_master WHERE type = 'index' AND tbl_name = ? AND sql IS NOT NULL"
)


def json_rows(columns: dict[str, str], rest: str) -> str:
    """Make an SQL expression: the rows of `SELECT columns FROM rest` as one JSON text."""
    names = ", ".join(f"'{name}', {name}" for name in columns)
    selected = ", ".join(f"{expression} AS {name}" for name, expression in columns.items())
    return f"(SELECT json_group_array(json_object({names})) FROM (SELECT {selected} FROM {rest}))"


def json_row(columns: dict[str, str], rest: str) -> str:
    """Make an SQL expression: the one row of `SELECT columns FROM rest` as a JSON text, or null."""
    pairs = ", ".join(f"'{name}', {expression}" for name, expression in columns.items())
    return f"(SELECT json_object({pairs}) FROM {rest})"


def among(column: str) -> str:
    """Make an SQL condition: the column is one of the values of a JSON array, its one parameter."""
    return f"{column} IN (SELECT value FROM json_each(?))"


def by_index(table: str, index: str) -> str:
    """Make the FROM text for a table read by this index and no other; fails without it."""
    return f"{table} INDEXED BY {index}"


def by_id(table: str) -> str:
    """Make the FROM text for a table read in order of id, or by given ids."""
    return f"{table} NOT INDEXED"


@contextmanager
def filling(table: str, rebuild_indexes: bool) -> Iterator[None]:
    """Insert many rows into a table in a `with` block; inside `transaction()`.

    Their pages stay in memory meanwhile. With `rebuild_indexes`, for more rows than the table has,
    its indexes are dropped and created again at the end: to sort 50,000 entries once takes a third
    of the time of inserting each at its place.
    """
    connection = current_session().connection
    indexes = connection.execute(INDEXES_OF, (table,)).fetchall() if rebuild_indexes else []
    (cache_size,) = connection.execute("PRAGMA cache_size").fetchone()
    connection.execute(f"PRAGMA cache_size = -{FILLING_CACHE_BYTES >> 10}")
    try:
        for name, _ in indexes:
            execute(f"DROP INDEX {name}")
        yield
        for _, sql in indexes:
            execute(sql)
    finally:
        connection.execute(f"PRAGMA cache_size = {cache_size}")
