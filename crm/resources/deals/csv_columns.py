"""Deals with their items in files (spec: Deals and deal items; D7, D8): one row per item.

An item is found by its id, else by its sku, else by its name in the deal, the n-th of them by the
n-th row; else it is a new one. Items that the file does not name stay as they are. The amount of a
deal with items is their total, unless the file has another one without the mode `items`.
"""

from collections.abc import Callable
from typing import Any

from crm.errors import FaultCollector
from crm.resources.deals import deal_with_items
from crm.resources.deals.items import DealItem, ItemValues
from crm.resources.deals.record import DEAL_IN, Deal
from crm.resources.deals.references import PipelineLookup, find_client, find_contact
from crm.resources.pipelines.record import Pipeline, create_stage
from crm.resources.user_references import ImportableRecord, resolve_user
from crm.spreadsheets.csv_columns import id_column, reference_column, reference_columns
from crm.spreadsheets.references import References, contradiction
from crm.spreadsheets.resource import Entry

LIVE_CLIENT_NAME = (
    "(SELECT name FROM client WHERE client.id = deal.client_id AND deleted_at IS NULL)"
)
CONTACT_OF_LIVE_CLIENT = (
    "(SELECT contact.{} FROM contact JOIN client ON client.id = contact.client_id"
    " WHERE contact.id = deal.contact_id AND client.deleted_at IS NULL)"
)


class ImportableDeals(ImportableRecord):
    record, body, part_record, part_order = Deal, DEAL_IN, DealItem, "position, id"
    part_names = ("sku", "name")
    replaced_columns = {
        "client_id": (
            *reference_columns(Deal, "client_id"),
            reference_column("client", LIVE_CLIENT_NAME),
        ),
        "contact_id": (
            id_column("contact_id", CONTACT_OF_LIVE_CLIENT.format("id")),
            reference_column("contact", CONTACT_OF_LIVE_CLIENT.format("name"), shows="clients"),
        ),
        "pipeline_id": (reference_column("pipeline", "deal.pipeline_id"),),
        "stage_id": (reference_column("stage", "deal.stage_id"),),
        "manager": (reference_column("manager", ""),),
    }
    column_of_field = {"pipeline_id": "pipeline", "stage_id": "stage"}
    column_of_conflict = {"duplicate_external_id": "external_id", "currency_fixed": "currency"}

    def reference_names(self, references: References) -> dict[str, Callable[[Any], str]]:
        pipelines = references.lookup(PipelineLookup)
        return {
            "pipeline": pipelines.pipeline_name,
            "stage": pipelines.stage_name,
            **super().reference_names(references),
        }

    def resolve_references(
        self, values: dict[str, Any], record: Any, source: str | None, references: References
    ) -> dict[str, Any]:
        is_foreign = source is not None
        super().resolve_references(values, record, source, references)
        resolve_user(values, "manager", source, references)
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
            found_id = references.resolve(
                "pipeline", text, lambda text: pipelines.find_pipeline(text, is_foreign)
            )
            if found_id is not None:
                pipeline_id = values["pipeline_id"] = found_id
        if (text := values.pop("stage", None)) is not None:
            stage_id = references.resolve(
                "stage",
                text,
                lambda text: pipelines.find_stage(text, pipeline_id, is_foreign),
                lambda name: create_stage(pipeline_id or Pipeline.default().id, {"name": name}),
                within=("stage", pipeline_id),
            )
            if stage_id is not None:
                values["stage_id"] = stage_id
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

    def put_back(self, record: Any, values: dict[str, Any]) -> None:
        deal_with_items.put_back(record, values)

    def _match_items(
        self, items: list[DealItem], entry: Entry, source: str | None
    ) -> list[ItemValues]:
        """Return the items of the file, each with the existing one that it changes."""
        matches, faults = self.match_parts(entry, source, items), FaultCollector()
        for number, (item, part) in enumerate(matches):
            if item is not None and part.pop("sku", item.sku) != item.sku:
                detail = "the sku of an item cannot be changed"
                faults.add(f"items/{number}/sku", "read_only", detail)
        faults.raise_any()
        return matches


DEALS = ImportableDeals()
