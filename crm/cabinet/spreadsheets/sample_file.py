"""A sample of a resource's file: the header, and one row of the declared examples."""

from crm.records import fields
from crm.spreadsheets import csv_format
from crm.spreadsheets.columns import Column
from crm.spreadsheets.resource import SOURCE_TENANT, ImportableResource

EXAMPLE_PRICE = 12500


def sample_file(resource: ImportableResource) -> bytes:
    """A file for a spreadsheet with the columns that people fill in by hand."""
    columns = [column for column in resource.all_columns if _is_for_people(column)]
    header = [column.name for column in columns]
    row = [_example(column) for column in columns]
    return csv_format.write(header, [row], excel=True, text_columns=resource.text_columns)


def _is_for_people(column: Column) -> bool:
    is_id = column.name in ("id", SOURCE_TENANT) or (
        column.name.endswith("_id") and column.field is None
    )
    return not (is_id or column.is_create_only or isinstance(column.field, fields.Extra))


def _example(column: Column) -> str:
    """The declared example, else the default; empty for what names another record."""
    field = column.field
    if field is None:
        return ""
    example = field.default if field.example is None else field.example
    if example is None and isinstance(field, fields.Price):
        example = EXAMPLE_PRICE
    if example is None:
        return ""
    value = field.read(example)
    return column.write(True)(value) if column.write else value
