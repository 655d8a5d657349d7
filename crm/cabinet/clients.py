"""Clients: companies and persons, whom to talk to there, and what was sold to them."""

from functools import partial
from typing import Any

from flask import request
from werkzeug.wrappers import Response

from crm.cabinet import edits, labels, lists, record_sections, user_choices
from crm.cabinet.forms import Form, load_form
from crm.cabinet.languages import gettext
from crm.cabinet.rendering import (
    MANAGER,
    Pages,
    confirmed,
    flash,
    me,
    render,
    rerender_on_error,
    see_other,
)
from crm.cabinet.spreadsheets.exports import export_links
from crm.resources import clients
from crm.resources.clients.endpoints import CLIENT_FILTER
from crm.resources.clients.record import (
    CLIENT,
    CLIENT_IN,
    CLIENT_PATCH,
    CONTACT,
    CONTACT_IN,
    CONTACT_PATCH,
    LISTED_CLIENT,
    Client,
)
from crm.resources.deals.record import DEAL
from crm.tenancy.database import rows
from crm.values import as_number
from crm.values.ids import integer_id

NEW = ("type", "name", "phone", "email", "tags", "assigned_to", "comment")
FIELDS = (
    *("type", "name", "phone", "email", "website", "address", "tax_number", "tags"),
    *("assigned_to", "source", "external_id", "comment"),
)
CONTACT_FIELDS = ("name", "position", "phone", "email", "comment")
MOST_DEALS = 100  # of each kind on a card
MOST_TAGS = 200  # to choose from

pages = Pages("clients")


@pages.get("/clients")
def list_clients(form: Form | None = None) -> Response:
    return render(
        "clients/list.html",
        page=lists.page(LISTED_CLIENT, CLIENT_FILTER),
        active_filters=lists.active_filters("client"),
        form=form or Form({"type": "company", "assigned_to": str(me().user_id)}),
        asked_tags=[tag for tag in request.args.getlist("tag") if tag.strip()],
        tags=_known_tags(),
        narrowed=lists.is_narrowed(),
        export_links=export_links("clients"),
        **_choices(),
    )


@pages.post("/clients")
@rerender_on_error(lambda form: list_clients(form))
def create_client() -> Response:
    id = clients.create(load_form(CLIENT_IN, request.form, NEW))
    flash(gettext("Client added"))
    return see_other(f"/clients/{id}")


@pages.get("/clients/<id>")
def show_client(id: str, form: Form | None = None, refused: Form | None = None) -> Response:
    client = CLIENT.expanded(["possible_duplicates"]).one(id)
    shown = {
        "open_deals": _deals(id, "status = 'open'"),
        "closed_deals": _deals(id, "status <> 'open'"),
        "open_amounts": _open_amounts(id),
        "stages": {str(id): name for id, name in rows("SELECT id, name FROM stage")},
        "extra": [(name, labels.plain(value)) for name, value in client["extra"].items()],
    }
    parts = {**shown, **_choices(), **record_sections.parts("client", id)}
    return render("clients/card.html", client=client, form=form or Form(), refused=refused, **parts)


@pages.get("/clients/<id>/edit", role=MANAGER)
def edit_client(id: str, form: Form | None = None) -> Response:
    client = CLIENT.one(id)
    shown = {"form": form or edits.open_form(client, FIELDS), "tags": _known_tags()}
    return render("clients/edit.html", client=client, **shown, **_choices(client["assigned_to"]))


@pages.post("/clients/<id>/edit")
@rerender_on_error(lambda form, id: edit_client(id, form))
def change_client(id: str) -> Response:
    data = load_form(CLIENT_PATCH, request.form, FIELDS)
    theirs = edits.save(CLIENT, id, data, partial(clients.update, id))
    edits.tell_saved(theirs)
    return see_other(f"/clients/{id}")


@pages.post("/clients/<id>/delete")
@rerender_on_error(lambda form, id: show_client(id, refused=form))
def delete_client(id: str) -> Response:
    client = clients.delete(id)
    record_sections.deleted("client", id, client.name)
    return see_other("/clients")


@pages.post("/clients/<id>/restore")
def restore_client(id: str) -> Response:
    clients.restore(id)
    flash(gettext("Client restored"))
    return see_other(f"/clients/{id}")


@pages.post("/clients/<id>/contacts")
@rerender_on_error(lambda form, id: show_client(id, form))
def create_contact(id: str) -> Response:
    data = load_form(CONTACT_IN, request.form, CONTACT_FIELDS)
    clients.create_contact(id, data)
    flash(gettext("Contact added"))
    return see_other(f"/clients/{id}#contacts")


@pages.get("/clients/<id>/contacts/<contact_id>", role=MANAGER)
def edit_contact(id: str, contact_id: str, form: Form | None = None) -> Response:
    client = Client.find(id)
    contact = CONTACT.one(client.contact(contact_id).id)
    form = form or edits.open_form(contact, CONTACT_FIELDS)
    return render("clients/contact.html", client=client, contact=contact, form=form)


@pages.post("/clients/<id>/contacts/<contact_id>")
@rerender_on_error(lambda form, id, contact_id: edit_contact(id, contact_id, form))
def change_contact(id: str, contact_id: str) -> Response:
    data = load_form(CONTACT_PATCH, request.form, CONTACT_FIELDS)
    update = partial(clients.update_contact, id, contact_id)
    theirs = edits.save(CONTACT, contact_id, data, update)
    edits.tell_saved(theirs)
    return see_other(f"/clients/{id}#contacts")


@pages.post("/clients/<id>/contacts/<contact_id>/primary")
def make_primary(id: str, contact_id: str) -> Response:
    clients.update_contact(id, contact_id, {"is_primary": 1})
    return see_other(f"/clients/{id}#contacts")


@pages.post("/clients/<id>/contacts/<contact_id>/delete")
def delete_contact(id: str, contact_id: str) -> Response:
    name = Client.find(id).contact(contact_id).name
    question = gettext("Delete the contact “%(name)s”?", name=name)
    with confirmed(question, gettext("Delete"), f"/clients/{id}#contacts"):
        clients.delete_contact(id, contact_id)
    flash(gettext("Contact deleted"))
    return see_other(f"/clients/{id}#contacts")


def _choices(assigned_to: str | None = None) -> dict[str, Any]:
    return {
        "types": labels.client_types(),
        "assignees": user_choices.choices(assigned_to),
        "everyone": user_choices.everyone(),
        "statuses": labels.statuses("deal"),
    }


def _known_tags() -> list[str]:
    found = rows(
        "SELECT DISTINCT tag FROM client_tag JOIN client ON client.id = client_tag.client_id"
        " WHERE client.deleted_at IS NULL ORDER BY tag LIMIT ?",
        (MOST_TAGS,),
    )
    return [tag for (tag,) in found]


def _deals(id: str, condition: str) -> list[dict[str, Any]]:
    """The client's deals, the newest first."""
    order = "ORDER BY id DESC LIMIT ?"
    condition = f"client_id = ? AND {condition} AND deleted_at IS NULL"
    return DEAL.every(f"{condition} {order}", integer_id(id), MOST_DEALS)


def _open_amounts(id: str) -> list[dict[str, Any]]:
    """What the open deals come to in each currency, as `won_amounts` of the client."""
    found = rows(
        "SELECT currency, sum(amount / 100) FROM deal WHERE client_id = ? AND status = 'open'"
        " AND deleted_at IS NULL AND amount IS NOT NULL GROUP BY currency ORDER BY currency",
        (integer_id(id),),
    )
    return [{"currency": code, "amount": as_number(total, 100)} for code, total in found]
