"""Importing a parsed file (D4, D9, D15, D17).

The transactions are those of import_run.py. Each record in it is an
attempt of its own: one that does not fit is rejected with all its rows, and stops no other. Every
record goes through its resource's own verbs, so that the same rules hold and the same events fire
as for any other interface. A dry run does the same work of the first records and undoes it.

`id` names a record that exists; else `external_id` names one that exists or will be created; a row
with neither creates a record. A column that the file lacks, and an empty cell, leave an existing
record unchanged; of a new one an empty cell is empty and a column that the file lacks has its
default. An import deletes nothing.
"""

import sys
from collections.abc import Callable, Iterable
from itertools import islice
from operator import itemgetter, or_
from typing import Any

from crm.access import rights
from crm.errors import Conflict, CRMError, Fault, Invalid, NotFound
from crm.json import dumps
from crm.records import verbs
from crm.records.deletions import absent
from crm.records.record import SoftDeletedRecord
from crm.spreadsheets.reader import ParsedFile
from crm.spreadsheets.references import References, contradiction, make_external_id
from crm.spreadsheets.resource import SOURCE_TENANT, Entry, RejectedRow, Result, RowFault
from crm.storage import chunks
from crm.storage.chunks import HasTime
from crm.storage.dialect import among, comparable, equals
from crm.storage.session import now, one_row, rows, savepoint

MAX_ERRORS = 1000  # that a report lists; the file of rejected rows has all
MAX_TRIED = 2000  # records of a dry run; of the others the keys are looked for

Progress = Callable[[int, int], None]  # rows done, rows of the file


