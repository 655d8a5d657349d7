"""A schema in PostgreSQL and the portable archive of its tenant: writing one, loading one."""

import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import psycopg
from psycopg import sql

from crm.errors import Busy
from crm.tenancy import archive, migrations
from crm.tenancy.archive import Digest, Table
from crm.tenancy.copies import BadCopy, open_copy
from crm.tenancy.engines import schema
from crm.tenancy.engines.postgres import Database
from crm.tenancy.file_errors import ServerError

PlainConnection = psycopg.Connection[Any]

TYPES = {"INTEGER": "int8", "TEXT": "text", "BLOB": "bytea", "REAL": "float8"}
VIOLATION = "23"  # class of the SQLSTATEs of rows that a constraint does not allow
ANALYZED_ROWS = 500  # of a table from which the planner needs to know more than its size
IDENTITY_COLUMNS = """
    SELECT c.relname, pg_get_serial_sequence(quote_ident(c.relname), a.attname)
    FROM pg_class AS c JOIN pg_attribute AS a ON a.attrelid = c.oid
    WHERE a.attidentity <> '' AND NOT a.attisdropped
        AND c.relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = current_schema())
"""
FOREIGN_KEYS = """
    SELECT c.relname, k.conname, pg_get_constraintdef(k.oid)
    FROM pg_constraint AS k JOIN pg_class AS c ON c.oid = k.conrelid
    WHERE k.contype = 'f'
        AND c.relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = current_schema())
    ORDER BY c.relname, k.conname
"""


class Snapshot:
    """A tenant's schema as of one moment."""

    def __init__(self, connection: PlainConnection, version: int):
        self._connection, self.version = connection, version

    def rows(self, table: Table) -> Iterator[tuple[Any, ...]]:
        """Yield the rows of a table, of which few are in memory."""
        query = f"SELECT {archive.column_list(table)} FROM {archive.quoted(table.name)}"
        with self._connection.cursor().copy(_text(f"COPY ({query}) TO STDOUT (FORMAT binary)")) as (
            copy
        ):
            copy.set_types([TYPES[name] for name in table.types])
            yield from copy.rows()

    def numbers(self) -> dict[str, int]:
        """Return the last number that each table has given, also in transactions not committed."""
        given = {}
        for table, sequence in self._connection.execute(IDENTITY_COLUMNS).fetchall():
            last = self._connection.execute(
                "SELECT pg_sequence_last_value(%s::regclass)", (sequence,)
            ).fetchone()
            if last and last[0]:
                given[table] = last[0]
        last = self._connection.execute("SELECT crm.last_sequence()").fetchone()
        if last and last[0]:
            given["event"] = last[0]
        return given

    def digests(self) -> dict[str, Digest]:
        """Return the digests of all tables, by name."""
        return {table.name: archive.digest(self.rows(table)) for table in _tables_of(self.version)}


@cache
def _tables_of(version: int) -> list[Table]:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as file:
        migrations.migrate(file, "", version)
        return archive.tables(file)


@contextmanager
def snapshot(database: Database, label: str) -> Iterator[Snapshot]:
    """Read a tenant, or a draft, as of one moment in a `with` block.

    Raises ServerError (`schema.NO_TENANT`), NewerFile.
    """
    with _connection(database) as connection:
        connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        row = connection.execute(
            "SELECT schema, version FROM crm.tenant WHERE label = %s", (label,)
        ).fetchone()
        if row is None:
            raise ServerError("there is no such tenant", schema.NO_TENANT)
        name, version = row
        if version > len(migrations.STEPS):
            raise migrations.newer(label, version)
        _use(connection, name)
        yield Snapshot(connection, version)


def write(database: Database, label: str, to: Path) -> None:
    """Write a tenant's archive of the version that its schema has.

    Nobody waits for it. Raises BadCopy, NewerFile, ServerError, or what SQLite and the disk say.
    """
    with snapshot(database, label) as source, archive.writing(to, source.version) as file:
        for table in file.tables:
            file.fill(table, source.rows(table))
        file.set_numbers(source.numbers())


