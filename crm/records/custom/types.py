"""The types of custom fields: what a value of each is on the wire, and how lists find it.

A type is a class: the field that reads and shows a value, with what else depends on the type. What
forms, files and pages do with a value follows from the field class that it extends.
"""

from collections.abc import Sequence
from typing import Any, ClassVar

from crm import values
from crm.json import dumps
from crm.records import fields
from crm.records.columns import N_
from crm.storage.session import row

TEXTS, NUMBERS = "custom_text", "custom_number"  # the tables that values are found by
MAX_URL_CHARACTERS = 2048


TYPES: dict[str, type["CustomType"]] = {}


class CustomType(fields.Field):
    """A type of custom fields, for one field.

    type_name: what the API calls it; label: what people call it.
    found_in: the table by which lists find a value; empty if they cannot.
    is_range: whether lists may be filtered by a range of values, and sorted.
    groups: whether reports may count by its values.
    is_summed: whether reports may sum its values.
    references: the table of the record whose id it is.
    choices: the keys of its options, of a type that has such.
    """

    type_name: ClassVar[str]
    label: ClassVar[str]
    found_in: ClassVar[str] = TEXTS
    is_range: ClassVar[bool] = False
    groups: ClassVar[bool] = False
    is_summed: ClassVar[bool] = False
    references: ClassVar[str] = ""
    has_options: ClassVar[bool] = False
    choices: tuple[str, ...] = ()

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "type_name" in vars(cls):
            TYPES[cls.type_name] = cls

    def __init__(self, choices: Sequence[str] = ()):
        fields.Field.__init__(self, allow_none=True)  # what its base takes, the class has
        self.choices = (*choices,)

    def keys(self, shown: Any) -> list[Any]:
        """By what a value, as it is shown, is found in `found_in`."""
        return [shown]


class Text(CustomType, fields.Text):
    type_name, label = "text", N_("Text")
    max_length = 255


class LongText(CustomType, fields.LongText):
    type_name, label, found_in = "long_text", N_("Long text"), ""
    max_length = 20_000


class _Numeric(CustomType):
    """A type whose values are found by integers."""

    found_in = NUMBERS

    def keys(self, shown: Any) -> list[int]:
        return [self.read(shown)]


class Number(_Numeric, fields.Number):
    """An exact number, also below zero, with at most 4 decimals."""

    type_name, label = "number", N_("Number")
    is_range, is_summed = True, True
    maximum = 99_999_999_999.9999
    minimum = -maximum
    text_pattern = r"^-?[0-9]{1,11}(\.[0-9]{1,4})?$"

    def read(self, value: Any) -> int:
        return values.number(value)


class Money(_Numeric, fields.Amount):
    """An amount in the tenant's currency."""

    type_name, label = "money", N_("Amount of money")
    is_range, is_summed = True, True


class Date(CustomType, fields.Date):
    type_name, label, is_range = "date", N_("Date"), True


class Flag(_Numeric, fields.Boolean):
    type_name, label, groups = "flag", N_("Yes or no"), True


class Choice(CustomType, fields.Choice):
    type_name, label, groups, has_options = "choice", N_("One of a list"), True, True


class Choices(CustomType, fields.Tags):
    """Several options, stored as the JSON text of their keys in the order of the options."""

    type_name, label, has_options = "choices", N_("Several of a list"), True

    def read(self, value: Any) -> str:
        chosen = value or []
        if not isinstance(chosen, list):
            raise values.InvalidValue("invalid_type", "must be a list of keys of options")
        if unknown := [key for key in chosen if key not in self.choices]:
            known = ", ".join(self.choices)
            raise values.InvalidValue("invalid_choice", f"{unknown[0]} is none of {known}")
        return dumps([key for key in self.choices if key in chosen]).decode()

    def keys(self, shown: list[str]) -> list[str]:
        return shown

    def schema_type(self) -> dict[str, Any]:
        items = {"type": "string", "enum": [*self.choices]}
        return {"type": "array", "items": items, "maxItems": len(self.choices)}


class Url(CustomType, fields.Text):
    """An address of the web."""

    type_name, label = "url", N_("Web address")
    max_length = MAX_URL_CHARACTERS

    def read(self, value: Any) -> str | None:
        text = super().read(value)
        if text and not text.lower().startswith(("http://", "https://")):
            raise values.InvalidValue("invalid_url", "must begin with https:// or http://")
        return text


class _Reference(CustomType, fields.Id):
    """The id of another record of the tenant, which exists when it is sent."""

    found_in = NUMBERS
    condition: ClassVar[str] = "TRUE"

    def keys(self, shown: str) -> list[int]:
        return [int(shown)]

    def read(self, value: Any) -> int:
        id = super().read(value)
        if self.incoming:
            sql = f'SELECT 1 FROM "{self.references}" WHERE id = ? AND {self.condition}'
            if row(sql, (id,), own=True) is None:
                detail = f"there is no {self.references} with the id {id}"
                raise values.InvalidValue("unknown_id", detail)
        return id


class User(_Reference):
    type_name, label, references, groups = "user", N_("User"), "user", True


class Client(_Reference):
    type_name, label, references = "client", N_("Client"), "client"
    condition = "deleted_at IS NULL"
