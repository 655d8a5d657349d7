"""What a resource declares so that its records can be imported from files and exported to them.

The importable resources are registered by crm/resources, so this package names none of them.
"""

from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple, Self

from crm.access import rights
from crm.errors import Fault, FaultCollector, Invalid
from crm.json import dumps
from crm.records.custom import fields as custom_fields
from crm.records.custom.fields import Catalog, CustomField
from crm.records.record import Record, SoftDeletedRecord
from crm.records.schemas import Body
from crm.spreadsheets.csv_columns import (
    FileColumn,
    custom_columns,
    declared_columns,
    id_column,
    reference_column,
)
from crm.spreadsheets.references import References
from crm.storage.dialect import among, by_index
from crm.storage.session import row, rows, session_or_none
from crm.values.folding import fold

SOURCE_TENANT = "source_tenant"
ERROR_COLUMN = "error"  # the first column of a file of rejected rows
MAX_TENANTS = 100  # whose columns, and what is made of them, a process remembers of a resource


class RowFault(NamedTuple):
    """Why a row is rejected; `column` is None for the row as a whole."""

    column: str | None
    code: str
    detail: str

    @property
    def message(self) -> str:
        return f"{self.column}: {self.detail}" if self.column else self.detail


class RejectedRow(NamedTuple):
    line: int
    faults: list[RowFault]
    cells: Sequence[str]


