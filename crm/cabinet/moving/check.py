"""What the check before an import shows: the file as it is read."""

from collections.abc import Callable
from typing import Any

from crm.cabinet import formatting
from crm.cabinet.languages import gettext
from crm.resources import moving, tenant
from crm.resources.moving.table import Table
from crm.resources.products.cells import READ
from crm.resources.products.price_list import PriceList
from crm.sheets import decimal_text
from crm.values import InvalidValue

FIRST = 10  # rows shown as they would be read
NUMBERS = {"price", "amount", "item_quantity", "item_price", "item_discount"}
WIDE = {"name", "title", "description", "comment"}
LONG = 20  # characters of a cell that is wide too
FLAGS = {"active", "contact_is_primary"}


def read(data: bytes, noun: str, dialect: str) -> Table | PriceList:
    """The rows as the person chose; unless told otherwise, semicolons mean a spreadsheet."""
    sheet = moving.read(data, noun, dialect == "excel")
    if not dialect and sheet.sheet.delimiter == ";":
        sheet = moving.read(data, noun, excel=True)
    return sheet


def first_rows(
    sheet: Table | PriceList, known: list[str], errors: list[dict[str, Any]]
) -> list[dict[str, Any]]:
    """The first rows, each with the cells of its known columns: the text as it is read, or as it
    stands where it doesn't fit."""
    is_list = isinstance(sheet, PriceList)
    readers = READ if is_list else {each.name: each.read for each in sheet.noun.all_columns}
    unfit = {(error["line"], error["column"]) for error in errors}
    rejected = _rejected(sheet, {line for line, _ in unfit})
    found = []
    for line, cells in sheet.rows[:FIRST]:
        sent = dict(zip(sheet.sheet.columns, cells, strict=True))
        currency = tenant.currency() if is_list else sent.get("currency", "").strip()
        shown = []
        for name in known:
            text, fits = _shown(sheet, name, sent[name], readers[name], currency)
            fits = fits and ((line, name) not in unfit or not sent[name].strip())
            text = text if fits else sent[name]
            shown.append({"text": text, "fits": fits, "kind": _kind(name, text)})
        found.append({"line": line, "cells": shown, "fits": line not in rejected})
    return found


def _kind(name: str, text: str) -> str:
    """How a cell looks: the class of its element."""
    if name in NUMBERS:
        return "num"
    if name.endswith(("_at", "_date")):
        return "text-nowrap"
    return "wide" if name in WIDE or len(text) > LONG else ""


def _rejected(sheet: Table | PriceList, lines: set[int]) -> set[int]:
    """All lines of the records that have errors in these: a record is rejected as a whole."""
    if isinstance(sheet, PriceList):
        return lines
    found = set(lines)
    for entry in sheet.entries:
        own = {sheet.rows[at][0] for at in entry.rows}
        if not own.isdisjoint(lines):
            found |= own
    return found


def _shown(
    sheet: Table | PriceList, name: str, cell: str, read: Callable[[str], Any], currency: str
) -> tuple[str, bool]:
    """What a cell is read as, for people, and whether it fits."""
    if not cell.strip():
        return "", True
    try:
        value = read(cell)
    except InvalidValue:
        return cell, False
    if value is None:
        return "", True
    if name in FLAGS:
        return (gettext("Yes") if value else gettext("No")), True
    if name in NUMBERS:
        return _number(sheet, name, value, currency), True
    if name.endswith("_at"):
        return formatting.moment(value), True
    if name.endswith("_date"):
        return formatting.day(value), True
    return _text(sheet, name, value), True


def _number(sheet: Table | PriceList, name: str, value: int, currency: str) -> str:
    text = decimal_text(value, 4) if isinstance(sheet, PriceList) else _text(sheet, name, value)
    is_money = name in ("price", "amount") and len(currency) == 3
    return (
        formatting.money(text, currency.upper())
        if is_money
        else formatting.number(text, exact=True)
    )


def _text(sheet: Table | PriceList, name: str, value: Any) -> str:
    """The value as an export writes it."""
    if isinstance(sheet, PriceList):
        return str(value)
    (column,) = (each for each in sheet.noun.all_columns if each.name == name)
    return column.show(value, False)
