"""The card of a deal, the forms that create, edit, delete and restore it, and its items.

The items are one form: all existing lines and a new one, saved together.
"""

import re
from dataclasses import replace
from typing import Any

from flask import jsonify, request
from werkzeug.datastructures import MultiDict
from werkzeug.wrappers import Response

from crm.cabinet import choices, edits, formatting, labels
from crm.cabinet.deals.deal_list import LIST
from crm.cabinet.forms import Form, load_form, wire_value
from crm.cabinet.languages import gettext
from crm.cabinet.records import lists
from crm.cabinet.records.record_fields import form_names, load_record, record_fields, with_focus
from crm.cabinet.records.record_pages import add_record_pages
from crm.cabinet.records.record_sections import render_card
from crm.cabinet.rendering import SELLER, Pages, confirmed, render, see_other
from crm.errors import Fault, Invalid
from crm.records.schemas import Body, Payload
from crm.resources import agenda, deals
from crm.resources.clients.record import CLIENT, CLIENT_IN
from crm.resources.deals import items
from crm.resources.deals.items import ITEM, ITEM_PATCH, ITEMS_PUT, DealItem
from crm.resources.deals.record import DEAL, DEAL_IN, DEAL_PATCH, Deal
from crm.resources.papers import links
from crm.resources.papers import record as papers
from crm.resources.papers.record import PAPER, PAPER_IN
from crm.resources.pipelines.record import PIPELINE, Pipeline

REFERENCES = ("client_id", "contact_id", "stage_id")  # this module makes their choices
NEW = form_names("deal", new=True, also=REFERENCES)
FIELDS = form_names("deal", also=(*REFERENCES, "amount_mode"))
# Of those, the ones that the card shows elsewhere: in its heading or beside the stage.
CARD_FIELDS = tuple(name for name in FIELDS if name not in ("title", "lost_reason"))
NEW_CLIENT = "new"  # in place of the id of a client
CLIENT_FIELDS = ("client_id", "contact_id")  # read by _client(), from a text that is looked up
MAX_LINES = 200  # items that the page shows; more are kept as they are
ORDERED = f"{items.IN_ORDER} LIMIT ? OFFSET ?"
OF_DEAL = "deal_id = ? ORDER BY id DESC LIMIT ?"
MAX_PAPERS = 100  # that the page shows; the list of papers has all
NEW_LINES = 20  # that the form of the items has; of the empty ones it shows the first
NEW_ITEM = {"discount_type": "percent"}
NUMBERS = ("quantity", "price", "discount", "discount_type")
FIELD = re.compile(r"items-([0-9]{1,4})-([a-z_]+)")
FAULT = re.compile(r"/items/([0-9]+)(/.*)")

pages = Pages("deal")


@pages.get("/deals/new", role=SELLER)
def new_deal(form: Form | None = None) -> Response:
    return render("deals/new.html", list=LIST, **_form_context(form or Form(_proposed()), NEW))


@pages.post("/deals", page=new_deal, once=True)
def create_deal() -> Response:
    data = _load_form(DEAL_IN)
    form = request.form
    client: dict[str, Any] = {}
    if form.get("client_id") == NEW_CLIENT:
        client = load_form(CLIENT_IN, ("phone", "assigned_to"), name=form.get("client", ""))
    id = deals.create_with_client(data, client) if client else deals.create(data)
    return see_other(f"/deals/{id}", gettext("Deal added"))


@pages.get("/deals/<id>")
def show_deal(
    id: str, form: Form | None = None, lines: Form | None = None, paper: Form | None = None
) -> Response:
    """`form` is a refused form of the stage or the status, `lines` of the items, `paper` of a
    paper."""
    deal = DEAL.one(id)
    items = ITEM.every(ORDERED, int(deal["id"]), MAX_LINES, 0)
    # Refused lines of another version may name items that do not exist any more.
    if lines is None or lines["version"] != str(deal["version"]):
        lines = _lines(items, lines)
    candidates_by_line = {
        line: choices.products(text)
        for line in range(len(items), len(items) + NEW_LINES)
        if lines.faults and (text := lines[f"items-{line}-name"])
    }
    are_items_open = lines.faults or lines.messages or request.args.get("items") == "edit"
    pipeline = PIPELINE.one(deal["pipeline_id"])
    stage = next(stage for stage in pipeline["stages"] if stage["id"] == deal["stage_id"])
    papers_of_deal = PAPER.every(OF_DEAL, int(deal["id"]), MAX_PAPERS)
    return render_card(
        "deal",
        deal,
        CARD_FIELDS,
        form=form or Form(),
        client=labels.name_of("client", deal["client_id"], live=True),
        contact=labels.name_of("contact", deal["contact_id"]),
        lead=labels.name_of("lead", deal["lead_id"], live=True),
        phone=agenda.phones_of_clients([deal["client_id"]]).get(deal["client_id"]),
        stages=[stage for stage in pipeline["stages"] if stage["type"] == "open"],
        stage=stage,
        are_items_open=are_items_open,
        items=items,
        items_total=ITEM.show({"total": Deal.find(id).items()[1]})["total"],
        lines=lines,
        new_lines=NEW_LINES,
        candidates_by_line=candidates_by_line,
        paper=paper,
        papers=papers_of_deal,
        seen=links.count_seen([one["id"] for one in papers_of_deal]),
    )


