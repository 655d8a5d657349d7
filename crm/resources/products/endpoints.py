"""Endpoints of products, in the specification's order (spec: Products)."""

from typing import Any

from crm.api.envelopes import page_of
from crm.api.operations import Blueprint
from crm.records import pagination
from crm.records.columns import N_
from crm.records.pagination import Page
from crm.records.parameters import Query
from crm.records.queries import filter_of
from crm.resources.products.csv_columns import PRODUCTS
from crm.resources.products.record import (
    PRODUCT,
    PRODUCT_IN,
    PRODUCT_PATCH,
    Product,
    create,
    delete,
    update,
)
from crm.spreadsheets.endpoints import add_endpoints

ProductFilter = filter_of(Product, sort="name", unsorted=("created_at",))
PRODUCT_FILTER = ProductFilter()

blueprint = Blueprint("products", "What is sold, and the price list as CSV.", N_("Products"))


@blueprint.get("/products")
@blueprint.arguments(PRODUCT_FILTER, location="query")
@blueprint.page(page_of(PRODUCT.schema, deleted=True))
def list_products(query: Query) -> Page:
    """List products by name."""
    return pagination.page(PRODUCT, query, PRODUCT_FILTER.fields["sort"])


@blueprint.get("/products/<id>")
@blueprint.one(PRODUCT)
def get_product(id: str) -> dict[str, Any]:
    """Get one product."""
    return PRODUCT.one(id)


@blueprint.post("/products")
@blueprint.arguments(
    PRODUCT_IN, example={"sku": "CH-0012", "name": "Крісло офісне", "price": 1250.5, "unit": "шт"}
)
@blueprint.created("product", PRODUCT)
@blueprint.conflicts()
def create_product(data: dict[str, Any]) -> int:
    """Create a product."""
    return create(data)


@blueprint.patch("/products/<id>")
@blueprint.arguments(PRODUCT_PATCH)
@blueprint.one(PRODUCT)
@blueprint.conflicts()
def change_product(
    data: dict[str, Any], id: str, expected_version: int | None = None
) -> dict[str, Any]:
    """Change the sent fields of a product."""
    return PRODUCT.one(update(id, data, expected_version).id)


@blueprint.delete("/products/<id>")
@blueprint.empty()
def delete_product(id: str, expected_version: int | None = None) -> None:
    """Delete a product; deals that use it keep their items."""
    delete(id, expected_version)


add_endpoints(
    blueprint,
    PRODUCTS,
    ProductFilter,
    "Import a price list: rows with a new sku create products, others change them.",
    "Export the price list, with the filters of the list.",
)
