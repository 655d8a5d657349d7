"""Schemas in a PostgreSQL database: the shared one, and one for each tenant.

A tenant's schema has the tables that the migrations give a tenant's file, and its version. They are
in tables.sql in PostgreSQL's dialect, and so is each step since the first version that had schemas;
`python -m tests.generated` translates them.
"""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from crm.errors import Busy, UnknownTenant
from crm.storage.commit_groups import MAX_LOCK_WAIT_SECONDS
from crm.storage.disk import ABANDONED_AFTER_SECONDS
from crm.storage.file_errors import ServerError
from crm.storage.postgres.catalog_queries import parts_of
from crm.storage.postgres.connections import Database
from crm.storage.postgres.pipeline import PipelineConnection
from crm.storage.sqlite import migrations
from crm.storage.sqlite.archive import quoted  # labels may have hyphens

MAX_NAME_BYTES = 63  # of an identifier
NO_TENANT, OTHER_VERSION = "CRM01", "CRM02"  # SQLSTATEs that shared.sql raises
NO_TABLE = "42P01"
TABLES = "all tables"  # in tables.sql
SCHEMA_OF = "SELECT schema, version FROM crm.tenant WHERE label = $1"


def schema_name(label: str) -> str:
    """Return the name of a tenant's schema; a label of over 61 characters is shortened."""
    name = f"t_{label}"
    if len(name) <= MAX_NAME_BYTES:
        return name
    return f"{name[: MAX_NAME_BYTES - 9]}_{hashlib.sha256(label.encode()).hexdigest()[:8]}"


@contextmanager
def writing(database: Database) -> Iterator[PipelineConnection]:
    """Run statements in one transaction of no tenant, on a connection from the pool."""
    with database.taken() as connection:  # it is closed if the transaction has not ended
        connection.run("BEGIN")
        yield connection
        connection.commit_transaction()


