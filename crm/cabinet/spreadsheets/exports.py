"""Pages that give files: the records of a list with its filters, a sample of a file, and what an
export link names: a file for a program, such as IMPORTDATA of a spreadsheet."""

from werkzeug.wrappers import Response

from crm.cabinet.app import current_app
from crm.cabinet.languages import language
from crm.cabinet.records.filters import read_query
from crm.cabinet.rendering import MANAGER, OWNER, Pages, me
from crm.cabinet.spreadsheets.resource_pages import resource_page
from crm.records import fields
from crm.resources import export_links
from crm.spreadsheets import csv_format, find_resource
from crm.spreadsheets.csv_columns import FileColumn
from crm.spreadsheets.exporter import csv_response, export_filter_of, export_response
from crm.spreadsheets.file_styles import FileStyle
from crm.spreadsheets.resource import SOURCE_TENANT
from crm.storage.clocks import uptime
from crm.storage.session import current_session

EXAMPLE_PRICE = 12500

pages = Pages("exports")


@resource_page(pages, "GET", "export")
def export_records(plural: str) -> Response:
    query = read_query(export_filter_of(plural))
    query.options.setdefault("language", language())
    # Only owners see how users are reached; others get the ids of users.
    may_read_users = me().role == OWNER
    resource = find_resource(plural)
    return export_response(resource, query, lambda other: other != "users" or may_read_users)


@pages.get("/export/<token>.csv", role=None)
def give_export(token: str) -> Response:
    id = export_links.find_export(token)
    current_app.limiter.count_export(current_session().label, id, uptime())
    return export_links.export(id)


@resource_page(pages, "GET", "import/sample.csv", role=MANAGER)
def download_sample(plural: str) -> Response:
    """A file for a spreadsheet with the columns that people fill in by hand."""
    resource = find_resource(plural)
    columns = [column for column in resource.all_columns if _is_for_people(column)]
    header = [FileStyle(language()).header(column) for column in columns]
    row = [_example(column) for column in columns]
    data = csv_format.write(header, [row], excel=True, text_columns=resource.text_columns)
    return csv_response(f"{plural}-sample.csv", data)


def _is_for_people(column: FileColumn) -> bool:
    is_id = column.field is None and column.name.endswith(("id", SOURCE_TENANT))
    is_history = column.is_create_only and column.is_past
    return not (is_id or is_history or isinstance(column.field, fields.Extra))


def _example(column: FileColumn) -> str:
    """The declared example, if there is one."""
    field = column.field
    example = EXAMPLE_PRICE if isinstance(field, fields.Price) else field and field.example
    if field is None or example is None:
        return ""
    value = field.read(example)
    return column.write(True)(value) if column.write else value
