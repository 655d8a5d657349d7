"""The process that reads a workbook (.xlsx, .ods): from stdin, to stdout as CSV, within limits.

A small file can need any memory and time, so `conversion.py` starts this file as a process of its
own. It imports nothing of the CRM.

Each cell is what it shows, in one spelling: `1250.5 ₴`, `2026-03-31 14:30:00`, `true`. A mark
before the text tells what the text alone does not (`marked_cells.py`).
"""

import csv
import json
import os
import posixpath
import re
import resource
import sys
from collections.abc import Callable, Iterator
from copy import copy
from dataclasses import dataclass, field
from datetime import datetime, time, timedelta
from decimal import ROUND_HALF_UP, Context, Decimal, setcontext
from functools import cache, partial, reduce
from typing import NamedTuple
from xml.etree.ElementTree import Element, iterparse
from zipfile import ZipFile

# All readers of an installation together may take a quarter of the machine's memory.
BUDGET_BYTES = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 4
MAX_MEMORY_BYTES = min(1 << 30, BUDGET_BYTES)
MAX_READERS = BUDGET_BYTES // MAX_MEMORY_BYTES  # at a time
MAX_CPU_SECONDS = 30
MAX_CSV_BYTES = 100_000_000
MAX_REASON_CHARACTERS = 500  # it is shown by way of a cookie
REFUSED = 3  # exit status; the reason stands on stderr

# Before the text of a cell: a date or time; a formula without a value; a number, before the stored
# one and again before the shown one, where these differ or could be read as thousands.
DATE, NO_VALUE, NUMBER = "\x01", "\x02", "\x03"

BOOLEANS = ("false", "true")
MAX_ROWS, MAX_COLUMNS = 1 << 20, 1 << 14  # of a sheet in any program
MAX_DAYS = 366  # of a duration; more are a date of which the time is shown
FIRST_DAYS = datetime(1899, 12, 30), datetime(1904, 1, 1)  # by the setting date1904
MERGED = re.compile("([A-Z]+)([0-9]+):[A-Z]+([0-9]+)")
ESCAPED = re.compile("_x(?!000[0-3])([0-9a-fA-F]{4})_")  # a character that XML cannot have
# Number formats of Excel by the ids that files need not declare; others show what is stored.
FORMATS = dict.fromkeys((1, 3, 37, 38), "0") | dict.fromkeys((2, 4, 39, 40), "0.00")
FORMATS |= dict.fromkeys((14, 15, 16, 17, *range(27, 37), *range(50, 59)), "d")
FORMATS |= dict.fromkeys((18, 19, 20, 21, 45, 47), "h")
FORMATS |= {9: "0%", 10: "0.00%", 22: "d h", 46: "h"}
SECTION = re.compile(r'(?:"[^"]*"?|\\.|\[[^]]*\]|[^;])*')  # of a number format
# Text in a format: "quoted", \x, [$€-407]; and what is not shown: _x, *x, [Red].
LITERAL = re.compile(r'"([^"]*)"?|\\(.)|\[\$([^]-]*)[^]]*\]|[_*].|\[(?![hms]+\])[^]]*\]|[Gg]eneral')
DIGITS = re.compile(r"([0#?, ]*[0#?])(?:\.([0#?]*))?(?![0#?,.])")
CURRENCIES = "UAH|USD|EUR|PLN|GBP|CHF|CZK|RON|MDL|[Гг]рн|[Рр]уб|zł|Kč|Ft|lei"
UNIT = re.compile(rf"[A-Z]{{0,3}}[$€£¥₴₽₺₸₾₪₹](?!/)|(?<![^\W\d_])(?:{CURRENCIES})(?![^\W\d_]|/)")


class Format(NamedTuple):
    """How a cell shows its number.

    `kind`: day, moment, utc (a moment with a Z), time (of day, or a duration), or empty.
    `decimals`: how many there are, None if all. `digits`: how many stand before them at least.
    `unit` stands beside it: `%` or a currency.
    """

    kind: str = ""
    decimals: int | None = None
    digits: int = 1
    unit: str = ""


