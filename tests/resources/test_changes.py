"""The trail of changes (D17)."""

from crm.resources import AUDITED_VIEWS
from crm.resources.clients import record as clients
from crm.resources.deals import record as deals
from crm.resources.products import record as products
from crm.storage.session import transaction
from tests.other_resources import bodies_of_others


def test_a_change_tells_what_when_and_who(api, taras, clock):
    id = api.create("/leads", name="Марія", phone="0671110001", tags=["vip"], comment="x")
    clock.tick(90)
    sent = {"amount": "1250.50", "tags": [], "assigned_to": 2, "comment": "x", "extra": {"a": [1]}}
    taras.patch(f"/leads/{id}", sent)
    key = taras.read("/users/me")["key"]
    assert api.read(f"/leads/{id}/changes") == [
        {
            "id": "1",
            "at": "2026-03-02T09:01:30Z",
            "user_id": "2",
            "key": {"id": key["id"], "name": key["name"]},
            "tool": None,
            "before": {"amount": None, "tags": ["vip"], "assigned_to": None, "extra": {}},
            "after": {"amount": 1250.5, "tags": [], "assigned_to": "2", "extra": {"a": [1]}},
        }
    ]


def test_a_change_without_a_key_names_none(api, crm):
    id = api.create("/clients", name="A")
    with crm.tenants.session("acme") as here, transaction():
        here.user_id = 1
        clients.update(id, {"name": "B"})
    (change,) = api.read(f"/clients/{id}/changes")
    assert (change["user_id"], change["key"]) == ("1", None)


def test_money_keeps_its_digits_in_the_trail(api, crm):
    with crm.tenants.session("acme"), transaction():
        id = products.create({"name": "Стіл", "price": 1})
        products.update(id, {"price": 99_999_999_999_999, "active": 0})
    answer = api.get(f"/products/{id}/changes")
    assert b'"after":{"price":9999999999.9999,"active":false}' in answer.data
    assert b'"before":{"price":0.0001,"active":true}' in answer.data


def test_the_five_nouns_have_a_trail_with_their_own_rights(api, reader, form, ivan, crm):
    nouns = ("leads", "clients", "deals", "products", "tasks")
    assert {*AUDITED_VIEWS} >= {*nouns}
    api.create("/leads", name="A", phone="0671110001")
    api.create("/clients", name="A")
    api.create("/tasks", title="A")
    with crm.tenants.session("acme"):
        deals.create({"title": "A"})
        products.create({"name": "A", "price": 1})
    for plural, body in bodies_of_others(crm, nouns).items():
        if plural in AUDITED_VIEWS:
            api.create(f"/{plural}", **body)
    for plural in AUDITED_VIEWS:
        assert reader.read(f"/{plural}/1/changes") == []
        assert form.get(f"/{plural}/1/changes").json["scope"] == f"{plural}:read"
        for id in (2, "x"):
            assert api.get(f"/{plural}/{id}/changes").status_code == 404
        assert ivan.get(f"/{plural}/1/changes").status_code == 404
        assert api.get(f"/{plural}/1/changes?q=x").status_code == 422
