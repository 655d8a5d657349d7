"""Why rows are rejected, or a file as a whole, in the language of the page."""

import re
from typing import Any

from crm.cabinet import formatting
from crm.cabinet.languages import coded_text, gettext
from crm.cabinet.spreadsheets.resource_pages import choices_of, column_label
from crm.errors import Conflict, Fault
from crm.spreadsheets.reader import MAX_LARGE_ROWS
from crm.spreadsheets.resource import ImportableResource

MAX_FAULTS = 200  # on a page; the file of rejected rows has them all
QUOTED = re.compile(r"(['\"])(.*?)\1|“(.*)”")  # a value in a message of the API
CODES_WITH_VALUE = {"invalid_number", "invalid_choice", "not_found", "ambiguous", "excel_error"}
CODES_WITH_VALUE |= {"excel_date", "lost_zeros"}


def of_rejected_rows(resource: ImportableResource, errors: list[dict[str, Any]]) -> dict[str, Any]:
    """What a page shows of rejected rows: `faults`, and whether there are more of them."""
    faults = [
        {
            **error,
            "column": column_label(resource, error["column"]) if error["column"] else "",
            "why": of_row(resource, error),
            "value": _quoted(error),
        }
        for error in errors[:MAX_FAULTS]
    ]
    return {"faults": faults, "has_more_faults": len(errors) > MAX_FAULTS}


def of_row(resource: ImportableResource, error: dict[str, Any]) -> str:
    """Why a row was rejected; a code without a text here has the text of the API."""
    code, message = error["code"], error["message"]
    column = error["column"] or ""
    if column and code == "invalid_choice" and (words := choices_of(resource, column).values()):
        return gettext("Write one of these: %(words)s.", words=", ".join(words))
    named = column.removesuffix("_external_id").removesuffix("_id")
    for key in (f"{code} {named}", f"{code} {resource.plural}", code):
        if text := coded_text("row_faults", key):
            return text
    return coded_text("faults", code) or formatting.refusal(Conflict(message, code))


def of_file(fault: Fault) -> str:
    """Why a file cannot be used at all."""
    if fault.code == "unreadable_workbook":
        unreadable = gettext(fault.detail)
        return f"{unreadable[:1].upper()}{unreadable[1:]}."
    most = formatting.number(MAX_LARGE_ROWS)
    return coded_text("file_faults", fault.code) % {"most": most} or fault.detail


def _quoted(error: dict[str, Any]) -> str:
    has_value = error["code"] in CODES_WITH_VALUE
    match = QUOTED.search(error["message"]) if has_value else None
    return (match[2] or match[3] or "") if match else ""
