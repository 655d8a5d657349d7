"""Clients: companies and persons, whom to talk to there, and what was sold to them."""

from typing import Any

from flask import request
from werkzeug.wrappers import Response

from crm.cabinet import edits, labels, lists, record_sections, user_choices
from crm.cabinet.forms import Form, take
from crm.cabinet.languages import gettext
from crm.cabinet.rendering import MANAGER, Pages, again, confirm, me, onward, render, told
from crm.cabinet.spreadsheets.exports import export_links
from crm.resources.clients import record as clients
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
from crm.tenancy.database import rows, transaction
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
@again(lambda form: list_clients(form))
def create_client() -> Response:
    id = clients.create(take(CLIENT_IN, request.form, NEW))
    told(gettext("Client added"))
    return onward(f"/clients/{id}")


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
@again(lambda form, id: edit_client(id, form))
def change_client(id: str) -> Response:
    data = take(CLIENT_PATCH, request.form, FIELDS)
    with transaction():
        theirs = edits.keep_both(CLIENT, CLIENT.one(id), data)
        Client.find(id).change(data)
    edits.tell_saved(theirs)
    return onward(f"/clients/{id}")


@pages.post("/clients/<id>/delete")
@again(lambda form, id: show_client(id, refused=form))
def delete_client(id: str) -> Response:
    with transaction():
        client = Client.find(id)
        client.remove()
    record_sections.deleted("client", id, client.name)
    return onward("/clients")


@pages.post("/clients/<id>/restore")
def restore_client(id: str) -> Response:
    with transaction():
        Client.removed(id).restore()
    told(gettext("Client restored"))
    return onward(f"/clients/{id}")


@pages.post("/clients/<id>/contacts")
@again(lambda form, id: show_client(id, form))
def create_contact(id: str) -> Response:
    data = take(CONTACT_IN, request.form, CONTACT_FIELDS)
    with transaction():
        Client.find(id).add_contact(data)
    told(gettext("Contact added"))
    return onward(f"/clients/{id}#contacts")


@pages.get("/clients/<id>/contacts/<contact_id>", role=MANAGER)
def edit_contact(id: str, contact_id: str, form: Form | None = None) -> Response:
    client = Client.find(id)
    contact = CONTACT.one(client.contact(contact_id).id)
    form = form or edits.open_form(contact, CONTACT_FIELDS)
    return render("clients/contact.html", client=client, contact=contact, form=form)


@pages.post("/clients/<id>/contacts/<contact_id>")
@again(lambda form, id, contact_id: edit_contact(id, contact_id, form))
def change_contact(id: str, contact_id: str) -> Response:
    data = take(CONTACT_PATCH, request.form, CONTACT_FIELDS)
    with transaction():
        client = Client.find(id)
        contact = CONTACT.one(client.contact(contact_id).id)
        theirs = edits.keep_both(CONTACT, contact, data)
        client.change_contact(contact_id, data)
    edits.tell_saved(theirs)
    return onward(f"/clients/{id}#contacts")


@pages.post("/clients/<id>/contacts/<contact_id>/primary")
def make_primary(id: str, contact_id: str) -> Response:
    with transaction():
        Client.find(id).change_contact(contact_id, {"is_primary": 1})
    return onward(f"/clients/{id}#contacts")


@pages.post("/clients/<id>/contacts/<contact_id>/delete")
def delete_contact(id: str, contact_id: str) -> Response:
    with transaction():
        client = Client.find(id)
        name = client.contact(contact_id).name
        client.remove_contact(contact_id)
        question = gettext("Delete the contact “%(name)s”?", name=name)
        confirm(question, gettext("Delete"), f"/clients/{id}#contacts")
    told(gettext("Contact deleted"))
    return onward(f"/clients/{id}#contacts")


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
