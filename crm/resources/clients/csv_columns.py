"""Clients with their contacts in files (spec: Clients; D6): one row per contact.

A contact is found by its id, else by its name at the client, the n-th of a name by the n-th row;
else it is a new one. Contacts that the file does not name stay as they are. Each of the requisites
has a column of its own, `requisites.<key>`.
"""

from collections.abc import Iterable
from typing import Any

from crm.json import dumps, loads
from crm.papers.requisites import Requisites
from crm.records.columns import N_
from crm.records.custom.values import merged
from crm.resources.clients.record import CLIENT_IN, Client, Contact, create
from crm.resources.user_references import ImportableRecord
from crm.spreadsheets.csv_columns import FileColumn
from crm.spreadsheets.references import References
from crm.spreadsheets.resource import Entry

REQUISITES = "requisites."  # begins the names of columns
LABELS = {
    "legal_name": N_("Legal name"),
    "edrpou": N_("EDRPOU"),
    "rnokpp": N_("Tax number of a person"),
    "iban": N_("IBAN"),
    "bank": N_("Bank"),
    "address": N_("Legal address"),
    "director": N_("Director"),
    "vat_number": N_("VAT number"),
}


def _requisite(key: str) -> FileColumn:
    wire = Requisites.parts.fields[key]
    return FileColumn(
        REQUISITES + key,
        "client.requisites",
        read=lambda cell, _: wire.read(cell),
        write=lambda excel: lambda stored: loads(stored).get(key) or "",
        field=wire,
        label=LABELS[key],
    )


class ImportableClients(ImportableRecord):
    record, body, part_record = Client, CLIENT_IN, Contact
    replaced_columns = {"requisites": tuple(map(_requisite, LABELS))}
    rare_columns = ("requisites",)

    def create(self, data: dict[str, Any], entry: Entry, source: str | None) -> int:
        self._join_requisites(data, None)
        return create({**data, **self._contacts(None, entry, source)})

    def update(self, record: Any, data: dict[str, Any], entry: Entry, source: str | None) -> int:
        self._join_requisites(data, record.requisites)
        contacts = self._contacts(record, entry, source)
        return super().update(record, {**data, **contacts}, entry, source)

    def empty_values(self, names: Iterable[str]) -> dict[str, None]:
        names = [*names]
        empty = dict.fromkeys(name for name in names if name.startswith(REQUISITES))
        return super().empty_values(names) | empty

    @staticmethod
    def _join_requisites(data: dict[str, Any], stored: str | None) -> None:
        """Put what the file has of them together with what is stored; None clears one."""
        names = [name for name in data if name.startswith(REQUISITES)]
        if patch := {name.removeprefix(REQUISITES): data.pop(name) for name in names}:
            data["requisites"] = merged(stored, dumps(patch).decode())

    def keyed_by(self, key: str) -> str:
        if key not in ("phone", "email"):
            return super().keyed_by(key)
        return (
            f"(SELECT id, deleted_at, {key} FROM client UNION ALL"
            f" SELECT client.id, client.deleted_at, contact.{key} FROM contact"
            " JOIN client ON client.id = client_id) AS keyed"
        )

    def resolve_references(
        self, values: dict[str, Any], record: Any, source: str | None, references: References
    ) -> dict[str, Any]:
        key = references.options.key
        if record is not None and key in ("phone", "email"):
            stored = getattr(record, key) or ""
            if values.get(key, stored).lower() != stored.lower():  # the row is about a contact
                own = ("type", "name", "phone", "email")
                values |= {name: getattr(record, name) for name in own}
        return super().resolve_references(values, record, source, references)

    def _contacts(self, client: Client | None, entry: Entry, source: str | None) -> dict[str, Any]:
        """{"contacts": all that the client shall have}, if the file has any of it; else {}."""
        if not entry.parts:
            return {}
        existing = client.list_contacts() if client else []
        matches = self.match_parts(entry, source, existing)
        contacts = [{**part, "id": contact.id} if contact else part for contact, part in matches]
        matched = {contact.id for contact, _ in matches if contact is not None}
        unchanged = [{"id": contact.id} for contact in existing if contact.id not in matched]
        return {"contacts": [*contacts, *unchanged]}


CLIENTS = ImportableClients()
