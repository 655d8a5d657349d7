"""Endpoints of clients, in the specification's order, and of their contacts (spec: Clients; D6)."""

from functools import partial

from crm.api.blueprints import Blueprint, Endpoints
from crm.records import fields, parameters, queries
from crm.records.columns import N_
from crm.records.conditions import Condition
from crm.records.tags import Tag
from crm.resources import duplicates
from crm.resources.clients import record as clients
from crm.resources.clients.record import CLIENT, CONTACT, LISTED_CLIENT, Client, Contact, having


class Reached(parameters.Equals):
    """The client's own or one of its contacts'."""

    def condition(self, sent: list[str], column: str) -> Condition:
        condition = super().condition(sent, column)
        ids = having(condition.sql)
        twice = [*condition.params, *condition.params]
        return Condition(f"id IN ({ids})", twice, ids, reads_row=True)


class ClientFilter(queries.filter_of(Client)):  # type: ignore[misc]  # made from the declaration
    tag = Tag("client")
    phone = Reached(fields.Phone(), about="The client's or a contact's, in any spelling.")
    email = Reached(fields.Email(), about="The client's or a contact's, in any case.")
    q = queries.Search(
        "client",
        "Words in name, phone, email, website, address, tax_number, tags, external_id, or in the"
        f" name, phone or email of a contact.{queries.SHORT_WORDS}",
    )
    expand = parameters.Expand("contacts")


CLIENT_FILTER = ClientFilter()

blueprint = Blueprint(
    "clients", "Companies and persons, with their contacts and tags.", N_("Clients")
)


all_clients = Endpoints(blueprint, "/clients", CLIENT)
all_clients.list(CLIENT_FILTER, view=LISTED_CLIENT)
all_clients.get(
    "Get one client with its contacts and tags.",
    partial(duplicates.show, CLIENT),
    query=duplicates.EXPANSION,
)
all_clients.create(
    clients.create,
    "Create a client, with contacts if there are any.",
    example={
        "type": "company",
        "name": "ТОВ Ромашка",
        "tags": ["опт"],
        "contacts": [{"name": "Олена Петренко", "phone": "+380501234567"}],
    },
)
all_clients.change(
    clients.update,
    "Change the sent fields of a client; `contacts` are all it shall have.",
    example={"tags": ["опт", "vip"], "comment": None},
)
all_clients.delete(clients.delete, "Delete a client without open deals.", conflicts=True)

contacts = Endpoints(blueprint, "/clients/<id>/contacts", CONTACT, id="contactId")
contacts.list(
    queries.filter_of(Contact, queries.Filter, unsorted=("created_at", "updated_at"))(),
    "List the contacts of a client, the newest first.",
    where=lambda id: ("client_id = ?", [Client.find(id).id]),
)
contacts.create(
    clients.create_contact,
    "Add a contact to a client.",
    example={"name": "Олена Петренко", "phone": "+380501234567"},
)
contacts.get(
    "Get one contact of a client.", lambda id, one: CONTACT.one(Contact.of(Client.find(id), one).id)
)
contacts.change(clients.update_contact, example={"position": "директорка", "is_primary": True})
contacts.delete(clients.delete_contact, "Remove a contact; its deals go on without one.")
