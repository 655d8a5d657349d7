"""The items of a deal as one form: all existing lines and a new one, saved together."""

import re
from typing import Any

from flask import request
from werkzeug.datastructures import MultiDict
from werkzeug.wrappers import Response

from crm.cabinet import edits
from crm.cabinet.deals import choices
from crm.cabinet.deals.card import show_deal
from crm.cabinet.forms import wire_value
from crm.cabinet.languages import gettext
from crm.cabinet.rendering import Pages, confirmed, flash, rerender_on_error, see_other
from crm.resources.deals import items
from crm.resources.deals.items import ITEM_PATCH, ITEMS_PUT, DealItem
from crm.resources.deals.record import Deal

NUMBERS = ("quantity", "price", "discount", "discount_type")
FIELD = re.compile(r"items-([0-9]{1,4})-([a-z_]+)")

pages = Pages("deal_lines")


@pages.post("/deals/<id>/items")
@rerender_on_error(lambda form, id: show_deal(id, lines=form))
def save_lines(id: str) -> Response:
    data = ITEMS_PUT.parse({"items": _read_lines()})
    items.replace(id, data["items"], edits.sent_version())
    flash(gettext("Saved."))
    return see_other(f"/deals/{id}#items")


@pages.post("/deals/<id>/items/remove")
def remove_line(id: str) -> Response:
    line = DealItem.of(Deal.find(id), request.form.get("item_id", ""))
    question = gettext("Remove “%(name)s” from the deal?", name=line.name)
    with confirmed(question, gettext("Remove"), f"/deals/{id}#items"):
        items.delete(id, line.id)
    flash(gettext("“%(name)s” removed from the deal", name=line.name))
    return see_other(f"/deals/{id}#items")


def _read_lines() -> list[dict[str, Any]]:
    """The lines of the form as on the wire; one without an id is new, if anything is typed."""
    lines: dict[int, MultiDict] = {}
    for name, text in request.form.items():
        if match := FIELD.fullmatch(name):
            lines.setdefault(int(match[1]), MultiDict())[match[2]] = text.strip()
    filled_lines = [line for _, line in sorted(lines.items())]
    existing = [_existing_item(line) for line in filled_lines if line.get("id")]
    return existing + [
        _new_item(line) for line in filled_lines if not line.get("id") and _is_typed(line)
    ]


def _is_typed(line_form: MultiDict) -> bool:
    # The type of discount is a select, which is always sent.
    return any(text for name, text in line_form.items() if name != "discount_type")


def _existing_item(line_form: MultiDict) -> dict[str, Any]:
    line = {name: wire_value(ITEM_PATCH.fields[name], line_form, name) for name in NUMBERS}
    return {**line, "id": line_form["id"], "discount": line["discount"] or "0"}


def _new_item(line_form: MultiDict) -> dict[str, Any]:
    """Return a line of the product that is named, else a free one; empty inputs get defaults."""
    text = line_form.get("name", "")
    line = {
        name: wire_value(ITEM_PATCH.fields[name], line_form, name)
        for name in NUMBERS
        if line_form.get(name)
    }
    if product_id := choices.chosen_product(text, line_form.get("product_id", "")):
        return {**line, "product_id": product_id}
    return {**line, "name": text} if text else line
