"""Workbooks as files of imports: cells as they are shown, sheets, and what hostile ones do.

What a workbook may do to the process that reads it is done by a stand-in for that process: no file
here ends or hangs a program.
"""

import contextlib
import csv
import io
import os
import runpy
import sys
import zipfile
from collections.abc import Callable, Iterator
from datetime import date, datetime
from datetime import time as time_of_day
from pathlib import Path
from typing import Any

import pytest
import xlsxwriter

from crm.errors import Busy
from crm.spreadsheets import conversion, read_file
from crm.spreadsheets import workbook as reader
from crm.spreadsheets.conversion import plain_csv
from crm.spreadsheets.csv_format import UnusableFile
from crm.spreadsheets.options import ImportOptions
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
    return refused.value.code, refused.value.faults[0].detail


Edit = Callable[[bytes], bytes]


def workbook(*sheets: list[list[Any]], edit: Any = None, **options: Any) -> bytes:
    """A workbook of these sheets; a value beside a number format is shown in it."""
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
                    number_format = formats.get(type(value))
                    if isinstance(value, tuple):
                        value, code = value
                        number_format = book.add_format({"num_format": code})
                    sheet.write(row, column, value, number_format)
            if edit:
                edit(sheet)
    return file.getvalue()


def cells(data: bytes, sheet: str | None = None) -> list[list[str]]:
    csv_file, name, _ = plain_csv(data, sheet)
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
        ["\x012026-03-31", "\x012026-03-31 14:30:00", "14:30:00", "0", "а\r\nб", *[""] * 6],
    ]  # fmt: skip


MOMENT = 46357 + 8.5 / 24  # 2026-12-01 08:30


@pytest.mark.parametrize(
    ("value", "number_format", "text"),
    [
        (99.90000000000001, "General", "99.9"),
        (1 / 3, "0.00", "\x030.333333333333333\x030.33"),
        (1250.5, "#,##0", "\x031250.5\x031251"),
        (1250.5, "#,##0.00", "1250.5"),
        (1.125, "General", "\x031.125\x031.125"),
        (4.82e12, "0.00E+00", "4820000000000"),
        (1e30, "0.00", f"1{30 * '0'}"),
        (-0.5, "0.0;[Red](0.0)", "-0.5"),
        (0.05, "0%", "\x035\x035%"),
        (5, '0"%"', "5"),
        (0.125, "0%", "\x0312.5\x0313%"),
        (123, "00000", "\x03123\x0300123"),
        (1250.5, "[$$-409]#,##0.00", "1250.5 $"),
        (99, "#,##0.00\\ [$€-407]", "99 €"),
        (99, '_-* #,##0.00\\ "грн."_-;-* #,##0.00\\ "грн."_-', "99 грн"),
        (99, '"грн"0', "99 грн"),
        (99, "0 [$XAF-409]", "99 XAF"),
        (99, '"SKU"0 "шт."', "99"),
        (MOMENT, "yyyy-mm-dd", "\x012026-12-01 08:30:00"),
        (MOMENT, 'yyyy-mm-dd"T"hh:mm:ss"Z"', "\x012026-12-01T08:30:00Z"),
        (46357, '[$-422]d mmmm yyyy" р.";@', "\x012026-12-01"),
        (46357, "dd.mm.yyyy hh:mm", "\x012026-12-01 00:00:00"),
        (1.5, "[h]:mm", "36:00:00"),
        (-1, "dd.mm.yyyy", "-1"),
    ],
)
def test_a_cell_is_what_it_shows(value: float, number_format: str, text: str) -> None:
    assert cells(workbook([[(value, number_format)]])) == [[text]]


def test_days_may_count_from_1904() -> None:
    days = workbook([[date(2026, 3, 31), MOMENT]], default_date_format="", date_1904=True)
    assert cells(days)[0][0] == "\x012026-03-31"


def test_what_is_shown_is_what_comes_in() -> None:
    """Of a column, whose field tells what a cell may be."""
    data = workbook(
        [
            ["external_id", "title", "item_name", "item_quantity", "item_price", "item_discount"],
            [(7, "000"), "Стіл", "Дуб", 1.125, (100 / 3, "0.00"), (0.05, "0%")],
            ["x", (46154, "dd.mm"), "Дуб", 1, (46154, "dd.mm"), 0],
        ]
    )
    file = read_file(data, find_resource("deals"))
    assert file.values["external_id"][0] == "007"
    numbers = [file.values[f"item_{name}"][0] for name in ("quantity", "price", "discount")]
    assert numbers == [1125, 333_300, 50_000]
    faults = [(fault.column, fault.code) for fault in file.faults[1]]
    assert faults == [("title", "excel_date"), ("item_price", "excel_date")]


def test_another_currency_is_an_error() -> None:
    prices = [["Артикул", "Назва", "Ціна"], ["U", "Дриль", (1250.5, "[$$-409]#,##0.00")]]
    options = ImportOptions({"Артикул": "sku", "Назва": "name", "Ціна": "price"})
    file = read_file(workbook(prices), find_resource("products"), options=options)
    assert [fault.code for fault in file.faults[0]] == ["other_currency"]


