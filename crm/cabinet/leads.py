"""Pages of leads: the list, the card, the edit form and the conversion into a deal."""

from functools import partial
from typing import Any

from flask import request
from werkzeug.wrappers import Response

from crm.cabinet import edits, labels, list_pages, lists, record_sections, user_choices
from crm.cabinet.forms import Form, load_form
from crm.cabinet.languages import gettext
from crm.cabinet.list_pages import NUMBER, FilterField, ListPage
from crm.cabinet.record_fields import RecordField, form_names, record_fields
from crm.cabinet.rendering import MANAGER, Pages, flash, me, render, rerender_on_error, see_other
from crm.resources import leads
from crm.resources.clients import record as client_record
from crm.resources.deals.record import DEAL
from crm.resources.leads.conversion import CONVERSION
from crm.resources.leads.endpoints import LEAD_FILTER
from crm.resources.leads.record import LEAD, LEAD_PATCH, LeadSchema
from crm.resources.pipelines.record import PIPELINE

NEW = form_names("lead", new=True)
FIELDS = form_names("lead")
DEAL_FIELDS = ("deal_id", "client_id", "title", "stage_id", "amount", "assigned_to")
UTM_FIELDS = ("utm_source", "utm_medium", "utm_campaign", "utm_content", "utm_term")
MAX_JOINABLE_DEALS = 20  # open deals of a client that a lead may be added to
# The API keeps values that it refuses in `extra`; a person can correct them instead.
LEAD_FORM = LeadSchema.body("LeadForm")

pages = Pages("leads")


@pages.get("/leads/new", role=MANAGER)
def new_lead() -> Response:
    """The list with the form for a new lead open above it."""
    return list_leads(is_form_open=True)


@pages.get("/leads")
def list_leads(form: Form | None = None, is_form_open: bool = False) -> Response:
    sources = lists.known_values("lead", "source")
    statuses = labels.statuses("lead")
    page = ListPage(
        noun="lead",
        path="/leads",
        title=gettext("Leads"),
        filters=(
            FilterField("select", "status", gettext("Status"), [*statuses.items()]),
            FilterField("text", "source", gettext("Source"), suggestions=sources),
            list_pages.assigned_to_filter(),
            FilterField("day", "created_since", gettext("Created from")),
            FilterField("day", "created_until", gettext("Created until")),
        ),
        sorts=(
            ("", gettext("Newest first")),
            ("id", gettext("Oldest first")),
            ("-updated_at", gettext("Recently updated first")),
            ("name", gettext("By name")),
        ),
        columns=(
            (gettext("Full name"), ""),
            (gettext("Status"), ""),
            (gettext("Contact"), ""),
            (gettext("Responsible"), ""),
            (gettext("Amount"), NUMBER),
            (gettext("Created"), ""),
        ),
        empty=gettext(
            "No leads yet. They come from website forms or the API, or you can add them here."
        ),
        new=gettext("New lead"),
    )
    return list_pages.render_list(
        "leads/list.html",
        page,
        LEAD,
        LEAD_FILTER,
        form=form or Form({"assigned_to": str(me().user_id)}),
        fields=record_fields("lead", NEW),
        is_form_open=is_form_open,
        statuses=statuses,
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
    return render(
        "leads/card.html",
        lead=lead,
        fields=[field for field in _fields(lead) if field.name != "name"],
        statuses=labels.statuses("lead"),
        client=labels.name_of("client", lead["client_id"], live=True),
        deal=labels.name_of("deal", lead["deal_id"], live=True),
        came_with=[(name, lead[name]) for name in UTM_FIELDS if lead[name]],
        extra=[(name, labels.plain(value)) for name, value in lead["extra"].items()],
        **record_sections.sections("lead", id),
    )


@pages.get("/leads/<id>/edit", role=MANAGER)
def edit_lead(id: str, form: Form | None = None) -> Response:
    lead = LEAD.one(id)
    form = form or edits.open_form(lead, FIELDS)
    path = f"/leads/{lead['id']}"
    return render("edit.html", heading=lead["name"], path=path, form=form, fields=_fields(lead))


@pages.post("/leads/<id>/edit")
@rerender_on_error(lambda form, id: edit_lead(id, form))
def change_lead(id: str) -> Response:
    data = load_form(LEAD_PATCH, request.form, FIELDS)
    other_changes = edits.save(LEAD, id, data, partial(leads.update, id))
    edits.flash_saved(other_changes)
    return see_other(f"/leads/{id}")


@pages.post("/leads/<id>/status")
def move_lead(id: str) -> Response:
    data = load_form(LEAD_PATCH, request.form, ("status",))
    leads.update(id, data)
    return see_other(f"/leads/{id}")


@pages.get("/leads/<id>/convert", role=MANAGER)
def ask_conversion(id: str, form: Form | None = None) -> Response:
    lead = LEAD.expanded(["possible_duplicates"]).one(id)
    if lead["status"] == "converted":  # such as after going back to this page
        return see_other(f"/deals/{lead['deal_id']}")
    clients = _matching_clients(lead)
    values = {"amount": lead["amount"], "assigned_to": lead["assigned_to"] or str(me().user_id)}
    if clients:
        values["client_id"] = clients[0][0]
    return render(
        "leads/convert.html",
        lead=lead,
        form=form or Form(values),
        clients=clients,
        deals=_open_deals(clients),
        pipelines=PIPELINE.every("TRUE ORDER BY position, id"),
        assignees=user_choices.choices(lead["assigned_to"]),
    )


@pages.post("/leads/<id>/convert")
@rerender_on_error(lambda form, id: ask_conversion(id, form))
def convert_lead(id: str) -> Response:
    form_names = [name for name in DEAL_FIELDS if name in request.form]
    data = load_form(CONVERSION, request.form, form_names)
    lead, is_new = leads.convert(id, data)
    if is_new:
        flash(gettext("Lead converted"))
    return see_other(f"/deals/{lead.deal_id}")


@pages.post("/leads/<id>/delete")
def delete_lead(id: str) -> Response:
    lead = leads.delete(id)
    record_sections.flash_deleted("lead", id, lead.name)
    return see_other("/leads")


@pages.post("/leads/<id>/restore")
def restore_lead(id: str) -> Response:
    leads.restore(id)
    flash(gettext("Lead restored"))
    return see_other(f"/leads/{id}")


def _fields(lead: dict[str, Any]) -> list[RecordField]:
    return record_fields("lead", FIELDS, lead)


def _matching_clients(lead: dict[str, Any]) -> list[tuple[str, str]]:
    """(id, name) of the clients with the lead's phone or e-mail address.

    The first is the one that the conversion would choose by itself.
    """
    names = {
        duplicate["id"]: duplicate["name"]
        for duplicate in lead["possible_duplicates"]
        if duplicate["resource"] == "client"
    }
    if match := client_record.match(lead["email"], lead["phone"]):
        names = {str(match.id): match.name} | names
    return list(names.items())


def _open_deals(clients: list[tuple[str, str]]) -> list[dict[str, Any]]:
    """The open deals of those clients, the newest first."""
    ids = [int(id) for id, _ in clients]
    if not ids:
        return []
    placeholders = ", ".join("?" * len(ids))
    condition = f"client_id IN ({placeholders}) AND status = 'open' AND deleted_at IS NULL"
    return DEAL.every(f"{condition} ORDER BY id DESC LIMIT ?", *ids, MAX_JOINABLE_DEALS)
