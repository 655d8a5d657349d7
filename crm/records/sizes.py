"""How large a record can be, by the declarations of its fields.

Everything in a record has a maximum: texts a length, lists a number of items, and parts in other
tables, such as a client's contacts, a size in all. So lists know which pages can be read without
measuring rows, and events are limited because their records are.
"""

from collections.abc import Mapping
from typing import Any

from crm.errors import Invalid
from crm.json import dumps
from crm.records import fields
from crm.records.nested import Nested
from crm.values.objects import MAX_JSON_BYTES

MAX_CHARACTER_BYTES = 4  # of UTF-8
MAX_SHORT_VALUE_BYTES = 64  # a number, a time, an id, true or false
ESCAPING_FACTOR = 2  # JSON text inside JSON has a backslash before each of its quotes
DEFAULT_MAX_ITEMS = 100  # of a list that declares no maximum

# Of all parts of one record, such as a client's contacts: each of its events and audit entries has
# them all.
MAX_PARTS_BYTES = 2 << 20
MAX_ITEMS_BYTES = 8 << 20  # of a deal: ten thousand items are 5 MB


def check_parts(
    name: str, before: list[Any], after: list[Any], max_bytes: int | None = None
) -> None:
    """Check that the parts of a record, as they are shown, do not grow beyond `max_bytes`.

    name: the field of the parts. max_bytes: by default MAX_PARTS_BYTES. Parts that were larger
    before may become smaller. Raises Invalid.
    """
    size, max_bytes = len(dumps(after)), max_bytes or MAX_PARTS_BYTES
    if size > max_bytes and size > len(dumps(before)):
        raise Invalid.field(name, "too_large", f"together at most {max_bytes} bytes as JSON")


def max_bytes(record_fields: Mapping[str, Any], stored: bool = False) -> int:
    """How many bytes a record of these fields has at most, as JSON.

    stored: whether of its stored values, where lists and objects are JSON texts.
    """
    size = 2
    for name, field in record_fields.items():
        is_json_text = stored and isinstance(field, (Nested, fields.Collection))
        escaping = ESCAPING_FACTOR if is_json_text else 1
        size += len(name) + 4 + _max_shown_bytes(field) * escaping
    return size


def _max_shown_bytes(field: Any) -> int:
    if declared := getattr(field, "max_bytes", 0):
        return declared
    if isinstance(field, fields.Extra):
        return MAX_JSON_BYTES
    if isinstance(field, Nested):
        return max_bytes(field.schema.fields) * (DEFAULT_MAX_ITEMS if field.many else 1)
    return _max_schema_bytes(field.schema_type())


def _max_schema_bytes(schema: dict[str, Any]) -> int:
    if "enum" in schema:
        return max(len(str(value)) for value in schema["enum"]) + 2
    if schema["type"] == "array":
        max_items = schema.get("maxItems", DEFAULT_MAX_ITEMS)
        return 2 + max_items * (1 + _max_schema_bytes(schema["items"]))
    return max(MAX_SHORT_VALUE_BYTES, schema.get("maxLength", 0) * MAX_CHARACTER_BYTES + 2)
