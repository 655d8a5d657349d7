"""Columns of files: how the cells of each are read into stored form and written (D2, D9).

Columns of plain values come from the declaration of the record's fields. Numbers, dates, yes and no
are spelled as `cells.py` says. A time is RFC 3339, or without a zone that of the tenant, or a date:
the beginning of that day, or its end if something is due then. A choice is its value or what people
call it. Tags stand in one cell with commas between; in quotes, if one has a separator itself.
`extra` is its JSON text.
"""

import csv
import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

from crm import values
from crm.json import loads
from crm.records import fields
from crm.records.columns import declared
from crm.records.custom.fields import CustomField
from crm.records.record import Record
from crm.records.words import WordField
from crm.spreadsheets.cells import (
    DAMAGES,
    EXACT,
    Spelling,
    clean,
    decimal_mark,
    decimal_writer,
    parse_boolean,
    parse_date,
    parse_decimal,
    parse_moment,
    several,
    split_money,
)
from crm.spreadsheets.labels import LANGUAGES, choice_value, header, word_key, words
from crm.spreadsheets.marked_cells import NUMBER, unmark
from crm.values import InvalidValue

ID = fields.Id()
GROUP_OF_GOOGLE = "* "  # begins the labels that Google gives by itself
BOOLEAN_TEXTS = {0: "false", 1: "true"}
THREE_DIGITS = re.compile(r"[.,][0-9]{3}(?![0-9])")  # thousands, or decimals
MAX_PLAIN_CHARACTERS = 10_000_000  # of a column, with its repetitions
MAX_FAST_DIGITS = 9  # before the point; what has more may be beyond the limits of money

Read = Callable[[str, Spelling], Any]
Write = Callable[[Any], str]


class BadCell(NamedTuple):
    """Stands for the value of a cell that does not fit."""

    code: str
    detail: str


@dataclass(frozen=True)
class FileColumn:
    """A column of a file.

    `sql`: the expression that an export selects; "" for a column that is only read.
    `read`: turns a trimmed cell with content into the stored value, None where it is as good as
    empty; raises InvalidValue.
    `write`: gives the function that turns a stored value into a cell, for the excel dialect or the
    plain one; None where the stored text is the cell.
    `field`: the wire field of a plain value, `label` what people call it.
    `aliases`: other headers that the column may have, in lower case.
    `max_plain_length`: a printable text of at most so many characters is only trimmed by `read`.
    `is_text`: a spreadsheet could take a cell for a formula.
    `is_create_only`: ignored for records that exist.
    `is_past`: a time that must not be in the future.
    `shows`: the plural of another resource whose data the column shows.
    `custom`: the field of the tenant's own whose values it has, and `named` gives what people call
    a stored value of that.
    """

    name: str
    sql: str
    read: Read
    write: Callable[[bool], Write] | None = None
    field: fields.Field | None = None
    label: str = ""
    aliases: tuple[str, ...] = ()
    max_plain_length: int = 0
    is_text: bool = True
    is_create_only: bool = False
    is_past: bool = False
    shows: str = ""
    custom: CustomField | None = None
    named: Write | None = None

    @property
    def is_date(self) -> bool:
        """Whether it has dates or times."""
        return isinstance(self.field, (fields.Date, fields.DateTime))

    def read_cells(self, cells: Sequence[str], spelling: Spelling = EXACT) -> list[Any]:
        """The stored value of each cell: None where it is empty, BadCell where it does not fit."""
        # All are looked at as one text: 5 ms for 50,000 cells instead of 15 to 80. If rows repeat
        # a long text, it would be much more than their file.
        max_plain_length, read = self.max_plain_length, self.read
        is_plain = max_plain_length and sum(map(len, cells)) <= MAX_PLAIN_CHARACTERS
        text = f" {' '.join(cells if is_plain else {*cells})}"
        is_damaged = any(sign in text and part in text for sign, part in DAMAGES)
        is_printable = text.isprintable()  # marks are not
        if (
            is_plain
            and not is_damaged
            and is_printable
            and unicodedata.is_normalized("NFC", text)
            and max(map(len, cells), default=0) <= max_plain_length
        ):
            return [cell.strip() or None for cell in cells]

        is_number = isinstance(self.field, (fields.Number, fields.Integer))
        if is_number and THREE_DIGITS.search(text):
            marks = decimal_mark(cells) or spelling.decimal_marks
            spelling = spelling._replace(decimal_marks=marks)
        of_workbook = spelling._replace(decimal_marks=".")

        def read_cell(cell: str) -> Any:
            spelled = spelling if is_printable or cell[:1] != NUMBER else of_workbook
            try:
                text = cell if is_printable else unmark(cell, self.field)
                text = clean(text, spelling.is_exact, is_number) if is_damaged else text.strip()
                return read(text, spelled) if text else None
            except InvalidValue as invalid:
                return BadCell(invalid.code, invalid.detail)

        values = {cell: read_cell(cell) for cell in {*cells}}
        return [values[cell] for cell in cells]

    def text(self, value: Any) -> str:
        """The cell of one stored value in the plain dialect."""
        return self.write(False)(value) if self.write else value


