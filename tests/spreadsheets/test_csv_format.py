"""CSV as spreadsheets make it: what is understood, what is refused, and that nothing is lost."""

import csv
import random

import pytest

from crm.spreadsheets import csv_format, find_resource
from crm.spreadsheets.cells import decimal_writer, parse_boolean, parse_decimal
from crm.spreadsheets.foreign.headers import read_table
from tests.cases import loop_over
from tests.csv_helpers import HOSTILE
from tests.memory import peak_bytes

COLUMNS = ["sku", "name", "price", "unit", "category", "description", "active"]
TEXT = ["sku", "name", "unit", "category", "description"]
UKRAINIAN = "Ґудзик «Їжак», № 5 — п'ять"


def read(text: str | bytes, **options) -> csv_format.Sheet:
    data = text if isinstance(text, bytes) else text.encode()
    options = {"max_rows": 50_000, "is_own": True} | options
    return read_table(data, find_resource("products"), **options)[0]


def rows(text: str | bytes, **options) -> list[tuple[int, list[str]]]:
    sheet = read(text, **options)
    assert sheet.errors == []
    return [(line, list(cells)) for line, cells in sheet.rows]


def lines_and_codes(sheet: csv_format.Sheet) -> list[tuple[int, str]]:
    return [(error.line, error.code) for error in sheet.errors]


def refusal(text: str | bytes, **options) -> csv_format.UnusableFile:
    with pytest.raises(csv_format.UnusableFile) as refused:
        read(text, **options)
    assert str(refused.value) == refused.value.detail
    assert refused.value.detail[0].islower()
    return refused.value


# Encodings and delimiters


@loop_over(
    ("codec", "bom", "encoding"),
    [
        ("utf-8", b"", "utf-8"),
        ("utf-8-sig", b"", "utf-8"),
        ("utf-16-le", b"\xff\xfe", "utf-16"),
        ("utf-16-be", b"\xfe\xff", "utf-16"),
        ("cp1251", b"", "windows-1251"),
    ],
)
@loop_over("delimiter", [",", ";", "\t"])
@loop_over("end", ["\n", "\r\n", "\r"])
def test_ukrainian_text_is_read_in_every_encoding(codec, bom, encoding, delimiter, end):
    text = f'sku{delimiter}name{end}A1{delimiter}"{UKRAINIAN}"{end}A2{delimiter}Її{end}'
    sheet = read(bom + text.encode(codec))
    assert (sheet.encoding, sheet.delimiter) == (encoding, delimiter)
    assert sheet.columns == ["sku", "name"]
    assert sheet.rows == [(2, ("A1", UKRAINIAN)), (3, ("A2", "Її"))]


@pytest.mark.parametrize("codec", ["utf-8", "utf-16"])
def test_what_is_not_text_is_refused(codec):
    assert refusal("sku,name\nA1,a\0b\n".encode(codec)).code == "not_text"


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"sku,name\nA1,\xcf\xf0\xe8\x98\n", "line 2 is not windows-1251"),
        ("sku,name\nA1,ok\nA2,Київ Київ Київ".encode()[:-1], "line 3 is not utf-8"),
        ("sku".encode("utf-16")[:-1], "not utf-16"),
    ],
)
def test_bytes_of_no_known_encoding_are_refused_with_their_line(data, words):
    refused = refusal(data)
    assert refused.code == "bad_encoding"
    assert words in refused.detail


@pytest.mark.parametrize(
    ("header", "delimiter"),
    [
        ("sku", ","),
        ("sku;name", ";"),
        ('"sku";"name"', ";"),
        (" SKU ; Name ", ";"),
    ],
)
def test_the_delimiter_is_read_off_the_header(header, delimiter):
    sheet = read(f"{header}\n")
    assert sheet.delimiter == delimiter
    assert sheet.columns == ["sku", "name"][: len(sheet.columns)]


@pytest.mark.parametrize("sep", ["sep=;", "SEP=;", '"sep=;"', "sep=;;;"])
def test_a_sep_line_of_excel_is_understood_and_counts_as_a_line(sep):
    assert rows(f"{sep}\r\nsku;name\r\nA1;x,y\r\n") == [(3, ["A1", "x,y"])]


# The header


