"""Products: the price list and each product's card."""

from typing import Any

from flask import request
from werkzeug.wrappers import Response

from crm.cabinet import cards, languages, lists
from crm.cabinet.forms import Form, take
from crm.cabinet.frame import Pages, again, next_path, onward, render, told
from crm.cabinet.languages import gettext
from crm.cabinet.moving import exports
from crm.resources import tenant
from crm.resources.products.endpoints import PRODUCT_FILTER
from crm.resources.products.record import PRODUCT, PRODUCT_IN, PRODUCT_PATCH, Product, create
from crm.sheets import decimal_text
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
        ways=exports.ways("products"),
        **_choices(),
    )


@pages.post("/products")
@again(lambda form: list_products(form))
def create_product() -> Response:
    id = create(take(PRODUCT_IN, request.form, NEW))
    told(gettext("The product is there."))
    return onward(f"/products/{id}")


@pages.get("/products/<id>")
def edit_product(id: str, form: Form | None = None) -> Response:
    product = PRODUCT.one(id)
    price = decimal_text(Product.find(id).price, 4, comma=languages.language() == "uk")
    shown = {**product, "price": price}
    return render("products/card.html", product=product, form=form or Form(shown), **_choices())


@pages.post("/products/<id>")
@again(lambda form, id: edit_product(id, form))
def change_product(id: str) -> Response:
    data = take(PRODUCT_PATCH, request.form, FIELDS)
    with transaction():
        cards.is_as_shown(PRODUCT.one(id))
        Product.find(id).change(data)
    told(gettext("Saved."))
    return onward(f"/products/{id}")


@pages.post("/products/<id>/active")
def switch_product(id: str) -> Response:
    data = take(PRODUCT_PATCH, request.form, ("active",))
    with transaction():
        Product.find(id).change(data)
    return onward(next_path(f"/products/{id}"))


@pages.post("/products/<id>/delete")
def delete_product(id: str) -> Response:
    with transaction():
        product = Product.find(id)
        name = product.name
        product.remove()
    told(gettext("“%(name)s” is deleted.", name=name))
    return onward("/products")


def _choices() -> dict[str, Any]:
    return {
        "categories": lists.known("product", "category"),
        "units": lists.known("product", "unit"),
    }
