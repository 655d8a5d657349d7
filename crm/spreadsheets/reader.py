"""Reading a file: its columns checked cell by cell, its rows put together to records (D9).

Of a client with contacts, or a deal with items, each contact or item has a row; the record's own
columns are repeated or empty in its further rows. Rows that stand together are one record when
they have the same key, when the record's own cells are empty, or, in a file without keys, when
they are the same.
"""

from collections import defaultdict
from collections.abc import Iterator
from functools import cached_property
from typing import Any

from crm.errors import Fault, Invalid, TooLarge
from crm.spreadsheets import csv_format
from crm.spreadsheets.csv_columns import BadCell, Column
from crm.spreadsheets.csv_format import Sheet
from crm.spreadsheets.resource import SOURCE_TENANT, Entry, ImportableResource
from crm.spreadsheets.results import ERROR_COLUMN, RowFault

MAX_FILE_BYTES = 10 << 20


class ParsedFile:
    """A file of a resource as read, before anything is compared with the tenant's records.

    `values` are the stored values by column, in the order of the rows; None where a cell is empty
    or does not fit. `faults` are those of rows whatever the tenant has, by the place of the row.
    """

    def __init__(self, resource: ImportableResource, sheet: Sheet, excel: bool):
        self.resource, self.sheet, self.excel = resource, sheet, excel
        self.values: dict[str, list[Any]] = {}
        self.faults: dict[int, list[RowFault]] = defaultdict(list)

    @property
    def rows(self) -> list[tuple[int, tuple[str, ...]]]:
        """(line, cells) of the rows that could be read."""
        return self.sheet.rows

    @cached_property
    def entries(self) -> list[Entry]:
        """The records of the file, in order."""
        if self.resource.part:
            return _RowGroups(self).entries
        values_by_row = _values_by_row(self, self.resource.columns)
        return [Entry(row, values) for row, values in enumerate(values_by_row)]

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


def read_file(data: bytes, resource: ImportableResource, excel: bool = False) -> ParsedFile:
    """Read a file of a resource; touches no database.

    Raises TooLarge beyond 10 MiB, and Invalid when the file as a whole cannot be used: codes
    empty_file, not_text, bad_encoding, field_too_long, unknown_column, duplicate_column,
    missing_column, too_many_rows.
    """
    if len(data) > MAX_FILE_BYTES:
        raise TooLarge(f"the file is larger than {MAX_FILE_BYTES} bytes")
    columns = {column.name: column for column in resource.all_columns}
    try:
        sheet = csv_format.read(
            data,
            (*columns, ERROR_COLUMN),  # of rejected rows that come back repaired
            resource.required_columns,
            resource.max_rows,
            excel,
            {alias: column.name for column in columns.values() for alias in column.aliases},
        )
    except csv_format.UnusableFile as unusable:
        raise Invalid(Fault("/file", unusable.code, unusable.detail), unusable.code) from None
    file = ParsedFile(resource, sheet, excel)
    for place, name in enumerate(sheet.columns):
        if name != ERROR_COLUMN:
            _read_column(file, columns[name], place)
    _check_keys(file)
    file.faults = dict(file.faults)
    return file


def _read_column(file: ParsedFile, column: Column, place: int) -> None:
    values = column.read_cells([cells[place] for _, cells in file.rows])
    if BadCell in set(map(type, values)):
        # The type of all values is checked first: most columns have no bad cell to look for.
        for row, value in enumerate(values):
            if type(value) is BadCell:
                file.faults[row].append(RowFault(column.name, *value))
                values[row] = None
    file.values[column.name] = values


def _check_keys(file: ParsedFile) -> None:
    """Rows without a cell that every row needs, and records with a key of a record above."""
    for name in file.resource.required_columns:
        if None in file.values[name]:
            for row, value in enumerate(file.values[name]):
                # A cell that could not be read has its own fault already.
                if value is None and all(fault.column != name for fault in file.faults[row]):
                    file.faults[row].append(RowFault(name, "required", "every row needs one"))
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
                file.faults[row].append(RowFault(name, "duplicate_in_file", detail))


def _values_by_row(file: ParsedFile, columns: tuple[Column, ...]) -> Iterator[dict[str, Any]]:
    """{column: value} of each row, of the cells that have one."""
    names = [column.name for column in columns if column.name in file.values]
    if not names:
        yield from ({} for _ in file.rows)
        return
    for row in zip(*(file.values[name] for name in names), strict=True):
        yield {name: value for name, value in zip(names, row, strict=True) if value is not None}


class _RowGroups:
    """Groups the rows of a resource with parts into records."""

    def __init__(self, file: ParsedFile):
        self.file, self.entries = file, list[Entry]()
        resource = file.resource
        record_names, part_names = (
            {column.name for column in columns}
            for columns in (resource.columns, resource.part_columns)
        )
        names = list(enumerate(file.sheet.columns))
        self._own_places = [
            at for at, name in names if name in record_names and name != SOURCE_TENANT
        ]
        self._part_places = [at for at, name in names if name in part_names]
        self._group()

    def _group(self) -> None:
        resource, previous_cells = self.file.resource, tuple[str, ...]()
        values_by_row = _values_by_row(self.file, resource.columns)
        parts_by_row = _values_by_row(self.file, resource.part_columns)
        for row, (values, part) in enumerate(zip(values_by_row, parts_by_row, strict=True)):
            _, cells = self.file.rows[row]
            own_cells = tuple(cells[place] for place in self._own_places)
            has_part = any(cells[place].strip() for place in self._part_places)
            if self._continues(values, own_cells, has_part, previous_cells):
                self._continue_entry(row, values)
            else:
                self.entries.append(Entry(row, values))
                previous_cells = own_cells if has_part else ()
            if has_part:
                self.entries[-1].parts.append((row, part))
        if self._part_places:
            self._reject_beside_unreadable_rows()

    def _continues(
        self,
        values: dict[str, Any],
        own_cells: tuple[str, ...],
        has_part: bool,
        previous_cells: tuple[str, ...],
    ) -> bool:
        """Return whether a row belongs to the record of the row above."""
        if not self._part_places or not self.entries:
            return False
        above = self.entries[-1].values
        if not any(cell.strip() for cell in own_cells):
            return has_part  # only cells of a part: a further one of the record above
        keys = [(values.get(key), above.get(key)) for key in self.file.resource.key_columns]
        if any(key is not None or key_above is not None for key, key_above in keys):
            sources = {row[SOURCE_TENANT] for row in (values, above) if SOURCE_TENANT in row}
            is_same = any(key is not None and key == key_above for key, key_above in keys)
            return len(sources) < 2 and is_same
        return has_part and own_cells == previous_cells

    def _continue_entry(self, row: int, values: dict[str, Any]) -> None:
        file, entry = self.file, self.entries[-1]
        entry.rows.append(row)
        for name, value in values.items():
            if entry.values.setdefault(name, value) != value:
                line = file.line(entry)
                detail = f"differs from line {line} of the same {file.resource.singular}"
                file.faults[row].append(RowFault(name, "contradiction", detail))

    def _reject_beside_unreadable_rows(self) -> None:
        """A row that cannot be read may belong to the record above: both wait for its repair."""
        file, at = self.file, 0
        for error in file.sheet.errors:
            while at + 1 < len(self.entries) and file.line(self.entries[at + 1]) < error.line:
                at += 1
            if self.entries and file.line(entry := self.entries[at]) < error.line:
                detail = f"line {error.line}, which may be a row of it, cannot be read"
                file.faults[entry.row].append(RowFault(None, "unreadable_row", detail))
