"""Importing a large file: in short transactions, so that others can write meanwhile.

Each transaction commits what it imported together with the position in the file, the counts and a
lease. So an import whose process has ended goes on exactly where it was, in whichever process
claims it next. Readers see the records as they come; the batch of the import can be undone.
"""

import secrets
import zlib
from contextlib import suppress
from typing import Any

from crm.errors import Conflict, CRMError, NotFound
from crm.json import dumps, loads
from crm.records import batches
from crm.records.batches import Batch
from crm.spreadsheets import import_run
from crm.spreadsheets.import_run import ImportRun, valid_name
from crm.spreadsheets.importer import MAX_ERRORS, Progress, RecordImporter
from crm.spreadsheets.reader import ParsedFile, read_stored
from crm.spreadsheets.resource import ImportableResource, all_resources
from crm.spreadsheets.results import Result
from crm.storage import chunks
from crm.storage.chunks import HasTime
from crm.storage.clocks import steady_now
from crm.storage.file_errors import FILE_ERRORS
from crm.storage.heavy_work import heavy_work
from crm.storage.session import (
    current_session,
    execute,
    insert,
    row,
    rows,
    time_text,
    transaction,
)
from crm.values.ids import integer_id

LEASE_SECONDS = 30  # after which another process may go on; renewed with each transaction
MAX_RUNNING = 5  # of a tenant; they run one after the other
COMPRESSION = 1  # of a waiting file: the fastest
ADD_PART = "INSERT INTO import_part (import_id, kind, data) VALUES (?, ?, ?)"
STORED_FILE = "SELECT data FROM import_part WHERE import_id = ? AND kind = 'file'"
IS_RUNNING = "SELECT 1 FROM import_run WHERE state = 'running'"


class LeaseLost(Exception):
    """The import was cancelled, or another process goes on with it."""


def start(file: ParsedFile, file_name: str | None) -> int:
    """Store a large file to be imported by resume(), and give the id of its report.

    Raises Conflict `too_many_imports`.
    """
    data = zlib.compress(file.data, COMPRESSION)
    with transaction():
        (count,) = rows("SELECT count(*) FROM import_run WHERE state = 'running'")[0]
        if count >= MAX_RUNNING:
            detail = f"{count} imports are running: wait for one of them, or cancel one"
            raise Conflict(detail, "too_many_imports")
        run = _add(file, file_name)
        insert(ADD_PART, (run.id, "file", data))
        return run.id


def import_in_chunks(
    file: ParsedFile, file_name: str | None = None, progress: Progress | None = None
) -> Result:
    """Import a large file here and now; a process that ends meanwhile leaves it unfinished."""
    with transaction():
        run = _add(file, file_name)
        lease = _renew(run)
    work = _Run(run.id, file, lease, progress)
    try:
        work.run()
    except BaseException:
        with suppress(CRMError, *FILE_ERRORS):
            end_interrupted(run.batch_id, work.lease)
        raise
    return ImportRun.find(run.id).result()


def claim() -> tuple[int, str] | None:
    """Take the lease of the oldest import that runs: its id and the lease, None if there is none.

    Raises Conflict `import_leased` if another process has it.
    """
    with transaction():
        run = ImportRun.first("state = 'running'")
        if run is None:
            return None
        if run.lease_until is not None and run.lease_until > steady_now():
            raise Conflict("another process runs this import", "import_leased")
        return run.id, _renew(run)


def resume(id: int, lease: str) -> None:
    """Go on with an import whose lease the caller has, to its end. Raises LeaseLost and Busy."""
    run = ImportRun.find(id)
    if (stored := row(STORED_FILE, (id,))) is None:
        end_interrupted(run.batch_id, lease)
        return
    session, batch = current_session(), Batch.find(run.batch_id)
    options = loads(run.options or "{}")
    session.user_id, session.key_id = run.user_id, batch.key_id
    session.scopes = None if options["scopes"] is None else frozenset(options["scopes"])
    try:
        with heavy_work():
            file = read_stored(zlib.decompress(stored[0]), _resource(run), options["file"])
        _Run(id, file, lease).run()
    except (CRMError, LeaseLost):
        raise
    except Exception:
        _fail(id, "unexpected", "the import was ended by an error of the service")
        raise


