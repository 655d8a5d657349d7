"""Workbooks as files of imports: typed cells, sheets, and what hostile ones do.

What a workbook does to the library that reads it is done by a stand-in for the library or for its
process: no file here ends or hangs a program.
"""

import contextlib
import csv
import io
import os
import runpy
import signal
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from datetime import date, datetime
from datetime import time as time_of_day
from pathlib import Path
from typing import Any

import pytest
import python_calamine
import xlsxwriter

from crm.errors import Busy
from crm.spreadsheets import conversion, read_file
from crm.spreadsheets import workbook as reader
from crm.spreadsheets.conversion import plain_csv
from crm.spreadsheets.csv_format import UnusableFile
from crm.spreadsheets.resource import find_resource
from crm.wsgi import CRMApp
from tests.concurrency import kill_process, start_python
from tests.waiting import wait_for

pytestmark = pytest.mark.process


@pytest.fixture(autouse=True)
def session(crm: CRMApp) -> Iterator[None]:
    """That of the tenant whose file is read: of its installation few readers run at a time."""
    with crm.tenants.session("acme"):
        yield


def refused(data: bytes, sheet: str | None = None) -> tuple[str, str]:
    with pytest.raises(UnusableFile) as refused:
        plain_csv(data, sheet)
    return refused.value.code, refused.value.detail


Edit = Callable[[bytes], bytes]


def workbook(*sheets: list[list[Any]], **options: Any) -> bytes:
    file = io.BytesIO()
    with xlsxwriter.Workbook(file, {"in_memory": True, **options}) as book:
        formats = {
            date: book.add_format({"num_format": "dd.mm.yyyy"}),
            datetime: book.add_format({"num_format": "dd.mm.yyyy hh:mm"}),
            time_of_day: book.add_format({"num_format": "hh:mm"}),
        }
        for number, cells in enumerate(sheets, 1):
            sheet = book.add_worksheet(f"Аркуш {number}")
            for row, values in enumerate(cells):
                for column, value in enumerate(values):
                    sheet.write(row, column, value, formats.get(type(value)))
    return file.getvalue()


def cells(data: bytes, sheet: str | None = None) -> list[list[str]]:
    csv_file, name = plain_csv(data, sheet)
    assert name == "xlsx"
    return list(csv.reader(io.StringIO(csv_file.decode(), newline="")))


def edited(data: bytes, name: str, edit: Edit) -> bytes:
    """A workbook with one of its parts changed, or added."""
    file = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as before, zipfile.ZipFile(file, "w", 8) as after:
        for entry in before.infolist():
            if entry.filename != name:
                after.writestr(entry.filename, before.read(entry))
        after.writestr(name, edit(before.read(name) if name in before.namelist() else b""))
    return file.getvalue()


SHEET, RELATIONS = "xl/worksheets/sheet1.xml", "xl/_rels/workbook.xml.rels"
PRICES = workbook([["sku", "name", "price"], ["A-1", "Стіл", 12500]])


def test_cells_are_typed() -> None:
    row = [12.0, 0.1 + 0.2, 4.82e12, 1e22, -0.0000001, 1250.5, True, False, "  x ", "0012", "1,5"]
    days = [date(2026, 3, 31), datetime(2026, 3, 31, 14, 30), time_of_day(14, 30), "=1+1", "а\r\nб"]
    assert cells(workbook([row, [], days])) == [
        ["12", "0.3", "4820000000000", "1" + 22 * "0", "-0.0000001", "1250.5", "true", "false",
         "  x ", "0012", "1,5"],
        [],
        ["2026-03-31", "2026-03-31 14:30:00", "14:30:00", "0", "а\r\nб", *[""] * 6],
    ]  # fmt: skip


def test_an_error_of_excel_is_no_empty_cell() -> None:
    file = io.BytesIO()
    with xlsxwriter.Workbook(file) as book:
        sheet = book.add_worksheet()
        sheet.write_row(1, 1, ["sku", "price"])
        sheet.write_formula(2, 2, "=NA()", None, "#N/A")
        sheet.write_formula(3, 27, "=1/0", None, "#DIV/0!")
    header, *rows = cells(file.getvalue())[1:]
    assert [row[:2] for row in (header, *rows)] == [["sku", "price"], ["", "#N/A"], ["", ""]]
    assert rows[-1][-1] == "#DIV/0!"


