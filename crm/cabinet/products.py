"""Products: the price list and each product's card."""

from functools import partial
from typing import Any

from flask import request
from werkzeug.wrappers import Response

from crm.cabinet import edits, languages, lists
from crm.cabinet.forms import Form, load_form
from crm.cabinet.languages import gettext
from crm.cabinet.rendering import (
    Pages,
    confirmed,
    flash,
    flash_with_undo,
    next_path,
    render,
    rerender_on_error,
    see_other,
)
from crm.cabinet.spreadsheets.exports import export_links
from crm.resources import products, tenant
from crm.resources.products.endpoints import PRODUCT_FILTER
from crm.resources.products.record import PRODUCT, PRODUCT_IN, PRODUCT_PATCH, Product
from crm.spreadsheets.csv_format import decimal_text

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
@rerender_on_error(lambda form: list_products(form))
def create_product() -> Response:
    id = products.create(load_form(PRODUCT_IN, request.form, NEW))
    flash(gettext("Product added"))
    return see_other(f"/products/{id}")


@pages.get("/products/<id>")
def edit_product(id: str, form: Form | None = None) -> Response:
    product = PRODUCT.one(id)
    price = decimal_text(Product.find(id).price, 4, comma=languages.language() == "uk")
    form = form or edits.open_form(product, FIELDS, price=price)
    return render("products/card.html", product=product, form=form, **_choices())


@pages.post("/products/<id>")
@rerender_on_error(lambda form, id: edit_product(id, form))
def change_product(id: str) -> Response:
    data = load_form(PRODUCT_PATCH, request.form, FIELDS)
    theirs = edits.save(PRODUCT, id, data, partial(products.update, id))
    edits.tell_saved(theirs)
    return see_other(f"/products/{id}")


@pages.post("/products/<id>/active")
def switch_product(id: str) -> Response:
    data = load_form(PRODUCT_PATCH, request.form, ("active",))
    product = products.update(id, data)
    back = next_path(f"/products/{id}")
    if product.active:
        text = gettext("“%(name)s” is available again", name=product.name)
    else:
        text = gettext("“%(name)s” is no longer available", name=product.name)
    flash_with_undo(text, f"/products/{id}/active", {"active": 1 - product.active, "next": back})
    return see_other(back)


@pages.post("/products/<id>/delete")
def delete_product(id: str) -> Response:
    product = Product.find(id)
    name = product.name
    question, detail = gettext("Delete the product “%(name)s”?", name=name), _end_of(product)
    with confirmed(question, gettext("Delete"), f"/products/{id}", detail):
        products.delete(id, product.version)
    flash(gettext("“%(name)s” deleted", name=name))
    return see_other("/products")


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
