"""Checks of one tenant's schema: what the migrations make is there, and can be read."""

from collections.abc import Iterator
from functools import cache
from itertools import islice
from secrets import token_hex

from crm.storage.file_errors import ServerError, describe
from crm.storage.postgres import schema
from crm.storage.postgres.catalog_queries import query
from crm.storage.postgres.connections import Database
from crm.storage.postgres.pipeline import PipelineConnection
from crm.storage.sqlite import migrations
from crm.storage.sqlite.archive import quoted

MAX_FAULTS = 3  # of one schema; after them the check stops
MAX_TEXT = 120  # of one missing object
OBJECTS = query("objects")
TABLES = query("tables")


def check(database: Database, label: str, full: bool) -> tuple[int, list[str]]:
    """Return the version of a tenant's schema, and what is wrong with it if it is up to date.

    Raises UnknownTenant, ServerError.
    """
    name, version = schema.find(database, label)
    if version != len(migrations.STEPS):
        return version, []
    return version, list(find_faults(database, name, expected_objects(database), full))


@cache
def expected_objects(database: Database) -> frozenset[str]:
    """Return what a new schema has: one is made in a transaction, which is rolled back."""
    name = f"doctor_{token_hex(4)}"
    with database.taken() as connection:
        connection.run("BEGIN")
        schema.create_tables(connection, name)
        objects = _objects(connection, name)
        connection.roll_back()
        return objects


def find_faults(
    database: Database, name: str, expected: frozenset[str], full: bool
) -> Iterator[str]:
    """Yield what is wrong with an up to date schema, MAX_FAULTS at most.

    Objects that the migrations do not make, such as an operator's own index, are no fault. `full`:
    every table is read. Indexes are for PostgreSQL's own pg_amcheck.
    """
    with schema.writing(database) as connection:
        missing = sorted(expected - _objects(connection, name))
    missing.sort(key=lambda text: not text.startswith("table "))
    for text in missing[:MAX_FAULTS]:
        yield f"it lacks the {text[:MAX_TEXT]}"
    if full and not missing:
        yield from islice(_read_all(database, name), MAX_FAULTS)


def _read_all(database: Database, name: str) -> Iterator[str]:
    for (table,) in schema.read(database, TABLES, (quoted(name),)):
        sql = f"SELECT sum(length(CAST(t AS text))) FROM {quoted(name)}.{quoted(table)} t"
        try:
            schema.read(database, sql)
        except ServerError as error:
            yield f"{table}: {describe(error)}"


def _objects(connection: PipelineConnection, name: str) -> frozenset[str]:
    schema.select_schema(connection, name)
    return frozenset(text for (text,) in connection.run(OBJECTS, (quoted(name), name)))
