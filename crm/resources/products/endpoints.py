"""Endpoints of products, in the specification's order (spec: Products)."""

from crm.api.blueprints import Blueprint, Endpoints
from crm.records.columns import N_
from crm.records.queries import filter_of
from crm.resources.products.record import PRODUCT, Product, create, delete, update

ProductFilter = filter_of(Product, sort="name", unsorted=("created_at",))
PRODUCT_FILTER = ProductFilter()

blueprint = Blueprint("products", "What is sold, and the price list as CSV.", N_("Products"))


products = Endpoints(blueprint, "/products", PRODUCT)
products.list(PRODUCT_FILTER, "List products by name.")
products.get()
products.create(
    create, example={"sku": "CH-0012", "name": "Крісло офісне", "price": 1250.5, "unit": "шт"}
)
products.change(update)
products.delete(delete, "Delete a product; deals that use it keep their items.")
