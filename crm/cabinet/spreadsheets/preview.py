"""What the preview of an import shows: the first rows of the file as they are read."""

from typing import Any

from crm.cabinet import formatting, labels
from crm.records import fields
from crm.spreadsheets import ParsedFile
from crm.spreadsheets.csv_columns import FileColumn

MAX_ROWS = 10
MAX_NARROW_CHARACTERS = 20  # in a cell that is not wide


def first_rows(
    file: ParsedFile, names: list[str], errors: list[dict[str, Any]]
) -> list[dict[str, Any]]:
    """The first rows with the cells of the columns of these names.

    A cell is shown as its value is read, or unchanged where it cannot be read.
    """
    columns = [file.resource.column(name) for name in names]
    faulty = {(error["line"], error["column"]) for error in errors}
    rejected = {line for line, _ in faulty}
    currencies = file.column_values("currency")
    rows = []
    for place, (line, cells) in enumerate(file.rows[:MAX_ROWS]):
        by_name = dict(zip(file.sheet.columns, cells, strict=True))
        row = []
        for column in columns:
            cell, value = by_name[column.name], file.values[column.name][place]
            fits = not cell.strip() or (line, column.name) not in faulty
            if fits and value is not None:
                cell = _format(file.resource.singular, column, value, currencies[place])
            row.append({"text": cell, "fits": fits, "kind": css_class(column, cell)})
        rows.append({"line": line, "cells": row, "fits": line not in rejected})
    return rows


def css_class(column: FileColumn, text: str = "") -> str:
    """Of a cell with this text, or of a column's head."""
    if isinstance(column.field, fields.Number):
        return "num"
    if isinstance(column.field, (fields.DateTime, fields.Date)):
        return "text-nowrap"
    return "wide" if len(text) > MAX_NARROW_CHARACTERS else ""


def _format(noun: str, column: FileColumn, value: Any, currency: str) -> str:
    field = column.field
    if column.named:
        return column.named(value)
    if isinstance(field, (fields.Amount, fields.Price)):
        return formatting.money(column.text(value), currency)
    if isinstance(field, fields.Number):
        return formatting.number(column.text(value), exact=True)
    return labels.value(noun, column.name, field.show(value), {}) if field else column.text(value)
