"""What an import did, for whoever has to mend the rest (spec: Products, import; D9).

The counts and the first 1000 errors are kept for good; the file of the rejected rows, which may be
as large as what was sent, for 30 days.
"""

from peewee import BlobField, IntegerField, TextField

from crm.errors import NotFound
from crm.rest import fields, parts
from crm.rest.shapes import Noun, Shape
from crm.tenancy.database import execute, time_before
from crm.tenancy.records import Record
from crm.tenancy.retention import DAY, KEPT_DAYS


class PriceImport(Record):
    """One import: its file, its counts, its errors as JSON, and the rejected rows as CSV."""

    noun = "import"

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


def rejected_rows(id: int | str) -> bytes:
    """The rejected rows of an import as CSV; raises NotFound, also when they are kept no more."""
    found = PriceImport.find(id).rejects
    if found is None:
        raise NotFound
    return bytes(found)


def forget_old_rejects() -> None:
    """Inside a transaction: the next import is soon enough to make room."""
    execute(
        "UPDATE price_import SET rejects = NULL WHERE rejects IS NOT NULL AND created_at < ?",
        (time_before(KEPT_DAYS * DAY),),
    )


class RowErrorNoun(Noun):
    line = fields.Whole(1, 1 << 53, read_only=True, about="In the file as sent, the header is 1.")
    column = fields.Text(32, read_only=True, nullable=True, about="Null: the row as a whole.")
    code = fields.Text(64, read_only=True, example="invalid_number")
    message = fields.LongText(read_only=True, example="price: '12 грн' is not a number")


class ImportNoun(Noun):
    """All fields of an import, in the order they are shown."""

    id = fields.Id(read_only=True)
    file_name = fields.Text(255, read_only=True, nullable=True, example="price.csv")
    encoding = fields.Text(32, read_only=True, example="utf-8")
    delimiter = fields.Text(1, read_only=True, example=";")
    rows = fields.Whole(0, 1 << 53, read_only=True, about="Data rows of the file.")
    created = fields.Whole(0, 1 << 53, read_only=True)
    updated = fields.Whole(0, 1 << 53, read_only=True)
    skipped = fields.Whole(
        *(0, 1 << 53), read_only=True, column="unchanged + rejected", about="unchanged + rejected"
    )
    unchanged = fields.Whole(0, 1 << 53, read_only=True)
    rejected = fields.Whole(0, 1 << 53, read_only=True)
    errors = parts.Parts(
        RowErrorNoun.out("RowErrorOut"), read_only=True, about="The first 1000, by line."
    )
    user_id = fields.Id(read_only=True, nullable=True)
    created_at = fields.Moment(read_only=True)
    updated_at = fields.Moment(read_only=True)
    version = fields.Whole(1, 1 << 53, read_only=True)


IMPORT = Shape(ImportNoun.out("ImportOut"), "price_import", live=False)
