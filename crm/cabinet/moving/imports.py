"""An import in steps: the file, what it would do, the doing, the report.

Between the steps the file waits at the server, under a name that is good for this session and this
noun alone. It is read anew for each step, and what the last one does is decided by what is kept
then. What it would do is found out by doing it and undoing that: other writers wait meanwhile.
"""

from typing import Any

from flask import request
from werkzeug.wrappers import Response

from crm.api.upload import ENVELOPE
from crm.cabinet import user_choices
from crm.cabinet.forms import Form
from crm.cabinet.languages import gettext
from crm.cabinet.moving import check, columns, nouns, reasons
from crm.cabinet.moving.nouns import each
from crm.cabinet.rendering import MANAGER, Pages, flash, me, render, rerender_on_error, see_other
from crm.errors import Invalid, NotFound
from crm.records import pagination, queries
from crm.resources import moving
from crm.resources.csv_files import as_file
from crm.resources.imports import IMPORT, MOST_BYTES, rejected_rows
from crm.sheets import in_excel_dialect
from crm.tenancy import uploads
from crm.tenancy.database import row
from crm.tenancy.heavy_work import heavy_work
from crm.values.ids import integer_id

MOST = MOST_BYTES + ENVELOPE
REPORTS = 20  # on a page


class ReportFilter(queries.Filter):
    sort = queries.Sort()


REPORT_FILTER = ReportFilter()

pages = Pages("imports")


@each(pages, "GET", "import", role=MANAGER)
def choose_file(noun: str, form: Form | None = None) -> Response:
    return _page(
        "moving/file.html",
        noun,
        form=form or Form(),
        groups=columns.groups(noun),
        most_rows=nouns.most_rows(noun),
        order=nouns.order(),
    )


@each(pages, "POST", "import", max_form_bytes=MOST)
@rerender_on_error(lambda form, noun: choose_file(noun, form))
def send_file(noun: str) -> Response:
    sent = request.files.get("file")
    if not sent or not sent.filename:
        raise _unusable(gettext("Please choose a file."))
    data = sent.read()
    try:
        with heavy_work():
            moving.read(data, noun)
    except Invalid as unfit:
        raise _unusable(reasons.why_not(noun, unfit.faults[0])) from None
    name = uploads.save(me().id, _packed(noun, sent.filename, data))
    return see_other(f"/{noun}/import/{name}")


@each(pages, "GET", "import/<name>", role=MANAGER)
def preview_import(noun: str, name: str) -> Response:
    try:
        file_name, data = _unpacked(noun, uploads.read(me().id, name))
    except NotFound:
        return _gone(noun)
    with heavy_work():
        sheet = check.read(data, noun, request.args.get("dialect", ""))
    result = moving.import_csv(sheet, file_name, dry_run=True)
    known = [column for column in nouns.columns(noun) if column in sheet.sheet.columns]
    return _page(
        "moving/check.html",
        noun,
        name=name,
        file_name=file_name,
        size=len(data),
        sheet=sheet,
        result=result,
        first=check.first_rows(sheet, known, result.errors),
        known=known,
        lacking=[column for column in nouns.columns(noun) if column not in known],
        **reasons.told_of(noun, result.errors, result.rejected),
    )


@each(pages, "POST", "import/<name>")
def run_import(noun: str, name: str) -> Response:
    try:
        with uploads.claim(me().id, name) as kept:
            file_name, data = _unpacked(noun, kept)
            with heavy_work():
                sheet = check.read(data, noun, request.form.get("dialect", ""))
            result = moving.import_csv(sheet, file_name)
    except NotFound:
        return _gone(noun)
    return see_other(f"/{noun}/imports/{result.import_id}")


@each(pages, "POST", "import/<name>/drop")
def drop_file(noun: str, name: str) -> Response:
    uploads.delete(me().id, name)
    return see_other(f"/{noun}/import")


@each(pages, "GET", "imports")
def list_imports(noun: str) -> Response:
    query = REPORT_FILTER.unasked()
    query.limit, query.cursor = REPORTS, request.args.get("cursor", "")
    of = [nouns.singular(noun)]
    page = pagination.page(IMPORT, query, REPORT_FILTER.fields["sort"], "noun = ?", of)
    return _page("moving/reports.html", noun, page=page, everyone=user_choices.everyone())


@each(pages, "GET", "imports/<id>")
def show_import(noun: str, id: str) -> Response:
    report = _report(noun, id)
    (file_kept,) = row("SELECT rejects IS NOT NULL FROM import_run WHERE id = ?", (integer_id(id),))
    return _page(
        "moving/report.html",
        noun,
        report=report,
        file_kept=file_kept,
        who=user_choices.everyone().get(report["user_id"], ""),
        **reasons.told_of(noun, report["errors"], report["rejected"]),
    )


@each(pages, "GET", "imports/<id>/errors.csv")
def download_errors(noun: str, id: str) -> Response:
    """The rejected rows, for a spreadsheet: no cell that somebody sent is a formula there. A sheet
    with semicolons is read in the same dialect again."""
    _report(noun, id)
    data = in_excel_dialect(rejected_rows(id), nouns.text_columns(noun))
    return as_file(f"import-{id}-errors.csv", data)


def _page(template: str, noun: str, **context: Any) -> Response:
    return render(template, noun=noun, words=nouns.words(noun), **context)


def _report(noun: str, id: str) -> dict[str, Any]:
    """What an import of this noun did; raises NotFound, also for that of another."""
    report = IMPORT.one(id)
    if report["noun"] != nouns.singular(noun):
        raise NotFound
    return report


def _gone(noun: str) -> Response:
    """The file was sent twice, or too late."""
    flash(gettext("This file has already been imported or has expired."), "warning")
    return see_other(f"/{noun}/imports")


def _packed(noun: str, file_name: str, data: bytes) -> bytes:
    head = f"{noun} {' '.join(file_name.split())}".encode("utf-8", "replace")
    return b"\n".join((head, data))


def _unpacked(noun: str, kept: bytes) -> tuple[str, bytes]:
    """The name of the file and what is in it; raises NotFound for a file of another noun."""
    head, _, data = kept.partition(b"\n")
    of, _, file_name = head.decode().partition(" ")
    if of != noun:
        raise NotFound
    return file_name, data


def _unusable(why: str) -> Invalid:
    return Invalid.field("file", "unusable_file", why)
