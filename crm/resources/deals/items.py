"""Deal items: the lines a deal is composed of (spec: Deals and deal items; D2, D8).

An item is of a product, named by its id or its sku, or free with a name and a price of its own. The
product's name, unit and price are copied when the item is added: later changes of the product don't
touch it. Each item is rounded half up to 1/100 and totals are sums of rounded items, so that they
add up on paper.

However many items a request changes, it is one change of the deal: one deal.items_changed, one
version more. The first item makes the deal's amount the total of its items.
"""

from collections.abc import Callable, Iterable
from itertools import islice
from typing import Any, Self

from marshmallow import fields as ma
from marshmallow.validate import Length
from peewee import IntegerField

from crm.access import rights
from crm.errors import MAX_FAULTS, Conflict, Fault, Invalid, NotFound
from crm.outbox import events
from crm.records import columns, fields
from crm.records.record import Record
from crm.records.schemas import Body, Payload, require_unchanged, schema_of
from crm.records.sizes import check_parts
from crm.records.views import RecordView
from crm.resources.deals.record import DEAL, Deal
from crm.resources.products.record import Product
from crm.tenancy.database import transaction
from crm.values import AMOUNT_MAX, as_number, money
from crm.values.ids import integer_id

MAX_ADDED_ITEMS = 100  # of one POST (D8)
MAX_ITEMS = 1000  # of a deal: each of its events has them all
LAST_POSITION = 1_000_000
CENT = 100  # in 1/10 000
HUNDRED_PERCENT = 100 * 10_000  # in 1/10 000 of a per cent
DISCOUNT_TYPES = ("percent", "amount")
DEFAULTS = {"quantity": 1000, "discount": 0, "discount_type": "percent"}


class Discount(fields.Number):
    """Per cent with up to 4 decimals, or an amount with up to 2, according to `discount_type`."""

    maximum = float(as_number(AMOUNT_MAX))

    def read(self, value: Any) -> int:
        return money(value, 4, AMOUNT_MAX)


class DealItem(Record):
    """One line of a deal, in stored form. `discount` is in 1/10 000 of a per cent, or money."""

    noun = "item"

    deal_id = IntegerField()
    product_id = columns.Id(create_only=True, example="9", about="None: a free line.")
    sku = columns.Text(64, create_only=True, example="CH-0012", about="May name the product.")
    name = columns.Text(255, allow_none=False, null=False, example="Крісло офісне")
    unit = columns.Text(32, example="шт")
    quantity = columns.Quantity(allow_none=False, default=1)
    price = columns.Price(allow_none=False, null=False, about="By default the product's.")
    discount = columns.Amount(
        wire=Discount(
            allow_none=False, default=0, example=10, about="Per cent, or an amount off the line."
        )
    )
    discount_type = columns.Choice(*DISCOUNT_TYPES, allow_none=False, default="percent")
    subtotal = columns.Amount(dump_only=True)
    discount_amount = columns.Amount(dump_only=True)
    total = columns.Amount(dump_only=True)
    position = columns.Integer(
        1, LAST_POSITION, allow_none=False, null=False, about="By default the last.", csv=False
    )
    comment = columns.LongText()

    @classmethod
    def of(cls, deal: Deal, id: int | str, expected_version: int | None = None) -> Self:
        """The deal's item of that id; raises NotFound, also for another deal's, and Stale."""
        item = cls.find(id, expected_version)
        if item.deal_id != deal.id:
            raise NotFound
        return item

    def updated_values(self, data: dict[str, Any]) -> dict[str, Any]:
        """The sent fields and the sums of the item with them. Raises Invalid."""
        stored = {name: getattr(self, name) for name in ("price", *DEFAULTS)}
        return {**data, **_sums({**stored, **data})}


def create(deal_id: int | str, data: dict[str, Any]) -> int:
    """Add an item to a deal and return the item's id. Raises Invalid, Conflict and NotFound."""
    with transaction():
        deal = Deal.find(deal_id)
        return _add(deal, [new_values(deal, data)])[0]


