"""Tasks (spec: Tasks; D3, D4, D10, D12, D15, D17)."""

import json
from datetime import datetime
from urllib.parse import quote

import pytest
from werkzeug.datastructures import MultiDict

from crm import values
from crm.errors import Invalid
from crm.records import list_plans
from crm.resources import agenda, calendar, task_figures
from crm.resources.clients import record as clients
from crm.resources.deals import record as deals
from crm.resources.leads import record as leads
from crm.resources.tasks import TASK, TASK_FILTER, Task, complete, create, update
from crm.storage.session import execute, now, transaction
from tests.conftest import OLENA, TARAS
from tests.csv_helpers import send
from tests.resources.refusals import refusal

NOON = "2026-03-02T12:00:00Z"  # the clock starts at nine of that day


@pytest.fixture
def acme(acme):
    """Being at acme, in Taras' name."""
    acme.user_id = TARAS
    return acme


# Rules


def test_a_new_task_is_open_normal_and_its_makers(acme):
    task = TASK.one(create({"title": "Call"}))
    assert (task["status"], task["priority"], task["assigned_to"]) == ("open", "normal", str(TARAS))
    assert (task["type"], task["due_at"], task["completed_at"]) == (None, None, None)
    assert task["version"] == 1


@pytest.mark.parametrize("status", ["open", "in_progress"])
def test_complete_makes_it_done_now_and_keeps_the_result_it_has(acme, clock, status):
    clock.tick(60)
    task = create({"title": "Call", "status": status, "result": "Busy at first"})
    shown = TASK.one(complete(task).id)
    assert (shown["status"], shown["completed_at"]) == ("done", "2026-03-02T09:01:00Z")
    assert shown["result"] == "Busy at first"


def test_a_cancelled_task_cannot_be_completed(acme):
    task = create({"title": "Call", "status": "cancelled"})
    for attempt in (lambda: complete(task), lambda: update(task, {"status": "done"})):
        assert refusal(attempt) == "task_cancelled"


@pytest.mark.parametrize("status", ["open", "in_progress", "cancelled"])
def test_a_done_task_may_be_changed_and_back_from_done_it_has_no_time(acme, clock, status):
    task = complete(create({"title": "Call"}))
    clock.tick(60)
    update(task.id, {"result": "They will buy", "status": "done"})
    shown = TASK.one(task.id)
    assert (shown["result"], shown["completed_at"]) == ("They will buy", task.completed_at)
    update(task.id, {"status": status})
    shown = TASK.one(task.id)
    assert (shown["status"], shown["completed_at"]) == (status, None)


def test_overdue_is_what_is_still_to_be_done_after_its_time(acme):
    for status, due_at, overdue in [
        ("open", "2026-03-02T08:59:59Z", True),
        ("in_progress", "2026-03-02T08:59:59Z", True),
        ("open", "2026-03-02T09:00:00Z", False),  # at nine it is due, later it is overdue
        ("open", None, False),
        ("done", "2026-03-02T08:00:00Z", False),
        ("cancelled", "2026-03-02T08:00:00Z", False),
    ]:
        id = create({"title": "Call", "status": status, "due_at": due_at})
        assert TASK.one(id)["is_overdue"] is overdue


def belongings():
    """The ids of a lead, a client and a deal."""
    return {
        "lead_id": leads.create({"name": "Марія", "phone": "+380671234567"}),
        "client_id": clients.create({"name": "Romashka"}),
        "deal_id": deals.create({"title": "Chairs"}),
    }


RECORDS = {"lead_id": leads.Lead, "client_id": clients.Client, "deal_id": deals.Deal}


@pytest.mark.parametrize("field", RECORDS)
def test_what_a_new_task_belongs_to_is_live_and_the_task_outlives_it(acme, field):
    ids = belongings()
    with transaction():
        task = Task.find(create({"title": "Call", **ids}))
        RECORDS[field].find(ids[field]).remove()
        update(task.id, {**ids, "title": "Call again"})
    assert TASK.one(task.id)[field] == str(ids[field])
    with pytest.raises(Invalid, match=field):
        create({"title": "Call", **ids})


