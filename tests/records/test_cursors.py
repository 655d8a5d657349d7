"""Cursors of every sorted list: an edited one is refused, whatever the order's type (D3)."""

import base64

import orjson
import pytest

from tests.conftest import Api

LISTS = (
    *("/leads", "/clients", "/deals", "/products", "/tasks", "/pipelines", "/webhooks"),
    *("/clients/1/contacts", "/deals/1/items", "/leads/1/notes", "/pipelines/1/stages"),
)


@pytest.fixture
def paths(api: Api) -> list[str]:
    """The paths of all lists in each of their orders; each list has two records at least."""
    for name in "АБ":
        api.create("/leads", name=name, phone="0671234567")
        client = api.create("/clients", name=name, contacts=[{"name": "Г"}, {"name": "Ґ"}])
        deal = api.create("/deals", client_id=client, title=name, amount=10)
        api.create("/products", name=name, price=1)
        api.create("/tasks", title=name, due_at="2026-03-02T10:00:00Z")
        api.create(f"/deals/{deal}/items", name="А", price=1)
        api.create(f"/deals/{deal}/items", name="Б", price=1)
        api.create("/leads/1/notes", text=name)
        api.create("/webhooks", url="https://erp.example.com/crm")
    api.create("/pipelines", name="Ще")
    document = api.get("/openapi.json").json["paths"]
    orders = []
    for path in LISTS:
        parameters = document[path.replace("/1/", "/{id}/")]["get"]["parameters"]
        (sort,) = (p["schema"] for p in parameters if p.get("name") == "sort")
        orders += [f"{path}?sort={order}" for order in sort["enum"]]
    return orders


def test_a_cursor_with_a_value_of_another_type_is_refused(api, paths):
    assert "/deals?sort=amount" in paths and len(paths) > 50
    for path in paths:
        page = api.get(f"{path}&limit=1").json
        cursor = page["meta"]["next_cursor"]
        following = api.get(f"{path}&limit=1&cursor={cursor}").json["data"]
        assert following and following[0]["id"] != page["data"][0]["id"], path
        fingerprint, value, id = orjson.loads(base64.urlsafe_b64decode(cursor + "=="))
        other = 7 if isinstance(value, str) else "x"
        for wrong in (other, None, True, 1.5, [value], {"a": value}):
            made = orjson.dumps([fingerprint, wrong, id])
            edited = base64.urlsafe_b64encode(made).rstrip(b"=").decode()
            answer = api.get(f"{path}&limit=1&cursor={edited}")
            said = (answer.status_code, answer.json.get("code"))
            assert said == (400, "invalid_cursor"), (path, wrong)