def create_all(deal_id: int | str, entries: list[dict[str, Any]]) -> list[int]:
    """Add items to a deal and return their ids. Raises Invalid, Conflict and NotFound."""
    with transaction():
        deal = Deal.find(deal_id)
        return _add(deal, read_entries(entries, lambda entry: new_values(deal, entry)))


def update(
    deal_id: int | str, id: int | str, data: dict[str, Any], expected_version: int | None = None
) -> DealItem:
    """Change the sent fields of an item. Raises Invalid, NotFound, and Stale for its version."""
    with transaction():
        deal = Deal.find(deal_id)
        item = DealItem.of(deal, id, expected_version)
        before = items_of(deal)
        if item.put(item.updated_values(data)):
            _update_deal(deal, before)
        return item


def delete(deal_id: int | str, id: int | str, expected_version: int | None = None) -> DealItem:
    """Remove an item from its deal. Raises NotFound, and Stale for the item's version."""
    with transaction():
        deal = Deal.find(deal_id)
        item = DealItem.of(deal, id, expected_version)
        before = items_of(deal)
        item.erase()
        _update_deal(deal, before)
        return item


def replace(
    deal_id: int | str, entries: list[dict[str, Any]], expected_version: int | None = None
) -> Deal:
    """Make these the deal's items. Raises Invalid, Conflict, NotFound, and Stale for the deal's
    version.

    An entry with an id changes the fields of that item that it names, one without an id is a new
    item, and an item that isn't listed is deleted. They are ordered as listed unless they have a
    position.
    """
    with transaction():
        deal = Deal.find(deal_id, expected_version)
        _replace(deal, entries)
        return deal


def _replace(deal: Deal, entries: list[dict[str, Any]]) -> None:
    before = items_of(deal)
    items = {item.id: item for item in DealItem.every("deal_id = ? ORDER BY id", deal.id)}
    listed: set[int] = set()

    # All entries are checked before the first is stored, so that one response names all faults.
    def values_of(entry: dict[str, Any]) -> dict[str, Any]:
        id = entry.get("id")
        if id is None:
            return new_values(deal, entry)
        if id not in items:
            raise Invalid.field("id", "unknown_id", "this deal has no item with this id")
        if id in listed:
            raise Invalid.field("id", "repeated", "this item is listed twice")
        listed.add(id)
        if echoed := getattr(entry, "echoed", None):
            require_unchanged(ITEM.one(id) if rights.can_read("deals") else {}, echoed)
        return items[id].updated_values(entry)

    rows = read_entries(entries, values_of)
    check_limits(len(rows), (values["total"] for values in rows))
    differs = listed != items.keys()
    for id in items.keys() - listed:
        items[id].erase()
    for position, values in enumerate(rows, 1):
        values = {"position": position, **values}
        if id := values.pop("id", None):
            differs |= bool(items[id].put(values))
        else:
            DealItem.add({**values, "deal_id": deal.id})
            differs = True
    if differs:
        _update_deal(deal, before)


def _add(deal: Deal, rows: list[dict[str, Any]]) -> list[int]:
    before = items_of(deal)
    count, _, last = deal.items()
    check_limits(count + len(rows), (values["total"] for values in rows))
    ids = []
    for values in rows:
        last = values.get("position") or min(last + 1, LAST_POSITION)
        ids.append(DealItem.add({**values, "position": last, "deal_id": deal.id}).id)
    _update_deal(deal, before)
    return ids


def items_of(deal: Deal) -> list[dict[str, Any]]:
    """The deal's items as they are shown, in their order."""
    return ITEM.every("deal_id = ? ORDER BY position, id", deal.id)


