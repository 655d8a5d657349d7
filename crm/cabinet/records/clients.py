"""Clients: companies and persons, with their contacts and deals."""

from functools import partial

from flask import request
from werkzeug.wrappers import Response

from crm.cabinet import edits
from crm.cabinet.forms import Form, load_form
from crm.cabinet.languages import N_, gettext
from crm.cabinet.records import lists
from crm.cabinet.records.record_fields import form_names, record_fields
from crm.cabinet.records.record_pages import add_record_pages
from crm.cabinet.records.record_sections import render_card
from crm.cabinet.rendering import OWNER, SELLER, Pages, confirmed, render, see_other
from crm.json import dumps, integer_id
from crm.resources import personal_data
from crm.resources.clients import record as clients
from crm.resources.clients.endpoints import CLIENT_FILTER
from crm.resources.deals.figures import newest_of_clients, open_amounts
from crm.resources.pipelines.record import STAGE

CARD_FIELDS = [name for name in form_names("client") if name != "name"]
CONTACT_FIELDS = form_names("contact")
MAX_DEALS = 100  # in each table of a card
LIST = lists.ListPage(
    clients.LISTED_CLIENT,
    CLIENT_FILTER,
    N_("Clients"),
    filters=("type", "tag", "assigned_to"),
    sorts=(lists.NEWEST_FIRST, lists.OLDEST_FIRST, lists.UPDATED_FIRST, lists.BY_NAME),
    columns=("name", "phone", "tags", "assigned_to", "deals_open", "won_amounts"),
    more_columns=("type", "email", "source", "address", "created_at", "updated_at"),
    tabs=((N_("All"), {}), (N_("Mine"), {"assigned_to": "me"}), lists.NOBODYS),
    new=N_("New client"),
)

MAX_MENTIONS = 20  # records that the question before an erasure names

pages = Pages("clients")


@pages.get("/clients/<id>")
def show_client(id: str, form: Form | None = None, refused: Form | None = None) -> Response:
    client = clients.CLIENT.expanded(["possible_duplicates"]).one(id)
    form = form or Form()
    form.prefix = "contact-"
    return render_card(
        "client",
        client,
        CARD_FIELDS,
        contact_fields=record_fields("contact", CONTACT_FIELDS),
        form=form,
        refused=refused,
        open_deals=newest_of_clients([id], ["open"], MAX_DEALS),
        closed_deals=newest_of_clients([id], ["won", "lost"], MAX_DEALS),
        open_amounts=open_amounts(id),
        stages={stage["id"]: stage["name"] for stage in STAGE.every("TRUE")},
    )


add_record_pages(pages, clients.CLIENT, clients, list=LIST, delete_page=show_client)


@pages.get("/clients/<id>/personal-data", role=OWNER)
def download_personal_data(id: str) -> Response:
    records = personal_data.find_records("client", clients.Client.find(id).id)
    headers = {"Content-Disposition": f'attachment; filename="client-{integer_id(id)}.json"'}
    return Response(dumps(personal_data.collect(records)), 200, headers, "application/json")


@pages.post("/clients/<id>/erase", role=OWNER)
def erase_client(id: str) -> Response:
    name = clients.Client.find(id).name
    question = gettext("Erase the personal data of “%(name)s” for good?", name=name)
    counts, mentions = personal_data.erase("client", id, dry_run=True)
    detail = gettext(
        "Deals: %(deals)s, leads: %(leads)s, tasks: %(tasks)s, contacts: %(contacts)s, notes:"
        " %(notes)s, files: %(files)s, offers: %(offers)s. Deals keep their amounts, stages and"
        " dates under a neutral name; everything else is erased. This cannot be undone. Backups and"
        " programs that got webhooks keep what they have.",
        **counts,
    )
    if counts["kept_papers"]:
        detail += " " + gettext(
            "Invoices, acts and delivery notes stay as they are, as the law asks: %(count)s.",
            count=counts["kept_papers"],
        )
    if mentions:
        listed = ", ".join(f"/{noun}s/{id}" for noun, id in mentions[:MAX_MENTIONS])
        detail += " " + gettext(
            "Texts of %(count)s other records mention this person, and lose the name, the phone and"
            " the e-mail: %(listed)s%(more)s",
            count=len(mentions),
            listed=listed,
            more=" …" if len(mentions) > MAX_MENTIONS else "",
        )
    with confirmed(question, gettext("Erase"), f"/clients/{id}", detail):
        personal_data.erase("client", id, dry_run="sure" not in request.form)
    return see_other(f"/clients/{id}", gettext("Personal data erased"))


@pages.post("/clients/<id>/contacts", page=show_client, once=True)
def create_contact(id: str) -> Response:
    clients.create_contact(id, load_form(clients.CONTACT_IN, CONTACT_FIELDS))
    return see_other(f"/clients/{id}#contacts", gettext("Contact added"))


@pages.get("/clients/<id>/contacts/<contact_id>", role=SELLER)
def edit_contact(id: str, contact_id: str, form: Form | None = None) -> Response:
    client = clients.Client.find(id)
    contact = clients.CONTACT.one(clients.Contact.of(client, contact_id).id)
    form = form or edits.open_form(contact, CONTACT_FIELDS)
    fields = record_fields("contact", CONTACT_FIELDS)
    return render("clients/contact.html", client=client, contact=contact, form=form, fields=fields)


@pages.post("/clients/<id>/contacts/<contact_id>", page=edit_contact)
def change_contact(id: str, contact_id: str) -> Response:
    data = load_form(clients.CONTACT_PATCH, CONTACT_FIELDS)
    edits.save(clients.CONTACT, contact_id, data, partial(clients.update_contact, id, contact_id))
    return see_other(f"/clients/{id}#contacts")


@pages.post("/clients/<id>/contacts/<contact_id>/primary")
def make_primary(id: str, contact_id: str) -> Response:
    clients.update_contact(id, contact_id, {"is_primary": 1})
    return see_other(f"/clients/{id}#contacts")


@pages.post("/clients/<id>/contacts/<contact_id>/delete")
def delete_contact(id: str, contact_id: str) -> Response:
    name = clients.Contact.of(clients.Client.find(id), contact_id).name
    question = gettext("Delete the contact “%(name)s”?", name=name)
    with confirmed(question, gettext("Delete"), f"/clients/{id}#contacts"):
        clients.delete_contact(id, contact_id)
    return see_other(f"/clients/{id}#contacts", gettext("Contact deleted"))
