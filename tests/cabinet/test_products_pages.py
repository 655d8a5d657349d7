"""The pages of products: what their list and their card have alone."""

import pytest


@pytest.fixture
def chair(api) -> str:
    """The path of a product."""
    return f"/products/{api.create('/products', sku='CH-1', name='Крісло', price=1250.5)}"


def test_the_list_shows_products_by_name_with_exact_prices(olena, api, chair):
    api.create("/products", name="Диван", price=12.3456)
    page = olena.sees("/products")
    assert page.index("Диван") < page.index("Крісло")
    assert "12,3456\u00a0₴" in page


def test_the_sku_of_another_product_is_refused(olena, api, chair):
    form = {"name": "Інше", "sku": "CH-1", "price": "5", "currency": "UAH"}
    page = olena.post("/products", form)
    assert page.status_code == 409
    assert "Такий артикул уже має інший товар." in page.text and 'value="Інше"' in page.text
    assert len(api.read("/products")) == 1


def test_the_price_on_a_card_is_in_the_reader_s_own_spelling(olena, chair):
    olena.client.set_cookie("crm_language", "en", domain=olena.host)
    assert 'value="1250.50"' in olena.sees(chair)


def test_a_product_is_taken_off_sale_and_put_back(olena, api, chair):
    back = "/products?active=true&q=%D0%BA"
    assert olena.sends(f"{chair}/active", {"active": "0", "next": back}) == back
    assert api.read(chair)["active"] is False
    assert olena.sends(f"{chair}/active", {"active": "1"}) == chair
    assert api.read(chair)["active"] is True
