"""Objects, lists of objects and lists of values inside a record, as fields of its schema."""

from collections.abc import Callable
from copy import copy
from typing import Any

from marshmallow import ValidationError
from marshmallow import fields as ma
from marshmallow.validate import Length

from crm.errors import MAX_FAULTS, Invalid
from crm.json import dumps, loads
from crm.records.fields import Field
from crm.values import InvalidValue

# Of all parts of one record, such as a client's contacts: each of its events and audit entries has
# them all.
MAX_PARTS_BYTES = 2 << 20
MAX_ITEMS_BYTES = 8 << 20  # of a deal: ten thousand items are 5 MB


class Nested(ma.Nested):
    """An object inside a record, from a JSON text of stored values; `column` selects it.

    sent: the schema of what may be sent, where it is another than that of what is shown.
    min_items, max_items: how many entries may be sent.
    expanded: whether only a view that names it shows it, as for `expand=`.
    """

    incoming = True
    allow_none: bool
    default_value = None

    def __init__(
        self,
        schema: Any,
        *,
        sent: Any = None,
        column: str = "",
        dump_only: bool = False,
        allow_none: bool = False,
        about: str = "",
        many: bool = False,
        expanded: bool = False,
        required: bool = False,
        min_items: int | None = None,
        max_items: int = 0,
    ):
        super().__init__(
            schema, dump_only=dump_only, required=required, allow_none=allow_none, many=many
        )
        self.column = column
        self.about = about
        self.create_only = False
        self.max_items = max_items
        self.validators = [Length(min_items, max_items)] if max_items else []
        self.expanded = expanded
        self.sent = sent or schema

    @property
    def schema(self) -> Any:  # marshmallow's type has neither read() nor converters
        """The schema of the record's parts. Of a list, marshmallow 3 does not mark it as such."""
        schema = super().schema
        schema.many = self.many
        return schema

    def variant(self, *, incoming: bool, required: bool) -> "Nested":
        """A copy for a schema of one direction, as Field.variant()."""
        field = copy(self)
        field.parent = field.root = field.name = None
        field.incoming = incoming
        field.required = required and not self.expanded
        field.dump_only = field.load_only = False
        field.nested = self.sent if incoming else self.nested
        field.validators = self.validators if incoming else []
        field.allow_none = self.allow_none or bool(incoming and self.many)  # null clears a list
        return field

    def _deserialize(
        self, value: Any, attr: str | None, data: Any, partial: Any = None, **options: Any
    ) -> Any:
        """As marshmallow's, but a list is read no further than until it cannot be accepted."""
        if not self.many or not isinstance(value, list):
            return super()._deserialize(value, attr, data, partial, **options)
        if len(value) > self.max_items:
            detail = f"at most {self.max_items}"
            raise ValidationError([{"code": "too_many", "detail": detail}])
        entries, errors = [], {}
        for number, entry in enumerate(value):
            try:
                if not isinstance(entry, dict):
                    raise ValidationError({"_schema": ["Invalid input type."]})
                entries.append(self.schema.read(entry))
            except ValidationError as error:
                errors[number] = error.normalized_messages()
                if len(errors) == MAX_FAULTS:
                    break
        if errors:
            raise ValidationError(errors)
        return entries

    def show(self, value: Any) -> Any:
        """The form on the wire of a stored JSON text: an object or None, or a list of objects."""
        if not value:
            return [] if self.many else None
        stored = loads(value) if isinstance(value, str) else value
        fields = self.schema.fields.items()
        objects = [
            {name: field.show(part[name]) for name, field in fields}
            for part in (stored if self.many else [stored])
        ]
        return objects if self.many else objects[0]

    @property
    def converter(self) -> Callable[[Any], Any]:
        return self.show


class NestedList(Nested):
    """A list of objects inside a record."""

    def __init__(self, schema: Any, **options: Any):
        super().__init__(schema, many=True, **options)


class ValueList(Field):
    """A list of values of another field, each once; a JSON text in the file.

    Sent ones have 1 to `max_items`.
    """

    def __init__(self, inner: Field, max_items: int, **options: Any):
        super().__init__(**options)
        self.inner, self.max_items = inner, max_items

    def read(self, value: Any) -> str:
        if not isinstance(value, list) or not 1 <= len(value) <= self.max_items:
            code = "out_of_range" if isinstance(value, list) else "invalid_type"
            raise InvalidValue(code, f"must be a list of 1 to {self.max_items} values")
        return dumps(list(dict.fromkeys(map(self.inner.read, value)))).decode()

    def show(self, value: Any) -> list[Any] | None:
        return [self.inner.show(one) for one in loads(value)] if value else None

    def schema_type(self) -> dict[str, Any]:
        inner = self.inner.variant(incoming=self.incoming, required=True).schema_type()
        schema = {"type": "array", "items": inner, "maxItems": self.max_items}
        return schema | ({"minItems": 1} if self.incoming else {})


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
