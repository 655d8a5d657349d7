"""Imports of files: their runs, and what each did, so that rejected rows can be repaired (D9).

An import is one transaction. That of a large file takes several, so that others can write
meanwhile: each stores the position in the file and the counts in the report. The file waits in
`import_part` until the end, so that another process can go on (records/background.py).

The counts and the first errors are kept for good; the file of the rejected rows, which may be as
large as the file sent, for 30 days. That file has the reason in a first column `error`, which an
import ignores: it can be repaired and imported as it is.
"""

import zlib
from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

from peewee import BlobField, TextField

from crm import activity
from crm.access import rights
from crm.alerts import alerts
from crm.alerts.kinds import IMPORT_FINISHED
from crm.errors import CRMError, NotFound
from crm.json import dumps, integer_id, loads
from crm.records import background, batches, columns, erasure, fields, nested
from crm.records.background import LeaseLost, Step
from crm.records.batches import Batch
from crm.records.columns import Shown
from crm.records.record import Record
from crm.records.retention import expired_before
from crm.records.schemas import RecordSchema, schema_of
from crm.records.views import RecordView
from crm.spreadsheets import csv_format
from crm.spreadsheets.foreign.headers import MAX_COLUMNS
from crm.spreadsheets.foreign.new_fields import add_new_fields
from crm.spreadsheets.importer import MAX_ERRORS, Progress, RecordImporter
from crm.spreadsheets.marked_cells import shown
from crm.spreadsheets.reader import ParsedFile, read_stored
from crm.spreadsheets.resource import ERROR_COLUMN, RejectedRow, Result, find_resource
from crm.storage import own_rows, sweeps
from crm.storage.chunks import HasTime
from crm.storage.dialect import filling
from crm.storage.heavy_work import heavy_work
from crm.storage.session import current_session, execute, insert, one_row, row, rows, transaction
from crm.values import InvalidValue, one_line

COUNTS = ("created", "updated", "unchanged", "rejected")
STATES = ("running", "done", "failed", "cancelled")
COMPRESSION = 1  # of a waiting file: the fastest
ERASE = "UPDATE import_run SET file_name = NULL, errors = '[]', rejects = NULL,"
ERASE += " left_out_columns = '[]' WHERE id = ?"
ADD_PART = "INSERT INTO import_part (import_id, kind, data) VALUES (?, ?, ?)"


class RowErrorSchema(RecordSchema):
    line = fields.Integer(1, 1 << 53, dump_only=True, about="In the file as sent, the header is 1.")
    column = fields.Text(32, dump_only=True, allow_none=True, about="Null: the row as a whole.")
    code = fields.Text(64, dump_only=True, example="invalid_number")
    message = fields.LongText(dump_only=True, example="price: '12 кг' is not a number")


def _count(about: str = "", column: str = "") -> fields.Integer:
    return fields.Integer(0, 1 << 53, dump_only=True, about=about, column=column)


class ImportRun(Record):
    """One import: its file, its counts, its errors as JSON, and the rejected rows as CSV.

    `noun` is the singular of the resource. `rows` are the file's data rows; the counts are of
    records, one of which may have several rows.
    """

    noun = columns.Text(64, dump_only=True, example="lead", about="What was imported.")
    file_name = columns.Text(255, dump_only=True, allow_none=True, example="price.csv")
    encoding = columns.Text(32, dump_only=True, example="utf-8")
    delimiter = columns.Text(1, dump_only=True, example=";")
    rows = columns.Integer(wire=_count("Data rows of the file."))
    hidden_rows = columns.Integer(wire=_count("Rows that a workbook hides, left out."))
    left_out_columns = columns.Text(
        wire=nested.ValueList(fields.Text(256), MAX_COLUMNS, dump_only=True, example=["Склад"])
    )
    created = columns.Integer(wire=_count("Records, which may have many rows."))
    updated = columns.Integer(wire=_count())
    skipped = Shown(_count("unchanged + rejected", column="unchanged + rejected"))
    unchanged = columns.Integer(wire=_count())
    rejected = columns.Integer(wire=_count())
    errors = columns.Text(
        wire=nested.NestedList(
            RowErrorSchema.out("RowErrorOut"), dump_only=True, about="The first 1000, by line."
        )
    )
    rejects = BlobField(null=True)
    status = Shown(fields.Choice(*STATES, dump_only=True, column="state"))
    position = columns.Integer(wire=_count("Records of the file that are done."))
    total = columns.Integer(wire=_count("Records of the file."))
    state = TextField()
    user_id = columns.Id(dump_only=True, allow_none=True)
    batch_id = columns.Id(
        dump_only=True, allow_none=True, about="By which it can be undone for 30 days."
    )

    def result(self) -> Result:
        """What it has done so far."""
        counts = self.created, self.updated, self.unchanged, self.rejected
        return Result(*counts, loads(self.errors), self.id, self.batch_id)


