"""Products: what is sold, and at what price (spec: Products; D2, D9, D17).

A product has a name and a price. `sku` is the key of the price list: no two live products share
one, and a product may have none. Deal items copy what they need, so a change here touches no deal.

A deleted product that any deal item names keeps its row. Any other is erased at once with its audit
trail; a row with nothing but its id and times stays for 30 days, because an ERP that follows
deletions by `include_deleted` would otherwise miss it.
"""

from typing import Any

from crm.errors import Conflict
from crm.outbox import events
from crm.records import columns, fields, parameters
from crm.records.columns import N_, Shown
from crm.records.record import SoftDeletedRecord
from crm.records.retention import erase_deleted
from crm.records.schemas import schema_of
from crm.records.views import RecordView
from crm.resources import tenant
from crm.tenancy.database import execute, row, transaction

ERASED = {"name": "", "price": 0, "currency": "", "active": 0} | dict.fromkeys(
    ("sku", "unit", "category", "description", "external_id", "extra")
)


class Product(SoftDeletedRecord):
    """One entry of the catalog, in stored form."""

    noun = "product"

    sku = columns.Text(
        64,
        about="The key of the price list.",
        example="CH-0012",
        searched=True,
        filtered=parameters.Equals(about="The key of the price list.", rare=True),
        label=N_("SKU"),
        form="new",
    )
    name = columns.Text(
        255,
        required=True,
        example="Крісло офісне",
        searched=True,
        sorted=True,
        label=N_("Name"),
        form="new",
    )
    price = columns.Price(required=True, label=N_("Price"), form="new")
    currency = columns.Currency(
        allow_none=False,
        null=False,
        about="By default the tenant's.",
        label=N_("Currency"),
        form="new",
    )
    unit = columns.Text(32, example="шт", label=N_("Unit"), form="new")
    category = columns.Text(
        128,
        example="Крісла",
        searched=True,
        filtered=parameters.Equals(),
        label=N_("Category"),
        form="new",
    )
    description = columns.LongText(
        example="Сітчаста спинка, газліфт", searched=True, label=N_("Description"), form="new"
    )
    active = columns.Boolean(
        allow_none=False,
        default=True,
        filtered=parameters.BooleanFilter(),
        label=N_("For sale"),
        form="new",
    )
    used_in_deals = Shown(
        fields.Boolean(
            dump_only=True,
            column="EXISTS (SELECT 1 FROM deal_item WHERE deal_item.product_id = product.id)",
            about="Whether any deal item names it.",
        )
    )

    def update_fields(self, data: dict[str, Any]) -> None:
        """Change the sent fields by the rules of update(); inside a transaction."""
        if data.get("sku") not in (None, self.sku):
            _require_free_sku(data["sku"])
        before = self.put(data)
        if before:
            body = {"product": PRODUCT.one(self.id)}
            events.emit(events.PRODUCT_UPDATED, self.id, body, PRODUCT.show(before))

    def is_used(self) -> bool:
        """Return whether any deal item refers to the product."""
        return row("SELECT 1 FROM deal_item WHERE product_id = ? LIMIT 1", (self.id,)) is not None

    def remove(self, **last: Any) -> None:
        """Soft-delete it, which frees its sku; erase its values unless deals use it."""
        if self.is_used():
            super().remove(**last)
            return
        # No deal refers to it, so its values serve nothing; the audit trail would still show them.
        super().remove(**ERASED, **last)
        execute("DELETE FROM audit_entry WHERE noun = ? AND record_id = ?", (self.noun, self.id))


# A product without a name is one that was erased: its row was kept for `include_deleted` alone.
erase_deleted(
    "product",
    "name = '' AND NOT EXISTS (SELECT 1 FROM deal_item WHERE product_id = product.id)",
)


def create(data: dict[str, Any]) -> int:
    """Add a product and return its id; one product.created. Raises Conflict `duplicate_sku`."""
    with transaction():
        _require_free_sku(data.get("sku"))
        product = Product.add({"currency": tenant.currency(), "active": 1, **data})
        events.emit(events.PRODUCT_CREATED, product.id, {"product": PRODUCT.one(product.id)})
        return product.id


def update(id: int | str, data: dict[str, Any], expected_version: int | None = None) -> Product:
    """Change the sent fields of a product; one product.updated if anything differs.

    Raises Invalid, NotFound, Stale, and Conflict `duplicate_sku`.
    """
    with transaction():
        product = Product.find(id, expected_version)
        product.update_fields(data)
        return product


def delete(id: int | str, expected_version: int | None = None) -> Product:
    """Delete a product: softly if deals use it. Raises NotFound and Stale."""
    with transaction():
        product = Product.find(id, expected_version)
        product.remove()
        return product


def _require_free_sku(sku: str | None) -> None:
    """Raise Conflict `duplicate_sku` when another live product has it."""
    if sku is not None and (other := Product.first("sku = ?", sku)):
        detail = f"the product {other.id} has the sku {sku}"
        raise Conflict(detail, "duplicate_sku", id=str(other.id))


ProductSchema = schema_of(Product)
PRODUCT = RecordView(ProductSchema.out("ProductOut"), "product")
PRODUCT_IN = ProductSchema.body("ProductIn")
PRODUCT_PATCH = ProductSchema.patch("ProductPatch")
