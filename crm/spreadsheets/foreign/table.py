"""A CSV file of any program as a table: where its header is, and its rows."""

import csv
import io

from crm.spreadsheets.csv_format import SEP_LINE, Sheet, UnusableFile, decode, read_rows
from crm.spreadsheets.foreign.headers import count_known
from crm.spreadsheets.options import PLAIN, ImportOptions
from crm.spreadsheets.resource import ImportableResource

MAX_LARGE_ROWS = 100_000  # of a file of an API or a page
MAX_HEADER_LINES = 10  # with content, of which one is the header


def read_table(
    data: bytes,
    resource: ImportableResource,
    options: ImportOptions = PLAIN,
    max_rows: int = MAX_LARGE_ROWS,
) -> Sheet:
    """The rows of a file with the names of its columns as they are written, or UnusableFile.

    The header is in the line that the options say, else it is the one of the first ten lines with
    content, by whichever delimiter, that has most headers known to the resource. A column without
    a name is `#` and its number, and a name that repeats gets a number too.
    """
    encoding, content = decode(data)
    lines = io.StringIO(content, newline="").readlines()
    sep = SEP_LINE.fullmatch(lines[0].rstrip("\r\n")) if lines else None
    best, header, end, delimiter = (-1, 0), list[str](), 0, ","
    for mark in sep[1] if sep else ";,\t":
        for number, (line, cells) in enumerate(
            _first_lines(lines, mark, options.header_line, bool(sep))
        ):
            sense = count_known(resource, cells), len(cells)
            if sense[0] > best[0] or (number == 0 and sense > best):
                best, header, end, delimiter = sense, cells, line, mark
    if not header:
        raise UnusableFile("empty_file", "the file is empty: it needs a header line")
    sheet = Sheet(_unique_names(header), [], [], encoding, delimiter, end)
    file = io.StringIO(content, newline="")
    for _ in range(end):
        file.readline()
    read_rows(file, sheet, end, len(header), list(range(len(header))), max_rows)
    return sheet


def _first_lines(
    lines: list[str], mark: str, header_line: int | None, skips_first: bool
) -> list[tuple[int, list[str]]]:
    """(number of its last line, cells) of the rows that may be the header."""
    reader = csv.reader(lines[skips_first:], delimiter=mark)
    candidates: list[tuple[int, list[str]]] = []
    try:
        for cells in reader:
            line = reader.line_num + skips_first
            if any(map(str.strip, cells)) and line >= (header_line or 1):
                candidates.append((line, cells))
            if len(candidates) == (1 if header_line else MAX_HEADER_LINES):
                break
    except csv.Error:
        pass  # a cell that is too long: it is no header
    return candidates


def _unique_names(header: list[str]) -> list[str]:
    names: list[str] = []
    for number, cell in enumerate(header, 1):
        name = " ".join(cell.split()) or f"#{number}"
        copies = sum(other == name or other.startswith(f"{name} (") for other in names)
        names.append(f"{name} ({copies + 1})" if name in names else name)
    return names
