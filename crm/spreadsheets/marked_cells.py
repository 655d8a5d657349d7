"""Cells of workbooks, of which `workbook.py` marks some by a control character before their text.

No cell of a workbook has these characters. Other cells are the text that they show.
"""

import re

from crm.records import fields
from crm.spreadsheets.workbook import DATE, NO_VALUE, NUMBER
from crm.values import InvalidValue

MARKS = DATE + NO_VALUE + NUMBER
HAS_DATES = (fields.DateTime, fields.Date, fields.LongText, fields.Collection)
MAX_DECIMALS = {fields.Amount: 2, fields.Quantity: 3}  # other numbers have 4


def unmark(cell: str, field: fields.Field | None) -> str:
    """The text of a cell for a column of this field, None for one that is a plain text.

    A stored number that is shown rounded is the stored one, unless that has more decimals than the
    field takes. Raises InvalidValue `excel_date` for a date where there are none, and
    `formula_without_value`.
    """
    mark, text = cell[:1], cell[1:]
    if mark == NO_VALUE:
        detail = "the formula has no value yet: open the file in a spreadsheet program and save it"
        raise InvalidValue("formula_without_value", detail)
    if mark == DATE and not isinstance(field, HAS_DATES):
        detail = f"Excel made the date {text!r} of it: make the column text, enter it again"
        raise InvalidValue("excel_date", detail)
    if mark == DATE and isinstance(field, fields.Date):
        return text[:10]
    if mark == NUMBER and isinstance(field, fields.Number):
        stored = text.partition(NUMBER)[0]
        decimals = len(re.split("[^0-9]", stored.partition(".")[2])[0])
        if decimals <= MAX_DECIMALS.get(type(field), 4):
            return stored
    return shown(cell)


def shown(cell: str) -> str:
    """What a cell shows to people."""
    return cell.rpartition(NUMBER)[2].lstrip(MARKS) if cell[:1] in MARKS else cell


def in_utc(cell: str) -> str:
    """A time that a spreadsheet program has saved as UTC if it has no zone: they drop zones.

    Gnumeric writes 2026/12/01 08:30:00 in text files.
    """
    is_saved = cell[:1] == DATE or cell[4:5] == "/"
    is_local = is_saved and ":" in cell and not cell.endswith("Z")
    return f"{cell} +00:00" if is_local else cell
