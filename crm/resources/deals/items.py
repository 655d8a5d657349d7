"""Deal items: the lines a deal is composed of (spec: Deals and deal items; D2, D8).

A line is of a product, named by its id or its sku, or free with a name and a price of its own. What
a product says is copied when the line is added: later changes of the product don't touch it. Each
line is rounded half up to 1/100 and totals are sums of rounded lines, so that they add up on paper.

However many lines a request changes, it is one change of the deal: one deal.items_changed, one
version more. The first line makes the deal's amount the total of its items.
"""

from collections.abc import Callable, Iterable
from itertools import islice
from typing import Any, Self

from marshmallow import fields as ma
from marshmallow.validate import Length
from peewee import IntegerField, TextField

from crm.access import rights
from crm.errors import MAX_FAULTS, Conflict, Fault, Invalid, NotFound
from crm.outbox import events
from crm.records import fields
from crm.records.record import Record
from crm.records.sizes import check_parts
from crm.records.views import Body, Payload, RecordSchema, RecordView, unchanged
from crm.resources.deals.record import DEAL, Deal
from crm.resources.products.record import Product
from crm.values import AMOUNT_MAX, as_number, money
from crm.values.ids import integer_id

MOST_ADDED = 100  # lines of one POST (D8)
MOST = 1000  # lines of a deal: each of its events tells them all
LAST_POSITION = 1_000_000
CENT = 100  # in 1/10 000
WHOLE = 100 * 10_000  # 100 % in 1/10 000 of a per cent
DISCOUNT_TYPES = ("percent", "amount")
NEW = {"quantity": 1000, "discount": 0, "discount_type": "percent"}


class DealItem(Record):
    """One line of a deal, in stored form. `discount` is in 1/10 000 of a per cent, or money."""

    noun = "item"

    deal_id = IntegerField()
    product_id = IntegerField(null=True)
    sku = TextField(null=True)
    name = TextField()
    unit = TextField(null=True)
    quantity = IntegerField()
    price = IntegerField()
    discount = IntegerField()
    discount_type = TextField()
    subtotal = IntegerField()
    discount_amount = IntegerField()
    total = IntegerField()
    position = IntegerField()
    comment = TextField(null=True)

    @classmethod
    def of(cls, deal: Deal, id: int | str) -> Self:
        """The deal's item of that id; NotFound also when it is another deal's."""
        item = cls.find(id)
        if item.deal_id != deal.id:
            raise NotFound
        return item

    def change(self, deal: Deal, data: dict[str, Any]) -> None:
        """Change the sent fields; inside a transaction. Raises Invalid."""
        were = lines_of(deal)
        if self.put(self.revised(data)):
            _settle(deal, were)

    def remove(self, deal: Deal) -> None:
        """Take the line off its deal; inside a transaction."""
        were = lines_of(deal)
        self.erase()
        _settle(deal, were)

    def revised(self, data: dict[str, Any]) -> dict[str, Any]:
        """The sent fields, and what the line comes to with them; raises Invalid."""
        kept = {name: getattr(self, name) for name in ("price", *NEW)}
        return {**data, **_sums({**kept, **data})}


def add(deal: Deal, line: dict[str, Any]) -> int:
    """Add a line to a deal and give its id; inside a transaction. Raises Invalid."""
    return _add(deal, [composed(deal, line)])[0]


def add_all(deal: Deal, lines: list[dict[str, Any]]) -> list[int]:
    """Add lines to a deal and give their ids; inside a transaction. Raises Invalid."""
    return _add(deal, each(lines, lambda line: composed(deal, line)))


def replace(deal: Deal, lines: list[dict[str, Any]]) -> None:
    """These are the deal's lines from now on; inside a transaction. Raises Invalid.

    A line with the id of one there is keeps it and changes what it names; one without is new; who
    isn't listed goes. They stand as listed unless they say a position.
    """
    were = lines_of(deal)
    there = {item.id: item for item in DealItem.every("deal_id = ?", deal.id)}
    kept: set[int] = set()

    def read(line: dict[str, Any]) -> dict[str, Any]:
        id = line.get("id")
        if id is None:
            return composed(deal, line)
        if id not in there:
            raise Invalid.field("id", "unknown_id", "this deal has no item with this id")
        if id in kept:
            raise Invalid.field("id", "repeated", "this item is listed twice")
        kept.add(id)
        if echoed := getattr(line, "echoed", None):
            unchanged(ITEM.one(id) if rights.can_read("deals") else {}, echoed)
        return there[id].revised(line)

    values = each(lines, read)
    fits(len(values), (line["total"] for line in values))
    changed = kept != there.keys()
    for id in there.keys() - kept:
        there[id].erase()
    for position, line in enumerate(values, 1):
        line = {"position": position, **line}
        if id := line.pop("id", None):
            changed |= bool(there[id].put(line))
        else:
            DealItem.add({**line, "deal_id": deal.id})
            changed = True
    if changed:
        _settle(deal, were)


