"""The shared schema of a PostgreSQL database, `crm`, and what a database must have for it.

For what it lacks there is a sentence that tells its operator what to do.
"""

import hashlib
from collections.abc import Iterator
from functools import cache
from importlib import resources

from crm.storage.file_errors import ServerError
from crm.storage.postgres.catalog_queries import query
from crm.storage.postgres.connections import CursorConnection, Database
from crm.storage.postgres.server_errors import Unsuitable

FIRST_RELEASED = b"0003"  # of the versions
SHARED_LOCK = 7273  # of changes of the shared schema and of the directory
NEW_DATABASE = "CREATE DATABASE … TEMPLATE template0 ENCODING 'UTF8' LOCALE 'C.UTF-8'"
FACTS = query("facts")
NO_LETTERS = (
    "its LC_CTYPE does not know Cyrillic letters, so that search would find nothing:"
    f" make another by {NEW_DATABASE}"
)
# An array without elements has no length. By LC_CTYPE C no Cyrillic letter is a letter.
HAS_TRIGRAMS = "SELECT COALESCE(array_length(crm.show_trgm('олена'), 1), 0) > 0"
VERSION = "SELECT value FROM crm.setting WHERE name = 'shared_version'"
SET_VERSION = """
    INSERT INTO crm.setting (name, value) VALUES ('shared_version', %s)
    ON CONFLICT (name) DO UPDATE SET value = excluded.value
"""
NO_RIGHT = "42501"  # SQLSTATE: also that what is there belongs to another user
LACKS_RIGHTS = "the user of CRM_DATABASE must own the database: ALTER DATABASE … OWNER TO …"


@cache
def shared_sql() -> str:
    """Return the statements that make the shared schema; they may be run again."""
    return resources.files(__package__).joinpath("shared.sql").read_text("utf-8")


def shared_version() -> bytes:
    """Return the version of the shared schema that this code makes: its number and a digest."""
    text = shared_sql()
    number = int(text.split(None, 3)[2].rstrip("."))  # of the first line: -- Version 1.
    return b"%04d:%s" % (number, hashlib.sha256(text.encode()).hexdigest()[:16].encode())


def installed_version(connection: CursorConnection) -> bytes | None:
    """Return the version of the shared schema of a database; None if it has none.

    Raises Unsuitable for that of unreleased code, whose tenants' schemas had other steps.
    """
    if connection.read("SELECT to_regclass('crm.setting')") == [(None,)]:
        return None
    rows = connection.read(VERSION)
    if rows and rows[0][0] < FIRST_RELEASED:
        raise Unsuitable(
            "its schemas are of code from before release 0.2.0, which no release reads: make the"
            " tenants anew in another database"
        )
    return rows[0][0] if rows else None


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
    try:
        with database.connect() as connection:
            if not is_up_to_date(installed_version(connection)):
                _require(find_missing(connection))
                with connection.transaction():
                    connection.read("SELECT pg_advisory_xact_lock(%s)", SHARED_LOCK)
                    if not is_up_to_date(installed_version(connection)):
                        connection.execute(shared_sql().encode())
                        _require(find_missing(connection, is_installed=True))
                        connection.execute(SET_VERSION, (shared_version(),))
            # Each time: it may be restored into a database of another locale.
            _require(find_missing(connection, is_installed=True))
    except ServerError as error:
        if error.sqlstate == NO_RIGHT:
            raise Unsuitable(f"{error}: {LACKS_RIGHTS}") from None
        raise


def find_missing(connection: CursorConnection, is_installed: bool = False) -> Iterator[str]:
    """Yield what a database lacks, each with advice.

    Only with the shared schema installed it can be told whether search would find Cyrillic letters.
    """
    ((encoding, has_trgm, trgm_schema),) = connection.read(FACTS)
    if encoding != "UTF8":
        yield f"its encoding is {encoding}, it must be UTF8: make another by {NEW_DATABASE}"
    if trgm_schema is None and not has_trgm:
        yield (
            "its server lacks the extension pg_trgm: install PostgreSQL's contrib package"
            " (postgresql-contrib)"
        )
    if trgm_schema not in (None, "crm"):
        yield (
            f"its extension pg_trgm is in the schema {trgm_schema}:"
            " CREATE SCHEMA IF NOT EXISTS crm; ALTER EXTENSION pg_trgm SET SCHEMA crm"
        )
    if is_installed and connection.read(HAS_TRIGRAMS) == [(False,)]:
        yield NO_LETTERS


def _require(missing: Iterator[str]) -> None:
    """Raise Unsuitable with the first thing that is missing."""
    for text in missing:
        raise Unsuitable(text)
