"""A deal's card: what it is, how far it has come, and the forms that change it."""

from typing import Any

from flask import request
from werkzeug.wrappers import Response

from crm.cabinet import edits, labels, lists, record_sections, user_choices
from crm.cabinet.deals import choices
from crm.cabinet.forms import Form, load_form
from crm.cabinet.languages import gettext
from crm.cabinet.rendering import MANAGER, Pages, flash, me, render, rerender_on_error, see_other
from crm.errors import Invalid, NotFound
from crm.records.schemas import Body, Payload
from crm.resources import deals, tenant
from crm.resources.clients.record import CLIENT
from crm.resources.deals.history import STAGE_MOVE
from crm.resources.deals.items import ITEM
from crm.resources.deals.record import DEAL, DEAL_IN, DEAL_PATCH
from crm.resources.pipelines.record import Pipeline

NEW = (
    *("title", "stage_id", "amount", "currency", "assigned_to", "expected_close_date", "source"),
    *("tags", "comment"),
)
FIELDS = (*NEW, "lost_reason", "external_id")
NEW_LINE = {"discount_type": "percent"}

pages = Pages("deal")


@pages.get("/deals/new", role=MANAGER)
def new_deal(form: Form | None = None) -> Response:
    return render("deals/new.html", **_choices(form or Form(_proposed())))


@pages.post("/deals")
@rerender_on_error(lambda form: new_deal(form))
def create_deal() -> Response:
    id = deals.create(_taken(DEAL_IN, (*NEW, "lead_id")))
    flash(gettext("Deal added"))
    return see_other(f"/deals/{id}")


@pages.get("/deals/<id>")
def show_deal(id: str, form: Form | None = None, lines: Form | None = None) -> Response:
    """`form` is what was refused of the stage or the status, `lines` of the items."""
    deal = DEAL.one(id)
    items = ITEM.every("deal_id = ? ORDER BY position, id", int(deal["id"]))
    if lines is None or lines["version"] != str(deal["version"]):
        lines = _lines(items, lines)
    typed = lines[f"items-{len(items)}-name"]
    shown = {
        "form": form or Form(),
        "client": labels.name_of("client", deal["client_id"], live=True),
        "contact": labels.name_of("contact", deal["contact_id"]),
        "lead": labels.name_of("lead", deal["lead_id"], live=True),
        "pipeline": labels.name_of("pipeline", deal["pipeline_id"]),
        "stages": choices.stages(),
        "statuses": labels.statuses("deal"),
        "moves": STAGE_MOVE.every("deal_id = ? ORDER BY id", int(deal["id"])),
        "items": items,
        "lines": lines,
        "products": choices.first_products() if me().role != "viewer" else [],
        "meant": choices.products(typed) if lines.faults and typed else [],
        "extra": [(name, labels.plain(value)) for name, value in deal["extra"].items()],
    }
    return render("deals/card.html", deal=deal, **shown | record_sections.parts("deal", id))


@pages.get("/deals/<id>/edit", role=MANAGER)
def edit_deal(id: str, form: Form | None = None) -> Response:
    deal = DEAL.one(id)
    names = (*FIELDS, "client_id", "amount_mode")
    shown = form or edits.open_form(deal, names, client=deal["client_name"])
    return render("deals/edit.html", deal=deal, **_choices(shown, deal))


@pages.post("/deals/<id>/edit")
@rerender_on_error(lambda form, id: edit_deal(id, form))
def change_deal(id: str) -> Response:
    deal = DEAL.one(id)
    names = FIELDS
    if request.form.get("amount_mode") == "items" != deal["amount_mode"]:
        names = tuple(name for name in names if name != "amount")  # it is what the items come to
    data = _taken(DEAL_PATCH, (*names, "amount_mode"), deal)
    mode = data.get("amount_mode")

    def update(values: dict[str, Any], expected_version: int) -> None:
        if mode and "amount" in values:
            values["amount_mode"] = mode  # an amount alone would be set by hand
        deals.update(id, values, expected_version)

    theirs = edits.save(DEAL, id, data, update, deal)
    edits.tell_saved(theirs)
    return see_other(f"/deals/{id}")


@pages.post("/deals/<id>/delete")
def delete_deal(id: str) -> Response:
    deal = deals.delete(id)
    record_sections.deleted("deal", id, deal.title)
    return see_other(f"/deals?pipeline_id={deal.pipeline_id}")


@pages.post("/deals/<id>/restore")
def restore_deal(id: str) -> Response:
    deals.restore(id)
    flash(gettext("Deal restored"))
    return see_other(f"/deals/{id}")


def _taken(schema: Body, names: tuple[str, ...], deal: dict[str, Any] | None = None) -> Payload:
    """The sent ones of these fields, and the client; raises Invalid with the faults of all."""
    faults, more = [], {}
    try:
        if "client" in request.form:
            more = _client(deal)
    except Invalid as refused:
        faults += refused.faults
    try:
        sent = [name for name in names if name in request.form]
        data = load_form(schema, request.form, sent, **more)
    except Invalid as refused:
        faults += refused.faults
    if faults:
        raise Invalid(faults)
    return data


def _client(deal: dict[str, Any] | None) -> dict[str, Any]:
    """The client that the form names, with the contact if that was one of its."""
    found = {"client_id": choices.chosen_client(deal)}
    if found["client_id"] == request.form.get("client_id") and "contact_id" in request.form:
        found["contact_id"] = request.form["contact_id"] or None
    return found


def _proposed() -> dict[str, Any]:
    """A new deal, with what the page that leads here says of it."""
    shown = {"assigned_to": str(me().user_id), "currency": tenant.currency()}
    for name in ("client_id", "lead_id", "stage_id"):
        shown[name] = request.args.get(name, "")
    if not shown["stage_id"]:
        wanted = request.args.get("pipeline_id")
        pipeline = Pipeline.find(wanted) if wanted else Pipeline.default()
        shown["stage_id"] = next(str(s.id) for s in pipeline.list_stages() if s.type == "open")
    if shown["client_id"]:
        shown["client"] = CLIENT.one(shown["client_id"])["name"]
    return shown


def _choices(form: Form, deal: dict[str, Any] | None = None) -> dict[str, Any]:
    return {
        "form": form,
        "clients": choices.newest_clients(),
        "meant": choices.clients(form["client"].strip()) if form.fault("client") else [],
        "contacts": _contacts(form["client_id"]),
        "stages": choices.stages(),
        "assignees": user_choices.choices(deal and deal["assigned_to"]),
        "currencies": choices.currencies(deal["currency"] if deal else ""),
        "sources": lists.known("deal", "source"),
        "reasons": choices.reasons(),
        "modes": [
            ("manual", gettext("entered manually")),
            ("items", gettext("calculated from items")),
        ],
    }


def _contacts(client_id: str) -> list[tuple[str, str]]:
    try:
        return [(each["id"], each["name"]) for each in CLIENT.one(client_id)["contacts"]]
    except NotFound:
        return []


def _lines(items: list[dict[str, Any]], refused: Form | None) -> Form:
    """The form of the items as they are; what was refused is said above it."""
    values: dict[str, Any] = {
        f"items-{number}-{name}": line[name]
        for number, line in enumerate([*items, NEW_LINE])
        for name in ("quantity", "price", "discount", "discount_type")
        if name in line
    }
    form = Form(values)
    form.messages = refused.messages if refused else []
    return form
