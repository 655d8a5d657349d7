"""Deals with their items as they move by CSV (spec: Deals and deal items; D7, D8): a row per item.

An item is found by its id, else by its sku, else by its name in the deal, the n-th of them by the
n-th row; else it is a new one. Items that the file doesn't name stay as they are. The amount of a
deal with items is their total, unless the file has another one and doesn't say the mode `items`.
"""

from typing import Any

from crm.errors import FaultCollector
from crm.records.search import fold
from crm.resources.deals import deal_with_items
from crm.resources.deals.items import ITEM, DealItem, DealItemSchema
from crm.resources.deals.record import DEAL_IN, Deal, DealSchema
from crm.resources.moving.cells import columns, id_column, reference
from crm.resources.moving.noun import Entry, Moving, matched
from crm.resources.moving.references import References, contradiction
from crm.tenancy.database import rows
from crm.tenancy.dialect import among

LIVE_CLIENT = "(SELECT {} FROM client WHERE client.id = deal.client_id AND deleted_at IS NULL)"
OF_LIVE_CLIENT = (
    "(SELECT contact.{} FROM contact JOIN client ON client.id = contact.client_id"
    " WHERE contact.id = deal.contact_id AND client.deleted_at IS NULL)"
)


class Deals(Moving):
    name, plural, record, body = "deal", "deals", Deal, DEAL_IN
    part = "item"
    column_of = {"pipeline_id": "pipeline", "stage_id": "stage"}
    own_columns = (
        *columns(DealSchema, "deal", ("external_id", "title")),
        id_column("client_id", LIVE_CLIENT.format("id")),
        reference("client_external_id", LIVE_CLIENT.format("external_id"), of="clients"),
        reference("client", LIVE_CLIENT.format("name")),
        id_column("contact_id", OF_LIVE_CLIENT.format("id")),
        reference("contact", OF_LIVE_CLIENT.format("name"), of="clients"),
        reference("pipeline", "deal.pipeline_id"),
        reference("stage", "deal.stage_id"),
        *columns(DealSchema, "deal", ("status", "amount", "amount_mode", "currency")),
        reference("assigned_to", "deal.assigned_to", of="users"),
        reference("manager", ""),
        *columns(
            DealSchema,
            "deal",
            (
                *("expected_close_date", "source", "tags", "comment", "lost_reason"),
                *("stage_changed_at", "closed_at", "created_at", "extra"),
            ),
            new=("stage_changed_at", "created_at"),
        ),
    )
    part_columns = (
        id_column("item_id", "deal_item.id"),
        *columns(
            DealItemSchema,
            ITEM.table,
            ("sku", "name", "unit", "quantity", "price", "discount", "discount_type", "comment"),
            prefix="item_",
        ),
    )

    def shows(self, here: References) -> dict[str, Any]:
        return {
            "pipeline": here.text_of_pipeline,
            "stage": here.text_of_stage,
            "assigned_to": here.text_of_user,
        }

    def parts_of(self, ids: str) -> list[tuple[Any, ...]]:
        chosen = ", ".join(column.sql for column in self.part_columns)
        sql = f"SELECT deal_id, {chosen} FROM deal_item WHERE {among('deal_id')}"
        return rows(f"{sql} ORDER BY position, id", (ids,))

    def settle(
        self, values: dict[str, Any], record: Any, of: str | None, here: References
    ) -> dict[str, Any]:
        is_foreign = of is not None
        for name in ("assigned_to", "manager"):
            if (text := values.get(name)) is not None:
                values[name] = here.user(text, name, is_foreign)
        if "manager" in values and "assigned_to" in values:
            if values.pop("manager") != values["assigned_to"]:
                raise contradiction("manager", "is not the user of assigned_to")
        elif "manager" in values:
            values["assigned_to"] = values.pop("manager")
        client_id = here.client(values, of, record)
        contact_id = here.contact(values, of, client_id or (record.client_id if record else None))
        pipeline_id = record.pipeline_id if record else None
        if (text := values.pop("pipeline", None)) is not None:
            pipeline_id = values["pipeline_id"] = here.pipeline(text, is_foreign)
        if (text := values.pop("stage", None)) is not None:
            values["stage_id"] = here.stage(text, pipeline_id, is_foreign)
        found = {"client_id": client_id, "contact_id": contact_id}
        values |= {name: id for name, id in found.items() if id is not None}
        if record is not None and values.get("amount") == record.amount:
            values.pop("amount", None)  # as it was: it may be the items' total, which changes
        return values

    def create(self, data: dict[str, Any], entry: Entry, of: str | None) -> int:
        if "manager" in data:
            data.setdefault("assigned_to", data.pop("manager"))
        lines = [line for _, line in self._lines([], entry, of)]
        return deal_with_items.create(data, lines)

    def change(self, record: Any, data: dict[str, Any], entry: Entry, of: str | None) -> None:
        there = DealItem.every("deal_id = ? ORDER BY position, id", record.id)
        deal_with_items.change(record, data, self._lines(there, entry, of))

    def _lines(
        self, there: list[DealItem], entry: Entry, of: str | None
    ) -> list[deal_with_items.Line]:
        """The items of the file, each with the one there is."""
        wanted = self.parts(entry, of)
        found = matched(wanted, there, _names_of, _name_of)
        faults, seen = FaultCollector(), set()
        for number, (part, item) in enumerate(zip(wanted, found, strict=True)):
            id, where = part.pop("id", None), f"items/{number}"
            if id is not None and item is None:
                faults.add(f"{where}/id", "unknown_id", f"this deal has no item {id}")
            if id is not None and id in seen:
                faults.add(f"{where}/id", "repeated", "this item is listed twice")
            if item is not None and part.pop("sku", item.sku) != item.sku:
                faults.add(f"{where}/sku", "read_only", "the sku of an item cannot be changed")
            seen.add(id)
        faults.raise_any()
        return list(zip(found, wanted, strict=True))


def _names_of(item: DealItem) -> list[tuple[str, str | None]]:
    return [("sku", item.sku), ("name", fold(item.name))]


def _name_of(part: dict[str, Any]) -> tuple[str, str] | None:
    if part.get("sku"):
        return "sku", part["sku"]
    return ("name", fold(part["name"])) if part.get("name") else None


DEALS = Deals()
