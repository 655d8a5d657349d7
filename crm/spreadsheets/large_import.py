"""Importing a large file: in several transactions, so that others can write meanwhile.

Each transaction stores the position in the file and the counts in the import's report. The file
waits in `import_part` until the end, so that another process can go on (records/background.py).
"""

import zlib
from typing import Any

from crm.access import rights
from crm.alerts import alerts
from crm.alerts.kinds import IMPORT_FINISHED
from crm.errors import CRMError
from crm.json import dumps, loads
from crm.records import background
from crm.records.background import LeaseLost, Step
from crm.records.batches import Batch
from crm.spreadsheets import import_run
from crm.spreadsheets.import_run import ImportRun, valid_name
from crm.spreadsheets.importer import MAX_ERRORS, Progress, RecordImporter
from crm.spreadsheets.reader import ParsedFile, read_stored
from crm.spreadsheets.resource import Result, find_resource
from crm.storage.chunks import HasTime
from crm.storage.heavy_work import heavy_work
from crm.storage.session import execute, insert, row, rows, transaction

COMPRESSION = 1  # of a waiting file: the fastest
ADD_PART = "INSERT INTO import_part (import_id, kind, data) VALUES (?, ?, ?)"
STORED_FILE = "SELECT data FROM import_part WHERE import_id = ? AND kind = 'file'"


def start(file: ParsedFile, file_name: str | None, here: bool = False) -> tuple[ImportRun, Batch]:
    """Store a large file to be imported by its batch, `here` as in background.begin().

    Raises Conflict `too_many_imports`, and Forbidden `own_records_only`.
    """
    rights.require_all_records()
    data = zlib.compress(file.data, COMPRESSION)
    with transaction():
        noun, note = file.resource.singular, valid_name(file_name)
        batch = background.start("import", noun, note, {"read_as": file.read_as}, here)
        id = import_run.save(file, Result(0, 0, 0, 0, []), [], file_name, batch.id)
        run = ImportRun.find(id)
        run.save_changes({"state": "running", "position": 0, "rejects": None})
        insert(ADD_PART, (id, "file", data))
        return run, batch


def start_in_background(file: ParsedFile, file_name: str | None) -> int:
    """Begin to import a large file, and give the id of its report; inside of a request."""
    run, _ = start(file, file_name)
    background.look_after_current()
    return run.id


def import_in_chunks(
    file: ParsedFile, file_name: str | None = None, progress: Progress | None = None
) -> Result:
    """Import a large file here and now; if this process ends meanwhile, others go on."""
    run, batch = start(file, file_name, here=True)
    background.run(batch, _import_steps(file, progress))
    return ImportRun.find(run.id).result()


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
    stored = row(STORED_FILE, (run.id,))
    if stored is None:  # it was cancelled meanwhile
        raise LeaseLost
    with heavy_work():
        read_as = loads(batch.details or "{}")["read_as"]
        file = read_stored(zlib.decompress(stored[0]), find_resource(f"{batch.noun}s"), read_as)
    return _import_steps(file)


def _import_steps(file: ParsedFile, progress: Progress | None = None) -> Step:
    """The function that imports some records of a file, as background.Work has it."""
    importer = (file.resource.importer or RecordImporter)(file, progress)

    def import_some(batch: Batch, has_time: HasTime) -> bool:
        run = _of_batch(batch)
        importer.counts = dict.fromkeys(importer.counts, 0)
        position = importer.import_some(run.position, run.total, has_time)
        result, rejected_rows = importer.result(run.position, position)
        errors = [*loads(run.errors), *result.errors][:MAX_ERRORS]
        values: dict[str, Any] = {
            name: getattr(run, name) + getattr(result, name) for name in import_run.COUNTS
        }
        values |= {"position": position, "errors": dumps(errors).decode()}
        if rejected_rows:
            data = import_run.file_for_repair(file, rejected_rows, with_header=not run.rejected)
            insert(ADD_PART, (run.id, "rejects", data))
        run.save_changes(values)
        return position < run.total

    return import_some


def _on_end(batch: Batch, error: CRMError | None) -> None:
    """Complete the report, and delete what waited."""
    run = _of_batch(batch)
    parts = rows(
        "SELECT data FROM import_part WHERE import_id = ? AND kind = 'rejects' ORDER BY id",
        (run.id,),
    )
    values: dict[str, Any] = {"state": batch.state}
    values["rejects"] = b"".join(bytes(data) for (data,) in parts) or None
    if error is not None:
        fault = {"line": 1, "column": None, "code": error.code, "message": error.detail}
        values["errors"] = dumps([fault, *loads(run.errors)][:MAX_ERRORS]).decode()
    run.save_changes(values)
    execute("DELETE FROM import_part WHERE import_id = ?", (run.id,))
    if batch.state != "cancelled" and run.user_id:
        alerts.add(IMPORT_FINISHED, run._meta.table_name, run.id, to=run.user_id)
    find_resource(f"{batch.noun}s").on_imported(run.id, run.result())


background.register("import", _prepare, _on_end)
