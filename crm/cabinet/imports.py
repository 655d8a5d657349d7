"""The import of a price list in steps: the file, what it would do, the doing, the report.

Between the steps the file waits at the server, under a name that is good for this session alone.
It is read anew for each step, and what the last one does is decided by what is kept then.
"""

import re
from typing import Any

from flask import request
from flask_babel import gettext
from werkzeug.wrappers import Response

from crm.cabinet import people, texts
from crm.cabinet.forms import Form
from crm.cabinet.frame import MANAGER, Pages, again, me, onward, render, told
from crm.errors import Fault, Invalid, NotFound
from crm.resources import tenant
from crm.resources.csv_files import as_file
from crm.resources.imports import IMPORT, MOST_BYTES, rejected_rows
from crm.resources.products import price_list
from crm.resources.products.cells import Bad
from crm.resources.products.price_list import COLUMNS, PriceList
from crm.rest import filters, paging
from crm.rest.upload import ENVELOPE
from crm.sheets import decimal_text
from crm.tenancy import uploads
from crm.tenancy.database import row
from crm.tenancy.records import key

MOST = MOST_BYTES + ENVELOPE
FIRST = 10  # rows shown as they would be read
FAULTS = 200  # shown; the file has them all
REPORTS = 20  # on a page
QUOTED = re.compile(r"(['\"])(.*?)\1")  # in a sentence of the API: the value that it is about


class ReportFilter(filters.Filter):
    sort = filters.Sort()


REPORT_FILTER = ReportFilter()

pages = Pages("imports")


@pages.get("/products/import", role=MANAGER)
def choose_file(form: Form | None = None) -> Response:
    return render("products/import.html", form=form or Form(), columns=_columns())


@pages.post("/products/import", most=MOST)
@again(lambda form: choose_file(form))
def send_file() -> Response:
    sent = request.files.get("file")
    if not sent or not sent.filename:
        raise _unusable(gettext("Please choose a file."))
    data = sent.read()
    try:
        price_list.read(data)
    except Invalid as unfit:
        raise _unusable(_why_not(unfit.faults[0])) from None
    name = uploads.keep(me().id, _packed(sent.filename, data))
    return onward(f"/products/import/{name}")


@pages.get("/products/import/<name>", role=MANAGER)
def preview_import(name: str) -> Response:
    try:
        file_name, data = _unpacked(uploads.read(me().id, name))
    except NotFound:
        return _gone()
    prices = _read(data, request.args.get("dialect", ""))
    result = price_list.import_csv(prices, file_name, dry_run=True)
    known = [column for column in COLUMNS if column in prices.sheet.columns]
    return render(
        "products/import_preview.html",
        name=name,
        file_name=file_name,
        size=len(data),
        prices=prices,
        result=result,
        first=_first_rows(prices, known, {error["line"] for error in result.errors}),
        known=known,
        lacking=[column for column in COLUMNS if column not in known],
        **_told_of(result.errors, result.rejected),
    )


@pages.post("/products/import/<name>")
def run_import(name: str) -> Response:
    try:
        with uploads.taken(me().id, name) as kept:
            file_name, data = _unpacked(kept)
            prices = _read(data, request.form.get("dialect", ""))
            result = price_list.import_csv(prices, file_name)
    except NotFound:
        return _gone()
    return onward(f"/products/imports/{result.import_id}")


@pages.post("/products/import/<name>/drop")
def drop_file(name: str) -> Response:
    uploads.drop(me().id, name)
    return onward("/products/import")


@pages.get("/products/imports")
def list_imports() -> Response:
    query = REPORT_FILTER.unasked()
    query.limit, query.cursor = REPORTS, request.args.get("cursor", "")
    page = paging.page(IMPORT, query, REPORT_FILTER.fields["sort"], "noun = ?", ["product"])
    return render("products/imports.html", page=page, everyone=people.everyone())


@pages.get("/products/imports/<id>")
def show_import(id: str) -> Response:
    report = IMPORT.one(id)
    (file_kept,) = row("SELECT rejects IS NOT NULL FROM price_import WHERE id = ?", (key(id),))
    return render(
        "products/import_report.html",
        report=report,
        file_kept=file_kept,
        who=people.everyone().get(report["user_id"], ""),
        **_told_of(report["errors"], report["rejected"]),
    )


@pages.get("/products/imports/<id>/errors.csv")
def download_errors(id: str) -> Response:
    return as_file(f"import-{id}-errors.csv", rejected_rows(id))


def _gone() -> Response:
    """The file was sent twice, or too late."""
    told(gettext("This file has been imported already, or waited for too long."), "warning")
    return onward("/products/imports")


