"""Clients: companies and persons, with their contacts and tags (spec: Clients; D2–D6, D15, D17).

A client's contacts and tags are part of the client: every change of them is a change of the client,
with one client.updated, one version more and one entry of the audit trail. At most one contact is
primary: the one sent as such, else the one that is, else the first. A client with open deals can't
be deleted; deals keep the name of a deleted client.
"""

import re
from collections.abc import Iterator
from typing import Any

from peewee import IntegerField, TextField

from crm.alerts import alerts
from crm.config.readers import MAX_CONTACTS
from crm.errors import Fault, Invalid
from crm.json import loads
from crm.outbox import events
from crm.papers.requisites import RequisitesColumn
from crm.records import columns, fields, nested, parameters, verbs
from crm.records.columns import N_, Shown
from crm.records.custom.values import Custom
from crm.records.record import Record, SoftDeletedRecord
from crm.records.retention import erase_deleted
from crm.records.schemas import RecordSchema
from crm.records.views import RecordView, declare_views
from crm.records.words import Word
from crm.resources import duplicates, tenant
from crm.resources.clients.contact_entries import check_entries, find_primary
from crm.resources.users import assignee, require_assignee, with_assignee
from crm.storage import own_rows
from crm.storage.dialect import equals, json_rows
from crm.storage.session import one_row, settings, transaction

TYPES = ("company", "person")


