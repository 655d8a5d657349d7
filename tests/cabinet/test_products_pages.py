"""The pages of products: what their list and their card have alone."""

from typing import Any

from crm.outbox import events
from crm.resources.products.record import PRODUCT, PRODUCT_IN, Product, create
from crm.storage.session import rows


def chair(crm, **fields: Any) -> str:
    """The id of a new product at acme."""
    sent = {"sku": "CH-1", "name": "Крісло", "price": 1250.5, **fields}
    with crm.tenants.session("acme"):
        return str(create(PRODUCT_IN.parse(sent)))


def product(crm, id: str) -> dict[str, Any]:
    with crm.tenants.session("acme"):
        return PRODUCT.one(id)


def skus(crm) -> list[str]:
    with crm.tenants.session("acme"):
        return [record.sku for record in Product.every("TRUE ORDER BY id")]


def kinds(crm) -> list[str]:
    with crm.tenants.session("acme"):
        return [kind for (kind,) in rows("SELECT type FROM event ORDER BY sequence")]


# The list


def test_the_list_shows_products_by_name(crm, olena):
    chair(crm, sku="B", name="Стіл", price=12.3456)
    chair(crm, sku="A", name="Диван", category="Дивани", unit="шт")
    page = olena.sees("/products")
    assert page.index("Диван") < page.index("Стіл")
    assert "12,3456\u00a0₴" in page  # a price is shown exactly


# One product


def test_the_sku_of_another_product_is_refused(crm, olena):
    chair(crm)
    form = {"name": "Інше", "sku": "CH-1", "price": "5", "currency": "UAH"}
    page = olena.post("/products", form)
    assert page.status_code == 409
    assert "Такий артикул уже має інший товар." in page.text and 'value="Інше"' in page.text
    assert skus(crm) == ["CH-1"]


def test_the_price_on_a_card_is_in_the_reader_s_own_spelling(crm, olena):
    olena.client.set_cookie("crm_language", "en", domain=olena.host)
    assert 'value="1250.50"' in olena.sees(f"/products/{chair(crm)}")


def test_a_product_is_taken_off_sale_and_put_back(crm, olena):
    id = chair(crm)
    back = "/products?active=true&q=%D0%BA"
    assert olena.sends(f"/products/{id}/active", {"active": "0", "next": back}) == back
    assert product(crm, id)["active"] is False
    assert olena.sends(f"/products/{id}/active", {"active": "1"}) == f"/products/{id}"
    assert product(crm, id)["active"] is True
    assert kinds(crm)[1:] == [events.PRODUCT_UPDATED] * 2
