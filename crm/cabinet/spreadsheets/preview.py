"""What the preview of an import shows: the first rows of the file as they are read."""

from typing import Any

from crm.cabinet import formatting
from crm.cabinet.languages import gettext
from crm.records import fields
from crm.resources import tenant
from crm.spreadsheets import ParsedFile
from crm.spreadsheets.csv_columns import FileColumn
from crm.values import InvalidValue

MAX_ROWS = 10
MAX_NARROW_CHARACTERS = 20  # in a cell that is not wide
WIDE_COLUMNS = {"name", "title", "description", "comment"}


def first_rows(
    file: ParsedFile, names: list[str], errors: list[dict[str, Any]]
) -> list[dict[str, Any]]:
    """The first rows with the cells of the columns of these names.

    A cell is shown as its value is read, or unchanged where it cannot be read.
    """
    columns = [file.resource.column(name) for name in names]
    faulty = {(error["line"], error["column"]) for error in errors}
    rejected = _rejected_lines(file, {line for line, _ in faulty})
    rows = []
    for line, cells in file.rows[:MAX_ROWS]:
        by_name = dict(zip(file.sheet.columns, cells, strict=True))
        has_currency = "currency" in file.resource.column_names
        currency = by_name.get("currency", "").strip() if has_currency else tenant.currency()
        row = []
        for column in columns:
            cell = by_name[column.name]
            text, fits = _show(column, cell, currency)
            fits = fits and ((line, column.name) not in faulty or not cell.strip())
            text = text if fits else cell
            row.append({"text": text, "fits": fits, "kind": _css_class(column, text)})
        rows.append({"line": line, "cells": row, "fits": line not in rejected})
    return rows


def _css_class(column: FileColumn, text: str) -> str:
    if isinstance(column.field, fields.Number):
        return "num"
    if isinstance(column.field, (fields.DateTime, fields.Date)):
        return "text-nowrap"
    is_wide = column.name in WIDE_COLUMNS or len(text) > MAX_NARROW_CHARACTERS
    return "wide" if is_wide else ""


def _rejected_lines(file: ParsedFile, faulty: set[int]) -> set[int]:
    """All lines of the records that have errors in these: a record is rejected as a whole."""
    if not file.resource.part:
        return faulty
    rejected = set(faulty)
    for entry in file.entries:
        lines = {file.rows[place][0] for place in entry.rows}
        if not lines.isdisjoint(faulty):
            rejected |= lines
    return rejected


def _show(column: FileColumn, cell: str, currency: str) -> tuple[str, bool]:
    """Return the value of a cell, formatted for users, and whether it could be read."""
    if not cell.strip():
        return "", True
    try:
        value = column.read(cell)
    except InvalidValue:
        return cell, False
    return ("" if value is None else _format(column, value, currency)), True


def _format(column: FileColumn, value: Any, currency: str) -> str:
    field, text = column.field, column.text(value)
    if isinstance(field, fields.Boolean):
        return gettext("Yes") if value else gettext("No")
    if isinstance(field, fields.DateTime):
        return formatting.moment(value)
    if isinstance(field, fields.Date):
        return formatting.day(value)
    if not isinstance(field, fields.Number):
        return text
    if column.name in ("price", "amount") and len(currency) == 3:
        return formatting.money(text, currency.upper())
    return formatting.number(text, exact=True)
