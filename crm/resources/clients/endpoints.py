"""Endpoints of clients, in the specification's order, and of their contacts (spec: Clients; D6)."""

from typing import Any

from crm.api.envelopes import page_of
from crm.api.operations import Blueprint
from crm.records import fields, pagination, parameters, queries
from crm.records.columns import N_
from crm.records.conditions import Condition
from crm.records.pagination import Page
from crm.records.parameters import Query
from crm.records.queries import filter_of
from crm.resources import duplicates
from crm.resources.clients import record as clients
from crm.resources.clients.csv_columns import CLIENTS
from crm.resources.clients.record import (
    CLIENT,
    CLIENT_IN,
    CLIENT_PATCH,
    CONTACT,
    CONTACT_IN,
    CONTACT_PATCH,
    LISTED_CLIENT,
    Client,
    Contact,
    having,
)
from crm.spreadsheets.endpoints import add_endpoints


class Reached(parameters.Equals):
    """The client's own or one of its contacts'."""

    def condition(self, sent: list[str], column: str) -> Condition:
        condition = super().condition(sent, column)
        ids = having(condition.sql)
        twice = [*condition.params, *condition.params]
        return Condition(f"id IN ({ids})", twice, ids, reads_row=True)


class ClientFilter(filter_of(Client)):  # type: ignore[misc]  # made from the declaration
    tag = parameters.Tag("client_tag", "client_id", "client.id", about="All of these, in any case.")
    phone = Reached(fields.Phone(), about="The client's or a contact's, in any spelling.")
    email = Reached(fields.Email(), about="The client's or a contact's, in any case.")
    q = parameters.Search("client", "Words in name, phone, email, or those of a contact.")
    expand = parameters.Expand("contacts")


class ClientView(queries.Filter):
    """What GET one takes."""

    expand = parameters.Expand("possible_duplicates")


CLIENT_FILTER = ClientFilter()
CLIENT_VIEW = ClientView(only=["expand"])
CONTACT_FILTER = filter_of(Contact, queries.Filter, unsorted=("created_at", "updated_at"))()

blueprint = Blueprint(
    "clients", "Companies and persons, with their contacts and tags.", N_("Clients")
)


@blueprint.get("/clients")
@blueprint.arguments(CLIENT_FILTER, location="query")
@blueprint.page(page_of(CLIENT.schema, deleted=True))
def list_clients(query: Query) -> Page:
    """List clients, the newest first."""
    return pagination.page(
        LISTED_CLIENT.expanded(query.expand), query, CLIENT_FILTER.fields["sort"]
    )


@blueprint.get("/clients/<id>")
@blueprint.arguments(CLIENT_VIEW, location="query")
@blueprint.one(CLIENT)
def get_client(query: Query, id: str) -> dict[str, Any]:
    """Get one client with its contacts and tags."""
    if not query.expand:
        return CLIENT.one(id)
    return duplicates.hide_unreadable(CLIENT.expanded(query.expand).one(id))


@blueprint.post("/clients")
@blueprint.arguments(
    CLIENT_IN,
    example={
        "type": "company",
        "name": "ТОВ Ромашка",
        "tags": ["опт"],
        "contacts": [{"name": "Олена Петренко", "phone": "+380501234567"}],
    },
)
@blueprint.created("client", CLIENT)
@blueprint.conflicts()
def create_client(data: dict[str, Any]) -> int:
    """Create a client, with contacts if there are any."""
    return clients.create(data)


@blueprint.patch("/clients/<id>")
@blueprint.arguments(CLIENT_PATCH, example={"tags": ["опт", "vip"], "comment": None})
@blueprint.one(CLIENT)
@blueprint.conflicts()
def change_client(
    data: dict[str, Any], id: str, expected_version: int | None = None
) -> dict[str, Any]:
    """Change the sent fields of a client; `contacts` are all it shall have."""
    return CLIENT.one(clients.update(id, data, expected_version).id)


@blueprint.delete("/clients/<id>")
@blueprint.empty()
@blueprint.conflicts()
def delete_client(id: str, expected_version: int | None = None) -> None:
    """Delete a client without open deals."""
    clients.delete(id, expected_version)


@blueprint.get("/clients/<id>/contacts")
@blueprint.arguments(CONTACT_FILTER, location="query")
@blueprint.page(page_of(CONTACT.schema))
def list_contacts(query: Query, id: str) -> Page:
    """List the contacts of a client, the newest first."""
    client = Client.find(id)
    return pagination.page(
        CONTACT, query, CONTACT_FILTER.fields["sort"], "client_id = ?", [client.id]
    )


@blueprint.post("/clients/<id>/contacts")
@blueprint.arguments(CONTACT_IN, example={"name": "Олена Петренко", "phone": "+380501234567"})
@blueprint.created("contact", CONTACT)
def create_contact(data: dict[str, Any], id: str) -> int:
    """Add a contact to a client."""
    return clients.create_contact(id, data)


@blueprint.get("/clients/<id>/contacts/<contactId>")
@blueprint.one(CONTACT)
def get_contact(id: str, contactId: str) -> dict[str, Any]:
    """Get one contact of a client."""
    return CONTACT.one(Client.find(id).contact(contactId).id)


@blueprint.patch("/clients/<id>/contacts/<contactId>")
@blueprint.arguments(CONTACT_PATCH, example={"position": "директорка", "is_primary": True})
@blueprint.one(CONTACT)
def change_contact(
    data: dict[str, Any], id: str, contactId: str, expected_version: int | None = None
) -> dict[str, Any]:
    """Change the sent fields of a contact."""
    return CONTACT.one(clients.update_contact(id, contactId, data, expected_version).id)


@blueprint.delete("/clients/<id>/contacts/<contactId>")
@blueprint.empty()
def delete_contact(id: str, contactId: str, expected_version: int | None = None) -> None:
    """Remove a contact; its deals go on without one."""
    clients.delete_contact(id, contactId, expected_version)


add_endpoints(blueprint, CLIENTS, ClientFilter)
