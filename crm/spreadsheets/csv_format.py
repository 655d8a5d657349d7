"""CSV as spreadsheet programs write it, read and written, whatever its rows mean.

Two dialects (D9): the plain one is RFC 4180 and exact; the excel one has a BOM, `;` and a leading
`'` on text that Excel would take for a formula; in files for people on any text that it would take
for something else. What is written in a dialect and read in the same
one gives the same cells: only column names are trimmed, and only rows without any content are
dropped, because spreadsheets save deleted rows as `;;;`.
"""

import codecs
import csv
import io
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import islice
from typing import IO, NamedTuple

from crm.errors import Fault, Invalid
from crm.spreadsheets.cells import NUMBER, guard
from crm.spreadsheets.encodings import WINDOWS_1251, recognize_encoding
from crm.spreadsheets.marked_cells import shown

FORMULA_STARTS = frozenset("=+-@'\t\r")
MAX_HEADER_LINES = 100  # that are looked at, with all line breaks in cells
BLANK = " \r\n,;\t"  # a line of these has no content
MAX_CELLS = 20_000_000  # of a file: rows that lack cells are filled up to the header's columns
MAX_REREAD_CHARACTERS = 20_000_000  # bounds the work that crafted quotes can cause

NOT_TEXT = "this is not a text file; save the sheet as CSV first"
SEP_LINE = re.compile(r'"?sep=([,;\t])"?[ ,;\t]*', re.IGNORECASE)
WRITTEN_CELL = re.compile(r'(?:"([^"]*(?:""[^"]*)*)"|([^",\r\n]*))(,|\r\n)')  # by `write`, plain


class UnusableFile(Invalid):
    """Nothing in the file can be used: empty_file, not_text, bad_encoding, field_too_long (the
    header), unknown_column, duplicate_column, missing_column, too_many_rows."""

    def __init__(self, code: str, detail: str) -> None:
        super().__init__(Fault("/file", code, detail), code)


class RowError(NamedTuple):
    """A row that could not be read: too_many_cells (`cells` has them all), bad_quotes,
    unclosed_quote or field_too_long (`cells` has one, the unchanged first line)."""

    line: int
    code: str
    message: str
    cells: list[str]


class Sheet(NamedTuple):
    """`rows` are (line where the row starts, cells in the order of `columns`); lines count from 1
    with the file's first. The file's data rows are `rows` and `errors` together. `is_excel`: it is
    in the excel dialect. `hidden_rows` and `formulas` are the counts of conversion.PlainFile."""

    columns: list[str]
    rows: list[tuple[int, tuple[str, ...]]]
    errors: list[RowError]
    encoding: str
    delimiter: str
    header_line: int = 1
    is_excel: bool = False
    hidden_rows: int = 0
    formulas: int = 0


class Header(NamedTuple):
    """The header of a file: its cells, the line where it ends, and the delimiter."""

    cells: list[str]
    line: int
    delimiter: str


def find_header(
    content: str,
    count_known: Callable[[list[str]], int],
    marks: str,
    max_lines: int = 1,
    line: int = 1,
) -> Header:
    """The header of a file, or UnusableFile: which line and which of `marks` makes most sense.

    It is one of the first `max_lines` rows with content from `line` on, by the number of its cells
    that `count_known` gives.
    """
    lines = list(islice(io.StringIO(content, newline=""), line + MAX_HEADER_LINES))
    start = next((at for at, text in enumerate(lines) if text.strip(BLANK)), 0)
    if lines and (sep := SEP_LINE.fullmatch(lines[start].rstrip("\r\n"))):
        marks, start = sep[1], start + 1
    best, header, is_too_long = (-1, 0), None, False
    for mark in marks:
        reader, count = csv.reader(lines[start:], delimiter=mark), 0
        try:
            while count < max_lines:
                cells = next(reader)
                if reader.line_num + start < line or not any(cell.strip(BLANK) for cell in cells):
                    continue
                count += 1
                sense = count_known(cells), len(cells)
                if sense[0] > best[0] or (count == 1 and sense > best):
                    names = list(map(shown, cells))
                    best, header = sense, Header(names, reader.line_num + start, mark)
        except StopIteration:
            pass
        except csv.Error:
            is_too_long = True
    if header is None and is_too_long:
        raise UnusableFile("field_too_long", f"the header, line {start + 1}, is too long")
    if header is None:
        raise UnusableFile("empty_file", "the file is empty: it needs a header line")
    return header


