"""Cursors: where the next page of a list begins, as a text in `meta.next_cursor` (D3)."""

import base64
from typing import Any

import orjson

from crm.errors import Malformed

MAX_INTEGER = (1 << 63) - 1  # that a column can store


class InvalidCursor(Malformed):
    """The cursor is no cursor, or one of a list with other filters."""

    code = "invalid_cursor"
    detail = "this cursor belongs to another list: start without one"


def encode(fingerprint: str, value: Any, id: int) -> str:
    """The cursor of the records behind one with this id and this value of the order.

    fingerprint: of the list and its filters.
    """
    text = orjson.dumps([fingerprint, value, id])
    return base64.urlsafe_b64encode(text).rstrip(b"=").decode()


def decode(text: str) -> tuple[Any, Any, int]:
    """The fingerprint, the value and the id of a cursor, which may be any; raises InvalidCursor."""
    try:
        padded = text + "=" * (-len(text) % 4)
        fingerprint, value, id = orjson.loads(base64.b64decode(padded, b"-_", validate=True))
    except (ValueError, TypeError):
        raise InvalidCursor from None
    if not is_integer(id):
        raise InvalidCursor
    return fingerprint, value, id


def is_integer(value: Any) -> bool:
    """Whether it is an integer that a column can store."""
    return type(value) is int and abs(value) <= MAX_INTEGER