@pages.post("/deals/<id>/papers", page=show_deal, form_name="paper", once=True)
def create_paper(id: str) -> Response:
    return see_other(f"/papers/{papers.create(id, load_form(PAPER_IN))}")


@pages.get("/deals/<id>/edit", role=SELLER)
def edit_deal(id: str, form: Form | None = None) -> Response:
    deal = DEAL.one(id)
    form = form or edits.open_form(deal, FIELDS, noun="deal", client=deal["client_name"])
    path = f"/deals/{deal['id']}"
    context = _form_context(form, FIELDS, deal)
    return render("deals/edit.html", heading=deal["title"], path=path, **context)


@pages.post("/deals/<id>/edit", page=edit_deal)
def change_deal(id: str) -> Response:
    deal = DEAL.one(id)
    is_sum = request.form.get("amount_mode") == "items" != deal["amount_mode"]
    data = _load_form(DEAL_PATCH, deal, ("amount",) if is_sum else ())
    mode = data.get("amount_mode")

    def update(values: dict[str, Any], expected_version: int) -> None:
        if mode and "amount" in values:
            values["amount_mode"] = mode  # an amount alone would be set by hand
        deals.update(id, values, expected_version)

    edits.save(DEAL, id, data, update, deal)
    return see_other(f"/deals/{id}")


add_record_pages(pages, DEAL, deals, edits_here=False)


def _load_form(
    schema: Body, deal: dict[str, Any] | None = None, left_out: tuple[str, ...] = ()
) -> Payload:
    """Read the fields that were sent, and the client; raises Invalid."""
    form_names = [name for name in request.form if name not in (*CLIENT_FIELDS, *left_out)]
    client = _client(deal) if "client" in request.form else {}
    return load_record("deal", schema, [*form_names, "custom"], **client)


def _client(deal: dict[str, Any] | None) -> dict[str, Any]:
    """Return the client that the form names, and the contact unless the client was changed."""
    if request.form.get("client_id") == NEW_CLIENT:
        return {"client_id": None}
    text, id = request.form["client"].strip(), request.form.get("client_id")
    if deal and text == deal["client_name"]:
        id = id or deal["client_id"]
    client = {"client_id": choices.chosen_client(text, id)}
    if client["client_id"] == request.form.get("client_id") and "contact_id" in request.form:
        client["contact_id"] = request.form["contact_id"] or None
    return client


def _proposed() -> dict[str, Any]:
    """The values of a new deal, as far as the address of the page has them."""
    names = ("client_id", "lead_id", "stage_id")
    values = lists.new_values(**{name: request.args.get(name, "") for name in names})
    if not values["stage_id"]:
        pipeline_id = request.args.get("pipeline_id")
        pipeline = Pipeline.find(pipeline_id) if pipeline_id else Pipeline.default()
        values["stage_id"] = next(str(s.id) for s in pipeline.list_stages() if s.type == "open")
    if values["client_id"]:
        values["client"] = CLIENT.one(values["client_id"])["name"]
    return values


def _form_context(
    form: Form, names: tuple[str, ...], deal: dict[str, Any] | None = None
) -> dict[str, Any]:
    client = None if form.fault("client") else choices.live_client(form["client_id"])
    contacts = [(one["id"], one["name"]) for one in client["contacts"]] if client else []
    # Fields without a choice are left out, and with them what the form would send for them.
    hidden = set() if contacts else {"contact_id"}
    if deal and deal["items_count"]:
        hidden.add("currency")  # that of the items
    if deal and deal["status"] != "lost" and not form["lost_reason"]:
        hidden.add("lost_reason")
    fields = record_fields(
        "deal",
        [name for name in names if name not in hidden],
        deal,
        contact_id=contacts,
        stage_id=choices.list_stages(),
    )
    return {
        "form": form,
        "fields": with_focus(fields, form if form.faults else None),
        "deal_id": deal and deal["id"],
    }


def _lines(items: list[dict[str, Any]], refused: Form | None) -> Form:
    """The form of the items as they are now, with the messages of one that was refused."""
    values: dict[str, Any] = {
        f"items-{number}-{name}": item[name]
        for number, item in enumerate([*items, *[NEW_ITEM] * NEW_LINES])
        for name in NUMBERS
        if name in item
    }
    form = Form(values)
    form.messages = refused.messages if refused else []
    return form


