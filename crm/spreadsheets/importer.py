"""Importing a parsed file (D4, D9, D15, D17).

One import is one transaction, and each record in it an attempt of its own: one that does not fit is
rejected with all its rows, and stops no other. Every record goes through its resource's own verbs,
so that the same rules hold and the same events fire as for any other interface. A dry run does the
same work and undoes it.

`id` names a record that exists; else `external_id` names one that exists or will be created; a row
with neither creates a record. A column that the file lacks, and an empty cell, leave an existing
record unchanged; of a new one an empty cell is empty and a column that the file lacks has its
default. An import deletes nothing.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from crm.errors import Conflict, CRMError, Fault, Invalid, NotFound
from crm.records.record import SoftDeletedRecord
from crm.spreadsheets import import_run
from crm.spreadsheets.reader import ParsedFile
from crm.spreadsheets.references import References, contradiction, make_external_id
from crm.spreadsheets.resource import SOURCE_TENANT, Entry
from crm.spreadsheets.results import RejectedRow, Result, RowFault
from crm.tenancy.database import database, now, transaction
from crm.tenancy.dialect import filling

MAX_ERRORS = 1000  # that a report lists; the file of rejected rows has all
PROGRESS_ROWS = 100  # between two reports of progress

Progress = Callable[[int, int], None]  # rows done, rows of the file


class _DryRunDone(Exception):
    """Rolls back the savepoint of a dry run."""


class Importer(ABC):
    """Imports one file; collects counts of records, and faults by the place of the row."""

    def __init__(self, file: ParsedFile, progress: Progress | None = None):
        self.file = file
        self.faults = {row: list(faults) for row, faults in file.faults.items()}
        self.counts = {"created": 0, "updated": 0, "unchanged": 0}
        self._progress = progress
        self._rows_done = 0

    @abstractmethod
    def import_entries(self) -> None:
        """Create and change records; inside a transaction."""

    def preview(self) -> None:
        """Find out what import_entries() would do; here by doing and undoing it.

        Other writers of the tenant wait meanwhile.
        """
        with transaction():
            try:
                with database.savepoint():
                    self.import_entries()
                    raise _DryRunDone
            except _DryRunDone:
                pass

    def report_progress(self, rows: int) -> None:
        """Add to the number of rows done, and call `progress` with it."""
        self._rows_done += rows
        if self._progress is not None:
            self._progress(self._rows_done, len(self.file.rows))

    def result(self) -> tuple[Result, list[RejectedRow]]:
        """The counts with the first errors, and all rejected rows; both by line."""
        sheet = self.file.sheet
        errors: list[dict[str, Any]] = []
        rejected_rows: list[RejectedRow] = []
        for line, code, message, cells in sheet.errors:
            errors.append({"line": line, "column": None, "code": code, "message": message})
            rejected_rows.append(RejectedRow(line, message, cells))
        for row, faults in self.faults.items():
            line, row_cells = sheet.rows[row]
            for fault in faults:
                error = {"line": line, "column": fault.column, "code": fault.code}
                errors.append({**error, "message": fault.message})
            reason = "; ".join(fault.message for fault in faults)
            rejected_rows.append(RejectedRow(line, reason, row_cells))
        errors.sort(key=lambda error: error["line"])
        rejected_rows.sort(key=lambda rejected: rejected.line)
        rejected = self._count_entries() - sum(self.counts.values()) + len(sheet.errors)
        return Result(**self.counts, rejected=rejected, errors=errors[:MAX_ERRORS]), rejected_rows

    def _count_entries(self) -> int:
        return len(self.file.entries) if self.file.resource.part else len(self.file.rows)


class RecordImporter(Importer):
    """Imports one record after the other by the verbs of the resource."""

    def __init__(self, file: ParsedFile, progress: Progress | None = None):
        super().__init__(file, progress)
        self.resource = file.resource
        self.references = References()
        self._lines: dict[int, int] = {}  # of the records imported so far, by id

    def import_entries(self) -> None:
        waiting = 0
        with filling(self.resource.singular, rebuild_indexes=False):
            for entry in self.file.entries:
                self.import_entry(entry)
                waiting += len(entry.rows)
                if waiting >= PROGRESS_ROWS:
                    self.report_progress(waiting)
                    waiting = 0
        self.report_progress(waiting)

    def import_entry(self, entry: Entry) -> None:
        """Import one record, or reject all its rows."""
        if self.faults.keys().isdisjoint(entry.rows):
            try:
                # A savepoint, so that a rejected record leaves no part of it behind.
                with database.savepoint():
                    outcome, id = self._write_record(entry)
            except (Invalid, Conflict, NotFound) as error:
                self._reject(entry, error)
            else:
                self.counts[outcome] += 1
                self._lines[id] = self.file.line(entry)
                return
        for row in entry.rows:
            self.faults.setdefault(row, [])  # rejected with the record, even without a fault

    def _write_record(self, entry: Entry) -> tuple[str, int]:
        """Create or change the record of an entry: (which count it adds to, its id)."""
        values = dict(entry.values)
        # An id of another tenant means nothing in this one, so it becomes an external_id: a file
        # imported twice then updates its records instead of adding them again.
        source = values.pop(SOURCE_TENANT, None)
        source = None if source == self.references.own_tenant else source
        id = values.pop("id", None)
        if external_id := make_external_id(source, id):
            values.setdefault("external_id", external_id)
            id = None
        record = self._find_existing(id, values.get("external_id"))
        self._check_times(values, record)
        resource, references = self.resource, self.references
        if record is None:
            data = {
                **resource.empty_values(self.file.sheet.columns),
                **resource.resolve_references(values, None, source, references),
            }
            resource.require_fields(data)
            return "created", resource.create(data, entry, source)
        # An unchanged record keeps its version, which is how `unchanged` is counted.
        version = record.version
        data = resource.resolve_references(values, record, source, references)
        is_same = resource.update(record, data, entry, source) == version
        return ("unchanged" if is_same else "updated"), record.id

    def _check_times(self, values: dict[str, Any], record: SoftDeletedRecord | None) -> None:
        """Raise Invalid for past times that are in the future, or before a new record's creation.

        Removes values that only a new record can have from those of an existing one.
        """
        for column in self.resource.columns:
            name = column.name
            if name not in values:
                continue
            if column.is_past and values[name] > now():
                raise Invalid.field(name, "in_the_future", "must not be in the future")
            if not column.is_create_only:
                continue
            if record is not None:
                del values[name]
            elif column.is_past and values[name] < values.get("created_at", now()):
                detail = "must not be before created_at, which is now unless the file has it"
                raise Invalid.field(name, "before_created_at", detail)

    def _find_existing(self, id: int | None, external_id: str | None) -> SoftDeletedRecord | None:
        """The live record that a row names, if it names one that exists; raises Invalid."""
        name, record = self.resource.singular, None
        if id is not None:
            record = self.resource.record.first("id = ?", id)
            if record is None:
                raise Invalid.field("id", "unknown_id", f"there is no {name} {id}")
            if external_id is not None and record.external_id not in (None, external_id):
                raise contradiction("external_id", f"is not that of the {name} {id}")
        elif external_id is not None:
            record = self.resource.record.first("external_id = ?", external_id)
        if record is not None and (line := self._lines.get(record.id)):
            column = "external_id" if id is None else "id"
            detail = f"the {name} {record.id} stands in line {line} already"
            raise Invalid.field(column, "duplicate_in_file", detail)
        return record

    def _reject(self, entry: Entry, error: CRMError) -> None:
        faults = getattr(error, "faults", None)
        if not faults:
            column = self.resource.column_of_conflict.get(error.code)
            faults = [Fault(f"/{column}" if column else "", error.code, error.detail)]
        for fault in faults:
            row, column = self.resource.locate_fault(fault.where, entry)
            row_fault = RowFault(column, fault.code, fault.detail)
            self.faults.setdefault(row, []).append(row_fault)


def import_file(
    file: ParsedFile,
    file_name: str | None = None,
    dry_run: bool = False,
    progress: Progress | None = None,
) -> Result:
    """Create and change records by a file that read_file() gave; counts of records.

    A dry run writes nothing and gives the same counts. `progress(done, total)` is called now and
    then with numbers of rows.
    """
    importer = (file.resource.importer or RecordImporter)(file, progress)
    if dry_run:
        importer.preview()
        return importer.result()[0]
    # One transaction for the file: readers see all of it or nothing, and a crash leaves nothing.
    with transaction():
        importer.import_entries()
        result, rejected_rows = importer.result()
        id = result.import_id = import_run.save(file, result, rejected_rows, file_name)
        file.resource.on_imported(id, result)
    return result