@pytest.mark.parametrize(
    ("title", "due_at", "hour"), [("title", "due_at", "08"), ("Назва", "Термін", "06")]
)
def test_a_time_is_utc_in_a_file_for_programs_and_else_local(
    title: str, due_at: str, hour: str
) -> None:
    """Programs drop the zone that our file had."""
    data = workbook([[title, due_at], ["а", (MOMENT, "yyyy-mm-dd")]])
    file = read_file(data, find_resource("tasks"))
    assert file.values["due_at"] == [f"2026-12-01T{hour}:30:00Z"]


def test_a_formula_has_a_value_or_is_an_error() -> None:
    prices = workbook([["sku", "name", "price"], ["F1", "Стіл", "=100+20"], ["F2", "Стіл", "=1"]])
    unsaved = edited(prices, SHEET, lambda xml: xml.replace(b"100+20</f><v>0</v>", b"100+20</f>"))
    file = read_file(unsaved, find_resource("products"))
    assert file.values["price"] == [None, 0] and file.sheet.formulas == 2
    assert [fault.code for fault in file.faults[0]] == ["formula_without_value"]


def test_hidden_rows_are_left_out_and_counted() -> None:
    def hide(sheet: Any) -> None:
        sheet.set_row(1, options={"hidden": True})

    data = workbook([["sku"], ["A"], ["B"]], edit=hide)
    assert cells(data) == [["sku"], [], ["B"]]
    assert plain_csv(data).counts == {"hidden_rows": 1, "formulas": 0}
    everything = plain_csv(data, include_hidden=True)
    assert (everything.data, everything.counts["hidden_rows"]) == (b"sku\r\nA\r\nB\r\n", 0)


def test_a_merged_cell_is_that_of_all_its_rows() -> None:
    def merge(sheet: Any) -> None:
        sheet.merge_range("A2:B4", "Меблі")

    rows = [["category", "", "sku"], ["", "", "A"], ["", "", "B"], [], ["", "", "C"]]
    filled = [["category", "", "sku"], ["Меблі", "", "A"], ["Меблі", "", "B"], [], ["", "", "C"]]
    assert cells(workbook(rows, edit=merge)) == filled


def test_a_sheet_of_open_document_is_what_it_shows() -> None:
    content = Path(__file__).parents[1] / "data" / "open-document.xml"
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.write(content, "content.xml")
    data, name, counts = plain_csv(file.getvalue())
    assert (name, counts) == ("ods", {"hidden_rows": 1, "formulas": 2})
    assert list(csv.reader(io.StringIO(data.decode(), newline=""))) == [
        ["a  b\nc", "\x035.5\x036%", "1250.5 EUR", "99.9 грн", "\x0312.5\x0313%",
         "\x0333.333333\x0333.33", *2 * ["\x037\x03007"]],
        [],
        ["a  b\nc", "\x012026-12-01", "\x012026-12-01T08:30:00Z", "false", "true", "#VALUE!",
         "\x02", ""],
    ]  # fmt: skip


def test_cells_far_away_are_read() -> None:
    far = edited(
        PRICES, SHEET, lambda xml: xml.replace(b"C2", b"XFD1048576").replace(b'r="2"', b"")
    )
    assert [len(line) for line in cells(far) if line] == [16384] * 2


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


def test_the_first_visible_sheet_with_content_is_read_or_the_chosen_one() -> None:
    data = workbook([["a"]], [["b"]])
    assert cells(data) == [["a"]]
    assert cells(workbook([], [["b"]])) == [["b"]]
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
        assert unusable.faults[0].detail == conversion.UNREADABLE
    else:
        assert b"root:" not in text


@pytest.mark.parametrize("end", ["import time; time.sleep(60)", "import os; os.abort()"])
def test_a_reader_that_hangs_or_ends_itself_refuses_the_workbook(
    monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    monkeypatch.setattr(conversion, "_reader_command", lambda: [sys.executable, "-c", end])
    monkeypatch.setattr(conversion, "TIMEOUT", 0.2)
    assert refused(PRICES) == ("unreadable_workbook", conversion.UNREADABLE)


LIMITED = "from crm.spreadsheets import workbook; workbook.{} = {}; workbook.main('')"


@pytest.mark.parametrize("limit", ["MAX_MEMORY_BYTES", "MAX_CSV_BYTES"])
def test_a_workbook_beyond_the_limits_of_its_process_is_refused(
    monkeypatch: pytest.MonkeyPatch, limit: str
) -> None:
    data = workbook([["а" * 30_000] * 100])
    for most, is_enough in ((1 << 30, True), (1 << 20, False)):
        command = [sys.executable, "-c", LIMITED.format(limit, most)]
        monkeypatch.setattr(conversion, "_reader_command", lambda command=command: command)
        if is_enough:
            assert len(cells(data)[0]) == 100
        else:
            assert refused(data) == ("unreadable_workbook", conversion.UNREADABLE)


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
