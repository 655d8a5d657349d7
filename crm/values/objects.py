"""Free JSON objects, kept exactly (D4, D17)."""

import re
from decimal import Decimal
from math import isfinite
from typing import Any

from crm.json import dumps, loads
from crm.values.invalid_value import InvalidValue

# Of a free object (D4).
MAX_JSON_BYTES, MAX_KEYS, MAX_DEPTH = 16 * 1024, 50, 4


def json_object(value: object) -> str:
    """Return a free object as compact JSON text, with exact numbers (D4, D17).

    MAX_KEYS counts the outermost keys, MAX_JSON_BYTES the text in UTF-8 as it is stored and shown,
    MAX_DEPTH the objects and lists inside each other, the outermost included.
    Errors: invalid_type, invalid_text, invalid_number, too_many, too_deep, too_large.
    """
    if not isinstance(value, dict):
        raise InvalidValue("invalid_type", "must be an object")
    if len(value) > MAX_KEYS:
        raise InvalidValue("too_many", f"at most {MAX_KEYS} keys")
    _check_json(value)
    text = dumps(value)
    if len(text) > MAX_JSON_BYTES:
        raise _too_large()
    return text.decode()


def merge_object(known: str | None, patch: str) -> str | None:
    """Return a free object after a merge patch (RFC 7396): null removes a key.

    The object itself is no change, even if it has nulls. Errors: as json_object().
    """
    if patch == known:
        return known
    merged = _merge(loads(known or "{}"), loads(patch))
    return json_object(merged) if merged else None


def _merge(known: Any, patch: Any) -> Any:
    if not isinstance(patch, dict):
        return patch
    merged = dict(known) if isinstance(known, dict) else {}
    for name, value in patch.items():
        if value is None:
            merged.pop(name, None)
        else:
            merged[name] = _merge(merged.get(name), value)
    return merged


_NUL_OR_SURROGATE = re.compile("[\x00\ud800-\udfff]")


def _check_json(value: Any, depth: int = 1) -> None:
    """Raise InvalidValue for what is no JSON, or has what other readers of the text fail at."""
    if isinstance(value, (dict, list)):
        if depth > MAX_DEPTH:
            raise InvalidValue("too_deep", f"at most {MAX_DEPTH} levels of objects and lists")
        # An entry takes two bytes at least, so a vast list is refused before it is read.
        if 2 * len(value) > MAX_JSON_BYTES:
            raise _too_large()
        for entry in value:
            if isinstance(value, dict):
                if not isinstance(entry, str):
                    raise InvalidValue("invalid_type", "must have texts as keys")
                _check_json(entry)
                entry = value[entry]
            _check_json(entry, depth + 1)
    elif isinstance(value, str):
        if not value.isprintable() and _NUL_OR_SURROGATE.search(value):
            raise InvalidValue("invalid_text", "must not contain NUL or broken Unicode")
    elif isinstance(value, (int, float, Decimal)):
        # A Decimal may be beyond the range of a double, in which other readers see infinity.
        is_in_range = -(2**63) <= value < 2**64 if isinstance(value, int) else isfinite(value)
        if not is_in_range or (isinstance(value, Decimal) and abs(value.adjusted()) >= 308):
            detail = "must have only numbers that every JSON reader can read"
            raise InvalidValue("invalid_number", detail)
    elif value is not None:
        raise InvalidValue("invalid_type", "must be made of JSON values")


def _too_large() -> InvalidValue:
    return InvalidValue("too_large", f"at most {MAX_JSON_BYTES} bytes as JSON")
