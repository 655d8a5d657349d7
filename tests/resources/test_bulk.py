"""Changing many records at once: which ones, what is refused, and its undo."""

import threading

import pytest

from crm.records import background
from crm.resources.bulk import work as bulk
from crm.resources.bulk.work import MAX_IDS
from crm.resources.leads.record import LEAD_IN, Lead, create
from crm.resources.tasks import Task
from crm.storage.session import transaction
from tests.conftest import TARAS, Api, key_for
from tests.resources.refusals import conflict
from tests.waiting import wait_for

each = pytest.mark.parametrize
TO_TARAS = {"assigned_to": str(TARAS)}


@pytest.fixture
def three(api) -> list[str]:
    """The ids of three leads, the last of which is converted."""
    ids = [api.create("/leads", name=name, phone="+380671234567") for name in "АБВ"]
    api.post(f"/leads/{ids[2]}/convert", {"title": "Стіл"})
    return ids


def change(api, path, dry_run=False, status=200, **sent):
    answer = api.post(f"{path}/bulk{'?dry_run=true' if dry_run else ''}", sent)
    assert answer.status_code == status, answer.text
    return answer.json


def test_named_records_are_changed_each_with_its_event(api):
    ids = [api.create("/clients", name=name) for name in "АБВ"]
    before = len(api.events())
    answer = change(api, "/clients", ids=ids[:2], set=TO_TARAS, expect=2)
    assert (answer["count"], answer["changed"], answer["refused"]) == (2, 2, 0)
    events = [(event["type"], event["data"]["client"]["id"]) for event in api.events()[before:]]
    assert events == [("client.updated", id) for id in ids[:2]]
    assigned = [api.read(f"/clients/{id}")["assigned_to"] == str(TARAS) for id in ids]
    assert assigned == [True, True, False]
    batch = api.read(f"/batches/{answer['batch_id']}")
    assert (batch["kind"], batch["state"], batch["updated"]) == ("bulk", "done", 2)
    assert batch["note"] == "assigned_to"


def test_records_that_the_list_finds_are_changed(api, three):
    where = {"status": ["new", "converted"], "q": "А"}
    count = change(api, "/leads", dry_run=True, where=where, action="add_tag", tag="vip")["count"]
    assert count == 1
    change(api, "/leads", where=where, action="add_tag", tag="vip", expect=1)
    change(api, "/leads", where={}, action="add_tag", tag="опт", expect=3)
    change(api, "/leads", where={}, action="add_tag", tag="опт", expect=3)
    assert [api.read(f"/leads/{id}")["tags"] for id in three] == [["vip", "опт"], ["опт"], ["опт"]]
    change(api, "/leads", where={"tag": "vip"}, action="remove_tag", tag="vip", expect=1)
    assert api.read(f"/leads/{three[0]}")["tags"] == ["опт"]


def test_what_a_rule_refuses_stays_and_is_counted_by_its_reason(api, three):
    for dry_run in (True, False):
        sent = {"ids": three, "set": {"status": "qualified"}, "expect": 3}
        answer = change(api, "/leads", dry_run=dry_run, **sent)
        assert (answer["count"], answer["refused"]) == (3, 1)
        assert answer["refusals"] == [
            {"code": "lead_already_converted", "count": 1, "ids": [three[2]]}
        ]
        if dry_run:
            assert [one["name"] for one in answer["samples"]] == ["А", "Б", "В"]
            assert api.read(f"/leads/{three[0]}")["status"] == "new"
    assert [api.read(f"/leads/{id}")["status"] for id in three] == ["qualified"] * 2 + ["converted"]
    note = api.read(f"/batches/{answer['batch_id']}")["note"]
    assert note == "status; refused: lead_already_converted 1"


@each("expect", [None, 1, 4])
def test_another_number_than_expected_changes_nothing(api, three, expect):
    sent = {"where": {}, "action": "delete"} | ({} if expect is None else {"expect": expect})
    answer = api.post("/leads/bulk", sent)
    assert conflict(answer) == "count_changed"
    assert answer.json["detail"].startswith("3 records match")
    assert len(api.read("/leads")) == 3


def test_an_undo_brings_back_what_nobody_has_changed(api, three):
    answer = change(api, "/leads", where={}, action="delete", expect=3)
    assert (answer["changed"], api.read("/leads")) == (3, [])
    undone = api.post(f"/batches/{answer['batch_id']}/undo").json
    assert (undone["reversed"], undone["kept"]) == (3, 0)
    answer = change(api, "/leads", ids=three, set=TO_TARAS, expect=3)
    api.patch(f"/leads/{three[0]}", {"comment": "Дзвонив"})
    undone = api.post(f"/batches/{answer['batch_id']}/undo").json
    assert (undone["reversed"], undone["kept"]) == (2, 1)
    assert api.read(f"/leads/{three[0]}")["assigned_to"] == str(TARAS)
    assert api.read(f"/leads/{three[1]}")["assigned_to"] != str(TARAS)


