"""Schemas in a PostgreSQL database: the shared one, and one for each tenant.

A tenant's schema has the tables that the migrations give a tenant's file, translated.
"""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from importlib import resources
from typing import Any

from crm.errors import Busy
from crm.tenancy import migrations
from crm.tenancy.disk import ABANDONED_AFTER_SECONDS
from crm.tenancy.engines import requirements, roles
from crm.tenancy.engines.names import quoted
from crm.tenancy.engines.postgres import Connection, ConnectionLost, CursorConnection, Database
from crm.tenancy.engines.translate_migrations import translate_step
from crm.tenancy.file_errors import ServerError

MAX_NAME_BYTES = 63  # of an identifier
SHARED_LOCK = 7273  # of changes of the shared schema and of the directory
NO_TENANT, OTHER_VERSION = "CRM01", "CRM02"  # SQLSTATEs that shared.sql raises


def schema_name(label: str) -> str:
    """Return the name of a tenant's schema; a label of over 61 characters is shortened."""
    name = f"t_{label}"
    if len(name) <= MAX_NAME_BYTES:
        return name
    return f"{name[: MAX_NAME_BYTES - 9]}_{hashlib.sha256(label.encode()).hexdigest()[:8]}"


@contextmanager
def writing(database: Database) -> Iterator[Connection]:
    """Run statements in one transaction of no tenant, on a connection from the pool."""
    connection = database.take()
    try:
        connection.run("BEGIN")
        yield connection
        commit(connection)
    finally:
        database.give(connection)  # which closes it inside a transaction


def commit(connection: Connection) -> None:
    """Commit a transaction. Raises ServerError if it was rolled back instead."""
    connection.send("COMMIT")
    if connection.receive()[-1].command_status != b"COMMIT":
        raise ServerError("the transaction was rolled back", "25P02")


