"""Clients: companies and persons, with their contacts and tags (spec: Clients; D2–D6, D15, D17).

A client's contacts and tags are part of it: whichever door changes them, it is a change of the
client, with one client.updated, one version more and one row in the trail. At most one contact is
the primary one: who is said to be, else the first of a client who had none yet, or whose primary
contact has just gone. A client with open deals stays; deals outlive a deleted client with its name.
"""

from collections.abc import Iterator
from typing import Any

from peewee import IntegerField, TextField

from crm.access import rights
from crm.config import MAX_CONTACTS
from crm.errors import Conflict, FaultCollector, Invalid, NotFound
from crm.json import loads
from crm.outbox import events
from crm.records import fields, nested, search
from crm.records.record import Record, SoftDeletedRecord, reference
from crm.records.sizes import PARTS_BYTES, check_parts
from crm.records.views import RecordSchema, RecordView
from crm.resources import duplicates, tenant
from crm.resources.users import User
from crm.tenancy.database import execute, execute_many, row, settings, transaction
from crm.tenancy.dialect import json_rows

TYPES = ("company", "person")
NAMED_DEALS = 10  # of a client's open deals, how many the refusal's sentence names


class Client(SoftDeletedRecord):
    """One client, in stored form."""

    noun = "client"

    type = TextField()
    name = TextField()
    phone = TextField(null=True)
    email = TextField(null=True)
    website = TextField(null=True)
    address = TextField(null=True)
    tax_number = TextField(null=True)
    tags = TextField(null=True)
    assigned_to = IntegerField(null=True)
    source = TextField(null=True)
    comment = TextField(null=True)

    def search_texts(self) -> Iterator[str | None]:
        yield from (self.name, self.phone, self.email)
        for contact in self.contacts():
            yield from (contact.name, contact.phone, contact.email)

    def contacts(self) -> list["Contact"]:
        """In the order they were entered."""
        return Contact.every("client_id = ? ORDER BY id", self.id) if self.id else []

    def contact(self, id: int | str) -> "Contact":
        """The contact of that id; NotFound also when it is another client's."""
        contact = Contact.find(id)
        if contact.client_id != self.id:
            raise NotFound
        return contact

    def change(self, data: dict[str, Any]) -> None:
        """Change the sent fields; inside a transaction. One client.updated if anything differs.

        `contacts` are all it shall have: without an id a new one, with an id that one changed in
        the fields it names; one not listed goes. Raises Invalid.
        """
        reference(User, data.get("assigned_to"), "assigned_to")
        values = {name: value for name, value in data.items() if name != "contacts"}
        beside = self._have_contacts(data["contacts"] or []) if "contacts" in data else {}
        before = self.put(values, beside)
        if "tags" in before:
            self._index_tags()
        if "name" in before:
            self._rename_deals()
        if before:
            record = {"client": CLIENT.one(self.id)}
            events.emit(events.CLIENT_UPDATED, self.id, record, CLIENT.show(before))

    def add_contact(self, data: dict[str, Any]) -> int:
        """Add a contact and give its id; a change of the client."""
        self.change({"contacts": [*({"id": contact.id} for contact in self.contacts()), data]})
        return self.contacts()[-1].id

    def change_contact(self, id: int | str, data: dict[str, Any]) -> int:
        """Change the sent fields of a contact and give its id; a change of the client."""
        changed = self.contact(id).id
        others = ({"id": contact.id} for contact in self.contacts() if contact.id != changed)
        self.change({"contacts": [{**data, "id": changed}, *others]})
        return changed

    def remove_contact(self, id: int | str) -> None:
        """A change of the client; deals with this contact go on without one."""
        gone = self.contact(id).id
        self.change({"contacts": [{"id": c.id} for c in self.contacts() if c.id != gone]})

    def remove(self, **last: Any) -> None:
        """Nobody finds it any more; its deals keep its name. Raises `client_has_open_deals`, which
        names them to who may read deals."""
        open_deals = ClientDeal.every("client_id = ? AND status = 'open' ORDER BY id", self.id)
        if open_deals and not rights.can_read("deals"):
            raise Conflict("the client has open deals", "client_has_open_deals")
        if open_deals:
            deals = [{"id": str(deal.id), "title": deal.title} for deal in open_deals]
            named = ", ".join(f"{deal['title']} ({deal['id']})" for deal in deals[:NAMED_DEALS])
            more = f" and {len(deals) - NAMED_DEALS} more" if len(deals) > NAMED_DEALS else ""
            raise Conflict(
                f"the client has open deals: {named}{more}", "client_has_open_deals", deals=deals
            )
        super().remove(**last)

    def _have_contacts(self, wanted: list[dict[str, Any]]) -> dict[str, tuple[str, str]]:
        """Make these the client's contacts: {"contacts": (before, after)}, {} if none differs."""
        before = _contacts_text(self.id)
        known = {contact.id: contact for contact in self.contacts()}
        if len(wanted) > len(known) and len(wanted) > settings().contacts[tenant.plan()]:
            raise Invalid.field("contacts", "too_many", at_most_contacts())
        _check_contacts(known, wanted)
        kept = {entry["id"]: entry for entry in wanted if entry.get("id")}
        primary = _primary(known, kept, wanted)
        for id, contact in known.items():
            if id not in kept:
                contact.erase()
        # One steps down before the other steps up: the file allows one primary at any time.
        for id, entry in sorted(kept.items(), key=lambda pair: pair[1] is primary):
            known[id].put({**_own(entry), "is_primary": int(entry is primary)})
        for entry in wanted:
            if not entry.get("id"):
                values = {**_own(entry), "is_primary": int(entry is primary)}
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

    def _rename_deals(self) -> None:
        for deal in ClientDeal.every("client_id = ? ORDER BY id", self.id):
            deal.put({"client_name": self.name})


