"""What SQLite says in its own way, for texts that are otherwise standard SQL."""

from collections.abc import Iterator
from contextlib import contextmanager

from crm.tenancy.database import current_session, execute

ROOM = 64 << 20  # bytes of pages kept in memory while many rows are written
INDEXES_OF = (
    "SELECT name, sql FROM sqlite_master WHERE type = 'index' AND tbl_name = ? AND sql IS NOT NULL"
)


def json_rows(columns: dict[str, str], rest: str) -> str:
    """An SQL expression: the rows of `SELECT columns FROM rest` as one JSON text."""
    names = ", ".join(f"'{name}', {name}" for name in columns)
    chosen = ", ".join(f"{expression} AS {name}" for name, expression in columns.items())
    return f"(SELECT json_group_array(json_object({names})) FROM (SELECT {chosen} FROM {rest}))"


def json_row(columns: dict[str, str], rest: str) -> str:
    """An SQL expression: the one row of `SELECT columns FROM rest` as a JSON text, or null."""
    pairs = ", ".join(f"'{name}', {expression}" for name, expression in columns.items())
    return f"(SELECT json_object({pairs}) FROM {rest})"


def among(column: str) -> str:
    """An SQL condition: the column is one of the values of a JSON array, its one parameter."""
    return f"{column} IN (SELECT value FROM json_each(?))"


def by_index(table: str, index: str) -> str:
    """What stands after FROM for a table read by this index and no other; fails without it."""
    return f"{table} INDEXED BY {index}"


def by_id(table: str) -> str:
    """The same for a table read in order of id, or by given ids."""
    return f"{table} NOT INDEXED"


@contextmanager
def filling(table: str, anew: bool) -> Iterator[None]:
    """Many rows are about to come into the table; inside `transaction()`.

    Their pages stay in memory meanwhile. With `anew`, for more rows than there are already, the
    table's indexes are taken away and made again at the end: to sort 50,000 entries once takes a
    third of the time of inserting each at its place.
    """
    connection = current_session().connection
    made = connection.execute(INDEXES_OF, (table,)).fetchall() if anew else []
    (usual,) = connection.execute("PRAGMA cache_size").fetchone()
    connection.execute(f"PRAGMA cache_size = -{ROOM >> 10}")
    try:
        for name, _ in made:
            execute(f"DROP INDEX {name}")
        yield
        for _, sql in made:
            execute(sql)
    finally:
        connection.execute(f"PRAGMA cache_size = {usual}")
