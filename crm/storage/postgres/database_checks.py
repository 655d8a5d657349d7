"""Checks of the databases of CRM_DATABASE and of the directory for `doctor`: they change nothing.

A check yields pairs of a level (OK, WARNING, FAULT) and a sentence.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any

from psycopg.conninfo import conninfo_to_dict

from crm.storage.file_errors import ServerError, describe
from crm.storage.postgres import shared_schema
from crm.storage.postgres.catalog_queries import query
from crm.storage.postgres.connections import CursorConnection, Database
from crm.storage.postgres.directory import MAX_TENANTS_PER_DATABASE, Directory
from crm.timed_checks import FAULT, OK, WARNING, LevelAndDetail, list_names

# A check of `doctor`: its name, and a function.
DatabaseCheck = tuple[str, Callable[[], Iterable[LevelAndDetail]]]
NEARLY_FULL_SHARE = 0.9  # of the tenants that a database may have
SERVER = query("server")
UNKNOWN_SCHEMAS = query("unknown_schemas")
DIRECTORY = "SELECT label, database FROM crm.directory"
PUBLISHED = "SELECT label FROM crm.tenant WHERE label NOT LIKE '.%' AND label <> '_front'"


def checks_of(directory: Directory) -> Iterator[DatabaseCheck]:
    """Yield the checks of all databases and the directory: the name of each, and a function."""
    for database in directory.databases:
        connections = directory.config.database_connections
        yield "database", partial(check_database, database, connections)
    yield "directory", partial(check_directory, directory)


def check_database(database: Database, max_connections: int) -> Iterator[LevelAndDetail]:
    """Check one database: its server, its settings, its shared schema and its tenants' schemas.

    `max_connections`: of each process.
    """
    try:
        with database.connect() as connection:
            installed = shared_schema.installed_version(connection)
            yield from _check_server(database, connection, max_connections, installed is not None)
            yield from _check_shared_schema(connection, installed)
            if installed is not None:
                yield from _check_tenants(connection, database.makes_roles)
    except ServerError as error:
        yield FAULT, describe(error)


def _check_server(
    database: Database, connection: CursorConnection, max_connections: int, is_installed: bool
) -> Iterator[LevelAndDetail]:
    ((version, user, pid, is_standby, read_only, *row),) = connection.read(SERVER)
    fsync, pages, commits, places, ctype, may_create = row
    parts = conninfo_to_dict(database.address)
    server = f"{parts.get('host', 'a local socket')}:{parts.get('port', 5432)}"
    yield OK, f"PostgreSQL {version}, {database.name} at {server} as {user}"
    if is_standby or read_only == "on":
        what = "it is a standby" if is_standby else "default_transaction_read_only is on"
        yield FAULT, f"{what}: requests that change something get 503"
    values = {"fsync": fsync, "full_page_writes": pages}
    if off := [name for name, value in values.items() if value == "off"]:
        yield WARNING, f"{' and '.join(off)} off: a power cut may damage the whole database"
    if commits == "off":
        yield WARNING, "synchronous_commit is off: a crash loses the last acknowledged changes"
    if pid != connection.pgconn.backend_pid:
        effect = "statements are not kept prepared, and nothing is heard by LISTEN"
        yield OK, f"a pooler such as PgBouncer is between: {effect}"
    processes = places // max_connections
    text = (
        f"it takes {places} connections, a process up to {max_connections}"
        f" (CRM_DATABASE_CONNECTIONS): {processes} processes on all machines"
    )
    yield (OK if processes > 1 else WARNING), text
    if not is_installed and ctype in ("C", "POSIX"):
        yield FAULT, shared_schema.NO_LETTERS
    if not is_installed and not may_create:
        error = ServerError("its user may create no schema", "42501")
        yield FAULT, str(shared_schema.explain(error, database, user))


def _check_shared_schema(
    connection: CursorConnection, installed: bytes | None
) -> Iterator[LevelAndDetail]:
    for missing in shared_schema.find_missing(connection, installed is not None):
        yield FAULT, missing
    if installed is None:
        yield WARNING, "the shared schema is not there yet; `serve` makes it"
    elif installed == shared_schema.shared_version():
        yield OK, f"the shared schema has version {int(installed[:4])}"
    elif shared_schema.is_up_to_date(installed):
        yield OK, f"the shared schema is of a newer release, version {int(installed[:4])}"
    else:
        yield WARNING, "the shared schema is of an older release: restart the server"


def _check_tenants(connection: CursorConnection, makes_roles: bool) -> Iterator[LevelAndDetail]:
    ((count,),) = connection.read("SELECT count(*) FROM crm.tenant")
    text = f"{count} of {MAX_TENANTS_PER_DATABASE} schemas"
    if count >= MAX_TENANTS_PER_DATABASE * NEARLY_FULL_SHARE:
        yield WARNING, f"{text}: add a database to CRM_DATABASE for new tenants"
    else:
        yield OK, text

    def labels(condition: str) -> list[str]:
        return _names(connection, f"SELECT label FROM crm.tenant WHERE {condition} ORDER BY label")

    if lost := labels("NOT EXISTS (SELECT 1 FROM pg_namespace WHERE nspname = schema)"):
        yield FAULT, f"the schemas of {list_names(lost)} are gone: restore copies"
    if unknown := _names(connection, UNKNOWN_SCHEMAS):
        yield WARNING, f"schemas of no tenant: {list_names(unknown)}; DROP SCHEMA … CASCADE"
    if drafts := labels("label LIKE '.new-%' AND created_at < now() - interval '1 day'"):
        text = f"{len(drafts)} drafts are older than a day, left by processes that ended"
        advice = "DROP SCHEMA … CASCADE, and DELETE FROM crm.tenant"
        yield WARNING, f"{text}: {list_names(drafts)}; {advice}"
    if lost := labels("role NOT IN (SELECT rolname FROM pg_roles)"):
        yield FAULT, f"the roles of {list_names(lost)} are not there: run migrate"
    if makes_roles and (without := labels("role IS NULL")):
        yield WARNING, f"without a role of its own: {list_names(without)}: run migrate"


def _names(connection: CursorConnection, sql: str) -> list[str]:
    return [name for (name,) in connection.read(sql)]


def check_directory(directory: Directory) -> Iterator[LevelAndDetail]:
    """Check that the directory, in the first of the databases, agrees with all of them, and that no
    tenants are left in files."""
    rows = _read(directory.databases[0], DIRECTORY)
    if rows is not None:
        yield from _check_databases(directory, rows)
        yield from _check_files(directory, rows)


def _check_databases(directory: Directory, rows: list[tuple[Any, ...]]) -> Iterator[LevelAndDetail]:
    databases = {directory.name_of(database): database for database in directory.databases}
    for name in sorted({name for _, name in rows if name not in databases and name[:1] != "/"}):
        labels = list_names([label for label, other in rows if other == name])
        yield FAULT, f"{labels} live in the database {name}, which CRM_DATABASE does not name"
    for name, database in databases.items():
        published = _read(database, PUBLISHED)
        if published is None:
            continue
        there = {label for (label,) in published}
        entered = {label for label, other in rows if other == name}
        if lost := sorted(entered - there):
            cause = "left by a process that ended while creating them: `tenant create` makes them"
            yield WARNING, f"without a schema in {database.name}: {list_names(lost)}, {cause}"
        if unreached := sorted(there - entered):
            text = f"no request reaches the schemas of {list_names(unreached)} in {database.name}"
            yield WARNING, f"{text}: the directory names another place, or none"


def _check_files(directory: Directory, rows: list[tuple[Any, ...]]) -> Iterator[LevelAndDetail]:
    """Check that tenants are not left in files, which other machines do not have."""
    elsewhere = {label for label, place in rows if place != directory.file_place}
    files = directory.files.labels()
    if left := [label for label in files if label not in elsewhere]:
        yield WARNING, f"{len(left)} tenants are in files of this machine: {list_names(left)}"
    if hidden := [label for label in files if label in elsewhere]:
        text = "files that are not used, as the label is a schema's or another node's"
        yield WARNING, f"{text}: {list_names(hidden)}"


def _read(database: Database, sql: str) -> list[tuple[Any, ...]] | None:
    """Return rows; None if the database cannot be used, which check_database() says."""
    with suppress(ServerError), database.connect() as connection:
        return connection.read(sql)
    return None