class Contact(Record):
    """A person to talk to at a client."""

    noun = "contact"

    client_id = IntegerField()
    name = TextField()
    position = TextField(null=True)
    phone = TextField(null=True)
    email = TextField(null=True)
    is_primary = IntegerField(default=0)
    comment = TextField(null=True)

    def erase(self) -> None:
        for deal in ClientDeal.every("contact_id = ? ORDER BY id", self.id):
            deal.put({"contact_id": None})
        super().erase()


class ClientDeal(SoftDeletedRecord):
    """As much of a deal as its client has a say in; the deals' own record has the rest."""

    noun = "deal"

    title = TextField()
    status = TextField()
    client_id = IntegerField(null=True)
    client_name = TextField(null=True)
    contact_id = IntegerField(null=True)

    class Meta:
        table_name = "deal"

    def search_texts(self) -> tuple[str | None, ...]:
        return self.title, self.client_name


def create(data: dict[str, Any]) -> int:
    """Add a client and give its id; one client.created. Raises Invalid."""
    values = {name: value for name, value in data.items() if name != "contacts"}
    with transaction():
        reference(User, data.get("assigned_to"), "assigned_to")
        client = Client.add({"type": "person", **values})
        if client.tags:
            client._index_tags()
        if data.get("contacts"):
            client._have_contacts(data["contacts"])
            client.refold()
        events.emit(events.CLIENT_CREATED, client.id, {"client": CLIENT.one(client.id)})
        return client.id


def match(email: str | None, phone: str | None) -> Client | None:
    """The live client with the same email, else the same phone, its own or a contact's (D5)."""
    for name, value in (("email", email), ("phone", phone)):
        if value and (found := Client.first(f"id IN ({having(f'{name} = ?')})", value, value)):
            return found
    return None


def having(condition: str) -> str:
    """An SQL text: the ids of clients who meet a condition themselves or by a contact."""
    return (
        f"SELECT id FROM client WHERE {condition}"
        f" UNION SELECT client_id FROM contact WHERE {condition}"
    )


def _check_contacts(known: dict[int, Contact], wanted: list[dict[str, Any]]) -> None:
    faults, seen, primary = FaultCollector(), set(), False
    for number, entry in enumerate(wanted):
        where, id = f"contacts/{number}", entry.get("id")
        if id and id not in known:
            faults.add(f"{where}/id", "unknown_id", "this client has no contact with this id")
        if id and id in seen:
            faults.add(f"{where}/id", "repeated", "this contact is listed twice")
        if not id and "name" not in entry:
            faults.add(f"{where}/name", "required", "this field is required")
        if primary and entry.get("is_primary"):
            faults.add(f"{where}/is_primary", "second_primary", "only one contact can be primary")
        for name in READ_ONLY.intersection(entry):
            comparable = id in known and rights.can_read("clients")
            if not comparable or getattr(known[id], name) != entry[name]:
                faults.add(f"{where}/{name}", "read_only", "this field cannot be changed")
        seen.add(id)
        primary = primary or bool(entry.get("is_primary"))
    faults.raise_any()


def _primary(
    known: dict[int, Contact], kept: dict[int, dict[str, Any]], wanted: list[dict[str, Any]]
) -> dict[str, Any] | None:
    """Which of the wanted contacts is the primary one from now on."""
    for entry in wanted:
        if entry.get("is_primary"):
            return entry
    holder = next((id for id, contact in known.items() if contact.is_primary), None)
    if holder in kept:
        return None if "is_primary" in kept[holder] else kept[holder]
    if kept and holder is None:
        return None  # nobody was, as somebody said once
    first = [kept[id] for id in sorted(kept)] + [
        entry for entry in wanted if not entry.get("id") and "is_primary" not in entry
    ]
    return first[0] if first else None


