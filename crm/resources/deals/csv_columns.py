"""Deals with their items in files (spec: Deals and deal items; D7, D8): one row per item.

An item is found by its id, else by its sku, else by its name in the deal, the n-th of them by the
n-th row; else it is a new one. Items that the file does not name stay as they are. The amount of a
deal with items is their total, unless the file has another one without the mode `items`.
"""

from collections.abc import Callable, Sequence
from typing import Any

from crm.errors import FaultCollector
from crm.records.search import fold
from crm.resources.deals import deal_with_items
from crm.resources.deals.items import DealItem
from crm.resources.deals.record import DEAL_IN, Deal
from crm.resources.deals.references import PipelineLookup, find_client, find_contact
from crm.resources.user_references import UserLookup, resolve_user, user_column
from crm.spreadsheets.csv_columns import declared_columns, id_column, reference_column
from crm.spreadsheets.references import References, contradiction
from crm.spreadsheets.resource import Entry, ImportableResource, match_parts, register
from crm.tenancy.database import rows
from crm.tenancy.dialect import among

LIVE_CLIENT = "(SELECT {} FROM client WHERE client.id = deal.client_id AND deleted_at IS NULL)"
CONTACT_OF_LIVE_CLIENT = (
    "(SELECT contact.{} FROM contact JOIN client ON client.id = contact.client_id"
    " WHERE contact.id = deal.contact_id AND client.deleted_at IS NULL)"
)


class ImportableDeals(ImportableResource):
    singular, plural, import_order = "deal", "deals", 3
    file_name = "deals.csv"
    record, body = Deal, DEAL_IN
    own_columns = declared_columns(
        Deal,
        replaced={
            "client_id": (
                id_column("client_id", LIVE_CLIENT.format("id")),
                reference_column(
                    "client_external_id", LIVE_CLIENT.format("external_id"), shows="clients"
                ),
                reference_column("client", LIVE_CLIENT.format("name")),
            ),
            "contact_id": (
                id_column("contact_id", CONTACT_OF_LIVE_CLIENT.format("id")),
                reference_column("contact", CONTACT_OF_LIVE_CLIENT.format("name"), shows="clients"),
            ),
            "pipeline_id": (reference_column("pipeline", "deal.pipeline_id"),),
            "stage_id": (reference_column("stage", "deal.stage_id"),),
            "assigned_to": (user_column("assigned_to", "deal.assigned_to"),),
            "manager": (reference_column("manager", ""),),
        },
    )
    part = "item"
    part_columns = (
        id_column("item_id", "deal_item.id"),
        *declared_columns(DealItem, prefix="item_"),
    )
    column_of_field = {"pipeline_id": "pipeline", "stage_id": "stage"}
    column_of_conflict = {"duplicate_external_id": "external_id", "currency_fixed": "currency"}

    def reference_names(self, references: References) -> dict[str, Callable[[Any], str]]:
        pipelines = references.lookup(PipelineLookup)
        return {
            "pipeline": pipelines.pipeline_name,
            "stage": pipelines.stage_name,
            "assigned_to": references.lookup(UserLookup).name_of,
        }

    def parts_of(self, ids: str) -> Sequence[tuple[Any, ...]]:
        columns = ", ".join(column.sql for column in self.part_columns)
        sql = f"SELECT deal_id, {columns} FROM deal_item WHERE {among('deal_id')}"
        return rows(f"{sql} ORDER BY position, id", (ids,))

    def resolve_references(
        self, values: dict[str, Any], record: Any, source: str | None, references: References
    ) -> dict[str, Any]:
        is_foreign = source is not None
        for name in ("assigned_to", "manager"):
            resolve_user(values, name, source, references)
        manager = values.pop("manager", None)
        if manager is not None and values.setdefault("assigned_to", manager) != manager:
            raise contradiction("manager", "is not the user of assigned_to")
        # In this order: a contact is looked up at the client, a stage in the pipeline.
        client_id = find_client(values, source, record, references)
        client_of_contact = client_id or (record.client_id if record else None)
        contact_id = find_contact(values, source, client_of_contact, references)
        pipelines = references.lookup(PipelineLookup)
        pipeline_id = record.pipeline_id if record else None
        if (text := values.pop("pipeline", None)) is not None:
            pipeline_id = values["pipeline_id"] = pipelines.find_pipeline(text, is_foreign)
        if (text := values.pop("stage", None)) is not None:
            values["stage_id"] = pipelines.find_stage(text, pipeline_id, is_foreign)
        ids = {"client_id": client_id, "contact_id": contact_id}
        values |= {name: id for name, id in ids.items() if id is not None}
        if record is not None and values.get("amount") == record.amount:
            # An unchanged amount may be the total of items that this file changes: sending it
            # would set the amount by hand.
            values.pop("amount", None)
        return values

    def create(self, data: dict[str, Any], entry: Entry, source: str | None) -> int:
        if "manager" in data:  # an empty cell
            data.setdefault("assigned_to", data.pop("manager"))
        lines = [line for _, line in self._match_items([], entry, source)]
        return deal_with_items.create(data, lines)

    def update(self, record: Any, data: dict[str, Any], entry: Entry, source: str | None) -> int:
        items = DealItem.every("deal_id = ? ORDER BY position, id", record.id)
        lines = self._match_items(items, entry, source)
        return deal_with_items.update(record.id, data, lines).version

    def _match_items(
        self, items: list[DealItem], entry: Entry, source: str | None
    ) -> list[deal_with_items.ItemEntry]:
        """Return the items of the file, each with the existing one that it changes."""
        parts = self.part_values(entry, source)
        matches = match_parts(parts, items, _names_of, _name_of)
        faults, seen_ids = FaultCollector(), set()
        for number, (part, item) in enumerate(zip(parts, matches, strict=True)):
            id, pointer = part.pop("id", None), f"items/{number}"
            if id is not None and item is None:
                faults.add(f"{pointer}/id", "unknown_id", f"this deal has no item {id}")
            if id is not None and id in seen_ids:
                faults.add(f"{pointer}/id", "repeated", "this item is listed twice")
            if item is not None and part.pop("sku", item.sku) != item.sku:
                faults.add(f"{pointer}/sku", "read_only", "the sku of an item cannot be changed")
            seen_ids.add(id)
        faults.raise_any()
        return list(zip(matches, parts, strict=True))


def _names_of(item: DealItem) -> list[tuple[str, str | None]]:
    return [("sku", item.sku), ("name", fold(item.name))]


def _name_of(part: dict[str, Any]) -> tuple[str, str] | None:
    if part.get("sku"):
        return "sku", part["sku"]
    return ("name", fold(part["name"])) if part.get("name") else None


DEALS = register(ImportableDeals())