def _add(deal: Deal, lines: list[dict[str, Any]]) -> list[int]:
    were = lines_of(deal)
    count, _, last = deal.items()
    fits(count + len(lines), (line["total"] for line in lines))
    ids = []
    for line in lines:
        last = line.get("position") or min(last + 1, LAST_POSITION)
        ids.append(DealItem.add({**line, "position": last, "deal_id": deal.id}).id)
    _settle(deal, were)
    return ids


def lines_of(deal: Deal) -> list[dict[str, Any]]:
    return ITEM.every("deal_id = ? ORDER BY position, id", deal.id)


def _settle(deal: Deal, were: list[dict[str, Any]]) -> None:
    """After a change of its lines: the deal's amount, its next version, and the event."""
    count, total, _ = deal.items()
    fits(count, [total])
    values: dict[str, Any] = {}
    if deal.amount_mode == "items" or (count and not were):
        values = {"amount_mode": "items", "amount": total}
    lines = lines_of(deal)
    check_parts("items", were, lines)
    beside = {"items": (were, lines)}
    if count != len(were):
        beside["items_count"] = (len(were), count)
    before = deal.put(values, beside)
    del before["items"]  # the trail has them; the event tells of the deal's own fields
    shown = {"deal": DEAL.one(deal.id), "items": lines}
    events.emit(events.DEAL_ITEMS_CHANGED, deal.id, shown, DEAL.show(before))


def composed(deal: Deal, sent: dict[str, Any], is_past: bool = False) -> dict[str, Any]:
    """A new line with all its values, those of its product copied; raises Invalid.

    `is_past`: a line of before, with a name and a price. Its product may be sold no more, or be
    gone: then the line is free and keeps its sku.
    """
    product = _past_product(sent) if is_past else _product(sent)
    if product is None:
        line = {**NEW, **sent}
        missing = [name for name in ("name", "price") if line.get(name) is None]
        if missing:
            detail = "a line without a product needs it"
            raise Invalid([Fault(f"/{name}", "required", detail) for name in missing])
    else:
        if "price" not in sent and product.currency != deal.currency:
            detail = "the product's currency is not that of the deal: send a price"
            raise Invalid.field("price", "currency_mismatch", detail)
        copied = {"name": product.name, "unit": product.unit, "price": product.price}
        line = {**NEW, **copied, **sent, "product_id": product.id, "sku": product.sku}
    return {**line, **_sums(line)}


def _product(sent: dict[str, Any]) -> Product | None:
    """The active product that a new line names by its id, its sku or both; raises Invalid."""
    id, sku = sent.get("product_id"), sent.get("sku")
    if id is not None:
        name, code, found = "product_id", "unknown_id", Product.first("id = ?", id)
    elif sku is not None:
        name, code, found = "sku", "unknown_sku", Product.first("sku = ?", sku)
    else:
        return None
    if found is None:
        raise Invalid.field(name, code, "there is no such product")
    if sku not in (None, found.sku):
        raise Invalid.field("sku", "sku_conflict", "is not the sku of the product named by its id")
    if not found.active:
        raise Invalid.field(name, "inactive_product", "this product is not sold any more")
    return found


def _past_product(sent: dict[str, Any]) -> Product | None:
    return Product.first("sku = ?", sent["sku"]) if sent.get("sku") else None


def _sums(line: dict[str, Any]) -> dict[str, int]:
    """Subtotal, discount and total of a line; raises Invalid for a discount that can't be."""
    subtotal = _in_cents(line["price"] * line["quantity"], 1000)
    if subtotal > AMOUNT_MAX:
        raise Invalid.field("price", "too_large", f"the line {MORE_THAN_FITS}")
    discount = line["discount"]
    if line["discount_type"] == "percent":
        if discount > WHOLE:
            raise Invalid.field("discount", "too_large", "at most 100 per cent")
        taken = _in_cents(subtotal * discount, WHOLE)
    else:
        if discount % CENT:
            raise Invalid.field("discount", "too_precise", "an amount has at most 2 decimals")
        if discount > subtotal:
            raise Invalid.field("discount", "too_large", "at most the line's subtotal")
        taken = discount
    return {"subtotal": subtotal, "discount_amount": taken, "total": subtotal - taken}


def _in_cents(value: int, scale: int) -> int:
    """`value` / `scale`, rounded half up to whole cents; nothing here is negative."""
    return (2 * value + scale * CENT) // (2 * scale * CENT) * CENT


