"""The portable archive of a tenant: its SQLite file, whatever engine the tenant lives in.

The archive of a tenant in a file is a copy of its pages. That of a tenant elsewhere is a new file,
made by the same migrations and filled row by row. Tables and columns are those that the file has.
"""

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from crm.storage import disk, search_index
from crm.storage.sqlite import migrations
from crm.storage.sqlite.archive_file import check_copy
from crm.storage.sqlite.connection import PAGE_BYTES

SKIPPED_NUMBERS = 1_000_000  # more than a table gives between two copies
SEARCH_SUFFIX = "_search"
FILE_TABLES = ("row_changes", "search_progress")


class Table(NamedTuple):
    """A table of an archive; `types` are those of its columns: INTEGER, TEXT, BLOB or REAL."""

    name: str
    columns: tuple[str, ...]
    types: tuple[str, ...]


def tables(file: sqlite3.Connection) -> list[Table]:
    """List the tables of an archive in which rows are stored, in alphabetical order.

    FILE_TABLES are about the file, not about the tenant.
    """
    names = file.execute(
        "SELECT name FROM pragma_table_list WHERE schema = 'main' AND type = 'table'"
        f" AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' AND name NOT IN {FILE_TABLES} ORDER BY name"
    ).fetchall()
    listing = []
    for (name,) in names:
        columns = file.execute(
            "SELECT name, type FROM pragma_table_info(?) ORDER BY cid", (name,)
        ).fetchall()
        listing.append(Table(name, *zip(*columns, strict=True)))
    return listing


def rows(file: sqlite3.Connection, table: Table) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of a table, one in memory at a time, with texts as other engines have them.

    PostgreSQL's texts have no character NUL; it is stored as U+FFFD there.
    """
    cursor = file.execute(f"SELECT {column_list(table)} FROM {quoted(table.name)}")
    with closing(cursor):
        for row in cursor:
            if any(type(value) is str and "\0" in value for value in row):
                row = tuple(
                    value.replace("\0", "\ufffd") if isinstance(value, str) else value
                    for value in row
                )
            yield row


def column_list(table: Table) -> str:
    """Return the columns of a table as SQL, for either engine."""
    return ", ".join(map(quoted, table.columns))


def quoted(name: str) -> str:
    """Return an identifier in quotes, for either engine."""
    return '"' + name.replace('"', '""') + '"'


def numbers(file: sqlite3.Connection) -> dict[str, int]:
    """Return the last number that each table of a file has given."""
    return dict(file.execute("SELECT name, seq FROM sqlite_sequence WHERE seq > 0").fetchall())


def continue_numbers(file: sqlite3.Connection, given: dict[str, int]) -> None:
    """Let new ids of a file follow those that each table has given, also to rows that are gone."""
    filled = dict(file.execute("SELECT name, seq FROM sqlite_sequence").fetchall())
    last = {name: max(given.get(name, 0), filled.get(name, 0)) for name in {*given, *filled}}
    file.execute("DELETE FROM sqlite_sequence")
    file.executemany("INSERT INTO sqlite_sequence (name, seq) VALUES (?, ?)", sorted(last.items()))


def skip_numbers(file: sqlite3.Connection) -> None:
    """Leave out numbers that each table may have given since the file was copied."""
    file.execute(
        "INSERT INTO sqlite_sequence (name, seq) SELECT name, 0 FROM sqlite_schema"
        " WHERE type = 'table' AND sql LIKE '%AUTOINCREMENT%'"
        " AND name NOT IN (SELECT name FROM sqlite_sequence)"
    )
    file.execute("UPDATE sqlite_sequence SET seq = seq + ?", (SKIPPED_NUMBERS,))


# Writing a new file


def fill(file: sqlite3.Connection, table: Table, values: Iterable[Sequence[Any]]) -> None:
    """Add rows to a table, with values in the order of its columns."""
    marks = ", ".join("?" * len(table.columns))
    file.executemany(
        f"INSERT INTO {quoted(table.name)} ({column_list(table)}) VALUES ({marks})", values
    )


@contextmanager
def writing(to: Path, version: int) -> Iterator[sqlite3.Connection]:
    """Make a file of this version of the data model, whose tables are filled in a `with` block.

    Then it is complete, checked and synced. Raises FileExistsError, BadCopy, or what SQLite and the
    disk say; what was written then stays for the caller to delete.
    """
    disk.make(to)
    with closing(sqlite3.connect(to, isolation_level=None)) as file:
        file.execute(f"PRAGMA page_size = {PAGE_BYTES}")
        file.execute("PRAGMA journal_mode = OFF")
        file.execute("PRAGMA synchronous = OFF")  # it is synced as a whole
        file.execute("PRAGMA foreign_keys = OFF")  # checked at the end
        migrations.migrate(file, to.name, version)
        # A trigger would change what is written. An index is made faster at once than row by row.
        later = file.execute(
            "SELECT type, name, sql FROM sqlite_schema"
            " WHERE type IN ('index', 'trigger') AND sql IS NOT NULL ORDER BY type, name"
        ).fetchall()
        file.execute("BEGIN")
        for kind, name, _ in later:
            file.execute(f"DROP {kind} {quoted(name)}")
        yield file
        for _, _, statement in later:
            file.execute(statement)
        # Search indexes as the migrations fill them: rows without a text are not in them.
        for (name,) in file.execute(
            "SELECT name FROM pragma_table_list WHERE schema = 'main' AND type = 'virtual'"
        ).fetchall():
            table = name.removesuffix(SEARCH_SUFFIX)
            file.execute(
                f"INSERT INTO {name} (rowid, search_text)"
                f" SELECT id, search_text FROM {table} WHERE search_text IS NOT NULL ORDER BY id"
            )
            file.execute(search_index.note_progress_statement(table))
        file.execute("COMMIT")
    check_copy(to)
    disk.sync(to)