class Client(SoftDeletedRecord):
    """One client, in stored form."""

    noun = "client"
    is_tagged = True

    type = columns.Choice(
        *TYPES, default="person", filtered=parameters.Equals(), label=N_("Type"), form="new"
    )
    name = columns.Text(
        255,
        required=True,
        example="ТОВ Ромашка",
        searched=True,
        sorted="sort_key",
        label=N_("Name or company"),
    )
    sort_key = TextField(default="")
    phone = columns.Phone(searched=True, label=N_("Phone"), form="new")
    email = columns.Email(searched=True, label=N_("E-mail"), form="new")
    website = columns.Text(
        2048, example="https://romashka.example.com", searched=True, label=N_("Website")
    )
    address = columns.LongText(example="Київ, вул. Хрещатик, 1", searched=True, label=N_("Address"))
    tax_number = columns.Text(
        64,
        example="12345678",
        searched=True,
        filtered=parameters.Equals(about="The number of the tax office.", rare=True),
        label=N_("Tax number"),
    )
    requisites = RequisitesColumn(
        example={"legal_name": "ТОВ «Ромашка»", "edrpou": "14360570"},
        about="For papers. A change sends the keys that it changes.",
        label=N_("Requisites"),
    )
    tags = columns.Tags(searched=True, label=N_("Tags"), form="new")
    assigned_to = assignee()
    created_by = columns.Id(dump_only=True, allow_none=True)
    source = Word(64, "source", example="referral", label=N_("Source"), form="new")
    comment = columns.LongText(label=N_("Comment"), form="new")
    custom = Custom("clients")
    contacts = Shown(
        lambda: nested.NestedList(
            CONTACT.schema,
            sent=ContactEntry(),
            column=CONTACTS,
            expanded=True,
            max_items=MAX_CONTACTS,
            about="In a change: all the contacts there shall be."
            " In lists only with `expand=contacts`.",
        ),
        label=N_("Contacts"),
    )
    deals_open = Shown(
        fields.Integer(
            0,
            1 << 53,
            dump_only=True,
            column="(SELECT count(*) FROM deal WHERE deal.client_id = client.id"
            " AND deal.status = 'open' AND deal.deleted_at IS NULL)",
            about="How many open deals there are.",
        )
    )
    won_amounts = Shown(
        lambda: nested.NestedList(
            MONEY,
            column=json_rows(
                {"currency": "currency", "amount": "sum(amount / 100)"},
                "deal WHERE deal.client_id = client.id AND deal.status = 'won'"
                " AND deal.deleted_at IS NULL AND amount IS NOT NULL GROUP BY currency"
                " ORDER BY currency",
            ),
            dump_only=True,
            about="The sum of all won deals in each currency.",
        )
    )
    possible_duplicates = Shown(duplicates.field("client"))

    def search_texts(self) -> Iterator[str | None]:
        yield from super().search_texts()
        for contact in self.list_contacts():
            yield from (contact.name, contact.phone, contact.email)

    def list_contacts(self) -> list["Contact"]:
        """The contacts in the order they were entered."""
        return Contact.every("client_id = ? ORDER BY id", self.id) if self.id else []

    def entries_except(self, id: int | None) -> list[dict[str, Any]]:
        """The contacts but that of this id, as update() takes those that do not change."""
        return [{"id": contact.id} for contact in self.list_contacts() if contact.id != id]

    def put_contact(self, entry: dict[str, Any]) -> None:
        """Change a contact, or add one without an id; errors name its fields, not the list's."""
        try:
            self.update_fields({"contacts": [entry, *self.entries_except(entry.get("id"))]})
        except Invalid as error:
            own = [(re.sub("^/contacts(/0)?", "", f.where), f.code, f.detail) for f in error.faults]
            raise Invalid([Fault(*fault) for fault in own]) from None

    def update_fields(self, data: dict[str, Any]) -> None:
        """Change the sent fields; one client.updated if anything differs. Inside a transaction.

        `contacts` are all that the client shall have: an entry without an id is a new contact, one
        with an id changes the fields it names, and a contact that isn't listed is deleted. Raises
        Invalid.
        """
        if "assigned_to" in data:
            require_assignee(data, self)
        values = {name: value for name, value in data.items() if name != "contacts"}
        related = self._replace_contacts(data["contacts"] or []) if "contacts" in data else {}
        before = self.save_changes(values, related)
        if "name" in before:
            client_changes.copy_client_name(self)
        if before:
            body = {"client": CLIENT.one(self.id)}
            events.emit(events.CLIENT_UPDATED, self.id, body, CLIENT.show(before))
        if "assigned_to" in before:
            alerts.add_assigned(self)

    def put_back(self, values: dict[str, Any]) -> None:
        """Give it the values before a change that is undone; one client.updated.

        The contacts that were added are deleted; those that are gone come back as new ones.
        """
        if "contacts" in values:
            ids = {contact.id for contact in self.list_contacts()}
            entries = [
                {name: value for name, value in contact.items() if name in CONTACT_IN.fields}
                | ({"id": contact["id"]} if contact["id"] in ids else {})
                for contact in loads(values["contacts"])
            ]
            values = {**values, "contacts": entries}
        self.update_fields(values)

    def remove(self, **merged_into: str) -> None:
        """Soft-delete it. Raises Conflict `client_has_open_deals`."""
        client_changes.refuse_with_open_deals(self)
        super().remove(**merged_into)

    def _replace_contacts(self, entries: list[dict[str, Any]]) -> dict[str, tuple[str, str]]:
        """Make these the client's contacts: {"contacts": (before, after)}, {} if none differs."""
        before = contacts_text(self.id)
        contacts_by_id = {contact.id: contact for contact in self.list_contacts()}
        # A client with more contacts than the plan allows by now may be edited, but not grow.
        if len(entries) > len(contacts_by_id):
            require_contact_limit(len(entries))
        check_entries(contacts_by_id, entries, READ_ONLY)
        entry_of = {entry["id"]: entry for entry in entries if entry.get("id")}
        primary = find_primary(contacts_by_id, entry_of, entries)
        for id, contact in contacts_by_id.items():
            if id not in entry_of:
                client_changes.clear_contact(contact)
                contact.erase()
        # The old primary contact is changed first: an index allows only one at any time.
        for id, entry in sorted(entry_of.items(), key=lambda pair: pair[1] is primary):
            contacts_by_id[id].save_changes(_own_fields(entry, primary))
        for entry in entries:
            if not entry.get("id"):
                Contact.add({"client_id": self.id, **_own_fields(entry, primary)})
        after = contacts_text(self.id)
        if before == after:
            return {}
        nested.check_parts("contacts", loads(before), loads(after))
        return {"contacts": (before, after)}


own_rows.declare_records("client")
# A row of a deleted record that refers to it goes first: it has been deleted for 30 days, too.
erase_deleted("client", "lead", "deal", "task")


class Contact(Record):
    """A person to talk to at a client."""

    noun = "contact"

    client_id = IntegerField()
    name = columns.Text(
        255, required=True, example="Олена Коваль", sorted="sort_key", label=N_("Full name")
    )
    sort_key = TextField(default="")
    position = columns.Text(255, example="бухгалтерка", label=N_("Position"))
    phone = columns.Phone(label=N_("Phone"))
    email = columns.Email(label=N_("E-mail"))
    is_primary = columns.Boolean(
        allow_none=False, about="At most one contact of a client is; by default the first."
    )
    comment = columns.LongText(label=N_("Comment"))


own_rows.declare_parts("contact", "client")

# The module deals/client_changes.py, as crm/resources/__init__.py sets it: deals import clients.
client_changes: Any = None


