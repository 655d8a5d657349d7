"""Reading a file: its columns checked cell by cell, its rows put together to records (D9).

Of a client with contacts, or a deal with items, each contact or item has a row; the record's own
columns are repeated or empty in its further rows. Rows that stand together are one record when
they have the same key, when the record's own cells are empty, or, in a file without keys, when
they are the same.
"""

import re
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

from crm.errors import Invalid, TooLarge
from crm.records import fields
from crm.spreadsheets import conversion
from crm.spreadsheets.cells import DECIMAL_MARKS, Spelling, clean, date_order, split_money
from crm.spreadsheets.csv_columns import BadCell, FileColumn
from crm.spreadsheets.csv_format import Sheet
from crm.spreadsheets.foreign.headers import MAX_LARGE_ROWS, read_table
from crm.spreadsheets.foreign.mapped_rows import MappedRows
from crm.spreadsheets.foreign.mapping import check_key
from crm.spreadsheets.foreign.new_fields import with_new_fields
from crm.spreadsheets.marked_cells import in_utc, shown
from crm.spreadsheets.options import PLAIN, ImportOptions
from crm.spreadsheets.resource import (
    ERROR_COLUMN,
    SOURCE_TENANT,
    Entry,
    ImportableResource,
    RowFault,
)
from crm.storage.session import one_row

MAX_FILE_BYTES = 10 << 20  # of a file that is imported at once
MAX_LARGE_FILE_BYTES = 50 << 20
CURRENCY = re.compile("[^0-9.,'’+ \u00a0\u2009\u202f-]")  # a character of one, in a cell with money


class ParsedFile:
    """A file of a resource as read, before anything is compared with the tenant's records.

    `rows` are (line, cells) of those that could be read. `values` are the stored values by column,
    in the order of the rows; None where a cell is empty or does not fit. `faults` are those of rows
    whatever the tenant has, by the place of the row.
    `as_written` has the rows under the columns of the file, whatever these are mapped to.
    `left_out` is the number of lines that are no records, such as totals;
    `left_out_columns` those with content that a mapping leaves out. `data` is the file itself.
    `mapping` is that of the options with the names of new fields.
    `is_exact`: its cells are as a program wrote them, which is no spreadsheet program.
    """

    left_out = 0
    left_out_columns: Sequence[str] = ()
    data = b""
    mapping: Mapping[str, Any] = {}
    is_exact = True

    def __init__(self, resource: ImportableResource, sheet: Sheet, options: ImportOptions = PLAIN):
        self.resource, self.sheet = resource, sheet
        self.rows = sheet.rows
        self.as_written, self.options = sheet, options
        self.values: dict[str, list[Any]] = {}
        self.faults: dict[int, list[RowFault]] = defaultdict(list)
        self.contacts: dict[int, list[dict[str, Any]]] = {}  # that no columns have, by row

    @cached_property
    def entries(self) -> list[Entry]:
        """The records of the file, in order."""
        if self.resource.part:
            return _group_rows(self)
        values_by_row = _values_by_row(self, self.resource.columns)
        return [Entry(row, values) for row, values in enumerate(values_by_row)]

    def add_fault(self, row: int, column: str, code: str, detail: str) -> None:
        """Reject a row for a cell, unless it is rejected for that one already."""
        if all(fault.column != column for fault in self.faults[row]):
            self.faults[row].append(RowFault(column, code, detail))

    @property
    def keeps_zeros(self) -> bool:
        """Whether no spreadsheet program can have removed leading zeros."""
        return self.is_exact and self.sheet.encoding not in conversion.WORKBOOKS

    @property
    def is_large(self) -> bool:
        """Whether it is imported in several transactions."""
        rows = len(self.rows) + len(self.sheet.errors)
        return rows > self.resource.max_rows or len(self.data) > MAX_FILE_BYTES

    @property
    def count(self) -> int:
        """How many records the file has; of a resource without parts each row is one."""
        return len(self.entries) if self.resource.part else len(self.rows)

    def row_of(self, place: int) -> int:
        """The row where the record in this place begins; behind the last one, the end."""
        if place >= self.count:
            return len(self.rows)
        return self.entries[place].row if self.resource.part else place

    def line(self, entry: Entry) -> int:
        """The line where a record begins."""
        return self.rows[entry.row][0]

    def has_values(self, *columns: str) -> bool:
        """Return whether any row has a value in one of these columns."""
        empty: list[Any] = []
        return any(
            value is not None for column in columns for value in self.values.get(column, empty)
        )

    def column_values(self, name: str) -> list[Any]:
        """The stored values of a column; all None if the file lacks it."""
        return self.values.get(name) or [None] * len(self.rows)