def declared_columns(
    model: type[Record],
    replaced: Mapping[str, tuple[FileColumn, ...]] | None = None,
    prefix: str = "",
) -> tuple[FileColumn, ...]:
    """The columns of a record in the order of its declared fields, `external_id` first.

    A field has a column of its name behind `prefix`, if its declaration says so; the id of another
    record has those of reference_columns(). `replaced` has the columns that stand for a field.
    """
    columns: dict[str, tuple[FileColumn, ...]] = {}
    for name, field in declared(model).items():
        if replaced and name in replaced:
            columns[name] = replaced[name]
        elif field.csv and isinstance(field.wire, fields.Id):
            columns[name] = reference_columns(model, name)
        elif field.csv:
            columns[name] = (plain_column(model, name, prefix),)
    first = columns.pop("external_id", ())
    return (*first, *(column for group in columns.values() for column in group))


def plain_column(model: type[Record], name: str, prefix: str = "") -> FileColumn:
    """The column of a declared field that is a plain value.

    A read-only time that files have (`dump_only=True, csv=True`) belongs to history: new records
    bring it along.
    """
    sql = f"{model._meta.table_name}.{name}"
    column = _value_column(prefix + name, sql, declared(model)[name])
    if isinstance(field := column.field, fields.Choice):
        read = lambda cell, _: field.read(choice_value(model.noun, name, cell))  # noqa: E731
        return replace(column, read=read)
    return column


def _value_column(name: str, sql: str, declaration: Any) -> FileColumn:
    field = declaration.wire
    is_plain = type(field).read in (fields.Text.read, fields.LongText.read)
    return FileColumn(
        name,
        sql,
        *_codec(field),
        field,
        declaration.label,
        declaration.aliases,
        max_plain_length=field.max_length if is_plain else 0,
        is_text=not isinstance(field, (fields.Number, fields.Integer)),
        is_create_only=field.create_only or field.dump_only,
        is_past=isinstance(field, fields.PastDateTime) or field.dump_only,
    )


def custom_columns(
    own_fields: Sequence[CustomField], others: Sequence[FileColumn]
) -> Iterator[FileColumn]:
    """The columns of a tenant's own fields, with labels that none of the others has."""
    languages = LANGUAGES if own_fields else ()
    taken = {name for column in others for name in (column.name, *column.aliases)}
    taken |= {header(one.name, one.label, lang).lower() for one in others for lang in languages}
    for field in own_fields:
        sql, label = f"{field.table}.custom", field.label
        label = f"{label} ({field.name})" if label.lower() in taken else label
        taken.add(label.lower())
        column = _value_column(field.name, sql, field)
        if field.references:
            column = reference_column(field.name, sql, shows=f"{field.references}s")
        elif field.options:
            column = replace(column, read=partial(_read_options, field), named=_names_of(field))
        yield replace(column, label=label, custom=field)


def _read_options(field: CustomField, cell: str, spelling: Spelling) -> str | None:
    """The stored form of a cell with keys or labels of options, in any case."""
    # The label of one may be the key of another: programs mean the key, and people the label.
    names = ("label", "key") if spelling.is_exact else ("key", "label")
    keys = {word_key(one[name]): one["key"] for name in names for one in field.options}
    is_list = isinstance(field.wire, fields.Tags) and word_key(cell) not in keys
    texts = split_tags(cell) if is_list else [cell]
    sent = [keys.get(word_key(text), text) for text in texts]
    return field.wire.read(sent if isinstance(field.wire, fields.Tags) else sent[0])


def _names_of(field: CustomField) -> Write:
    if isinstance(field.wire, fields.Tags):
        return lambda keys: join_tags([*map(field.shown_text, loads(keys))])
    return field.shown_text


