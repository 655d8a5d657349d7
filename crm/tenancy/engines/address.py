"""The address of a PostgreSQL database, as CRM_DATABASE gives it."""

from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict

EXAMPLE = "it looks like postgresql://user:password@host:5432/name"
MAX_PORT = 65_535


def read_address(address: str) -> dict[str, Any]:
    """Return the parts of an address by the names that libpq gives them.

    Raises ValueError for an address that cannot be right, without any part of it: a password with
    characters that are not escaped may be in each part.
    """
    try:
        parts: dict[str, Any] = dict(conninfo_to_dict(address))
    except psycopg.ProgrammingError:
        raise ValueError(EXAMPLE) from None
    name = str(parts.get("dbname", ""))
    if "@" in str(parts.get("host", "")) or "@" in name or "/" in name:
        raise ValueError(f"{EXAMPLE}; in a user, password or name @ is %40 and / is %2F")
    # Several servers of one database: host1:5432,host2:5432
    for port in str(parts.get("port", "")).split(","):
        if port and not (port.isascii() and port.isdecimal() and 0 < int(port) <= MAX_PORT):
            raise ValueError(
                f"{EXAMPLE}; its port is not a number, or / in the password is not %2F"
            )
    return parts
