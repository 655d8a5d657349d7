"""The values of a body that another program has sent, by their paths.

A body is JSON, or else a form, whatever its Content-Type says: senders often name the wrong one.
`{"order": {"items": [{"name": "Table"}]}}` has the value `Table` at `order.items.0.name`, and so
has the form `order[items][0][name]=Table`.
"""

import re
from typing import Any
from urllib.parse import parse_qsl

from crm.json import dumps, loads

MAX_DEPTH = 20  # below it, the rest is one text of JSON
BRACKETS = re.compile(r"\[([^\]]*)\]")


def read_body(body: str) -> dict[str, str]:
    """{path: text} of a body; empty if it is neither JSON nor a form."""
    values: dict[str, list[str]] = {}
    if body.lstrip()[:1] in ("{", "["):
        try:
            _add(values, "", loads(body))
        except (ValueError, TypeError, RecursionError):  # TypeError: deeper than JSON is written
            return {}
    else:
        for name, text in parse_qsl(body, max_num_fields=None):
            values.setdefault(BRACKETS.sub(r".\1", name).rstrip("."), []).append(text)
    return {path: ", ".join(texts) for path, texts in values.items()}


def _add(values: dict[str, list[str]], path: str, value: Any, depth: int = 0) -> None:
    """Add what is at a path; plain values of a list are one value."""
    prefix = f"{path}." if path else ""
    if depth == MAX_DEPTH:
        values[path] = [dumps(value).decode()]
    elif isinstance(value, dict):
        for name, inner in value.items():
            _add(values, f"{prefix}{name}", inner, depth + 1)
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            is_plain = not isinstance(inner, (dict, list))
            _add(values, path if is_plain else f"{prefix}{number}", inner, depth + 1)
    elif value is not None:
        text = value if isinstance(value, str) else dumps(value).decode()
        values.setdefault(path, []).append(text)