def end_interrupted(batch_id: int | str, lease: str | None = None) -> None:
    """End the import of a batch that a command has left unfinished: nobody goes on with it.

    `lease`: the caller's own; that of another process must have ended.
    """
    run = ImportRun.first("batch_id = ? AND state = 'running'", integer_id(batch_id))
    if run is None or row(STORED_FILE, (run.id,)) is not None:
        return
    if run.lease_until == lease or (run.lease_until or "") <= steady_now():
        detail = "the command that ran it was ended: undo its batch and try again"
        _fail(run.id, "interrupted", detail)


def cancel(id: int | str) -> int:
    """End an import; what it has done stays, and can be undone by its batch, whose id is returned.

    Raises NotFound, and Conflict `not_running`.
    """
    with transaction():
        run = ImportRun.find(id)
        if run.state != "running":
            raise Conflict("this import does not run any more", "not_running")
        _end(run, "cancelled")
        return run.batch_id


def fail(id: int, error: CRMError) -> None:
    """End an import that a rule of the whole tenant refuses, such as its quota."""
    _fail(id, error.code, error.detail)


class _Run:
    """The work of this process on one import."""

    def __init__(
        self, id: int, file: ParsedFile, lease: str, progress: Progress | None = None
    ) -> None:
        self._id, self._file, self.lease = id, file, lease
        self._importer = (file.resource.importer or RecordImporter)(file, progress)

    def run(self) -> None:
        chunks.run(self._import_some)

    def _import_some(self, has_time: HasTime) -> bool:
        run, importer, file = ImportRun.find(self._id), self._importer, self._file
        if run.state != "running" or run.lease_until != self.lease:
            raise LeaseLost
        importer.counts = dict.fromkeys(importer.counts, 0)
        with batches.recording(run.batch_id):
            position = importer.import_some(run.position, run.total, has_time)
        result, rejected_rows = importer.result_of(run.position, position)
        errors = [*loads(run.errors), *result.errors][:MAX_ERRORS]
        values: dict[str, Any] = {
            name: getattr(run, name) + getattr(result, name) for name in import_run.COUNTS
        }
        values |= {"position": position, "errors": dumps(errors).decode()}
        if rejected_rows:
            data = import_run.file_for_repair(file, rejected_rows, with_header=not run.rejected)
            insert(ADD_PART, (run.id, "rejects", data))
        run.save_changes(values)
        if position < run.total:
            self.lease = _renew(run)
            return True
        _end(run, "done")
        return False


def _add(file: ParsedFile, file_name: str | None) -> ImportRun:
    session = current_session()
    scopes = None if session.scopes is None else sorted(session.scopes)
    batch = batches.start("import", file.resource.singular, valid_name(file_name))
    result = Result(0, 0, 0, 0, [])
    id = import_run.save(file, result, [], file_name, batch.id)
    run = ImportRun.find(id)
    options = dumps({"file": file.read_as, "scopes": scopes}).decode()
    run.save_changes({"state": "running", "position": 0, "options": options, "rejects": None})
    return run


def _renew(run: ImportRun) -> str:
    """Take the lease for this process, or go on having it; a random part tells it from others."""
    until = current_session().source.steady_clock.now() + LEASE_SECONDS
    lease = f"{time_text(int(until))} {secrets.token_hex(8)}"
    run.save_changes({"lease_until": lease})
    return lease


def _fail(id: int, code: str, detail: str) -> None:
    with transaction():
        try:
            run = ImportRun.find(id)
        except NotFound:
            return
        if run.state == "running":
            error = {"line": 1, "column": None, "code": code, "message": detail}
            run.save_changes({"errors": dumps([error, *loads(run.errors)][:MAX_ERRORS]).decode()})
            _end(run, "failed")


def _end(run: ImportRun, state: str) -> None:
    """Complete the report and the batch, and delete what waited; inside a transaction."""
    parts = rows(
        "SELECT data FROM import_part WHERE import_id = ? AND kind = 'rejects' ORDER BY id",
        (run.id,),
    )
    rejects = b"".join(bytes(data) for (data,) in parts) or None
    run.save_changes({"state": state, "rejects": rejects, "lease_until": None, "options": None})
    execute("DELETE FROM import_part WHERE import_id = ?", (run.id,))
    batches.finish(Batch.find(run.batch_id), state)
    _resource(run).on_imported(run.id, run.result())


def _resource(run: ImportRun) -> ImportableResource:
    return next(resource for resource in all_resources() if resource.singular == run.noun)