def _update_deal(deal: Deal, items_before: list[dict[str, Any]]) -> None:
    """After a change of the items: the deal's amount, its next version, and the event."""
    count, total, _ = deal.items()
    check_limits(count, [total])
    values: dict[str, Any] = {}
    # The first item switches the amount to the items' total; later the mode is the user's choice.
    if deal.amount_mode == "items" or (count and not items_before):
        values = {"amount_mode": "items", "amount": total}
    items = items_of(deal)
    check_parts("items", items_before, items)
    related: dict[str, tuple[Any, Any]] = {"items": (items_before, items)}
    if count != len(items_before):
        related["items_count"] = (len(items_before), count)
    before = deal.put(values, related)
    del before["items"]  # the audit trail has them; the event shows the deal's own fields
    body = {"deal": DEAL.one(deal.id), "items": items}
    events.emit(events.DEAL_ITEMS_CHANGED, deal.id, body, DEAL.show(before))


def new_values(deal: Deal, data: dict[str, Any], is_past: bool = False) -> dict[str, Any]:
    """All values of a new item, those of its product copied. Raises Invalid.

    `is_past`: an item of an imported deal, with a name and a price. Its product may be inactive, or
    deleted: then the item is free and keeps its sku.
    """
    product = _past_product(data) if is_past else _product(data)
    if product is None:
        values = {**DEFAULTS, **data}
        missing = [name for name in ("name", "price") if values.get(name) is None]
        if missing:
            detail = "a line without a product needs it"
            raise Invalid([Fault(f"/{name}", "required", detail) for name in missing])
    else:
        if "price" not in data and product.currency != deal.currency:
            detail = "the product's currency is not that of the deal: send a price"
            raise Invalid.field("price", "currency_mismatch", detail)
        # Copied, not referred to: a later change of the product must not change past deals.
        copied = {"name": product.name, "unit": product.unit, "price": product.price}
        values = {**DEFAULTS, **copied, **data, "product_id": product.id, "sku": product.sku}
    return {**values, **_sums(values)}


def _product(data: dict[str, Any]) -> Product | None:
    """The active product that a new item names by its id, its sku or both. Raises Invalid."""
    id, sku = data.get("product_id"), data.get("sku")
    if id is not None:
        name, code, product = "product_id", "unknown_id", Product.first("id = ?", id)
    elif sku is not None:
        name, code, product = "sku", "unknown_sku", Product.first("sku = ?", sku)
    else:
        return None
    if product is None:
        raise Invalid.field(name, code, "there is no such product")
    if sku not in (None, product.sku):
        raise Invalid.field("sku", "sku_conflict", "is not the sku of the product named by its id")
    if not product.active:
        raise Invalid.field(name, "inactive_product", "this product is not sold any more")
    return product


def _past_product(data: dict[str, Any]) -> Product | None:
    return Product.first("sku = ?", data["sku"]) if data.get("sku") else None


def _sums(values: dict[str, Any]) -> dict[str, int]:
    """Subtotal, discount and total of an item. Raises Invalid for an impossible discount."""
    subtotal = _in_cents(values["price"] * values["quantity"], 1000)
    if subtotal > AMOUNT_MAX:
        raise Invalid.field("price", "too_large", f"the line {TOO_LARGE}")
    discount = values["discount"]
    if values["discount_type"] == "percent":
        if discount > HUNDRED_PERCENT:
            raise Invalid.field("discount", "too_large", "at most 100 per cent")
        discount_amount = _in_cents(subtotal * discount, HUNDRED_PERCENT)
    else:
        if discount % CENT:
            raise Invalid.field("discount", "too_precise", "an amount has at most 2 decimals")
        if discount > subtotal:
            raise Invalid.field("discount", "too_large", "at most the line's subtotal")
        discount_amount = discount
    total = subtotal - discount_amount
    return {"subtotal": subtotal, "discount_amount": discount_amount, "total": total}


def _in_cents(value: int, scale: int) -> int:
    """`value` / `scale`, rounded half up to whole cents; nothing here is negative."""
    return (2 * value + scale * CENT) // (2 * scale * CENT) * CENT


