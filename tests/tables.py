"""What a tenant's tables hold, read beside the application, on either engine.

Tests that read a row take `read_rows`; only tests of the files themselves open them.
"""

import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crm import CRMApp
from crm.installation.tenants import Tenants
from crm.storage import search_index
from crm.storage.session import current_session, rows, write_archive
from tests.installations import environ_for, on_postgres

if TYPE_CHECKING:
    import psycopg

Tables = dict[str, list[dict[str, Any]]]

SQLITE_TABLES = (
    "SELECT name FROM pragma_table_list WHERE schema = 'main' AND name <> 'sqlite_schema'"
    " AND type IN ('table', 'shadow') ORDER BY name"
)
SQLITE_SEARCH_INDEXES = "SELECT name FROM pragma_table_list WHERE type = 'virtual'"
POSTGRES_TABLES = (
    "SELECT table_name FROM information_schema.tables WHERE table_schema = current_schema()"
    " AND table_type = 'BASE TABLE' ORDER BY table_name"
)
POSTGRES_SEQUENCES = (
    "SELECT sequencename AS name, last_value AS seq FROM pg_sequences"
    " WHERE schemaname = current_schema() ORDER BY sequencename"
)
TRACED_METHODS = ("execute", "insert", "executemany")
SEQUENCES = "sqlite_sequence"  # the ids given last; PostgreSQL's go on after a rollback


def read_rows(tenants: Tenants, label: str, sql: str, *parameters: Any) -> list[tuple]:
    """Read from a tenant in a session of its own; the SQL is SQLite's, on both engines."""
    with tenants.session(label, sweeps_expired=False):
        return rows(sql, parameters)


def lead_names(crm: CRMApp, label: str = "acme") -> list[str]:
    """The names of a tenant's leads in the order of their ids."""
    return [name for (name,) in read_rows(crm.tenants, label, "SELECT name FROM lead ORDER BY id")]


def read_tables(tenants: Tenants, label: str) -> Tables:
    """Return every row of every table by columns, in the order of the first one.

    With SQLite the tables of the search indexes and SEQUENCES are among them.
    """
    if on_postgres():
        return _read_postgres_tables(tenants, label)
    with closing(sqlite3.connect(tenants.path(label))) as file:
        file.row_factory = sqlite3.Row
        names = [name for (name,) in file.execute(SQLITE_TABLES)]
        return {
            name: list(map(dict, file.execute(f'SELECT * FROM "{name}" ORDER BY 1')))
            for name in names
        }


def read_records(tenants: Tenants, label: str) -> Tables:
    """Return every row of every table but those that the engine keeps for itself."""
    return {
        name: result
        for name, result in read_tables(tenants, label).items()
        if "search" not in name and "sequence" not in name
    }


@contextmanager
def traced_statements() -> Iterator[list[str]]:
    """Collect the statements of the current session, in SQLite's spelling on both engines.

    With SQLite BEGIN and COMMIT are among them.
    """
    statements: list[str] = []
    connection: Any = current_session().connection
    if on_postgres():
        # It sends statements by these methods; a transaction begins and ends by others.
        for name in TRACED_METHODS:
            method = getattr(connection, name)
            setattr(connection, name, _tracing(method, statements))
    else:
        connection.set_trace_callback(statements.append)
    try:
        yield statements
    finally:
        if on_postgres():
            for name in TRACED_METHODS:
                delattr(connection, name)  # the class's own again
        else:
            connection.set_trace_callback(None)


def _tracing(method: Callable[..., Any], statements: list[str]) -> Callable[..., Any]:
    def execute(sql: str, *arguments: Any, **options: Any) -> Any:
        statements.append(sql)
        return method(sql, *arguments, **options)

    return execute


def file_of(tenants: Tenants, label: str) -> Path:
    """Return a SQLite file with all that a tenant has, which may be read and not changed.

    It is the tenant's own, or on PostgreSQL a copy of this moment in the data folder.
    """
    if not on_postgres():
        return tenants.path(label)
    copy = tenants.config.data / f"tables-{label}-{time.time_ns()}.db"
    with tenants.session(label, sweeps_expired=False):
        write_archive(copy)
    return copy


def start_ids_after(tenants: Tenants, label: str, number: int) -> None:
    """Let the next ids of all tables that have rows already be above a number.

    Nobody else may have the tenant open.
    """
    if on_postgres():
        with _connect_postgres(tenants, label) as connection:
            for sequence in connection.execute(POSTGRES_SEQUENCES).fetchall():
                connection.execute(
                    "SELECT setval(quote_ident(%s)::regclass, %s)", (sequence["name"], number)
                )
        return
    with closing(sqlite3.connect(tenants.path(label))) as file, file:
        file.execute(f"UPDATE {SEQUENCES} SET seq = ?", (number,))


def check_search_index(file: sqlite3.Connection, table: str) -> None:
    """Have FTS5 compare a search index with its table; raises sqlite3.DatabaseError if they differ.

    The rows that are not in it yet are added for the comparison.
    """
    file.execute("SAVEPOINT comparison")
    try:
        for statement in search_index.add_new_statements(table):
            file.execute(statement)
        check = f"INSERT INTO {table}_search ({table}_search, rank) VALUES ('integrity-check', 1)"
        file.execute(check)
    finally:
        file.execute("ROLLBACK TO comparison")
        file.execute("RELEASE comparison")


def assert_whole(tenants: Tenants, label: str) -> None:
    """Assert that the engine finds no fault in a tenant.

    With PostgreSQL there is nothing to look for: foreign keys and indexes are valid by themselves.
    """
    if not on_postgres():
        with closing(sqlite3.connect(tenants.path(label))) as file:
            assert file.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
            assert file.execute("PRAGMA foreign_key_check").fetchall() == []
            for (name,) in file.execute(SQLITE_SEARCH_INDEXES).fetchall():
                file.execute(f"INSERT INTO {name} ({name}) VALUES ('integrity-check')")


def _connect_postgres(tenants: Tenants, label: str) -> "psycopg.Connection[dict[str, Any]]":
    import psycopg
    from psycopg.rows import dict_row

    url = environ_for(tenants.config.data)["CRM_DATABASE"]
    connection = psycopg.connect(url, row_factory=dict_row)
    try:
        connection.execute(
            "SELECT set_config('search_path', quote_ident(%s), false)", [f"t_{label}"]
        )
        (row,) = connection.execute("SELECT current_schema() AS name").fetchall()
        assert row["name"], f"there is no schema of {label}"
    except BaseException:
        connection.close()
        raise
    return connection


def _read_postgres_tables(tenants: Tenants, label: str) -> Tables:
    from psycopg import sql

    with _connect_postgres(tenants, label) as connection:
        tables: Tables = {}
        for row in connection.execute(POSTGRES_TABLES).fetchall():
            query = sql.SQL("SELECT * FROM {} AS t ORDER BY t::text")
            result = connection.execute(query.format(sql.Identifier(row["table_name"]))).fetchall()
            tables[row["table_name"]] = sorted(result, key=_first_column)
    return tables


def _first_column(row: dict[str, Any]) -> tuple[bool, Any]:
    value = next(iter(row.values()))
    return value is not None, value