IMPORT_RUN = RecordView(schema_of(ImportRun).out("ImportOut"), "import_run", live=False)


own_rows.declare("import_run", "import_run.user_id = ?")


def import_file(
    file: ParsedFile,
    file_name: str | None = None,
    dry_run: bool = False,
    progress: Progress | None = None,
    waits: bool = True,
) -> Result:
    """Create and change records by a file that read_file() gave; counts of records.

    A dry run writes nothing and gives the same counts, beyond MAX_TRIED records those of known and
    new keys. `progress(done, total)` is called now and then with numbers of rows. A large file is
    imported here and now, and if this process ends meanwhile, others go on; or, unless the caller
    `waits`, in the background. Raises Busy if too many other files are being read and written,
    Conflict `too_many_imports`, and Forbidden `own_records_only`.
    """
    if dry_run:
        importer = _importer(file, progress)
        importer.preview()
        return importer.result(0, file.count)[0]
    if not file.is_large:
        return _import_at_once(file, file_name, progress)
    run, batch = start(file, file_name, here=waits)
    if waits:
        background.run(batch, _import_steps(file, progress))
    else:
        background.look_after_current()
    return ImportRun.find(run.id).result()


def _importer(file: ParsedFile, progress: Progress | None) -> RecordImporter:
    return (file.resource.importer or RecordImporter)(file, progress)


def _import_at_once(file: ParsedFile, file_name: str | None, progress: Progress | None) -> Result:
    importer, noun = _importer(file, progress), file.resource.singular
    # Inside a transaction of the caller's, other writers would wait for a slot.
    slot = nullcontext() if current_session().in_transaction else activity.computing()
    # One transaction for the file: readers see all of it or nothing, and a crash leaves nothing.
    with slot, transaction():
        with batches.batch("import", noun, valid_name(file_name)) as batch, filling(noun):
            add_new_fields(file.resource)
            importer.import_some(0, file.count, lambda: True)
        result, rejected_rows = importer.result(0, file.count)
        values: dict[str, Any] = {name: getattr(result, name) for name in COUNTS}
        values["errors"] = dumps(result.errors).decode()
        values["rejects"] = file_for_repair(file, rejected_rows)
        run = _add_run(file, file_name, batch, state="done", position=file.count, **values)
        result.import_id, result.batch_id = run.id, batch.id
        file.resource.on_imported(run.id, result)
    return result


def _add_run(file: ParsedFile, file_name: str | None, batch: Batch, **values: Any) -> ImportRun:
    sheet = file.sheet
    return ImportRun.add(
        {
            "noun": file.resource.singular,
            "file_name": valid_name(file_name),
            "encoding": sheet.encoding,
            "delimiter": sheet.delimiter,
            "hidden_rows": sheet.hidden_rows,
            "left_out_columns": dumps(file.left_out_columns).decode(),
            "rows": len(sheet.rows) + len(sheet.errors),
            **dict.fromkeys(COUNTS, 0),
            "errors": "[]",
            "user_id": current_session().user_id,
            "batch_id": batch.id,
            "total": file.count,
            **values,
        }
    )


# Of large files


def start(file: ParsedFile, file_name: str | None, here: bool = False) -> tuple[ImportRun, Batch]:
    """Store a large file to be imported by its batch, `here` as in background.begin()."""
    rights.require_all_records()
    data = zlib.compress(file.data, COMPRESSION)
    with transaction():
        noun, note = file.resource.singular, valid_name(file_name)
        read_as = {"excel": file.sheet.is_excel, "options": file.options.as_json()}
        batch = background.start("import", noun, note, {"read_as": read_as}, here)
        run = _add_run(file, file_name, batch, state="running", position=0)
        insert(ADD_PART, (run.id, "file", data))
        return run, batch


def cancel(id: int | str) -> int:
    """End an import; what it has done stays, and can be undone by its batch, whose id is returned.

    Raises NotFound, and Conflict `not_running`.
    """
    run = ImportRun.find(id)
    if run.batch_id is None:  # nothing of its file was written
        raise background.not_running()
    return background.end(run.batch_id, "cancelled").id


def _of_batch(batch: Batch) -> ImportRun:
    run = ImportRun.first("batch_id = ?", batch.id)
    assert run is not None
    return run


def _prepare(batch: Batch) -> Step:
    run = _of_batch(batch)
    stored = row("SELECT data FROM import_part WHERE import_id = ? AND kind = 'file'", (run.id,))
    if stored is None:  # it was cancelled meanwhile
        raise LeaseLost
    with heavy_work():
        read_as = loads(batch.details or "{}")["read_as"]
        file = read_stored(zlib.decompress(stored[0]), find_resource(f"{batch.noun}s"), read_as)
    return _import_steps(file)


