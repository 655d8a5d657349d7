"""Columns of records: one declaration binds a peewee field to its marshmallow field.

    class Lead(SoftDeletedRecord):
        name = columns.Text(255, required=True, searched=True, label="Name")

From it come the column of the table, the schemas of what may be sent and of what is shown
(schemas.py, views.py), filters and sorting (queries.py), the search text, the columns of
spreadsheets, the field of forms with its label, and the documentation.
"""

from collections.abc import Callable
from functools import cached_property
from inspect import isfunction
from typing import Any, ClassVar

from peewee import AutoField, IntegerField, TextField
from peewee import Field as PeeweeField

from crm.records import fields


def N_(text: str) -> str:  # gettext's usual name for it
    """Mark a text for extraction into the translations' catalogs; returns it as it is."""
    return text


class Column(PeeweeField):
    """A peewee field that has a marshmallow field, `wire`, which describes it outside.

    Positional arguments and options that are not named here go to the marshmallow field, such as
    `required`, `allow_none`, `dump_only`, `default`, `example`, `about`.

    wire: the marshmallow field, where it is not one of `wire_type`.
    null: whether the column may be NULL; by default unless a value is required.
    label: what people call it, marked by N_().
    searched: whether `q` looks into it.
    filtered: the query parameter of its name (queries.py); its value is read as the column's.
    sorted: whether lists may be sorted by it; an SQL expression where null needs a place.
    csv: whether spreadsheets have it as a column; of a read-only time: new records bring it along.
    aliases: other headers of it in files, in lower case.
    form: whether forms show it; "new": also the short form of a new record.
    """

    wire_type: ClassVar[Callable[..., fields.Field]]

    def __init__(
        self,
        *args: Any,
        wire: fields.Field | None = None,
        null: bool | None = None,
        label: str = "",
        searched: bool = False,
        filtered: Any = None,
        sorted: bool | str = False,
        csv: bool | None = None,
        aliases: tuple[str, ...] = (),
        form: bool | str | None = None,
        **options: Any,
    ):
        self.wire = wire or type(self).wire_type(*args, **options)
        is_set = self.wire.dump_only or self.wire.required or self.wire.default is not None
        super().__init__(null=not is_set if null is None else null)
        self.label = label
        self.searched = searched
        self.filtered = filtered
        self.sorted = sorted
        may_change = not (self.wire.dump_only or self.wire.create_only)
        self.csv = not self.wire.dump_only if csv is None else csv
        self.aliases = aliases
        self.form = may_change and bool(label) if form is None else form


class Shown:
    """A field that is shown, and may be sent, without a column of its own.

    wire: the marshmallow field, whose `column` is the SQL expression that is shown; or a function
    that makes it, where it needs schemas that are defined after the model.
    """

    csv = form = False
    searched, filtered, sorted = False, None, False
    aliases: tuple[str, ...] = ()

    def __init__(self, wire: Any, label: str = ""):
        self._wire = wire
        self.label = label

    @cached_property
    def wire(self) -> Any:
        return self._wire() if isfunction(self._wire) else self._wire


class PrimaryId(Column, AutoField):
    """The id of a record, never reused."""

    wire_type = fields.Id

    def __init__(self) -> None:
        super().__init__(dump_only=True, null=False)


class Id(Column, IntegerField):
    wire_type = fields.Id


class Text(Column, TextField):
    wire_type = fields.Text


class LongText(Column, TextField):
    wire_type = fields.LongText


class Phone(Column, TextField):
    wire_type = fields.Phone


class Email(Column, TextField):
    wire_type = fields.Email


class Currency(Column, TextField):
    wire_type = fields.Currency


class Choice(Column, TextField):
    wire_type = fields.Choice


class Boolean(Column, IntegerField):
    wire_type = fields.Boolean


class Integer(Column, IntegerField):
    wire_type = fields.Integer


class Price(Column, IntegerField):
    wire_type = fields.Price


class Amount(Column, IntegerField):
    wire_type = fields.Amount


class Quantity(Column, IntegerField):
    wire_type = fields.Quantity


class DateTime(Column, TextField):
    wire_type = fields.DateTime


class PastDateTime(Column, TextField):
    wire_type = fields.PastDateTime


class Date(Column, TextField):
    wire_type = fields.Date


class Tags(Column, TextField):
    wire_type = fields.Tags


class Extra(Column, TextField):
    wire_type = fields.Extra


class Color(Column, TextField):
    wire_type = fields.Color


def declared(model: type) -> dict[str, Column | Shown]:
    """The declared fields of a model in the order they are shown: its id, its own in the order of
    declaration, then those it inherits."""
    attributes = ((name, getattr(model, name, None)) for name in ("id", *vars(model)))
    return {name: value for name, value in attributes if isinstance(value, (Column, Shown))}