def read(database: Database, sql: str, params: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
    """Return the rows of a query of no tenant, in PostgreSQL's dialect."""
    with database.taken() as connection:
        return connection.run(sql, params)


def find(database: Database, label: str) -> tuple[str, int]:
    """Return the name and the version of a tenant's schema. Raises UnknownTenant."""
    rows = read(database, SCHEMA_OF, (label,))
    if not rows:
        raise UnknownTenant
    return rows[0][0], rows[0][1]


def statements_of(step: str) -> list[str]:
    """Return the statements of a step; of TABLES, those that create the newest version."""
    return parts_of("tables.sql")[step].split(";\n")[:-1]


def create(database: Database, label: str, schema: str) -> None:
    """Create a tenant's schema with all tables."""
    with writing(database) as connection:
        create_tables(connection, schema)
        sql = "INSERT INTO crm.tenant (label, schema, version) VALUES ($1, $2, $3)"
        connection.run(sql, (label, schema, len(migrations.STEPS)))


def create_tables(connection: PipelineConnection, schema: str) -> None:
    """Create a schema with all tables, inside a transaction; nothing is awaited."""
    connection.send(f"CREATE SCHEMA {quoted(schema)}")
    select_schema(connection, schema)
    for statement in statements_of(TABLES):
        connection.send(statement)


def select_schema(connection: PipelineConnection, name: str) -> None:
    """Select a schema for the rest of the transaction; nothing is awaited."""
    connection.send("SELECT set_config('search_path', $1, true)", (quoted(name),))


def migrate(
    database: Database, label: str, before: Callable[[int], object] = lambda version: None
) -> int:
    """Bring a tenant's schema up to date in one transaction; returns the version that it had.

    So nobody else takes a step, or makes another copy, in between. `before` is called with that
    version before the first step, when nobody else writes.

    Raises UnknownTenant, NewerFile, NotUpgraded, Busy, ServerError.
    """
    newest = len(migrations.STEPS)
    with writing(database) as connection:
        lock(connection, label)
        rows = connection.run(SCHEMA_OF, (label,))
        if not rows:
            raise UnknownTenant
        schema, version = rows[0]
        if version > newest:
            raise migrations.newer(label, version, "schema")
        if version < newest:
            before(version)
            select_schema(connection, schema)
            for step, _ in migrations.STEPS[version:]:
                for statement in statements_of(step):
                    connection.send(statement)
            connection.run("UPDATE crm.tenant SET version = $2 WHERE label = $1", (label, newest))
    return version


def lock(connection: PipelineConnection, label: str) -> None:
    """Take a tenant's writer lock until the end of the transaction. Raises Busy."""
    try:
        milliseconds = int(MAX_LOCK_WAIT_SECONDS * 1000)
        connection.run("SELECT crm.lock_tenant($1, $2)", (label, milliseconds))
    except ServerError as error:
        raise (Busy() if error.sqlstate == "55P03" else error) from error


def drop(connection: PipelineConnection, label: str) -> None:
    """Drop a tenant's schema and all that its database keeps of it, in a transaction."""
    sql = "DELETE FROM crm.tenant WHERE label = $1 RETURNING schema"
    for (schema,) in connection.run(sql, (label,)):
        connection.run(f"DROP SCHEMA IF EXISTS {quoted(schema)} CASCADE")
    connection.run("DELETE FROM crm.due WHERE label = $1", (label,))
    connection.run("DELETE FROM crm.upload WHERE label = $1", (label,))


def drop_abandoned(database: Database) -> None:
    """Drop the drafts that processes left which died, and what was not dropped when replaced."""
    sql = """
        SELECT label FROM crm.tenant WHERE (label LIKE '.new-%' OR label LIKE '.old-%')
            AND created_at < now() - make_interval(secs => $1)
    """
    for (label,) in read(database, sql, (ABANDONED_AFTER_SECONDS,)):
        with writing(database) as connection:
            drop(connection, label)


def rename(
    connection: PipelineConnection, label: str, new_label: str, new_schema: str = ""
) -> None:
    """Give a tenant's schema another label, and another name if there is one, in a transaction."""
    ((schema,),) = connection.run("SELECT schema FROM crm.tenant WHERE label = $1", (label,))
    new_schema = new_schema or schema
    if schema != new_schema:
        connection.send(f"ALTER SCHEMA {quoted(schema)} RENAME TO {quoted(new_schema)}")
    sql = "UPDATE crm.tenant SET label = $2, schema = $3 WHERE label = $1"
    connection.run(sql, (label, new_label, new_schema))
    connection.run("DELETE FROM crm.due WHERE label = $1", (label,))
    if not new_label.startswith("."):  # it may have come with pending deliveries
        connection.run("SELECT crm.note_due($1, 0)", (new_label,))


def publish(connection: PipelineConnection, draft_label: str, label: str) -> None:
    """Give a draft the label of a tenant, and its schema the plain name if that is free."""
    name = schema_name(label)
    sql = "SELECT 1 FROM crm.tenant WHERE schema = $1 AND label <> $2"
    if connection.run(sql, (name, draft_label)):
        name = _unused_name(connection, draft_label, label)
    rename(connection, draft_label, label, name)


def replace(connection: PipelineConnection, label: str, old_label: str, draft_label: str) -> None:
    """Give a tenant's label to a draft, and the tenant another one.

    Both schemas have names of their own. A reader selects a schema by its name, and then reads:
    under the same name it would go on in another schema than the one that it has selected.
    """
    name = _unused_name(connection, draft_label, label)
    rename(connection, label, old_label)
    rename(connection, draft_label, label, name)


def _unused_name(connection: PipelineConnection, draft_label: str, label: str) -> str:
    """Return a name for the schema of a draft that no schema had before, nor gets again."""
    sql = "SELECT generation FROM crm.tenant WHERE label = $1"
    ((generation,),) = connection.run(sql, (draft_label,))
    return schema_name(f"{label}_{generation}")
