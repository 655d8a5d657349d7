"""The fields of schemas: what may be sent, how it is stored, how it is shown (D2).

Loading a field gives the stored value, showing one takes it: money in 1/10 000, a quantity in
1/1 000, lists and objects as JSON texts. `code` is the expression that a shape's row function
has for the field (see shapes.py), `show` the same in words for marshmallow.
"""

import re
from collections.abc import Callable
from copy import copy
from typing import Any

from marshmallow import ValidationError, missing
from marshmallow import fields as ma

from crm import values
from crm.json import dumps, loads
from crm.tenancy.database import now
from crm.values.ids import integer_id


class Field(ma.Field):
    """A field in stored form.

    `required`: must be sent on create. `nullable`: may be null, also in answers; by default all
    optional fields. `read_only`: shown, never set. `write_only`: set, never shown. `create_only`:
    may be sent on create and is read-only afterwards. `column`: the SQL expression shown, by
    default the column of the field's name. `default`: what an absent value becomes on create, for
    the documentation. `about`: a sentence for the documentation.
    """

    code = "{v}"
    incoming = True
    json_type: str | list[str] = "string"

    def __init__(
        self,
        *,
        required: bool = False,
        nullable: bool | None = None,
        read_only: bool = False,
        write_only: bool = False,
        create_only: bool = False,
        column: str = "",
        default: Any = None,
        about: str = "",
        example: Any = None,
    ):
        self.nullable = (not required and not read_only) if nullable is None else nullable
        super().__init__(
            required=required,
            allow_none=self.nullable,
            dump_only=read_only,
            load_only=write_only,
            metadata={},
        )
        self.create_only = create_only
        self.column = column
        self.default = default
        self.about = about
        self.example = example

    def variant(self, *, incoming: bool, required: bool) -> "Field":
        """A copy for a schema of one direction."""
        found = copy(self)
        found.incoming = incoming
        found.required = required
        found.dump_only = found.load_only = False
        found.allow_none = self.nullable
        return found

    def make_error(self, key: str, **_: Any) -> ValidationError:
        texts = {"required": "this field is required", "null": "this field may not be null"}
        return ValidationError([{"code": key, "detail": texts.get(key, "this value does not fit")}])

    def read(self, value: Any) -> Any:
        """The stored form of a value that was sent, or values.Unfit."""
        return value

    def show(self, value: Any) -> Any:
        """The form on the wire of a stored value."""
        return value

    def deserialize(self, value: Any, attr: str | None = None, data: Any = None, **_: Any) -> Any:
        """As marshmallow's, without the hooks and validators that no field here has."""
        is_sent = value is not None and value is not missing
        return (self._deserialize if is_sent else super().deserialize)(value, attr, data)

    def _deserialize(self, value: Any, attr: str | None, data: Any, **_: Any) -> Any:
        if value == "" and self.nullable:
            return None  # the empty string means null (D2)
        try:
            found = self.read(value)
        except values.InvalidValue as unfit:
            raise ValidationError([{"code": unfit.code, "detail": unfit.detail}]) from None
        if found is None and not self.nullable:
            raise self.make_error("required")
        return found

    def _serialize(self, value: Any, attr: str | None, obj: Any, **_: Any) -> Any:
        return self.show(value)

    def schema_type(self) -> dict[str, Any]:
        """The field's JSON Schema; openapi.py adds null, description and example."""
        return {"type": self.json_type}


class Id(Field):
    """A reference to a record: a string of digits on the wire, an integer in the file."""

    # What may be of two types is documented as `anyOf`: of a list of types @hey-api takes the last.

    @property
    def code(self) -> str:
        return "{v} and str({v})" if self.nullable else "str({v})"

    def read(self, value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, (str, int)):
            raise values.InvalidValue("invalid_type", "must be an id")
        if (found := integer_id(value)) < 0:
            raise values.InvalidValue("unknown_id", "there is no record with this id")
        return found

    def show(self, value: Any) -> str | None:
        return None if value is None else str(value)

    def schema_type(self) -> dict[str, Any]:
        as_text = {"type": "string", "maxLength": 18}
        return {"anyOf": [as_text, {"type": "integer"}]} if self.incoming else as_text


class Text(Field):
    """One line of at most `longest` characters; empty means null."""

    def __init__(self, longest: int, **options: Any):
        super().__init__(**options)
        self.longest = longest

    def read(self, value: Any) -> str | None:
        return values.one_line(value, self.longest)

    def schema_type(self) -> dict[str, Any]:
        found: dict[str, Any] = {"type": "string", "maxLength": self.longest}
        if self.incoming and not self.nullable:
            found["minLength"] = 1
        return found


class LongText(Text):
    """Text with line breaks."""

    def __init__(self, **options: Any):
        super().__init__(20_000, **options)

    def read(self, value: Any) -> str | None:
        return values.long_text(value, self.longest)


class Phone(Text):
    """A phone number, kept as E.164."""

    def __init__(self, **options: Any):
        super().__init__(32, **options)
        self.example = "+380501234567"

    def read(self, value: Any) -> str | None:
        return values.phone(value)


class Email(Text):
    def __init__(self, **options: Any):
        super().__init__(254, **options)
        self.example = "olena@example.com"

    def read(self, value: Any) -> str | None:
        return values.email(value)


class Currency(Field):
    """An ISO 4217 code."""

    def read(self, value: Any) -> str:
        return values.currency(value)

    def schema_type(self) -> dict[str, Any]:
        return {"type": "string", "pattern": "^[A-Za-z]{3}$" if self.incoming else "^[A-Z]{3}$"}