def read_rows(
    content: str, header: Header, places: Sequence[int], max_rows: int, excel: bool = False
) -> tuple[list[tuple[int, tuple[str, ...]]], list[RowError]]:
    """The rows below a header with the cells of these places, and those that cannot be read.

    Raises UnusableFile `too_many_rows`.
    """
    file, line, width = io.StringIO(content, newline=""), header.line, len(header.cells)
    for _ in range(line):
        file.readline()
    is_whole = width == len(places)
    max_rows = min(max_rows, MAX_CELLS // (len(places) or 1))
    rows: list[tuple[int, tuple[str, ...]]] = []
    errors: list[RowError] = []
    records = _read_records(file, header.delimiter, line, width, errors)
    for count, (line, cells) in enumerate(records, 1):
        if count > max_rows:
            detail = f"the file has more than {max_rows} rows"
            raise UnusableFile("too_many_rows", detail)
        if excel:
            cells = [cell.removeprefix("'") for cell in cells]
        if len(cells) != width or not is_whole:
            strays = [at for at, cell in enumerate(cells) if cell.strip() and at not in places]
            if strays:
                message = f"cell {strays[0] + 1} stands under no column of the header"
                errors.append(RowError(line, "too_many_cells", message, cells))
            if strays or not cells:
                continue
            cells = [cells[at] if at < len(cells) else "" for at in places]
        rows.append((line, tuple(cells)))  # the collector skips tuples: a third faster
    return rows, errors


def write(
    header: Sequence[str],
    rows: Iterable[Sequence[str | None]],
    excel: bool = False,
    text_columns: Collection[str] = (),
    guards: bool = False,
) -> bytes:
    """A CSV file, as `write_to` writes it."""
    data = io.BytesIO()
    write_to(data, header, rows, excel, text_columns, guards)
    return data.getvalue()


def write_to(
    to: IO[bytes],
    header: Sequence[str],
    rows: Iterable[Sequence[str | None]],
    excel: bool = False,
    text_columns: Collection[str] = (),
    guards: bool = False,
    kept_columns: Collection[str] = (),
) -> None:
    """Write a CSV file row by row. In the excel dialect, and where it `guards` against formulas,
    no cell is one, and none of `text_columns` a number; `kept_columns` have texts that no program
    may change. The other numbers come rendered by the caller: `decimal_writer(…, comma=True)`."""
    file = io.TextIOWrapper(to, "utf-8-sig" if excel else "utf-8", newline="")
    try:
        writer = csv.writer(file, delimiter=";" if excel else ",", lineterminator="\r\n")
        writer.writerow(header)
        file.flush()  # to who reads the file meanwhile, before a row is read
        texts = frozenset(at for at, name in enumerate(header) if name in text_columns)
        kept = frozenset(at for at, name in enumerate(header) if name in kept_columns)
        writer.writerows(_guarded(rows, texts, kept) if excel or guards else rows)
    finally:
        file.detach()  # else the wrapper would close the caller's file


def in_excel_dialect(data: bytes, text_columns: Collection[str] = ()) -> bytes:
    """A file of `write`, in whichever dialect, in the excel one: no cell of it is a formula.

    Read in that dialect it gives the cells that the plain file has, however long they are.
    """
    if data.startswith(codecs.BOM_UTF8):
        return data
    rows = _written_rows(data.decode())
    return write(next(rows), rows, True, text_columns)


def _written_rows(text: str) -> Iterator[list[str]]:
    cells: list[str] = []
    for quoted, bare, end in WRITTEN_CELL.findall(text):
        cells.append(quoted.replace('""', '"') or bare)
        if end != ",":
            yield cells
            cells = []


def decode(data: bytes) -> tuple[str, str]:
    """The encoding's name and the text; raises UnusableFile."""
    utf16 = data.startswith((b"\xff\xfe", b"\xfe\xff"))
    if not utf16 and b"\0" in data:
        raise UnusableFile("not_text", NOT_TEXT)
    encoding = "utf-16" if utf16 else "utf-8"
    try:
        try:
            text = data.decode(encoding)
        except UnicodeDecodeError:
            if utf16 or _is_mostly_utf8(data):
                raise
            if not (encoding := recognize_encoding(data)):
                detail = "the encoding is not known; save the file as utf-8"
                raise UnusableFile("bad_encoding", detail) from None
            text = data.decode(encoding, "strict" if encoding == WINDOWS_1251 else "replace")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        detail = f"line {line} is not {encoding} text, as the file seems to be; save it as utf-8"
        raise UnusableFile("bad_encoding", detail) from None
    if "\0" in text:
        raise UnusableFile("not_text", NOT_TEXT)
    return encoding, text.lstrip("\ufeff")


def _is_mostly_utf8(data: bytes) -> bool:
    """Whether a file is in UTF-8, perhaps with damaged letters.

    One bad byte must not make Windows-1251 of it: that garbles every name.
    """
    valid = data.decode("utf-8", "ignore")
    bad_bytes = len(data) - len(valid.encode())
    return len(valid) - len(valid.encode("ascii", "ignore")) >= 10 * bad_bytes


def _read_records(
    file: io.StringIO, delimiter: str, end: int, width: int, errors: list[RowError]
) -> Iterator[tuple[int, list[str]]]:
    """The rows below line `end`, each with the line where it starts; no cells: see `errors`.

    A quote without its partner makes the parser take the rows below into one cell. Such a row is
    an error and the rows below are read again, in doubt until one has all its cells: what stands
    there may be the middle of a cell with line breaks. A row that has all its cells is believed,
    one of several lines that has others is not.
    """
    budget, doubted = MAX_REREAD_CHARACTERS, False
    while True:
        base, start = end, file.tell()
        reader = csv.reader(file, delimiter=delimiter, strict=True)
        try:
            for cells in reader:
                last = base + reader.line_num
                if len(cells) == width:
                    doubted = False
                elif cells and (doubted or last > end + 1):
                    raise csv.Error("part of a row" if doubted else "several rows")
                if cells and (cells[0].strip() or "".join(cells).strip()):
                    yield end + 1, cells
                end, start = last, file.tell()
            return
        except csv.Error as error:
            first, last, after = end + 1, base + reader.line_num, file.tell()
            code, message = _explain(error, first, last)
            file.seek(start)
            text = file.readline().rstrip("\r\n")
            errors.append(RowError(first, code, message, [text]))
            yield first, []
            budget -= after - start
            doubted = doubted or last > first or text.count('"') % 2 == 1
            end = first
            if budget <= 0:
                end = last
                file.seek(after)


def _explain(error: csv.Error, first: int, last: int) -> tuple[str, str]:
    if last > first or "end of data" in str(error):
        return "unclosed_quote", f"a quote is opened here and not closed properly by line {last}"
    if "part of a row" in str(error):
        return "unclosed_quote", "this is not a whole row, and a quote above was not closed"
    if "field limit" in str(error):
        return "field_too_long", f"a cell is longer than {csv.field_size_limit()} characters"
    return "bad_quotes", "a quote inside a quoted cell must be doubled"


def _guarded(
    rows: Iterable[Sequence[str | None]],
    texts: Collection[int],
    kept: Collection[int],
) -> Iterator[list[str | None]]:
    # Rejected rows are written too: a column of numbers may have anything, and a row any width.
    for row in rows:
        yield [
            cell
            if not cell
            else guard(cell)
            if at in kept
            else f"'{cell}"
            if cell[0] in FORMULA_STARTS and (at in texts or not NUMBER.fullmatch(cell))
            else cell
            for at, cell in enumerate(row)
        ]