def _sent_lines() -> dict[int, MultiDict]:
    """What was sent of each line of the items, in their order."""
    lines: dict[int, MultiDict] = {}
    for name, text in request.form.items():
        if match := FIELD.fullmatch(name):
            lines.setdefault(int(match[1]), MultiDict())[match[2]] = text.strip()
    return dict(sorted(lines.items()))


@pages.post("/deals/<id>/items/totals")
def show_totals(id: str) -> Response:
    """What the items would come to if the form was saved: (id of an element, its text)."""
    deal = Deal.find(id)
    existing = {str(item.id): item for item in DealItem.every(ORDERED, deal.id, MAX_LINES, 0)}
    total = deal.items()[1] - sum(item.total for item in existing.values())
    texts, is_complete = [], True
    for number, line in _sent_lines().items():
        shown: dict[str, Any] = {}
        if _is_filled(line):
            try:
                (entry,) = ITEMS_PUT.parse({"items": [_item(line)]})["items"]
                item = existing.get(line.get("id", ""))
                values = item.updated_values(entry) if item else items.new_values(deal, entry)
                total += values["total"]
                shown = ITEM.show(values)
            except Invalid:
                is_complete = False
        texts.append((f"items-{number}-total", formatting.money(shown.get("total"), deal.currency)))
        if "id" not in line:
            price = formatting.typed_number(shown["price"], True) if shown else ""
            texts.append((f"items-{number}-price", price))
            texts.append((f"items-{number}-unit", shown.get("unit") or ""))
    sum_shown = ITEM.show({"total": total})["total"] if is_complete else None
    texts.append(("items-total", formatting.money(sum_shown, deal.currency)))
    return jsonify(texts)


def _is_filled(line: MultiDict) -> bool:
    return any({**line, "discount_type": ""}.values())  # which is a select that is always sent


@pages.post("/deals/<id>/items", page=show_deal, form_name="lines", once=True)
def save_lines(id: str) -> Response:
    lines = {number: line for number, line in _sent_lines().items() if _is_filled(line)}
    existing = [number for number, line in lines.items() if line.get("id")]
    new = [number for number in lines if number not in existing]
    hidden = DealItem.every(ORDERED, Deal.find(id).id, items.MAX_ITEMS, MAX_LINES)
    source = None
    if title := request.form.get("copy", "").strip():
        source = choices.chosen_deal(title, request.form.get("copy_id"))
    try:
        sent = [_item(lines[number]) for number in existing]
        sent += [{"id": item.id} for item in hidden]
        sent += [_item(lines[number]) for number in new]
        entries = ITEMS_PUT.parse({"items": sent})["items"]
        for number, entry in zip(reversed(new), reversed(entries), strict=False):
            entry["to_price_list"] = "add" in lines[number]
        items.replace(id, entries, edits.sent_version(), source)
    except Invalid as refused:
        numbers = [*existing, *(MAX_LINES + at for at in range(len(hidden))), *new]
        raise Invalid([_at_line(fault, numbers) for fault in refused.faults]) from refused
    back = f"/deals/{id}?items=edit#items" if source else f"/deals/{id}#items"
    return see_other(back, gettext("Saved."))


def _at_line(fault: Fault, numbers: list[int]) -> Fault:
    """The fault of an item at its line in the form; `numbers` are the lines of all items."""
    match = FAULT.fullmatch(fault.where)
    return replace(fault, where=f"/items/{numbers[int(match[1])]}{match[2]}") if match else fault


@pages.post("/deals/<id>/items/remove")
def remove_line(id: str) -> Response:
    line = DealItem.of(Deal.find(id), request.form.get("item_id", ""))
    question = gettext("Remove “%(name)s” from the deal?", name=line.name)
    with confirmed(question, gettext("Remove"), f"/deals/{id}#items"):
        items.delete(id, line.id)
    text = gettext("“%(name)s” removed from the deal", name=line.name)
    return see_other(f"/deals/{id}#items", text)


def _item(line_form: MultiDict) -> dict[str, Any]:
    """Return an existing line with what was typed, or a new one: of the product that is named, or
    a free one. Empty inputs of a new line get the default. An existing one must have a quantity and
    a price; its empty discount is none."""
    line = {
        name: wire_value(ITEM_PATCH.fields[name], line_form, name)
        for name in NUMBERS
        if line_form.get(name)
    }
    if id := line_form.get("id"):
        emptied = {name: "" for name in ("quantity", "price") if line_form.get(name) == ""}
        return {"discount": "0", **line, **emptied, "id": id}
    text = line_form.get("name", "")
    if product_id := choices.chosen_product(text, line_form.get("product_id", "")):
        return {**line, "product_id": product_id}
    return {**line, "name": text} if text else line