@pytest.mark.parametrize("field", RECORDS)
def test_a_task_of_a_deleted_record_waits_for_nobody_until_it_comes_back(acme, field):
    ids = belongings()
    task = create({"title": "Call", "due_at": "2026-03-01T10:00:00Z", **ids})

    def waits():
        """Where it is among what waits; pages and steps are of the records that stay."""
        yield TASK.one(task)["is_overdue"]
        yield agenda.due_tasks(TARAS, NOON, 9) != []
        yield task_figures.count_own(TARAS, now(), now(), 9) == (1, 0)
        yield b"Call" in calendar.write(calendar.list_tasks(TARAS), "Taras", "https://acme.example")
        for other in ids.keys() - {field}:
            yield task_figures.of_record(other.removesuffix("_id"), ids[other], 9) != []
        if field != "deal_id":
            yield agenda.next_steps([str(ids["deal_id"])]) != {}
            yield agenda.deals_without_step(TARAS, 9) == []

    assert {*waits()} == {True}
    with transaction():
        RECORDS[field].find(ids[field]).remove()
    assert {*waits()} == {False}
    with transaction():
        RECORDS[field].removed(ids[field]).restore()
    assert {*waits()} == {True}


# Events


def test_completing_is_told_once_with_what_changed(api, clock):
    id = api.create("/tasks", title="Call")
    clock.tick(60)
    first = api.post(f"/tasks/{id}/complete", {"result": "They will buy"})
    again = api.post(f"/tasks/{id}/complete", {"result": "Really"})
    assert (first.status_code, first.json["version"]) == (200, 2)
    assert (again.json, again.headers["ETag"]) == (first.json, first.headers["ETag"])
    api.patch(f"/tasks/{id}", {"status": "done"})
    _, completed = api.events()
    assert completed["type"] == "task.completed"
    assert completed["data"] == {"task": api.read(f"/tasks/{id}")}
    assert completed["data"]["task"]["result"] == "They will buy"
    assert completed["previous"] == {"status": "open", "result": None, "completed_at": None}


def test_the_status_done_is_completing_by_another_door(api):
    id = api.create("/tasks", title="Call", status="in_progress")
    answer = api.patch(f"/tasks/{id}", {"status": "done", "title": "Called"})
    assert answer.json["completed_at"] == "2026-03-02T09:00:00Z"
    assert api.kinds() == ["task.created", "task.completed"]
    assert api.events()[1]["previous"] == {
        "status": "in_progress",
        "title": "Call",
        "completed_at": None,
    }


def test_a_task_that_comes_as_done_is_created_then_completed(api):
    id = api.create("/tasks", title="Call", status="done")
    created, completed = api.events()
    assert (created["type"], completed["type"]) == ("task.created", "task.completed")
    assert created["data"] == completed["data"] == {"task": api.read(f"/tasks/{id}")}
    assert api.read(f"/tasks/{id}")["completed_at"] == "2026-03-02T09:00:00Z"


# Lists