def _own(entry: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in entry.items() if name in CONTACT_IN.fields}


def at_most_contacts() -> str:
    """How many contacts a client may have, for whoever sent more."""
    plan = tenant.plan()
    return f"at most {settings().contacts[plan]} contacts of a client in the plan {plan}"


def _contacts_text(client_id: int) -> str:
    return row(f"SELECT {CONTACTS} FROM client WHERE id = ?", (client_id,))[0]


class ContactSchema(RecordSchema):
    """All fields of a contact."""

    id = fields.Id(read_only=True)
    name = fields.Text(255, required=True)
    position = fields.Text(255, example="бухгалтерка")
    phone = fields.Phone()
    email = fields.Email()
    is_primary = fields.Boolean(
        nullable=False, about="At most one contact of a client is; by default the first."
    )
    comment = fields.LongText()
    created_at = fields.DateTime(read_only=True)
    updated_at = fields.DateTime(read_only=True)
    version = fields.Integer(1, 1 << 53, read_only=True)


CONTACT = RecordView(ContactSchema.out("ContactOut"), "contact", live=False)
CONTACT_IN = ContactSchema.body("ContactIn")
CONTACT_PATCH = ContactSchema.patch("ContactPatch")
CONTACTS = json_rows(
    {name: name for name in CONTACT.fields},
    "contact WHERE contact.client_id = client.id ORDER BY id",
)
READ_ONLY = frozenset(CONTACT_PATCH.echoes) - {"id"}


class ContactEntry(type(CONTACT_PATCH)):
    """A contact in a client's list: without an id a new one, with an id that one changed."""

    id = fields.Id(about="None for a new contact, which needs a name.")
    created_at = fields.DateTime(about="Read-only.")
    updated_at = fields.DateTime(about="Read-only.")
    version = fields.Integer(1, 1 << 53, about="Read-only.")


class Contacts(nested.NestedList):
    """All contacts of a client; how many they may be depends on the tenant's plan."""

    def limit_text(self) -> str:
        return at_most_contacts()


class WonAmount(fields.Amount):
    """A sum of amounts, in 1/100: in 1/10 000 a hundred of the largest would not fit 64 bits."""

    scale = 100

    def schema_type(self) -> dict[str, Any]:
        return {"type": "number", "minimum": 0}


class MoneySchema(RecordSchema):
    currency = fields.Currency(read_only=True)
    amount = WonAmount(read_only=True)


class ClientSchema(RecordSchema):
    """All fields of a client, in the order they are shown."""

    id = fields.Id(read_only=True)
    type = fields.Choice(*TYPES, nullable=False, default="person")
    name = fields.Text(255, required=True, example="ТОВ Ромашка")
    phone = fields.Phone()
    email = fields.Email()
    website = fields.Text(2048, example="https://romashka.example.com")
    address = fields.LongText(example="Київ, вул. Хрещатик, 1")
    tax_number = fields.Text(64, example="12345678")
    tags = fields.Tags()
    assigned_to = fields.Id(example="1")
    source = fields.Text(64, example="referral")
    comment = fields.LongText()
    contacts = Contacts(
        CONTACT.schema,
        sent=ContactEntry(),
        column=CONTACTS,
        expanded=True,
        most=MAX_CONTACTS,
        most_bytes=PARTS_BYTES,
        about="In a change: all the contacts there shall be. In lists only with `expand=contacts`.",
    )
    deals_open = fields.Integer(
        0,
        1 << 53,
        read_only=True,
        column="(SELECT count(*) FROM deal WHERE deal.client_id = client.id"
        " AND deal.status = 'open' AND deal.deleted_at IS NULL)",
        about="How many open deals there are.",
    )
    won_amounts = nested.NestedList(
        MoneySchema.out("MoneyOut"),
        column=json_rows(
            {"currency": "currency", "amount": "sum(amount / 100)"},
            "deal WHERE deal.client_id = client.id AND deal.status = 'won'"
            " AND deal.deleted_at IS NULL AND amount IS NOT NULL GROUP BY currency"
            " ORDER BY currency",
        ),
        read_only=True,
        about="The sum of all won deals in each currency.",
    )
    possible_duplicates = duplicates.field("client")
    external_id = fields.Text(128, example="1C-000123")
    extra = fields.Extra()
    created_at = fields.PastDateTime(create_only=True)
    updated_at = fields.DateTime(read_only=True)
    version = fields.Integer(1, 1 << 53, read_only=True)


CLIENT = RecordView(ClientSchema.out("ClientOut"), "client", expand=["contacts"])
LISTED_CLIENT = RecordView(CLIENT.schema, "client")
CLIENT_IN = ClientSchema.body("ClientIn")
CLIENT_PATCH = ClientSchema.patch("ClientPatch")
