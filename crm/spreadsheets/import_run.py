"""What each import did, stored so that a user can repair the rejected rows (spec: Products; D9).

The counts and the first errors are kept for good; the file of the rejected rows, which may be as
large as the file sent, for 30 days. That file has the reason in a first column `error`, which an
import ignores: it can be repaired and imported as it is.
"""

from collections.abc import Sequence
from typing import Any

from peewee import BlobField, TextField

from crm.errors import NotFound
from crm.json import dumps, integer_id, loads
from crm.records import columns, erasure, fields, nested
from crm.records.columns import Shown
from crm.records.erasure import Person
from crm.records.record import Record
from crm.records.retention import KEPT_SECONDS
from crm.records.schemas import RecordSchema, schema_of
from crm.records.views import RecordView
from crm.spreadsheets import csv_format
from crm.spreadsheets.reader import ParsedFile
from crm.spreadsheets.resource import ERROR_COLUMN, RejectedRow, Result, all_resources
from crm.storage import own_rows
from crm.storage.clocks import erasing_before
from crm.storage.session import current_session, execute, one_row
from crm.values import InvalidValue, one_line

COUNTS = ("created", "updated", "unchanged", "rejected")
STATES = ("running", "done", "failed", "cancelled")


class Singular(fields.Text):
    """The singular of a registered resource."""

    def schema_type(self) -> dict[str, Any]:
        # Resources register later than this class is used for the first time.
        singulars = [resource.singular for resource in all_resources()]
        return {"type": "string", "enum": singulars} if singulars else super().schema_type()


class RowErrorSchema(RecordSchema):
    line = fields.Integer(1, 1 << 53, dump_only=True, about="In the file as sent, the header is 1.")
    column = fields.Text(32, dump_only=True, allow_none=True, about="Null: the row as a whole.")
    code = fields.Text(64, dump_only=True, example="invalid_number")
    message = fields.LongText(dump_only=True, example="price: '12 грн' is not a number")


def _count(about: str = "", column: str = "") -> fields.Integer:
    return fields.Integer(0, 1 << 53, dump_only=True, about=about, column=column)


class ImportRun(Record):
    """One import: its file, its counts, its errors as JSON, and the rejected rows as CSV.

    `noun` is the singular of the resource. `rows` are the file's data rows; the counts are of
    records, one of which may have several rows.
    """

    noun = columns.Text(
        wire=Singular(64, dump_only=True, example="lead", about="What was imported.")
    )
    file_name = columns.Text(255, dump_only=True, allow_none=True, example="price.csv")
    encoding = columns.Text(32, dump_only=True, example="utf-8")
    delimiter = columns.Text(1, dump_only=True, example=";")
    rows = columns.Integer(wire=_count("Data rows of the file."))
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


def save(
    file: ParsedFile,
    result: Result,
    rejected_rows: list[RejectedRow],
    file_name: str | None,
    batch_id: int,
) -> int:
    """Save what an import did and give its id; inside a transaction."""
    sheet = file.sheet
    import_run = ImportRun.add(
        {
            "noun": file.resource.singular,
            "file_name": valid_name(file_name),
            "encoding": sheet.encoding,
            "delimiter": sheet.delimiter,
            "rows": len(sheet.rows) + len(sheet.errors),
            **{name: getattr(result, name) for name in COUNTS},
            "errors": dumps(result.errors).decode(),
            "rejects": file_for_repair(file, rejected_rows),
            "user_id": current_session().user_id,
            "batch_id": batch_id,
            "state": "done",
            "position": file.count,
            "total": file.count,
        }
    )
    _delete_old_rejected_rows()
    return import_run.id


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
    source = file.as_written if rejected_rows else file.sheet
    header, own_cells = source.columns, dict[int, Sequence[str]]()
    text_columns = file.resource.text_columns | {ERROR_COLUMN}
    if file.options.mapping is not None:
        own_cells, text_columns = dict(source.rows), {*header, ERROR_COLUMN}
    old_reason = header.index(ERROR_COLUMN) if ERROR_COLUMN in header else None

    def with_reason(reason: str, cells: Sequence[str]) -> list[str]:
        return [reason, *(cell for place, cell in enumerate(cells) if place != old_reason)]

    rows = (
        with_reason(rejected.reason, own_cells.get(rejected.line, rejected.cells))
        for rejected in rejected_rows
    )
    columns = with_reason(ERROR_COLUMN, header)
    data = csv_format.write(columns, rows, file.excel, text_columns)
    return data if with_header else data[len(csv_format.write(columns, [], file.excel)) :]


def _delete_old_rejected_rows() -> None:
    # At each import instead of in the sweeps: without imports no further files take up space.
    execute(
        "UPDATE import_run SET rejects = NULL WHERE rejects IS NOT NULL AND created_at < ?",
        (erasing_before(KEPT_SECONDS),),
    )


def valid_name(file_name: str | None) -> str | None:
    """The name of a file as it is stored; None if there is none that can be shown."""
    try:
        return one_line(file_name or "", 255)
    except InvalidValue:
        return None  # the name is only shown: it must not fail an import


def _erase_from_report(person: Person, id: tuple[Any, ...], texts: Sequence[Any]) -> bool:
    """Remove the rejected rows, the messages and the file name that name a person."""
    file_name, errors, _ = texts
    redacted = [
        error | {"message": "erased"} if person.is_named_in(error["message"]) else error
        for error in loads(errors)
    ]
    execute(
        "UPDATE import_run SET file_name = ?, errors = ?, rejects = NULL WHERE id = ?",
        (None if person.is_named_in(file_name) else file_name, dumps(redacted).decode(), *id),
    )
    return True


REPORTS = erasure.Texts(
    "imports",
    "import_run",
    keys=("id",),
    columns=("file_name", "errors", "rejects"),
    is_named=lambda person, texts: any(map(person.is_named_in, texts)),
    erase=_erase_from_report,
)
erasure.register_texts(REPORTS, "import_run", "import_part")
