"""The process that reads a workbook (.xlsx): from stdin, to stdout as CSV, within limits.

A file of 1.4 kB can need any memory, and the library then aborts its process: so `conversion.py`
starts this file as a process of its own. It imports nothing of the CRM.
"""

import csv
import os
import resource
import sys
from datetime import datetime
from decimal import Decimal
from io import TextIOWrapper
from typing import Any, NoReturn

# All readers of an installation together may take a quarter of the machine's memory.
BUDGET_BYTES = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 4
MAX_MEMORY_BYTES = min(1 << 30, BUDGET_BYTES)
MAX_READERS = BUDGET_BYTES // MAX_MEMORY_BYTES  # at a time
MAX_CPU_SECONDS = 30
MAX_CSV_BYTES = 100_000_000
MAX_REASON_CHARACTERS = 500  # it is shown by way of a cookie
REFUSED = 3  # exit status; the reason stands on stderr


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
    file = TextIOWrapper(sys.stdout.buffer, "utf-8", newline="")
    writer = csv.writer(file)
    for cells in sheet.iter_rows():
        texts = list(map(_text, cells))
        writer.writerow(texts if any(texts) else [])
    file.flush()


def _text(cell: Any) -> str:
    """A cell as text: numbers have 15 digits, as in Excel, and times are those of ISO 8601."""
    if isinstance(cell, bool):
        return "true" if cell else "false"
    if isinstance(cell, float):
        return f"{Decimal(f'{cell:.15g}').normalize():f}"
    return cell.isoformat(" ", "seconds") if isinstance(cell, datetime) else str(cell)


def _refuse(reason: str) -> NoReturn:
    sys.stderr.buffer.write(reason[:MAX_REASON_CHARACTERS].encode())
    sys.exit(REFUSED)


if __name__ == "__main__":
    main(*sys.argv[1:])
