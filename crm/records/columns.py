"""Columns of records: one declaration binds a peewee field to its marshmallow field.

    class Lead(SoftDeletedRecord):
        name = columns.Text(255, required=True, searched=True, label="Name")

From it come the column of the table, the schemas of what may be sent and of what is shown
(schemas.py, views.py), filters and sorting (queries.py), the search text, the columns of
spreadsheets, the field of forms with its label, and the documentation.
"""

from collections.abc import Callable
from functools import cache, cached_property
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
    null: whether the column may be NULL; by default if a value may be null, or is a collection.
    label: what people call it, marked by N_().
    searched: whether `q` looks into it.
    filtered: the query parameter of its name (queries.py); its value is read as the column's.
    sorted: whether lists may be sorted by it; an SQL expression where null needs a place.
    csv: whether spreadsheets have it as a column, by default unless it is read-only or an id; of a
    read-only time: new records bring it along.
    references: the table of the record whose id it is.
    aliases: other headers of it in files, in lower case.
    form: whether forms show it, by default if it has a label and may be changed; "new": also the
    short form of a new record, by default if it is required.
    """

    wire_type: ClassVar[Callable[..., fields.Field]]

    def __init__(
        self,
        *args: Any,
        wire: Any = None,
        null: bool | None = None,
        label: str = "",
        searched: bool = False,
        filtered: Any = None,
        sorted: bool | str = False,
        csv: bool | None = None,
        references: str = "",
        aliases: tuple[str, ...] = (),
        form: bool | str | None = None,
        **options: Any,
    ):
        self.wire = wire or type(self).wire_type(*args, **options)
        is_nullable = self.wire.allow_none or isinstance(self.wire, fields.Collection)
        super().__init__(null=is_nullable if null is None else null)
        self.label = label
        self.searched = searched
        self.filtered = filtered
        self.sorted = sorted
        may_change = not (self.wire.dump_only or self.wire.create_only)
        is_plain = not self.wire.dump_only and not isinstance(self.wire, fields.Id)
        self.csv = is_plain if csv is None else csv
        self.references = references
        self.aliases = aliases
        default_form = "new" if self.wire.required else may_change
        self.form = bool(label) and default_form if form is None else form


class Shown:
    """A field that is shown, and may be sent, without a column of its own.

    wire: the marshmallow field, whose `column` is the SQL expression that is shown; or a function
    that makes it, where it needs schemas that are defined after the model.
    """

    csv = form = False
    searched, filtered, sorted = False, None, False
    references = ""
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
        super().__init__(dump_only=True)


def _column(wire_type: type[fields.Field], peewee_type: type[PeeweeField]) -> type[Column]:
    """The class of the columns that are stored as `peewee_type` and sent as `wire_type`."""
    return type(wire_type.__name__, (Column, peewee_type), {"wire_type": wire_type})


class _MergedExtra(fields.Extra):
    """An Extra of a record: a change sends the keys that it changes, maybe none."""

    def _deserialize(self, value: Any, attr: str | None, data: Any, **_: Any) -> str | None:
        return "{}" if value == {} else super()._deserialize(value, attr, data)


Id = _column(fields.Id, IntegerField)
Text = _column(fields.Text, TextField)
LongText = _column(fields.LongText, TextField)
Phone = _column(fields.Phone, TextField)
Email = _column(fields.Email, TextField)
Currency = _column(fields.Currency, TextField)
Choice = _column(fields.Choice, TextField)
Boolean = _column(fields.Boolean, IntegerField)
Integer = _column(fields.Integer, IntegerField)
Price = _column(fields.Price, IntegerField)
Amount = _column(fields.Amount, IntegerField)
Quantity = _column(fields.Quantity, IntegerField)
DateTime = _column(fields.DateTime, TextField)
PastDateTime = _column(fields.PastDateTime, TextField)
Date = _column(fields.Date, TextField)
Tags = _column(fields.Tags, TextField)
Extra = _column(fields.Extra, TextField)
MergedExtra = _column(_MergedExtra, TextField)
Color = _column(fields.Color, TextField)


@cache
def declared(model: type) -> dict[str, Column | Shown]:
    """The declared fields of a model in the order they are shown: its id, its own in the order of
    declaration, then those it inherits."""
    attributes = ((name, getattr(model, name, None)) for name in ("id", *vars(model)))
    return {name: value for name, value in attributes if isinstance(value, (Column, Shown))}
