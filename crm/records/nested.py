"""Objects and lists of objects inside a record, as fields of its schema."""

from copy import copy
from typing import Any

from marshmallow import ValidationError
from marshmallow import fields as ma
from marshmallow.validate import Length

from crm.errors import MAX_FAULTS
from crm.json import loads


class Nested(ma.Nested):
    """An object inside a record, from a JSON text of stored values; `column` selects it."""

    incoming = True
    code = "{n}(loads({v})) if {v} else None"

    def __init__(
        self,
        schema: Any,
        *,
        sent: Any = None,
        column: str = "",
        read_only: bool = False,
        nullable: bool = False,
        about: str = "",
        many: bool = False,
        expanded: bool = False,
        most: int = 0,
        most_bytes: int = 0,
    ):
        """`most`: entries that may be sent. `most_bytes`: what is shown has no more, as JSON."""
        super().__init__(schema, dump_only=read_only, allow_none=nullable, many=many)
        self.column = column
        self.nullable = nullable
        self.about = about
        self.create_only = False
        self.most, self.most_bytes = most, most_bytes
        self.validators = [Length(max=most)] if most else []  # for the documentation
        self.expanded = expanded  # only shown by a shape that names it, as for `expand=`
        self.sent = sent or schema  # what may be sent, where it isn't what is shown

    def variant(self, *, incoming: bool, required: bool) -> "Nested":
        found = copy(self)
        found.incoming = incoming
        found.required = required and not self.expanded
        found.dump_only = found.load_only = False
        found.nested = self.sent if incoming else self.nested
        found.validators = self.validators if incoming else []
        found.allow_none = self.nullable or (incoming and self.many)  # null clears a list
        return found

    def limit_text(self) -> str:
        """What who sent too many entries is told."""
        return f"at most {self.most}"

    def _deserialize(self, value: Any, attr: str | None, data: Any, **options: Any) -> Any:
        """As marshmallow's, but a list is looked at no longer than until it cannot be taken."""
        if not self.many or not isinstance(value, list):
            return super()._deserialize(value, attr, data, **options)
        if len(value) > self.most:
            raise ValidationError([{"code": "too_many", "detail": self.limit_text()}])
        found, wrong = [], {}
        for number, entry in enumerate(value):
            try:
                if not isinstance(entry, dict):
                    raise ValidationError({"_schema": ["Invalid input type."]})
                found.append(self.schema.read(entry))
            except ValidationError as error:
                wrong[number] = error.normalized_messages()
                if len(wrong) == MAX_FAULTS:
                    break
        if wrong:
            raise ValidationError(wrong)
        return found

    def show(self, value: Any) -> Any:
        """The form on the wire of a stored value."""
        return self._serialize(value, None, None)

    def _serialize(self, value: Any, attr: str | None, obj: Any, **_: Any) -> Any:
        if isinstance(value, str):
            value = loads(value)
        return super()._serialize(value, attr, obj)


class NestedList(Nested):
    """A list of objects inside a record."""

    code = "[{n}(part) for part in loads({v})] if {v} else []"

    def __init__(self, schema: Any, **options: Any):
        super().__init__(schema, many=True, **options)
