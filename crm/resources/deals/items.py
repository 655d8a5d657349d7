"""Deal items: the lines a deal is composed of (spec: Deals and deal items; D2, D8).

An item is of a product, named by its id or its sku, or free with a name and a price of its own. The
product's name, unit and price are copied when the item is added: later changes of the product don't
touch it. Each item is rounded half up to 1/100 and totals are sums of rounded items, so that they
add up on paper.

However many items a request changes, it is one change of the deal: one deal.items_changed, one
version more. The first item makes the deal's amount the total of its items.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from peewee import IntegerField

from crm.access import rights
from crm.errors import Conflict, Fault, FaultCollector, Invalid
from crm.outbox import events
from crm.records import columns, fields, nested
from crm.records.record import Record
from crm.records.schemas import READ_ONLY, Body, Payload
from crm.records.views import declare_views
from crm.resources.deals.record import DEAL, Deal
from crm.resources.products import record as products
from crm.resources.products.record import Product
from crm.storage.session import transaction
from crm.values import AMOUNT_MAX, CENT, as_number, in_cents, money

MAX_ADDED_ITEMS = 100  # of one POST (D8)
MAX_ITEMS = 10_000  # of a deal: each of its events has them all
LAST_POSITION = 1_000_000
HUNDRED_PERCENT = 100 * 10_000  # in 1/10 000 of a per cent
IN_ORDER = "deal_id = ? ORDER BY position, id"
DISCOUNT_TYPES = ("percent", "amount")
DEFAULTS = {"quantity": 1000, "discount": 0, "discount_type": "percent"}


class Discount(fields.Number):
    """Per cent with up to 4 decimals, or an amount with up to 2, according to `discount_type`."""

    maximum = float(as_number(AMOUNT_MAX))
    takes_percent = True

    def read(self, value: Any) -> int:
        return money(value, 4, AMOUNT_MAX)


class DealItem(Record):
    """One line of a deal, in stored form. `discount` is in 1/10 000 of a per cent, or money."""

    noun = "item"

    deal_id = IntegerField()
    product_id = columns.Id(create_only=True, example="9", about="None: a free line.")
    sku = columns.Text(64, create_only=True, example="CH-0012", about="May name the product.")
    name = columns.Text(255, allow_none=False, example="Крісло офісне")
    unit = columns.Text(32, example="шт")
    quantity = columns.Quantity(default=1)
    price = columns.Price(allow_none=False, about="By default the product's.")
    discount = columns.Amount(
        wire=Discount(default=0, example=10, about="Per cent, or an amount off the line.")
    )
    discount_type = columns.Choice(*DISCOUNT_TYPES, default="percent")
    subtotal = columns.Amount(dump_only=True)
    discount_amount = columns.Amount(dump_only=True)
    total = columns.Amount(dump_only=True)
    position = columns.Integer(
        1, LAST_POSITION, allow_none=False, about="By default the last.", csv=False
    )
    comment = columns.LongText()

    def updated_values(self, data: dict[str, Any]) -> dict[str, Any]:
        """The sent fields and the sums of the item with them. Raises Invalid."""
        stored = {name: getattr(self, name) for name in ("price", *DEFAULTS)}
        return {**data, **_sums({**stored, **data})}


ItemValues = tuple[DealItem | None, dict[str, Any]]  # the item, None for a new one; its values


def create(deal_id: int | str, data: dict[str, Any]) -> int:
    """Add an item to a deal and return the item's id. Raises Invalid, Conflict and NotFound."""
    with _changing_items(deal_id) as deal:
        return store(deal, [(None, new_values(deal, data))])[0]


def create_all(deal_id: int | str, entries: list[dict[str, Any]]) -> list[int]:
    """Add items to a deal and return their ids. Raises Invalid, Conflict and NotFound."""
    with _changing_items(deal_id) as deal:
        return store(deal, read_entries(entries, lambda entry: (None, new_values(deal, entry))))


def update(
    deal_id: int | str, id: int | str, data: dict[str, Any], expected_version: int | None = None
) -> DealItem:
    """Change the sent fields of an item. Raises Invalid, NotFound, and Stale for its version."""
    with _changing_items(deal_id) as deal:
        item = DealItem.of(deal, id, expected_version)
        item.save_changes(item.updated_values(data))
        return item


def delete(deal_id: int | str, id: int | str, expected_version: int | None = None) -> DealItem:
    """Remove an item from its deal. Raises NotFound, and Stale for the item's version."""
    with _changing_items(deal_id) as deal:
        item = DealItem.of(deal, id, expected_version)
        item.erase()
        return item