@loop_over(
    ("text", "code", "words"),
    [
        ("", "empty_file", "header"),
        ("\r\n \n;;;\n", "empty_file", "header"),
        ("name,price\n", "missing_column", "'sku'"),
        ("a,sku,b,a\n", "unknown_column", "unknown columns 'a', 'b': the columns are sku,"),
        ("sku,name,Sku\n", "duplicate_column", "'sku'"),
        ("sep=|\nsku|name\n", "unknown_column", "'sep=|'"),
        ("sku," + "x" * 131_073, "field_too_long", "line 1"),
    ],
)
def test_a_header_that_can_not_be_used_is_refused(text, code, words):
    refused = refusal(text)
    assert refused.code == code
    assert words in refused.detail


def test_a_column_without_a_name_is_ignored_while_it_is_empty():
    sheet = read("sku,,name,\nA1,,x,\nA2, ,y,\nA3,z,y,\nA4,,y,z\nA5,,y\n")
    assert sheet.columns == ["sku", "name"]
    assert sheet.rows == [(2, ("A1", "x")), (3, ("A2", "y")), (6, ("A5", "y"))]
    assert lines_and_codes(sheet) == [(4, "too_many_cells"), (5, "too_many_cells")]


# Rows


def test_a_line_number_is_that_of_the_physical_line_where_the_row_starts():
    text = '\n\nsku,name\n\nA1,"x\r\ny\n\nz"\n,,\n   \nA2,x\r\nA3,"a\nb"'
    assert rows(text) == [
        (5, ["A1", "x\r\ny\n\nz"]),
        (11, ["A2", "x"]),
        (12, ["A3", "a\nb"]),
    ]


def test_line_breaks_of_unicode_are_no_line_breaks():
    text = "sku,name\nA1,a\u2028b\x0bc\x85d\nA2,x\n"
    assert rows(text) == [(2, ["A1", "a\u2028b\x0bc\x85d"]), (3, ["A2", "x"])]


def test_rows_without_content_are_no_rows():
    assert rows('sku,name,price\n,,\n\n"", \nA1,,\n', max_rows=1) == [(5, ["A1", "", ""])]


def test_cells_that_are_missing_are_empty_and_spaces_are_kept():
    assert rows("sku,name,price\nA1\n A2 , x\n") == [
        (2, ["A1", "", ""]),
        (3, [" A2 ", " x", ""]),
    ]


def test_too_many_cells_stop_only_their_row_and_are_kept_for_repair():
    sheet = read("sku,name\nA1,x,y\nA2,x,,\nA3,x\n")
    assert sheet.rows == [(3, ("A2", "x")), (4, ("A3", "x"))]
    message = "cell 3 stands under no column of the header"
    assert sheet.errors == [(2, "too_many_cells", message, ["A1", "x", "y"])]


@pytest.mark.parametrize("bad", ["A2,x,y", 'A2,"x"y'])
def test_the_row_limit_counts_good_and_bad_rows_but_no_blank_lines(bad):
    text = f"sku,name\nA1,x\n\n{bad}\n\n"
    assert len(read(text, max_rows=2).rows) == 1
    refused = refusal(text, max_rows=1)
    assert refused.detail == "file: the file has more than 1 rows"


def test_rows_beyond_the_limit_take_no_memory():
    text = "sku\n" + "A\n" * 1_000_000
    assert peak_bytes(refusal, text) < 30_000_000  # as tuples they are 64 MB


def test_rows_that_are_filled_up_to_the_header_are_bounded(monkeypatch):
    monkeypatch.setattr(csv_format, "MAX_CELLS", 9)
    text = "sku,name,price\n" + "A1\n" * 3
    assert [cells for _, cells in rows(text)] == [["A1", "", ""]] * 3
    refused = refusal(text + "A1\n")
    assert refused.detail == "file: the file has more than 3 rows"
    assert len(rows("sku\n" + "A1\n" * 9)) == 9


@pytest.mark.parametrize("quote", ["", '"'])
def test_a_field_beyond_the_parsers_limit_stops_only_its_row(quote):
    longest = "x" * 131_072
    sheet = read(f"sku,name\nA1,{quote}{longest}x{quote}\nA2,{quote}{longest}{quote}\n")
    assert lines_and_codes(sheet) == [(2, "field_too_long")]
    assert sheet.rows == [(3, ("A2", longest))]
    assert csv.field_size_limit() == 131_072


# Quotes


@pytest.mark.parametrize(
    ("text", "cells"),
    [
        ('A1,24" wide', ["A1", '24" wide']),
        ('A1,"24"" wide"', ["A1", '24" wide']),
        ('A1,"a,b;c\t"', ["A1", "a,b;c\t"]),
        ('A1,""""', ["A1", '"']),
    ],
)
def test_quotes_are_read_as_rfc_4180_has_them(text, cells):
    assert rows(f"sku,name\n{text}\n") == [(2, cells)]


