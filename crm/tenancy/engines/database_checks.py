"""Checks of the databases of CRM_DATABASE for `doctor`: they change nothing.

A check yields pairs of a level (OK, WARNING, FAULT) and a sentence.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from psycopg.conninfo import conninfo_to_dict

from crm.tenancy.engines import requirements, schema
from crm.tenancy.engines.postgres import CursorConnection, Database
from crm.tenancy.file_errors import ServerError, describe
from crm.timed_checks import FAULT, OK, WARNING, LevelAndDetail

NEARLY_FULL_SHARE = 0.9  # of the tenants that a database may have
MAX_NAMES = 3  # in one sentence
SERVER = """
    SELECT current_setting('server_version'), current_user, pg_backend_pid(),
        pg_is_in_recovery(), current_setting('default_transaction_read_only'),
        current_setting('fsync'), current_setting('full_page_writes'),
        current_setting('synchronous_commit'),
        CAST(current_setting('max_connections') AS INTEGER)
            - CAST(current_setting('superuser_reserved_connections') AS INTEGER),
        (SELECT datctype FROM pg_database WHERE datname = current_database()),
        has_database_privilege(current_database(), 'CREATE')
"""
LOST_SCHEMAS = """
    SELECT label FROM crm.tenant
    WHERE NOT EXISTS (SELECT 1 FROM pg_namespace WHERE nspname = schema) ORDER BY label
"""
UNKNOWN_SCHEMAS = """
    SELECT nspname FROM pg_namespace WHERE nspname ~ '^(t_|draft_[0-9a-f]+$)'
        AND NOT EXISTS (SELECT 1 FROM crm.tenant WHERE schema = nspname) ORDER BY nspname
"""
WITHOUT_ROLE = "SELECT label FROM crm.tenant WHERE role IS NULL ORDER BY label"
LOST_ROLES = """
    SELECT label FROM crm.tenant WHERE role NOT IN (SELECT rolname FROM pg_roles) ORDER BY label
"""
OLD_DRAFTS = """
    SELECT label FROM crm.tenant
    WHERE label LIKE '.new-%' AND created_at < now() - interval '1 day' ORDER BY label
"""


def check_database(
    database: Database, max_connections: int, max_tenants: int
) -> Iterator[LevelAndDetail]:
    """Check one database: its server, its settings, its shared schema and its tenants' schemas.

    `max_connections`: of each process; `max_tenants`: of one database.
    """
    try:
        with database.connect() as connection:
            yield from _check_server(database, connection, max_connections)
            yield from _check_shared_schema(database, connection)
            if schema.installed_version(connection) is not None:
                yield from _check_schemas(connection, max_tenants)
                yield from _check_roles(connection, database.makes_roles)
    except ServerError as error:
        yield FAULT, describe(error)


def list_names(names: Sequence[str]) -> str:
    """Return the first names of a list, and how many more there are."""
    more = len(names) - MAX_NAMES
    return ", ".join(names[:MAX_NAMES]) + (f" and {more} more" if more > 0 else "")


def _check_server(
    database: Database, connection: CursorConnection, max_connections: int
) -> Iterator[LevelAndDetail]:
    version, user, pid, is_standby, read_only, fsync, pages, commits, places, ctype, may_create = (
        _one(connection, SERVER)
    )
    yield OK, f"PostgreSQL {version}, {database.name} at {_server_of(database)} as {user}"
    if is_standby or read_only == "on":
        what = "it is a standby" if is_standby else "default_transaction_read_only is on"
        yield FAULT, f"{what}: requests that change something get 503"
    off = [
        name for name, value in (("fsync", fsync), ("full_page_writes", pages)) if value == "off"
    ]
    if off:
        yield WARNING, f"{' and '.join(off)} off: a power cut may damage the whole database"
    if commits == "off":
        yield WARNING, "synchronous_commit is off: a crash loses the last acknowledged changes"
    if pid != connection.pgconn.backend_pid:
        yield (
            OK,
            "a pooler such as PgBouncer is between: statements are not kept prepared, and nothing"
            " is heard by LISTEN",
        )
    processes = places // max_connections
    text = (
        f"it takes {places} connections, a process up to {max_connections}"
        f" (CRM_DATABASE_CONNECTIONS): {processes} processes on all machines"
    )
    yield (OK if processes > 1 else WARNING), text
    if schema.installed_version(connection) is None:
        if ctype in ("C", "POSIX"):
            yield FAULT, requirements.NO_LETTERS
        if not may_create:
            error = ServerError("its user may create no schema", "42501")
            yield FAULT, str(requirements.explain(error, database, user))


def _check_shared_schema(
    database: Database, connection: CursorConnection
) -> Iterator[LevelAndDetail]:
    missing = list(requirements.find_missing(connection))
    installed = schema.installed_version(connection)
    if installed is not None:
        missing += requirements.find_missing_letters(connection)
    yield from ((FAULT, text) for text in missing)
    own = schema.shared_version()
    if installed is None:
        yield WARNING, "the shared schema is not there yet; `serve` makes it"
    elif installed == own:
        yield OK, f"the shared schema has version {int(own[:4])}"
    elif schema.is_up_to_date(installed):
        yield OK, f"the shared schema is of a newer release, version {int(installed[:4])}"
    else:
        yield WARNING, "the shared schema is of an older release: restart the server"


def _check_schemas(connection: CursorConnection, max_tenants: int) -> Iterator[LevelAndDetail]:
    (count,) = _one(connection, "SELECT count(*) FROM crm.tenant")
    is_full = count >= max_tenants * NEARLY_FULL_SHARE
    text = f"{count} of {max_tenants} schemas"
    yield (
        (WARNING, f"{text}: add a database to CRM_DATABASE for new tenants")
        if is_full
        else (OK, text)
    )
    if lost := _names(connection, LOST_SCHEMAS):
        yield FAULT, f"the schemas of {list_names(lost)} are gone: restore copies"
    if unknown := _names(connection, UNKNOWN_SCHEMAS):
        yield WARNING, f"schemas of no tenant: {list_names(unknown)}; DROP SCHEMA … CASCADE"
    if drafts := _names(connection, OLD_DRAFTS):
        yield (
            WARNING,
            f"{len(drafts)} drafts are older than a day, left by processes that ended:"
            f" {list_names(drafts)}; DROP SCHEMA … CASCADE, and DELETE FROM crm.tenant",
        )


def _check_roles(connection: CursorConnection, makes_roles: bool) -> Iterator[LevelAndDetail]:
    if lost := _names(connection, LOST_ROLES):
        yield FAULT, f"the roles of {list_names(lost)} are not there: run migrate"
    if makes_roles and (without := _names(connection, WITHOUT_ROLE)):
        yield WARNING, f"without a role of its own: {list_names(without)}: run migrate"


def _server_of(database: Database) -> str:
    parts = conninfo_to_dict(database.address)
    return f"{parts.get('host', 'a local socket')}:{parts.get('port', 5432)}"


def _one(connection: CursorConnection, sql: str) -> tuple[Any, ...]:
    row = connection.execute(sql.encode()).fetchone()
    assert row is not None
    return row


def _names(connection: CursorConnection, sql: str) -> list[str]:
    return [name for (name,) in connection.execute(sql.encode()).fetchall()]
