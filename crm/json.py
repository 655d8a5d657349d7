"""JSON as this service reads and writes it: exact numbers in, exact numbers out (D2).

A number is written about as short as it came: 1e307 has five characters, not 308.
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

    orjson refuses NaN, lone surrogates and deep nesting; a body it accepts is read again by the
    standard library only when that keeps digits which a float would lose.
    """
    found = orjson.loads(data)
    if _INEXACT.search(data if isinstance(data, bytes) else data.encode()):
        try:
            found = json.loads(data, parse_float=Decimal, parse_int=_integer)
        except InvalidOperation:  # an exponent beyond what even a Decimal holds
            raise ValueError("a number beyond all bounds") from None
    return found


def dumps(value: Any) -> bytes:
    """Write compact UTF-8 JSON; a Decimal keeps its digits."""
    return orjson.dumps(value, default=_number)


def pretty(value: Any) -> str:
    """The same in lines, for people."""
    return orjson.dumps(value, default=_number, option=orjson.OPT_INDENT_2).decode()


def _integer(text: str) -> int | Decimal:
    return int(text) if len(text) < 19 else Decimal(text)


def _number(value: Any) -> orjson.Fragment:
    if isinstance(value, Decimal):
        text = str(value)  # without an exponent where at most five zeros stand before the digits
        return orjson.Fragment((text if "E" not in text else _with_exponent(value)).encode())
    raise TypeError(f"{type(value).__name__} has no form in JSON")


def _with_exponent(value: Decimal) -> str:
    """The shorter of 15e306 and 1.5e307: many digits may have a shorter exponent behind a point."""
    sign, digits, exponent = value.as_tuple()
    number = "".join(map(str, digits))
    whole = f"{number}e{exponent}"
    pointed = f"{number[0]}.{number[1:]}e{value.adjusted()}"
    return ("-" if sign else "") + (pointed if len(pointed) <= len(whole) else whole)
