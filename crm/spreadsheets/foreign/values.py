"""Cells as people's programs write them, turned into cells as our own files have them.

Each function takes a trimmed cell with content, and raises InvalidValue for one that it cannot read
for sure. What it gives is checked like any cell of a file of ours.
"""

import re
import unicodedata
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

from crm.records import fields
from crm.spreadsheets.cells import parse_decimal
from crm.spreadsheets.csv_columns import join_tags
from crm.spreadsheets.foreign.aliases import currency_words, word_key, words_of
from crm.spreadsheets.marked_cells import unmark
from crm.spreadsheets.resource import ImportableResource
from crm.values import InvalidValue, local_day, local_moment, moment

Convert = Callable[[str], str]

EXCEL_ERROR = re.compile(
    r"#(?:N/A|Н/Д|REF!|VALUE!|NAME\?|DIV/0!|NUM!|NULL!|ЗНАЧ!|ССЫЛКА!|ПОСИЛАННЯ!|ИМЯ\?|ІМ'Я\?|ДЕЛ/0!"
    r"|ДІЛ/0!|ЧИСЛО!|ПУСТО!)",
    re.IGNORECASE,
)
SHORTENED = re.compile(r"'?-?[0-9](?:[.,][0-9]+)?E\+[0-9]{1,3}", re.IGNORECASE)
APOSTROPHE = re.compile(r"'(?=[+=@0-9-])")  # by which programs keep Excel from counting
SEPARATOR = re.compile(r",|;|:::|\n")
MONEY = re.compile(r"([^\d\s+-]*)\s*([+-]?\d(?:[\d\s.,'’]*\d)?)\s*([^\d\s]*)")
MAX_MONEY_CHARACTERS = 100
DATE = re.compile(
    r"(?:(?P<year>\d{4})[-/.](?P<month>\d{1,2})[-/.](?P<day>\d{1,2})"
    r"|(?P<first>\d{1,2})(?P<mark>[./-])(?P<second>\d{1,2})(?P=mark)(?P<last>\d{4}|\d\d))"
    r"(?:[T ,]+(?P<hour>\d{1,2}):(?P<minute>\d\d)(?::(?P<seconds>\d\d)(?:\.\d+)?)?"
    r"\s*(?P<half>[AaPp]\.?[Mm]\.?)?\s*(?P<zone>Z|UTC|[+-]\d\d:?\d\d)?)?"
)
EPOCH = re.compile(r"[1-9]\d{9}(?:\d{3})?", re.ASCII)  # in seconds or milliseconds
GROUP_OF_GOOGLE = "* "  # begins the labels that Google gives by itself


def clean(cell: str, field: fields.Field | None = None) -> str:
    """A cell without the apostrophe that hides a number from Excel; refuses what Excel has lost."""
    text = APOSTROPHE.sub("", unmark(cell.strip(), field), count=1)
    if EXCEL_ERROR.fullmatch(text):
        raise InvalidValue("excel_error", f"{text!r} is an error of an Excel formula: correct it")
    if SHORTENED.fullmatch(text):
        raise InvalidValue(
            "excel_shortened",
            f"{text!r} is a long number that Excel shortened: make the column text, enter it again",
        )
    return text


def is_number(cell: str) -> bool:
    """Whether a cell is a number, perhaps with a currency."""
    match = MONEY.fullmatch(cell)
    words = currency_words()
    return match is not None and all(
        not sign or word_key(sign) in words for sign in (match[1], match[3])
    )


def is_date(cell: str) -> bool:
    """Whether a cell is a date, perhaps with a time."""
    return bool(DATE.fullmatch(cell))


def several(cell: str) -> list[str]:
    """The phones or e-mail addresses of one cell."""
    return [text.strip() for text in SEPARATOR.split(cell) if text.strip()]


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


def converter(
    resource: ImportableResource,
    name: str,
    field: fields.Field | None,
    order: str | None,
    zone: str,
) -> Convert | None:
    """The function that turns cells of a field into ours; None where they are the same.

    order: day or month, whichever is first. zone: of times without one. Money is read by
    split_money(), because it needs the currency of the row.
    """
    if isinstance(field, fields.DateTime):
        return lambda cell: _moment(field, cell, order, ZoneInfo(zone))
    if isinstance(field, fields.Date):
        return lambda cell: _date(cell, order).date().isoformat()
    if isinstance(field, fields.Tags):
        return _tags
    if name.endswith("currency") or isinstance(field, (fields.Choice, fields.Boolean)):
        words = words_of(resource, name)
        return lambda cell: words.get(word_key(cell), cell)
    return None


def split_money(cell: str) -> tuple[str, str | None]:
    """`12500.00` and `UAH` of `12 500,00 ₴`; the currency is None if the cell names none."""
    text = unicodedata.normalize("NFKC", cell) if len(cell) <= MAX_MONEY_CHARACTERS else ""
    match = MONEY.fullmatch(text)
    if match is None:
        return parse_decimal(cell), None
    words = currency_words()
    signs = [sign for sign in (match[1], match[3]) if sign]
    codes = {words.get(word_key(sign), sign.upper()) for sign in signs}
    if len(codes) > 1 or any(not code.isalpha() or len(code) != 3 for code in codes):
        parse_decimal(cell)  # tells what is wrong with it
    return parse_decimal(match[2]), next(iter(codes), None)


def _date(cell: str, order: str | None) -> datetime:
    """The date of a cell, with its time and zone if any; two digits are a year from 1970."""
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
    zone = (part["zone"] or "").replace("UTC", "+00:00").replace("Z", "+00:00")
    text = (
        f"{part['year']}-{part['month']:0>2}-{part['day']:0>2}"
        f"T{hour:02}:{part['minute'] or '00'}:{part['seconds'] or '00'}{zone}"
    )
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        raise InvalidValue("invalid_date", f"there is no date {cell[:40]!r}") from None


def _moment(field: fields.DateTime, cell: str, order: str | None, zone: ZoneInfo) -> str:
    is_epoch = EPOCH.fullmatch(cell)
    time = datetime.fromtimestamp(int(cell[:10]), UTC) if is_epoch else _date(cell, order)
    if (match := DATE.fullmatch(cell)) and match["hour"] is None:
        return local_day(f"{time.date()}", field.time_of_day, zone)
    return moment(time) if time.tzinfo else local_moment(time, zone)


def _tags(cell: str) -> str:
    if '"' in cell:
        return cell  # our own files quote tags that have a comma
    return join_tags([tag for tag in several(cell) if not tag.startswith(GROUP_OF_GOOGLE)])
