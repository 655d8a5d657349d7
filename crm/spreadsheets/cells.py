"""How cells of files write numbers, and yes and no."""

import re
from collections.abc import Callable

from crm.values import InvalidValue

BOOLEANS = dict.fromkeys(("true", "1", "yes", "так"), True)
BOOLEANS |= dict.fromkeys(("false", "0", "no", "ні"), False)
NUMBER = re.compile(
    r"(-?)"
    r"([0-9]{1,40}|[1-9][0-9]{0,2}([ \u00a0\u2009\u202f'\u2019.,])[0-9]{3}(?:\3[0-9]{3}){0,9})"
    r"(?:(?!\3)[.,]([0-9]{1,40}))?"
)


def parse_decimal(text: str) -> str:
    """`1250.00` from `1250.00`, `1 250,00`, `1'250.00`, `1,250.00` or `1.250,00`; InvalidValue.

    A single comma or point is the decimal one whatever follows it: `1,250` is one and a quarter.
    """
    match = NUMBER.fullmatch(text.strip())
    if not match:
        detail = f"{text.strip()[:40]!r} is not a number: write 1250.00 or 1 250,00"
        raise InvalidValue("invalid_number", detail)
    sign, integer, separator, decimals = match.groups()
    if separator:
        integer = integer.replace(separator, "")
    return f"{sign}{integer}.{decimals}" if decimals else sign + integer


def parse_boolean(text: str) -> bool:
    """true, 1, yes, так or false, 0, no, ні, in any case; InvalidValue."""
    value = BOOLEANS.get(text.strip().lower())
    if value is None:
        detail = f"{text.strip()[:40]!r} is none of true, false, 1, 0, yes, no, так, ні"
        raise InvalidValue("invalid_choice", detail)
    return value


def decimal_writer(scale: int, comma: bool = False, at_least: int = 2) -> Callable[[int], str]:
    """Return a function that writes an integer number of 10**-scale, exact: 12.50, 12.3456.

    at_least: how many decimals there are at least.
    """
    unit, mark = 10**scale, "," if comma else "."
    no_part = f"{mark}{'0' * at_least}" if at_least else ""

    def write(units: int) -> str:
        whole, part = divmod(abs(units), unit)
        decimals = no_part
        if part:
            decimals = mark + f"{part:0{scale}}".rstrip("0").ljust(at_least, "0")
        return f"-{whole}{decimals}" if units < 0 else f"{whole}{decimals}"

    return write