@pytest.mark.parametrize(
    ("zone", "last_second"),
    [("Europe/Kyiv", "2026-03-02T21:59:59Z"), ("America/New_York", "2026-03-03T04:59:59Z")],
)
def test_a_date_alone_is_due_until_that_day_ends(api, olena, clock, zone, last_second):
    with api.crm.tenants.session("acme"), transaction():
        execute("UPDATE tenant SET time_zone = ?", (zone,))
    day = "2026-03-02"
    api.create("/tasks", title="API", due_at=day)
    olena.sends("/tasks", {"title": "Page", "due_at": day, "priority": "normal"})
    send(api, "tasks", f"title,due_at\nFile,{day}\nDots,02.03.2026\n")
    mapping = {"Що": "title", "Коли": "due_at", "Нагадати": "remind_at"}
    text = f"Що,Коли,Нагадати\nMapped,{day},\nBoth,2.3.26,{day}\n"
    query = f"?mapping={quote(json.dumps(mapping))}&date_order=day"
    assert send(api, "tasks", text, query).json["created"] == 2
    result = api.read("/tasks")
    assert {task["title"]: task["due_at"] for task in result} == dict.fromkeys(
        ("API", "Page", "File", "Dots", "Mapped", "Both"), last_second
    )
    assert {task["remind_at"] for task in result} == {None, values.midnight(day, zone)}
    clock.tick(datetime.fromisoformat(last_second).timestamp() - clock())
    assert not any(task["is_overdue"] for task in api.read("/tasks"))
    clock.tick(1)
    assert all(task["is_overdue"] for task in api.read("/tasks"))
    assert api.post("/tasks", {"title": "No day", "due_at": "2026-02-30"}).status_code == 422
    assert api.post("/tasks", {"title": "A time", "remind_at": day}).status_code == 422


@pytest.fixture
def tasks(api, taras):
    """Ids of tasks by name."""
    lead = api.create("/leads", name="Марія", phone="+380671234567")
    client = api.create("/clients", name="Ромашка")
    deal = api.create("/deals", title="Крісла")
    return {
        "call": api.create(
            "/tasks", title="Дзвінок", type="call", due_at="2026-03-05T10:00:00Z", lead_id=lead
        ),
        "meeting": taras.create(
            "/tasks",
            title="Зустріч",
            type="meeting",
            status="in_progress",
            due_at="2026-03-04T10:00:00Z",
            client_id=client,
            description="показати КРІСЛА",
        ),
        "letter": api.create(
            "/tasks", title="Лист", type="email", status="done", assigned_to=None, deal_id=deal
        ),
        "idle": api.create("/tasks", title="Крісла порахувати"),
    }


WAITING = "assigned_to=me&status=open&status=in_progress&sort=due_at"
FOUND = {  # a query: the tasks it finds, in order
    "assigned_to=me": "idle call",
    f"assigned_to={OLENA}&type=call": "call",
    "lead_id=1": "call",
    "client_id=1": "meeting",
    "deal_id=1": "letter",
    "due_before=2026-03-05T10:00:00Z": "meeting",
    "due_since=2026-03-05T10:00:00Z&due_before=2026-03-05T10:00:01Z": "call",
    "due_since=2026-03-05T10:00:00Z": "call",
    "due_since=2026-01-01T00:00:00Z&sort=due_at": "meeting call",
    WAITING: "call idle",
    f"{WAITING}&limit=1&total=true": "call",
    f"{WAITING}&due_since=2026-03-05T00:00:00Z": "call",
    f"{WAITING}&updated_since=2026-01-01T00:00:00Z&include_deleted=true": "call idle",
    "q=кріс+показ": "meeting",
    "sort=due_at": "meeting call letter idle",
    "sort=-due_at": "idle letter call meeting",
}


def test_filters_and_sorting(api, tasks):
    names = {id: name for name, id in tasks.items()}
    results = {
        query: [names[task["id"]] for task in api.read(f"/tasks?{query}")] for query in FOUND
    }
    assert {query: " ".join(item) for query, item in results.items()} == FOUND


# Tasks that repeat

WEEKLY = {"title": "Call", "due_at": NOON, "repeat": "FREQ=WEEKLY;BYDAY=MO,TU"}


def test_a_done_task_makes_the_next_one_once(api, acme, clock):
    sent = {**WEEKLY, "type": "call", "remind_at": "2026-03-02T11:30:00Z", "priority": "high"}
    first = create({**sent, "assigned_to": OLENA, "description": "Prices"})
    clock.tick(2 * 86_400)  # on Wednesday: Tuesday is over
    done = TASK.one(complete(first).id)
    assert TASK.one(complete(first).id) == done
    following = TASK.one(done["next_task_id"])
    same = ("title", "type", "priority", "assigned_to", "description", "repeat")
    assert {name: following[name] for name in same} == {name: done[name] for name in same}
    times = (following["status"], following["due_at"], following["remind_at"])
    assert times == ("open", "2026-03-09T12:00:00Z", "2026-03-09T11:30:00Z")
    events = api.get("/events").json["data"][-2:]
    assert [event["type"] for event in events] == ["task.completed", "task.created"]
    assert [event["data"]["task"]["id"] for event in events] == [str(first), following["id"]]
    assert events[0]["data"]["task"]["next_task_id"] == following["id"]
    update(following["id"], {"status": "done"})
    assert Task.find(following["id"]).next_task_id == int(following["id"]) + 1