@dataclass(slots=True)
class Result:
    """The counts of an import, in records, and its first errors {line, column, code, message}."""

    created: int
    updated: int
    unchanged: int
    rejected: int
    errors: list[dict[str, Any]]
    import_id: int | None = None  # None of a dry run
    batch_id: int | None = None

    @property
    def skipped(self) -> int:
        return self.unchanged + self.rejected

    def counts(self) -> dict[str, int]:
        """The counts that answers and events have (spec: Products)."""
        return {"created": self.created, "updated": self.updated, "skipped": self.skipped}


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

    `record` and `body` are its model and the schema of a new one. `replaced_columns` are as in
    declared_columns(), `own_columns` those of the record beside `id`, if they are not the declared
    ones. `part_record` is the model of its contacts or items, `part_order` their order in SQL, and
    `rare_columns`: those of the table whose cells an export has only if any record has a value.
    `part_names` the fields by which a file names one that exists, the first that has a value.

    Of these are made: `singular`, which is also its table, and `plural`; `columns` of the record
    itself, `part_columns`, all named `<part>_…`, and `all_columns` in the order of an export with
    their `column_names`; `text_columns` are those with cells that could be taken for formulas.
    `custom_columns` are those of the tenant's own fields, as of_tenant() has them, and
    `new_fields` the definitions of fields that an import adds, by key.
    """

    record: type[SoftDeletedRecord]
    body: Body
    file_name = ""
    replaced_columns: Mapping[str, tuple[FileColumn, ...]] | None = None
    own_columns: tuple[FileColumn, ...] = ()
    part_record: type[Record] | None = None
    rare_columns: tuple[str, ...] = ()
    part_order = "id"
    part_names: tuple[str, ...] = ("name",)
    key_columns: tuple[str, ...] = ("id", "external_id")
    required_columns: tuple[str, ...] = ()  # of the file
    max_rows = 10_000
    export_order = "id"  # SQL
    # Which cell to repair, where it is not that of the field that a verb's error names:
    column_of_field: dict[str, str] = {}
    column_of_conflict: dict[str, str] = {"duplicate_external_id": "external_id"}  # by its code
    importer: Callable[..., Any] | None = None  # an `Importer` for many records at once
    new_fields: Mapping[str, dict[str, Any]] = {}

    def __init__(self, own_fields: Sequence[CustomField] = ()) -> None:
        self.singular = self.record.noun
        self.plural = f"{self.singular}s"
        self.file_name = self.file_name or f"{self.plural}.csv"
        own_columns = self.own_columns or declared_columns(self.record, self.replaced_columns)
        has_id = "id" in self.key_columns
        id = (id_column("id", f"{self.singular}.id"),) if has_id else ()
        source = (reference_column(SOURCE_TENANT, "1", max_length=100),) if has_id else ()
        self.part = ""
        self.part_columns: tuple[FileColumn, ...] = ()
        if self.part_record is not None:
            self.part = self.part_record.noun
            part_id = id_column(f"{self.part}_id", f"{self.part_record._meta.table_name}.id")
            part_columns = declared_columns(self.part_record, prefix=f"{self.part}_")
            self.part_columns = (part_id, *part_columns)
        declared = (*id, *own_columns, *self.part_columns, *source)
        self.custom_columns = (*custom_columns(own_fields, declared),)
        own_columns = (*own_columns, *self.custom_columns)
        self.columns = (*id, *own_columns, *source)
        self.all_columns = (*id, *own_columns, *self.part_columns, *source)
        self.column_names = tuple(column.name for column in self.all_columns)
        self.text_columns = {column.name for column in self.all_columns if column.is_text}

    def of_tenant(self) -> Self:
        """The resource with the columns of the session's tenant."""
        own_fields = custom_fields.of(self.plural) if session_or_none() else {}
        return _of_tenant(self, custom_fields.current()) if own_fields else self

    def unused_columns(self) -> set[str]:
        """The names of the columns that an export leaves out, because no record has a value."""
        table, unused = self.singular, set()
        for name in self.rare_columns:  # each has an index of the records that have a value
            used = by_index(table, f"{table}_{name}")
            if row(f"SELECT 1 FROM {used} WHERE {name} IS NOT NULL LIMIT 1") is None:
                unused.add(name)
        return {one.name for one in self.columns if one.name.partition(".")[0] in unused}

    def column(self, name: str) -> FileColumn:
        """The column of this name."""
        return next(column for column in self.all_columns if column.name == name)

    about_required_scopes = ""  # of the import, for the documentation

    # For exports

    def reference_names(self, references: References) -> dict[str, Callable[[Any], str]]:
        """{column: function that gives the cell of an id} of columns that name other records."""
        return {}

    def parts_of(self, ids: str) -> Sequence[tuple[Any, ...]]:
        """The parts of records: (id of the record, *stored values of the part columns).

        `ids` is a JSON array of the records' ids.
        """
        assert self.part_record is not None
        owner = f"{self.singular}_id"
        selected = ", ".join([owner, *(column.sql for column in self.part_columns)])
        table = self.part_record._meta.table_name
        sql = f"SELECT {selected} FROM {table} WHERE {among(owner)} ORDER BY {self.part_order}"
        return rows(sql, (ids,))

    # For imports

    def required_scopes(self, has_values: Callable[..., bool]) -> list[str]:
        """Rights that an import needs beside `<plural>:write`.

        `has_values(*columns)` returns whether the file has a value in any of these columns.
        """
        return []

    def keyed_by(self, key: str) -> str:
        """The table, in SQL, by whose `id` and values of a field rows find records."""
        return self.singular

    def find_known(self, key: str, column: str, values: list[Any], type: str = "TEXT") -> set[Any]:
        """Those of the values that live records have in a column, as SQL has it, of a key."""
        sql = f"SELECT {column} FROM {self.keyed_by(key)} WHERE {among(column, type)}"
        sent = dumps([value for value in values if value is not None]).decode()
        return {value for (value,) in rows(f"{sql} AND deleted_at IS NULL", (sent,))}

    def resolve_references(
        self, values: dict[str, Any], record: Any | None, source: str | None, references: References
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
        record.update_fields(data)
        return record.version

    def put_back(self, record: Any, values: dict[str, Any]) -> None:
        """Give a record the stored values that it had before a change that is undone.

        `values` are those of columns, and of parts as the audit trail has them. Raises Invalid or
        Conflict.
        """
        record.put_back(values)

    def on_undone(self, batch_id: int, reversed: int, kept: int) -> None:
        """Called at the end of the undo of a batch, in its last transaction."""

    def on_imported(self, import_id: int, result: Result) -> None:
        """Called at the end of an import that is not a dry run, in its transaction."""

    def empty_values(self, names: Iterable[str]) -> dict[str, None]:
        """Null for the fields of these names that may be null."""
        fields = self.body.fields
        return {name: None for name in names if name in fields and fields[name].allow_none}

    def require_fields(self, data: dict[str, Any]) -> None:
        """A new record has the fields that it needs, or Invalid."""
        fields = self.body.fields.items()
        missing = [name for name, field in fields if field.required and data.get(name) is None]
        if missing:
            detail = f"a new {self.singular} needs it"
            raise Invalid([Fault(f"/{name}", "required", detail) for name in missing])

    def match_parts(
        self, entry: Entry, source: str | None, records: list[Any]
    ) -> list[tuple[Any | None, dict[str, Any]]]:
        """The parts of an entry by field, each with the existing one of `records` that it is about.

        By its id, else the n-th part of a name belongs to the n-th record of that name; ids of
        another tenant count for nothing. None: a new one. Raises Invalid.
        """
        entry.part_rows = [row for row, _ in entry.parts]
        parts = [
            {name.removeprefix(f"{self.part}_"): value for name, value in values.items()}
            for _, values in entry.parts
        ]
        ids = [part.pop("id", None) for part in parts]
        if source is not None:
            ids = [None] * len(parts)
        by_id = {record.id: record for record in records}
        faults, matched_ids = FaultCollector(), set()
        for number, id in enumerate(ids):
            pointer = f"{self.part}s/{number}/id"
            if id is not None and id not in by_id:
                faults.add(pointer, "unknown_id", f"this {self.singular} has no {self.part} {id}")
            if id is not None and id in matched_ids:
                faults.add(pointer, "repeated", f"this {self.part} is listed twice")
            matched_ids.add(id)
        faults.raise_any()
        by_name: dict[Any, deque[Any]] = defaultdict(deque)
        for record in records:
            if record.id not in matched_ids:
                for name in self.part_names:
                    by_name[name, _folded(name, getattr(record, name))].append(record)
        matches = []
        for id, part in zip(ids, parts, strict=True):
            match = by_id.get(id)
            name = next((name for name in self.part_names if part.get(name)), "")
            candidates = by_name.get((name, _folded(name, part.get(name)))) if id is None else None
            while candidates and match is None:
                if (record := candidates.popleft()).id not in matched_ids:
                    matched_ids.add(record.id)
                    match = record
            matches.append((match, part))
        return matches

    def locate_fault(self, pointer: str, entry: Entry) -> tuple[int, str | None]:
        """The row and the column of a verb's error; the column is None for the row as a whole."""
        steps = pointer.strip("/").split("/")
        if len(steps) > 1 and steps[1].isdecimal() and int(steps[1]) < len(entry.part_rows):
            column = f"{self.part}_{steps[2]}" if len(steps) > 2 else None
            is_known = any(known.name == column for known in self.part_columns)
            return entry.part_rows[int(steps[1])], column if is_known else None
        column = self.column_of_field.get(steps[0], steps[0])
        return entry.row, column if column in self.column_names else None


@lru_cache(maxsize=MAX_TENANTS)
def _of_tenant(resource: Any, catalog: Catalog) -> Any:
    # One that has such columns is for one file, and stays as it is.
    own_fields = catalog.of_resource[resource.plural].values()
    return resource if resource.custom_columns else type(resource)([*own_fields])


_registered: dict[str, ImportableResource] = {}


def register(resource: ImportableResource) -> None:
    """Make a resource known to imports, exports and the archive of a tenant.

    Files are imported in the order of registration: each refers only to records of those before.
    """
    _registered[resource.plural] = resource


def find_resource(plural: str) -> ImportableResource:
    """The registered resource of a plural such as `leads`, for the tenant; raises KeyError."""
    return _registered[plural].of_tenant()


def all_resources() -> list[ImportableResource]:
    """All registered resources, in the order in which their files are imported."""
    return list(_registered.values())


def permitted_nouns(right: str, what: str) -> list[str]:
    """The singulars of the resources that the actor has this right to: "read" or "write".

    `what` was done to their records, for the error. Raises Forbidden if there are none.
    """
    scopes = {resource.singular: f"{resource.plural}:{right}" for resource in all_resources()}
    return rights.require_any(scopes, f"this key lacks the right to {right} what was {what}")


def require_of_noun(right: str, what: str, find_noun: Callable[[], str]) -> None:
    """Raise Forbidden unless the actor has this right to the noun that `find_noun()` gives.

    It is not called for an actor without the right to any noun. Raises what it raises.
    """
    permitted_nouns(right, what)
    rights.require([f"{find_noun()}s:{right}"])


def _folded(name: str, value: str | None) -> str | None:
    return fold(value) if name == "name" and value else value
