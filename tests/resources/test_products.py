"""Products (spec: Products; D2, D3, D4, D9, D15, D17)."""

from crm.resources.products import record as products
from crm.resources.products.record import PRODUCT, Product, create
from crm.storage.session import row
from tests.resources.refusals import refusal

CHAIR = {"sku": "CH-1", "name": "Крісло офісне", "price": 12_505_000}


# The rules


def test_a_new_product_is_active_and_in_the_tenants_currency(acme):
    product = PRODUCT.one(create(CHAIR))
    assert (product["active"], product["currency"], product["used_in_deals"]) == (
        True,
        "UAH",
        False,
    )


def test_two_live_products_never_share_a_sku(acme):
    first = create(CHAIR)
    other = create({"name": "Стіл", "price": 0, "sku": "T-1"})
    assert refusal(create, {**CHAIR, "name": "Інше крісло"}) == "duplicate_sku"
    assert refusal(products.update, other, {"sku": "CH-1"}) == "duplicate_sku"
    assert [product.sku for product in Product.every("TRUE ORDER BY id")] == ["CH-1", "T-1"]
    # It may be kept, given up and taken again.
    products.update(first, {"sku": "CH-1", "name": "Крісло"})
    products.update(first, {"sku": None})
    assert create(CHAIR) not in (first, other)


# The endpoints


def test_a_product_used_in_deals_says_so_and_keeps_its_row(api, crm):
    id = api.create("/products", sku="CH-1", name="Крісло", price=10)
    deal = api.create("/deals", title="Меблі")
    api.create(f"/deals/{deal}/items", product_id=id)
    assert api.read(f"/products/{id}")["used_in_deals"] is True
    assert api.delete(f"/products/{id}").status_code == 204
    assert api.get(f"/products/{id}").status_code == 404
    assert api.read("/products?q=крісло") == []
    with crm.tenants.session("acme"):
        kept = row("SELECT sku, name FROM product WHERE id = ?", (int(id),))
    assert kept == ("CH-1", "Крісло")
    (item,) = api.read(f"/deals/{deal}/items")
    assert (item["name"], item["price"]) == ("Крісло", 10)
    assert api.create("/products", sku="CH-1", name="Крісло нове", price=11) != id