def _import_steps(file: ParsedFile, progress: Progress | None = None) -> Step:
    """The function that imports some records of a file, as background.Work has it."""
    importer = _importer(file, progress)

    def import_some(batch: Batch, has_time: HasTime) -> bool:
        run = _of_batch(batch)
        importer.counts = dict.fromkeys(importer.counts, 0)
        if not run.position:
            add_new_fields(file.resource)
        position = importer.import_some(run.position, run.total, has_time)
        result, rejected_rows = importer.result(run.position, position)
        errors = [*loads(run.errors), *result.errors][:MAX_ERRORS]
        values: dict[str, Any] = {
            name: getattr(run, name) + getattr(result, name) for name in COUNTS
        }
        values |= {"position": position, "errors": dumps(errors).decode()}
        if rejected_rows:
            data = file_for_repair(file, rejected_rows, with_header=not run.rejected)
            insert(ADD_PART, (run.id, "rejects", data))
        run.save_changes(values)
        return position < run.total

    return import_some


def _on_end(batch: Batch, error: CRMError | None) -> None:
    """Complete the report, and delete what waited."""
    run = _of_batch(batch)
    sql = "SELECT data FROM import_part WHERE import_id = ? AND kind = 'rejects' ORDER BY id"
    rejects = b"".join(bytes(data) for (data,) in rows(sql, (run.id,)))
    values: dict[str, Any] = {"state": batch.state, "rejects": rejects or None}
    if error is not None:
        fault = {"line": 1, "column": None, "code": error.code, "message": error.detail}
        values["errors"] = dumps([fault, *loads(run.errors)][:MAX_ERRORS]).decode()
    run.save_changes(values)
    execute("DELETE FROM import_part WHERE import_id = ?", (run.id,))
    if batch.state != "cancelled" and run.user_id:
        alerts.add(IMPORT_FINISHED, run._meta.table_name, run.id, to=run.user_id)
    find_resource(f"{batch.noun}s").on_imported(run.id, run.result())


background.register("import", _prepare, _on_end)


# Reports


def rejected_rows_file(id: int | str) -> bytes:
    """The rejected rows of an import as CSV; raises NotFound, also when they were deleted."""
    rejects = ImportRun.find(id).rejects
    if rejects is None:
        raise NotFound
    return bytes(rejects)


def has_rejected_rows_file(id: int | str) -> bool:
    """Whether the rejected rows of an import are still kept."""
    sql = "SELECT rejects IS NOT NULL FROM import_run WHERE id = ?"
    return bool(one_row(sql, (integer_id(id),))[0])


def file_for_repair(
    file: ParsedFile, rejected_rows: list[RejectedRow], with_header: bool = True
) -> bytes:
    """The rejected rows in the file's own columns and dialect, the reason first."""
    header, cells_by_line = file.as_written.columns, dict(file.as_written.rows)
    old_reason = header.index(ERROR_COLUMN) if ERROR_COLUMN in header else None
    # The dialect adds an apostrophe to cells that begin with one; more than two would stay.
    is_guarded = file.sheet.is_excel and not file.is_exact

    def with_reason(reason: str, cells: Sequence[str]) -> list[str]:
        texts = [shown(cell) for at, cell in enumerate(cells) if at != old_reason]
        if is_guarded:
            texts = [text[1:] if text.startswith("''") else text for text in texts]
        return [reason, *texts]

    columns = with_reason(ERROR_COLUMN, header)
    rows = (
        with_reason("; ".join(fault.message for fault in faults), cells_by_line.get(line, cells))
        for line, faults, cells in rejected_rows
    )
    data = csv_format.write(columns, rows, file.sheet.is_excel, {*columns})
    return data if with_header else data[len(csv_format.write(columns, [], file.sheet.is_excel)) :]


@sweeps.register
def delete_expired(max_rows: int) -> int:
    """Delete the files of rejected rows that are kept no longer."""
    expired = "SELECT id FROM import_run WHERE rejects IS NOT NULL AND created_at < ? LIMIT ?"
    sql = f"UPDATE import_run SET rejects = NULL WHERE id IN ({expired})"
    return execute(sql, (expired_before(), max_rows)).rowcount


def valid_name(file_name: str | None) -> str | None:
    """The name of a file as it is stored; None if there is none that can be shown."""
    try:
        return one_line(file_name or "", 255)
    except InvalidValue:
        return None  # the name is only shown: it must not fail an import


# Of a report that names a person the counts are left.
REPORTS = erasure.Texts(
    "imports",
    "import_run",
    keys=("id",),
    columns=("file_name", "errors", "rejects", "left_out_columns"),
    is_named=lambda person, texts: any(map(person.is_named_in, texts)),
    erase=lambda person, id, texts: execute(ERASE, id),
)
erasure.register_texts(REPORTS, "import_run", "import_part")
