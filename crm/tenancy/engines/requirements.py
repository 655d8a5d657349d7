"""What a PostgreSQL database must have, and what its operator can do if it does not."""

import re
from collections.abc import Iterator
from typing import Any

from crm.tenancy.engines.postgres import Database
from crm.tenancy.engines.server_errors import Unsuitable
from crm.tenancy.file_errors import ServerError

NEW_DATABASE = "CREATE DATABASE … TEMPLATE template0 ENCODING 'UTF8' LOCALE 'C.UTF-8'"
FACTS = """
    SELECT
        (SELECT pg_encoding_to_char(encoding) FROM pg_database WHERE datname = current_database()),
        EXISTS (SELECT 1 FROM pg_available_extensions WHERE name = 'pg_trgm'),
        (SELECT nspname FROM pg_extension JOIN pg_namespace ON pg_namespace.oid = extnamespace
            WHERE extname = 'pg_trgm')
"""
NO_LETTERS = (
    "its LC_CTYPE does not know Cyrillic letters, so that search would find nothing:"
    f" make another by {NEW_DATABASE}"
)
# An array without elements has no length. By LC_CTYPE C no Cyrillic letter is a letter.
HAS_TRIGRAMS = "SELECT COALESCE(array_length(crm.show_trgm('олена'), 1), 0) > 0"
# SQLSTATEs: no right, and what is there belongs to another user.
NO_RIGHT = ("42501", "28000")
PLAIN_NAME = re.compile(r"[a-z_][a-z0-9_]*\Z")


def find_missing(connection: Any) -> Iterator[str]:
    """Yield what a database lacks before the shared schema can be made, each with advice."""
    encoding, has_trgm, trgm_schema = connection.execute(FACTS).fetchone()
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


def find_missing_letters(connection: Any) -> Iterator[str]:
    """Yield a fault, with advice, if search would find no Cyrillic letter in a database that has
    the shared schema."""
    if not connection.execute(HAS_TRIGRAMS).fetchone()[0]:
        yield NO_LETTERS


def require(missing: Iterator[str]) -> None:
    """Raise Unsuitable with the first thing that is missing."""
    for text in missing:
        raise Unsuitable(text)


def explain(error: ServerError, database: Database, user: str) -> ServerError:
    """Return the error with advice if the user lacks a right that making the schema takes."""
    if error.sqlstate in NO_RIGHT:
        return Unsuitable(
            f"{error}: let its user own it: ALTER DATABASE {_quoted(database.name)}"
            f" OWNER TO {_quoted(user)}"
        )
    return error


def _quoted(name: str) -> str:
    return name if PLAIN_NAME.match(name) else '"' + name.replace('"', '""') + '"'
