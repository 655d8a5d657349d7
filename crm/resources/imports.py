"""Imports of CSV files: what each did, for whoever has to mend the rest (spec: Products; D9).

Every noun that moves by CSV shares this: the file as it comes in, why rows are rejected, the
counts, and the report. The counts and the first 1000 errors are kept for good; the file of the
rejected rows, which may be as large as what was sent, for 30 days. That file has the reason in a
first column `error`, which an import ignores: it can be mended and imported as it is.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from peewee import BlobField, IntegerField, TextField

from crm import sheets
from crm.errors import Fault, Invalid, NotFound, TooLarge
from crm.json import dumps
from crm.records import fields, nested
from crm.records.record import Record
from crm.records.retention import KEPT_DAYS
from crm.records.schemas import RecordSchema
from crm.records.views import RecordView
from crm.sheets import Sheet
from crm.tenancy.clocks import erasing_before
from crm.tenancy.database import current_session, execute
from crm.tenancy.sweeps import DAY_SECONDS
from crm.values import InvalidValue, one_line

REASON = "error"
MOST_BYTES = 10 << 20
MOST_ERRORS = 1000
NOUNS = ("lead", "client", "deal", "product", "task")

Progress = Callable[[int, int], None]
Report = Callable[[int], None]


class RowFault(NamedTuple):
    """Why a row is rejected; `column` is None for the row as a whole."""

    column: str | None
    code: str
    detail: str

    @property
    def message(self) -> str:
        return f"{self.column}: {self.detail}" if self.column else self.detail


class Reject(NamedTuple):
    line: int
    reason: str
    cells: Sequence[str]


@dataclass(slots=True)
class Result:
    """The counts of an import and its first 1000 errors {line, column, code, message}."""

    created: int
    updated: int
    unchanged: int
    rejected: int
    errors: list[dict[str, Any]]
    import_id: int | None = None

    @property
    def skipped(self) -> int:
        return self.unchanged + self.rejected


class Import(Record):
    """One import: its file, its counts, its errors as JSON, and the rejected rows as CSV.

    `rows` are the file's data rows; the counts are of records, one of which may have several rows.
    """

    noun = TextField()  # of what
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


def open_sheet(
    data: bytes,
    columns: Sequence[str],
    required: Sequence[str],
    most_rows: int,
    excel: bool,
) -> Sheet:
    """A file as `sheets.read` reads it, where the column `error` of rejected rows may come back.

    Raises TooLarge beyond 10 MiB, and Invalid when the file as a whole can't be used: codes
    empty_file, not_text, bad_encoding, field_too_long, unknown_column, duplicate_column,
    missing_column, too_many_rows.
    """
    if len(data) > MOST_BYTES:
        raise TooLarge(f"the file is larger than {MOST_BYTES} bytes")
    try:
        return sheets.read(data, (*columns, REASON), required, most_rows, excel)
    except sheets.Unreadable as unreadable:
        fault = Fault("/file", unreadable.code, unreadable.detail)
        raise Invalid(fault, unreadable.code) from None


def told(
    sheet: Sheet, faults: dict[int, list[RowFault]]
) -> tuple[list[dict[str, Any]], list[Reject]]:
    """The errors and the rejected rows, both by line; `faults` are those of `sheet.rows`."""
    errors, rejects = [], []
    for line, code, message, cells in sheet.errors:
        errors.append({"line": line, "column": None, "code": code, "message": message})
        rejects.append(Reject(line, message, cells))
    for at, found in faults.items():
        line, cells = sheet.rows[at]
        for fault in found:
            where = {"line": line, "column": fault.column}
            errors.append({**where, "code": fault.code, "message": fault.message})
        rejects.append(Reject(line, "; ".join(fault.message for fault in found), cells))
    errors.sort(key=lambda error: error["line"])
    rejects.sort(key=lambda reject: reject.line)
    return errors, rejects


def keep(
    noun: str,
    sheet: Sheet,
    result: Result,
    rejects: list[Reject],
    file_name: str | None,
    excel: bool,
    text_columns: Collection[str],
) -> int:
    """Keep what an import did and give its id; inside a transaction."""
    kept = Import.add(
        {
            "noun": noun,
            "file_name": _fitting(file_name),
            "encoding": sheet.encoding,
            "delimiter": sheet.delimiter,
            "rows": len(sheet.rows) + len(sheet.errors),
            "created": result.created,
            "updated": result.updated,
            "unchanged": result.unchanged,
            "rejected": result.rejected,
            "errors": dumps(result.errors).decode(),
            "rejects": _for_repair(sheet, rejects, excel, text_columns),
            "user_id": current_session().user_id,
        }
    )
    _forget_old_rejects()
    result.import_id = kept.id
    return kept.id


def rejected_rows(id: int | str) -> bytes:
    """The rejected rows of an import as CSV; raises NotFound, also when they are kept no more."""
    found = Import.find(id).rejects
    if found is None:
        raise NotFound
    return bytes(found)


def reporter(progress: Progress | None, total: int) -> Report:
    """What is told how many rows more are done, and tells `progress` how many of all."""
    done = 0

    def report(more: int) -> None:
        nonlocal done
        done += more
        if progress is not None:
            progress(done, total)

    return report


def _for_repair(
    sheet: Sheet, rejects: list[Reject], excel: bool, text_columns: Collection[str]
) -> bytes:
    """The rejected rows in the file's own columns and dialect, the reason first."""
    own = sheet.columns
    old = own.index(REASON) if REASON in own else None

    def with_reason(reason: str, cells: Sequence[str]) -> list[str]:
        return [reason, *(cell for at, cell in enumerate(cells) if at != old)]

    found = (with_reason(reject.reason, reject.cells) for reject in rejects)
    return sheets.write(with_reason(REASON, own), found, excel, text_columns)


def _forget_old_rejects() -> None:
    """The next import is soon enough to make room."""
    execute(
        "UPDATE import_run SET rejects = NULL WHERE rejects IS NOT NULL AND created_at < ?",
        (erasing_before(KEPT_DAYS * DAY_SECONDS),),
    )


def _fitting(file_name: str | None) -> str | None:
    try:
        return one_line(file_name or "", 255)
    except InvalidValue:
        return None  # it is only told again


class RowErrorSchema(RecordSchema):
    line = fields.Integer(1, 1 << 53, dump_only=True, about="In the file as sent, the header is 1.")
    column = fields.Text(32, dump_only=True, allow_none=True, about="Null: the row as a whole.")
    code = fields.Text(64, dump_only=True, example="invalid_number")
    message = fields.LongText(dump_only=True, example="price: '12 грн' is not a number")


class ImportSchema(RecordSchema):
    """All fields of an import, in the order they are shown."""

    id = fields.Id(dump_only=True)
    noun = fields.Choice(*NOUNS, dump_only=True, about="What moved in.")
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


IMPORT = RecordView(ImportSchema.out("ImportOut"), "import_run", live=False)
