"""Clients with their contacts as they move by CSV (spec: Clients; D6): one row per contact.

A contact is found by its id, else by its name at the client, the n-th of a name by the n-th row;
else it is a new one. Contacts that the file doesn't name stay as they are.
"""

from typing import Any

from crm.errors import FaultCollector
from crm.records.search import fold
from crm.resources.clients.record import (
    CLIENT_IN,
    CONTACT,
    Client,
    ClientSchema,
    ContactSchema,
    create,
)
from crm.resources.moving.cells import columns, id_column, reference
from crm.resources.moving.noun import Entry, Moving, matched
from crm.resources.moving.references import References
from crm.tenancy.database import rows
from crm.tenancy.dialect import among


class Clients(Moving):
    name, plural, record, body = "client", "clients", Client, CLIENT_IN
    part = "contact"
    own_columns = (
        *columns(
            ClientSchema,
            "client",
            (
                *("external_id", "type", "name", "phone", "email", "website", "address"),
                *("tax_number", "tags"),
            ),
        ),
        reference("assigned_to", "client.assigned_to", of="users"),
        *columns(
            ClientSchema,
            "client",
            ("source", "comment", "created_at", "extra"),
            new=("created_at",),
        ),
    )
    part_columns = (
        id_column("contact_id", "contact.id"),
        *columns(
            ContactSchema,
            CONTACT.table,
            ("name", "position", "phone", "email", "is_primary", "comment"),
            prefix="contact_",
        ),
    )

    def shows(self, here: References) -> dict[str, Any]:
        return {"assigned_to": here.text_of_user}

    def parts_of(self, ids: str) -> list[tuple[Any, ...]]:
        chosen = ", ".join(column.sql for column in self.part_columns)
        sql = f"SELECT client_id, {chosen} FROM contact WHERE {among('client_id')} ORDER BY id"
        return rows(sql, (ids,))

    def settle(
        self, values: dict[str, Any], record: Any, of: str | None, here: References
    ) -> dict[str, Any]:
        if (text := values.get("assigned_to")) is not None:
            values["assigned_to"] = here.user(text, "assigned_to", of is not None)
        return values

    def create(self, data: dict[str, Any], entry: Entry, of: str | None) -> int:
        return create({**data, **self._contacts(None, entry, of)})

    def change(self, record: Any, data: dict[str, Any], entry: Entry, of: str | None) -> None:
        record.change({**data, **self._contacts(record, entry, of)})

    def _contacts(self, client: Client | None, entry: Entry, of: str | None) -> dict[str, Any]:
        """All the contacts that the client shall have, if the file has any of it."""
        if not entry.parts:
            return {}
        known = client.contacts() if client else []
        wanted = self.parts(entry, of)
        found = matched(wanted, known, lambda contact: [fold(contact.name)], _name_of)
        faults, contacts = FaultCollector(), []
        for number, (part, contact) in enumerate(zip(wanted, found, strict=True)):
            id = part.pop("id", None)
            if id is not None and contact is None:
                detail = f"this client has no contact {id}"
                faults.add(f"contacts/{number}/id", "unknown_id", detail)
            contacts.append({**part, "id": contact.id} if contact else part)
        faults.raise_any()
        named = {contact.id for contact in found if contact is not None}
        others = [{"id": contact.id} for contact in known if contact.id not in named]
        return {"contacts": [*contacts, *others]}


def _name_of(part: dict[str, Any]) -> str | None:
    return fold(part["name"]) if part.get("name") else None


CLIENTS = Clients()
