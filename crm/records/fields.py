"""The fields of schemas: what may be sent, how it is stored, how it is shown (D2).

Loading a field returns the stored value: money in 1/10 000, a quantity in 1/1 000, lists and
objects as JSON texts. `show` turns a stored value into its form on the wire.
"""

import re
from collections.abc import Callable
from copy import copy
from datetime import time
from typing import Any

from marshmallow import ValidationError, missing
from marshmallow import fields as ma

from crm import values
from crm.json import dumps, integer_id, loads
from crm.storage.session import now


class Field(ma.Field):
    """A field whose loaded value is the stored one.

    required: must be sent on create.
    allow_none: may be null, also in answers; by default true of optional fields without a default.
    dump_only: shown, never set. load_only: set, never shown.
    takes_null: may be null when sent, though not when shown.
    create_only: may be sent on create and is read-only afterwards.
    column: the SQL expression shown, by default the column of the field's name.
    default: the value, in its form on the wire, of a new record that is sent without it.
    about, example: a sentence and an example for the documentation.
    """

    incoming = True
    is_patch = False  # whether it is for changes of a record
    wire_schema: dict[str, Any] = {"type": "string"}

    def __init__(
        self,
        *,
        required: bool = False,
        allow_none: bool | None = None,
        dump_only: bool = False,
        load_only: bool = False,
        takes_null: bool = False,
        create_only: bool = False,
        column: str = "",
        default: Any = None,
        about: str = "",
        example: Any = None,
    ):
        is_optional = not required and not dump_only and default is None
        super().__init__(
            required=required,
            allow_none=is_optional if allow_none is None else allow_none,
            dump_only=dump_only,
            load_only=load_only,
            metadata={},
        )
        self.takes_null = takes_null
        self.create_only = create_only
        self.column = column
        self.default_value = default
        self.about = about
        self.example = example

    def __copy__(self) -> "Field":  # schemas copy their fields, and copy() takes four times as long
        field = object.__new__(type(self))
        vars(field).update(vars(self))
        return field

    def variant(self, *, incoming: bool, required: bool) -> "Field":
        """A copy for a schema of one direction, which no schema has bound to itself yet.

        incoming: whether it is for what is sent, not for what is shown.
        """
        field = copy(self)
        # A bound field would keep its first schema, and with that its context and its name.
        field.parent = field.root = field.name = None
        field.incoming = incoming
        field.required = required
        field.dump_only = field.load_only = False
        if self.takes_null:
            field.allow_none = incoming
        return field

    def make_error(self, key: str, **_: Any) -> ValidationError:
        texts = {"required": "this field is required", "null": "this field may not be null"}
        return ValidationError([{"code": key, "detail": texts.get(key, "this value does not fit")}])

    def read(self, value: Any) -> Any:
        """The stored form of a value that was sent; raises values.InvalidValue."""
        return value

    def show(self, value: Any) -> Any:
        """The form on the wire of a stored value; the reverse of read()."""
        return value

    @property
    def converter(self) -> Callable[[Any], Any] | None:
        """`show`, or None if stored values are shown as they are."""
        return None if type(self).show is Field.show else self.show

    def deserialize(self, value: Any, attr: str | None = None, data: Any = None, **_: Any) -> Any:
        """As marshmallow's, without the hooks and validators that no field here has."""
        is_absent = value is None or value is missing
        return (super().deserialize if is_absent else self._deserialize)(value, attr, data)

    def _deserialize(self, value: Any, attr: str | None, data: Any, **_: Any) -> Any:
        if value == "" and self.empty_is_null:
            return None
        try:
            stored = self.read(value)
        except values.InvalidValue as error:
            raise ValidationError([{"code": error.code, "detail": error.detail}]) from None
        if stored is None and not self.allow_none:
            raise self.make_error("required")
        return stored

    @property
    def empty_is_null(self) -> bool:
        """Whether the empty string means null (D2)."""
        return self.allow_none

    def schema_type(self) -> dict[str, Any]:
        """The field's JSON Schema; openapi.py adds null, description and example."""
        return dict(self.wire_schema)


class Id(Field):
    """A reference to a record: a string of digits on the wire, an integer in the file."""

    # What may be of two types is documented as `anyOf`: of a list of types @hey-api takes the last.

    def read(self, value: Any) -> int:
        value = values.whole_number(value)
        if isinstance(value, bool) or not isinstance(value, (str, int)):
            raise values.InvalidValue("invalid_type", "must be an id")
        if (id := integer_id(value)) < 0:
            raise values.InvalidValue("unknown_id", "there is no record with this id")
        return id

    def show(self, value: Any) -> str | None:
        return None if value is None else str(value)

    def schema_type(self) -> dict[str, Any]:
        as_text = {"type": "string", "maxLength": 18}
        return {"anyOf": [as_text, {"type": "integer"}]} if self.incoming else as_text


class Text(Field):
    """One line of at most `max_length` characters; empty means null."""

    def __init__(self, max_length: int, **options: Any):
        super().__init__(**options)
        self.max_length = max_length

    def read(self, value: Any) -> str | None:
        return values.one_line(value, self.max_length)

    def schema_type(self) -> dict[str, Any]:
        schema: dict[str, Any] = {"type": "string", "maxLength": self.max_length}
        if self.incoming and not self.allow_none:
            schema["minLength"] = 1
        return schema


class LongText(Text):
    """Text with line breaks, of at most 20,000 characters."""

    def __init__(self, **options: Any):
        super().__init__(20_000, **options)

    def read(self, value: Any) -> str | None:
        return values.long_text(value, self.max_length)


