"""How people and programs write numbers, dates, yes and no, and lists in the cells of files.

The functions that read one cell take it trimmed, with content, and raise InvalidValue for one that
they cannot read for sure.
"""

import re
import unicodedata
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from decimal import Decimal
from typing import NamedTuple

from crm.records import fields
from crm.spreadsheets.labels import word_key, words
from crm.storage.session import tenant_zone
from crm.values import InvalidValue, local_day, local_moment, moment

NUMBER = re.compile(
    r"(-?)"
    r"([0-9]{1,40}|[1-9][0-9]{0,2}([ \u00a0\u2009\u202f'\u2019.,])[0-9]{3}(?:\3[0-9]{3}){0,9})"
    r"(?:(?!\3)[.,]([0-9]{1,40}))?"
)
OPEN = re.compile(r"-?[1-9][0-9]{0,2}([.,])[0-9]{3}")  # it may be of the thousands or the decimals
POWER = re.compile(r"-?[0-9]+(?:[.,][0-9]+)?E[+-]?0?[0-9]", re.IGNORECASE)
MONEY = re.compile(r"([^\d\s+-]*)\s*([+-]?\d(?:[\d\s.,'’]*\d)?)\s*([^\d\s]*)")
MAX_MONEY_CHARACTERS = 100
DECIMAL_MARKS = {"comma": ",", "point": "."}
EXCEL_ERROR = re.compile(
    r"#(?:N/A|Н/Д|REF!|VALUE!|NAME\?|DIV/0!|NUM!|NULL!|ЗНАЧ!|ССЫЛКА!|ПОСИЛАННЯ!|ИМЯ\?|ІМ'Я\?|ДЕЛ/0!"
    r"|ДІЛ/0!|ЧИСЛО!|ПУСТО!)",
    re.IGNORECASE,
)
SHORTENED = re.compile(r"'?-?[0-9](?:[.,][0-9]+)?E\+[0-9]{1,3}", re.IGNORECASE)
# Texts that a spreadsheet program takes for a formula, a number, a date, or another value.
GUARDED = re.compile(
    rf"[=+\-@\t\r]|(?:{EXCEL_ERROR.pattern}|true|false|0[0-9]+|[0-9]{{12,}}"
    r"|[0-9]+(?:[.,][0-9]+)?\s?(?:E[+-]?[0-9]+|%)|[0-9]+(?:[-./:,][0-9]+)+"
    r"|(?:[0-9]{1,2}[- ./]?)?(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*"
    r"(?:[- ./]?[0-9]{1,4})?)\Z",
    re.IGNORECASE,
)
APOSTROPHES = re.compile(rf"('+)(?:[0-9]|{GUARDED.pattern})", re.IGNORECASE)
# One is in cells behind a space that clean() changes or refuses; its first character is found fast.
DAMAGES = (("#", " #"), ("'", " '"), ("+", "E+"), ("+", "e+"))
SEPARATOR = re.compile(r"[,;|\n]|:::")
DATE = re.compile(
    r"(?:(?P<year>\d{4})[-/.](?P<month>\d{1,2})[-/.](?P<day>\d{1,2})"
    r"|(?P<first>\d{1,2})(?P<mark>[./-])(?P<second>\d{1,2})(?P=mark)(?P<last>\d{4}|\d\d))"
    r"(?:[Tt ,]+(?P<hour>\d{1,2}):(?P<minute>\d\d)(?::(?P<seconds>\d\d)(?:\.\d+)?)?"
    r"\s*(?P<half>[AaPp]\.?[Mm]\.?)?\s*(?P<zone>[Zz]|UTC|[+-]\d\d:?\d\d)?)?"
)
EPOCH = re.compile(r"[1-9]\d{9}(?:\d{3})?", re.ASCII)  # in seconds or milliseconds


