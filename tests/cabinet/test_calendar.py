"""The private calendar of a user, read back by vobject: a parser of another project."""

import re
from collections import Counter
from datetime import datetime, timedelta

import vobject

from crm.resources import calendar, users
from crm.storage.session import rows
from tests.conftest import OLENA, TARAS
from tests.csv_helpers import send
from tests.page_client import Person

DUE = "2026-03-29T07:30:00Z"  # half past ten in Kyiv, on the day when summer time begins

EVE = "2026-03-28T16:00:00Z"


def make_address(person: Person) -> str:
    page = person.post("/settings/profile/calendar")
    assert page.status_code == 200, page.text
    return re.search(r"http://acme\.localhost:8000(/calendar/[\w-]{43}\.ics)", page.text)[1]


def events_of(text: str) -> dict[str, vobject.base.Component]:
    contents = vobject.readOne(text).contents
    return {event.summary.value: event for event in contents.get("vevent", [])}


def test_a_calendar_has_the_tasks_of_its_user_at_their_times_with_an_alarm(api, manager, clock):
    to_taras = {"assigned_to": str(TARAS)}
    call = api.create("/tasks", title="Дзвінок; Ромашка, Київ", due_at=DUE, **to_taras)
    api.create("/tasks", title="З нагадуванням", due_at=DUE, remind_at=EVE, **to_taras)
    long = "Про меблі\nі " + "дуже " * 30
    api.patch(f"/tasks/{call}", {"description": long})
    done = api.create("/tasks", title="Зроблено", due_at=DUE, **to_taras)
    api.post(f"/tasks/{done}/complete")
    for other in (
        {"assigned_to": str(OLENA), "due_at": DUE, "title": "Оленине"},
        {**to_taras, "title": "Без строку"},
        {**to_taras, "due_at": DUE, "title": "Скасоване", "status": "cancelled"},
        {**to_taras, "due_at": "2026-01-01T00:00:00Z", "title": "Давнє"},
    ):
        api.create("/tasks", **other)
    path = make_address(manager)
    stranger = Person(api.crm)  # a program, without a session
    answer = stranger.get(path)
    assert answer.content_type == "text/calendar; charset=utf-8"
    assert all(len(line) <= 75 for line in answer.data.split(b"\r\n"))  # RFC 5545, 3.1
    events = events_of(answer.text)
    assert set(events) == {"Дзвінок; Ромашка, Київ", "✓ Зроблено", "З нагадуванням"}
    until_due = datetime.fromisoformat(EVE) - datetime.fromisoformat(DUE)
    assert events["З нагадуванням"].valarm.trigger.value == until_due
    event = events["Дзвінок; Ромашка, Київ"]
    assert event.dtstart.value == datetime.fromisoformat(DUE)
    assert event.duration.value == timedelta(minutes=30)
    assert event.description.value == long.strip()
    assert event.url.value == event.uid.value == f"http://acme.localhost:8000/tasks/{call}"
    assert event.valarm.trigger.value == timedelta(minutes=-15)
    assert event.valarm.action.value == "DISPLAY"
    assert "valarm" not in events["✓ Зроблено"].contents
    whole = vobject.readOne(answer.text)
    assert whole.contents["refresh-interval"][0].value == "PT1H"
    assert whole.contents["refresh-interval"][0].params == {"VALUE": ["DURATION"]}
    assert "DTSTART:20260329T073000Z" in answer.text and "vtimezone" not in whole.contents


def test_a_task_that_repeats_is_there_with_its_next_times(api, manager):
    """At the same hour of the day, also after the clocks have changed."""
    task = {"assigned_to": str(TARAS), "due_at": "2026-03-28T08:30:00Z", "title": "Звіт"}
    api.create("/tasks", **task, repeat="FREQ=DAILY;COUNT=3", remind_at="2026-03-28T08:00:00Z")
    text = manager.get(make_address(manager)).text
    events = vobject.readOne(text).contents["vevent"]
    times = [f"{event.dtstart.value:%Y-%m-%d %H:%M}" for event in events]
    assert times == ["2026-03-28 08:30", "2026-03-29 07:30", "2026-03-30 07:30"]
    assert len({event.uid.value for event in events}) == 3
    assert {event.valarm.trigger.value for event in events} == {timedelta(minutes=-30)}


