"""Pages of products: the list and the card, which is the edit form."""

from functools import partial

from flask import request
from werkzeug.wrappers import Response

from crm.cabinet import edits, languages, list_pages, lists
from crm.cabinet.forms import Form, load_form
from crm.cabinet.languages import gettext
from crm.cabinet.list_pages import NUMBER, FilterField, ListPage
from crm.cabinet.record_fields import form_names, record_fields
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
from crm.resources import products, tenant
from crm.resources.products.endpoints import PRODUCT_FILTER
from crm.resources.products.record import PRODUCT, PRODUCT_IN, PRODUCT_PATCH, Product
from crm.spreadsheets.csv_format import decimal_text

NEW = form_names("product", new=True)
FIELDS = form_names("product")

pages = Pages("products")


@pages.get("/products")
def list_products(form: Form | None = None) -> Response:
    categories = lists.known_values("product", "category")
    sale = [("true", gettext("For sale")), ("false", gettext("Not for sale"))]
    page = ListPage(
        noun="product",
        path="/products",
        title=gettext("Products"),
        filters=(
            FilterField(
                "text", "category", gettext("Category"), suggestions=categories, max_length=128
            ),
            FilterField("select", "active", gettext("Sale"), sale),
        ),
        sorts=(
            ("", gettext("By product name")),
            ("-id", gettext("Newest first")),
            ("-updated_at", gettext("Recently updated first")),
        ),
        columns=(
            (gettext("Name"), ""),
            (gettext("Price"), NUMBER),
            (gettext("Unit"), ""),
            (gettext("Category"), ""),
            (gettext("Sale"), ""),
        ),
        empty=gettext("No products yet. Import a price list, or add them here."),
        new=gettext("New product"),
    )
    return list_pages.render_list(
        "products/list.html",
        page,
        PRODUCT,
        PRODUCT_FILTER,
        form=form or Form({"active": True, "currency": tenant.currency()}),
        fields=record_fields("product", NEW),
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
    # With a decimal comma for Ukrainian users, as they type it.
    price = decimal_text(Product.find(id).price, 4, comma=languages.language() == "uk")
    form = form or edits.open_form(product, FIELDS, price=price)
    fields = record_fields("product", FIELDS)
    return render("products/card.html", product=product, form=form, fields=fields)


@pages.post("/products/<id>")
@rerender_on_error(lambda form, id: edit_product(id, form))
def change_product(id: str) -> Response:
    data = load_form(PRODUCT_PATCH, request.form, FIELDS)
    other_changes = edits.save(PRODUCT, id, data, partial(products.update, id))
    edits.flash_saved(other_changes)
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
    question, detail = (
        gettext("Delete the product “%(name)s”?", name=name),
        _deletion_notice(product),
    )
    with confirmed(question, gettext("Delete"), f"/products/{id}", detail):
        # With the version read above, whose name and use in deals the question states.
        products.delete(id, product.version)
    flash(gettext("“%(name)s” deleted", name=name))
    return see_other("/products")


def _deletion_notice(product: Product) -> str:
    """What happens to a product when it is deleted, as a sentence."""
    if PRODUCT.one(product.id)["used_in_deals"]:
        return gettext(
            "Existing deals keep their items. To stop offering the product, make it unavailable"
            " instead."
        )
    return gettext(
        "It is not used in any deal and will be deleted permanently. To stop offering the product,"
        " make it unavailable instead."
    )
