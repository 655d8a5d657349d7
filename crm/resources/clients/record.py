"""Clients: companies and persons, with their contacts and tags (spec: Clients; D2–D6, D15, D17).

A client's contacts and tags are part of the client: every change of them is a change of the client,
with one client.updated, one version more and one entry of the audit trail. At most one contact is
primary: the one sent as such, else the first contact of a client without any, or of one whose
primary contact has just been deleted. A client with open deals can't be deleted; deals keep the
name of a deleted client.
"""

from collections.abc import Callable, Iterator
from typing import Any

from peewee import IntegerField

from crm.access import rights
from crm.config import MAX_CONTACTS
from crm.errors import FaultCollector, Invalid, NotFound
from crm.json import loads
from crm.outbox import events
from crm.records import columns, fields, nested, parameters, search
from crm.records.columns import N_, Shown
from crm.records.record import Record, SoftDeletedRecord, reference
from crm.records.schemas import RecordSchema, schema_of
from crm.records.sizes import MAX_PARTS_BYTES, check_parts
from crm.records.views import RecordView
from crm.resources import duplicates, tenant
from crm.resources.users import User
from crm.tenancy.database import execute, execute_many, one_row, settings, transaction
from crm.tenancy.dialect import json_rows

TYPES = ("company", "person")