def test_a_quote_that_is_not_doubled_stops_only_its_row():
    sheet = read('sku,name\nA1,"x" y\nA2,y\n')
    assert lines_and_codes(sheet) == [(2, "bad_quotes")]
    assert sheet.errors[0].cells == ['A1,"x" y']
    assert sheet.rows == [(3, ("A2", "y"))]


@pytest.mark.parametrize(
    ("closing", "is_row"),
    [
        ("A4;z;1", True),
        ('A4;"z";1', True),
        ('A4;"z', False),
        ('A4;z";1;2;3', False),
    ],
)
def test_an_unclosed_quote_does_not_take_the_rows_below_with_it(closing, is_row):
    sheet = read(f'sku;name;price\nA1;x;1\nA2;"Open;1\nA3;y;1\n{closing}\nA5;z;1\n')
    results = dict(sheet.rows)
    assert results[4] == ("A3", "y", "1")
    assert results[6] == ("A5", "z", "1")
    assert lines_and_codes(sheet)[0] == (3, "unclosed_quote")
    assert sheet.errors[0].cells == ['A2;"Open;1']
    assert (5 in results) == is_row


@pytest.mark.parametrize(
    ("broken", "errors"),
    [
        ('A1,x,"first\nsecond, with a "word"\nthird"', 3),
        ('A1,"x" y,"first\nsecond"', 2),
        ('A1,x,"first\n\n"second", third"', 2),
    ],
)
def test_the_middle_of_a_broken_cell_does_not_become_a_row(broken, errors):
    sheet = read(f"sku,name,description\n{broken}\nA2,y,\nA3,z\n")
    assert [cells for _, cells in sheet.rows] == [("A2", "y", ""), ("A3", "z", "")]
    assert sheet.errors[0].line == 2
    assert len(sheet.errors) == errors


def test_a_row_with_all_its_cells_is_believed():
    text = 'sku;name;price\nA1;"open;1\nA2;y;1\nA3;z 12";1\nA4;z;1\n'
    assert rows(text)[0] == (2, ["A1", "open;1\nA2;y;1\nA3;z 12", "1"])


def test_crafted_quotes_can_not_make_the_file_be_read_over_and_over(monkeypatch):
    text = "sku,name\n" + 'a","""\n' * 500
    assert len(read(text).errors) == 500
    monkeypatch.setattr(csv_format, "MAX_REREAD_CHARACTERS", 9_000)
    assert len(read(text).errors) < 5


def test_no_bytes_at_all_make_it_fail_in_another_way():
    chance = random.Random(5)
    pieces = ["sku", '""', "\r\n", *",;\t\"\n\r'=ї\x98 "]
    for _ in range(1_000):
        text = "sku,name\n" + "".join(chance.choices(pieces, k=chance.randrange(40)))
        codec = chance.choice(["utf-8", "utf-16", "utf-8-sig"])
        sheet = read(text.encode(codec))
        numbers = [line for line, *_ in sorted(sheet.rows + sheet.errors, key=lambda row: row[0])]
        assert len(set(numbers)) == len(numbers)
        assert all(len(cells) == 2 for _, cells in sheet.rows)


# Writing, and reading back

NASTY = [*HOSTILE, "", "one\ntwo", "one\r\ntwo\rthree", "\n", " both ends ", "'=x", "\tx", "\rx"]


@pytest.mark.parametrize("excel", [False, True])
@pytest.mark.parametrize("width", [1, 2, 7])
def test_what_is_written_is_read_back_the_same(excel, width):
    chance = random.Random(width)
    header, most = COLUMNS[:width], 400
    wanted = [[f"A{n}", *chance.choices(NASTY, k=width - 1)] for n in range(most)]
    wanted += [[cell, *["x"] * (width - 1)] for cell in NASTY if width > 1 or cell.strip()]
    data = csv_format.write(header, wanted, excel=excel, text_columns=COLUMNS)
    assert [cells for _, cells in rows(data, excel=excel)] == wanted


def test_the_plain_dialect_is_rfc_4180():
    data = csv_format.write(["sku", "name"], [["A1", 'x, "y"'], ["=A2", "їжак"], ["A3", None]])
    assert data == 'sku,name\r\nA1,"x, ""y"""\r\n=A2,їжак\r\nA3,\r\n'.encode()


def test_the_excel_dialect_keeps_text_from_being_a_formula_and_numbers_as_they_are():
    row = ["=A1", "@x", "-1,50", None, "'c", "\tz", "так"]
    data = csv_format.write(COLUMNS, [row], excel=True, text_columns=TEXT)
    header = "\ufeffsku;name;price;unit;category;description;active\r\n"
    assert data.decode() == header + "'=A1;'@x;-1,50;;''c;'\tz;так\r\n"


