"""A deal with its items as one: it comes in, or changes, in a single step (D7, D8).

Where a request of the API changes either the deal or its items, a file moves both in. It is one
version of the deal, one row of its trail, and at most one deal.items_changed, after the events of
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

Line = tuple[DealItem | None, dict[str, Any]]  # one there is, or a new one, and what is sent of it


def create(data: dict[str, Any], lines: list[dict[str, Any]]) -> int:
    """Add a deal with lines and give its id; raises Invalid.

    Its amount is their total, unless another is sent without the mode `items`.
    """
    if not lines:
        return deals.create(data)
    own = {name: value for name, value in data.items() if name not in ("amount", "amount_mode")}

    def furnish(deal: Deal) -> None:
        _write(deal, [(None, line) for line in lines])
        check_parts("items", [], items.lines_of(deal))
        _, total, _ = deal.items()
        sent = data.get("amount", total)
        mode = data.get("amount_mode") or ("items" if sent in (None, total) else "manual")
        if mode == "items" and sent not in (None, total):
            raise Invalid.field(
                "amount", "amount_of_items", "is the items' total in the mode items"
            )
        deal.amount, deal.amount_mode = (total if mode == "items" else data.get("amount")), mode
        sql = "UPDATE deal SET amount = ?, amount_mode = ? WHERE id = ?"
        execute(sql, (deal.amount, mode, deal.id))

    with transaction():
        id = deals.create(own, furnish)
        _tell(Deal.find(id), {})
        return id


def change(deal: Deal, data: dict[str, Any], lines: list[Line]) -> None:
    """Change the sent fields of a deal and of these lines; no other line goes. Inside a
    transaction. Raises Invalid, or Conflict as `Deal.change`."""
    were = items.lines_of(deal)
    if not _write(deal, lines):
        deal.change(data)
        return
    count, total, _ = deal.items()
    items.fits(count, [total])
    is_summed = deal.amount_mode == "items" or not were
    if is_summed and "amount_mode" not in data and data.get("amount", total) == total:
        data = {name: value for name, value in data.items() if name != "amount"}
        data["amount_mode"] = "items"
    lines_now = items.lines_of(deal)
    check_parts("items", were, lines_now)
    beside = {"items": (were, lines_now)}
    if count != len(were):
        beside["items_count"] = (len(were), count)
    _tell(deal, deal.change(data, beside))


def _write(deal: Deal, lines: list[Line]) -> bool:
    """Store what differs; False when nothing does."""

    def read(line: Line) -> dict[str, Any]:
        item, sent = line
        if item is not None:
            return item.revised(sent)
        is_past = sent.get("name") is not None and sent.get("price") is not None
        return items.composed(deal, sent, is_past)

    values = items.each(lines, read)
    new = [value for (item, _), value in zip(lines, values, strict=True) if item is None]
    count, _, last = deal.items()
    items.fits(count + len(new), (value["total"] for value in new))
    changed = False
    for (item, _), value in zip(lines, values, strict=True):
        if item is not None:
            changed |= bool(item.put(value))
        else:
            last = min(last + 1, items.LAST_POSITION)
            DealItem.add({**value, "position": last, "deal_id": deal.id})
            changed = True
    return changed


def _tell(deal: Deal, before: dict[str, Any]) -> None:
    shown = {"deal": DEAL.one(deal.id), "items": items.lines_of(deal)}
    events.emit(events.DEAL_ITEMS_CHANGED, deal.id, shown, DEAL.show(before))
