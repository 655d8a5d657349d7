"""Checks of the database of CRM_DATABASE and of the directory for `doctor`: they change nothing.

A check yields pairs of a level (OK, WARNING, FAULT) and a sentence.
"""

from collections.abc import Iterator
from contextlib import suppress

from psycopg.conninfo import conninfo_to_dict

from crm.storage.file_errors import ServerError, describe
from crm.storage.postgres import shared_schema
from crm.storage.postgres.catalog_queries import query
from crm.storage.postgres.connections import CursorConnection, Database
from crm.storage.postgres.directory import Directory
from crm.timed_checks import FAULT, OK, WARNING, LevelAndDetail, list_names

MANY_TENANTS = 1000  # a server process that has worked for so many holds 0.4 to 0.9 GB
SERVER = query("server")
UNKNOWN_SCHEMAS = query("unknown_schemas")
LOST_SCHEMAS = """
    SELECT label FROM crm.tenant
    WHERE NOT EXISTS (SELECT 1 FROM pg_namespace WHERE nspname = schema) ORDER BY label
"""
ELSEWHERE = """
    SELECT label FROM crm.tenant UNION SELECT label FROM crm.file WHERE node <> %s
"""


def check_database(directory: Directory) -> Iterator[LevelAndDetail]:
    """Check the server, its settings, the shared schema and the tenants' schemas."""
    database = directory.database
    try:
        with database.connect() as connection:
            installed = shared_schema.installed_version(connection)
            is_installed = installed is not None
            yield from _check_server(database, connection, is_installed)
            yield from _check_shared_schema(connection, installed)
            if is_installed:
                yield from _check_tenants(connection)
    except ServerError as error:
        yield FAULT, describe(error)


def _check_server(
    database: Database, connection: CursorConnection, is_installed: bool
) -> Iterator[LevelAndDetail]:
    ((version, user, read_only, fsync, pages, commits, *row),) = connection.read(SERVER)
    ctype, may_create = row
    parts = conninfo_to_dict(database.address)
    server = f"{parts.get('host', 'a local socket')}:{parts.get('port', 5432)}"
    yield OK, f"PostgreSQL {version}, {database.name} at {server} as {user}"
    if read_only == "on":
        yield FAULT, "it may only be read: requests that change something get 503"
    if "off" in (fsync, pages):
        yield WARNING, "fsync or full_page_writes is off: a power cut may damage the whole database"
    if commits == "off":
        yield WARNING, "synchronous_commit is off: a crash loses the last acknowledged changes"
    if not is_installed and ctype in ("C", "POSIX"):
        yield FAULT, shared_schema.NO_LETTERS
    if not is_installed and not may_create:
        yield FAULT, shared_schema.LACKS_RIGHTS


def _check_shared_schema(
    connection: CursorConnection, installed: bytes | None
) -> Iterator[LevelAndDetail]:
    for missing in shared_schema.find_missing(connection, installed is not None):
        yield FAULT, missing
    if installed is None:
        yield WARNING, "the shared schema is not there yet; `serve` makes it"
    elif shared_schema.is_up_to_date(installed):
        yield OK, f"the shared schema has version {int(installed[:4])}"
    else:
        yield WARNING, "the shared schema is of an older release: restart the server"


def _check_tenants(connection: CursorConnection) -> Iterator[LevelAndDetail]:
    ((count,),) = connection.read("SELECT count(*) FROM crm.tenant")
    advice = ": use another installation for new tenants" if count > MANY_TENANTS else ""
    yield (WARNING if advice else OK), f"{count} schemas{advice}"
    if lost := _names(connection, LOST_SCHEMAS):
        yield FAULT, f"the schemas of {list_names(lost)} are gone: restore copies"
    if unknown := _names(connection, UNKNOWN_SCHEMAS):
        yield WARNING, f"schemas of no tenant: {list_names(unknown)}; DROP SCHEMA … CASCADE"


def _names(connection: CursorConnection, sql: str) -> list[str]:
    return [name for (name,) in connection.read(sql)]


def check_directory(directory: Directory) -> Iterator[LevelAndDetail]:
    """Check that tenants are not left in files, which other nodes do not have, or are not used."""
    files = set(directory.files.labels())
    with suppress(ServerError), directory.database.connect() as connection:  # as check_database()
        unused = files & {label for (label,) in connection.read(ELSEWHERE, directory.node)}
        if left := sorted(files - unused):
            text = f"{len(left)} tenants are in files of this machine: {list_names(left)}"
            yield WARNING, f"{text}: `restore --to postgres` moves them"
        if unused:
            text = "files that are not used, as the label is a schema's or another node's"
            advice = "give a `restore --to` that was interrupted again, or move them elsewhere"
            yield WARNING, f"{text}: {list_names(sorted(unused))}: {advice}"
