"""What a resource declares so that its records can be imported from files and exported to them.

Each importable resource registers itself, so this package names none of them.
"""

from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from crm.errors import FaultCollector
from crm.records.record import SoftDeletedRecord
from crm.records.schemas import Body
from crm.spreadsheets.csv_columns import Column, id_column, reference_column
from crm.spreadsheets.references import References
from crm.spreadsheets.results import Result

SOURCE_TENANT = "source_tenant"


@dataclass(slots=True)
class Entry:
    """One record of a file.

    `values` are the stored values of its own columns, by column; `rows` the places of its rows in
    the file, `row` the first. `parts` are its contacts or items: (row, values by column). A
    resource that sorts or drops parts sets `part_rows`, the row of each part that its verb gets.
    """

    row: int
    values: dict[str, Any]
    rows: list[int] = field(default_factory=list)
    parts: list[tuple[int, dict[str, Any]]] = field(default_factory=list)
    part_rows: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.rows.append(self.row)


class ImportableResource:
    """A resource that has files.

    `singular` is also its table. Resources are imported in ascending `import_order`: files refer
    to records of resources with a lower one. `own_columns` are those of the record beside `id`,
    `part_columns` those of its contacts or items, all of them named `<part>_…`.
    """

    singular: str
    plural: str
    file_name: str
    import_order: int
    record: type[SoftDeletedRecord]
    body: Body
    own_columns: tuple[Column, ...]
    part: str = ""
    part_columns: tuple[Column, ...] = ()
    key_columns: tuple[str, ...] = ("id", "external_id")
    required_columns: tuple[str, ...] = ()  # of the file, and cells that every row needs
    max_rows = 10_000
    export_order = "id"  # SQL
    # Which cell to repair, where it is not that of the field that a verb's error names:
    column_of_field: dict[str, str] = {}
    column_of_conflict: dict[str, str] = {"duplicate_external_id": "external_id"}  # by its code
    importer: Callable[..., Any] | None = None  # an `Importer` for many records at once

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        """Those of the record itself."""
        if "id" not in self.key_columns:
            return self.own_columns
        return (
            id_column("id", f"{self.singular}.id"),
            *self.own_columns,
            reference_column(SOURCE_TENANT, "1", max_length=100),
        )

    @cached_property
    def all_columns(self) -> tuple[Column, ...]:
        """All columns in the order of an export."""
        last = [column for column in self.columns if column.name == SOURCE_TENANT]
        first = [column for column in self.columns if column.name != SOURCE_TENANT]
        return (*first, *self.part_columns, *last)

    @cached_property
    def column_names(self) -> tuple[str, ...]:
        """The names of all columns in the order of an export."""
        return tuple(column.name for column in self.all_columns)

    @cached_property
    def text_columns(self) -> frozenset[str]:
        """The names of columns whose cells a spreadsheet could take for formulas."""
        return frozenset(column.name for column in self.all_columns if column.is_text)

    def column(self, name: str) -> Column:
        """The column of this name."""
        return next(column for column in self.all_columns if column.name == name)

    # For exports

    def reference_names(self, references: References) -> dict[str, Callable[[Any], str]]:
        """{column: function that gives the cell of an id} of columns that name other records."""
        return {}

    def parts_of(self, ids: str) -> Sequence[tuple[Any, ...]]:
        """The parts of records: (id of the record, *stored values of the part columns).

        `ids` is a JSON array of the records' ids.
        """
        return []

    # For imports

    about_required_scopes = ""  # for the documentation of the import

    def required_scopes(self, has_values: Callable[..., bool]) -> list[str]:
        """Rights that an import needs beside `<plural>:write`.

        `has_values(*columns)` returns whether the file has a value in any of these columns.
        """
        return []

    def resolve_references(
        self,
        values: dict[str, Any],
        record: Any | None,
        source: str | None,
        references: References,
    ) -> dict[str, Any]:
        """Turn the values of a row into arguments of create() or update().

        Cells that name other records become ids. `record` is the record if it exists; `source`
        the tenant that ids in the row belong to, None for this one. Raises Invalid.
        """
        return values

    def create(self, data: dict[str, Any], entry: Entry, source: str | None) -> int:
        """Add a record with its parts and give its id; raises Invalid or Conflict."""
        raise NotImplementedError

    def update(self, record: Any, data: dict[str, Any], entry: Entry, source: str | None) -> int:
        """Change a record and its parts and give its version; raises Invalid or Conflict."""
        raise NotImplementedError

    def on_imported(self, import_id: int, result: Result) -> None:
        """Called at the end of an import that is not a dry run, in its transaction."""

    def empty_values(self, names: Iterable[str]) -> dict[str, None]:
        """Null for the fields of these names that may be null."""
        fields = self.body.fields
        return {name: None for name in names if name in fields and fields[name].allow_none}

    def require_fields(self, data: dict[str, Any]) -> None:
        """A new record has the fields that it needs, or Invalid."""
        faults = FaultCollector()
        for name, wire_field in self.body.fields.items():
            if wire_field.required and data.get(name) is None:
                faults.add(name, "required", f"a new {self.singular} needs it")
        faults.raise_any()

    def part_values(self, entry: Entry, source: str | None) -> list[dict[str, Any]]:
        """The parts of an entry by field; ids of another tenant are left out."""
        entry.part_rows = [row for row, _ in entry.parts]
        parts = []
        for _, values in entry.parts:
            part = {name.removeprefix(f"{self.part}_"): value for name, value in values.items()}
            if source is not None:
                part.pop("id", None)
            parts.append(part)
        return parts

    def locate_fault(self, pointer: str, entry: Entry) -> tuple[int, str | None]:
        """The row and the column of a verb's error; the column is None for the row as a whole."""
        steps = pointer.strip("/").split("/")
        if len(steps) > 1 and steps[1].isdecimal() and int(steps[1]) < len(entry.part_rows):
            column = f"{self.part}_{steps[2]}" if len(steps) > 2 else None
            is_known = any(known.name == column for known in self.part_columns)
            return entry.part_rows[int(steps[1])], column if is_known else None
        column = self.column_of_field.get(steps[0], steps[0])
        return entry.row, column if column in self.column_names else None


