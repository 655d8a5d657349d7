"""Endpoints of products, in the specification's order, and of their imports (spec: Products)."""

from typing import Any

from flask import Request, Response
from marshmallow import fields as ma

from crm.resources.products import price_list
from crm.resources.products.import_report import IMPORT, rejected_rows
from crm.resources.products.price_list import PriceList
from crm.resources.products.record import PRODUCT, PRODUCT_IN, PRODUCT_PATCH, Product, create
from crm.rest import fields, filters, paging
from crm.rest.envelopes import page_of
from crm.rest.filters import Query
from crm.rest.paging import Page
from crm.rest.resource import Blueprint, address
from crm.rest.shapes import Noun
from crm.rest.upload import one_file
from crm.tenancy.database import transaction

CSV = "text/csv"
DIALECT = filters.Chosen(
    fields.Choice("excel"), "`excel`: BOM, semicolons, decimal comma, no formulas."
)


class ProductFilter(filters.KeptFilter):
    category = filters.Equals(fields.Text(128))
    active = filters.Yes()
    sku = filters.Equals(fields.Text(64), about="The key of the price list.")
    q = filters.Search("product", "Words in sku, name, category or description.")
    sort = filters.Sort("name", name="name", updated_at="updated_at")


class ExportFilter(ProductFilter):
    dialect = DIALECT


class ImportFilter(filters.Filter):
    dry_run = filters.Chosen(fields.Choice("true", "false"), "`true`: only count, write nothing.")
    dialect = DIALECT


class ImportedOut(Noun):
    status = ma.String(required=True, metadata={"enum": ["ok"]})
    created = ma.Integer(required=True)
    updated = ma.Integer(required=True)
    skipped = ma.Integer(required=True, metadata={"description": "Unchanged or rejected rows."})


PRODUCT_FILTER = ProductFilter()
# A price list is whole: it has no pages and no deleted rows.
EXPORT_FILTER = ExportFilter(exclude=("limit", "cursor", "total", "include_deleted"))
IMPORT_FILTER = ImportFilter(only=("dry_run", "dialect"))


def sent_list(sent: Request) -> tuple[str | None, PriceList]:
    """The name and the rows of the file sent."""
    name, data = one_file(sent, "file", price_list.MOST_BYTES)
    return name, price_list.read(data, sent.args.get("dialect") == "excel")


blueprint = Blueprint("products", "What is sold, and the price list as CSV.")


@blueprint.get("/products")
@blueprint.arguments(PRODUCT_FILTER, location="query")
@blueprint.page(page_of(PRODUCT.schema, deleted=True))
def list_products(query: Query) -> Page:
    """List products by name."""
    return paging.page(PRODUCT, query, PRODUCT_FILTER.fields["sort"])


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
def change_product(data: dict[str, Any], id: str) -> dict[str, Any]:
    """Change the sent fields of a product."""
    with transaction():
        product = Product.find(id)
        product.change(data)
        return PRODUCT.one(product.id)


@blueprint.delete("/products/<id>")
@blueprint.empty()
def delete_product(id: str) -> None:
    """Delete a product; deals that use it keep their items."""
    with transaction():
        Product.find(id).remove()


@blueprint.post("/products/import")
@blueprint.arguments(IMPORT_FILTER, location="query")
@blueprint.upload(sent_list)
@blueprint.answer(ImportedOut())
def import_products(
    query: Query, sent: tuple[str | None, PriceList]
) -> tuple[dict[str, Any], dict[str, str]]:
    """Import a price list: rows with a new sku create products, others change them."""
    file_name, prices = sent
    result = price_list.import_csv(prices, file_name, query.chosen.get("dry_run") == "true")
    counts = {"created": result.created, "updated": result.updated, "skipped": result.skipped}
    headers = {}
    if result.import_id is not None:
        headers["Location"] = address(f"/imports/{result.import_id}")
    return {"status": "ok", **counts}, headers


@blueprint.get("/products/export")
@blueprint.arguments(EXPORT_FILTER, location="query")
@blueprint.raw(CSV)
def export_products(query: Query) -> Response:
    """Export the price list, with the filters of the list."""
    condition = " AND ".join(query.conditions) or "1"
    order = EXPORT_FILTER.fields["sort"].by(query.sort)
    excel = query.chosen.get("dialect") == "excel"
    return as_file("price-list.csv", price_list.export_csv(condition, query.params, order, excel))


@blueprint.get("/imports/<id>")
@blueprint.one(IMPORT)
def get_import(id: str) -> dict[str, Any]:
    """Get what an import did: its counts and its first 1000 errors."""
    return IMPORT.one(id)


@blueprint.get("/imports/<id>/errors.csv")
@blueprint.raw(CSV)
def get_import_errors(id: str) -> Response:
    """Get the rejected rows of an import for repair; kept for 30 days."""
    found = rejected_rows(id)
    return as_file(f"import-{id}-errors.csv", found)


def as_file(name: str, data: bytes) -> Response:
    """A CSV file to be saved."""
    headers = {"Content-Disposition": f'attachment; filename="{name}"'}
    return Response(data, headers=headers, content_type=f"{CSV}; charset=utf-8")