def read(database: Database, sql: str, params: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
    """Return the rows of a query of no tenant, in PostgreSQL's dialect."""
    connection = database.take()
    try:
        return connection.run(sql, params)
    finally:
        database.give(connection)


def exists(database: Database, label: str) -> bool:
    """Whether a tenant, or a draft, of that label has its schema in the database."""
    return bool(read(database, "SELECT 1 FROM crm.tenant WHERE label = $1", (label,)))


@cache
def shared_sql() -> str:
    """Return the statements that make the shared schema; they may be run again."""
    return resources.files(__package__).joinpath("shared.sql").read_text("utf-8")


def shared_version() -> bytes:
    """Return the version of the shared schema that this code makes: its number and a digest."""
    text = shared_sql()
    number = int(text.split(None, 3)[2].rstrip("."))  # of the first line: -- Version 1.
    return b"%04d:%s" % (number, hashlib.sha256(text.encode()).hexdigest()[:16].encode())


def is_up_to_date(installed: bytes | None) -> bool:
    """Whether a shared schema of this version is what the code needs.

    That of a newer release is: nodes of both run side by side during an upgrade.
    """
    own = shared_version()
    return installed is not None and (installed == own or installed[:5] > own[:5])


def prepare_database(database: Database) -> None:
    """Make the shared schema of a database, or bring it up to date.

    Raises ConnectionLost, Unsuitable for a database that lacks what is needed, ServerError.
    """
    user = ""
    try:
        with database.connect() as connection:
            user = connection.info.user
            if not is_up_to_date(installed_version(connection)):
                _make_shared_schema(connection)
            # Each time: it may be restored into a database of another locale.
            requirements.require(requirements.find_missing_letters(connection))
    except ConnectionLost:
        raise
    except ServerError as error:
        raise requirements.explain(error, database, user) from None


def _make_shared_schema(connection: CursorConnection) -> None:
    requirements.require(requirements.find_missing(connection))
    with connection.transaction():
        connection.execute("SELECT pg_advisory_xact_lock(%s)", (SHARED_LOCK,))
        if is_up_to_date(installed_version(connection)):
            return
        connection.execute(shared_sql().encode())
        requirements.require(requirements.find_missing_letters(connection))
        connection.execute(
            "INSERT INTO crm.setting (name, value) VALUES ('shared_version', %s)"
            " ON CONFLICT (name) DO UPDATE SET value = excluded.value",
            (shared_version(),),
        )


def installed_version(connection: CursorConnection) -> bytes | None:
    """Return the version of the shared schema of a database; None if it has none."""
    exists = connection.execute("SELECT to_regclass('crm.setting') IS NOT NULL").fetchone()
    if exists is None or not exists[0]:
        return None
    row = connection.execute("SELECT value FROM crm.setting WHERE name = 'shared_version'")
    value = row.fetchone()
    return value[0] if value else None


def step_statements(number: int) -> tuple[str, ...]:
    """Return the statements of a migration's step in PostgreSQL's dialect; steps begin at 1."""
    return _translated(tuple(migrations.STEPS[number - 1][1]))


@cache
def _translated(statements: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(translate_step(statements))


@cache
def creating_statements(version: int) -> tuple[str, ...]:
    """Return the statements that create the tables of a version in PostgreSQL's dialect."""
    return tuple(translate_step(migrations.statements_of(version)))


def create(database: Database, label: str, schema: str, version: int | None = None) -> None:
    """Create a tenant's schema with all tables, of the newest version or of an older one.

    With a role of its own if the database makes roles.
    """
    version = len(migrations.STEPS) if version is None else version
    with writing(database) as connection:
        connection.send(f"CREATE SCHEMA {quoted(schema)}")
        connection.send("SELECT set_config('search_path', $1, true)", (quoted(schema),))
        for statement in creating_statements(version):
            connection.send_once(statement)
        connection.send(
            "INSERT INTO crm.tenant (label, schema, version) VALUES ($1, $2, $3)",
            (label, schema, version),
        )
        connection.receive()
        if database.makes_roles:
            roles.give(connection, label)


def run_step(connection: Connection, number: int) -> None:
    """Run a migration's step in the schema of the search path, inside a transaction."""
    for statement in step_statements(number):
        connection.send_once(statement)
    connection.receive()


def migrate(
    database: Database,
    label: str,
    name: str,
    wait_seconds: float,
    before: Callable[[int], object] = lambda version: None,
) -> int:
    """Bring a tenant's schema up to date in one transaction; returns the steps taken.

    So nobody else takes a step, or makes another copy, in between. `name` is what errors call it.
    `before` is called with the version before the first step, when nobody else writes.

    Raises NewerFile, NotUpgraded, Busy, ServerError.
    """
    with writing(database) as connection:
        lock(connection, label, wait_seconds)
        rows = connection.run("SELECT schema, version FROM crm.tenant WHERE label = $1", (label,))
        if not rows:
            raise ServerError("there is no such tenant", NO_TENANT)
        schema, version = rows[0]
        if version > len(migrations.STEPS):
            raise migrations.newer(name, version, "schema")
        if version < len(migrations.STEPS):
            before(version)
            connection.run("SELECT set_config('search_path', $1, true)", (quoted(schema),))
            for number in range(version + 1, len(migrations.STEPS) + 1):
                run_step(connection, number)
            connection.run(
                "UPDATE crm.tenant SET version = $2 WHERE label = $1",
                (label, len(migrations.STEPS)),
            )
        if roles.is_missing(connection, label, database.makes_roles):
            roles.give(connection, label)
    return len(migrations.STEPS) - version


def lock(connection: Connection, label: str, wait_seconds: float) -> None:
    """Take a tenant's writer lock until the end of the transaction. Raises Busy."""
    try:
        connection.run("SELECT crm.lock_tenant($1, $2)", (label, int(wait_seconds * 1000)))
    except ServerError as error:
        raise (Busy() if error.sqlstate == "55P03" else error) from error


def end_stalled(database: Database, label: str) -> None:
    """End the transaction that has a tenant's writer lock if its node stopped a minute ago."""
    with suppress(Busy, ServerError):  # such as of another user's transaction
        read(database, "SELECT crm.end_stalled($1)", (label,))


def lock_directory(connection: Connection) -> None:
    """Take the lock of the directory until the end of the transaction."""
    connection.run("SELECT pg_advisory_xact_lock($1)", (SHARED_LOCK,))


def drop(connection: Connection, label: str) -> None:
    """Drop a tenant's schema, its role and all that its database keeps of it, in a transaction."""
    rows = connection.run(
        "DELETE FROM crm.tenant WHERE label = $1 RETURNING schema, role", (label,)
    )
    for schema, role in rows:
        connection.send_once(f"DROP SCHEMA IF EXISTS {quoted(schema)} CASCADE")
        connection.receive()
        if role is not None:
            roles.drop(connection, role)
    connection.run("DELETE FROM crm.due WHERE label = $1", (label,))
    connection.run("DELETE FROM crm.upload WHERE label = $1", (label,))


def drop_abandoned(database: Database) -> None:
    """Drop the drafts that processes left which died, and what was not dropped when replaced."""
    rows = read(
        database,
        "SELECT label FROM crm.tenant WHERE (label LIKE '.new-%' OR label LIKE '.old-%')"
        " AND created_at < now() - make_interval(secs => $1)",
        (ABANDONED_AFTER_SECONDS,),
    )
    for (label,) in rows:
        with writing(database) as connection:
            drop(connection, label)


def rename(connection: Connection, label: str, new_label: str, new_schema: str) -> None:
    """Give a tenant's schema another label and name, inside a transaction."""
    ((schema,),) = connection.run("SELECT schema FROM crm.tenant WHERE label = $1", (label,))
    connection.send_once(f"ALTER SCHEMA {quoted(schema)} RENAME TO {quoted(new_schema)}")
    connection.run(
        "UPDATE crm.tenant SET label = $2, schema = $3 WHERE label = $1",
        (label, new_label, new_schema),
    )
    connection.run("DELETE FROM crm.due WHERE label = $1", (label,))
    if not new_label.startswith("."):  # it may have come with pending deliveries
        connection.run("SELECT crm.note_due($1, 0)", (new_label,))