def test_a_reopened_task_takes_the_next_one_back_unless_it_was_changed(acme):
    task = create(WEEKLY)
    untouched = complete(task).next_task_id
    update(task, {"status": "open"})
    assert Task.first("id = ?", untouched) is None and Task.find(task).next_task_id is None
    changed = complete(task).next_task_id
    update(changed, {"title": "Call them"})
    update(task, {"status": "in_progress"})
    assert complete(task).next_task_id == changed
    assert Task.first("id > ?", changed) is None


@pytest.mark.parametrize(
    ("sent", "code"),
    [
        ({"repeat": "FREQ=HOURLY", "due_at": NOON}, "invalid_rule"),
        ({"repeat": "FREQ=DAILY"}, "due_at_required"),
    ],
)
def test_a_rule_that_tells_no_time_is_refused(api, sent, code):
    for answer in (
        api.post("/tasks", {"title": "Call", **sent}),
        api.patch(f"/tasks/{api.create('/tasks', **WEEKLY)}", {"due_at": None, **sent}),
    ):
        assert answer.status_code == 422
        assert {(error["pointer"], error["code"]) for error in answer.json["errors"]} == {
            ("/repeat", code)
        }


@pytest.mark.parametrize("end", [{"repeat": None}, {"repeat": "FREQ=DAILY;COUNT=1"}])
def test_after_the_last_time_and_without_a_rule_no_task_follows(acme, end):
    task = create(WEEKLY)
    update(task, {**end, "status": "done"})
    assert Task.find(task).next_task_id is None
    assert Task.find(create({**WEEKLY, "status": "done"})).next_task_id is None


def test_the_next_task_has_the_values_of_own_fields(api):
    api.create("/fields", resource="tasks", key="room", label="Room", type="text", filtered=True)
    id = api.create("/tasks", **WEEKLY, custom={"room": "5"})
    api.post(f"/tasks/{id}/complete", {})
    assert [task["custom"] for task in api.read("/tasks?custom.room=5")] == [{"room": "5"}] * 2


def test_a_task_of_a_deleted_record_does_not_repeat(api):
    client = api.create("/clients", name="Олена")
    tasks = [api.create("/tasks", **WEEKLY, client_id=client) for _ in range(2)]
    api.delete(f"/clients/{client}")
    assert api.post(f"/tasks/{tasks[0]}/complete", {}).json["next_task_id"] is None
    api.post(f"/clients/{client}/restore")
    assert api.post(f"/tasks/{tasks[1]}/complete", {}).json["next_task_id"]


def test_what_waits_for_a_user_is_read_by_its_index_unless_few_are_listed(acme, monkeypatch):
    monkeypatch.setattr(list_plans, "MAX_READ_BY_ID", 1)
    sent = {"status": ["in_progress", "open"], "assigned_to": str(TARAS), "sort": "due_at"}
    for number in range(2):
        create({"title": "Call", "external_id": f"M-{number}", "assigned_to": str(TARAS)})
    for others, is_read in (
        *(({}, True), ({"status": "open"}, False), ({"sort": "-id"}, False)),
        ({"external_id": "M-1"}, False),
    ):
        query = TASK_FILTER.read(MultiDict(sent | others))
        listing = list_plans.Listing(TASK, query, TASK_FILTER.fields["sort"], query.conditions)
        assert ("task_waiting" in listing.choose_plan().table) is is_read, others
