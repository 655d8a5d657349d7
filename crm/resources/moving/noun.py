"""What a noun that moves by CSV has to say of itself; leads, clients, deals and tasks each do."""

from abc import ABC, abstractmethod
from collections import defaultdict, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from crm.errors import FaultCollector
from crm.records.record import SoftDeletedRecord
from crm.records.views import Body
from crm.resources.moving.cells import Column, id_column, reference
from crm.resources.moving.references import References

KEYS = ("id", "external_id")


@dataclass(slots=True)
class Entry:
    """One record of a file: `values` of its cells by column, in stored form, and those of its
    parts with the row of each; `places` are the rows of the parts in the order of its verb."""

    at: int  # its first row
    values: dict[str, Any]
    rows: list[int] = field(default_factory=list)
    parts: list[tuple[int, dict[str, Any]]] = field(default_factory=list)
    places: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.rows.append(self.at)


class Moving(ABC):
    """A noun that moves in and out. `part_columns` are those of its parts, contacts or items."""

    name: str
    plural: str
    record: type[SoftDeletedRecord]
    body: Body
    own_columns: tuple[Column, ...]
    part: str = ""  # what stands before the names of the parts' columns: `contact`
    part_columns: tuple[Column, ...] = ()
    column_of: dict[str, str] = {}  # of a field that a verb names, where it isn't the same

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        """Those of the record itself."""
        return (
            id_column("id", f"{self.name}.id"),
            *self.own_columns,
            reference("ids_of", "1", longest=100),
        )

    @cached_property
    def all_columns(self) -> tuple[Column, ...]:
        """In the order of an export."""
        *own, whose = self.columns
        return (*own, *self.part_columns, whose)

    @cached_property
    def texts(self) -> frozenset[str]:
        """The names of columns that a spreadsheet could take for formulas."""
        return frozenset(column.name for column in self.all_columns if column.is_text)

    def nothing(self, names: Iterable[str]) -> dict[str, None]:
        """What a new record has where the file has columns and nothing in them."""
        found = self.body.fields
        return {name: None for name in names if name in found and found[name].allow_none}

    def is_whole(self, data: dict[str, Any]) -> None:
        """A new record has what it needs; raises Invalid."""
        faults = FaultCollector()
        for name, each in self.body.fields.items():
            if each.required and data.get(name) is None:
                faults.add(name, "required", f"a new {self.name} needs it")
        faults.raise_any()

    def place(self, where: str, entry: Entry) -> tuple[int, str | None]:
        """The row and the column that a fault of a verb means by its pointer."""
        steps = where.strip("/").split("/")
        if len(steps) > 1 and steps[1].isdecimal() and int(steps[1]) < len(entry.places):
            column = f"{self.part}_{steps[2]}" if len(steps) > 2 else None
            known = {each.name for each in self.part_columns}
            return entry.places[int(steps[1])], column if column in known else None
        column = self.column_of.get(steps[0], steps[0])
        known = {each.name for each in self.all_columns}
        return entry.at, column if column in known else None

    def parts(self, entry: Entry, of: str | None) -> list[dict[str, Any]]:
        """The parts of an entry by field; ids of another tenant say nothing here."""
        entry.places = [at for at, _ in entry.parts]
        found = []
        for _, values in entry.parts:
            part = {name.removeprefix(f"{self.part}_"): value for name, value in values.items()}
            if of is not None:
                part.pop("id", None)
            found.append(part)
        return found

    def shows(self, here: References) -> dict[str, Callable[[Any], str]]:
        """How columns are written that name other records: {column: what makes its text}."""
        return {}

    def parts_of(self, ids: str) -> list[tuple[Any, ...]]:
        """(record's id, stored values of a part in the order of `part_columns`) of the records in
        a JSON array of ids."""
        return []

    @abstractmethod
    def settle(
        self,
        values: dict[str, Any],
        record: SoftDeletedRecord | None,
        of: str | None,
        here: References,
    ) -> dict[str, Any]:
        """What the verbs take, of the values by column: other records are found. `of`: whose ids
        those of the row are, None: of this tenant. Raises Invalid."""

    @abstractmethod
    def create(self, data: dict[str, Any], entry: Entry, of: str | None) -> int:
        """Add a record with its parts and give its id; raises Invalid or Conflict."""

    @abstractmethod
    def change(self, record: Any, data: dict[str, Any], entry: Entry, of: str | None) -> None:
        """Change a record and its parts; raises Invalid or Conflict."""


def matched(
    parts: list[dict[str, Any]],
    there: list[Any],
    names_of: Callable[[Any], list[Any]],
    name_of: Callable[[dict[str, Any]], Any],
) -> list[Any]:
    """For each part of a file the one there is, or None: by id, else the n-th of a name is for the
    n-th part of that name."""
    by_id = {each.id: each for each in there}
    found = [by_id.get(part.get("id")) for part in parts]
    taken = {each.id for each in found if each is not None}
    named: dict[Any, deque[Any]] = defaultdict(deque)
    for each in there:
        if each.id not in taken:
            for name in names_of(each):
                named[name].append(each)
    for at, part in enumerate(parts):
        waiting = named.get(name_of(part)) if part.get("id") is None else None
        while waiting and found[at] is None:
            each = waiting.popleft()
            if each.id not in taken:
                taken.add(each.id)
                found[at] = each
    return found