def test_what_is_no_number_is_no_formula_in_any_column_nor_beyond_them():
    rejected = ["A", "x", "=1+1", None, None, None, "+так", "@stray", "-5"]
    data = csv_format.write(COLUMNS, [rejected, ["=one cell"]], excel=True, text_columns=TEXT)
    assert data.decode().splitlines()[1:] == ["A;x;'=1+1;;;;'+так;'@stray;-5", "'=one cell"]


def test_one_apostrophe_is_taken_off_each_cell_in_the_excel_dialect_alone():
    text = "sku;name;price\n''A1;'x;'=5\n"
    assert rows(text, excel=True) == [(2, ["'A1", "x", "=5"])]
    assert rows(text, excel=False) == [(2, ["''A1", "'x", "'=5"])]
    (error,) = read("sku;name\nA;B;'=x\n", excel=True).errors
    assert error.cells == ["A", "B", "=x"]


# Cells


@loop_over(
    ("text", "number"),
    [
        ("1250.00", "1250.00"),
        ("-3,5", "-3.5"),
        ("1 250,00", "1250.00"),
        ("1\u202f250\u202f000,5", "1250000.5"),
        ("1'250.00", "1250.00"),
        ("1,250.00", "1250.00"),
        ("1.250.000,1234", "1250000.1234"),
        ("1.250", "1.250"),
        ("0,250", "0.250"),
        ("1E+3", "1000"),
        ("1,25e2", "125"),
        ("007,10", "007.10"),
    ],
)
def test_a_number_is_understood_as_people_write_it(text, number):
    assert parse_decimal(text) == number


@loop_over(
    "text",
    [
        "",
        "1250 грн",
        "+5",
        "1,25,000",
        "1,250",
        "1 250\u00a0000",
        "٣",
        "1\n250",
        "9" * 41,
        "1" + " 000" * 5_000,
    ],
)
def test_what_is_no_number_or_ambiguous_is_refused(text):
    with pytest.raises(
        ValueError, match="is not a number: write 1250.00 or 1 250,00|by decimal_mark$"
    ) as refused:
        parse_decimal(text)
    assert len(str(refused.value)) < 120


def test_yes_and_no_are_understood_as_programs_write_them_and_nothing_else():
    assert all(map(parse_boolean, ["true", "TRUE", "1", "yes", "Так", "ИСТИНА", "+"]))
    assert not any(map(parse_boolean, ["false", "0", "No", "НІ", "БРЕХНЯ", "хибність"]))
    for text in ("", "2", "true!"):
        with pytest.raises(ValueError, match="is none of true, false, 1, 0, yes, no, так, ні"):
            parse_boolean(text)


@loop_over(
    ("units", "scale", "text"),
    [
        (12_500_000, 4, "1250.00"),
        (123_456, 4, "12.3456"),
        (1, 4, "0.0001"),
        (0, 4, "0.00"),
        (-5, 4, "-0.0005"),
        (99_999_999_999_999, 4, "9999999999.9999"),
    ],
)
def test_money_is_written_exactly(units, scale, text):
    assert decimal_writer(scale)(units) == text
    comma = decimal_writer(scale, comma=True)(units)
    assert comma == text.replace(".", ",")
    assert parse_decimal(comma) == text


# A plain file as the other dialect


def test_a_plain_file_becomes_one_without_formulas_and_with_the_same_cells():
    chance = random.Random(5)
    signs = [*"=+-@'\t\r\n\",; aЇ1", "\r\n", '""', "=1+1", "-1"]
    for _ in range(300):
        width = chance.randint(1, 4)
        header = ["error", *COLUMNS][:width]
        table = [
            ["".join(chance.choices(signs, k=chance.randint(0, 5))) for _ in range(width)]
            for _ in range(chance.randint(0, 5))
        ]
        plain = csv_format.write(header, table)
        guarded = csv_format.in_excel_dialect(plain, TEXT)
        assert guarded == csv_format.write(header, table, True, TEXT)
        assert csv_format.in_excel_dialect(guarded, TEXT) == guarded


def test_a_cell_longer_than_the_parser_takes_is_kept_too():
    table = [["=" + "x" * 200_000, 'a "quoted" cell']]
    plain = csv_format.write(["error", "name"], table)
    assert csv_format.in_excel_dialect(plain) == csv_format.write(["error", "name"], table, True)
