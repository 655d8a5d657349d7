"""Pages of an import in steps: the file, a preview of what it would do, the run, the report.

Between the steps the file waits at the server, under a name that is good for this session and this
resource alone. Each step reads it anew, and the records of that moment decide what the run does.
The preview does the work and undoes it: other writers wait meanwhile.
"""

from typing import Any

from flask import request
from werkzeug.wrappers import Response

from crm import spreadsheets
from crm.api.upload import MAX_ENVELOPE_BYTES
from crm.cabinet import user_choices
from crm.cabinet.forms import Form
from crm.cabinet.languages import gettext
from crm.cabinet.rendering import MANAGER, Pages, flash, me, render, rerender_on_error, see_other
from crm.cabinet.spreadsheets import column_help, fault_texts, labels, preview
from crm.cabinet.spreadsheets.labels import resource_page
from crm.errors import Invalid, NotFound
from crm.records import pagination, parameters, queries
from crm.spreadsheets import find_resource
from crm.spreadsheets.csv_format import in_excel_dialect
from crm.spreadsheets.endpoints import csv_response
from crm.spreadsheets.import_run import IMPORT_RUN, has_rejected_rows_file, rejected_rows_file
from crm.spreadsheets.reader import MAX_FILE_BYTES
from crm.tenancy import uploads
from crm.tenancy.heavy_work import heavy_work

MAX_BODY_BYTES = MAX_FILE_BYTES + MAX_ENVELOPE_BYTES
REPORTS_PER_PAGE = 20


class ReportFilter(queries.Filter):
    sort = parameters.Sort()


REPORT_FILTER = ReportFilter()

pages = Pages("imports")


@resource_page(pages, "GET", "import", role=MANAGER)
def choose_file(plural: str, form: Form | None = None) -> Response:
    resource = find_resource(plural)
    return _page(
        "spreadsheets/choose_file.html",
        plural,
        form=form or Form(),
        groups=column_help.column_groups(resource),
        resource=resource,
        import_order=labels.import_order(),
    )


@resource_page(pages, "POST", "import", max_form_bytes=MAX_BODY_BYTES)
@rerender_on_error(lambda form, plural: choose_file(plural, form))
def send_file(plural: str) -> Response:
    upload = request.files.get("file")
    if not upload or not upload.filename:
        raise _unusable(gettext("Please choose a file."))
    data, resource = upload.read(), find_resource(plural)
    try:
        # Read once to refuse an unusable file at once; the preview reads it again, since only the
        # file itself is stored between the pages.
        with heavy_work():
            spreadsheets.read_file(data, resource)
    except Invalid as invalid:
        raise _unusable(fault_texts.of_file(resource, invalid.faults[0])) from None
    name = uploads.save(me().id, _pack(plural, upload.filename, data))
    return see_other(f"/{plural}/import/{name}")


@resource_page(pages, "GET", "import/<name>", role=MANAGER)
def preview_import(plural: str, name: str) -> Response:
    resource = find_resource(plural)
    try:
        file_name, data = _unpack(plural, uploads.read(me().id, name))
    except NotFound:
        return _redirect_from_expired_file(plural)
    with heavy_work():
        file = preview.read_file(data, resource, request.args.get("dialect", ""))
    result = spreadsheets.import_file(file, file_name, dry_run=True)
    present = [column for column in resource.column_names if column in file.sheet.columns]
    return _page(
        "spreadsheets/preview.html",
        plural,
        name=name,
        file_name=file_name,
        size=len(data),
        file=file,
        result=result,
        first_rows=preview.first_rows(file, present, result.errors),
        present=present,
        missing=[column for column in resource.column_names if column not in present],
        **fault_texts.of_rejected_rows(resource, result.errors, result.rejected),
    )


@resource_page(pages, "POST", "import/<name>")
def run_import(plural: str, name: str) -> Response:
    try:
        # A claimed upload cannot be read again: a form sent twice imports once.
        with uploads.claim(me().id, name) as packed:
            file_name, data = _unpack(plural, packed)
            with heavy_work():
                dialect = request.form.get("dialect", "")
                file = preview.read_file(data, find_resource(plural), dialect)
            result = spreadsheets.import_file(file, file_name)
    except NotFound:
        return _redirect_from_expired_file(plural)
    return see_other(f"/{plural}/imports/{result.import_id}")


@resource_page(pages, "POST", "import/<name>/drop")
def drop_file(plural: str, name: str) -> Response:
    uploads.delete(me().id, name)
    return see_other(f"/{plural}/import")


@resource_page(pages, "GET", "imports")
def list_imports(plural: str) -> Response:
    query = REPORT_FILTER.default()
    query.limit, query.cursor = REPORTS_PER_PAGE, request.args.get("cursor", "")
    singular = find_resource(plural).singular
    page = pagination.page(IMPORT_RUN, query, REPORT_FILTER.fields["sort"], "noun = ?", [singular])
    everyone = user_choices.everyone()
    return _page("spreadsheets/reports.html", plural, page=page, everyone=everyone)


@resource_page(pages, "GET", "imports/<id>")
def show_import(plural: str, id: str) -> Response:
    report = _report(plural, id)
    return _page(
        "spreadsheets/report.html",
        plural,
        report=report,
        has_file=has_rejected_rows_file(id),
        who=user_choices.everyone().get(report["user_id"], ""),
        **fault_texts.of_rejected_rows(find_resource(plural), report["errors"], report["rejected"]),
    )


@resource_page(pages, "GET", "imports/<id>/errors.csv")
def download_errors(plural: str, id: str) -> Response:
    """Send the rejected rows in the Excel dialect, in which no cell becomes a formula.

    A file with semicolons is read in the same dialect again.
    """
    _report(plural, id)
    data = in_excel_dialect(rejected_rows_file(id), find_resource(plural).text_columns)
    return csv_response(f"import-{id}-errors.csv", data)


def _page(template: str, plural: str, **context: Any) -> Response:
    return render(template, plural=plural, labels=labels.labels_of(plural), **context)


def _report(plural: str, id: str) -> dict[str, Any]:
    """What an import of this resource did; raises NotFound, also for that of another."""
    report = IMPORT_RUN.one(id)
    if report["noun"] != find_resource(plural).singular:
        raise NotFound
    return report


def _redirect_from_expired_file(plural: str) -> Response:
    """Redirect to the imports with a message: the file was imported already, or has expired."""
    flash(gettext("This file has already been imported or has expired."), "warning")
    return see_other(f"/{plural}/imports")


def _pack(plural: str, file_name: str, data: bytes) -> bytes:
    head = f"{plural} {' '.join(file_name.split())}".encode("utf-8", "replace")
    return b"\n".join((head, data))


def _unpack(plural: str, packed: bytes) -> tuple[str, bytes]:
    """The name and the content of a file; raises NotFound for a file of another resource."""
    head, _, data = packed.partition(b"\n")
    file_plural, _, file_name = head.decode().partition(" ")
    if file_plural != plural:
        raise NotFound
    return file_name, data


def _unusable(reason: str) -> Invalid:
    return Invalid.field("file", "unusable_file", reason)
