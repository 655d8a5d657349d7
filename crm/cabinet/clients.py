"""Clients: companies and persons, with their contacts and deals."""

from functools import partial
from typing import Any

from flask import request
from werkzeug.wrappers import Response

from crm.cabinet import edits, labels, list_pages, record_sections
from crm.cabinet.forms import Form, load_form
from crm.cabinet.languages import gettext
from crm.cabinet.list_pages import NUMBER, FilterField, ListPage
from crm.cabinet.record_fields import RecordField, form_names, record_fields
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

NEW = form_names("client", new=True)
FIELDS = form_names("client")
CONTACT_FIELDS = form_names("contact")
MAX_DEALS = 100  # in each table of a card
MAX_KNOWN_TAGS = 200

pages = Pages("clients")


@pages.get("/clients")
def list_clients(form: Form | None = None) -> Response:
    types = labels.client_types()
    page = ListPage(
        noun="client",
        path="/clients",
        title=gettext("Clients"),
        filters=(
            FilterField("select", "type", gettext("Type"), [*types.items()]),
            FilterField("tags", "tag", gettext("Tag"), suggestions=_known_tags()),
            list_pages.assigned_to_filter(),
        ),
        sorts=(
            ("", gettext("Newest first")),
            ("id", gettext("Oldest first")),
            ("-updated_at", gettext("Recently updated first")),
            ("name", gettext("By name")),
        ),
        columns=(
            (gettext("Name or company"), ""),
            (gettext("Contact"), ""),
            (gettext("Tags"), ""),
            (gettext("Responsible"), ""),
            (gettext("Open deals"), NUMBER),
            (gettext("Total purchases"), NUMBER),
        ),
        empty=gettext(
            "No clients yet. They are created when leads are converted, or you can add them here."
        ),
        new=gettext("New client"),
    )
    return list_pages.render_list(
        "clients/list.html",
        page,
        LISTED_CLIENT,
        CLIENT_FILTER,
        form=form or Form({"type": "company", "assigned_to": str(me().user_id)}),
        fields=record_fields("client", NEW),
        types=types,
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
    return render(
        "clients/card.html",
        client=client,
        fields=[field for field in _fields(client) if field.name != "name"],
        contact_fields=record_fields("contact", CONTACT_FIELDS),
        form=form or Form(),
        refused=refused,
        open_deals=_deals(id, "status = 'open'"),
        closed_deals=_deals(id, "status <> 'open'"),
        open_amounts=_open_amounts(id),
        stages={str(id): name for id, name in rows("SELECT id, name FROM stage")},
        statuses=labels.statuses("deal"),
        extra=[(name, labels.plain(value)) for name, value in client["extra"].items()],
        **record_sections.sections("client", id),
    )


@pages.get("/clients/<id>/edit", role=MANAGER)
def edit_client(id: str, form: Form | None = None) -> Response:
    client = CLIENT.one(id)
    form = form or edits.open_form(client, FIELDS)
    path = f"/clients/{client['id']}"
    return render("edit.html", heading=client["name"], path=path, form=form, fields=_fields(client))


@pages.post("/clients/<id>/edit")
@rerender_on_error(lambda form, id: edit_client(id, form))
def change_client(id: str) -> Response:
    data = load_form(CLIENT_PATCH, request.form, FIELDS)
    other_changes = edits.save(CLIENT, id, data, partial(clients.update, id))
    edits.flash_saved(other_changes)
    return see_other(f"/clients/{id}")


@pages.post("/clients/<id>/delete")
@rerender_on_error(lambda form, id: show_client(id, refused=form))
def delete_client(id: str) -> Response:
    client = clients.delete(id)
    record_sections.flash_deleted("client", id, client.name)
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
    fields = record_fields("contact", CONTACT_FIELDS)
    return render("clients/contact.html", client=client, contact=contact, form=form, fields=fields)


@pages.post("/clients/<id>/contacts/<contact_id>")
@rerender_on_error(lambda form, id, contact_id: edit_contact(id, contact_id, form))
def change_contact(id: str, contact_id: str) -> Response:
    data = load_form(CONTACT_PATCH, request.form, CONTACT_FIELDS)
    update = partial(clients.update_contact, id, contact_id)
    other_changes = edits.save(CONTACT, contact_id, data, update)
    edits.flash_saved(other_changes)
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


def _fields(client: dict[str, Any]) -> list[RecordField]:
    return record_fields("client", FIELDS, client)


def _known_tags() -> list[str]:
    """The tags of live clients, at most MAX_KNOWN_TAGS."""
    tags = rows(
        "SELECT DISTINCT tag FROM client_tag JOIN client ON client.id = client_tag.client_id"
        " WHERE client.deleted_at IS NULL ORDER BY tag LIMIT ?",
        (MAX_KNOWN_TAGS,),
    )
    return [tag for (tag,) in tags]


def _deals(id: str, condition: str) -> list[dict[str, Any]]:
    """The client's deals, the newest first."""
    order = "ORDER BY id DESC LIMIT ?"
    condition = f"client_id = ? AND {condition} AND deleted_at IS NULL"
    return DEAL.every(f"{condition} {order}", integer_id(id), MAX_DEALS)


def _open_amounts(id: str) -> list[dict[str, Any]]:
    """The sums of the open deals by currency, in the form of the client's `won_amounts`."""
    sums = rows(
        "SELECT currency, sum(amount / 100) FROM deal WHERE client_id = ? AND status = 'open'"
        " AND deleted_at IS NULL AND amount IS NOT NULL GROUP BY currency ORDER BY currency",
        (integer_id(id),),
    )
    return [{"currency": code, "amount": as_number(total, 100)} for code, total in sums]