def load(database: Database, label: str, name: str, path: Path) -> None:
    """Create the draft `label`, a schema of this name, from an archive of the newest version.

    Raises BadCopy for rows that the schema does not allow, ServerError.
    """
    schema.create(database, label, name)
    try:
        with (
            closing(open_copy(path)) as file,
            _connection(database) as connection,
            connection.transaction(),
        ):
            _use(connection, name)
            _fill(connection, file)
    except ServerError as error:
        if error.sqlstate.startswith(VIOLATION):
            raise BadCopy(f"the archive cannot be loaded: {error}") from error
        raise


def _fill(connection: PlainConnection, file: sqlite3.Connection) -> None:
    # Tables refer to each other in circles. Making the indexes later too takes as long.
    later = []
    for table, constraint, definition in connection.execute(FOREIGN_KEYS).fetchall():
        key = archive.quoted(constraint)
        alter = f"ALTER TABLE {archive.quoted(table)}"
        connection.execute(_text(f"{alter} DROP CONSTRAINT {key}"))
        later.append(f"{alter} ADD CONSTRAINT {key} {definition}")
    large = [table for table in archive.tables(file) if _copy(connection, file, table)]
    for statement in later:
        connection.execute(_text(statement))
    for table in large:
        connection.execute(_text(f"ANALYZE {archive.quoted(table.name)}"))
    _set_numbers(connection, {**_greatest(file), **archive.numbers(file)})


def _copy(connection: PlainConnection, file: sqlite3.Connection, table: Table) -> bool:
    """Copy the rows of a table; returns whether they are many."""
    count = 0
    into = f"{archive.quoted(table.name)} ({archive.column_list(table)})"
    with connection.cursor().copy(_text(f"COPY {into} FROM STDIN (FORMAT binary)")) as copy:
        copy.set_types([TYPES[name] for name in table.types])
        for row in archive.rows(file, table):
            copy.write_row(row)
            count += 1
    return count >= ANALYZED_ROWS


def _greatest(file: sqlite3.Connection) -> dict[str, int]:
    greatest = {}
    for table in archive.tables(file):
        if table.counted:
            query = f"SELECT max({archive.quoted(table.counted)}) FROM {archive.quoted(table.name)}"
            (number,) = file.execute(query).fetchone()
            if number:
                greatest[table.name] = number
    return greatest


def continue_numbers(database: Database, label: str, given: Mapping[str, int]) -> None:
    """Let a draft give no number again that the tenant has given before."""
    with _connection(database) as connection, connection.transaction():
        row = connection.execute(
            "SELECT schema FROM crm.tenant WHERE label = %s", (label,)
        ).fetchone()
        assert row is not None, label
        _use(connection, row[0])
        _set_numbers(connection, given)


def _set_numbers(connection: PlainConnection, given: Mapping[str, int]) -> None:
    """Let new ids follow those given, where they do not do so already."""
    for table, sequence in connection.execute(IDENTITY_COLUMNS).fetchall():
        if number := given.get(migrations.RENAMED_TABLES.get(table, table)):
            connection.execute(
                "SELECT setval(%(sequence)s::regclass, greatest(%(number)s::bigint,"
                " coalesce(pg_sequence_last_value(%(sequence)s::regclass), 0)))",
                {"sequence": sequence, "number": number},
            )
    connection.execute(
        "UPDATE event_sequence SET last = greatest(last, %s)", (given.get("event", 0),)
    )


@contextmanager
def _connection(database: Database) -> Iterator[PlainConnection]:
    """Use a connection of its own: those of the pool are in pipeline mode, which has no COPY.

    Raises ServerError, Busy.
    """
    try:
        with database.connect() as connection:
            yield connection
    except psycopg.Error as error:
        if error.sqlstate == "55P03":
            raise Busy from error
        # The detail of an error may have values of a row.
        message = error.diag.message_primary or str(error).strip().partition("\n")[0]
        raise ServerError(message, error.sqlstate or "08006") from error


def _use(connection: PlainConnection, name: str) -> None:
    connection.execute("SELECT set_config('search_path', %s, true)", (schema.quoted(name),))


def _text(statement: str) -> sql.SQL:
    return sql.SQL(statement)
