"""What follows from the registration of `suppliers`; run in the copy."""

from crm import CRM
from crm.access import rights
from tests.conftest import Api, key_for
from tests.embedding import stub
from tests.installations import settings_for

SAWMILL = {"name": "ТОВ Лісопилка", "phone": "044 111 00 02", "external_id": "S-1"}


def test_it_has_rights_of_its_own(crm, api, ivan):
    assert {"suppliers:read", "suppliers:write"} < {*rights.SCOPES}
    id = api.create("/suppliers", **SAWMILL)
    reader, writer = (
        Api(crm, "acme", key_for(crm, "acme", f"suppliers:{right}")) for right in ("read", "write")
    )
    assert reader.read(f"/suppliers/{id}")["phone"] == "+380441110002"
    assert reader.delete(f"/suppliers/{id}").json["scope"] == "suppliers:write"
    assert writer.get("/suppliers").json["scope"] == "suppliers:read"
    assert writer.patch(f"/suppliers/{id}", {"name": "Ялинка"}).json == {
        "status": "ok",
        "supplier_id": id,
    }
    assert ivan.get(f"/suppliers/{id}").status_code == 404


def test_what_all_records_have(api):
    id = api.create("/suppliers", **SAWMILL)
    answer = api.get(f"/suppliers/{id}")
    changed = api.patch(
        f"/suppliers/{id}", {"name": "Ялинка"}, headers={"If-Match": answer.headers["ETag"]}
    )
    assert changed.json["version"] == 2
    assert api.patch(
        f"/suppliers/{id}", {"name": "!"}, headers={"If-Match": answer.headers["ETag"]}
    ).status_code == 412  # fmt: skip
    (change,) = api.read(f"/suppliers/{id}/changes")
    assert change["before"] == {"name": "ТОВ Лісопилка"}
    assert api.post("/suppliers", SAWMILL).json["code"] == "duplicate_external_id"
    assert api.delete(f"/suppliers/{id}").status_code == 204
    deleted = "include_deleted=true&updated_since=2020-01-01T00:00:00Z"
    assert [supplier["id"] for supplier in api.read(f"/suppliers?{deleted}")] == [id]
    assert api.create("/suppliers", **SAWMILL) != id


def test_the_document_has_it(api):
    document = api.read("/openapi.json")
    paths = {
        path.removeprefix("/api/v1"): {*operations} - {"parameters"}
        for path, operations in document["paths"].items()
        if "suppliers" in path
    }
    assert paths == {
        "/suppliers": {"get", "post"},
        "/suppliers/{id}": {"get", "patch", "delete"},
        "/suppliers/{id}/changes": {"get"},
    }
    assert {"SupplierIn", "SupplierPatch", "Supplier"} < {*document["components"]["schemas"]}


def test_keys_are_given_its_rights_by_name(olena):
    page = olena.sees("/settings/api-keys/new")
    assert "Постачальники" in page and 'value="suppliers:write"' in page


def test_python_has_it(crm):
    code = CRM(**settings_for(crm.tenants.config.data), sends=False)
    with code.tenant("acme"):
        supplier = code.suppliers.create(**SAWMILL)
        assert code.suppliers.update(supplier["id"], name="Ялинка")["version"] == 2
        assert [found["name"] for found in code.suppliers.list(q="ялин").records] == ["Ялинка"]
        code.suppliers.delete(supplier["id"])
        assert code.suppliers.list().records == []
    code.app.tenants.forget_idle()
    assert "suppliers: Suppliers" in stub.PATH.read_text("utf-8")