class Phone(Text):
    """A phone number, stored as E.164."""

    def __init__(self, **options: Any):
        super().__init__(32, **{"example": "+380501234567", **options})

    def read(self, value: Any) -> str | None:
        try:
            return values.phone(value)
        except values.InvalidValue as error:
            if self.incoming or error.code != "invalid_phone":
                raise
            return str(value)  # a filter, which finds no record


class Email(Text):
    """An e-mail address."""

    def __init__(self, **options: Any):
        super().__init__(254, **{"example": "olena@example.com", **options})

    def read(self, value: Any) -> str | None:
        return values.email(value)


class Currency(Field):
    """An ISO 4217 code."""

    def read(self, value: Any) -> str:
        return values.currency(value)

    def schema_type(self) -> dict[str, Any]:
        return {"type": "string", "pattern": f"^({'|'.join(sorted(values.CURRENCIES))})$"}


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

    wire_schema = {"type": "boolean"}

    def read(self, value: Any) -> int:
        if not isinstance(value, bool):
            raise values.InvalidValue("invalid_type", "must be true or false")
        return int(value)

    def show(self, value: Any) -> bool:
        return value == 1


class Integer(Field):
    """A whole number in a range, by default a count."""

    def __init__(self, minimum: int = 0, maximum: int = 1 << 53, **options: Any):
        super().__init__(**options)
        self.minimum, self.maximum = minimum, maximum

    def read(self, value: Any) -> int:
        value = values.whole_number(value)
        if isinstance(value, bool) or not isinstance(value, int):  # True is an int in Python
            raise values.InvalidValue("invalid_type", "must be a whole number")
        if not self.minimum <= value <= self.maximum:
            detail = f"must be from {self.minimum} to {self.maximum}"
            raise values.InvalidValue("out_of_range", detail)
        return value

    def schema_type(self) -> dict[str, Any]:
        return {"type": "integer", "minimum": self.minimum, "maximum": self.maximum}


class Number(Field):
    """An exact number with a few decimals; a JSON number, or a numeric string when sent."""

    scale = 10_000
    takes_percent = False  # a cell of a file may be 5%
    minimum: float = 0
    maximum: float
    text_pattern = r"^[0-9]{1,14}(\.[0-9]{1,4})?$"

    def show(self, value: Any) -> Any:
        return None if value is None else values.as_number(value, self.scale)

    def schema_type(self) -> dict[str, Any]:
        schema = {"type": "number", "minimum": self.minimum, "maximum": self.maximum}
        as_text = {"type": "string", "pattern": self.text_pattern}
        return {"anyOf": [schema, as_text]} if self.incoming else schema


class Price(Number):
    """Money with up to 4 decimals."""

    maximum = 9_999_999_999.9999

    def read(self, value: Any) -> int:
        return values.money(value, 4, values.PRICE_MAX)


class Amount(Number):
    """Money with up to 2 decimals."""

    maximum = 9_999_999_999_999.99

    def read(self, value: Any) -> int:
        return values.money(value, 2, values.AMOUNT_MAX)


class Quantity(Number):
    """More than zero, up to 3 decimals."""

    scale = 1000
    minimum = 0.001
    maximum = 999_999.999
    text_pattern = r"^0{0,9}([1-9][0-9]{0,5}(\.[0-9]{1,3})?|0\.[0-9]{0,2}[1-9]0{0,9})$"

    def read(self, value: Any) -> int:
        return values.quantity(value)


class DateTime(Field):
    """RFC 3339 with an offset or Z when sent, UTC to the second when shown."""

    wire_schema = {"type": "string", "format": "date-time"}
    time_of_day = time()  # of a date alone in a file or a form

    def read(self, value: Any) -> str:
        return values.moment(value)


class PastDateTime(DateTime):
    """A moment that isn't in the future (D17). Null when sent means absent."""

    def variant(self, *, incoming: bool, required: bool) -> Field:
        field = super().variant(incoming=incoming, required=required)
        field.allow_none = incoming or (self.allow_none and not self.create_only)
        return field

    def read(self, value: Any) -> str:
        if (moment := values.moment(value)) > now():
            raise values.InvalidValue("in_the_future", "must not be in the future")
        return moment


class Date(Field):
    """YYYY-MM-DD."""

    wire_schema = {"type": "string", "format": "date"}

    def read(self, value: Any) -> str:
        return values.day(value)


class Collection(Field):
    """A JSON text in the file, null when empty; never null when shown. Null when sent clears."""

    empty: type

    def __init__(self, **options: Any):
        super().__init__(allow_none=False, takes_null=True, **options)

    empty_is_null = False

    def _deserialize(self, value: Any, attr: str | None, data: Any, **_: Any) -> str | None:
        text = super()._deserialize(value, attr, data)
        # One stored form of "empty", so that a change to it is recognised as none.
        return None if text in ("[]", "{}") else text

    def show(self, value: Any) -> Any:
        return loads(value) if value else self.empty()


class Tags(Collection):
    """A list of words; case doesn't distinguish them."""

    empty = list

    def read(self, value: Any) -> str:
        return dumps(values.tag_list(value) if value != "" else []).decode()

    def schema_type(self) -> dict[str, Any]:
        tag = {"type": "string", "minLength": 1, "maxLength": 64}
        return {"type": "array", "items": tag, "maxItems": 50}


class Extra(Collection):
    """A free JSON object of at most 50 keys, 16 KiB, depth 4."""

    wire_schema = {"type": "object", "additionalProperties": True}

    empty = dict

    def read(self, value: Any) -> str:
        return values.json_object(value)


class Color(Field):
    """#rrggbb."""

    wire_schema = {"type": "string", "pattern": "^#[0-9a-fA-F]{6}$"}

    def read(self, value: Any) -> str:
        if not isinstance(value, str) or not re.match(r"#[0-9a-fA-F]{6}\Z", value):
            raise values.InvalidValue("invalid_color", "must look like #1f6feb")
        return value.lower()