def test_lines_are_the_rows_of_the_sheet() -> None:
    data = workbook([[], [], ["sku", "name", "price"], [], ["A-1", "Стіл", "багато"]])
    file = read_file(data, find_resource("products"))
    assert [line for line, _ in file.rows] == [5]
    assert file.sheet.encoding == "xlsx"


def test_the_first_visible_sheet_is_read_or_the_chosen_one() -> None:
    data = workbook([["a"]], [["b"]])
    assert cells(data) == [["a"]]
    assert cells(data, "Аркуш 2") == [["b"]]
    hidden = edited(
        data,
        "xl/workbook.xml",
        lambda xml: xml.replace(b'sheetId="1"', b'sheetId="1" state="hidden"'),
    )
    assert cells(hidden) == [["b"]]
    code, detail = refused(data, "Лист1")
    assert code == "unreadable_workbook"
    assert detail == "there is no sheet “Лист1”: the sheets are Аркуш 1, Аркуш 2"


@pytest.mark.parametrize("name", ["x" * 200_000, "Аркуш\0 2"])
def test_a_name_that_no_process_can_be_given_names_no_sheet(name: str) -> None:
    code, detail = refused(PRICES, name)
    assert code == "unreadable_workbook"
    assert detail.startswith(f"there is no sheet “{name[:5]}")


def test_the_excel_dialect_changes_nothing_in_a_workbook() -> None:
    data = workbook([["sku", "name", "price"], ["A-1", "'лапка", 1]])
    for excel in (False, True):
        assert read_file(data, find_resource("products"), excel).values["name"] == ["'лапка"]


def external_entity() -> bytes:
    strings = (
        b'<!DOCTYPE sst [<!ENTITY x SYSTEM "file:///etc/passwd">]><sst><si><t>&x;</t></si></sst>'
    )
    return edited(PRICES, "xl/sharedStrings.xml", lambda xml: strings)


