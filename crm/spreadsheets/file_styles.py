"""Files for people: CSV and workbooks with headers and choices in their language (D9).

Dates and numbers are as Excel there shows them; times are those of the tenant's zone, and one that
a change of the clocks repeats has its offset behind it. Imports take these files back as they are.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from functools import partial
from html import escape
from io import BytesIO
from typing import IO, Any
from zipfile import ZIP_DEFLATED, ZipFile
from zoneinfo import ZoneInfo

from crm.records import fields
from crm.spreadsheets import labels
from crm.spreadsheets.cells import guard
from crm.spreadsheets.csv_columns import FileColumn, Write
from crm.storage.session import tenant_zone

MAX_DIGITS = 15  # of a number in Excel
DAYS = {"uk": "%d.%m.%Y", "en": "%Y-%m-%d"}
DAYS_OF_EXCEL = {"uk": "dd.mm.yyyy", "en": "yyyy-mm-dd"}
# Excel has no years before 1900, programs differ about the days of 1900, and readers take midnight
# for a day without a time: these stay texts.
TYPED_TIME = re.compile(r"(?!1[0-8]|0|1900)\d{4}-\d\d-\d\d(?: (?!00:00\Z)\d\d:\d\d(?::\d\d)?)?")
TIMES = fields.Date, fields.DateTime
# In the order of their first use: columns and cells that stay texts, whatever is entered; the bold
# header; times, by the length of their text.
TEXT_STYLE, TIME_STYLES = 1, {10: 3, 16: 4, 19: 5}
FIRST_DAY = datetime(1899, 12, 30)  # of Excel's numbers for times
SHEET = "xl/worksheets/sheet1.xml"
# What XML cannot have, and what looks like Excel's notation for that: _x000D_.
NOT_XML = re.compile("[\x00-\x08\x0b-\x1f\ufffe\uffff]|_(?=x[0-9a-fA-F]{4}_)")


@dataclass(frozen=True)
class FileStyle:
    """How an export for people is written, in one of labels.LANGUAGES."""

    language: str
    is_workbook: bool = False

    def header(self, column: FileColumn) -> str:
        """The header of a column."""
        text = labels.header(column.name, column.label, self.language)
        return text if self.is_workbook else guard(text)

    def columns(self, noun: str, columns: Iterable[FileColumn]) -> list[FileColumn]:
        """The columns of a noun, with cells in this style; of a workbook they are typed later."""
        zone = tenant_zone()
        return [replace(column, write=self._writer(noun, column, zone)) for column in columns]

    def _writer(
        self, noun: str, column: FileColumn, zone: ZoneInfo
    ) -> Callable[[bool], Write] | None:
        field, name, language = column.field, column.name.removeprefix(f"{noun}_"), self.language
        days = DAYS["en" if self.is_workbook else language]
        if named := column.named:
            return lambda _: named
        if isinstance(field, fields.DateTime):
            return lambda _: partial(_local_time, zone, days)
        if isinstance(field, fields.Date):
            return lambda _: lambda value: f"{date.fromisoformat(value):{days}}"
        if isinstance(field, fields.Choice):
            return lambda _: lambda value: labels.choice(noun, name, value, language)
        if isinstance(field, fields.Boolean):
            return lambda _: lambda value: labels.text("Yes" if value else "No", language)
        if isinstance(field, fields.Phone):
            return lambda _: _phone
        if column.write is None:
            return None
        write = column.write(language == "uk" and not self.is_workbook)
        return lambda _: write


def _local_time(zone: ZoneInfo, days: str, value: str) -> str:
    try:
        time = datetime.fromisoformat(value).astimezone(zone)
    except OverflowError:  # the last hours of the year 9999
        return value
    text = f"{time:{days} %H:%M}" + (f":{time:%S}" if time.second else "")
    is_repeated = time.utcoffset() != time.replace(fold=1 - time.fold).utcoffset()
    return f"{text} {time.isoformat()[-6:]}" if is_repeated else text


def _phone(number: str) -> str:
    """A Ukrainian number as people write it, which no program computes with."""
    if number.startswith("+380") and len(number) == 13:
        return f"{number[3:6]} {number[6:9]} {number[9:11]} {number[11:]}"
    return number


def write_workbook(
    to: IO[bytes], style: FileStyle, columns: Sequence[FileColumn], rows: Iterable[Sequence]
) -> None:
    """Write a workbook (.xlsx) row by row, with typed numbers and times; no cell is a formula.

    XlsxWriter writes a file after its last row, so it makes one without rows.
    """
    # Not with the module: that takes 70 ms, and few commands need it.
    from xlsxwriter import Workbook
    from xlsxwriter.utility import xl_col_to_name

    empty = BytesIO()
    with Workbook(empty, {"in_memory": True, "strings_to_formulas": False}) as workbook:
        sheet = workbook.add_worksheet()
        sheet.freeze_panes(1, 0)
        bold = workbook.add_format({"bold": True})
        sheet.write_row(0, 0, [style.header(column) for column in columns], bold)
        day = DAYS_OF_EXCEL[style.language]
        for place, time in enumerate(("", " hh:mm", " hh:mm:ss")):
            sheet.write_blank(1, place, None, workbook.add_format({"num_format": day + time}))
        text = workbook.add_format({"num_format": "@"})
        for at, column in enumerate(columns):
            if column.is_text and not isinstance(column.field, TIMES):
                sheet.set_column(at, at, None, text)
    wires = [(column.field, xl_col_to_name(at)) for at, column in enumerate(columns)]
    with ZipFile(empty) as parts, ZipFile(to, "w", ZIP_DEFLATED) as archive:
        for part in parts.infolist():
            if part.filename != SHEET:
                archive.writestr(part, parts.read(part))
        head, _, rest = parts.read(SHEET).partition(b'<row r="2"')
        with archive.open(SHEET, "w") as file:
            file.write(re.sub(rb"<dimension [^>]*>", b"", head))
            for number, cells in enumerate(rows, 2):
                pairs = zip(wires, cells, strict=True)
                row = "".join(
                    _cell(wire, f"{name}{number}", cell) for (wire, name), cell in pairs if cell
                )
                file.write(f'<row r="{number}">{row}</row>'.encode())
            file.write(b"</sheetData>" + rest.partition(b"</sheetData>")[2])


def _cell(field: Any, place: str, text: str) -> str:
    """A cell of a workbook, in XML."""
    if isinstance(field, fields.Number) and sum(map(str.isdigit, text)) <= MAX_DIGITS:
        return f'<c r="{place}"><v>{text}</v></c>'
    if isinstance(field, TIMES) and TYPED_TIME.fullmatch(text):
        days = (datetime.fromisoformat(text) - FIRST_DAY) / timedelta(days=1)
        return f'<c r="{place}" s="{TIME_STYLES[len(text)]}"><v>{days:.16G}</v></c>'
    text = NOT_XML.sub(lambda match: f"_x{ord(match[0]):04X}_", guard(text, mark=""))
    text = f'<t xml:space="preserve">{escape(text, quote=False)}</t>'
    return f'<c r="{place}" s="{TEXT_STYLE}" t="inlineStr"><is>{text}</is></c>'