def reference_columns(model: type[Record], name: str) -> tuple[FileColumn, ...]:
    """The columns of a declared field with the id of another record.

    A user is named by a text, another record by its id and its external_id, unless it was deleted.
    """
    table, other = model._meta.table_name, declared(model)[name].references
    if other == "user":
        return (reference_column(name, f"{table}.{name}", shows="users"),)
    live = f"FROM {other} WHERE {other}.id = {table}.{name} AND deleted_at IS NULL"
    external_id = reference_column(
        f"{other}_external_id", f"(SELECT external_id {live})", shows=f"{other}s"
    )
    return id_column(name, f"(SELECT id {live})"), external_id


def reference_column(name: str, sql: str, max_length: int = 255, shows: str = "") -> FileColumn:
    """A column that names another record by a text."""
    return FileColumn(
        name,
        sql,
        lambda cell, _: values.one_line(cell, max_length),
        max_plain_length=max_length,
        shows=shows,
    )


def id_column(name: str, sql: str) -> FileColumn:
    """A column with the id of a record."""
    return FileColumn(name, sql, lambda cell, _: ID.read(cell), lambda excel: str)


def _codec(field: fields.Field) -> tuple[Read, Callable[[bool], Write] | None]:
    """How cells of a field are read and written."""
    if isinstance(field, fields.Number):
        decimals = len(str(field.scale)) - 1
        least = 2 if isinstance(field, (fields.Amount, fields.Price)) else 0
        return _number_reader(field), lambda excel: decimal_writer(decimals, excel, least)
    if isinstance(field, fields.Integer):
        return lambda cell, file: field.read(_whole_number(cell, file)), lambda excel: str
    if isinstance(field, fields.DateTime):
        return lambda cell, spelling: parse_moment(field, cell, spelling.date_order), None
    if isinstance(field, WordField):
        return lambda cell, _: field.known(field.read(cell)), None
    if isinstance(field, fields.Date):
        return lambda cell, file: field.read(parse_date(cell, file.date_order).date()), None
    if isinstance(field, fields.Tags):
        return lambda cell, _: _tags(field, cell), lambda excel: lambda tags: join_tags(loads(tags))
    if isinstance(field, fields.Extra):
        return lambda cell, _: field.read(_json(cell)), None
    if isinstance(field, fields.Boolean):
        return lambda cell, _: int(parse_boolean(cell)), lambda excel: BOOLEAN_TEXTS.__getitem__
    if isinstance(field, fields.Currency):
        return lambda cell, _: field.read(words("currency").get(word_key(cell), cell)), None
    return lambda cell, _: field.read(cell), None


def _number_reader(field: fields.Number) -> Read:
    # Money is stored with 4 decimals; the short cut takes as many as may be sent.
    max_decimals = {fields.Price: 4, fields.Amount: 2}.get(type(field), -1)

    def read(cell: str, spelling: Spelling) -> int:
        integer, point, decimals = cell.partition(".")
        if (
            spelling.decimal_marks != ","
            and integer.isdecimal()
            and (decimals.isdecimal() or not point)
            and cell.isascii()
            and len(integer) <= MAX_FAST_DIGITS
            and len(decimals) <= max_decimals
        ):
            return int(integer + decimals.ljust(4, "0"))  # most are: 0.4 µs instead of 3
        cell = cell.removesuffix("%").rstrip() if field.takes_percent else cell
        return field.read(split_money(cell, spelling.decimal_marks)[0])

    return read


def _whole_number(cell: str, spelling: Spelling) -> int:
    try:
        return int(parse_decimal(cell, spelling.decimal_marks))
    except ValueError:
        raise InvalidValue("invalid_number", "must be a whole number") from None


def _tags(field: fields.Tags, cell: str) -> str | None:
    """The tags of a cell in stored form."""
    tags = split_tags(cell)
    return field.read(tags) if tags else None


def split_tags(cell: str) -> list[str]:
    """The tags of a cell."""
    if '"' not in cell:
        return [tag for tag in several(cell) if not tag.startswith(GROUP_OF_GOOGLE)]
    if len(cell) > csv.field_size_limit():
        raise InvalidValue("too_long", f"at most {csv.field_size_limit()} characters")
    (parts,) = csv.reader([",".join(cell.splitlines())], skipinitialspace=True)
    return [part for part in parts if part.strip()]


def join_tags(tags: list[str]) -> str:
    """The cell of these tags."""
    return ",".join(
        tag if '"' not in tag and split_tags(tag) == [tag] else '"' + tag.replace('"', '""') + '"'
        for tag in tags
    )


def _json(cell: str) -> Any:
    try:
        return loads(cell)
    except (ValueError, RecursionError):
        raise InvalidValue("invalid_json", "must be a JSON object such as {}") from None
