"""The trash: what was deleted, by whom, how it comes back, and when it is erased (D17)."""

import pytest

from crm.storage.session import rows
from tests.conftest import Api, key_for
from tests.resources.refusals import conflict

DAY = 86_400


@pytest.fixture
def deleted(api, taras, clock):
    """One deleted record of each kind, each a minute after the one before, the last by Taras."""
    client = api.create("/clients", name="Ромашка")
    lead = api.create("/leads", name="Марія", phone="0671110001")
    deal = api.create("/deals", title="Кухня")
    task = api.create("/tasks", title="Зателефонувати")
    product = api.create("/products", name="Стіл", price=100, sku="T-1")
    other = api.create("/deals", title="Шафа", client_id=api.create("/clients", name="Воля"))
    api.create(f"/deals/{other}/items", product_id=product)
    paths = [("leads", lead), ("clients", client), ("deals", deal), ("products", product)]
    for resource, id in paths:
        clock.tick(60)
        assert api.delete(f"/{resource}/{id}").status_code == 204
    clock.tick(60)
    taras.delete(f"/tasks/{task}")
    return [*paths, ("tasks", task)]


def listed(records):
    return [(record["resource"], record["id"]) for record in records]


def test_it_lists_what_was_deleted_and_by_whom_the_last_first(api, deleted):
    trash = api.read("/trash")
    assert listed(trash) == deleted[::-1]
    assert trash[0] == {
        "resource": "tasks",
        "id": deleted[-1][1],
        "name": "Зателефонувати",
        "deleted_at": "2026-03-02T09:05:00Z",
        "deleted_by": "2",
        "merged_into": None,
    }
    assert {record["deleted_by"] for record in trash[1:]} == {"1"}


def test_it_is_filtered_by_resource_time_and_user(api, taras, deleted):
    assert listed(api.read("/trash?resource=deals&resource=leads")) == [deleted[2], deleted[0]]
    assert listed(api.read("/trash?since=2026-03-02T09:04:00Z")) == [deleted[4], deleted[3]]
    assert listed(api.read("/trash?by=2")) == listed(taras.read("/trash?by=me")) == [deleted[4]]
    assert listed(api.read("/trash?by=1&since=2026-03-02T09:03:00Z")) == [deleted[3], deleted[2]]
    assert api.read("/trash?by=7") == []
    for wrong in ("resource=users", "since=x", "q=x", "include_deleted=true"):
        assert api.get(f"/trash?{wrong}").status_code == 422


def test_pages_repeat_and_miss_nothing_also_of_one_second(api):
    ids = [api.create("/tasks", title=f"{n}") for n in range(4)]
    leads = [api.create("/leads", name=f"{n}", phone=f"06711100{n:02}") for n in range(4)]
    for task, lead in zip(ids, leads, strict=True):
        api.delete(f"/tasks/{task}")
        api.delete(f"/leads/{lead}")
    found = listed(api.walk("/trash?limit=3"))
    assert len(found) == 8 and set(found) == {("tasks", id) for id in ids} | {
        ("leads", id) for id in leads
    }
    cursor = api.get("/trash?limit=3").json["meta"]["next_cursor"]
    assert api.get(f"/trash?cursor={cursor}&by=1").json["code"] == "invalid_cursor"


def test_a_key_sees_what_it_may_read_and_restores_what_it_may_write(crm, api, ivan, deleted):
    reader = Api(crm, "acme", key_for(crm, "acme", "deals:read,tasks:write"))
    assert listed(reader.read("/trash")) == [deleted[2]]
    assert reader.get("/trash?resource=leads").json["scope"] == "leads:read"
    assert reader.post(f"/deals/{deleted[2][1]}/restore").json["scope"] == "deals:write"
    task = deleted[4][1]
    assert reader.post(f"/tasks/{task}/restore").json == {"status": "ok", "task_id": task}
    form = Api(crm, "acme", key_for(crm, "acme", "leads:create"))
    assert form.get("/trash").status_code == 403
    assert ivan.read("/trash") == []
    for resource, id in deleted:
        assert ivan.post(f"/{resource}/{id}/restore").status_code == 404


def test_each_comes_back_as_it_was(api, deleted):
    for resource, id in deleted[::-1]:
        assert api.get(f"/{resource}/{id}").status_code == 404
        answer = api.post(f"/{resource}/{id}/restore")
        assert answer.status_code == 200 and answer.json == api.read(f"/{resource}/{id}")
        assert api.post(f"/{resource}/{id}/restore").status_code == 404
    assert api.read("/trash") == []
    assert [lead["name"] for lead in api.read("/leads?q=Марія")] == ["Марія"]
    assert api.read("/products?sku=T-1")[0]["name"] == "Стіл"


def test_what_another_has_by_now_is_not_restored(api, deleted):
    api.create("/products", name="Новий стіл", price=1, sku="T-1")
    refused = api.post(f"/products/{deleted[3][1]}/restore")
    assert conflict(refused) == "duplicate_sku"
    lead = api.create("/leads", name="Марія", phone="0671110001", external_id="1C-7")
    api.delete(f"/leads/{lead}")
    api.create("/leads", name="Олена", phone="0671110002", external_id="1C-7")
    assert conflict(api.post(f"/leads/{lead}/restore")) == "duplicate_external_id"
    assert ("leads", lead) in listed(api.read("/trash"))


def test_a_deletion_is_not_in_the_trail_but_its_undoing_is(crm, api, deleted):
    lead = deleted[0][1]
    api.post(f"/leads/{lead}/restore")
    (change,) = api.read(f"/leads/{lead}/changes")
    assert change["after"] == {"deleted_at": None}
    with crm.tenants.session("acme"):  # and it is a batch that can be undone
        assert rows("SELECT kind, noun, state, updated FROM batch") == [
            ("restore", "lead", "done", 1)
        ]
        assert rows("SELECT noun, action FROM batch_record") == [("lead", "restored")]
    api.delete(f"/leads/{lead}")
    (again,) = [one for one in api.read("/trash") if one["resource"] == "leads"]
    assert again["deleted_by"] == "1"


# The page


def test_the_page_lists_and_restores(api, olena, deleted):
    page = olena.sees("/trash")
    assert page.count("/restore") == 5 and "Зателефонувати" in page and "Taras" in page
    assert "30 днів" in page
    filtered = olena.sees("/trash?resource=deals&by=1&since=2026-03-02")
    assert filtered.count("/restore") == 1 and "Кухня" in filtered
    product = deleted[3][1]
    assert olena.sends(f"/products/{product}/restore") == f"/products/{product}"
    assert api.read(f"/products/{product}")["name"] == "Стіл"
    assert olena.sees("/trash").count("/restore") == 4
