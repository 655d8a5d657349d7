"""A deal with its items, created or changed in a single step (D7, D8).

A request of the API changes either the deal or its items; an import writes both. It is one version
of the deal, one entry of its audit trail, and at most one deal.items_changed, after the events of
the deal's own fields.
"""

from typing import Any

from crm.errors import Invalid
from crm.outbox import events
from crm.records.sizes import check_parts
from crm.resources.deals import items
from crm.resources.deals import record as deals
from crm.resources.deals.items import DealItem
from crm.resources.deals.record import DEAL, Deal
from crm.tenancy.database import execute, transaction

ItemEntry = tuple[DealItem | None, dict[str, Any]]  # the item, None for a new one; its sent fields


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

    def add_items(deal: Deal) -> None:
        _write(deal, [(None, entry) for entry in entries])
        check_parts("items", [], items.items_of(deal))
        _, total, _ = deal.items()
        amount = data.get("amount", total)
        mode = data.get("amount_mode") or ("items" if amount in (None, total) else "manual")
        if mode == "items" and amount not in (None, total):
            raise Invalid.field(
                "amount", "amount_of_items", "is the items' total in the mode items"
            )
        deal.amount, deal.amount_mode = (total if mode == "items" else data.get("amount")), mode
        # A plain UPDATE: a new deal must not begin with an audit entry and a second version.
        sql = "UPDATE deal SET amount = ?, amount_mode = ? WHERE id = ?"
        execute(sql, (deal.amount, mode, deal.id))

    with transaction():
        id = deals.create(deal_fields, add_items)
        _emit_items_changed(Deal.find(id), {})
        return id


def update(id: int | str, data: dict[str, Any], entries: list[ItemEntry]) -> Deal:
    """Change the sent fields of a deal and of these items; no other item is deleted.

    Raises Invalid, NotFound, and Conflict as deals.update().
    """
    with transaction():
        deal = Deal.find(id)
        items_before = items.items_of(deal)
        if not _write(deal, entries):
            deal.update_fields(data)
            return deal
        count, total, _ = deal.items()
        items.check_limits(count, [total])
        is_summed = deal.amount_mode == "items" or not items_before
        if is_summed and "amount_mode" not in data and data.get("amount", total) == total:
            data = {name: value for name, value in data.items() if name != "amount"}
            data["amount_mode"] = "items"
        items_now = items.items_of(deal)
        check_parts("items", items_before, items_now)
        related: dict[str, tuple[Any, Any]] = {"items": (items_before, items_now)}
        if count != len(items_before):
            related["items_count"] = (len(items_before), count)
        _emit_items_changed(deal, deal.update_fields(data, related))
        return deal


def _write(deal: Deal, entries: list[ItemEntry]) -> bool:
    """Store what differs; False when nothing does."""

    def values_of(entry: ItemEntry) -> dict[str, Any]:
        item, data = entry
        if item is not None:
            return item.updated_values(data)
        # With a name and a price the item needs no product, which may be deleted by now.
        is_past = data.get("name") is not None and data.get("price") is not None
        return items.new_values(deal, data, is_past)

    rows = items.read_entries(entries, values_of)
    new_items = [values for (item, _), values in zip(entries, rows, strict=True) if item is None]
    count, _, last = deal.items()
    items.check_limits(count + len(new_items), (values["total"] for values in new_items))
    differs = False
    for (item, _), values in zip(entries, rows, strict=True):
        if item is not None:
            differs |= bool(item.put(values))
        else:
            last = min(last + 1, items.LAST_POSITION)
            DealItem.add({**values, "position": last, "deal_id": deal.id})
            differs = True
    return differs


def _emit_items_changed(deal: Deal, before: dict[str, Any]) -> None:
    body = {"deal": DEAL.one(deal.id), "items": items.items_of(deal)}
    events.emit(events.DEAL_ITEMS_CHANGED, deal.id, body, DEAL.show(before))
