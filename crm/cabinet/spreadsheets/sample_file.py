"""A sample of a resource's file: the header, and one row of the declared examples."""

from crm.records import fields
from crm.spreadsheets import csv_format
from crm.spreadsheets.csv_columns import Column
from crm.spreadsheets.resource import SOURCE_TENANT, ImportableResource

EXAMPLE_PRICE = 12500


def sample_file(resource: ImportableResource) -> bytes:
    """A file for a spreadsheet with the columns that people fill in by hand."""
    columns = [column for column in resource.all_columns if _is_for_people(column)]
    header = [column.name for column in columns]
    row = [_example(column) for column in columns]
    return csv_format.write(header, [row], excel=True, text_columns=resource.text_columns)


def _is_for_people(column: Column) -> bool:
    is_id = column.field is None and column.name.endswith(("id", SOURCE_TENANT))
    is_history = column.is_create_only and column.is_past
    return not (is_id or is_history or isinstance(column.field, fields.Extra))


def _example(column: Column) -> str:
    """The declared example, if there is one."""
    field = column.field
    if isinstance(field, fields.Price):
        example = EXAMPLE_PRICE
    elif field is None or field.example is None:
        return ""
    else:
        example = field.example
    value = field.read(example)
    return column.write(True)(value) if column.write else value