@dataclass
class Table:
    """The cells of a sheet that have any text: {row: {column: text}}.

    `merged`: (column, first row, last row) of merged cells. `hidden`: rows that are not shown.
    `formulas`: the row of each, but those of LibreOffice's booleans, which are formulas.
    """

    rows: dict[int, dict[int, str]] = field(default_factory=dict)
    merged: list[tuple[int, int, int]] = field(default_factory=list)
    hidden: set[int] = field(default_factory=set)
    formulas: list[int] = field(default_factory=list)

    def fill_merged(self) -> None:
        """Give merged cells to the rows below the first, where these have others."""
        last_row = max(self.rows, default=0)
        for column, first, last in self.merged:
            text = self.rows.get(first, {}).get(column)
            for row in range(first + 1, min(last, last_row) + 1):
                if text and row in self.rows:
                    self.rows[row][column] = text

    def write(self) -> None:
        """Write a line for each row, from the first column with any text to the last."""
        used = {column for cells in self.rows.values() for column in cells}
        columns = range(min(used, default=0), max(used, default=-1) + 1)
        nothing = dict[int, str]()
        # Not sys.stdout: it may have no buffer, and then it does not tell that it wrote a part.
        with open(1, "w", encoding="utf-8", errors="replace", newline="") as file:
            writer = csv.writer(file)
            for row in range(1, max(self.rows, default=0) + 1):
                cells = self.rows.get(row, nothing)
                writer.writerow([cells.get(column, "") for column in columns] if cells else [])


# Of a workbook: the name of each sheet, whether it is visible, and what reads it.
Sheets = Iterator[tuple[str, bool, Callable[[], Table]]]