def replace(
    deal_id: int | str,
    entries: list[dict[str, Any]],
    expected_version: int | None = None,
    copied_from: str | None = None,
) -> Deal:
    """Make these the deal's items. Raises Invalid, Conflict, NotFound, and Stale for the deal's
    version.

    An entry with an id changes the fields of that item that it names, one without an id is a new
    item, and an item that isn't listed is deleted. They are ordered as listed unless they have a
    position. A new free item with `to_price_list` becomes a product, too. copied_from: the id of
    another deal, whose items are added.
    """
    with _changing_items(deal_id, expected_version) as deal:
        items = {item.id: item for item in DealItem.every("deal_id = ? ORDER BY id", deal.id)}
        listed: set[int] = set()

        # All entries are checked before the first is stored, so that one response names all faults.
        def read(entry: dict[str, Any]) -> ItemValues:
            if (id := entry.pop("id", None)) is None:
                to_price_list = entry.pop("to_price_list", False)
                values = new_values(deal, _own_values(entry, None))
                if to_price_list and values.get("product_id") is None:
                    product = {name: values[name] for name in ("name", "price")}
                    product["currency"] = deal.currency
                    values["product_id"] = products.create(product)
                return None, values
            if id not in items:
                raise Invalid.field("id", "unknown_id", "this deal has no item with this id")
            if id in listed:
                raise Invalid.field("id", "repeated", "this item is listed twice")
            listed.add(id)
            return items[id], items[id].updated_values(_own_values(entry, items[id]))

        rows = read_entries(entries, read)
        if copied_from:
            rows += [(None, values) for values in _copied_values(deal, Deal.find(copied_from))]
        for id in items.keys() - listed:
            items[id].erase()
        store(deal, [(row[0], {"position": at, **row[1]}) for at, row in enumerate(rows, 1)])
        return deal


def _copied_values(deal: Deal, source: Deal) -> list[dict[str, Any]]:
    """The values of new items like those of another deal. Raises Invalid."""
    if source.currency != deal.currency:
        raise Invalid(Fault("", "currency_mismatch", "the deals have different currencies"))
    items = DealItem.every(IN_ORDER, source.id)
    own = ("id", "created_at", "updated_at", "version", "deal_id", "position")
    return [{k: v for k, v in item.__data__.items() if k not in own} for item in items]


def _own_values(entry: dict[str, Any], item: DealItem | None) -> dict[str, Any]:
    """An entry without its read-only fields, which must be as the item has them, or Invalid."""
    read_only = ITEM_PATCH.echoes.keys() - (ITEM_ENTRY.fields.keys() if item is None else {})
    # Without the right to read any value is refused: guesses would reveal the stored one.
    known = item.__data__ if item is not None and rights.can_read("deals") else {}
    sent = [name for name in entry if name in read_only]
    if changed := [name for name in sent if name not in known or known[name] != entry[name]]:
        raise Invalid([Fault(f"/{name}", *READ_ONLY) for name in changed])
    return {name: value for name, value in entry.items() if name not in read_only}


def store(deal: Deal, rows: Iterable[ItemValues]) -> list[int]:
    """Change items of a deal, and add those without one; the ids of the new ones.

    Raises Conflict and Invalid beyond the limits of a deal. Called before update_deal().
    """
    rows = list(rows)
    count, _, last = deal.items()
    new_count = sum(item is None for item, _ in rows)
    # Checked before they are stored: the sum of a thousand large totals would not fit 64 bits.
    _check_limits(count + new_count, sum(values["total"] for _, values in rows))
    ids = []
    for item, values in rows:
        if item is not None:
            item.save_changes(values)
            continue
        values.pop("id", None)
        last = values.get("position") or min(last + 1, LAST_POSITION)
        ids.append(DealItem.add({**values, "position": last, "deal_id": deal.id}).id)
    return ids


def items_of(deal: Deal) -> list[dict[str, Any]]:
    """The deal's items as they are shown, in their order."""
    return ITEM.every(IN_ORDER, deal.id)


