"""What each import did, stored so that a user can repair the rejected rows (spec: Products; D9).

The counts and the first errors are kept for good; the file of the rejected rows, which may be as
large as the file sent, for 30 days. That file has the reason in a first column `error`, which an
import ignores: it can be repaired and imported as it is.
"""

from collections.abc import Sequence
from typing import Any

from peewee import BlobField, IntegerField, TextField

from crm.errors import NotFound
from crm.json import dumps
from crm.records import fields, nested
from crm.records.record import Record
from crm.records.retention import KEPT_SECONDS
from crm.records.schemas import RecordSchema
from crm.records.views import RecordView
from crm.spreadsheets import csv_format
from crm.spreadsheets.reader import ParsedFile
from crm.spreadsheets.resource import all_resources
from crm.spreadsheets.results import ERROR_COLUMN, RejectedRow, Result
from crm.tenancy.clocks import erasing_before
from crm.tenancy.database import current_session, execute, one_row
from crm.values import InvalidValue, one_line
from crm.values.ids import integer_id


class ImportRun(Record):
    """One import: its file, its counts, its errors as JSON, and the rejected rows as CSV.

    `noun` is the singular of the resource. `rows` are the file's data rows; the counts are of
    records, one of which may have several rows.
    """

    noun = TextField()
    file_name = TextField(null=True)
    encoding = TextField()
    delimiter = TextField()
    rows = IntegerField()
    created = IntegerField()
    updated = IntegerField()
    unchanged = IntegerField()
    rejected = IntegerField()
    errors = TextField()
    rejects = BlobField(null=True)
    user_id = IntegerField(null=True)

    class Meta:
        table_name = "import_run"


def save(
    file: ParsedFile, result: Result, rejected_rows: list[RejectedRow], file_name: str | None
) -> int:
    """Save what an import did and give its id; inside a transaction."""
    sheet = file.sheet
    import_run = ImportRun.add(
        {
            "noun": file.resource.singular,
            "file_name": _valid_name(file_name),
            "encoding": sheet.encoding,
            "delimiter": sheet.delimiter,
            "rows": len(sheet.rows) + len(sheet.errors),
            "created": result.created,
            "updated": result.updated,
            "unchanged": result.unchanged,
            "rejected": result.rejected,
            "errors": dumps(result.errors).decode(),
            "rejects": _file_for_repair(file, rejected_rows),
            "user_id": current_session().user_id,
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


def _file_for_repair(file: ParsedFile, rejected_rows: list[RejectedRow]) -> bytes:
    """The rejected rows in the file's own columns and dialect, the reason first."""
    header = file.sheet.columns
    old_reason = header.index(ERROR_COLUMN) if ERROR_COLUMN in header else None

    def with_reason(reason: str, cells: Sequence[str]) -> list[str]:
        return [reason, *(cell for place, cell in enumerate(cells) if place != old_reason)]

    rows = (with_reason(rejected.reason, rejected.cells) for rejected in rejected_rows)
    text_columns = file.resource.text_columns | {ERROR_COLUMN}
    return csv_format.write(with_reason(ERROR_COLUMN, header), rows, file.excel, text_columns)


def _delete_old_rejected_rows() -> None:
    # At each import instead of in the sweeps: without imports no further files take up space.
    execute(
        "UPDATE import_run SET rejects = NULL WHERE rejects IS NOT NULL AND created_at < ?",
        (erasing_before(KEPT_SECONDS),),
    )


def _valid_name(file_name: str | None) -> str | None:
    try:
        return one_line(file_name or "", 255)
    except InvalidValue:
        return None  # the name is only shown: it must not fail an import


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


class ImportRunSchema(RecordSchema):
    """All fields of an import, in the order they are shown."""

    id = fields.Id(dump_only=True)
    noun = Singular(64, dump_only=True, example="lead", about="What was imported.")
    file_name = fields.Text(255, dump_only=True, allow_none=True, example="price.csv")
    encoding = fields.Text(32, dump_only=True, example="utf-8")
    delimiter = fields.Text(1, dump_only=True, example=";")
    rows = fields.Integer(0, 1 << 53, dump_only=True, about="Data rows of the file.")
    created = fields.Integer(0, 1 << 53, dump_only=True, about="Records, which may have many rows.")
    updated = fields.Integer(0, 1 << 53, dump_only=True)
    skipped = fields.Integer(
        *(0, 1 << 53), dump_only=True, column="unchanged + rejected", about="unchanged + rejected"
    )
    unchanged = fields.Integer(0, 1 << 53, dump_only=True)
    rejected = fields.Integer(0, 1 << 53, dump_only=True)
    errors = nested.NestedList(
        RowErrorSchema.out("RowErrorOut"), dump_only=True, about="The first 1000, by line."
    )
    user_id = fields.Id(dump_only=True, allow_none=True)
    created_at = fields.DateTime(dump_only=True)
    updated_at = fields.DateTime(dump_only=True)
    version = fields.Integer(1, 1 << 53, dump_only=True)


IMPORT_RUN = RecordView(ImportRunSchema.out("ImportOut"), "import_run", live=False)