class Client(SoftDeletedRecord):
    """One client, in stored form."""

    noun = "client"

    type = columns.Choice(
        *TYPES,
        allow_none=False,
        default="person",
        filtered=parameters.Equals(),
        label=N_("Type"),
        form="new",
    )
    name = columns.Text(
        255,
        required=True,
        example="ТОВ Ромашка",
        searched=True,
        sorted=True,
        label=N_("Name or company"),
        form="new",
    )
    phone = columns.Phone(searched=True, label=N_("Phone"), form="new")
    email = columns.Email(searched=True, label=N_("E-mail"), form="new")
    website = columns.Text(2048, example="https://romashka.example.com", label=N_("Website"))
    address = columns.LongText(example="Київ, вул. Хрещатик, 1", label=N_("Address"))
    tax_number = columns.Text(64, example="12345678", label=N_("Tax number"))
    tags = columns.Tags(label=N_("Tags"), form="new")
    assigned_to = columns.Id(
        example="1",
        filtered=parameters.User(about="A user's id, `me` or `none`."),
        label=N_("Responsible"),
        form="new",
        csv=False,
    )
    source = columns.Text(64, example="referral", label=N_("Source"), form="new")
    comment = columns.LongText(label=N_("Comment"), form="new")
    contacts = Shown(
        lambda: Contacts(
            CONTACT.schema,
            sent=ContactEntry(),
            column=CONTACTS,
            expanded=True,
            max_items=MAX_CONTACTS,
            max_bytes=MAX_PARTS_BYTES,
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
            MoneySchema.out("MoneyOut"),
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
        yield from (self.name, self.phone, self.email)
        for contact in self.list_contacts():
            yield from (contact.name, contact.phone, contact.email)

    def list_contacts(self) -> list["Contact"]:
        """The contacts in the order they were entered."""
        return Contact.every("client_id = ? ORDER BY id", self.id) if self.id else []

    def contact(self, id: int | str, expected_version: int | None = None) -> "Contact":
        """The contact of that id; raises NotFound, also for another client's, and Stale."""
        contact = Contact.find(id, expected_version)
        if contact.client_id != self.id:
            raise NotFound
        return contact

    def update_fields(self, data: dict[str, Any]) -> None:
        """Change the sent fields by the rules of update(); inside a transaction."""
        reference(User, data.get("assigned_to"), "assigned_to")
        values = {name: value for name, value in data.items() if name != "contacts"}
        related = self._replace_contacts(data["contacts"] or []) if "contacts" in data else {}
        before = self.put(values, related)
        if "tags" in before:
            self._index_tags()
        if "name" in before:
            for callback in after_rename:
                callback(self)
        if before:
            body = {"client": CLIENT.one(self.id)}
            events.emit(events.CLIENT_UPDATED, self.id, body, CLIENT.show(before))

    def _replace_contacts(self, entries: list[dict[str, Any]]) -> dict[str, tuple[str, str]]:
        """Make these the client's contacts: {"contacts": (before, after)}, {} if none differs."""
        before = _contacts_text(self.id)
        contacts_by_id = {contact.id: contact for contact in self.list_contacts()}
        # A client with more contacts than the plan allows by now may be edited, but not grow.
        if len(entries) > len(contacts_by_id) and len(entries) > settings().contacts[tenant.plan()]:
            raise Invalid.field("contacts", "too_many", describe_contact_limit())
        _check_contacts(contacts_by_id, entries)
        entry_of = {entry["id"]: entry for entry in entries if entry.get("id")}
        primary = _primary(contacts_by_id, entry_of, entries)
        for id, contact in contacts_by_id.items():
            if id not in entry_of:
                for callback in before_contact_delete:
                    callback(contact)
                contact.erase()
        # The old primary contact is changed first: an index allows only one at any time.
        for id, entry in sorted(entry_of.items(), key=lambda pair: pair[1] is primary):
            contacts_by_id[id].put({**_own_fields(entry), "is_primary": int(entry is primary)})
        for entry in entries:
            if not entry.get("id"):
                values = {**_own_fields(entry), "is_primary": int(entry is primary)}
                Contact.add({"client_id": self.id, **values})
        after = _contacts_text(self.id)
        if before == after:
            return {}
        check_parts("contacts", loads(before), loads(after))
        return {"contacts": (before, after)}

    def _index_tags(self) -> None:
        execute("DELETE FROM client_tag WHERE client_id = ?", (self.id,))
        tags = {search.fold(tag) for tag in loads(self.tags or "[]")}
        pairs = [(tag, self.id) for tag in tags]
        execute_many("INSERT INTO client_tag (tag, client_id) VALUES (?, ?)", pairs)


class Contact(Record):
    """A person to talk to at a client."""

    noun = "contact"

    client_id = IntegerField()
    name = columns.Text(
        255, required=True, example="Олена Коваль", sorted=True, label=N_("Full name")
    )
    position = columns.Text(255, example="бухгалтерка", label=N_("Position"))
    phone = columns.Phone(label=N_("Phone"))
    email = columns.Email(label=N_("E-mail"))
    is_primary = columns.Boolean(
        allow_none=False,
        null=False,
        about="At most one contact of a client is; by default the first.",
    )
    comment = columns.LongText(label=N_("Comment"))


# What resources that refer to clients do when one changes; deals/client_changes.py registers it.
before_delete: list[Callable[[Client], None]] = []
after_rename: list[Callable[[Client], None]] = []
before_contact_delete: list[Callable[[Contact], None]] = []


def create(data: dict[str, Any]) -> int:
    """Add a client, with contacts if there are any; one client.created.

    Returns the client's id. Raises Invalid.
    """
    values = {name: value for name, value in data.items() if name != "contacts"}
    with transaction():
        reference(User, data.get("assigned_to"), "assigned_to")
        client = Client.add({"type": "person", **values})
        if client.tags:
            client._index_tags()
        if data.get("contacts"):
            client._replace_contacts(data["contacts"])
            client.refold()  # the search text has the contacts, which came after the insert
        events.emit(events.CLIENT_CREATED, client.id, {"client": CLIENT.one(client.id)})
        return client.id


def update(id: int | str, data: dict[str, Any], expected_version: int | None = None) -> Client:
    """Change the sent fields of a client; one client.updated if anything differs.

    `contacts` are all that the client shall have: an entry without an id is a new contact, one with
    an id changes the fields it names, and a contact that isn't listed is deleted. Raises Invalid,
    NotFound and Stale.
    """
    with transaction():
        client = Client.find(id, expected_version)
        client.update_fields(data)
        return client


def delete(id: int | str, expected_version: int | None = None) -> Client:
    """Soft-delete a client. Raises NotFound, Stale, and Conflict `client_has_open_deals`."""
    with transaction():
        client = Client.find(id, expected_version)
        for callback in before_delete:
            callback(client)
        client.remove()
        return client


def restore(id: int | str) -> Client:
    """Undo delete(). Raises NotFound, and Conflict `duplicate_external_id`."""
    with transaction():
        client = Client.removed(id)
        client.restore()
        return client


def create_contact(client_id: int | str, data: dict[str, Any]) -> int:
    """Add a contact to a client and return the contact's id. Raises Invalid and NotFound."""
    with transaction():
        client = Client.find(client_id)
        entries = [{"id": contact.id} for contact in client.list_contacts()]
        client.update_fields({"contacts": [*entries, data]})
        return client.list_contacts()[-1].id


def update_contact(
    client_id: int | str, id: int | str, data: dict[str, Any], expected_version: int | None = None
) -> Contact:
    """Change the sent fields of a contact. Raises Invalid, NotFound, and Stale for its version."""
    with transaction():
        client = Client.find(client_id)
        contact = client.contact(id, expected_version)
        others = [{"id": other.id} for other in client.list_contacts() if other.id != contact.id]
        client.update_fields({"contacts": [{**data, "id": contact.id}, *others]})
        return client.contact(id)


def delete_contact(
    client_id: int | str, id: int | str, expected_version: int | None = None
) -> Contact:
    """Delete a contact; deals go on without one. Raises NotFound, and Stale for its version."""
    with transaction():
        client = Client.find(client_id)
        contact = client.contact(id, expected_version)
        others = [{"id": other.id} for other in client.list_contacts() if other.id != contact.id]
        client.update_fields({"contacts": others})
        return contact


def match(email: str | None, phone: str | None) -> Client | None:
    """The live client with the same email, else the same phone, its own or a contact's (D5)."""
    for name, value in (("email", email), ("phone", phone)):
        if value and (client := Client.first(f"id IN ({having(f'{name} = ?')})", value, value)):
            return client
    return None


def having(condition: str) -> str:
    """Build an SQL query: ids of clients that meet a condition themselves or by a contact."""
    return (
        f"SELECT id FROM client WHERE {condition}"
        f" UNION SELECT client_id FROM contact WHERE {condition}"
    )


def _check_contacts(contacts_by_id: dict[int, Contact], entries: list[dict[str, Any]]) -> None:
    faults, seen_ids, has_primary = FaultCollector(), set(), False
    for number, entry in enumerate(entries):
        pointer = f"contacts/{number}"
        id: int | None = entry.get("id")
        if id and id not in contacts_by_id:
            faults.add(f"{pointer}/id", "unknown_id", "this client has no contact with this id")
        if id and id in seen_ids:
            faults.add(f"{pointer}/id", "repeated", "this contact is listed twice")
        if not id and "name" not in entry:
            faults.add(f"{pointer}/name", "required", "this field is required")
        if has_primary and entry.get("is_primary"):
            faults.add(f"{pointer}/is_primary", "second_primary", "only one contact can be primary")
        for name in READ_ONLY.intersection(entry):
            # Without the right to read any value is refused: guesses would reveal the stored one.
            contact = contacts_by_id.get(id) if id and rights.can_read("clients") else None
            if contact is None or getattr(contact, name) != entry[name]:
                faults.add(f"{pointer}/{name}", "read_only", "this field cannot be changed")
        seen_ids.add(id)
        has_primary = has_primary or bool(entry.get("is_primary"))
    faults.raise_any()


def _primary(
    existing: dict[int, Contact], entry_of: dict[int, dict[str, Any]], entries: list[dict[str, Any]]
) -> dict[str, Any] | None:
    """Return the entry whose contact becomes or stays the primary one; None if no contact is."""
    for entry in entries:
        if entry.get("is_primary"):
            return entry
    primary_id = next((id for id, contact in existing.items() if contact.is_primary), None)
    if primary_id is not None and primary_id in entry_of:
        return None if "is_primary" in entry_of[primary_id] else entry_of[primary_id]
    if entry_of and primary_id is None:
        return None  # an earlier request has set that no contact is
    candidates = [entry_of[id] for id in sorted(entry_of)] + [
        entry for entry in entries if not entry.get("id") and "is_primary" not in entry
    ]
    return candidates[0] if candidates else None


def _own_fields(entry: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in entry.items() if name in CONTACT_IN.fields}


def describe_contact_limit() -> str:
    """Return a sentence that names how many contacts a client may have in the tenant's plan."""
    plan = tenant.plan()
    return f"at most {settings().contacts[plan]} contacts of a client in the plan {plan}"


def _contacts_text(client_id: int) -> str:
    return one_row(f"SELECT {CONTACTS} FROM client WHERE id = ?", (client_id,))[0]


ContactSchema = schema_of(Contact)
CONTACT: RecordView = RecordView(ContactSchema.out("ContactOut"), "contact", live=False)
CONTACT_IN = ContactSchema.body("ContactIn")
CONTACT_PATCH = ContactSchema.patch("ContactPatch")
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


class Contacts(nested.NestedList):
    """All contacts of a client; how many they may be depends on the tenant's plan."""

    def limit_text(self) -> str:
        return describe_contact_limit()


class WonAmount(fields.Amount):
    """A sum of amounts, in 1/100: in 1/10 000 a hundred of the largest would not fit 64 bits."""

    scale = 100

    def schema_type(self) -> dict[str, Any]:
        return {"type": "number", "minimum": 0}


class MoneySchema(RecordSchema):
    currency = fields.Currency(dump_only=True)
    amount = WonAmount(dump_only=True)


ClientSchema = schema_of(Client)
CLIENT = RecordView(ClientSchema.out("ClientOut"), "client", expand=["contacts"])
LISTED_CLIENT = RecordView(CLIENT.schema, "client")
CLIENT_IN = ClientSchema.body("ClientIn")
CLIENT_PATCH = ClientSchema.patch("ClientPatch")
