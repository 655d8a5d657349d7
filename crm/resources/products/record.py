"""Products: what is sold, and at what price (spec: Products; D2, D9, D17).

A product has a name and a price. `sku` is the key of the price list: no two live products share
one, and a product may have none. Deal items copy what they need, so a change here touches no deal.

A deleted product that any deal item names keeps its row, for the deals' sake. Of any other every
word is erased at once, its trail of changes too; a bare row with nothing but its id and times stays
for 30 days, because an ERP that follows deletions by `include_deleted` would otherwise miss it.
"""

from typing import Any

from peewee import IntegerField, TextField

from crm.errors import Conflict
from crm.outbox import events
from crm.records import fields
from crm.records.record import SoftDeletedRecord
from crm.records.retention import erase_deleted
from crm.records.schemas import RecordSchema
from crm.records.views import RecordView
from crm.resources import tenant
from crm.tenancy.database import execute, row, transaction

NOTHING = {"name": "", "price": 0, "currency": "", "active": 0} | dict.fromkeys(
    ("sku", "unit", "category", "description", "external_id", "extra")
)


class Product(SoftDeletedRecord):
    """One entry of the catalog, in stored form."""

    noun = "product"

    sku = TextField(null=True)
    name = TextField()
    price = IntegerField()
    currency = TextField()
    unit = TextField(null=True)
    category = TextField(null=True)
    description = TextField(null=True)
    active = IntegerField(default=1)

    def search_texts(self) -> tuple[str | None, ...]:
        return self.sku, self.name, self.category, self.description

    def change(self, data: dict[str, Any]) -> None:
        """Change the sent fields; inside a transaction. One product.updated if any differs.

        Raises Conflict `duplicate_sku`.
        """
        if data.get("sku") not in (None, self.sku):
            sku_is_free(data["sku"])
        previous = self.put(data)
        if previous:
            data = {"product": PRODUCT.one(self.id)}
            events.emit(events.PRODUCT_UPDATED, self.id, data, PRODUCT.show(previous))

    def is_used(self) -> bool:
        """Does any deal item name it?"""
        return row("SELECT 1 FROM deal_item WHERE product_id = ? LIMIT 1", (self.id,)) is not None

    def remove(self, **last: Any) -> None:
        """Nobody finds it any more and its sku is free; erased unless deals use it."""
        if self.is_used():
            super().remove(**last)
            return
        super().remove(**NOTHING, **last)
        execute("DELETE FROM change WHERE noun = ? AND record_id = ?", (self.noun, self.id))


# Of a product without a name only what `include_deleted` lists was kept.
erase_deleted(
    "product",
    "name = '' AND NOT EXISTS (SELECT 1 FROM deal_item WHERE product_id = product.id)",
)


def create(data: dict[str, Any]) -> int:
    """Add a product and give its id; one product.created. Raises Conflict `duplicate_sku`."""
    with transaction():
        sku_is_free(data.get("sku"))
        product = Product.add({"currency": tenant.currency(), "active": 1, **data})
        events.emit(events.PRODUCT_CREATED, product.id, {"product": PRODUCT.one(product.id)})
        return product.id


def sku_is_free(sku: str | None) -> None:
    """No other live product has it, or Conflict."""
    if sku is not None and (other := Product.first("sku = ?", sku)):
        detail = f"the product {other.id} has the sku {sku}"
        raise Conflict(detail, "duplicate_sku", id=str(other.id))


class ProductSchema(RecordSchema):
    """All fields of a product, in the order they are shown."""

    id = fields.Id(dump_only=True)
    sku = fields.Text(64, about="The key of the price list.", example="CH-0012")
    name = fields.Text(255, required=True, example="Крісло офісне")
    price = fields.Price(required=True)
    currency = fields.Currency(allow_none=False, about="By default the tenant's.")
    unit = fields.Text(32, example="шт")
    category = fields.Text(128, example="Крісла")
    description = fields.LongText(example="Сітчаста спинка, газліфт")
    active = fields.Boolean(allow_none=False, default=True)
    used_in_deals = fields.Boolean(
        dump_only=True,
        column="EXISTS (SELECT 1 FROM deal_item WHERE deal_item.product_id = product.id)",
        about="Whether any deal item names it.",
    )
    external_id = fields.Text(128, example="1C-000123")
    extra = fields.Extra()
    created_at = fields.PastDateTime(create_only=True)
    updated_at = fields.DateTime(dump_only=True)
    version = fields.Integer(1, 1 << 53, dump_only=True)


PRODUCT = RecordView(ProductSchema.out("ProductOut"), "product")
PRODUCT_IN = ProductSchema.body("ProductIn")
PRODUCT_PATCH = ProductSchema.patch("ProductPatch")
