"""Lists by name have the order of the alphabet, whatever way a name came in."""

import io

from crm.records import suggestions
from crm.resources import users


def listed(api, path: str) -> list[str]:
    """The names of a list, page by page."""
    return [record["name"] for record in api.walk(path)]


def test_the_price_list_is_in_order_over_pages_and_after_changes(api, crm):
    names = ["абрикос", "Борщ", "Газ", "Ґудзик", "Еней", "Єва", "іній", "Їжа", "Яблуко", "Apple"]
    ids = {name: api.create("/products", name=name, price=1) for name in reversed(names)}
    assert listed(api, "/products?limit=3") == names
    assert listed(api, "/products?limit=4&sort=-name") == names[::-1]
    api.patch(f"/products/{ids['Яблуко']}", {"name": "«Ананас»", "sku": "A1"})
    for sent in ("sku,name,price\nC1,Ґанок,1\n", "sku,name\nC1,Ґедзь\nA1,Ананас\n"):
        api.post("/products/import", data={"file": (io.BytesIO(sent.encode()), "prices.csv")})
    changed = ["абрикос", "Ананас", "Борщ", "Газ", "Ґедзь", "Ґудзик"]
    assert listed(api, "/products?limit=2")[:6] == changed
    with crm.tenants.session("acme"):
        assert suggestions.values_of("product", "name", 99)[:6] == changed


def test_people_and_clients_are_in_order(api, crm, olena):
    for name in ("Ґалаґан", "єва", "Гай"):
        api.create("/clients", name=name, contacts=[{"name": "Юлія"}, {"name": "Ївга"}])
        api.create("/leads", name=name, phone="0671112233")
        with crm.tenants.session("acme"):
            users.create({"name": name})
    ordered = ["Гай", "Ґалаґан", "єва"]
    assert listed(api, "/clients?sort=name&limit=1") == ordered
    assert listed(api, "/leads?sort=name&limit=1") == ordered
    assert listed(api, "/clients/1/contacts?sort=name") == ["Ївга", "Юлія"]
    named = listed(api, "/users?sort=name")
    assert [name for name in named if name in ordered] == ordered
    page = olena.sees("/clients?sort=name")
    assert page.index("Гай") < page.index("Ґалаґан") < page.index("єва")
