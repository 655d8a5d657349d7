"""Free JSON objects, kept exactly (D4, D17)."""

import re
from decimal import Decimal
from math import isfinite

from crm.json import dumps
from crm.values.invalid_value import InvalidValue

MAX_JSON_BYTES = 16 * 1024  # of a free object (D4)


def json_object(
    value: object, longest_bytes: int = MAX_JSON_BYTES, most_keys: int = 50, deepest: int = 4
) -> str:
    """A free object as compact JSON text, its numbers exact (D4, D17).

    `most_keys` counts the outermost keys, `longest_bytes` the text as it is kept and shown, in
    UTF-8, `deepest` objects and lists inside each other, the outermost included.
    Errors: invalid_type, invalid_text, invalid_number, too_many, too_deep, too_large.
    """
    if not isinstance(value, dict):
        raise InvalidValue("invalid_type", "must be an object")
    if len(value) > most_keys:
        raise InvalidValue("too_many", f"at most {most_keys} keys")
    _check_json(value, longest_bytes, deepest)
    text = dumps(value)
    if len(text) > longest_bytes:
        raise InvalidValue("too_large", f"at most {longest_bytes} bytes as JSON")
    return text.decode()


_NUL_OR_SURROGATE = re.compile("[\x00\ud800-\udfff]")


def _check_json(value: dict, longest_bytes: int, deepest: int) -> None:
    entries = 0
    inside = [(value, 1)]
    while inside:
        container, depth = inside.pop()
        if depth > deepest:
            raise InvalidValue("too_deep", f"at most {deepest} levels of objects and lists")
        # An entry takes two bytes at least, so a vast list is refused before it is read.
        entries += len(container)
        if 2 * entries > longest_bytes:
            raise InvalidValue("too_large", f"at most {longest_bytes} bytes as JSON")
        entry: object
        for entry in container:
            if isinstance(container, dict):
                _check_json_text(entry)
                entry = container[entry]
            kind = entry.__class__
            if kind is str:
                _check_json_text(entry)
            elif kind is dict or kind is list:
                inside.append((entry, depth + 1))
            elif kind is int or kind is float or kind is Decimal:
                _check_json_number(entry)
            elif entry is not None and kind is not bool:
                raise InvalidValue("invalid_type", "must be made of JSON values")


def _check_json_text(value: object) -> None:
    if value.__class__ is not str:
        raise InvalidValue("invalid_type", "must have texts as keys")
    if not value.isprintable() and _NUL_OR_SURROGATE.search(value):
        raise InvalidValue("invalid_text", "must not contain NUL or broken Unicode")


def _check_json_number(value: int | float | Decimal) -> None:
    if isinstance(value, int):
        fits = -(2**63) <= value < 2**64
    elif isinstance(value, float):
        fits = isfinite(value)
    else:
        # Beyond a double's range other readers of the text fail or see infinity.
        fits = value.is_finite() and abs(value.adjusted()) < 308
    if not fits:
        raise InvalidValue(
            "invalid_number", "must have only numbers that every JSON reader can read"
        )
