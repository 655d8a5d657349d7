"""A file of records as read: its rows put together to records, each cell checked (D9).

Of a client with contacts, or a deal with items, each contact or item has a row; the record's own
columns are repeated or empty in its further rows. Rows that stand together are one record when
they have the same key, when the record's own cells are empty, or, in a file without keys, when
they are the same.
"""

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

from crm.resources import imports
from crm.resources.imports import REASON, RowFault
from crm.resources.moving.noun import KEYS, Entry, Moving
from crm.sheets import Sheet
from crm.values import InvalidValue

MOST_ROWS = 10_000


@dataclass(slots=True)
class Table:
    """A file as read. `entries` are its records in their order, `faults` what is wrong with a row
    whatever is kept at the tenant."""

    noun: Moving
    sheet: Sheet
    excel: bool
    entries: list[Entry] = field(default_factory=list)
    faults: dict[int, list[RowFault]] = field(default_factory=lambda: defaultdict(list))

    @property
    def rows(self) -> list[tuple[int, tuple[str, ...]]]:
        """(line, cells) of the rows that are rows at all."""
        return self.sheet.rows

    def line(self, entry: Entry) -> int:
        """Where a record begins."""
        return self.rows[entry.at][0]

    def names(self, *columns: str) -> bool:
        """Does any record have something in one of these columns?"""
        return any(not entry.values.keys().isdisjoint(columns) for entry in self.entries)


def read(data: bytes, noun: Moving, excel: bool = False) -> Table:
    """The file's records, each cell checked; touches no database.

    Raises TooLarge and Invalid as `imports.open_sheet`.
    """
    names = [column.name for column in noun.all_columns]
    sheet = imports.open_sheet(data, names, (), MOST_ROWS, excel)
    table = Table(noun, sheet, excel)
    _Reader(table).read()
    table.faults = dict(table.faults)
    return table


class _Reader:
    def __init__(self, table: Table):
        self.table, noun = table, table.noun
        own = {column.name: column for column in noun.columns}
        parts = {column.name: column for column in noun.part_columns}
        placed = [(at, name) for at, name in enumerate(table.sheet.columns) if name != REASON]
        self.own = [(at, own[name]) for at, name in placed if name in own]
        self.parts = [(at, parts[name]) for at, name in placed if name in parts]
        self.lines: dict[tuple[str, Any, Any], int] = {}  # of the keys that have come by

    def read(self) -> None:
        before: tuple[str, ...] = ()  # the own cells of the row above
        for at, (_, cells) in enumerate(self.table.rows):
            values = self._values(at, cells, self.own)
            part = self._values(at, cells, self.parts)
            own_cells = tuple(cells[place] for place, each in self.own if each.name != "ids_of")
            has_part = any(cells[place].strip() for place, _ in self.parts)
            if self._continues(values, own_cells, has_part, before):
                self._go_on(at, values)
            else:
                self._begin(at, values)
                before = own_cells if has_part else ()
            if has_part:
                self.table.entries[-1].parts.append((at, part))
        if self.parts:
            self._take_along()

    def _values(
        self, at: int, cells: tuple[str, ...], columns: list[tuple[int, Any]]
    ) -> dict[str, Any]:
        """The stored values of the cells that have something in them."""
        found = {}
        for place, column in columns:
            cell = cells[place]
            if not cell or not cell.strip():
                continue
            try:
                value = column.read(cell)
            except InvalidValue as unfit:
                self.table.faults[at].append(RowFault(column.name, unfit.code, unfit.detail))
                continue
            if value is not None:
                found[column.name] = value
        return found

    def _continues(
        self, values: dict[str, Any], own: tuple[str, ...], has_part: bool, before: tuple[str, ...]
    ) -> bool:
        """Is a row one more of the record above?"""
        if not self.parts or not self.table.entries:
            return False
        above = self.table.entries[-1].values
        if not any(cell.strip() for cell in own):
            return has_part
        keys = [(values.get(key), above.get(key)) for key in KEYS]
        if any(here is not None or there is not None for here, there in keys):
            whose = {each["ids_of"] for each in (values, above) if "ids_of" in each}
            return len(whose) < 2 and any(a is not None and a == b for a, b in keys)
        return has_part and own == before

    def _begin(self, at: int, values: dict[str, Any]) -> None:
        table, entry = self.table, Entry(at, values)
        table.entries.append(entry)
        for key in KEYS:
            if (value := values.get(key)) is None:
                continue
            line, whose = table.line(entry), values.get("ids_of") if key == "id" else None
            first = self.lines.setdefault((key, value, whose), line)
            if first != line:
                detail = f"{value} stands in line {first} already"
                table.faults[at].append(RowFault(key, "duplicate_in_file", detail))

    def _go_on(self, at: int, values: dict[str, Any]) -> None:
        table, entry = self.table, self.table.entries[-1]
        entry.rows.append(at)
        for name, value in values.items():
            if entry.values.setdefault(name, value) != value:
                detail = f"differs from line {table.line(entry)} of the same {table.noun.name}"
                table.faults[at].append(RowFault(name, "contradiction", detail))

    def _take_along(self) -> None:
        """A row that can't be read may be one of the record above: that waits for its repair."""
        table, at = self.table, 0
        for error in table.sheet.errors:
            while at + 1 < len(table.entries) and table.line(table.entries[at + 1]) < error.line:
                at += 1
            if table.entries and table.line(entry := table.entries[at]) < error.line:
                detail = f"line {error.line}, which may be a row of it, cannot be read"
                table.faults[entry.at].append(RowFault(None, "unreadable_row", detail))
