"""Files for people: CSV and workbooks with headers and choices in their language (D9).

Dates and numbers are as Excel there shows them; times are those of the tenant's zone, and one that
a change of the clocks repeats has its offset behind it. Imports take these files back as they are.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from functools import partial
from typing import IO
from zoneinfo import ZoneInfo

from crm.errors import Fault, Invalid
from crm.records import fields
from crm.spreadsheets import labels
from crm.spreadsheets.csv_columns import FileColumn, Write
from crm.storage.session import tenant_zone

MAX_WORKBOOK_ROWS = 100_000
MAX_DIGITS = 15  # of a number in Excel
DAYS = {"uk": "%d.%m.%Y", "en": "%Y-%m-%d"}
DAYS_OF_EXCEL = {"uk": "dd.mm.yyyy", "en": "yyyy-mm-dd"}
# Excel has no years before 1900, programs differ about the days of 1900, and readers take midnight
# for a day without a time: these stay texts.
TYPED_TIME = re.compile(r"(?!1[0-8]|0|1900)\d{4}-\d\d-\d\d(?: (?!00:00\Z)\d\d:\d\d(?::\d\d)?)?")


@dataclass(frozen=True)
class FileStyle:
    """How an export for people is written, in one of labels.LANGUAGES."""

    language: str
    is_workbook: bool = False

    def header(self, column: FileColumn) -> str:
        """The header of a column."""
        return labels.header(column.name, column.label, self.language)

    def columns(self, noun: str, columns: Iterable[FileColumn]) -> list[FileColumn]:
        """The columns of a noun, with cells in this style; of a workbook they are typed later."""
        zone = tenant_zone()
        return [replace(column, write=self._writer(noun, column, zone)) for column in columns]

    def _writer(
        self, noun: str, column: FileColumn, zone: ZoneInfo
    ) -> Callable[[bool], Write] | None:
        field, name, language = column.field, column.name.removeprefix(f"{noun}_"), self.language
        days = DAYS["en" if self.is_workbook else language]
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

    Raises Invalid `too_many_rows` beyond MAX_WORKBOOK_ROWS, `missing_extra`.
    """
    try:
        from xlsxwriter import Workbook
    except ImportError:
        detail = "workbooks need the extra `xlsx`, which is not installed: choose csv"
        raise Invalid(Fault("/format", "missing_extra", detail), "missing_extra") from None
    options = {"constant_memory": True, "strings_to_formulas": False, "strings_to_urls": False}
    with Workbook(to, options) as workbook:
        sheet = workbook.add_worksheet()
        sheet.freeze_panes(1, 0)
        bold = workbook.add_format({"bold": True})
        sheet.write_row(0, 0, [style.header(column) for column in columns], bold)
        day = DAYS_OF_EXCEL[style.language]
        formats = {  # by the length of a text
            length: workbook.add_format({"num_format": f"{day}{time}"})
            for length, time in ((10, ""), (16, " hh:mm"), (19, " hh:mm:ss"))
        }
        wires = [column.field for column in columns]
        for number, cells in enumerate(rows, 1):
            if number > MAX_WORKBOOK_ROWS:
                detail = f"a workbook has at most {MAX_WORKBOOK_ROWS} rows: choose csv"
                raise Invalid(Fault("/format", "too_many_rows", detail), "too_many_rows")
            for place, (wire, cell) in enumerate(zip(wires, cells, strict=True)):
                is_time = isinstance(wire, (fields.Date, fields.DateTime))
                if not cell:
                    continue
                if isinstance(wire, fields.Number) and sum(map(str.isdigit, cell)) <= MAX_DIGITS:
                    sheet.write_number(number, place, float(cell))
                elif is_time and TYPED_TIME.fullmatch(cell):
                    time = datetime.fromisoformat(cell)
                    sheet.write_datetime(number, place, time, formats[len(cell)])
                else:
                    sheet.write_string(number, place, cell)