def test_of_too_many_tasks_the_past_is_cut_and_never_what_comes_next(
    api, manager, clock, monkeypatch
):
    """Neither what was done nor what is done already takes the place of a task to do."""
    monkeypatch.setattr(calendar, "MAX_TASKS", 20)
    rows = ["title,assigned_to,status,due_at"]
    rows += [f"минуле,{TARAS},open,2026-02-25T09:00:{n:02}Z" for n in range(14)]
    rows += [f"зроблене,{TARAS},done,2026-03-02T10:00:{n:02}Z" for n in range(14)]
    assert send(api, "tasks", "\n".join(rows)).json["created"] == 28
    for title, due_at in (
        ("вчора", "2026-03-01T09:00:00Z"),
        ("завтра", "2026-03-03T09:00:00Z"),
        ("колись", "9998-12-31T23:59:59Z"),
    ):
        api.create("/tasks", title=title, due_at=due_at, assigned_to=str(TARAS))
    path = make_address(manager)
    text = manager.get(path).text
    counts = Counter(re.findall(r"^SUMMARY:(?:✓ )?(\w+)", text, re.M))
    expected = {"завтра": 1, "колись": 1, "зроблене": 14, "вчора": 1, "минуле": 3}
    assert counts == expected
    starts = re.findall(r"^DTSTART:(\w+)", text, re.M)
    assert starts == sorted(starts) and "20260225T090011Z" in starts  # the latest of the past
    rows = ["title,assigned_to,due_at"]
    rows += [f"ціль,{TARAS},2026-03-{n % 28 + 3:02}T12:00:00Z" for n in range(22)]
    assert send(api, "tasks", "\n".join(rows)).json["created"] == 22
    counts = Counter(re.findall(r"^SUMMARY:(\w+)", manager.get(path).text, re.M))
    assert counts == {"завтра": 1, "ціль": 19}


def test_a_program_gets_304_until_a_task_changes(api, manager, clock, monkeypatch):
    task = api.create("/tasks", title="Зустріч", due_at=DUE, assigned_to=str(TARAS))
    path, program = make_address(manager), Person(api.crm)
    first = program.get(path)
    with monkeypatch.context() as patch:
        patch.delattr(calendar, "write")  # nothing is written
        again = program.get(path, headers={"If-None-Match": first.headers["ETag"]})
    assert (again.status_code, again.data) == (304, b"")
    with monkeypatch.context() as patch:
        patch.setattr("crm.cabinet.calendar.__version__", "0.3.0")  # which may write it differently
        upgraded = program.get(path, headers={"If-None-Match": first.headers["ETag"]})
    assert upgraded.status_code == 200
    clock.tick(60)
    api.patch(f"/tasks/{task}", {"title": "Нарада"})
    changed = program.get(path, headers={"If-None-Match": first.headers["ETag"]})
    assert changed.status_code == 200
    assert set(events_of(changed.text)) == {"Нарада"}


def test_an_address_ends_with_a_new_one_when_it_is_ended_and_with_its_user(crm, manager):
    stranger = Person(crm)
    first = make_address(manager)
    second = make_address(manager)
    assert stranger.get(first).status_code == 404
    assert stranger.get(second).status_code == 200
    assert Person(crm, "globex").get(second).status_code == 404
    with crm.tenants.session("acme"):
        users.update(TARAS, {"active": 0})
    assert stranger.get(second).status_code == 404
    with crm.tenants.session("acme"):
        users.update(TARAS, {"active": 1})
    manager = Person(crm, user_id=TARAS)
    manager.sends("/settings/profile/calendar/end")
    assert stranger.get(second).status_code == 404


def test_the_address_is_stored_as_a_hash_and_never_logged(crm, manager, caplog):
    caplog.set_level("DEBUG")
    path = make_address(manager)
    Person(crm).sees(path)
    token = path.split("/")[-1].removesuffix(".ics")
    with crm.tenants.session("acme"):
        ((stored,),) = rows('SELECT calendar_hash FROM "user" WHERE id = ?', (TARAS,))
    assert len(bytes(stored)) == 32 and token.encode() not in bytes(stored)
    assert token not in caplog.text
    assert token not in manager.sees("/settings/profile")
