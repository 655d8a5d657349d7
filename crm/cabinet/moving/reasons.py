"""Why rows are rejected, or a file as a whole, in the reader's language."""

import re
from typing import Any

from crm.cabinet import formatting
from crm.cabinet.languages import gettext
from crm.cabinet.moving import nouns
from crm.errors import Conflict, Fault
from crm.resources import moving
from crm.resources.moving import PRODUCTS

FAULTS = 200  # shown; the file has them all
QUOTED = re.compile(r"(['\"])(.*?)\1|“(.*)”")  # in a sentence of the API: what it is about
ONE_OF = re.compile(r"must be one of (.+)\Z")
TELLS = ("invalid_number", "invalid_choice", "not_found", "ambiguous")  # which value it is


def told_of(noun: str, errors: list[dict[str, Any]], rejected: int) -> dict[str, Any]:
    """What a page says of rejected rows. `more_faults` is None where it isn't known how many rows
    those are that are not shown: of records with several rows only the records were counted."""
    shown = errors[:FAULTS]
    found = [{**error, "why": why(noun, error), "value": _quoted(error)} for error in shown]
    more: int | None = 0
    if len(errors) > FAULTS:
        has_parts = noun != PRODUCTS and bool(moving.MOVING[noun].part)
        more = None if has_parts else rejected - len({error["line"] for error in shown})
    return {"faults": found, "more_faults": more}


def why(noun: str, error: dict[str, Any]) -> str:
    """Why a row was rejected; what has no words here, by those of the API."""
    code, column = error["code"], error["column"] or ""
    fault = Fault(column, code, error["message"])
    known = _of_rows(noun, column, error["message"]).get(code)
    if known:
        return known
    told = formatting.fault(fault)
    return told if told != fault.detail else formatting.refusal(Conflict(fault.detail, code))


def why_not(noun: str, fault: Fault) -> str:
    """Why a file can't be used at all."""
    names = [found[1] or found[2] for found in QUOTED.findall(fault.detail)]
    name = names[0] if names else ""
    listed = ", ".join(gettext("“%(name)s”", name=each) for each in names)
    most = formatting.number(nouns.most_rows(noun))
    words = {
        "empty_file": gettext("The file is empty: it needs a header line."),
        "not_text": gettext("This is not a text file. Save the sheet as CSV first."),
        "bad_encoding": gettext("The file has damaged letters. Save it as CSV UTF-8."),
        "field_too_long": gettext("The header line is too long."),
        "unknown_column": gettext("There is no column “%(name)s”: see below.", name=name)
        if len(names) == 1
        else gettext("There are no such columns: %(names)s. See below.", names=listed),
        "duplicate_column": gettext("The column “%(name)s” is there twice.", name=name),
        "missing_column": gettext("The column “%(name)s” is missing.", name=name),
        "too_many_rows": gettext(
            "The file has more than %(most)s rows: send it in parts.", most=most
        ),
    }
    return words.get(fault.code, fault.detail)


def _quoted(error: dict[str, Any]) -> str:
    found = QUOTED.search(error["message"]) if error["code"] in TELLS else None
    return (found[2] or found[3] or "") if found else ""


def _of_rows(noun: str, column: str, message: str) -> dict[str, str]:
    """{code: why} of a row's column."""
    return {
        "required": _required(noun, column),
        "duplicate_in_file": gettext("A row above has the same SKU.")
        if column == "sku"
        else gettext("A row above is about the same record."),
        "invalid_number": gettext("This is not a number: write 1250.00 or 1 250,00."),
        "invalid_choice": _choice(message),
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


def _required(noun: str, column: str) -> str:
    if column == "sku":
        return gettext("Every row needs it.")
    if column == "deal_id":
        return gettext("A converted lead moves in together with its deal.")
    if noun == PRODUCTS:
        return gettext("A new product needs it.")
    return gettext("A new record needs it.")


def _not_found(column: str) -> str:
    words = {
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
    return words.get("assigned_to" if named == "manager" else named, gettext("Nothing found."))
