"""Why rows are rejected, or a file as a whole, in the language of the page."""

import re
from typing import Any

from crm.cabinet import formatting
from crm.cabinet.languages import gettext
from crm.errors import Conflict, Fault
from crm.spreadsheets.reader import MAX_LARGE_ROWS
from crm.spreadsheets.resource import ImportableResource

MAX_FAULTS = 200  # on a page; the file of rejected rows has them all
QUOTED = re.compile(r"(['\"])(.*?)\1|“(.*)”")  # a value in a message of the API
ONE_OF = re.compile(r"must be one of (.+)\Z")
CODES_WITH_VALUE = ("invalid_number", "invalid_choice", "not_found", "ambiguous", "excel_error")


def of_rejected_rows(
    resource: ImportableResource, errors: list[dict[str, Any]], rejected: int
) -> dict[str, Any]:
    """What a page shows of rejected rows: `faults` and `more_faults`, the number of further rows.

    That is None where it is not known: of records with several rows only records are counted.
    """
    first_errors = errors[:MAX_FAULTS]
    faults = [
        {**error, "why": of_row(resource, error), "value": _quoted(error)} for error in first_errors
    ]
    more: int | None = 0
    if len(errors) > MAX_FAULTS:
        rows_listed = len({error["line"] for error in first_errors})
        more = None if resource.part else rejected - rows_listed
    return {"faults": faults, "more_faults": more}


def of_row(resource: ImportableResource, error: dict[str, Any]) -> str:
    """Why a row was rejected; a code without a text here has the text of the API."""
    code, column = error["code"], error["column"] or ""
    fault = Fault(column, code, error["message"])
    text = _row_texts(resource, column, error["message"]).get(code)
    if text:
        return text
    text = formatting.fault(fault)
    return text if text != fault.detail else formatting.refusal(Conflict(fault.detail, code))


def of_file(resource: ImportableResource, fault: Fault) -> str:
    """Why a file cannot be used at all."""
    max_rows, unreadable = formatting.number(MAX_LARGE_ROWS), gettext(fault.detail)
    texts = {
        "empty_file": gettext("The file is empty: it needs a header line."),
        "not_text": gettext("This is not a text file. Save the sheet as CSV first."),
        "bad_encoding": gettext("The file has damaged letters. Save it as CSV UTF-8."),
        "unreadable_workbook": f"{unreadable[:1].upper()}{unreadable[1:]}.",
        "field_too_long": gettext("The header line is too long."),
        "too_many_rows": gettext(
            "The file has more than %(most)s rows: send it in parts.", most=max_rows
        ),
    }
    return texts.get(fault.code, fault.detail)


def _quoted(error: dict[str, Any]) -> str:
    has_value = error["code"] in CODES_WITH_VALUE
    match = QUOTED.search(error["message"]) if has_value else None
    return (match[2] or match[3] or "") if match else ""


def _row_texts(resource: ImportableResource, column: str, message: str) -> dict[str, str]:
    """{code: text} of a column of a row."""
    return {
        "required": _required(resource, column),
        "duplicate_in_file": gettext("A row above has the same SKU.")
        if column == "sku"
        else gettext("A row above is about the same record."),
        "invalid_number": gettext("This is not a number: write 1250.00 or 1 250,00."),
        "invalid_choice": _choice(message),
        "excel_error": gettext("Excel has put its own error here: correct the cell in the sheet."),
        "excel_shortened": gettext(
            "Excel has shortened a long number: make the column text and enter it again."
        ),
        "other_currency": gettext("This is in another currency than the row or the company."),
        "too_many_cells": gettext("The row has more cells than the header has columns."),
        "bad_quotes": gettext("A quotation mark inside a quoted cell must be doubled."),
        "unclosed_quote": gettext("A quotation mark is opened and not closed."),
        "field_too_long": gettext("A cell is too long."),
        "unreadable_row": gettext("A row below, which may belong to it, cannot be read."),
        "contradiction": gettext("This does not match another cell of the record."),
        "not_found": _not_found(column),
        "ambiguous": gettext("Several have this name: tell which one by its id."),
        "unknown_id": gettext("There is no record with this id: leave it empty for a new one."),
        "unknown_sku": gettext("There is no product with this SKU: name and price are needed."),
        "repeated": gettext("This is repeated."),
        "read_only": gettext("This cannot be changed by an import."),
        "not_converted": gettext("The status converted and a deal go together."),
        "invalid_json": gettext("This must be a JSON object, such as {}."),
        "before_created_at": gettext("This must not be before created_at."),
        "deal_is_open": gettext("Only a deal won or lost has this."),
        "deal_closed": gettext("This deal is closed: a lead joins only an open one."),
        "second_primary": gettext("Only one contact can be the main one."),
        "inactive_product": gettext("This product is not sold now: name and price are needed."),
        "too_many": gettext("This cell has too many values."),
        "client_conflict": gettext("This is not the client of that deal."),
    }


def _choice(message: str) -> str:
    if one_of := ONE_OF.search(message):
        return gettext("Write one of these: %(words)s.", words=one_of[1])
    return gettext("Write yes or no, true or false, 1 or 0.") if "none of true" in message else ""


def _required(resource: ImportableResource, column: str) -> str:
    if column in resource.required_columns:
        return gettext("Every row needs it.")
    if column == "deal_id":
        return gettext("A converted lead moves in together with its deal.")
    if resource.plural == "products":
        return gettext("A new product needs it.")
    return gettext("A new record needs it.")


def _not_found(column: str) -> str:
    texts = {
        "assigned_to": gettext(
            "There is no such colleague: write the full name, the e-mail or the phone."
        ),
        "client": gettext("There is no such client: import clients first."),
        "contact": gettext("This client has no such contact."),
        "pipeline": gettext("There is no such pipeline."),
        "stage": gettext("There is no such stage."),
        "lead": gettext("There is no such lead: import leads first."),
        "deal": gettext("There is no such deal: import deals first."),
    }
    named = column.removesuffix("_external_id").removesuffix("_id")
    return texts.get("assigned_to" if named == "manager" else named, gettext("Nothing found."))
