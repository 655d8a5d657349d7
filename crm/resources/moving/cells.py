"""The columns of files that move records: how a cell is read into stored form and written (D2, D9).

Numbers are spelled as in a price list.A time is RFC 3339, or a date: then 00:00 UTC of that day.
A date may be 31.03.2026 too, as spreadsheets save what they have taken for one. Tags stand in one
cell with commas between, one with a comma in quotes. `extra` is its JSON text.
"""

import csv
import io
import re
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from crm import sheets, values
from crm.json import loads
from crm.records import fields
from crm.records.schemas import RecordSchema
from crm.resources.products.cells import flag
from crm.values import InvalidValue

ID = fields.Id()
DOTTED = re.compile(r"([0-9]{1,2})\.([0-9]{1,2})\.([0-9]{4})")
LINE_BREAKS = re.compile(r"[\r\n]+")

Read = Callable[[str], Any]
Show = Callable[[Any, bool], str]  # of a stored value and whether it is for a spreadsheet


class Column(NamedTuple):
    """A column of a file. `sql` selects what is written; "" is a column that is only read.

    `is_text`: it could be taken for a formula. `is_new`: only looked at for a new record.
    `is_past`: a moment that must not be in the future. `of`: the plural of another noun, whose
    data it shows.
    """

    name: str
    read: Read
    show: Show
    sql: str
    is_text: bool = True
    is_new: bool = False
    is_past: bool = False
    of: str = ""


def columns(
    noun: type[RecordSchema],
    table: str,
    names: Iterable[str],
    new: Iterable[str] = (),
    prefix: str = "",
) -> tuple[Column, ...]:
    """Columns of these fields of a noun, named as the fields behind a prefix."""
    return tuple(
        _column(noun._declared_fields[name], name, table, name in new, prefix) for name in names
    )


def reference(name: str, sql: str, longest: int = 255, of: str = "") -> Column:
    """A column that names another record by a text."""
    return Column(name, lambda cell: values.one_line(cell, longest), _as_text, sql, of=of)


def id_column(name: str, sql: str) -> Column:
    """A column with the id of a record."""
    return Column(name, lambda cell: ID.read(cell.strip()), _as_text, sql)


def _column(field: Any, name: str, table: str, is_new: bool, prefix: str) -> Column:
    read, show, is_text = _kind(field)
    is_past = isinstance(field, fields.PastDateTime) or (
        is_new and isinstance(field, fields.DateTime)
    )
    sql = f"{table}.{name}"
    return Column(prefix + name, read, show, sql, is_text, is_new, is_past)


def _kind(field: Any) -> tuple[Read, Show, bool]:
    if isinstance(field, fields.Number):
        return _number(field)
    if isinstance(field, fields.DateTime):
        return _moment, _as_text, True
    if isinstance(field, fields.Tags):
        return lambda cell: _kept(field.read(_split(cell))), _joined, True
    if isinstance(field, fields.Extra):
        return lambda cell: _kept(field.read(_json(cell))), _as_text, True
    if isinstance(field, fields.Boolean):
        return flag, lambda value, _: "true" if value else "false", True
    if isinstance(field, fields.Date):
        return lambda cell: field.read(_date(cell)), _as_text, True
    if isinstance(field, fields.Choice):
        return lambda cell: field.read(cell.strip().lower()), _as_text, True
    return field.read, _as_text, True


def _number(field: fields.Number) -> tuple[Read, Show, bool]:
    places = len(str(field.scale)) - 1
    at_least = 2 if isinstance(field, (fields.Amount, fields.Price)) else 0

    def read(cell: str) -> int:
        try:
            return field.read(sheets.parse_decimal(cell))
        except InvalidValue:
            raise
        except ValueError as error:
            raise InvalidValue("invalid_number", str(error)) from None

    def show(value: int, excel: bool) -> str:
        return sheets.decimal_text(value, places, excel, at_least)

    return read, show, False


def _kept(found: str) -> str | None:
    return None if found in ("[]", "{}") else found


def _moment(cell: str) -> str:
    text = _date(cell)
    try:
        return values.moment(f"{values.day(text)}T00:00:00Z")
    except InvalidValue as unfit:
        if unfit.code == "invalid_date":
            return values.moment(text)
        raise


def _date(cell: str) -> str:
    """A dotted date as the values are spelled; any other text as it is."""
    if found := DOTTED.fullmatch(text := cell.strip()):
        day, month, year = found.groups()
        return f"{year}-{month:0>2}-{day:0>2}"
    return text


def _split(cell: str) -> list[str]:
    """The tags of a cell; line breaks part them like commas."""
    text = LINE_BREAKS.sub(",", cell.strip())
    (found,) = csv.reader([text], skipinitialspace=True)
    return [tag for tag in found if tag.strip()]


def _joined(tags: str, _: bool) -> str:
    file = io.StringIO()
    csv.writer(file, lineterminator="").writerow(loads(tags))
    return file.getvalue()


def _json(cell: str) -> Any:
    try:
        return loads(cell)
    except (ValueError, RecursionError):
        raise InvalidValue("invalid_json", "must be a JSON object such as {}") from None


def _as_text(value: Any, _: bool) -> str:
    return str(value)
