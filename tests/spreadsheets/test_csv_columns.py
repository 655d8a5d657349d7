"""Columns of files from the declaration of a record's fields (D2, D9)."""

from typing import Any

import pytest

from crm.records import columns
from crm.records.record import SoftDeletedRecord
from crm.spreadsheets import read_file
from crm.spreadsheets.csv_columns import BadCell, id_column, reference_column
from crm.spreadsheets.csv_format import write
from crm.spreadsheets.options import ImportOptions
from crm.spreadsheets.resource import ImportableResource, find_resource
from tests.cases import loop_over
from tests.memory import peak_bytes


class Machine(SoftDeletedRecord):
    """A record that only these tests have."""

    noun = "machine"

    name = columns.Text(20, required=True, label="Name", aliases=("title", "назва"))
    serial = columns.Text(20, csv=False)
    seats = columns.Integer(1, 9)
    price = columns.Price()
    weight = columns.Quantity()
    color = columns.Color()
    is_sold = columns.Boolean()
    built_on = columns.Date()
    kind = columns.Choice("old", "new")
    owner_id = columns.Id()
    lead_id = columns.Id()
    sold_at = columns.DateTime(dump_only=True, csv=True)
    checked_at = columns.DateTime(dump_only=True)


class ImportableMachines(ImportableResource):
    record = Machine
    replaced_columns = {"owner_id": (id_column("owner_id", "1"), reference_column("owner", "1"))}


MACHINES = ImportableMachines()


def values(header: str, *cells: str, excel: bool = False) -> list[Any]:
    """The stored values of the one column of a file."""
    data = write([header], [[cell] for cell in cells], excel)
    file = read_file(data, MACHINES, excel)
    (column,) = file.values.values()
    return column


def test_a_declared_field_is_a_column_unless_it_says_otherwise():
    assert MACHINES.column_names == (
        *("id", "external_id", "name", "seats", "price", "weight", "color", "is_sold", "built_on"),
        *("kind", "owner_id", "owner", "sold_at", "extra", "created_at", "source_tenant"),
    )


@pytest.mark.parametrize(
    ("name", "cell", "stored", "written"),
    [
        ("name", " Їжак ", "Їжак", "Їжак"),
        ("seats", "4", 4, "4"),
        ("price", "1250.5", 12_505_000, "1250.50"),
        ("price", "9999999999.9999", 99_999_999_999_999, "9999999999.9999"),
        ("price", "12345678901", None, None),
        ("price", "1.00001", None, None),
        ("price", "\x0333.33333\x0333.33", 333_300, "33.33"),
        ("price", "\x031.125\x031.1", 11_250, "1.125"),
        ("name", "\x031.125\x031.1", "1.1", "1.1"),
        ("built_on", "\x012025-12-31 08:30:00", "2025-12-31", "2025-12-31"),
        ("weight", "0,125", 125, "0.125"),
        ("weight", "0", None, None),
        ("color", "#1F6FEB", "#1f6feb", "#1f6feb"),
        ("is_sold", "так", 1, "true"),
        ("built_on", "31.12.2025", "2025-12-31", "2025-12-31"),
        ("kind", "NEW", "new", "new"),
        ("sold_at", "5.03.2024", "2024-03-04T22:00:00Z", "2024-03-04T22:00:00Z"),
        ("sold_at", "31.02.2024", None, None),
        ("extra", '{"a": 1}', '{"a":1}', '{"a":1}'),
        ("extra", "[1]", None, None),
        ("extra", "{", None, None),
        ("seats", "4.5", None, None),
        ("seats", "10", None, None),
        ("seats", "багато", None, None),
        ("kind", "broken", None, None),
    ],
)
def test_each_kind_of_field_is_read_and_written(acme, name, cell, stored, written):
    column = MACHINES.column(name)
    (value,) = column.read_cells([cell])
    if stored is None:
        assert isinstance(value, BadCell)
    else:
        assert (value, column.text(value)) == (stored, written)


def test_what_a_workbook_lost_is_an_error():
    lost = [("name", "\x012026-05-12"), ("price", "\x012026-05-12"), ("price", "\x02")]
    bad_cells = [MACHINES.column(name).read_cells([cell])[0] for name, cell in lost]
    assert [bad.code for bad in bad_cells] == [*2 * ["excel_date"], "formula_without_value"]