class Choice(Field):
    """One of a few words."""

    def __init__(self, *choices: str, **options: Any):
        super().__init__(**options)
        self.choices = choices

    def read(self, value: Any) -> str:
        if value not in self.choices:
            raise values.InvalidValue("invalid_choice", f"must be one of {', '.join(self.choices)}")
        return value

    def schema_type(self) -> dict[str, Any]:
        return {"type": "string", "enum": list(self.choices)}


class Boolean(Field):
    """true or false."""

    code = "{v} == 1"
    json_type = "boolean"

    def read(self, value: Any) -> int:
        if not isinstance(value, bool):
            raise values.InvalidValue("invalid_type", "must be true or false")
        return int(value)

    def show(self, value: Any) -> bool:
        return value == 1


class Integer(Field):
    """A whole number in a range."""

    def __init__(self, least: int, most: int, **options: Any):
        super().__init__(**options)
        self.least, self.most = least, most

    def read(self, value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int):
            raise values.InvalidValue("invalid_type", "must be a whole number")
        if not self.least <= value <= self.most:
            raise values.InvalidValue("out_of_range", f"must be from {self.least} to {self.most}")
        return value

    def schema_type(self) -> dict[str, Any]:
        return {"type": "integer", "minimum": self.least, "maximum": self.most}


class Number(Field):
    """An exact number with a few decimals; a JSON number, or a numeric string when sent."""

    scale = 10_000
    least = 0

    def __init__(self, read: Callable[[Any], int], most: float, **options: Any):
        super().__init__(**options)
        self.read, self.most = read, most

    @property
    def code(self) -> str:
        shown = f"as_number({{v}}, {self.scale})"
        return f"None if {{v}} is None else {shown}" if self.nullable else shown

    def show(self, value: Any) -> Any:
        return None if value is None else values.as_number(value, self.scale)

    def schema_type(self) -> dict[str, Any]:
        found = {"type": "number", "minimum": self.least, "maximum": self.most}
        as_text = {"type": "string", "pattern": r"^[0-9]{1,14}(\.[0-9]{1,4})?$"}
        return {"anyOf": [found, as_text]} if self.incoming else found


class Price(Number):
    """Money with up to 4 decimals."""

    def __init__(self, **options: Any):
        super().__init__(
            lambda value: values.money(value, 4, values.PRICE_MAX), 9_999_999_999.9999, **options
        )


class Amount(Number):
    """Money with up to 2 decimals."""

    def __init__(self, **options: Any):
        super().__init__(
            lambda value: values.money(value, 2, values.AMOUNT_MAX),
            9_999_999_999_999.99,
            **options,
        )


class Quantity(Number):
    """More than zero, up to 3 decimals."""

    scale = 1000
    least = 0.001

    def __init__(self, **options: Any):
        super().__init__(values.quantity, 999_999.999, **options)


class DateTime(Field):
    """RFC 3339 with an offset or Z when sent, UTC to the second when shown."""

    def read(self, value: Any) -> str:
        return values.moment(value)

    def schema_type(self) -> dict[str, Any]:
        return {"type": "string", "format": "date-time"}


class PastDateTime(DateTime):
    """A moment that isn't in the future (D17). Null when sent means absent."""

    def variant(self, *, incoming: bool, required: bool) -> Field:
        found = super().variant(incoming=incoming, required=required)
        found.allow_none = found.nullable = incoming or self.nullable and not self.create_only
        return found

    def read(self, value: Any) -> str:
        found = values.moment(value)
        if found > now():
            raise values.InvalidValue("in_the_future", "must not be in the future")
        return found


class Date(Field):
    """YYYY-MM-DD."""

    def read(self, value: Any) -> str:
        return values.day(value)

    def schema_type(self) -> dict[str, Any]:
        return {"type": "string", "format": "date"}


class Collection(Field):
    """A JSON text in the file, null when empty; never null when shown. Null when sent clears."""

    empty: type

    def __init__(self, **options: Any):
        super().__init__(nullable=False, **options)

    def variant(self, *, incoming: bool, required: bool) -> Field:
        found = super().variant(incoming=incoming, required=required)
        found.allow_none = incoming
        return found

    def _deserialize(self, value: Any, attr: str | None, data: Any, **_: Any) -> str | None:
        found = super()._deserialize(value, attr, data)
        return None if found in ("[]", "{}") else found

    def show(self, value: Any) -> Any:
        return loads(value) if value else self.empty()


class Tags(Collection):
    """A list of words; case doesn't distinguish them."""

    code = "loads({v}) if {v} else []"
    json_type = "array"
    empty = list

    def read(self, value: Any) -> str:
        return dumps(values.tag_list(value) if value != "" else []).decode()

    def schema_type(self) -> dict[str, Any]:
        tag = {"type": "string", "minLength": 1, "maxLength": 64}
        return {"type": "array", "items": tag, "maxItems": 50}


class Extra(Collection):
    """A free JSON object of at most 50 keys, 16 KiB, depth 4."""

    code = "loads({v}) if {v} else {{}}"
    json_type = "object"
    empty = dict

    def read(self, value: Any) -> str:
        return values.json_object(value)

    def schema_type(self) -> dict[str, Any]:
        return {"type": "object", "additionalProperties": True}


class Color(Field):
    """#rrggbb."""

    def read(self, value: Any) -> str:
        if not isinstance(value, str) or not re.match(r"#[0-9a-fA-F]{6}\Z", value):
            raise values.InvalidValue("invalid_color", "must look like #1f6feb")
        return value.lower()

    def schema_type(self) -> dict[str, Any]:
        return {"type": "string", "pattern": "^#[0-9a-fA-F]{6}$"}
