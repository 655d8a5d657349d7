"""What the preview of an import shows: the first rows of the file as they are read."""

from typing import Any

from crm.cabinet import formatting, labels
from crm.records import fields
from crm.resources import tenant
from crm.spreadsheets import ParsedFile
from crm.spreadsheets.csv_columns import FileColumn

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
    currencies = file.column_values("currency")
    rows = []
    for place, (line, cells) in enumerate(file.rows[:MAX_ROWS]):
        by_name = dict(zip(file.sheet.columns, cells, strict=True))
        row = []
        for column in columns:
            cell, value = by_name[column.name], file.values[column.name][place]
            fits = not cell.strip() or (line, column.name) not in faulty
            if fits and value is not None:
                currency = currencies[place] or tenant.currency()
                cell = _format(file.resource.singular, column, value, currency)
            row.append({"text": cell, "fits": fits, "kind": css_class(column, cell)})
        rows.append({"line": line, "cells": row, "fits": line not in rejected})
    return rows


def css_class(column: FileColumn, text: str) -> str:
    """Of a cell with this text."""
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


def _format(noun: str, column: FileColumn, value: Any, currency: str) -> str:
    field = column.field
    if isinstance(field, (fields.Price, fields.Amount)):
        return formatting.money(column.text(value), currency)
    if isinstance(field, fields.Number):
        return formatting.number(column.text(value), exact=True)
    if field is None:
        return column.text(value)
    return labels.value(noun, column.name, field.show(value), {})
