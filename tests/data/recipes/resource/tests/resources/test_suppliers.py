"""Suppliers: companies that we buy from."""

import pytest

from crm.errors import NotFound
from crm.resources import suppliers
from crm.resources.suppliers import SUPPLIER
from tests.conftest import Api


def test_a_deleted_supplier_is_found_by_nobody(crm):
    with crm.tenants.session("acme"):
        id = suppliers.create({"name": "ТОВ Лісопилка"})
        assert SUPPLIER.one(id)["name"] == "ТОВ Лісопилка"
        suppliers.delete(id)
        with pytest.raises(NotFound):
            SUPPLIER.one(id)


def test_a_name_is_required(api: Api):
    answer = api.post("/suppliers", {"phone": "+380441110002"})
    assert answer.status_code == 422
    assert [error["pointer"] for error in answer.json["errors"]] == ["/name"]


def test_suppliers_are_listed_by_name_and_found_by_words(api: Api):
    for name in ("ТОВ Лісопилка", "ФОП Ґудзик"):
        api.create("/suppliers", name=name)
    api.patch("/suppliers/1", {"name": "Ялинка", "email": "office@yalynka.example"})
    assert [supplier["name"] for supplier in api.read("/suppliers")] == ["ФОП Ґудзик", "Ялинка"]
    assert [supplier["id"] for supplier in api.read("/suppliers?q=ялин")] == ["1"]
    assert api.read("/suppliers?q=лісопилка") == []