class Spelling(NamedTuple):
    """How the cells of a file are spelled, as far as a single one does not tell.

    is_exact: they are as a file for programs has them, so that an apostrophe is a part of a text.
    date_order: as in ImportOptions. decimal_marks: `,` or `.`, or both where each is one.
    """

    is_exact: bool = True
    date_order: str | None = None
    decimal_marks: str | None = None


EXACT = Spelling()


def clean(cell: str, is_exact: bool = True, is_number: bool = False) -> str:
    """A cell trimmed, without the apostrophe that hides a number; refuses what Excel has lost.

    is_number: the cell is that of a number, which is what it shows, such as 1E+3.
    """
    text = cell.strip()
    if EXCEL_ERROR.fullmatch(text):
        raise InvalidValue("excel_error", f"{text!r} is an error of an Excel formula: correct it")
    text = text if is_exact else without_guard(text)
    if SHORTENED.fullmatch(text) and not (is_number and POWER.fullmatch(text)):
        raise InvalidValue(
            "excel_shortened",
            f"{text!r} is a long number that Excel shortened: make the column text, enter it again",
        )
    return text


def guard(text: str, mark: str = "'") -> str:
    """A text behind an apostrophe, by default, if a program would take it for something else.

    One that begins with apostrophes itself gets two: without_guard() takes off up to two.
    """
    if text[0] == "'" and APOSTROPHES.match(text):
        return f"''{text}"
    return mark + text if text[0] < "\x80" and GUARDED.match(text) else text


def without_guard(cell: str) -> str:
    """A cell without the apostrophes that keep it from a program, which may have doubled one."""
    match = APOSTROPHES.match(cell)
    return cell[min(len(match[1]), 2) :] if match else cell


def decimal_mark(cells: Iterable[str]) -> str | None:
    """The decimal mark of a column, `,` or `.`, by all its numbers; None if they do not tell."""
    marks = set()
    for cell in set(cells):
        text = unicodedata.normalize("NFKC", cell[:MAX_MONEY_CHARACTERS])
        match = MONEY.fullmatch(text.strip())
        number = "".join(match[2].split()) if match else ""
        separators = [sign for sign in number if sign in ".,"]
        if not separators or OPEN.fullmatch(number) or not NUMBER.fullmatch(number):
            continue
        is_group = len(separators) > 1 and len(set(separators)) == 1  # 1,000,000
        marks.add(separators[-1] if not is_group else "." if separators[-1] == "," else ",")
    return marks.pop() if len(marks) == 1 else None


def parse_decimal(text: str, marks: str | None = None) -> str:
    """`1250.00` from `1250.00`, `1 250,00`, `1'250.00`, `1,250.00`, `1.250,00` or `1.25E+3`.

    The decimal `marks` tell what `1,250` is. Without them a point is one, and a comma is refused.
    """
    if POWER.fullmatch(text):
        return f"{Decimal(text.replace(',', '.')):f}"
    if is_open := OPEN.fullmatch(text):
        if marks is None and is_open[1] == ",":
            values = f"{text.replace(',', '')} or {text.replace(',', '.')}"
            detail = f"{text!r} may be {values}: say which, by decimal_mark"
            raise InvalidValue("ambiguous_number", detail)
        if is_open[1] not in (marks or "."):
            text = text.replace(is_open[1], "")
    match = NUMBER.fullmatch(text)
    if not match:
        detail = f"{text[:40]!r} is not a number: write 1250.00 or 1 250,00"
        raise InvalidValue("invalid_number", detail)
    sign, integer, separator, decimals = match.groups()
    if separator:
        integer = integer.replace(separator, "")
    return f"{sign}{integer}.{decimals}" if decimals else sign + integer


