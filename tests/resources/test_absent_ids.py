"""Ids without a live record: they say what became of it (D6, D17)."""

import pytest

from crm.resources.clients.csv_columns import CLIENTS
from crm.storage.dialect import equals
from crm.storage.session import execute, rows, transaction
from tests.csv_helpers import send
from tests.page_client import Person


@pytest.fixture
def trashed(api):
    """The id of a client in the trash."""
    id = api.create("/clients", name="ТОВ Ромашка", phone="0671234567")
    assert api.delete(f"/clients/{id}").status_code == 204
    return id


def test_an_id_in_the_trash_says_so_by_every_way(api, olena, trashed, clock):
    words = f"the client {trashed} is in the trash: restore it first"
    answer = api.get(f"/clients/{trashed}")
    assert (answer.status_code, answer.json["detail"]) == (404, words)
    assert answer.json["in_trash"] is True
    refused = api.post("/deals", {"title": "Столи", "client_id": trashed})
    assert refused.json["errors"][0] == {
        "pointer": "/client_id", "code": "unknown_id", "detail": words
    }  # fmt: skip
    for noun, text, column in (
        ("clients", f"id,name\n{trashed},ТОВ Ромашка\n", "id"),
        ("tasks", f"title,client_id\nДзвінок,{trashed}\n", "client_id"),
    ):
        _, _, path = send(api, noun, text).headers["Location"].partition("/api/v1")
        assert [one["message"] for one in api.read(path)["errors"]] == [f"{column}: {words}"]
    page = olena.get(f"/clients/{trashed}")
    assert page.status_code == 404 and "відновити з кошика" in page.text
    clock.tick(31 * 86_400)
    assert "in_trash" not in api.get(f"/clients/{trashed}").json
    assert "in_trash" not in api.get("/clients/999").json


def test_a_seller_learns_nothing_of_the_trash_of_others(crm, api, trashed):
    with crm.tenants.session("acme"), transaction():
        execute("UPDATE \"user\" SET role = 'seller' WHERE id = 2")
    seller = Person(crm, user_id=2)
    assert "відновити з кошика" not in seller.get(f"/clients/{trashed}").text


def test_a_page_of_a_merged_record_leads_to_the_one_that_stays(api, olena):
    stays, other = (api.create("/clients", name=name) for name in ("ТОВ Ромашка", "Ромашка"))
    merged = api.post(f"/clients/{stays}/merge", {"from_id": other})
    assert merged.status_code == 200, merged.text
    assert olena.get(f"/clients/{other}").location == f"/clients/{stays}"
    assert olena.get(f"/clients/{other}/edit").location == f"/clients/{stays}/edit"


@pytest.mark.parametrize("field", ["phone", "email"])
def test_a_key_of_clients_is_looked_for_in_their_contacts_too(api, field):
    values = {"phone": "+380671234567", "email": "Olena@example.com"}
    contact = {"name": "Олена", field: values[field]}
    id = api.create("/clients", name="ТОВ Ромашка", contacts=[contact])
    text = f"name,{field},comment\nРомашка,{values[field].lower()},нове\n"
    preview = send(api, "clients", text, f"?key={field}&dry_run=true")
    assert (preview.json["created"], preview.json["updated"]) == (0, 1)
    assert send(api, "clients", text, f"?key={field}").json["updated"] == 1
    assert api.read(f"/clients/{id}")["comment"] == "нове"


@pytest.mark.files
@pytest.mark.parametrize("field", ["phone", "email"])
def test_a_key_is_looked_for_by_indexes(crm, field):
    sql = f"SELECT id FROM {CLIENTS.keyed_by(field)} WHERE {equals(field)}"
    with crm.tenants.session("acme"):
        steps = [step[3] for step in rows(f"EXPLAIN QUERY PLAN {sql}", ("x",))]
    assert steps and not any(step.startswith("SCAN") for step in steps), steps