@pytest.mark.parametrize(
    "hostile",
    [
        lambda: edited(PRICES, SHEET, lambda xml: xml[:200]),
        lambda: edited(PRICES, RELATIONS, lambda xml: b""),
        lambda: edited(PRICES, RELATIONS, lambda xml: xml.replace(b"sheet1", b"../../x")),
        lambda: PRICES[: len(PRICES) // 2],
        lambda: b"PK\x03\x04\0\0",
    ],
)
def test_a_hostile_or_damaged_workbook_is_refused(hostile: Callable[[], bytes]) -> None:
    assert refused(hostile()) == ("unreadable_workbook", conversion.UNREADABLE)


def test_no_process_is_started_for_what_is_too_large_unpacked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with zipfile.ZipFile(io.BytesIO(PRICES)) as archive:
        unpacked_bytes = sum(entry.file_size for entry in archive.infolist())
    monkeypatch.setattr(conversion, "MAX_UNPACKED_BYTES", unpacked_bytes)
    assert cells(PRICES)[1] == ["A-1", "Стіл", "12500"]
    monkeypatch.setattr(conversion, "MAX_UNPACKED_BYTES", unpacked_bytes - 1)
    monkeypatch.setattr(conversion, "_reader_command", lambda: pytest.fail("it was started"))
    assert refused(PRICES) == ("unreadable_workbook", conversion.UNREADABLE)


def test_entities_expand_to_nothing() -> None:
    data = external_entity()
    try:
        text = plain_csv(data)[0]
    except UnusableFile as unusable:
        assert unusable.detail == conversion.UNREADABLE
    else:
        assert b"root:" not in text


# Instead of python_calamine: it ends the process as that does when it gets no memory, by SIGABRT.
# A sheet of another name is read by the package itself.
STAND_IN = f"""
import os, sys

match sys.argv[-1]:
    case "needs much memory":
        try:
            needed = bytearray(2 << 30)
        except MemoryError:
            os.abort()
sys.path.insert(0, {str(Path(python_calamine.__file__).parents[1])!r})
del sys.modules["python_calamine"]
import python_calamine
"""


@pytest.fixture
def stand_in(tmp_path: Path) -> Path:
    """The folder of a package python_calamine that does what hostile workbooks do to the real one.

    What it does is the name of the sheet.
    """
    module = tmp_path / "packages" / "python_calamine" / "__init__.py"
    module.parent.mkdir(parents=True)
    module.write_text(STAND_IN)
    return module.parents[1]


def test_a_reader_that_ends_itself_refuses_the_workbook(
    stand_in: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    what = "needs much memory"
    command = [sys.executable, "-I", "-S", reader.__file__, str(stand_in)]
    assert subprocess.run([*command, what], capture_output=True).returncode == -signal.SIGABRT
    monkeypatch.setattr(conversion, "_reader_command", lambda: command)
    assert refused(PRICES, what) == ("unreadable_workbook", conversion.UNREADABLE)
    assert cells(PRICES, "Аркуш 1")[1] == ["A-1", "Стіл", "12500"]


def test_the_process_of_a_workbook_has_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that hangs is ended; what it was given is closed."""
    hanging = [sys.executable, "-c", "import time; time.sleep(60)"]
    monkeypatch.setattr(conversion, "_reader_command", lambda: hanging)
    monkeypatch.setattr(conversion, "TIMEOUT", 0.2)
    assert refused(PRICES) == ("unreadable_workbook", conversion.UNREADABLE)


READ_AT_GLOBEX = """
import sys
from crm.installation.tenants import Tenants
from crm.spreadsheets import conversion, workbook
from tests.installations import config_for
data, file, *command = sys.argv[1:]
workbook.MAX_READERS = 1
conversion._reader_command = lambda: command
with Tenants(config_for(data)).session("globex"):
    conversion.plain_csv(open(file, "rb").read())
"""


def test_a_reader_waits_for_those_of_other_processes_also_if_these_were_killed(
    crm: CRMApp, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader, "MAX_READERS", 1)
    file, pipe = tmp_path / "prices.xlsx", tmp_path / "pipe"
    file.write_bytes(PRICES)
    os.mkfifo(pipe)
    hanging = [sys.executable, "-c", "import sys; open(sys.argv[1]).read()", pipe]
    server = start_python(READ_AT_GLOBEX, crm.tenants.config.data, file, *hanging)
    with wait_for(lambda: open_to_write(pipe)):
        kill_process(server)
        with monkeypatch.context() as patch, pytest.raises(Busy, match="other workbooks"):
            patch.setattr(conversion, "TURN_SECONDS", 0.1)
            plain_csv(PRICES)
    assert cells(PRICES)[1] == ["A-1", "Стіл", "12500"]


def open_to_write(pipe: Path) -> Any:
    """A named pipe, once somebody reads from it."""
    with contextlib.suppress(OSError):
        return open(os.open(pipe, os.O_WRONLY | os.O_NONBLOCK), "w")


@pytest.mark.parametrize(
    ("machine", "readers", "each"), [(1, 1, 256 << 20), (6, 1, 1 << 30), (24, 6, 1 << 30)]
)
def test_all_readers_take_a_quarter_of_the_machines_memory(
    monkeypatch: pytest.MonkeyPatch, machine: int, readers: int, each: int
) -> None:
    sizes = {"SC_PHYS_PAGES": machine << 18, "SC_PAGE_SIZE": 4096}
    monkeypatch.setattr(os, "sysconf", sizes.__getitem__)
    program = runpy.run_path(reader.__file__)
    assert (program["MAX_READERS"], program["MAX_MEMORY_BYTES"]) == (readers, each)


def test_without_the_extra_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "python_calamine", None)
    monkeypatch.setattr(conversion, "find_spec", lambda name: None)
    assert refused(PRICES) == ("unreadable_workbook", conversion.NO_EXTRA)
    assert "xlsx" in conversion.NO_EXTRA