_registered: dict[str, ImportableResource] = {}


def register(resource: ImportableResource) -> ImportableResource:
    """Make a resource known to imports, exports and the archive of a tenant."""
    _registered[resource.plural] = resource
    return resource


def find_resource(plural: str) -> ImportableResource:
    """The registered resource of a plural such as `leads`; raises KeyError."""
    return _registered[plural]


def all_resources() -> list[ImportableResource]:
    """All registered resources, in the order in which their files are imported."""
    return sorted(_registered.values(), key=lambda resource: resource.import_order)


def match_parts(
    parts: list[dict[str, Any]],
    records: list[Any],
    names_of: Callable[[Any], list[Any]],
    name_of: Callable[[dict[str, Any]], Any],
) -> list[Any]:
    """For each part of a file the record that it is about, or None for a new one.

    By id, else the n-th part of a name belongs to the n-th record of that name. `names_of` gives
    the names of a record, `name_of` the name of a part or None.
    """
    by_id = {record.id: record for record in records}
    matches = [by_id.get(part.get("id")) for part in parts]
    matched_ids = {record.id for record in matches if record is not None}
    by_name: dict[Any, deque[Any]] = defaultdict(deque)
    for record in records:
        if record.id not in matched_ids:
            for name in names_of(record):
                by_name[name].append(record)
    for number, part in enumerate(parts):
        candidates = by_name.get(name_of(part)) if part.get("id") is None else None
        while candidates and matches[number] is None:
            record = candidates.popleft()
            if record.id not in matched_ids:
                matched_ids.add(record.id)
                matches[number] = record
    return matches
