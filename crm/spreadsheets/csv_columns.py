"""Columns of files: how the cells of each are read into stored form and written (D2, D9).

Columns of plain values come from the declaration of the record's fields. Numbers are spelled
`1250.00` or `1 250,00`. A time is RFC 3339, or without a zone that of the tenant, or a date: the
beginning of that day, or its end if something is due then. A date may also be 31.03.2026, as
spreadsheets save it. A choice is its value or what people call it. Tags stand in one cell with
commas between, one that has a comma itself in quotes. `extra` is its JSON text.
"""

import csv
import io
import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache, partial
from typing import Any, NamedTuple

from crm import values
from crm.json import loads
from crm.records import fields
from crm.records.columns import declared
from crm.records.record import Record
from crm.records.words import WordField
from crm.spreadsheets.cells import decimal_writer, parse_boolean, parse_decimal
from crm.spreadsheets.labels import choice_value
from crm.spreadsheets.marked_cells import unmark
from crm.storage.session import tenant_zone
from crm.values import InvalidValue

ID = fields.Id()
LOCAL_TIME = re.compile(r"(\S{8,10}) (\d\d:\d\d(?::\d\d)?)(?: ([+-]\d\d:\d\d))?")
DOTTED_DATE = re.compile(r"([0-9]{1,2})\.([0-9]{1,2})\.([0-9]{4})")
LINE_BREAKS = re.compile(r"[\r\n]+")
BOOLEAN_TEXTS = {0: "false", 1: "true"}
MAX_PLAIN_CHARACTERS = 10_000_000  # of a column, beyond which each different cell is checked
MAX_FAST_DIGITS = 9  # before the point; what has more may be beyond the limits of money

Read = Callable[[str], Any]
Write = Callable[[Any], str]


class BadCell(NamedTuple):
    """Stands for the value of a cell that does not fit."""

    code: str
    detail: str


