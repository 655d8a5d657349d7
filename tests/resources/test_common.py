"""What leads, clients, deals, products and tasks promise alike (spec; D3, D4, D15, D17).

What all operations have in common is proved in tests/api, rights and isolation in tests/access.
"""

import base64
from typing import Any

import orjson
import pytest

from crm.api.openapi import example
from crm.records import fields
from crm.records.parameters import Sort
from tests.cases import loop_over
from tests.conftest import Api
from tests.resources.refusals import conflict

PHONE = "+380671110001"
LATER = "2026-03-02T09:01:00Z"  # a minute after the clock begins
LEAST: dict[str, dict[str, Any]] = {  # what a new record needs; the first field is its name
    "leads": {"name": "Крісла", "phone": PHONE},
    "clients": {"name": "Крісла"},
    "deals": {"title": "Крісла"},
    "products": {"name": "Крісла", "price": 10},
    "tasks": {"title": "Крісла"},
}
EVENTS_OF_CHANGES = {"clients": "client.updated", "products": "product.updated"}


@pytest.fixture(params=LEAST)
def plural(request) -> str:
    return request.param


@pytest.fixture
def name(plural) -> str:
    return next(iter(LEAST[plural]))


@pytest.fixture
def path(api, plural) -> str:
    """The path of a new record."""
    return f"/{plural}/{api.create(f'/{plural}', **LEAST[plural])}"


def test_a_new_record_is_told_by_its_id_and_is_in_its_event(api, plural):
    answer = api.post(f"/{plural}", LEAST[plural], headers={"Prefer": "return=representation"})
    assert (answer.status_code, answer.headers["Location"]) == (201, f"/api/v1/{plural}/1")
    record = api.read(f"/{plural}/1")
    assert answer.json == {"status": "ok", f"{plural[:-1]}_id": "1", "data": record}
    (event,) = api.events()
    assert event["type"] == f"{plural[:-1]}.created"
    assert (event["data"], event["previous"]) == ({plural[:-1]: record}, {})


def test_each_field_that_may_be_sent_is_kept(api, plural):
    """By its documented example, without ids of others and what goes with other values only."""
    body = api.crm.api.operations[f"{plural}.create_{plural[:-1]}"].body
    sent = {
        name: value
        for name, value in example(body).items()
        if not isinstance(body.fields[name], fields.Id) and name not in ("contacts", "closed_at")
    }
    record = api.read(f"/{plural}/{api.create(f'/{plural}', **sent)}")
    assert {name: record[name] for name in sent} == sent


def test_a_change_is_one_version_with_its_event_and_audit_entry(api, clock, plural, path, name):
    before, count = api.get(path), len(api.events())
    clock.tick(60)
    changed = api.patch(path, {name: "Столи"}, headers={"If-Match": before.headers["ETag"]})
    assert changed.json == before.json | {name: "Столи", "version": 2, "updated_at": LATER}
    assert changed.json == api.read(path)
    (change,) = api.read(f"{path}/changes")
    assert (change["before"], change["after"]) == ({name: "Крісла"}, {name: "Столи"})
    events = [(event["type"], event["data"], event["previous"]) for event in api.events()[count:]]
    kind = EVENTS_OF_CHANGES.get(plural)
    assert events == ([(kind, {plural[:-1]: changed.json}, {name: "Крісла"})] if kind else [])
    for refused in (
        api.patch(path, {name: "Шафи"}, headers={"If-Match": before.headers["ETag"]}),
        api.delete(path, headers={"If-Match": before.headers["ETag"]}),
    ):
        assert refused.status_code == 412
    assert api.read(path) == changed.json


def test_what_is_sent_back_as_it_was_read_is_no_change(api, clock, path, name):
    before, count = api.get(path), len(api.events())
    clock.tick(60)
    for sent in ({}, {name: "Крісла"}, before.json):
        answer = api.patch(path, sent)
        assert (answer.status_code, answer.json) == (200, before.json)
        assert answer.headers["ETag"] == before.headers["ETag"]
    assert (len(api.events()), api.read(f"{path}/changes")) == (count, [])
    long_ago = "2020-01-01T00:00:00Z"
    read_only = {"id": "9", "version": 9, "created_at": long_ago, "updated_at": long_ago}
    for field, value in read_only.items():
        (fault,) = api.patch(path, {name: "Столи", field: value}).json["errors"]
        assert (fault["pointer"], fault["code"]) == (f"/{field}", "read_only")
    assert api.read(path) == before.json
    assert api.patch(path, before.json | {name: "Столи"}).json["version"] == 2