def update_deal(
    deal: Deal,
    items_before: list[dict[str, Any]],
    data: dict[str, Any],
    exact: dict[str, Any] | None = None,
) -> None:
    """After a change of the items: the deal's amount and sent fields, its next version, the event.

    `exact`: as in Deal.update_fields(); then the items do not decide on the amount. Raises
    Invalid, and Conflict as Deal.update_fields().
    """
    items = items_of(deal)
    if items == items_before:
        deal.update_fields(data, exact=exact)
        return
    count, total, _ = deal.items()
    _check_limits(count, total)
    # The first item switches the amount to the items' total; later the mode is the user's choice.
    is_summed = (
        exact is None
        and (deal.amount_mode == "items" or not items_before)
        and "amount_mode" not in data
        and data.get("amount", total) == total
    )
    nested.check_parts("items", items_before, items, nested.MAX_ITEMS_BYTES)
    related: dict[str, tuple[Any, Any]] = {"items": (items_before, items)}
    if count != len(items_before):
        related["items_count"] = (len(items_before), count)
    if is_summed:
        data = {name: value for name, value in data.items() if name != "amount"}
        data["amount_mode"] = "items"
    emit_changed(deal, items, deal.update_fields(data, related, exact))


def emit_changed(deal: Deal, items: list[dict[str, Any]], before: dict[str, Any]) -> None:
    """Emit deal.items_changed. `before`: the deal's own fields that changed too."""
    body = {"deal": DEAL.one(deal.id), "items": items}
    events.emit(events.DEAL_ITEMS_CHANGED, deal.id, body, DEAL.show(before))


@contextmanager
def _changing_items(deal_id: int | str, expected_version: int | None = None) -> Iterator[Deal]:
    """Run the block in a transaction, and complete the deal by what it has changed of the items."""
    with transaction():
        deal = Deal.find(deal_id, expected_version)
        items_before = items_of(deal)
        yield deal
        update_deal(deal, items_before, {})


def new_values(deal: Deal, data: dict[str, Any], is_past: bool = False) -> dict[str, Any]:
    """All values of a new item, those of its product copied. Raises Invalid.

    `is_past`: an item of an imported deal, with a name and a price. Its product may be inactive, or
    deleted: then the item is free and keeps its sku.
    """
    product = _past_product(data) if is_past else _product(data)
    if product is None:
        values = {**DEFAULTS, **data}
        if missing := [name for name in ("name", "price") if values.get(name) is None]:
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
    subtotal = in_cents(values["price"] * values["quantity"], 1000)
    if subtotal > AMOUNT_MAX:
        raise Invalid.field("price", "too_large", f"the line {TOO_LARGE}")
    discount = values["discount"]
    if values["discount_type"] == "percent":
        if discount > HUNDRED_PERCENT:
            raise Invalid.field("discount", "too_large", "at most 100 per cent")
        discount_amount = in_cents(subtotal * discount, HUNDRED_PERCENT)
    else:
        if discount % CENT:
            raise Invalid.field("discount", "too_precise", "an amount has at most 2 decimals")
        if discount > subtotal:
            raise Invalid.field("discount", "too_large", "at most the line's subtotal")
        discount_amount = discount
    total = subtotal - discount_amount
    return {"subtotal": subtotal, "discount_amount": discount_amount, "total": total}


def _check_limits(count: int, total: int) -> None:
    """Raise Conflict or Invalid unless a deal can have so many items with this total."""
    if count > MAX_ITEMS:
        raise Conflict(f"a deal has at most {MAX_ITEMS} items", "too_many_items")
    if total > AMOUNT_MAX:
        raise Invalid(Fault("", "too_large", f"the deal {TOO_LARGE}"))


TOO_LARGE = f"would come to more than {as_number(AMOUNT_MAX)}"


def read_entries(entries: list[Any], read: Callable[[Any], Any]) -> list[Any]:
    """Return the results of `read` for all entries. Raises Invalid with the faults of all."""
    results, faults = [], FaultCollector()
    for number, entry in enumerate(entries):
        try:
            results.append(read(entry))
        except Invalid as error:
            for fault in error.faults:
                faults.add(f"items/{number}{fault.where}", fault.code, fault.detail)
    faults.raise_any()
    return results


ITEM, ITEM_ENTRY, ITEM_PATCH = declare_views(DealItem, noun="item")


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

    items = nested.NestedList(ITEM_ENTRY, required=True, min_items=1, max_items=MAX_ADDED_ITEMS)


class OneOrMore(Body):
    """One item, or `items`: a list of them."""

    alternatives = (ITEM_ENTRY, DealItemsIn())

    def parse(self, sent: Any) -> Payload:
        """`item` in stored form, or `items`."""
        item, items = self.alternatives
        if isinstance(sent, dict) and "items" in sent:
            return items.parse(sent)
        return Payload(item=item.parse(sent))


class AllItems(Body):
    """All the items that the deal shall have."""

    items = nested.NestedList(DealItemLine(), required=True, max_items=MAX_ITEMS)


ITEM_IN = OneOrMore()
ITEMS_PUT = AllItems()
