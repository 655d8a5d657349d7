"""Moving in: how a file becomes records (D4, D9, D15, D17).

One import is one transaction, and each record in it an attempt of its own: one that doesn't fit is
rejected whole, with all its rows, and stops no other. Every record goes through its noun's own
verbs, so that the same rules hold and the same events fire as for any other door. A dry run is the
same work, undone.

`id` names a record that is here; else `external_id` names one that is here or will be; a row with
neither makes a record. A column that the file lacks, and an empty cell, leave a known record as it
is; of a new one an empty cell is empty and a column that the file lacks is by default. An import
deletes nothing.
"""

from crm.errors import Conflict, CRMError, Fault, Invalid, NotFound
from crm.records.record import SoftDeletedRecord
from crm.resources import imports
from crm.resources.imports import REASON, Progress, Result, RowFault
from crm.resources.moving.noun import Entry, Moving
from crm.resources.moving.references import References, contradiction
from crm.resources.moving.table import Table
from crm.tenancy.database import database, now, transaction
from crm.tenancy.dialect import filling

AT_ONCE = 100  # rows between two reports of progress
COLUMN_OF = {  # which cell to mend for a conflict with what is kept
    "duplicate_external_id": "external_id",
    "lead_already_converted": "status",
    "task_cancelled": "status",
    "currency_fixed": "currency",
}


class Undone(Exception):
    """A dry run has done all its work."""


class Arrivals:
    """The records of a file as they come in; inside a transaction."""

    def __init__(self, table: Table):
        self.table = table
        self.noun: Moving = table.noun
        self.here = References()
        self.faults = {at: list(found) for at, found in table.faults.items()}
        self.lines: dict[int, int] = {}  # where each record stood that has come by
        self.counts = {"created": 0, "updated": 0, "unchanged": 0}

    def bring(self, entry: Entry) -> None:
        """One record comes in, or all its rows are rejected."""
        if self.faults.keys().isdisjoint(entry.rows):
            try:
                with database.savepoint():
                    became, id = self._become(entry)
            except (Invalid, Conflict, NotFound) as refused:
                self._reject(entry, refused)
            else:
                self.counts[became] += 1
                self.lines[id] = self.table.line(entry)
                return
        for at in entry.rows:
            self.faults.setdefault(at, [])  # a row of it may be right itself

    def _become(self, entry: Entry) -> tuple[str, int]:
        values = dict(entry.values)
        of = values.pop("ids_of", None)
        of = None if of == self.here.own else of
        id = values.pop("id", None)
        made = self.here.external_id(of, id)
        if made is not None:
            values.setdefault("external_id", made)
            id = None
        record = self._known(id, values.get("external_id"))
        for column in self.noun.columns:
            if column.is_past and column.name in values and values[column.name] > now():
                raise Invalid.field(column.name, "in_the_future", "must not be in the future")
            if column.is_new and column.name in values:
                if record is not None:
                    del values[column.name]
                elif values[column.name] < values.get("created_at", now()):
                    detail = "must not be before created_at, which is now unless the file has it"
                    raise Invalid.field(column.name, "before_created_at", detail)
        if record is None:
            nothing = self.noun.nothing(self.table.sheet.columns)
            data = {**nothing, **self.noun.settle(values, None, of, self.here)}
            self.noun.is_whole(data)
            return "created", self.noun.create(data, entry, of)
        version = record.version
        self.noun.change(record, self.noun.settle(values, record, of, self.here), entry, of)
        return ("unchanged" if record.version == version else "updated"), record.id

    def _known(self, id: int | None, external_id: str | None) -> SoftDeletedRecord | None:
        """The live record that a row names, if it names one; raises Invalid."""
        name, record = self.noun.name, None
        if id is not None:
            record = self.noun.record.first("id = ?", id)
            if record is None:
                raise Invalid.field("id", "unknown_id", f"there is no {name} {id}")
            if external_id is not None and record.external_id not in (None, external_id):
                raise contradiction("external_id", f"is not that of the {name} {id}")
        elif external_id is not None:
            record = self.noun.record.first("external_id = ?", external_id)
        if record is not None and (line := self.lines.get(record.id)):
            column = "external_id" if id is None else "id"
            detail = f"the {name} {record.id} stands in line {line} already"
            raise Invalid.field(column, "duplicate_in_file", detail)
        return record

    def _reject(self, entry: Entry, refused: CRMError) -> None:
        found = getattr(refused, "faults", None)
        if not found:
            column = COLUMN_OF.get(refused.code)
            found = [Fault(f"/{column}" if column else "", refused.code, refused.detail)]
        for fault in found:
            at, column = self.noun.place(fault.where, entry)
            detail = RowFault(column, fault.code, fault.detail)
            self.faults.setdefault(at, []).append(detail)


def import_csv(
    table: Table,
    file_name: str | None = None,
    dry_run: bool = False,
    progress: Progress | None = None,
) -> Result:
    """Make and change records by the table that `read` gave; counts of records.

    A dry run changes nothing and gives the counts as they would be; it too holds the tenant's
    writer lock meanwhile. `progress(done, total)` is called now and then with numbers of rows.
    """
    with transaction():
        try:
            with database.savepoint():
                found = _bring_all(table, progress)
                if dry_run:
                    raise Undone
        except Undone:
            pass
        errors, rejects = imports.told(table.sheet, found.faults)
        rejected = len(table.entries) - sum(found.counts.values()) + len(table.sheet.errors)
        result = Result(**found.counts, rejected=rejected, errors=errors[: imports.MOST_ERRORS])
        if not dry_run:
            texts = table.noun.texts | {REASON}
            noun = table.noun.name
            imports.keep(noun, table.sheet, result, rejects, file_name, table.excel, texts)
    return result


def _bring_all(table: Table, progress: Progress | None) -> Arrivals:
    found = Arrivals(table)
    report = imports.reporter(progress, len(table.rows))
    waiting = 0
    with filling(table.noun.name, rebuild_indexes=False):
        for entry in table.entries:
            found.bring(entry)
            waiting += len(entry.rows)
            if waiting >= AT_ONCE:
                report(waiting)
                waiting = 0
    report(waiting)
    return found
