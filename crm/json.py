"""Read and write JSON with exact numbers, and read ids (D2).

A number is written about as short as it was sent: 1e307 takes five characters, not 308.
"""

import json
import re
from decimal import Decimal, InvalidOperation
from typing import Any

import orjson

# A fraction, an exponent or more digits than 64 bits hold: orjson would give a rounded float.
_INEXACT = re.compile(rb"[0-9][.eE]|[0-9]{19}")


def loads(data: bytes | str) -> Any:
    """Read JSON; numbers with a fraction become Decimal. Raises ValueError.

    orjson refuses NaN, lone surrogates and deep nesting. A body that it accepts is read again by
    the standard library only if a float would lose digits of it.
    """
    value = orjson.loads(data)
    if _INEXACT.search(data if isinstance(data, bytes) else data.encode()):
        try:
            value = json.loads(data, parse_float=Decimal, parse_int=_integer)
        except InvalidOperation:  # the exponent is too large even for a Decimal
            raise ValueError("a number beyond all bounds") from None
    return value


def dumps(value: Any) -> bytes:
    """Return compact JSON as UTF-8; a Decimal keeps its digits."""
    return orjson.dumps(value, default=_number)


def pretty(value: Any) -> str:
    """Return JSON indented for reading."""
    return orjson.dumps(value, default=_number, option=orjson.OPT_INDENT_2).decode()


def _integer(text: str) -> int | Decimal:
    return int(text) if len(text) < 19 else Decimal(text)


def _number(value: Any) -> orjson.Fragment:
    if isinstance(value, Decimal):
        # Without an exponent where at most five zeros stand before the digits, else as 1.5e307.
        return orjson.Fragment(str(value).replace("E+", "e").replace("E", "e").encode())
    raise TypeError(f"{type(value).__name__} has no form in JSON")


def integer_id(id: Any) -> int:
    """Return the integer of an id, a string of digits on the wire; -1, no row's, if invalid."""
    if isinstance(id, int) and not isinstance(id, bool):
        return id if 0 < id < 1 << 63 else -1
    if isinstance(id, str) and id.isascii() and id.isdecimal() and len(id) < 19 and id[0] != "0":
        return int(id)
    return -1