@dataclass(frozen=True)
class FileColumn:
    """A column of a file.

    `sql`: the expression that an export selects; "" for a column that is only read.
    `read`: turns a cell with content into the stored value, None where it is as good as empty;
    raises InvalidValue.
    `write`: gives the function that turns a stored value into a cell, for the excel dialect or the
    plain one; None where the stored text is the cell.
    `field`: the wire field of a plain value, `label` what people call it.
    `aliases`: other headers that the column may have, in lower case.
    `max_plain_length`: a printable text of at most so many characters is only trimmed by `read`.
    `is_text`: a spreadsheet could take a cell for a formula.
    `is_create_only`: ignored for records that exist.
    `is_past`: a time that must not be in the future.
    `shows`: the plural of another resource whose data the column shows.
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

    def read_cells(self, cells: Sequence[str]) -> list[Any]:
        """The stored value of each cell: None where it is empty, BadCell where it does not fit."""
        if self.max_plain_length and _are_plain(cells, self.max_plain_length):
            return [cell.strip() or None for cell in cells]
        return list(map(cache(self._read_cell), cells))  # a cell that is repeated is read once

    def _read_cell(self, cell: str) -> Any:
        try:
            return self.read(unmark(cell, self.field)) if cell else None
        except InvalidValue as invalid:
            return None if cell.isspace() else BadCell(invalid.code, invalid.detail)

    def text(self, value: Any) -> str:
        """The cell of one stored value in the plain dialect."""
        return self.write(False)(value) if self.write else value


def _are_plain(cells: Sequence[str], max_length: int) -> bool:
    # Checked for all cells at once: 5 ms for 50,000 cells instead of 15 to 80. Rows that repeat
    # a text would be much more than their file.
    if sum(map(len, cells)) > MAX_PLAIN_CHARACTERS:
        return False
    text = " ".join(cells)
    return (
        text.isprintable()
        and unicodedata.is_normalized("NFC", text)
        and max(map(len, cells), default=0) <= max_length
    )


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
    declaration = declared(model)[name]
    field: Any = declaration.wire
    read, write = _codec(field)
    if isinstance(field, fields.Choice):
        read = lambda cell: field.read(choice_value(model.noun, name, cell))  # noqa: E731
    return FileColumn(
        prefix + name,
        f"{model._meta.table_name}.{name}",
        read,
        write,
        field,
        declaration.label,
        declaration.aliases,
        max_plain_length=field.max_length if type(field) in (fields.Text, fields.LongText) else 0,
        is_text=not isinstance(field, (fields.Number, fields.Integer)),
        is_create_only=field.create_only or field.dump_only,
        is_past=isinstance(field, fields.PastDateTime) or field.dump_only,
    )


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
        lambda cell: values.one_line(cell, max_length),
        max_plain_length=max_length,
        shows=shows,
    )


def id_column(name: str, sql: str) -> FileColumn:
    """A column with the id of a record."""
    return FileColumn(name, sql, lambda cell: ID.read(cell.strip()), lambda excel: str)


def _codec(field: fields.Field) -> tuple[Read, Callable[[bool], Write] | None]:
    """How cells of a field are read and written."""
    if isinstance(field, fields.Number):
        decimals = len(str(field.scale)) - 1
        least = 2 if isinstance(field, (fields.Amount, fields.Price)) else 0
        return _number_reader(field), lambda excel: decimal_writer(decimals, excel, least)
    if isinstance(field, fields.Integer):
        return lambda cell: field.read(_whole_number(cell)), lambda excel: str
    if isinstance(field, fields.DateTime):
        return partial(_moment, field), None
    if isinstance(field, WordField):
        return lambda cell: field.known(field.read(cell)), None
    if isinstance(field, fields.Date):
        return lambda cell: field.read(_iso_date(cell)), None
    if isinstance(field, fields.Tags):
        return partial(_tags, field), lambda excel: lambda tags: join_tags(loads(tags))
    if isinstance(field, fields.Extra):
        return lambda cell: field.read(_json(cell)), None
    if isinstance(field, fields.Boolean):
        return lambda cell: int(parse_boolean(cell)), lambda excel: BOOLEAN_TEXTS.__getitem__
    return field.read, None


def _number_reader(field: fields.Number) -> Read:
    # Money is stored with 4 decimals; the short cut takes as many as may be sent.
    max_decimals = {fields.Price: 4, fields.Amount: 2}.get(type(field), -1)

    def read(cell: str) -> int:
        integer, point, decimals = cell.partition(".")
        if (
            integer.isdecimal()
            and (decimals.isdecimal() or not point)
            and cell.isascii()
            and len(integer) <= MAX_FAST_DIGITS
            and len(decimals) <= max_decimals
        ):
            return int(integer + decimals.ljust(4, "0"))  # most are: 0.4 µs instead of 3
        return field.read(parse_decimal(cell))

    return read


def _whole_number(cell: str) -> int:
    try:
        return int(parse_decimal(cell))
    except ValueError:
        raise InvalidValue("invalid_number", "must be a whole number") from None


def _moment(field: fields.DateTime, cell: str) -> str:
    if match := LOCAL_TIME.fullmatch(text := cell.strip()):
        return _local_moment(*match.groups(default=""))
    text = _iso_date(text)
    try:
        return values.local_day(text, field.time_of_day, tenant_zone())
    except InvalidValue:
        return values.moment(text)


def _local_moment(day: str, time: str, offset: str) -> str:
    try:
        local = datetime.fromisoformat(f"{_iso_date(day)}T{time}{offset}")
    except ValueError:
        return values.moment(day)  # which it is not
    return values.moment(local) if offset else values.local_moment(local, tenant_zone())


def _iso_date(cell: str) -> str:
    """A dotted date as YYYY-MM-DD; any other text as it is."""
    if match := DOTTED_DATE.fullmatch(text := cell.strip()):
        day, month, year = match.groups()
        return f"{year}-{month:0>2}-{day:0>2}"
    return text


def _tags(field: fields.Tags, cell: str) -> str | None:
    """The tags of a cell in stored form; line breaks separate them like commas."""
    text = LINE_BREAKS.sub(",", cell.strip())
    if len(text) > csv.field_size_limit():
        raise InvalidValue("too_long", f"at most {csv.field_size_limit()} characters")
    (parts,) = csv.reader([text], skipinitialspace=True)
    tags = [part for part in parts if part.strip()]
    return field.read(tags) if tags else None


def join_tags(tags: list[str]) -> str:
    """The cell of these tags."""
    file = io.StringIO()
    csv.writer(file, lineterminator="").writerow(tags)
    return file.getvalue()


def _json(cell: str) -> Any:
    try:
        return loads(cell)
    except (ValueError, RecursionError):
        raise InvalidValue("invalid_json", "must be a JSON object such as {}") from None
