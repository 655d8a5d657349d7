"""A CSV file of any program as a table: its rows under the names of columns as they are written."""

from functools import partial

from crm.spreadsheets.csv_format import Sheet, decode, find_header, read_rows
from crm.spreadsheets.foreign.headers import count_known
from crm.spreadsheets.options import PLAIN, ImportOptions
from crm.spreadsheets.resource import ImportableResource

MAX_LARGE_ROWS = 100_000  # of a file of an API or a page
MAX_COLUMNS = 1000  # what stands to the right of them is under no column
MAX_HEADER_LINES = 10  # with content, of which one is the header


def read_table(
    data: bytes,
    resource: ImportableResource,
    options: ImportOptions = PLAIN,
    max_rows: int = MAX_LARGE_ROWS,
) -> Sheet:
    """The rows of a file with the names of its columns as they are written, or UnusableFile.

    The header is in the line that the options say, else the one that has most headers known to the
    resource. A column without a name is `#` and its number, and a name that repeats gets a number
    too.
    """
    encoding, content = decode(data)
    line, max_lines = options.header_line or 1, 1 if options.header_line else MAX_HEADER_LINES
    header = find_header(content, partial(count_known, resource), ";,\t", max_lines, line)
    columns = _unique_names(header.cells[:MAX_COLUMNS])
    rows, errors = read_rows(content, header, list(range(len(columns))), max_rows)
    return Sheet(columns, rows, errors, encoding, header.delimiter, header.line)


def _unique_names(header: list[str]) -> list[str]:
    names: list[str] = []
    for number, cell in enumerate(header, 1):
        name = " ".join(cell.split()) or f"#{number}"
        copies = sum(other == name or other.startswith(f"{name} (") for other in names)
        names.append(f"{name} ({copies + 1})" if name in names else name)
    return names