def check_limits(count: int, totals: Iterable[int]) -> None:
    """Raise Conflict or Invalid unless so many items with these totals can be a deal's.

    Called before new items are stored: the sum of a thousand large ones would not fit 64 bits.
    """
    if count > MAX_ITEMS:
        raise Conflict(f"a deal has at most {MAX_ITEMS} items", "too_many_items")
    if sum(totals) > AMOUNT_MAX:
        raise Invalid(Fault("", "too_large", f"the deal {TOO_LARGE}"))


TOO_LARGE = f"would come to more than {as_number(AMOUNT_MAX)}"


def read_entries(entries: list[Any], read: Callable[[Any], Any]) -> list[Any]:
    """Return the results of `read` for all entries. Raises Invalid with the faults of all."""
    results, faults = [], []
    for number, entry in enumerate(entries):
        try:
            results.append(read(entry))
        except Invalid as error:
            faults += [Fault(f"/items/{number}{f.where}", f.code, f.detail) for f in error.faults]
            if len(faults) >= MAX_FAULTS:
                break  # no response shows more
    if faults:
        raise Invalid(faults)
    return results


DealItemSchema = schema_of(DealItem)
ITEM = RecordView(DealItemSchema.out("DealItemOut"), "deal_item", live=False, noun="item")
ITEM_ENTRY = DealItemSchema.body("DealItemIn")
ITEM_PATCH = DealItemSchema.patch("DealItemPatch")


class DealItemLine(type(ITEM_ENTRY)):  # type: ignore[misc]  # made from the declaration
    """A line of a deal's whole composition: one there is, by its id, or a new one."""

    id = fields.Id(about="None for a new line.")
    subtotal = fields.Amount(about="Read-only.")
    discount_amount = fields.Amount(about="Read-only.")
    total = fields.Amount(about="Read-only.")
    created_at = fields.DateTime(about="Read-only.")
    updated_at = fields.DateTime(about="Read-only.")
    version = fields.Integer(1, 1 << 53, about="Read-only.")


class DealItemsIn(Body):
    """Several items at once."""

    items = ma.List(ma.Nested(ITEM_ENTRY), required=True, validate=Length(1, MAX_ADDED_ITEMS))


class OneOrMore(Body):
    """One item, or `items`: a list of them."""

    alternatives = (ITEM_ENTRY, DealItemsIn())

    def parse(self, sent: Any) -> Payload:
        """`item` in stored form, or `items`."""
        if not isinstance(sent, dict) or "items" not in sent:
            return Payload(item=ITEM_ENTRY.parse(sent))
        return _listed(sent, 1, MAX_ADDED_ITEMS, ITEM_ENTRY.parse)


class AllItems(Body):
    """All the items that the deal shall have."""

    items = ma.List(ma.Nested(DealItemLine()), required=True, validate=Length(0, MAX_ITEMS))

    def parse(self, sent: Any) -> Payload:
        """`items` in stored form."""
        return _listed(sent, 0, MAX_ITEMS, _line)


def _line(line: Any) -> Payload:
    if not isinstance(line, dict):
        return ITEM_ENTRY.parse(line)
    values = {name: value for name, value in line.items() if name != "id"}
    if line.get("id") is None:
        return ITEM_ENTRY.parse(values)
    item = ITEM_PATCH.parse(values)
    item["id"] = integer_id(line["id"])
    return item


def _listed(body: Any, least: int, most: int, read: Callable[[Any], Payload]) -> Payload:
    if not isinstance(body, dict):
        raise Invalid(Fault("", "invalid_type", "the body must be a JSON object"))
    if strange := [*islice((name for name in body if name != "items"), MAX_FAULTS)]:
        detail = "does not go with items"
        raise Invalid([Fault(f"/{name}", "unknown_field", detail) for name in strange])
    lines = body.get("items")
    if not isinstance(lines, list):
        raise Invalid.field("items", "invalid_type", "must be a list of items")
    if not least <= len(lines) <= most:
        raise Invalid.field("items", "invalid_length", f"from {least} to {most} items")
    return Payload(items=read_entries(lines, read))


ITEM_IN = OneOrMore()
ITEMS_PUT = AllItems()