def read_file(
    data: bytes,
    resource: ImportableResource,
    excel: bool | None = False,
    options: ImportOptions = PLAIN,
    *,
    max_bytes: int = MAX_LARGE_FILE_BYTES,
    max_rows: int = MAX_LARGE_ROWS,
) -> ParsedFile:
    """Read a file of a resource; touches no database, but for the tenant's settings and words.

    A file without a mapping has our own columns. Under their names it is one for programs, and its
    rows are read as they stand; under their labels it is one for people (`file_styles.py`), which
    is the same as a mapping that names them. excel: whether it is in the excel dialect; None: if it
    has semicolons.

    Raises TooLarge beyond `max_bytes`, and Invalid when the file as a whole cannot be used: codes
    empty_file, not_text, bad_encoding, field_too_long, unknown_column, duplicate_column,
    missing_column, too_many_rows, unreadable_workbook; of options that do not fit the file:
    unknown_field, invalid_choice, required.
    """
    if len(data) > max_bytes:
        raise TooLarge(f"the file is larger than {max_bytes} bytes")
    resource, is_own = resource.of_tenant(), options.mapping is None
    table, mapping = read_table(data, resource, options, max_rows, is_own, excel)
    marks = ",." if table.is_excel and is_own else None
    if mapping is None:
        file = ParsedFile(resource, table, options)
        _read_columns(file, is_exact=True, marks=marks)
    else:
        file = read_mapped(table, resource, replace(options, mapping=mapping), marks)
        file.options = options
    file.data = data
    return file


def read_mapped(
    table: Sheet, resource: ImportableResource, options: ImportOptions, marks: str | None = None
) -> ParsedFile:
    """Read rows whose columns `options.mapping` matches with our fields; raises Invalid.

    marks: the decimal marks of this kind of file, where neither a column nor the options tell.
    """
    resource, mapping = with_new_fields(resource.of_tenant(), table, options.mapping or {})
    rows = MappedRows(table, resource, replace(options, mapping=mapping))
    file = ParsedFile(resource, rows.sheet, options)
    file.as_written, file.mapping = table, mapping
    file.left_out, file.left_out_columns = rows.left_out, rows.left_out_columns
    file.contacts = rows.contacts
    file.faults.update(rows.faults)
    _read_columns(file, is_exact=False, marks=marks)
    return file


def read_stored(data: bytes, resource: ImportableResource, read_as: dict[str, Any]) -> ParsedFile:
    """Read a file again in the way that it was read before, whatever its size."""
    options = ImportOptions.from_json(read_as["options"])
    limits = {"max_bytes": sys.maxsize, "max_rows": sys.maxsize}
    return read_file(data, resource, read_as["excel"], options, **limits)


def _read_columns(file: ParsedFile, is_exact: bool, marks: str | None) -> None:
    names, options, file.is_exact = file.sheet.columns, file.options, is_exact
    if options.key:
        check_key(file.resource, names, options.key)
    known = {column.name: column for column in file.resource.all_columns}
    columns = [
        (known[name], [cells[at] for _, cells in file.rows])
        for at, name in enumerate(names)
        if name != ERROR_COLUMN
    ]
    order = date_order(cell for column, cells in columns if column.is_date for cell in cells)
    if order == "either" and options.date_order is None:
        detail = "the dates may be day or month first: say which, by date_order"
        raise Invalid.field("date_order", "required", detail)
    order = options.date_order if order == "either" else order
    spelling = Spelling(is_exact, order, DECIMAL_MARKS.get(options.decimal_mark or "", marks))
    for column, cells in columns:
        _read_column(file, column, cells, spelling)
    for column, cells in columns:
        if isinstance(column.field, fields.Number) and CURRENCY.search("".join({*cells})):
            _check_currency(file, column, cells)
    _check_keys(file)
    file.faults = dict(file.faults)


def _read_column(
    file: ParsedFile, column: FileColumn, cells: Sequence[str], spelling: Spelling
) -> None:
    is_in_utc = spelling.is_exact and isinstance(column.field, fields.DateTime)
    values = column.read_cells(list(map(in_utc, cells)) if is_in_utc else cells, spelling)
    if BadCell in set(map(type, values)):
        # The type of all values is checked first: most columns have no bad cell to look for.
        meanings = file.options.unknown_values.get(column.name, {})
        for row, value in enumerate(values):
            if type(value) is BadCell:
                meaning = meanings.get(cells[row].strip(), meanings.get("*", ""))
                if meaning and value.code == "invalid_choice":
                    _, _, text = meaning.partition("=")
                    (value,) = column.read_cells([text])
                if type(value) is BadCell:
                    file.add_fault(row, column.name, *value)
                    value = None
                values[row] = value
    file.values[column.name] = values


