"""Pages of products: the list and the card, which is the edit form."""

from werkzeug.wrappers import Response

from crm.cabinet import edits
from crm.cabinet.forms import Form, load_form
from crm.cabinet.languages import N_, gettext
from crm.cabinet.records import lists
from crm.cabinet.records.record_fields import form_names, record_fields
from crm.cabinet.records.record_pages import add_record_pages
from crm.cabinet.rendering import Pages, next_path, render, see_other, with_undo
from crm.resources import products
from crm.resources.products.record import PRODUCT, PRODUCT_FILTER, PRODUCT_PATCH

FIELDS = form_names("product")
LIST = lists.ListPage(
    PRODUCT,
    PRODUCT_FILTER,
    N_("Products"),
    filters=("category", "active"),
    sorts=(("", N_("By product name")), ("-id", N_("Newest first")), lists.UPDATED_FIRST),
    columns=("name", "price", "unit", "category", "active"),
    more_columns=("sku", "description", "created_at", "updated_at"),
    tabs=(
        (N_("All"), {}),
        (N_("For sale"), {"active": "true"}),
        (N_("Not for sale"), {"active": "false"}),
    ),
    new=N_("New product"),
    values={"active": True},
)

pages = Pages("products")


@pages.get("/products/<id>")
def edit_product(id: str, form: Form | None = None) -> Response:
    product = PRODUCT.one(id)
    # With a decimal comma for Ukrainian users, as they type it.
    form = form or edits.open_form(product, FIELDS, noun="product")
    fields = record_fields("product", FIELDS, product)
    return render("products/card.html", product=product, form=form, fields=fields)


add_record_pages(pages, PRODUCT, products, list=LIST, edit_page=edit_product)


@pages.post("/products/<id>/picture")
def choose_picture(id: str) -> Response:
    products.update(id, load_form(PRODUCT_PATCH, ("picture_id",)))
    return see_other(f"/products/{id}#files", gettext("Saved."))


@pages.post("/products/<id>/active")
def switch_product(id: str) -> Response:
    product = products.update(id, load_form(PRODUCT_PATCH, ("active",)))
    back = next_path(f"/products/{id}")
    text = N_("“%(name)s” is no longer available")
    if product.active:
        text = N_("“%(name)s” is available again")
    undo = {"active": 1 - product.active, "next": back}
    message = with_undo(gettext(text, name=product.name), f"/products/{id}/active", undo)
    return see_other(back, message)
