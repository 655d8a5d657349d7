"""How large a record can be, by the declarations of its fields.

Nothing in a record grows without a bound: texts have a length, lists a number of entries, and what
is kept beside, such as a client's contacts, a size in all. So lists know which pages may be read
without a look at their size, and events are bounded because their records are.
"""

from collections.abc import Mapping
from typing import Any

from crm.errors import Invalid
from crm.json import dumps
from crm.records import fields
from crm.records.nested import Nested
from crm.values.objects import MAX_JSON_BYTES

CHARACTER_BYTES = 4  # of UTF-8
SHORT_BYTES = 64  # a number, a time, an id, true or false
ESCAPED = 2  # a JSON text inside JSON: each of its quotes has a backslash more
FEW = 100  # entries of a list that says no other number

# What belongs to one record, such as a client's contacts or a deal's items, in all: each of its
# events, and each row of its trail, tells them all.
PARTS_BYTES = 2 << 20


def check_parts(name: str, before: list[Any], after: list[Any]) -> None:
    """What belongs to a record, as it is shown, does not grow beyond PARTS_BYTES as JSON.

    What was larger before may become smaller. Raises Invalid naming the field.
    """
    size = len(dumps(after))
    if size > PARTS_BYTES and size > len(dumps(before)):
        raise Invalid.field(name, "too_large", f"together at most {PARTS_BYTES} bytes as JSON")


def max_bytes(shown: Mapping[str, Any], stored: bool = False) -> int:
    """Bytes that a record of these fields has at most, as JSON; `stored`: its columns as they are
    kept, where lists and objects are JSON texts."""
    return 2 + sum(len(name) + 4 + _most_of(field, stored) for name, field in shown.items())


def _most_of(field: Any, stored: bool) -> int:
    is_json = isinstance(field, (Nested, fields.Collection))
    return _most_shown(field) * (ESCAPED if is_json and stored else 1)


def _most_shown(field: Any) -> int:
    if said := getattr(field, "max_bytes", 0):
        return said
    if isinstance(field, fields.Extra):
        return MAX_JSON_BYTES
    if isinstance(field, Nested):
        return max_bytes(field.schema.fields) * (FEW if field.many else 1)
    return _most_by_schema(field.schema_type())


def _most_by_schema(schema: dict[str, Any]) -> int:
    if "enum" in schema:
        return max(len(str(each)) for each in schema["enum"]) + 2
    if schema["type"] == "array":
        most = schema.get("maxItems", FEW)
        return 2 + most * (1 + _most_by_schema(schema["items"]))
    return max(SHORT_BYTES, schema.get("maxLength", 0) * CHARACTER_BYTES + 2)