def test_stages_of_deals_and_statuses_of_tasks_follow_their_rules(api):
    deals = [api.create("/deals", title=title) for title in ("Стіл", "Шафа")]
    change(api, "/deals", ids=deals, set={"stage_id": "5"}, expect=2)
    assert [api.read(f"/deals/{id}")["status"] for id in deals] == ["won", "won"]
    assert api.kinds().count("deal.won") == 2
    task = api.create("/tasks", title="Дзвінок")
    change(api, "/tasks", ids=[task], set={"status": "done"}, expect=1)
    assert api.kinds()[-1] == "task.completed"
    product = api.create("/products", name="Стіл", price=10)
    change(api, "/products", where={"active": "true"}, set={"active": False}, expect=1)
    assert api.read(f"/products/{product}")["active"] is False
    client = api.create("/clients", name="Марія")
    change(api, "/clients", ids=[client, "999"], action="delete", expect=1)
    assert api.read("/clients") == []


@each(
    "sent, pointer, code",
    [
        ({"action": "delete"}, "/where", "required"),
        ({"ids": ["1"], "where": {}, "action": "delete"}, "/where", "required"),
        ({"ids": ["1"]}, "/set", "required"),
        ({"ids": ["x"], "action": "delete"}, "/ids", "unknown_id"),
        ({"ids": ["1"] * 1001, "action": "delete"}, "/ids", "out_of_range"),
        ({"where": {"colour": "red"}, "action": "delete"}, "/where/colour", "unknown_parameter"),
        ({"ids": ["1"], "set": {"phone": "x"}}, "/set/phone", "invalid_phone"),
        ({"ids": ["1"], "action": "add_tag"}, "/tag", "required"),
    ],
)
def test_what_cannot_be_meant_is_refused(api, sent, pointer, code):
    answer = api.post("/leads/bulk", sent)
    assert answer.status_code == 422, answer.text
    (fault,) = answer.json["errors"]
    assert (fault.get("pointer"), fault["code"]) == (pointer, code)
    assert (
        api.post("/tasks/bulk", {"where": {}, "action": "add_tag", "tag": "x"}).status_code == 422
    )


@each(
    "scopes, status",
    [(["leads:write"], 403), (["leads:read"], 403), (["leads:read", "leads:write"], 409)],
)
def test_it_needs_the_rights_to_read_and_to_write(crm, api, three, scopes, status):
    key = Api(crm, "acme", key_for(crm, "acme", ",".join(scopes)))
    assert key.post("/leads/bulk", {"where": {}, "action": "delete"}).status_code == status
    if scopes == ["leads:write"]:
        assert change(key, "/leads", ids=three, action="delete", expect=3)["changed"] == 3


def test_many_records_are_changed_in_the_background(crm, api):
    with crm.tenants.session("acme"), transaction():
        for number in range(MAX_IDS + 1):
            create(LEAD_IN.parse({"name": f"Лід {number}", "phone": "+380671234567"}))
    answer = api.post("/leads/bulk", {"where": {}, "set": TO_TARAS, "expect": MAX_IDS + 1})
    assert (answer.status_code, answer.json["status"]) == (202, "running")
    assert answer.headers["Location"].endswith(f"/batches/{answer.json['batch_id']}")
    wait_for(lambda: api.read(f"/batches/{answer.json['batch_id']}")["state"] == "done", 30)
    assert api.read(f"/batches/{answer.json['batch_id']}")["updated"] == MAX_IDS + 1
    with crm.tenants.session("acme"):
        assert Lead.first("assigned_to IS NULL OR assigned_to <> ?", TARAS) is None


def test_one_whose_process_has_ended_goes_on_in_another(crm, api, monkeypatch, clock):
    monkeypatch.setattr(bulk, "CHUNK_RECORDS", 2)
    ids = [api.create("/tasks", title=f"Крок {number}") for number in range(6)]
    changed = threading.Semaphore(0)

    class Killed(BaseException):
        pass

    real = Task.update_fields

    def update(task, data):
        if task.id == int(ids[4]) and not changed.acquire(blocking=False):
            raise Killed
        return real(task, data)

    monkeypatch.setattr(Task, "update_fields", update)
    monkeypatch.setattr(background, "fail", lambda *_: None)  # as if nothing ran any more
    with crm.tenants.session("acme"), pytest.raises(Killed):
        sent = {"where": "{}", "set": '{"title": "Разом"}', "expect": 6}
        bulk.run("tasks", sent)
    assert [task["title"] for task in reversed(api.read("/tasks"))][3:5] == ["Разом", "Крок 4"]
    changed.release()
    with crm.tenants.session("acme"):
        assert background.claim() is None  # its lease has not ended yet
        clock.tick(background.LEASE_SECONDS + 1)
        background.resume(*background.claim())
        assert background.claim() is None
    assert {task["title"] for task in api.read("/tasks")} == {"Разом"}
    (batch,) = api.read("/batches")
    assert (batch["state"], batch["updated"]) == ("done", 6)
