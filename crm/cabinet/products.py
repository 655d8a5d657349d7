"""Products: the price list and each product's card."""

from typing import Any

from flask import request
from werkzeug.wrappers import Response

from crm.cabinet import edits, languages, lists
from crm.cabinet.forms import Form, take
from crm.cabinet.languages import gettext
from crm.cabinet.rendering import (
    Pages,
    again,
    confirm,
    next_path,
    onward,
    render,
    told,
    told_with_undo,
)
from crm.cabinet.spreadsheets.exports import export_links
from crm.resources import tenant
from crm.resources.products.endpoints import PRODUCT_FILTER
from crm.resources.products.record import PRODUCT, PRODUCT_IN, PRODUCT_PATCH, Product, create
from crm.spreadsheets.csv_format import decimal_text
from crm.tenancy.database import transaction

FIELDS = (
    *("name", "sku", "price", "currency", "unit", "category", "external_id", "description"),
    "active",
)
NEW = tuple(name for name in FIELDS if name != "external_id")

pages = Pages("products")


@pages.get("/products")
def list_products(form: Form | None = None) -> Response:
    return render(
        "products/list.html",
        page=lists.page(PRODUCT, PRODUCT_FILTER),
        active_filters=lists.active_filters("product"),
        form=form or Form({"active": True, "currency": tenant.currency()}),
        narrowed=lists.is_narrowed(),
        export_links=export_links("products"),
        **_choices(),
    )


@pages.post("/products")
@again(lambda form: list_products(form))
def create_product() -> Response:
    id = create(take(PRODUCT_IN, request.form, NEW))
    told(gettext("Product added"))
    return onward(f"/products/{id}")


@pages.get("/products/<id>")
def edit_product(id: str, form: Form | None = None) -> Response:
    product = PRODUCT.one(id)
    price = decimal_text(Product.find(id).price, 4, comma=languages.language() == "uk")
    form = form or edits.open_form(product, FIELDS, price=price)
    return render("products/card.html", product=product, form=form, **_choices())


@pages.post("/products/<id>")
@again(lambda form, id: edit_product(id, form))
def change_product(id: str) -> Response:
    data = take(PRODUCT_PATCH, request.form, FIELDS)
    with transaction():
        theirs = edits.keep_both(PRODUCT, PRODUCT.one(id), data)
        Product.find(id).change(data)
    edits.tell_saved(theirs)
    return onward(f"/products/{id}")


@pages.post("/products/<id>/active")
def switch_product(id: str) -> Response:
    data = take(PRODUCT_PATCH, request.form, ("active",))
    with transaction():
        product = Product.find(id)
        product.change(data)
    back = next_path(f"/products/{id}")
    if product.active:
        text = gettext("“%(name)s” is available again", name=product.name)
    else:
        text = gettext("“%(name)s” is no longer available", name=product.name)
    told_with_undo(text, f"/products/{id}/active", {"active": 1 - product.active, "next": back})
    return onward(back)


@pages.post("/products/<id>/delete")
def delete_product(id: str) -> Response:
    with transaction():
        product = Product.find(id)
        name = product.name
        detail = _end_of(product)
        product.remove()
        question = gettext("Delete the product “%(name)s”?", name=name)
        confirm(question, gettext("Delete"), f"/products/{id}", detail)
    told(gettext("“%(name)s” deleted", name=name))
    return onward("/products")


def _end_of(product: Product) -> str:
    """What becomes of a product that is deleted."""
    if PRODUCT.one(product.id)["used_in_deals"]:
        return gettext(
            "Existing deals keep their items. To stop offering the product, make it unavailable"
            " instead."
        )
    return gettext(
        "It is not used in any deal and will be deleted permanently. To stop offering the product,"
        " make it unavailable instead."
    )


def _choices() -> dict[str, Any]:
    return {
        "categories": lists.known("product", "category"),
        "units": lists.known("product", "unit"),
    }