def main(sheet: str, hidden: str = "") -> None:
    """Write the sheet of this name, or the first visible one that is not empty.

    `hidden`: its hidden rows too. How many were left out, and of formulas, is JSON on stderr.
    """
    resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY_BYTES, MAX_MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CPU, (MAX_CPU_SECONDS, MAX_CPU_SECONDS))
    resource.setrlimit(resource.RLIMIT_FSIZE, (MAX_CSV_BYTES, MAX_CSV_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    setcontext(Context(prec=400, rounding=ROUND_HALF_UP))  # as many digits as a number may have
    table, names = Table(), list[str]()
    with ZipFile(sys.stdin.buffer) as archive:
        is_excel = "xl/workbook.xml" in archive.namelist()
        for name, is_visible, read in (_excel_sheets if is_excel else _open_sheets)(archive):
            names.append(name)
            if name == sheet if sheet else is_visible:
                table = read()
                if sheet or table.rows:
                    break
    if sheet and names[-1] != sheet:
        reason = f"there is no sheet “{sheet}”: the sheets are {', '.join(names)}"
        sys.stderr.buffer.write(reason[:MAX_REASON_CHARACTERS].encode())
        sys.exit(REFUSED)
    table.fill_merged()
    left_out = set[int]() if hidden else table.hidden
    table.rows = {row: cells for row, cells in table.rows.items() if row not in left_out}
    table.write()
    formulas = sum(row in table.rows for row in table.formulas)
    sys.stderr.write(json.dumps({"hidden_rows": len(left_out), "formulas": formulas}))


@cache
def _local(name: str) -> str:
    """The name of an element or attribute without its namespace."""
    return name.rpartition("}")[2]


def _attributes(element: Element) -> dict[str, str]:
    return {_local(name): value for name, value in element.items()}


def _elements(archive: ZipFile, part: str, *names: str) -> Iterator[Element]:
    """The elements of these names in a part, in the order of their ends; each is emptied then."""
    with archive.open(part) as file:
        for _, element in iterparse(file):
            if _local(element.tag) in names:
                yield element
                element.clear()


def _number_text(number: Decimal, shown_as: Format) -> str:
    rounded = number if shown_as.decimals is None else round(number, shown_as.decimals)
    stored, shown = (f"{(each + 0).normalize():f}" for each in (number, rounded))
    whole, point, decimals = shown.partition(".")
    is_open = len(stored.partition(".")[2]) == 3
    shown = whole.zfill(shown_as.digits) + point + decimals
    if shown_as.unit == "%":
        shown += "%"
    elif shown_as.unit:
        stored, shown = (f"{text} {shown_as.unit}" for text in (stored, shown))
    return f"{NUMBER}{stored}{NUMBER}{shown}" if is_open or stored != shown else stored


def _moment_text(moment: datetime, kind: str) -> str:
    moment = (moment + timedelta(microseconds=500_000)).replace(microsecond=0)
    if kind == "utc":
        return f"{DATE}{moment.isoformat()}Z"
    has_time = kind != "day" or moment.time() != time()
    return DATE + (moment.isoformat(" ") if has_time else f"{moment.date()}")


# Excel: each part of the archive is an XML document


def _excel_sheets(archive: ZipFile) -> Sheets:
    paths, targets = {"styles": "", "sharedStrings": ""}, dict[str, str]()
    for relation in _elements(archive, "xl/_rels/workbook.xml.rels", "Relationship"):
        path = posixpath.join("/xl", relation.get("Target", ""))[1:]
        kind = relation.get("Type", "").rpartition("/")[2]
        paths[kind] = path
        if kind == "worksheet":
            targets[relation.get("Id", "")] = path
    formats, strings, first_day = [Format()], list[str](), FIRST_DAYS[0]
    if paths["styles"]:
        formats = _excel_formats(archive, paths["styles"])
    if paths["sharedStrings"]:
        strings = [_excel_text(text) for text in _elements(archive, paths["sharedStrings"], "si")]
    for element in _elements(archive, "xl/workbook.xml", "workbookPr", "sheet"):
        values = _attributes(element)
        if values.get("date1904") in ("1", "true"):
            first_day = FIRST_DAYS[1]
        if path := targets.get(values.get("id", ""), ""):
            text = partial(_excel_cell, strings, formats, first_day)
            is_visible = values.get("state", "visible") == "visible"
            yield values["name"], is_visible, partial(_read_excel, archive, path, text)


def _excel_formats(archive: ZipFile, part: str) -> list[Format]:
    """The format of each style of cells."""
    codes, formats = dict(FORMATS), list[Format]()
    for element in _elements(archive, part, "numFmt", "cellXfs"):
        if _local(element.tag) == "numFmt":
            codes[int(element.get("numFmtId", 0))] = element.get("formatCode", "")
        else:
            ids = [int(style.get("numFmtId", 0)) for style in element]
            formats = [_excel_format(codes.get(id, "")) for id in ids]
    return formats


def _excel_format(code: str) -> Format:
    """What a number format such as `#,##0.00\\ "грн"` means."""
    section = SECTION.findall(code)[0]  # that for numbers from 0
    literals = LITERAL.findall(section)
    text = "".join("".join(literal) for literal in literals)
    rest = LITERAL.sub("", section).lower()
    has_day, has_time = (any(letter in rest for letter in letters) for letters in ("yd", "hs"))
    if has_time and not has_day:
        return Format("time")
    if has_day or "m" in rest:
        return Format("day" if not has_time else "utc" if "Z" in text or "z" in rest else "moment")
    currency = "".join(literal[2] for literal in literals) or "".join(UNIT.findall(text + rest)[:1])
    unit = "%" if "%" in rest else currency
    match = None if "e" in rest or "/" in rest else DIGITS.search(rest)
    return (
        Format("", len(match[2] or ""), match[1].count("0"), unit) if match else Format(unit=unit)
    )


def _read_excel(archive: ZipFile, part: str, text: Callable[[Element], str]) -> Table:
    """Read a sheet; `text` gives what a cell shows."""
    table, number = Table(), 0
    for element in _elements(archive, part, "row", "mergeCell"):
        if _local(element.tag) == "mergeCell":
            if match := MERGED.match(element.get("ref", "")):
                table.merged.append((_column(match[1]), int(match[2]), int(match[3])))
            continue
        number, column, cells = int(element.get("r", number + 1)), 0, dict[int, str]()
        for cell in element:
            column = _column(cell.get("r", "").rstrip("0123456789")) or column + 1
            if content := text(cell):
                cells[column] = content
            if content not in BOOLEANS and any(_local(part.tag) == "f" for part in cell):
                table.formulas.append(number)
        if cells:
            table.rows[number] = cells
            if element.get("hidden") in ("1", "true"):
                table.hidden.add(number)
    return table


@cache
def _column(letters: str) -> int:
    """The number of a column such as AB, from 1."""
    return reduce(lambda number, letter: number * 26 + ord(letter) - 64, letters, 0)


def _excel_text(element: Element) -> str:
    """The text of a string, whose parts may have formats of their own."""
    texts = (
        _unescape(part.text or "") if name == "t" else _excel_text(part)
        for part in element
        if (name := _local(part.tag)) in ("t", "r")
    )
    return "".join(texts)


def _unescape(text: str) -> str:
    return ESCAPED.sub(lambda match: chr(int(match[1], 16)), text) if "_x" in text else text


def _excel_cell(
    strings: list[str], formats: list[Format], first_day: datetime, cell: Element
) -> str:
    """What a cell shows."""
    kind, parts = cell.get("t", "n"), {_local(part.tag): part for part in cell}
    if kind == "inlineStr":
        return _excel_text(parts["is"]) if "is" in parts else ""
    value = (parts["v"].text if "v" in parts else None) or ""
    if kind == "n":
        shown_as = formats[int(cell.get("s", 0))]
        return _excel_number(value, shown_as, first_day) if value else NO_VALUE * ("f" in parts)
    if kind == "s":
        return strings[int(value)]
    if kind == "b":
        return BOOLEANS[value == "1"]
    return _unescape(value)


def _excel_number(value: str, shown_as: Format, first_day: datetime) -> str:
    number = Decimal(f"{float(value):.15g}")  # spreadsheets have 15 digits
    if not shown_as.kind or not 0 <= number < 2_958_466:  # the year 10000
        return _number_text(number.scaleb(2 if shown_as.unit == "%" else 0), shown_as)
    if shown_as.kind == "time" and number < MAX_DAYS:
        seconds = round(number * 86_400)
        return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    return _moment_text(first_day + timedelta(float(number)), shown_as.kind)


# OpenDocument: one XML document for all sheets


def _open_sheets(archive: ZipFile) -> Sheets:
    hidden_styles, table, row = set[str](), Table(), 1
    for element in _elements(archive, "content.xml", "style", "table-row", "table"):
        name, values = _local(element.tag), _attributes(element)
        if name == "table-row":
            row = _read_open_row(table, row, element, values)
        elif name == "table":
            is_visible = values.get("style-name") not in hidden_styles
            yield values["name"], is_visible, partial(copy, table)
            table, row = Table(), 1
        elif any(_attributes(part).get("display") == "false" for part in element):
            hidden_styles.add(values["name"])


def _read_open_row(table: Table, row: int, element: Element, values: dict[str, str]) -> int:
    """Read a row, which may stand for several equal ones, and return the number of the next."""
    cells, column = dict[int, str](), 1
    for cell in element:
        of_cell = _attributes(cell)
        end = column + int(of_cell.get("number-columns-repeated", 1))
        if _local(cell.tag) == "table-cell":
            if text := _open_cell(cell, of_cell):
                cells |= dict.fromkeys(range(column, min(end, MAX_COLUMNS)), text)
            if text not in BOOLEANS and "formula" in of_cell:
                table.formulas.append(row)
            if "number-rows-spanned" in of_cell:
                table.merged.append((column, row, row + int(of_cell["number-rows-spanned"]) - 1))
        column = end
    next_row = row + int(values.get("number-rows-repeated", 1))
    for number in range(row, min(next_row, MAX_ROWS) if cells else row):
        table.rows[number] = dict(cells)
        if values.get("visibility", "visible") != "visible":
            table.hidden.add(number)
    return next_row


def _open_cell(cell: Element, values: dict[str, str]) -> str:
    """What a cell shows."""
    text = "\n".join(_open_text(part) for part in cell if _local(part.tag) == "p")
    kind = values.get("value-type", "")
    if kind in ("float", "percentage", "currency"):
        return _open_number(kind, values, text)
    if kind == "date":
        moment_kind = "utc" if text.endswith("Z") else "moment" if ":" in text else "day"
        return _moment_text(datetime.fromisoformat(values["date-value"]), moment_kind)
    if kind == "error":
        return text if text.startswith("#") else "#VALUE!"
    if kind == "boolean":
        return values["boolean-value"]
    return NO_VALUE if "formula" in values and not kind else text


def _open_number(kind: str, values: dict[str, str], text: str) -> str:
    """A number, with as many decimals and digits as its text has."""
    number = Decimal(f"{float(values['value']):.15g}")
    if number in (0, 1) and text.isalpha():  # a formula gives yes and no so
        return BOOLEANS[int(number)]
    digits = int("0" + "".join(filter(str.isdecimal, text)))
    unit = values.get("currency") or "".join(UNIT.findall(text)[:1])
    # Gnumeric does not say that it is a percentage.
    if kind == "percentage" or (
        text[-1:] == "%" and _decimals(number.scaleb(2), digits) is not None
    ):
        number, unit = number.scaleb(2), "%"
    width = len(text) if text.isdecimal() else 1
    return _number_text(number, Format("", _decimals(number, digits), width, unit))


def _decimals(number: Decimal, digits: int) -> int | None:
    """How many decimals a number is shown with, if these are the digits."""
    return next((n for n in range(11) if round(abs(number), n).scaleb(n) == digits), None)


def _open_text(element: Element) -> str:
    """The text of a paragraph."""
    texts = [element.text or ""]
    for part in element:
        name = _local(part.tag)
        if name == "s":
            texts.append(" " * int(_attributes(part).get("c", 1)))
        elif name != "annotation":
            texts.append({"tab": "\t", "line-break": "\n"}.get(name) or _open_text(part))
        texts.append(part.tail or "")
    return "".join(texts)


if __name__ == "__main__":
    main(*sys.argv[1:])
