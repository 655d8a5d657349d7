"""The values of a body that another program has sent, by their paths.

A body is JSON, or else a form, whatever its Content-Type says: senders often name the wrong one.
`{"order": {"items": [{"name": "Table"}]}}` has the value `Table` at `order.items.0.name`, and so
has the form `order[items][0][name]=Table`.
"""

import re
from collections.abc import Collection, Iterator
from typing import Any
from urllib.parse import parse_qsl

from crm.json import dumps, loads

MAX_DEPTH = 20  # below it, the rest is one text of JSON
BRACKETS = re.compile(r"\[([^\]]*)\]")


def read_body(body: str, paths: Collection[str]) -> dict[str, str] | None:
    """{path: text} of the values at these paths; None if the body has no values at all."""
    values: dict[str, list[str]] = {}
    is_empty = True
    for path, text in iterate_values(body, max(map(len, paths), default=0)):
        is_empty = False
        if path in paths:
            values.setdefault(path, []).append(text)
    return None if is_empty else {path: ", ".join(texts) for path, texts in values.items()}


def iterate_values(body: str, max_path: int) -> Iterator[tuple[str, str]]:
    """(path, text) of each value of a body; nothing if it is neither JSON nor a form.

    max_path: how many characters of a path the caller needs; a longer one is cut to one more. A
    name that is half of the body may be in the paths of 60,000 values.
    """
    if body.lstrip()[:1] in ("{", "["):
        try:
            value = loads(body)
            dumps(value)
        except (ValueError, TypeError, RecursionError):  # TypeError: deeper than JSON is written
            return
        yield from _values_at("", value, max_path)
    else:
        for name, text in parse_qsl(body, max_num_fields=None):
            yield BRACKETS.sub(r".\1", name).rstrip("."), text


def _values_at(path: str, value: Any, max_path: int, depth: int = 0) -> Iterator[tuple[str, str]]:
    """The values of what is at a path; plain ones of a list are all at the path of the list."""
    prefix = f"{path}." if path else ""
    if depth == MAX_DEPTH:
        yield path, dumps(value).decode()
    elif isinstance(value, (dict, list)):
        for name, inner in enumerate(value) if isinstance(value, list) else value.items():
            is_plain = isinstance(value, list) and not isinstance(inner, (dict, list))
            inner_path = path if is_plain else f"{prefix}{name}"[: max_path + 1]
            yield from _values_at(inner_path, inner, max_path, depth + 1)
    elif value is not None:
        yield path, value if isinstance(value, str) else dumps(value).decode()
