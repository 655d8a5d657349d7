"""Leads: who asked, what came of it, and the way into a deal."""

from functools import partial
from typing import Any

from flask import request
from werkzeug.wrappers import Response

from crm.cabinet import edits, labels, lists, record_sections, user_choices
from crm.cabinet.forms import Form, load_form
from crm.cabinet.languages import gettext
from crm.cabinet.rendering import MANAGER, Pages, flash, me, render, rerender_on_error, see_other
from crm.cabinet.spreadsheets.exports import export_links
from crm.resources import leads, tenant
from crm.resources.clients import record as clients
from crm.resources.deals.record import DEAL
from crm.resources.leads.conversion import CONVERSION
from crm.resources.leads.endpoints import LEAD_FILTER
from crm.resources.leads.record import LEAD, LEAD_PATCH, LeadSchema
from crm.resources.pipelines.record import PIPELINE

NEW = ("name", "phone", "email", "company", "source", "assigned_to", "comment")
FIELDS = (
    *("name", "phone", "email", "company", "position", "source", "assigned_to", "amount"),
    *("currency", "tags", "lost_reason", "external_id", "comment"),
)
DEAL_FIELDS = ("deal_id", "client_id", "title", "stage_id", "amount", "assigned_to")
CAME_WITH = ("utm_source", "utm_medium", "utm_campaign", "utm_content", "utm_term")
MOST_DEALS = 20  # open ones of a client that a lead may join
# The API keeps in `extra` what doesn't fit; a person can be told.
LEAD_FORM = LeadSchema.body("LeadForm")

pages = Pages("leads")


@pages.get("/leads/new", role=MANAGER)
def new_lead() -> Response:
    """The list with the form for a new lead open above it."""
    return list_leads(opens_form=True)


@pages.get("/leads")
def list_leads(form: Form | None = None, opens_form: bool = False) -> Response:
    return render(
        "leads/list.html",
        page=lists.page(LEAD, LEAD_FILTER),
        active_filters=lists.active_filters("lead"),
        form=form or Form({"assigned_to": str(me().user_id)}),
        opens_form=opens_form or form is not None,
        sources=lists.known("lead", "source"),
        narrowed=lists.is_narrowed(),
        export_links=export_links("leads"),
        **_choices(),
    )


@pages.post("/leads")
@rerender_on_error(lambda form: list_leads(form))
def create_lead() -> Response:
    id = leads.create(load_form(LEAD_FORM, request.form, NEW))
    flash(gettext("Lead added"))
    return see_other(f"/leads/{id}")


@pages.get("/leads/<id>")
def show_lead(id: str) -> Response:
    lead = LEAD.expanded(["possible_duplicates"]).one(id)
    shown = {
        "client": labels.name_of("client", lead["client_id"], live=True),
        "deal": labels.name_of("deal", lead["deal_id"], live=True),
        "came_with": [(name, lead[name]) for name in CAME_WITH if lead[name]],
        "extra": [(name, labels.plain(value)) for name, value in lead["extra"].items()],
    }
    return render(
        "leads/card.html", lead=lead, **shown | _choices() | record_sections.parts("lead", id)
    )


@pages.get("/leads/<id>/edit", role=MANAGER)
def edit_lead(id: str, form: Form | None = None) -> Response:
    lead = LEAD.one(id)
    sources = lists.known("lead", "source")
    choices = _choices(lead["assigned_to"])
    form = form or edits.open_form(lead, FIELDS)
    return render("leads/edit.html", lead=lead, form=form, sources=sources, **choices)


@pages.post("/leads/<id>/edit")
@rerender_on_error(lambda form, id: edit_lead(id, form))
def change_lead(id: str) -> Response:
    data = load_form(LEAD_PATCH, request.form, FIELDS)
    theirs = edits.save(LEAD, id, data, partial(leads.update, id))
    edits.tell_saved(theirs)
    return see_other(f"/leads/{id}")


@pages.post("/leads/<id>/status")
def move_lead(id: str) -> Response:
    data = load_form(LEAD_PATCH, request.form, ("status",))
    leads.update(id, data)
    return see_other(f"/leads/{id}")


@pages.get("/leads/<id>/convert", role=MANAGER)
def ask_conversion(id: str, form: Form | None = None) -> Response:
    lead = LEAD.expanded(["possible_duplicates"]).one(id)
    if lead["status"] == "converted":
        return see_other(f"/deals/{lead['deal_id']}")
    found = _clients(lead)
    shown = {"amount": lead["amount"], "assigned_to": lead["assigned_to"] or str(me().user_id)}
    if found:
        shown["client_id"] = found[0][0]
    return render(
        "leads/convert.html",
        lead=lead,
        form=form or Form(shown),
        clients=found,
        deals=_open_deals(found),
        pipelines=PIPELINE.every("1 ORDER BY position, id"),
        **_choices(lead["assigned_to"]),
    )


@pages.post("/leads/<id>/convert")
@rerender_on_error(lambda form, id: ask_conversion(id, form))
def convert_lead(id: str) -> Response:
    sent = [name for name in DEAL_FIELDS if name in request.form]
    data = load_form(CONVERSION, request.form, sent)
    lead, is_new = leads.convert(id, data)
    if is_new:
        flash(gettext("Lead converted"))
    return see_other(f"/deals/{lead.deal_id}")


@pages.post("/leads/<id>/delete")
def delete_lead(id: str) -> Response:
    lead = leads.delete(id)
    record_sections.deleted("lead", id, lead.name)
    return see_other("/leads")


@pages.post("/leads/<id>/restore")
def restore_lead(id: str) -> Response:
    leads.restore(id)
    flash(gettext("Lead restored"))
    return see_other(f"/leads/{id}")


def _choices(assigned_to: str | None = None) -> dict[str, Any]:
    return {
        "statuses": labels.statuses("lead"),
        "assignees": user_choices.choices(assigned_to),
        "everyone": user_choices.everyone(),
        "currency": tenant.currency(),
    }


def _clients(lead: dict[str, Any]) -> list[tuple[str, str]]:
    """Who the lead may be already: first the client that the conversion would find by itself."""
    same = {
        each["id"]: each["name"]
        for each in lead["possible_duplicates"]
        if each["resource"] == "client"
    }
    if match := clients.match(lead["email"], lead["phone"]):
        same = {str(match.id): match.name} | same
    return list(same.items())


def _open_deals(found: list[tuple[str, str]]) -> list[dict[str, Any]]:
    """Deals under way with those clients."""
    ids = [int(id) for id, _ in found]
    places = ", ".join("?" * len(ids))
    condition = f"client_id IN ({places}) AND status = 'open' AND deleted_at IS NULL"
    return DEAL.every(f"{condition} ORDER BY id DESC LIMIT ?", *ids, MOST_DEALS)