def create(data: dict[str, Any]) -> int:
    """Add a client, with contacts if there are any; one client.created.

    Returns the client's id. Raises Invalid.
    """
    with transaction():
        values = {name: value for name, value in data.items() if name != "contacts"}
        client = Client.add({"type": "person", **with_assignee(values)})
        if data.get("contacts"):
            client._replace_contacts(data["contacts"])
            client.update_search_text()  # it has the contacts, which came after the insert
        events.emit(events.CLIENT_CREATED, client.id, {"client": CLIENT.one(client.id)})
        alerts.add_assigned(client)
        return client.id


update, delete, restore = verbs.of(Client)


def create_contact(client_id: int | str, data: dict[str, Any]) -> int:
    """Add a contact to a client and return the contact's id. Raises Invalid and NotFound."""
    with transaction():
        client = Client.find(client_id)
        client.put_contact(data)
        return client.list_contacts()[-1].id


def update_contact(
    client_id: int | str, id: int | str, data: dict[str, Any], expected_version: int | None = None
) -> Contact:
    """Change the sent fields of a contact. Raises Invalid, NotFound, and Stale for its version."""
    with transaction():
        client = Client.find(client_id)
        contact = Contact.of(client, id, expected_version)
        client.put_contact({**data, "id": contact.id})
        return Contact.of(client, id)


def delete_contact(
    client_id: int | str, id: int | str, expected_version: int | None = None
) -> Contact:
    """Delete a contact; deals go on without one. Raises NotFound, and Stale for its version."""
    with transaction():
        client = Client.find(client_id)
        contact = Contact.of(client, id, expected_version)
        client.update_fields({"contacts": client.entries_except(contact.id)})
        return contact


def match(email: str | None, phone: str | None) -> Client | None:
    """The live client with the same email, else the same phone, its own or a contact's (D5).

    Only of those that the actor may read: a client of somebody else is not told.
    """
    for name, value in (("email", email), ("phone", phone)):
        known = f"id IN ({having(equals(name))})"
        if value and (client := Client.first(known, value, value, own=True)):
            return client
    return None


def having(condition: str) -> str:
    """Build an SQL query: ids of clients that meet a condition themselves or by a contact."""
    return (
        f"SELECT id FROM client WHERE {condition}"
        f" UNION SELECT client_id FROM contact WHERE {condition}"
    )


def _own_fields(entry: dict[str, Any], primary: dict[str, Any] | None) -> dict[str, Any]:
    own = {name: value for name, value in entry.items() if name in CONTACT_IN.fields}
    return {**own, "is_primary": int(entry is primary)}


def require_contact_limit(count: int) -> None:
    """Raise Invalid unless a client may have so many contacts in the tenant's plan."""
    plan = tenant.about()["plan"]
    if count > (limit := settings().contacts[plan]):
        detail = f"at most {limit} contacts of a client in the plan {plan}"
        raise Invalid.field("contacts", "too_many", detail)


def contacts_text(client_id: int) -> str:
    """Return the contacts of a client as they are shown, as JSON."""
    return one_row(f"SELECT {CONTACTS} FROM client WHERE id = ?", (client_id,))[0]


CONTACT: RecordView
CONTACT, CONTACT_IN, CONTACT_PATCH = declare_views(Contact)
CONTACTS: str = json_rows(
    {name: name for name in CONTACT.fields},
    "contact WHERE contact.client_id = client.id ORDER BY id",
)
READ_ONLY = frozenset(CONTACT_PATCH.echoes) - {"id"}


class ContactEntry(type(CONTACT_PATCH)):  # type: ignore[misc]  # made from the declaration
    """A contact in a client's list: without an id a new one, with an id that one changed."""

    id = fields.Id(about="None for a new contact, which needs a name.")
    created_at = fields.DateTime(about="Read-only.")
    updated_at = fields.DateTime(about="Read-only.")
    version = fields.Integer(1, 1 << 53, about="Read-only.")


class WonAmount(fields.Amount):
    """A sum of amounts, in 1/100: in 1/10 000 a hundred of the largest would not fit 64 bits."""

    scale = 100

    def schema_type(self) -> dict[str, Any]:
        return {"type": "number", "minimum": 0}


class MoneySchema(RecordSchema):
    currency = fields.Currency(dump_only=True)
    amount = WonAmount(dump_only=True)


MONEY: RecordSchema = MoneySchema.out("MoneyOut")
CLIENT, CLIENT_IN, CLIENT_PATCH = declare_views(Client, expand=["contacts"])
LISTED_CLIENT = RecordView(CLIENT.schema, "client")
LISTED_CLIENT.body, LISTED_CLIENT.patch = CLIENT_IN, CLIENT_PATCH