def test_an_external_id_is_that_of_one_live_record(api, plural, path):
    other = api.create(f"/{plural}", **LEAST[plural], external_id="1C-7")
    for refused in (
        api.post(f"/{plural}", LEAST[plural] | {"external_id": "1C-7"}),
        api.patch(path, {"external_id": "1C-7"}),
    ):
        assert conflict(refused) == "duplicate_external_id"
        assert refused.json["id"] == other
    assert [record["id"] for record in api.read(f"/{plural}?external_id=1C-7")] == [other]
    api.delete(f"/{plural}/{other}")
    assert api.patch(path, {"external_id": "1C-7"}).status_code == 200


def test_a_deleted_record_is_gone_but_for_those_who_follow(api, clock, plural, path, name):
    count = len(api.events())
    assert [record["id"] for record in api.read(f"/{plural}?q=КРІСЛ")] == ["1"]
    api.patch(path, {name: "Столи"})
    assert api.read(f"/{plural}?q=крісл") == []
    kept = api.create(f"/{plural}", **LEAST[plural])
    clock.tick(60)
    answer = api.delete(path)
    assert (answer.status_code, answer.data) == (204, b"")
    for answer in (
        api.get(path),
        api.patch(path, {name: "Шафи"}),
        api.delete(path),
        api.get(f"{path}/changes"),
    ):
        assert answer.status_code == 404
    for query in ("q=столи", "ids=1"):
        assert api.read(f"/{plural}?{query}") == [], query
    assert not [kind for kind in api.kinds()[count:] if not kind.endswith(("created", "updated"))]
    followed = f"/{plural}?updated_since={LATER}&include_deleted=true"
    assert api.read(followed) == [{"id": "1", "deleted_at": LATER, "updated_at": LATER}]
    assert [record["id"] for record in api.read(f"/{plural}")] == [kept]
    clock.tick(30 * 86_400 + 1)
    assert api.read(followed) == []


# Lists in pages


def orders_of(api: Api, operation: str) -> list[str]:
    sort = api.crm.api.operations[operation].query.fields["sort"]
    assert isinstance(sort, Sort)
    return [sign + order for order in sort.orders for sign in ("", "-")]


@pytest.fixture
def lists(api) -> None:
    """Seven new records in each list, some of them with the same values."""
    for number in range(7):
        for plural, sent in LEAST.items():
            api.create(f"/{plural}", **sent | {next(iter(sent)): "АБ"[number % 2]})
        api.create("/webhooks", url="https://erp.example.com/crm")
        api.create("/clients/1/contacts", name="АБ"[number % 2])
        api.create("/clients/1/notes", text="А")
        api.create("/deals/1/items", name="А", price=1)
        api.create("/pipelines", name="А", stages=[{"name": "А"}])
        api.create("/pipelines/1/stages", name="А")
        api.patch("/deals/2", {"stage_id": str(1 + number % 2)})
        api.patch("/clients/2", {"name": str(number)})
        api.create("/views", resource="leads", name=str(number))


each_list = loop_over(
    ("operation", "path"),
    [
        *((f"{plural}.list_{plural}", f"/{plural}") for plural in LEAST),
        ("webhooks.list_webhooks", "/webhooks"),
        ("webhooks.list_deliveries", "/webhooks/1/deliveries"),
        ("clients.list_contacts", "/clients/1/contacts"),
        ("notes.list_client_notes", "/clients/1/notes"),
        ("deals.list_deal_items", "/deals/1/items"),
        ("deals.list_deal_history", "/deals/2/history"),
        ("pipelines.list_pipelines", "/pipelines"),
        ("pipelines.list_stages", "/pipelines/1/stages"),
        ("changes.list_client_changes", "/clients/2/changes"),
        ("views.list_views", "/views"),
    ],
)


@each_list
def test_pages_lose_and_repeat_nothing(api, lists, operation, path):
    for sort in orders_of(api, operation):
        whole = api.get(f"{path}?sort={sort}&limit=200&total=true").json
        assert whole["meta"]["total"] == len(whole["data"]) >= 6
        assert api.walk(f"{path}?sort={sort}&limit=3") == whole["data"], sort


@each_list
def test_a_cursor_with_a_value_of_another_type_is_refused(api, lists, operation, path):
    for sort in orders_of(api, operation):
        cursor = api.get(f"{path}?sort={sort}&limit=1").json["meta"]["next_cursor"]
        fingerprint, value, id = orjson.loads(base64.urlsafe_b64decode(cursor + "=="))
        for wrong in (7 if isinstance(value, str) else "x", None, [value]):
            edited = base64.urlsafe_b64encode(orjson.dumps([fingerprint, wrong, id])).rstrip(b"=")
            answer = api.get(f"{path}?sort={sort}&limit=1&cursor={edited.decode()}")
            assert (answer.status_code, answer.json.get("code")) == (400, "invalid_cursor"), sort
