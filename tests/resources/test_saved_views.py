"""Saved views of lists: whose they are, and what they may hold."""

import pytest

from tests.cases import loop_over

HOT = {
    "resource": "leads",
    "name": "Гарячі",
    "query": {"status": ["new", "qualified"], "amount_from": "50000", "sort": "-amount"},
    "columns": ["name", "amount"],
}


@pytest.fixture
def hot(taras) -> str:
    """A view of Taras, which nobody else sees."""
    return taras.create("/views", **HOT)


def test_a_view_is_kept_as_it_was_sent(taras, hot):
    view = taras.read(f"/views/{hot}")
    assert {name: view[name] for name in HOT} == HOT
    assert (view["shared"], view["user_id"], view["version"]) == (False, "2", 1)
    plain = taras.create("/views", resource="tasks", name="Усе")
    assert taras.read(f"/views/{plain}")["query"] == {}
    assert taras.read(f"/views/{plain}")["columns"] is None
    # A change is checked too.
    assert taras.patch(f"/views/{hot}", {"query": {"colour": "red"}}).status_code == 422
    changed = taras.patch(f"/views/{hot}", {"query": None, "columns": None, "name": "Усі"})
    assert (changed.json["query"], changed.json["columns"]) == ({}, None)
    assert taras.patch(f"/views/{hot}", {"resource": "deals"}).status_code == 422


@loop_over(
    ("body", "pointer", "code"),
    [
        ({"query": {"colour": "red"}}, "/query/colour", "unknown_parameter"),
        ({"query": {"status": "lost"}}, "/query/status", "invalid_choice"),
        ({"query": {"status": 5}}, "/query", "invalid_type"),
        ({"columns": []}, "/columns", "out_of_range"),
        ({"columns": ["name", "colour"]}, "/columns/1", "unknown_field"),
    ],
)
def test_what_a_list_does_not_take_is_refused(taras, body, pointer, code):
    answer = taras.post("/views", HOT | body)
    assert answer.status_code == 422
    assert (answer.json["errors"][0]["pointer"], answer.json["errors"][0]["code"]) == (
        pointer,
        code,
    ), answer.json


def test_a_name_is_that_of_one_view_of_a_user_and_a_list(api, taras, hot):
    assert taras.post("/views", HOT).json["code"] == "duplicate_view"
    taras.create("/views", resource="clients", name=HOT["name"])
    api.create("/views", **HOT)
    other = taras.create("/views", resource="leads", name="Інші")
    assert taras.patch(f"/views/{other}", {"name": HOT["name"]}).status_code == 409
    assert taras.patch(f"/views/{other}", {"name": "Інші"}).status_code == 200


def test_a_shared_view_is_seen_by_all_and_changed_by_its_maker_and_by_owners(api, taras, hot):
    assert api.read("/views") == []
    for answer in (api.get(f"/views/{hot}"), api.delete(f"/views/{hot}")):
        assert answer.status_code == 404
    taras.patch(f"/views/{hot}", {"shared": True})
    assert [view["id"] for view in api.read("/views?resource=leads")] == [hot]
    assert api.read("/views?shared=false") == api.read("/views?resource=deals") == []
    assert api.read(f"/views/{hot}")["name"] == HOT["name"]
    assert api.patch(f"/views/{hot}", {"name": "Спільні"}).status_code == 200
    of_owner = api.create("/views", **HOT, shared=True)
    for answer in (
        taras.patch(f"/views/{of_owner}", {"name": "Мої"}),
        taras.delete(f"/views/{of_owner}"),
    ):
        assert (answer.status_code, answer.json["code"]) == (403, "not_own_view")
    assert taras.delete(f"/views/{hot}").status_code == 204
    assert api.delete(f"/views/{of_owner}").status_code == 204
    assert api.read("/views") == []


def test_the_erasure_of_a_person_takes_views_along_that_look_for_them(api):
    client = api.create("/clients", name="Олена Коваль")
    api.create("/views", resource="leads", name="Пошук", query={"q": "олена коваль"})
    kept = api.create("/views", resource="leads", name="Інші")
    assert api.post(f"/clients/{client}/erase").json["erased"]["views"] == 1
    assert [view["id"] for view in api.read("/views")] == [kept]