@loop_over(
    ("cells", "prices"),
    [
        (["1,250", "1,000,000"], [1250, 1_000_000]),
        (["1,250", "99.90"], [1250, 99.9]),
        (["1,250", "99,90 ₴"], [1.25, 99.9]),
        (["1.250", "99,90"], [1250, 99.9]),
        (["1.250", "1.000.000"], [1250, 1_000_000]),
        (["1.250", "1250"], [1.25, 1250]),
        (["1,250", "1.000.000", "1,000,000"], [None, 1_000_000, 1_000_000]),
        (["1,250", "1250.00", "1\u202f250,00"], [None, 1250, 1250]),
        (["1,250", "12\u00a0500,5"], [1.25, 12_500.5]),
        (["1,250", "за запитом 1.5"], [None, None]),
        (["1E+3", "5%", "4,82E+12"], [1000, None, None]),
    ],
)
def test_a_column_tells_what_its_numbers_are(acme, cells, prices):
    read = MACHINES.column("price").read_cells(cells)
    stored = [None if type(price) is BadCell else price / 10_000 for price in read]
    assert stored == prices


@loop_over("mark, price", [("point", 1250), ("comma", 1.25)])
def test_an_open_number_is_what_the_option_says(acme, mark, price):
    data, options = b'price\n"1,250"\n', ImportOptions(decimal_mark=mark)
    assert read_file(data, MACHINES, options=options).values["price"] == [price * 10_000]
    assert read_file(data, MACHINES).faults[0][0].code == "ambiguous_number"
    assert read_file(b"price;name\n1,250;\n", MACHINES, True).values["price"] == [12_500]


def test_numbers_are_no_texts_for_a_spreadsheet():
    numbers = {"seats", "price", "weight"}
    assert MACHINES.text_columns == set(MACHINES.column_names) - numbers


def test_a_read_only_time_of_a_file_is_history():
    column = MACHINES.column("sold_at")
    assert (column.is_create_only, column.is_past) == (True, True)
    assert not MACHINES.column("built_on").is_past


@pytest.mark.parametrize("header", ["name", "Title", " НАЗВА "])
def test_a_column_goes_by_each_of_its_names(header):
    assert values(header, "Їжак") == ["Їжак"]


def test_a_rejected_row_comes_back_under_the_name_of_the_column():
    file = read_file("Title,seats\nЇжак,x\n".encode(), MACHINES)
    assert file.sheet.columns == ["name", "seats"]
    assert [(fault.column, fault.code) for fault in file.faults[0]] == [("seats", "invalid_number")]


def test_plain_texts_are_read_as_others_are():
    """A column of plain texts is trimmed at once, any other cell by cell."""
    plain, column = [" а ", "б" * 20, "", "  ", "x"], MACHINES.column("name")
    assert column.read_cells(plain) == ["а", "б" * 20, None, None, "x"]
    assert column.read_cells([*plain, "\u00a0", "\ttab"])[:5] == column.read_cells(plain)


def test_a_text_that_rows_repeat_is_read_once():
    cells = ["б" * 20] * 1_000_000
    column = MACHINES.column("name")
    assert column.read_cells(cells) == cells
    assert peak_bytes(column.read_cells, cells) < 20_000_000  # all at once they are 40 MB


def test_a_quantity_looks_like_no_thousands():
    column = find_resource("deals").column("item_quantity")
    assert list(map(column.write(True), [125, 1125, 12500])) == ["0,1250", "1,1250", "12,5"]
    assert column.read_cells(["0,1250", "1,1250"]) == [125, 1125]


def test_tags_longer_than_the_parser_takes_are_refused():
    column = find_resource("leads").column("tags")
    refused = column.read_cells(["x" * 130_000, "x" * 140_000])
    assert [bad_cell.code for bad_cell in refused] == ["too_long", "too_long"]


@loop_over(
    "tags", [["a;b", "c"], ["* група"], ["a,b", "c;d"], ["опт", "vip"], ["a:::b", '"'], ["'"]]
)
def test_tags_come_back_from_their_cell(tags):
    column = find_resource("leads").column("tags")
    stored = column.field.read(tags)
    assert column.read_cells([column.text(stored)]) == [stored]
