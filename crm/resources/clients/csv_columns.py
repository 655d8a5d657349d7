"""Clients with their contacts in files (spec: Clients; D6): one row per contact.

A contact is found by its id, else by its name at the client, the n-th of a name by the n-th row;
else it is a new one. Contacts that the file does not name stay as they are.
"""

from collections.abc import Callable, Sequence
from typing import Any

from crm.errors import FaultCollector
from crm.records.search import fold
from crm.resources.clients.record import (
    CLIENT_IN,
    Client,
    Contact,
    create,
)
from crm.resources.user_references import UserLookup, resolve_user, user_column
from crm.spreadsheets.csv_columns import declared_columns, id_column
from crm.spreadsheets.references import References
from crm.spreadsheets.resource import Entry, ImportableResource, match_parts, register
from crm.tenancy.database import rows
from crm.tenancy.dialect import among


class ImportableClients(ImportableResource):
    singular, plural, import_order = "client", "clients", 2
    file_name = "clients.csv"
    record, body = Client, CLIENT_IN
    own_columns = declared_columns(
        Client,
        replaced={"assigned_to": (user_column("assigned_to", "client.assigned_to"),)},
    )
    part = "contact"
    part_columns = (
        id_column("contact_id", "contact.id"),
        *declared_columns(Contact, prefix="contact_"),
    )

    def reference_names(self, references: References) -> dict[str, Callable[[Any], str]]:
        return {"assigned_to": references.lookup(UserLookup).name_of}

    def parts_of(self, ids: str) -> Sequence[tuple[Any, ...]]:
        columns = ", ".join(column.sql for column in self.part_columns)
        sql = f"SELECT client_id, {columns} FROM contact WHERE {among('client_id')} ORDER BY id"
        return rows(sql, (ids,))

    def resolve_references(
        self, values: dict[str, Any], record: Any, source: str | None, references: References
    ) -> dict[str, Any]:
        resolve_user(values, "assigned_to", source, references)
        return values

    def create(self, data: dict[str, Any], entry: Entry, source: str | None) -> int:
        return create({**data, **self._contacts(None, entry, source)})

    def update(self, record: Any, data: dict[str, Any], entry: Entry, source: str | None) -> int:
        record.update_fields({**data, **self._contacts(record, entry, source)})
        return record.version

    def _contacts(self, client: Client | None, entry: Entry, source: str | None) -> dict[str, Any]:
        """{"contacts": all that the client shall have}, if the file has any of it; else {}."""
        if not entry.parts:
            return {}
        existing = client.list_contacts() if client else []
        parts = self.part_values(entry, source)
        matches = match_parts(parts, existing, lambda contact: [fold(contact.name)], _name_of)
        faults, contacts = FaultCollector(), []
        for number, (part, contact) in enumerate(zip(parts, matches, strict=True)):
            id = part.pop("id", None)
            if id is not None and contact is None:
                detail = f"this client has no contact {id}"
                faults.add(f"contacts/{number}/id", "unknown_id", detail)
            contacts.append({**part, "id": contact.id} if contact else part)
        faults.raise_any()
        matched = {contact.id for contact in matches if contact is not None}
        unchanged = [{"id": contact.id} for contact in existing if contact.id not in matched]
        return {"contacts": [*contacts, *unchanged]}


def _name_of(part: dict[str, Any]) -> str | None:
    return fold(part["name"]) if part.get("name") else None


CLIENTS = register(ImportableClients())