def fits(count: int, totals: Iterable[int]) -> None:
    """So many lines with these totals can be a deal's; raises Conflict or Invalid.

    Asked before new lines are stored: the sum of a thousand large ones would not fit 64 bits.
    """
    if count > MOST:
        raise Conflict(f"a deal has at most {MOST} items", "too_many_items")
    if sum(totals) > AMOUNT_MAX:
        raise Invalid(Fault("", "too_large", f"the deal {MORE_THAN_FITS}"))


MORE_THAN_FITS = f"would come to more than {as_number(AMOUNT_MAX)}"


def each(lines: list[Any], read: Callable[[Any], Any]) -> list[Any]:
    """What `read` makes of each of the `items`; raises Invalid with the faults of them."""
    found, faults = [], []
    for number, line in enumerate(lines):
        try:
            found.append(read(line))
        except Invalid as error:
            faults += [Fault(f"/items/{number}{f.where}", f.code, f.detail) for f in error.faults]
            if len(faults) >= MAX_FAULTS:
                break
    if faults:
        raise Invalid(faults)
    return found


class Discount(fields.Number):
    """Per cent with up to 4 decimals, or an amount with up to 2: `discount_type` tells."""

    def __init__(self, **options: Any):
        largest = as_number(AMOUNT_MAX)
        super().__init__(lambda value: money(value, 4, AMOUNT_MAX), float(largest), **options)


class DealItemSchema(RecordSchema):
    """All fields of an item, in the order they are shown."""

    id = fields.Id(read_only=True)
    product_id = fields.Id(create_only=True, example="9", about="None: a free line.")
    sku = fields.Text(64, create_only=True, example="CH-0012", about="May name the product.")
    name = fields.Text(255, nullable=False, example="Крісло офісне")
    unit = fields.Text(32, example="шт")
    quantity = fields.Quantity(nullable=False, default=1)
    price = fields.Price(nullable=False, about="By default the product's.")
    discount = Discount(
        nullable=False, default=0, example=10, about="Per cent, or an amount off the line."
    )
    discount_type = fields.Choice(*DISCOUNT_TYPES, nullable=False, default="percent")
    subtotal = fields.Amount(read_only=True)
    discount_amount = fields.Amount(read_only=True)
    total = fields.Amount(read_only=True)
    position = fields.Integer(1, LAST_POSITION, nullable=False, about="By default the last.")
    comment = fields.LongText()
    created_at = fields.DateTime(read_only=True)
    updated_at = fields.DateTime(read_only=True)
    version = fields.Integer(1, 1 << 53, read_only=True)


ITEM = RecordView(DealItemSchema.out("DealItemOut"), "deal_item", live=False, noun="item")
ITEM_ENTRY = DealItemSchema.body("DealItemIn")
ITEM_PATCH = DealItemSchema.patch("DealItemPatch")


class DealItemLine(type(ITEM_ENTRY)):
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

    items = ma.List(ma.Nested(ITEM_ENTRY), required=True, validate=Length(1, MOST_ADDED))


class OneOrMore(Body):
    """One item, or `items`: a list of them."""

    alternatives = (ITEM_ENTRY, DealItemsIn())

    def take(self, sent: Any) -> Payload:
        """`item` in stored form, or `items`."""
        if not isinstance(sent, dict) or "items" not in sent:
            return Payload(item=ITEM_ENTRY.take(sent))
        return _listed(sent, 1, MOST_ADDED, ITEM_ENTRY.take)


class AllItems(Body):
    """All the items that the deal shall have."""

    items = ma.List(ma.Nested(DealItemLine()), required=True, validate=Length(0, MOST))

    def take(self, sent: Any) -> Payload:
        """`items` in stored form."""
        return _listed(sent, 0, MOST, _line)


def _line(sent: Any) -> Payload:
    if not isinstance(sent, dict):
        return ITEM_ENTRY.take(sent)
    values = {name: value for name, value in sent.items() if name != "id"}
    if sent.get("id") is None:
        return ITEM_ENTRY.take(values)
    found = ITEM_PATCH.take(values)
    found["id"] = integer_id(sent["id"])
    return found


def _listed(sent: Any, least: int, most: int, read: Callable[[Any], Payload]) -> Payload:
    if not isinstance(sent, dict):
        raise Invalid(Fault("", "invalid_type", "the body must be a JSON object"))
    if strange := [*islice((name for name in sent if name != "items"), MAX_FAULTS)]:
        detail = "does not go with items"
        raise Invalid([Fault(f"/{name}", "unknown_field", detail) for name in strange])
    lines = sent.get("items")
    if not isinstance(lines, list):
        raise Invalid.field("items", "invalid_type", "must be a list of items")
    if not least <= len(lines) <= most:
        raise Invalid.field("items", "invalid_length", f"from {least} to {most} items")
    return Payload(items=each(lines, read))


ITEM_IN = OneOrMore()
ITEMS_PUT = AllItems()
