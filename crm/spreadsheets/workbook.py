"""The process that reads a workbook (.xlsx): from stdin, to stdout as CSV, within limits.

A file of 1.4 kB can need any memory, and the library then aborts its process: so `conversion.py`
starts this file as a process of its own. It imports nothing of the CRM.
"""

import csv
import os
import posixpath
import re
import resource
import sys
from datetime import datetime
from decimal import Decimal
from functools import reduce
from io import TextIOWrapper
from typing import Any, NoReturn
from xml.etree import ElementTree
from zipfile import ZipFile

# All readers of an installation together may take a quarter of the machine's memory.
BUDGET_BYTES = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 4
MAX_MEMORY_BYTES = min(1 << 30, BUDGET_BYTES)
MAX_READERS = BUDGET_BYTES // MAX_MEMORY_BYTES  # at a time
MAX_CPU_SECONDS = 30
MAX_CSV_BYTES = 100_000_000
MAX_REASON_CHARACTERS = 500  # it is shown by way of a cookie
# Before the text of a cell: a date or time; a formula without a value; a number, before the stored
# one and again before the shown one, where these differ or could be read as thousands.
DATE, NO_VALUE, NUMBER = "\x01", "\x02", "\x03"
REFUSED = 3  # exit status; the reason stands on stderr
# The place and the text of a cell with an error such as #N/A, which the library gives as empty.
ERROR_CELL = re.compile(
    rb'<(?:\w+:)?c (?=[^>]*\bt="e")[^>]*\br="([A-Z]{1,3})([0-9]{1,7})"'
    rb"[^>]*>.{0,9000}?<(?:\w+:)?v>(#[^<]{1,20})<",
    re.DOTALL,
)


def main(packages: str, name: str) -> None:
    """Write the sheet of this name, or the first visible one: a line for each of its rows.

    `packages`: the folder of python_calamine, "" if it can be imported anyway.
    """
    resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY_BYTES, MAX_MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CPU, (MAX_CPU_SECONDS, MAX_CPU_SECONDS))
    resource.setrlimit(resource.RLIMIT_FSIZE, (MAX_CSV_BYTES, MAX_CSV_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    sys.path += [packages] if packages else []
    from python_calamine import CalamineWorkbook, SheetTypeEnum, SheetVisibleEnum

    workbook = CalamineWorkbook.from_filelike(sys.stdin.buffer)
    sheets = {
        sheet.name: sheet.visible == SheetVisibleEnum.Visible
        for sheet in workbook.sheets_metadata
        if sheet.typ == SheetTypeEnum.WorkSheet
    }
    name = name or next(name for name, is_visible in sheets.items() if is_visible)
    if name not in sheets:
        _refuse(f"there is no sheet “{name}”: the sheets are {', '.join(sheets)}")
    sheet = workbook.get_sheet_by_name(name)
    first_column = (sheet.start or (0, 0))[1]
    errors = _error_cells(name)
    file = TextIOWrapper(sys.stdout.buffer, "utf-8", newline="")
    writer = csv.writer(file)
    for row, cells in enumerate(sheet.iter_rows(), 1):
        texts = list(map(_text, cells))
        for column, error in errors.get(row, ()):
            texts[column - first_column] = error
        writer.writerow(texts if any(texts) else [])
    file.flush()


def _text(cell: Any) -> str:
    """A cell as text: numbers have 15 digits, as in Excel, and times are those of ISO 8601."""
    if isinstance(cell, bool):
        return "true" if cell else "false"
    if isinstance(cell, float):
        return f"{Decimal(f'{cell:.15g}').normalize():f}"
    return cell.isoformat(" ", "seconds") if isinstance(cell, datetime) else str(cell)


def _error_cells(name: str) -> dict[int, list[tuple[int, str]]]:
    """{row from 1: [(column from 0, what stands there)]} of the cells with errors of a sheet."""
    with ZipFile(sys.stdin.buffer) as archive:
        sheets = ElementTree.fromstring(archive.read("xl/workbook.xml")).iter()
        ids = {
            sheet.get("name"): value
            for sheet in sheets
            for key, value in sheet.items()
            if key.endswith("}id")
        }
        parts = ElementTree.fromstring(archive.read("xl/_rels/workbook.xml.rels"))
        targets = {part.get("Id"): part.get("Target", "") for part in parts}
        path = posixpath.join("/xl", targets[ids[name]])[1:]
        errors: dict[int, list[tuple[int, str]]] = {}
        for letters, row, text in ERROR_CELL.findall(archive.read(path)):
            column = reduce(lambda number, letter: number * 26 + letter - 64, letters, 0)
            errors.setdefault(int(row), []).append((column - 1, text.decode()))
        return errors


def _refuse(reason: str) -> NoReturn:
    sys.stderr.buffer.write(reason[:MAX_REASON_CHARACTERS].encode())
    sys.exit(REFUSED)


if __name__ == "__main__":
    main(*sys.argv[1:])