def _read(data: bytes, dialect: str) -> PriceList:
    """The rows as the person chose; unless told otherwise, semicolons mean a spreadsheet."""
    prices = price_list.read(data, dialect == "excel")
    if not dialect and prices.sheet.delimiter == ";":
        prices = price_list.read(data, excel=True)
    return prices


def _packed(file_name: str, data: bytes) -> bytes:
    return b"\n".join((" ".join(file_name.split()).encode("utf-8", "replace"), data))


def _unpacked(kept: bytes) -> tuple[str, bytes]:
    file_name, _, data = kept.partition(b"\n")
    return file_name.decode(), data


def _first_rows(prices: PriceList, known: list[str], rejected: set[int]) -> list[dict[str, Any]]:
    """The first rows, each with the cells of its known columns: the text and whether it fits."""
    found = []
    for at, (line, cells) in enumerate(prices.rows[:FIRST]):
        sent = dict(zip(prices.sheet.columns, cells, strict=True))
        shown = []
        for name in known:
            value = prices.columns[COLUMNS.index(name)][at]
            fits = not isinstance(value, Bad)
            text = _shown(name, value) if fits else sent[name]
            shown.append({"text": text, "fits": fits, "name": name})
        found.append({"line": line, "cells": shown, "fits": line not in rejected})
    return found


def _shown(name: str, value: Any) -> str:
    if value is None:
        return ""
    if name == "price":
        return texts.money(decimal_text(value, 4), tenant.currency())
    if name == "active":
        return gettext("Yes") if value else gettext("No")
    return value


def _told_of(errors: list[dict[str, Any]], rejected: int) -> dict[str, Any]:
    """What a page says of rejected rows."""
    words = [{**error, "why": _why(error), "value": _quoted(error)} for error in errors[:FAULTS]]
    lines = len({error["line"] for error in words})
    return {"faults": words, "more_faults": rejected - lines}


def _quoted(error: dict[str, Any]) -> str:
    found = QUOTED.search(error["message"])
    return found[2] if found and error["code"] in ("invalid_number", "invalid_choice") else ""


def _why(error: dict[str, Any]) -> str:
    """Why a row was rejected, in the reader's language."""
    is_key = error["column"] == "sku"
    needed = gettext("Every row needs it.") if is_key else gettext("A new product needs it.")
    words = {
        "required": needed,
        "duplicate_in_file": gettext("A row above has the same SKU."),
        "invalid_number": gettext("This is not a number: write 1250.00 or 1 250,00."),
        "invalid_choice": gettext("Write yes or no, true or false, 1 or 0."),
        "too_many_cells": gettext("The row has more cells than the header has columns."),
        "bad_quotes": gettext("A quotation mark inside a quoted cell must be doubled."),
        "unclosed_quote": gettext("A quotation mark is opened and not closed."),
        "field_too_long": gettext("A cell is too long."),
    }
    fault = Fault(error["column"] or "", error["code"], error["message"])
    return words.get(error["code"]) or texts.fault(fault)


def _unusable(why: str) -> Invalid:
    return Invalid.field("file", "unusable_file", why)


def _why_not(fault: Fault) -> str:
    """Why a file can't be used at all, in the reader's language."""
    found = QUOTED.search(fault.detail)
    name = found[2] if found else ""
    words = {
        "empty_file": gettext("The file is empty: it needs a header line."),
        "not_text": gettext("This is not a text file. Save the sheet as CSV first."),
        "bad_encoding": gettext("The file has damaged letters. Save it as CSV UTF-8."),
        "field_too_long": gettext("The header line is too long."),
        "unknown_column": gettext("There is no column “%(name)s”: see below.", name=name),
        "duplicate_column": gettext("The column “%(name)s” is there twice.", name=name),
        "missing_column": gettext("The column “%(name)s” is missing.", name=name),
        "too_many_rows": gettext("The file has more than 50,000 rows: send it in parts."),
    }
    return words.get(fault.code, fault.detail)


def _columns() -> list[tuple[str, str]]:
    """The columns that a price list may have, and what stands there."""
    return [
        ("sku", gettext("SKU: the key. A new one makes a product, a known one changes it.")),
        ("name", gettext("Name; a new product needs it.")),
        ("price", gettext("Price, such as 1250.00 or 1 250,00; a new product needs it.")),
        ("unit", gettext("Unit, such as pcs or kg.")),
        ("category", gettext("Category.")),
        ("description", gettext("Description, also of several lines.")),
        ("active", gettext("Whether it is for sale: yes or no.")),
    ]
