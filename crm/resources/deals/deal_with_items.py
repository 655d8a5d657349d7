"""A deal with its items, created or changed in a single step (D7, D8).

A request of the API changes either the deal or its items; an import writes both. It is one version
of the deal, one entry of its audit trail, and at most one deal.items_changed, after the events of
the deal's own fields.
"""

from typing import Any

from crm.errors import Invalid
from crm.records import nested
from crm.resources.deals import items
from crm.resources.deals import record as deals
from crm.resources.deals.items import ITEM_ENTRY, DealItem, ItemValues
from crm.storage.session import execute, transaction

# What an undo puts back as it was, whatever the rules would make of the other values.
EXACT_COLUMNS = frozenset(["amount", "amount_mode", "currency", "stage_changed_at"])
COPIED = frozenset(["client_name", "items", "items_count"])  # from other tables


def create(data: dict[str, Any], entries: list[dict[str, Any]]) -> int:
    """Add a deal with items and return its id. Raises Invalid, and Conflict as deals.create().

    Its amount is their total, unless another amount is sent without the mode `items`.
    """
    if not entries:
        return deals.create(data)
    # The amount follows from the items, so it is set when they are stored.
    deal_fields = {
        name: value for name, value in data.items() if name not in ("amount", "amount_mode")
    }

    def add_items(deal: deals.Deal) -> None:
        _write(deal, [(None, entry) for entry in entries])
        nested.check_parts("items", [], items.items_of(deal), nested.MAX_ITEMS_BYTES)
        _, total, _ = deal.items()
        amount = data.get("amount", total)
        mode = data.get("amount_mode") or ("items" if amount in (None, total) else "manual")
        if mode == "items" and amount not in (None, total):
            raise deals.amount_not_total()
        deal.amount, deal.amount_mode = (total if mode == "items" else data.get("amount")), mode
        # A plain UPDATE: a new deal must not begin with an audit entry and a second version.
        sql = "UPDATE deal SET amount = ?, amount_mode = ? WHERE id = ?"
        execute(sql, (deal.amount, mode, deal.id))

    with transaction():
        id = deals.create(deal_fields, add_items)
        deal = deals.Deal.find(id)
        items.emit_changed(deal, items.items_of(deal), {})
        return id


def update(id: int | str, data: dict[str, Any], entries: list[ItemValues]) -> deals.Deal:
    """Change the sent fields of a deal and of these items; no other item is deleted.

    Raises Invalid, NotFound, and Conflict as deals.update().
    """
    with transaction():
        deal = deals.Deal.find(id)
        items_before = items.items_of(deal)
        _write(deal, entries)
        items.update_deal(deal, items_before, data)
        return deal


def put_back(deal: deals.Deal, values: dict[str, Any]) -> None:
    """Give a deal the stored values before a change that is undone, its items as they were shown.

    One version and the usual events; stage, status and times are those of then. Raises Invalid and
    Conflict.
    """
    items_before = items.items_of(deal)
    if "items" in values:
        stored = {item.id: item for item in DealItem.every("deal_id = ?", deal.id)}
        lines = [(stored.pop(int(line["id"]), None), line) for line in values["items"]]
        for item in stored.values():
            item.erase()
        items.store(deal, [_values_before(deal, *line) for line in lines])
    placed = {"pipeline_id": deal.pipeline_id, "stage_id": deal.stage_id, "status": deal.status}
    data = {name: values[name] for name in values.keys() - EXACT_COLUMNS - COPIED}
    if not placed.keys().isdisjoint(data):
        data = placed | data
    exact = {name: values[name] for name in values.keys() & EXACT_COLUMNS}
    items.update_deal(deal, items_before, data, exact)


def _values_before(deal: deals.Deal, item: DealItem | None, line: dict[str, Any]) -> ItemValues:
    """An item with the values that it was shown with before; None: it is a new one again."""
    sent = {name: value for name, value in line.items() if name in ITEM_ENTRY.fields}
    values = ITEM_ENTRY.parse(sent)
    if item is None:
        return None, items.new_values(deal, values, is_past=True)
    return item, item.updated_values(values)


def _write(deal: deals.Deal, entries: list[ItemValues]) -> None:
    def read(entry: ItemValues) -> ItemValues:
        item, data = entry
        if item is not None:
            if data.pop("sku", item.sku) != item.sku:
                raise Invalid.field("sku", "read_only", "the sku of an item cannot be changed")
            return item, item.updated_values(data)
        # With a name and a price the item needs no product, which may be deleted by now.
        is_past = data.get("name") is not None and data.get("price") is not None
        return None, items.new_values(deal, data, is_past)

    items.store(deal, items.read_entries(entries, read))
