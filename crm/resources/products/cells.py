"""What the cells of a price list may be, and the form in which they are kept (D2, D9)."""

import unicodedata
from collections.abc import Callable
from typing import Any, NamedTuple

from crm import sheets, values
from crm.values import InvalidValue

LONGEST = {"sku": 64, "name": 255, "unit": 32, "category": 128, "description": 20_000}


class Bad(NamedTuple):
    """What stands for the value of a cell that doesn't fit."""

    code: str
    detail: str


def stored(name: str, column: list[str]) -> list[Any]:
    """The stored value of each cell of a column: None where it is empty, Bad where it is wrong."""
    if name in LONGEST and _are_clean(column, LONGEST[name]):
        return [cell.strip() or None for cell in column]
    return list(map(_Values(READ[name]).__getitem__, column))


def _are_clean(column: list[str], longest: int) -> bool:
    """Would each text only be trimmed? Asked of all at once: 5 ms instead of 15 to 80."""
    text = " ".join(column)
    return (
        text.isprintable()
        and unicodedata.is_normalized("NFC", text)
        and max(map(len, column), default=0) <= longest
    )


class _Values(dict):
    """{cell: its stored value, or Bad}: what comes often is read once."""

    def __init__(self, read: Callable[[str], Any]):
        super().__init__()
        self.read = read

    def __missing__(self, cell: str) -> Any:
        try:
            found = self.read(cell)
        except InvalidValue as unfit:
            found = Bad(unfit.code, unfit.detail)
        self[cell] = found
        return found


def price(cell: str) -> int | None:
    """A price in 1/10 000, in any spelling of spreadsheets; raises Unfit."""
    whole, point, part = cell.partition(".")
    plain = whole.isdecimal() and (part.isdecimal() or not point) and cell.isascii()
    if plain and len(whole) < 10 and len(part) <= 4:
        return int(whole + part.ljust(4, "0"))  # most are: 0.4 µs instead of 3
    if not cell.strip():
        return None
    try:
        number = sheets.parse_decimal(cell)
    except ValueError as error:
        raise InvalidValue("invalid_number", str(error)) from None
    return values.money(number, 4, values.PRICE_MAX)


def flag(cell: str) -> int | None:
    """1 or 0; raises Unfit."""
    if not cell.strip():
        return None
    try:
        return int(sheets.parse_flag(cell))
    except ValueError as error:
        raise InvalidValue("invalid_choice", str(error)) from None


def _one_line(longest: int) -> Callable[[str], str | None]:
    return lambda cell: values.one_line(cell, longest)


READ: dict[str, Callable[[str], Any]] = {
    **{name: _one_line(longest) for name, longest in LONGEST.items()},
    "description": values.long_text,
    "price": price,
    "active": flag,
}
