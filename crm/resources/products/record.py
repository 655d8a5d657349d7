"""Products: what is sold, and at what price (spec: Products; D2, D9, D17).

A product has a name and a price. `sku` is the key of the price list: no two live products share
one, and a product may have none. Deal items copy what they need, so a change here touches no deal.

A deleted product can be restored for 30 days. One that a deal item names keeps its row for good.
"""

from typing import Any

from peewee import IntegerField, TextField

from crm.api.blueprints import Blueprint, Endpoints
from crm.errors import Conflict
from crm.outbox import events
from crm.papers.requisites import VatRate
from crm.records import columns, fields, parameters, verbs
from crm.records.columns import N_, Shown
from crm.records.custom.values import Custom
from crm.records.queries import filter_of
from crm.records.record import SoftDeletedRecord
from crm.records.retention import erase_deleted
from crm.records.views import declare_views
from crm.records.words import Word
from crm.resources import tenant
from crm.storage.session import transaction


class VatColumn(columns.Column, IntegerField):
    wire_type = VatRate


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
        sorted="sort_key",
        label=N_("Name"),
    )
    sort_key = TextField(default="")
    price = columns.Price(required=True, label=N_("Price"))
    currency = columns.Currency(
        allow_none=False,
        about="By default the tenant's.",
        csv=False,
        label=N_("Currency"),
        form="new",
    )
    unit = columns.Text(32, example="шт", label=N_("Unit"), form="new")
    category = Word(
        128,
        "category",
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
        default=True, filtered=parameters.BooleanFilter(), label=N_("For sale"), form="new"
    )
    vat = VatColumn(
        example=20, about="Per cent of VAT on papers; by default the company's.", label=N_("VAT, %")
    )
    picture_id = columns.Id(
        about="The picture of it: one of its files (`POST /products/<id>/files`).", form=False
    )
    custom = Custom("products")
    used_in_deals = Shown(
        fields.Boolean(
            dump_only=True,
            # Not EXISTS, for which PostgreSQL reads all items once.
            column="(SELECT 1 FROM deal_item WHERE product_id = product.id LIMIT 1) IS NOT NULL",
            about="Whether any deal item names it.",
        )
    )

    def update_fields(self, data: dict[str, Any]) -> None:
        """Change the sent fields; one product.updated if anything differs. Inside a transaction.

        Raises Invalid, and Conflict `duplicate_sku`.
        """
        _require_free_sku(data.get("sku"), self.id)
        if data.get("picture_id") not in (None, self.picture_id):
            require_picture(self.id, data["picture_id"])
        if before := self.save_changes(data):
            body = {"product": PRODUCT.one(self.id)}
            events.emit(events.PRODUCT_UPDATED, self.id, body, PRODUCT.show(before))

    def put_back(self, values: dict[str, Any]) -> None:
        """Give it the values before a change that is undone, which has one event for all products.

        Raises Conflict `duplicate_sku`.
        """
        _require_free_sku(values.get("sku"), self.id)
        self.save_changes(values)

    def restore(self) -> None:
        """Undo remove(). Raises Conflict `duplicate_sku`."""
        _require_free_sku(self.sku)
        super().restore()


erase_deleted("product", "deal_item")

# What checks a picture, as crm/resources/__init__.py sets it: files import products.
require_picture: Any = None


def create(data: dict[str, Any]) -> int:
    """Add a product and return its id; one product.created. Raises Conflict `duplicate_sku`."""
    with transaction():
        _require_free_sku(data.get("sku"))
        if data.get("picture_id") is not None:
            require_picture(0, data["picture_id"])
        product = Product.add({"currency": tenant.currency(), "active": 1, **data})
        events.emit(events.PRODUCT_CREATED, product.id, {"product": PRODUCT.one(product.id)})
        return product.id


update, delete, restore = verbs.of(Product)


def _require_free_sku(sku: str | None, own_id: int = 0) -> None:
    """Raise Conflict `duplicate_sku` when another live product has it."""
    if sku is not None and (other := Product.first("sku = ? AND id <> ?", sku, own_id)):
        detail = f"the product {other.id} has the sku {sku}"
        raise Conflict(detail, "duplicate_sku", id=str(other.id))


PRODUCT, PRODUCT_IN, PRODUCT_PATCH = declare_views(Product)

PRODUCT_FILTER = filter_of(Product, sort="name", unsorted=("created_at",))()

blueprint = Blueprint("products", "What is sold, and the price list as CSV.", N_("Products"))


products = Endpoints(blueprint, "/products", PRODUCT)
products.list(PRODUCT_FILTER, "List products by name.")
products.get()
products.create(
    create, example={"sku": "CH-0012", "name": "Крісло офісне", "price": 1250.5, "unit": "шт"}
)
products.change(update)
products.delete(delete, "Delete a product; deals that use it keep their items.")
