"""Ids of records: strings of digits on the wire, integers in the database (D2)."""

from typing import Any


def integer_id(id: Any) -> int:
    """Return the integer of an id on the wire, or -1, which no row has, for an invalid one."""
    if isinstance(id, int) and not isinstance(id, bool):
        return id if 0 < id < 1 << 63 else -1
    if isinstance(id, str) and id.isascii() and id.isdecimal() and len(id) < 19 and id[0] != "0":
        return int(id)
    return -1