def split_money(cell: str, marks: str | None = None) -> tuple[str, str | None]:
    """`12500.00` and `UAH` of `12 500,00 ₴`; the currency is None if the cell names none.

    marks: as in parse_decimal().
    """
    text = unicodedata.normalize("NFKC", cell) if len(cell) <= MAX_MONEY_CHARACTERS else ""
    match = MONEY.fullmatch(text)
    if match is None:
        return parse_decimal(cell, marks), None
    currencies = words("currency")
    signs = [sign for sign in (match[1], match[3]) if sign]
    codes = {currencies.get(word_key(sign), sign.upper()) for sign in signs}
    if len(codes) > 1 or any(not code.isalpha() or len(code) != 3 for code in codes):
        parse_decimal(cell)  # tells what is wrong with it
    return parse_decimal(match[2], marks), next(iter(codes), None)


def is_number(cell: str) -> bool:
    """Whether a cell is a number, perhaps with a currency, or a percentage."""
    match = MONEY.fullmatch(cell.removesuffix("%"))
    return match is not None and all(
        not sign or word_key(sign) in words("currency") for sign in (match[1], match[3])
    )


def parse_boolean(text: str) -> bool:
    """Whether a cell says yes, such as true, 1, +, так; or no."""
    value = words("boolean").get(word_key(text))
    if value is None:
        detail = f"{text[:40]!r} is none of true, false, 1, 0, yes, no, так, ні"
        raise InvalidValue("invalid_choice", detail)
    return value == "true"


def is_date(cell: str) -> bool:
    """Whether a cell is a date, perhaps with a time."""
    return bool(DATE.fullmatch(cell))


def date_order(cells: Iterable[str]) -> str | None:
    """Which comes first in dates such as 03/04/2026, day or month, by all of them.

    `either` if they do not tell; None if it makes no difference.
    """
    order = None
    for cell in cells:
        match = DATE.fullmatch(cell.strip())
        if match is None or match["mark"] in (None, "."):
            continue
        first, second = int(match["first"]), int(match["second"])
        if first > 12 or second > 12:
            return "day" if first > 12 else "month"
        if first != second:
            order = "either"
    return order


def parse_date(cell: str, order: str | None = None) -> datetime:
    """The date of a cell, with its time and zone if any; two digits are a year from 1970.

    order: day or month, whichever is first.
    """
    match = DATE.fullmatch(cell)
    if match is None:
        raise InvalidValue("invalid_date", f"{cell[:40]!r} is not a date: write 2026-03-31")
    part = match.groupdict()
    if part["year"] is None:
        is_month_first = order == "month" and part["mark"] != "."
        part["month"], part["day"] = part["first"], part["second"]
        if not is_month_first:
            part["month"], part["day"] = part["day"], part["month"]
        century = "" if len(part["last"]) == 4 else "19" if part["last"] >= "70" else "20"
        part["year"] = century + part["last"]
    hour = int(part["hour"] or 0)
    if part["half"]:
        hour = hour % 12 + (12 if part["half"][0] in "Pp" else 0)
    zone = (part["zone"] or "").upper().replace("UTC", "Z")
    text = (
        f"{part['year']}-{part['month']:0>2}-{part['day']:0>2}"
        f"T{hour:02}:{part['minute'] or '00'}:{part['seconds'] or '00'}{zone}"
    )
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        raise InvalidValue("invalid_date", f"there is no date {cell[:40]!r}") from None


def parse_moment(field: fields.DateTime, cell: str, order: str | None) -> str:
    """A time as it is stored, from RFC 3339, a date, or a local time of the tenant."""
    is_epoch = EPOCH.fullmatch(cell)
    time = datetime.fromtimestamp(int(cell[:10]), UTC) if is_epoch else parse_date(cell, order)
    if (match := DATE.fullmatch(cell)) and match["hour"] is None:
        return local_day(f"{time.date()}", field.time_of_day, tenant_zone())
    return moment(time) if time.tzinfo else local_moment(time, tenant_zone())


def several(cell: str) -> list[str]:
    """The phones or e-mail addresses of one cell."""
    return [text.strip() for text in SEPARATOR.split(cell) if text.strip()]


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
            if comma and len(decimals) == 4:  # no program takes 0,1250 for thousands
                decimals += "0"
        return f"-{whole}{decimals}" if units < 0 else f"{whole}{decimals}"

    return write