class RecordImporter:
    """Imports one file; collects counts of records, and faults by the place of the row.

    It imports one record after the other by the verbs of the resource.
    """

    def __init__(self, file: ParsedFile, progress: Progress | None = None):
        rights.require_all_records()  # it finds records by their ids and keys
        self.file, self.resource = file, file.resource
        self.references = References(file.options)
        self.faults = {row: list(faults) for row, faults in file.faults.items()}
        self.counts = {"created": 0, "updated": 0, "unchanged": 0}
        own_columns = self.resource.custom_columns
        self.own_columns = [column for column in own_columns if column.name in file.values]
        self._progress = progress
        self._rows_done = 0
        self._lines: dict[int, int] = {}  # of the records imported so far, by id

    def import_some(self, position: int, stop: int, has_time: HasTime) -> int:
        """Import records from `position` to `stop` while there is time; returns the next place."""
        while position < stop:
            entry = self.file.entries[position]
            self.import_entry(entry)
            self.report_progress(len(entry.rows))
            position += 1
            if not has_time():
                break
        return position

    def report_progress(self, rows: int) -> None:
        """Add to the number of rows done, and call `progress` with it."""
        self._rows_done += rows
        if self._progress is not None:
            self._progress(self._rows_done, len(self.file.rows))

    def result(self, start: int, stop: int) -> tuple[Result, list[RejectedRow]]:
        """The counts with the first errors, and all rejected rows, of the records in these places.

        Both are by line; `counts` are those of these records.
        """
        sheet = self.file.sheet
        rows = range(self.file.row_of(start), self.file.row_of(stop))
        # Lines that could not be read go with the record above.
        first_line = sheet.rows[rows.start][0] if start else 0
        next_line = sheet.rows[rows.stop][0] if stop < self.file.count else sys.maxsize
        rejected_rows = [
            RejectedRow(line, [RowFault(None, code, message)], cells)
            for line, code, message, cells in sheet.errors
            if first_line <= line < next_line
        ]
        rejected = len(rejected_rows) + stop - start - sum(self.counts.values())
        for row in self.faults.keys() & rows:
            line, cells = sheet.rows[row]
            rejected_rows.append(RejectedRow(line, self.faults[row], cells))
        rejected_rows.sort(key=itemgetter(0))
        errors = (
            {"line": line, "column": fault.column, "code": fault.code, "message": fault.message}
            for line, faults, _ in rejected_rows
            for fault in faults
        )
        result = Result(**self.counts, rejected=rejected, errors=[*islice(errors, MAX_ERRORS)])
        return result, rejected_rows

    def preview(self) -> None:
        """Find out what an import would do; holds up other writers for a moment only."""
        position, tried = 0, min(len(self.file.entries), MAX_TRIED)

        def try_some(has_time: HasTime) -> bool:
            nonlocal position
            (last_id,) = one_row(f"SELECT coalesce(max(id), 0) FROM {self.resource.singular}")
            position = self.import_some(position, tried, has_time)
            self.references.forget_created()
            # The ids of those that were created and undone are given again.
            self._lines = {id: line for id, line in self._lines.items() if id <= last_id}
            return position < tried

        chunks.run(try_some, is_trial=True)
        self._count_known(self.file.entries[tried:])

    def _count_known(self, entries: list[Entry]) -> None:
        """Count entries as new or changed by whether their keys are known."""
        fitting = [entry for entry in entries if self.faults.keys().isdisjoint(entry.rows)]
        sent = [dict(entry.values) for entry in fitting]
        ids = [self._take_id(values)[0] for values in sent]
        known = self.resource.find_known("id", "id", ids, "BIGINT")
        are_known = [id in known for id in ids]
        key = self.file.options.key or "external_id"
        keys, column = [values.get(key) for values in sent], comparable(key)
        if column != key:
            keys = [value and value.lower() for value in keys]
        known = self.resource.find_known(key, column, keys)
        changed = sum(map(or_, are_known, [value in known for value in keys]))
        self.counts["updated"] += changed
        self.counts["created"] += len(fitting) - changed

    def _take_id(self, values: dict[str, Any]) -> tuple[int | None, str | None]:
        """Take the id out of values: the id, and the other tenant they are of, if any.

        An id of another tenant means nothing in this one, so it becomes an external_id: a file
        imported twice then updates its records instead of adding them again.
        """
        source = values.pop(SOURCE_TENANT, None)
        source = None if source == self.references.own_tenant else source
        id = values.pop("id", None)
        if external_id := make_external_id(source, id):
            values.setdefault("external_id", external_id)
            id = None
        return id, source

    def import_entry(self, entry: Entry) -> None:
        """Import one record, or reject all its rows."""
        if self.faults.keys().isdisjoint(entry.rows):
            try:
                # A savepoint, so that a rejected record leaves no part of it behind.
                with savepoint():
                    outcome, id = self.write_record(entry)
            except (Invalid, Conflict, NotFound) as error:
                self.reject(entry, error)
                self.references.forget_created()
            else:
                self.counts[outcome] += 1
                self._lines[id] = self.file.line(entry)
                return
        for row in entry.rows:
            self.faults.setdefault(row, [])  # rejected with the record, even without a fault

    def write_record(self, entry: Entry) -> tuple[str, int]:
        """Create or change the record of an entry: (which count it adds to, its id).

        Raises Invalid, Conflict and NotFound.
        """
        values = dict(entry.values)
        id, source = self._take_id(values)
        options = self.file.options
        record = self._find_existing(id, values)
        if record is not None and options.key and options.known == "skip":
            return "unchanged", record.id
        self._check_zeros(values, record)
        self._check_times(values, record)
        cleared = self.cleared_values(values) if options.on_empty == "clear" else {}
        resource, references = self.resource, self.references
        if record is None:
            if not self.file.is_exact and "phone" in self.resource.column_names:
                values.setdefault("name", values.get("email") or values.get("phone"))
            data = {
                **resource.empty_values(self.file.sheet.columns),
                **resource.resolve_references(values, None, source, references),
            }
            self.join_own_fields(data)
            resource.require_fields(data)
            return "created", resource.create(data, entry, source)
        # An unchanged record keeps its version, which is how `unchanged` is counted.
        version = record.version
        data = cleared | resource.resolve_references(values, record, source, references)
        self.join_own_fields(data)
        data |= verbs.merged_objects(record, data)
        is_same = resource.update(record, data, entry, source) == version
        return ("unchanged" if is_same else "updated"), record.id

    def join_own_fields(self, values: dict[str, Any]) -> None:
        """Put values of the tenant's own fields together as `custom`, a merge patch."""
        patch, is_clearing = dict[str, Any](), self.file.options.on_empty == "clear"
        for column in self.own_columns:
            assert column.custom is not None
            value = values.pop(column.name, None)
            if value is not None or is_clearing:
                patch[column.custom.key] = column.custom.wire.show(value)
        if patch:
            values["custom"] = dumps(patch).decode()

    def find_longer(self, column: str, values: Iterable[str | None]) -> dict[str, str]:
        """{value: the text of a live record that it is without its leading zeros}.

        Of values that no record has; pandas makes 123.0 of 123, too.
        """
        numbers = {
            value: number
            for value in values
            if value and value[0] != "0" and (number := value.removesuffix(".0")).isdecimal()
        }
        if self.file.keeps_zeros or not numbers:
            return {}
        number = f"ltrim({column}, '0')"
        sql = f"SELECT {number}, {column} FROM {self.resource.singular} WHERE {column} < '1'"
        sql += f" AND {column} >= '0' AND {among(number, 'TEXT')} AND deleted_at IS NULL"
        longer = dict(rows(sql, (dumps([*numbers.values()]).decode(),)))
        if numbers.keys() != set(numbers.values()):
            of_pandas = self.resource.find_known(column, column, [*numbers.values()])
            longer = {number: number for number in of_pandas} | longer
        return {value: longer[number] for value, number in numbers.items() if number in longer}

    def _check_zeros(self, values: dict[str, Any], record: SoftDeletedRecord | None) -> None:
        """Raise Invalid for a number whose leading zeros a spreadsheet program has removed."""
        if record is None:
            key = self.file.options.key or "external_id"
            if longer := self.find_longer(key, [values.get(key)]):
                raise lost_zeros(key, *longer.values())
        elif not self.file.keeps_zeros:
            for name, value in values.items():
                stored = getattr(record, name, None)
                number = stored.lstrip("0") if isinstance(stored, str) else stored
                if stored != number and value in (number, f"{number}.0"):  # that is by pandas
                    raise lost_zeros(name, str(stored))

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

    def cleared_values(self, values: dict[str, Any]) -> dict[str, None]:
        """Null for the fields whose cells are empty; keys and `extra` are never cleared."""
        never = {*values, *self.resource.key_columns, self.file.options.key, "extra", "manager"}
        return self.resource.empty_values(set(self.file.sheet.columns) - never)

    def _find_existing(self, id: int | None, values: dict[str, Any]) -> SoftDeletedRecord | None:
        """The live record that a row names, if it names one that exists; raises Invalid."""
        name, record = self.resource.singular, None
        external_id, key = values.get("external_id"), self.file.options.key
        if key and id is None:
            if (value := values.get(key)) is None:
                return None
            ids = f"id IN (SELECT id FROM {self.resource.keyed_by(key)} WHERE {equals(key)})"
            records = self.resource.record.every(f"{ids} ORDER BY id LIMIT 2", value)
            if len(records) > 1:
                raise Invalid.field(key, "ambiguous", f"several {name}s have it: “{value}”")
            record, id = (records[0], records[0].id) if records else (None, None)
            external_id = None if record is None else external_id
        if id is not None:
            record = record or self.resource.record.first("id = ?", id)
            if record is None:
                unknown = absent(name, id, f"there is no {name} {id}")
                code = "in_trash" if "in_trash" in unknown.more else "unknown_id"
                raise Invalid.field("id", code, unknown.detail)
            if external_id is not None and record.external_id not in (None, external_id):
                raise contradiction("external_id", f"is not that of the {name} {id}")
        elif external_id is not None and not key:
            record = self.resource.record.first("external_id = ?", external_id)
        if record is not None and (line := self._lines.get(record.id)):
            column = key or ("external_id" if id is None else "id")
            detail = f"the {name} {record.id} stands in line {line} already"
            raise Invalid.field(column, "duplicate_in_file", detail)
        return record

    def reject(self, entry: Entry, error: CRMError) -> None:
        column = self.resource.column_of_conflict.get(error.code)
        whole = Fault(f"/{column}" if column else "", error.code, error.detail)
        for fault in error.faults or [whole]:
            row, column = self.resource.locate_fault(fault.where, entry)
            row_fault = RowFault(column, fault.code, fault.detail)
            self.faults.setdefault(row, []).append(row_fault)


def lost_zeros(column: str, stored: str) -> Invalid:
    """Make the error for a number that a known record has with leading zeros."""
    detail = f"there is “{stored}”, of which a program has removed the leading zeros"
    return Invalid.field(column, "lost_zeros", detail)