def _check_currency(file: ParsedFile, column: FileColumn, cells: Sequence[str]) -> None:
    """Money whose sign is of another currency than the row's, else the tenant's."""
    (own_currency,) = one_row("SELECT currency FROM tenant")
    for row, currency in enumerate(file.column_values("currency")):
        if file.values[column.name][row] is not None and CURRENCY.search(cells[row]):
            cell = clean(shown(cells[row]), is_exact=False, is_number=True)
            if cell.endswith("%"):
                if file.column_values(f"{column.name}_type")[row] == "amount":
                    detail = f"{cell!r} is no amount of money"
                    file.add_fault(row, column.name, "contradiction", detail)
                continue
            _, code = split_money(cell, ",")
            if code not in (None, currency := currency or own_currency):
                detail = f"{cell[:40]!r} is in {code}, but the row is in {currency}"
                file.add_fault(row, column.name, "other_currency", detail)


def _check_keys(file: ParsedFile) -> None:
    """Records with a key of a record above."""
    rows = [entry.row for entry in file.entries] if file.resource.part else range(len(file.rows))
    for name in file.resource.key_columns:
        if name not in file.values:
            continue
        column = file.values[name]
        keys: list[Any] = [column[row] for row in rows] if file.resource.part else column
        # Records of two tenants may have the same id: the tenant is a part of the key.
        if name == "id" and SOURCE_TENANT in file.values:
            sources = file.values[SOURCE_TENANT]
            keys = [key and (key, sources[row]) for key, row in zip(keys, rows, strict=True)]
        if len(set(keys)) == len(keys):
            continue  # the usual case, without a look at each key
        lines: dict[Any, int] = {}
        for row, key in zip(rows, keys, strict=True):
            line = file.rows[row][0]
            if key is not None and lines.setdefault(key, line) != line:
                detail = f"{column[row]} stands in line {lines[key]} already"
                file.add_fault(row, name, "duplicate_in_file", detail)


def _values_by_row(file: ParsedFile, columns: tuple[FileColumn, ...]) -> Iterator[dict[str, Any]]:
    """{column: value} of each row, of the cells that have one."""
    names = [column.name for column in columns if column.name in file.values]
    if not names:
        yield from ({} for _ in file.rows)
        return
    for row in zip(*(file.values[name] for name in names), strict=True):
        yield {name: value for name, value in zip(names, row, strict=True) if value is not None}


def _group_rows(file: ParsedFile) -> list[Entry]:
    """The records of a file of a resource with parts: one or more rows each."""
    resource, names = file.resource, list(enumerate(file.sheet.columns))
    own_names = {column.name for column in resource.columns} - {SOURCE_TENANT}
    of_others = {column.name for column in resource.columns if not column.sql}
    part_names = {column.name for column in resource.part_columns}
    own_places = [at for at, name in names if name in own_names]
    part_places = [at for at, name in names if name in part_names]
    values_by_row = _values_by_row(file, resource.columns)
    parts_by_row = _values_by_row(file, resource.part_columns)
    entries, previous_cells = list[Entry](), tuple[str, ...]()
    for row, (values, part) in enumerate(zip(values_by_row, parts_by_row, strict=True)):
        _, cells = file.rows[row]
        own_cells = tuple(cells[place] for place in own_places)
        has_part = any(cells[place].strip() for place in part_places)
        if not part_places or not entries:
            is_same = False
        elif not any(cells[at].strip() for at in own_places if names[at][1] not in of_others):
            is_same = has_part  # only cells of a part: a further one of the record above
        else:
            same_key = _has_same_key(resource, values, entries[-1].values)
            is_same = own_cells == previous_cells and has_part if same_key is None else same_key
        if is_same:
            _continue_entry(file, entries[-1], row, values)
        else:
            entries.append(Entry(row, values))
            previous_cells = own_cells if has_part else ()
        if has_part:
            entries[-1].parts.append((row, part))
        entries[-1].parts += [(row, contact) for contact in file.contacts.get(row, ())]
    return entries


def _has_same_key(
    resource: ImportableResource, values: dict[str, Any], above: dict[str, Any]
) -> bool | None:
    """Whether a row has a key of the record above; None if neither has any."""
    keys = [(values.get(key), above.get(key)) for key in resource.key_columns]
    if all(key is None and key_above is None for key, key_above in keys):
        return None
    sources = {row[SOURCE_TENANT] for row in (values, above) if SOURCE_TENANT in row}
    is_same = any(key is not None and key == key_above for key, key_above in keys)
    return len(sources) < 2 and is_same


def _continue_entry(file: ParsedFile, entry: Entry, row: int, values: dict[str, Any]) -> None:
    entry.rows.append(row)
    for name, value in values.items():
        if entry.values.setdefault(name, value) != value:
            detail = f"differs from line {file.line(entry)} of the same {file.resource.singular}"
            file.faults[row].append(RowFault(name, "contradiction", detail))
