"""A schema in PostgreSQL and the portable archive of its tenant: writing one, loading one."""

from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from crm.storage.file_errors import ServerError
from crm.storage.postgres import schema
from crm.storage.postgres.catalog_queries import query
from crm.storage.postgres.connections import CursorConnection, Database
from crm.storage.sqlite import archive, migrations
from crm.storage.sqlite.archive import Table
from crm.storage.sqlite.archive_file import BadCopy, open_copy

TYPES = {"INTEGER": "int8", "TEXT": "text", "BLOB": "bytea", "REAL": "float8"}
VIOLATION = "23"  # class of the SQLSTATEs of rows that a constraint does not allow
ANALYZED_ROWS = 500  # of a table from which the planner needs to know more than its size
TENANT = "SELECT schema, version FROM crm.tenant WHERE label = %s"
SEQUENCES = query("sequences")
FOREIGN_KEYS = query("foreign_keys")


class Snapshot:
    """A tenant's schema as of one moment."""

    def __init__(self, connection: CursorConnection, version: int):
        self._connection, self.version = connection, version

    def rows(self, table: Table) -> Iterator[tuple[Any, ...]]:
        """Yield the rows of a table, of which few are in memory."""
        query = f"SELECT {archive.column_list(table)} FROM {archive.quoted(table.name)}"
        copy_query = f"COPY ({query}) TO STDOUT (FORMAT binary)".encode()
        with self._connection.cursor().copy(copy_query) as copy:
            copy.set_types([TYPES[name] for name in table.types])
            yield from copy.rows()

    def numbers(self) -> dict[str, int]:
        """Return the last number that each table has given, also in transactions not committed."""
        last_numbers = {table: last for table, _, last in self._connection.read(SEQUENCES)}
        ((last,),) = self._connection.read("SELECT crm.last_sequence()")
        last_numbers["event"] = last
        return {table: last for table, last in last_numbers.items() if last}


@contextmanager
def snapshot(database: Database, label: str) -> Iterator[Snapshot]:
    """Read a tenant, or a draft, as of one moment in a `with` block.

    Raises ServerError (`schema.NO_TENANT`), NewerFile.
    """
    with database.connect() as connection:  # those of the pool cannot COPY in pipeline mode
        connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        try:
            yield Snapshot(connection, _select(connection, label))
        except BaseException:
            connection.close()  # a ROLLBACK would wait for the rows of an unfinished COPY
            raise


def _select(connection: CursorConnection, label: str) -> int:
    """Select a tenant's schema for the rest of the transaction, and return its version."""
    rows = connection.read(TENANT, label)
    if not rows:
        raise ServerError("there is no such tenant", schema.NO_TENANT)
    ((name, version),) = rows
    if version > len(migrations.STEPS):
        raise migrations.newer(label, version)
    connection.read("SELECT set_config('search_path', %s, true)", archive.quoted(name))
    return version


def write(database: Database, label: str, to: Path) -> None:
    """Write a tenant's archive of the version that its schema has.

    Nobody waits for it. Raises BadCopy, NewerFile, ServerError, or what SQLite and the disk say.
    """
    with snapshot(database, label) as source, archive.writing(to, source.version) as file:
        for table in archive.tables(file):
            archive.fill(file, table, source.rows(table))
        archive.continue_numbers(file, source.numbers())


def load(database: Database, label: str, name: str, path: Path) -> None:
    """Create the draft `label`, a schema of this name, from an archive of the newest version.

    Raises BadCopy for rows that the schema does not allow, ServerError.
    """
    schema.create(database, label, name)
    try:
        with (
            closing(open_copy(path)) as file,
            database.connect() as connection,
            connection.transaction(),
        ):
            _select(connection, label)
            _fill(connection, file)
    except ServerError as error:
        if error.sqlstate.startswith(VIOLATION):
            raise BadCopy(f"the archive cannot be loaded: {error}") from error
        raise


def _fill(connection: CursorConnection, file: Any) -> None:
    """Fill empty tables from an open archive."""
    # Tables refer to each other in circles. Making the indexes later too takes as long.
    later = []
    for table, constraint, definition in connection.read(FOREIGN_KEYS):
        alter, key = f"ALTER TABLE {archive.quoted(table)}", archive.quoted(constraint)
        connection.execute(f"{alter} DROP CONSTRAINT {key}".encode())
        later.append(f"{alter} ADD CONSTRAINT {key} {definition}")
    for table in archive.tables(file):
        name, count = archive.quoted(table.name), 0
        into = f"COPY {name} ({archive.column_list(table)}) FROM STDIN (FORMAT binary)"
        with connection.cursor().copy(into.encode()) as copy:
            copy.set_types([TYPES[type_name] for type_name in table.types])
            for row in archive.rows(file, table):
                copy.write_row(row)
                count += 1
        if count >= ANALYZED_ROWS:
            later.append(f"ANALYZE {name}")
    for statement in later:
        connection.execute(statement.encode())
    _set_numbers(connection, archive.numbers(file))


def continue_numbers(database: Database, label: str, given: Mapping[str, int]) -> None:
    """Let a draft give no number again that the tenant has given before."""
    with database.connect() as connection, connection.transaction():
        _select(connection, label)
        _set_numbers(connection, given)


def _set_numbers(connection: CursorConnection, given: Mapping[str, int]) -> None:
    """Let new ids follow those given, where they do not do so already."""
    for table, sequence, last in connection.read(SEQUENCES):
        if (number := given.get(table, 0)) > last:
            connection.read("SELECT setval(CAST(%s AS regclass), %s)", sequence, number)
    update = "UPDATE event_sequence SET last = greatest(last, %s)"
    connection.execute(update, (given.get("event", 0),))
