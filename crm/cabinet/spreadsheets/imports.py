"""Pages of an import in steps: the file, a preview of what it would do, the run, the report.

Between the steps the file waits at the server, under a name that is good for this session and this
resource alone. Each step reads it anew, and the records of that moment decide what the run does.
The preview tries the first records, and undoes that, in short transactions.
"""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace

from flask import request
from werkzeug.wrappers import Response

from crm.api.bodies import MAX_ENVELOPE_BYTES
from crm.cabinet import labels
from crm.cabinet.forms import Form
from crm.cabinet.languages import coded_text, gettext
from crm.cabinet.rendering import MANAGER, Pages, me, see_other
from crm.cabinet.spreadsheets import columns, fault_texts, preview, waiting_files
from crm.cabinet.spreadsheets.resource_pages import (
    column_label,
    explain_columns,
    list_label,
    one_of_resource,
    refresh_while_running,
    render_list,
    render_page,
    resource_page,
)
from crm.errors import Conflict, Invalid
from crm.spreadsheets import all_resources, find_resource, import_file, import_run
from crm.spreadsheets.csv_format import in_excel_dialect
from crm.spreadsheets.exporter import csv_response
from crm.spreadsheets.importer import MAX_TRIED
from crm.spreadsheets.options import ImportOptions
from crm.spreadsheets.reader import MAX_LARGE_FILE_BYTES, MAX_LARGE_ROWS, ParsedFile, read_file
from crm.spreadsheets.resource import ImportableResource
from crm.storage import uploads
from crm.storage.heavy_work import heavy_work

MAX_BODY_BYTES = MAX_LARGE_FILE_BYTES + MAX_ENVELOPE_BYTES


pages = Pages("imports")


@resource_page(pages, "GET", "import", role=MANAGER)
def choose_file(plural: str, form: Form | None = None) -> Response:
    resource = find_resource(plural)
    return render_page(
        "spreadsheets/choose_file.html",
        plural,
        form=form or Form(),
        title=coded_text("imports", plural),
        columns=explain_columns(resource),
        resource=resource,
        required=[column_label(resource, name) for name in resource.required_columns],
        import_order=[(each.plural, list_label(each.plural)) for each in all_resources()],
        max_rows=MAX_LARGE_ROWS,
    )


@resource_page(
    pages, "POST", "import", role=MANAGER, max_body_bytes=MAX_BODY_BYTES, page=choose_file
)
def send_file(plural: str) -> Response:
    upload = request.files.get("file")
    if not upload or not upload.filename:
        raise Invalid.field("file", "unusable_file", gettext("Please choose a file."))
    data, resource = upload.read(), find_resource(plural)
    waiting = waiting_files.WaitingFile(plural, upload.filename, data)
    try:
        # Read once to refuse an unusable file at once; the preview reads it again, since only the
        # file itself is stored between the pages.
        proposal = columns.propose_columns(waiting)
    except Invalid as invalid:
        text = fault_texts.of_file(invalid.faults[0])
        raise Invalid.field("file", "unusable_file", text) from None
    # Of a mapping nobody is asked that was chosen before, or of which nothing is in doubt.
    is_own = columns.is_own(resource, proposal)
    needs_no_person = is_own or columns.needs_no_person(resource, proposal)
    if needs_no_person and not columns.has_known_phone(resource, waiting, proposal):
        return see_other(f"/{plural}/import/{waiting._replace(options=proposal.options).save()}")
    return see_other(f"/{plural}/import/{waiting.save()}/columns")


@resource_page(pages, "GET", "import/<name>", role=MANAGER)
@waiting_files.redirects_when_expired
def preview_import(plural: str, name: str) -> Response:
    _, file_name, data, options = waiting_files.read(plural, name)
    with heavy_work():
        file = _read(data, find_resource(plural), options, request.args)
    resource = file.resource
    result = import_file(file, file_name, dry_run=True)
    present = [name for name in resource.column_names if name in file.sheet.columns]
    return render_page(
        "spreadsheets/preview.html",
        plural,
        name=name,
        file_name=file_name,
        size=len(data),
        untried=max(0, file.count - MAX_TRIED),
        file=file,
        result=result,
        first_rows=preview.first_rows(file, present, result.errors),
        heads=[
            (column_label(resource, name), preview.css_class(resource.column(name)))
            for name in present
        ],
        missing=[
            column_label(resource, name)
            for name in resource.column_names
            if name not in present and columns.is_offered(name)
        ],
        **fault_texts.of_rejected_rows(resource, result.errors),
    )


@resource_page(pages, "POST", "import/<name>", role=MANAGER)
@waiting_files.redirects_when_expired
def run_import(plural: str, name: str) -> Response:
    # A claimed upload cannot be read again: a form sent twice imports once.
    with uploads.claim(me().id, name) as packed:
        _, file_name, data, options = waiting_files.unpack(plural, packed)
        with heavy_work():
            file = _read(data, find_resource(plural), options, request.form)
        result = import_file(file, file_name, waits=False)
    return see_other(f"/{plural}/imports/{result.import_id}")


@resource_page(pages, "POST", "imports/<id>/cancel", role=MANAGER)
def cancel_import(plural: str, id: str) -> Response:
    one_of_resource(import_run.IMPORT_RUN, plural, id)
    with suppress(Conflict):  # it has ended meanwhile, as the report shows
        import_run.cancel(id)
    return see_other(f"/{plural}/imports/{id}")


@resource_page(pages, "GET", "imports")
def list_imports(plural: str) -> Response:
    return render_list("spreadsheets/reports.html", plural, import_run.IMPORT_RUN)


@resource_page(pages, "GET", "imports/<id>")
def show_import(plural: str, id: str) -> Response:
    report = one_of_resource(import_run.IMPORT_RUN, plural, id)
    response = render_page(
        "spreadsheets/report.html",
        plural,
        report=report,
        has_file=import_run.has_rejected_rows_file(id),
        who=labels.user_name(report["user_id"]),
        **fault_texts.of_rejected_rows(find_resource(plural), report["errors"]),
    )
    return refresh_while_running(response, report["status"])


@resource_page(pages, "GET", "imports/<id>/errors.csv")
def download_errors(plural: str, id: str) -> Response:
    """Send the rejected rows in the Excel dialect, in which no cell becomes a formula.

    A file with semicolons is read in the same dialect again.
    """
    one_of_resource(import_run.IMPORT_RUN, plural, id)
    data = in_excel_dialect(import_run.rejected_rows_file(id), find_resource(plural).text_columns)
    return csv_response(f"import-{id}-errors.csv", data)


def _read(
    data: bytes, resource: ImportableResource, options: ImportOptions, sent: Mapping[str, str]
) -> ParsedFile:
    """Read a file in the dialect that the person chose; by default semicolons tell."""
    is_excel = {"": None, "excel": True}.get(sent.get("dialect", ""), False)
    if sent.get("hidden_rows") == "read":
        options = replace(options, hidden_rows="read")
    return read_file(data, resource, is_excel, options)
