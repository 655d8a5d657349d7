"""The calendar of a user: its private address, and what programs read there."""

import re
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import icalendar
import vobject

from crm.resources import tenant, users
from tests.conftest import OLENA, TARAS
from tests.page_client import Person

ADDRESS = re.compile(r"http://acme\.localhost:8000(/calendar/[\w-]{43}\.ics)")


def address_of(person):
    return ADDRESS.search(person.post("/settings/profile/calendar").text)[1]


def read(crm, path, **headers):
    return Person(crm).get(path, headers=headers)


def test_tasks_with_a_due_time_are_read_in_the_tenants_zone_with_an_alarm(crm, api, manager):
    due = {"due_at": "2026-07-01T06:00:00Z", "assigned_to": str(TARAS)}
    text = "Довгий опис; з комою, крапкою\nі другим рядком " + "ї" * 200
    api.create("/tasks", title="Дзвінок", description=text, **due)
    api.create("/tasks", title="З нагадуванням", remind_at="2026-06-30T15:00:00Z", **due)
    api.create("/tasks", title="Готове", status="done", **due)
    api.create("/tasks", title="Без терміну", assigned_to=str(TARAS))
    api.create("/tasks", title="Чуже", **{**due, "assigned_to": str(OLENA)})
    answer = read(crm, address_of(manager))
    assert answer.mimetype == "text/calendar"
    assert all(len(line) <= 75 for line in answer.data.split(b"\r\n"))  # RFC 5545, 3.1
    # By a parser of its own, and by the library that has written it.
    first, second = vobject.readOne(answer.data.decode()).vevent_list
    assert (first.summary.value, first.description.value) == ("Дзвінок", text)
    kyiv = datetime(2026, 7, 1, 9, tzinfo=ZoneInfo("Europe/Kyiv"))
    assert first.dtstart.value == kyiv and first.dtstart.value.utcoffset() == timedelta(hours=3)
    assert first.valarm.trigger.value == timedelta(minutes=-15)
    assert second.valarm.trigger.value == datetime(2026, 6, 30, 15, tzinfo=UTC)
    assert first.uid.value != second.uid.value
    calendar = icalendar.Calendar.from_ical(answer.data)
    assert calendar["refresh-interval"].dt == timedelta(minutes=15)
    assert b"DTSTART;TZID=Europe/Kyiv:20260701T090000" in answer.data
    assert b"BEGIN:VTIMEZONE" in answer.data


def test_it_is_not_sent_again_until_a_task_changes(crm, api, manager, clock):
    due = {"due_at": "2026-07-01T06:00:00Z", "assigned_to": str(TARAS)}
    id = api.create("/tasks", title="Дзвінок", **due)
    path = address_of(manager)
    etag = read(crm, path).headers["ETag"]
    clock.tick(3600)
    assert read(crm, path, **{"If-None-Match": etag}).status_code == 304
    api.patch(f"/tasks/{id}", {"title": "Інший"})
    changed = read(crm, path, **{"If-None-Match": etag})
    assert changed.status_code == 200 and "SEQUENCE:2" in changed.text
    api.delete(f"/tasks/{id}")
    assert "VEVENT" not in read(crm, path).text


def test_an_address_ends_and_belongs_to_one_user_of_one_tenant(crm, api, manager):
    first = address_of(manager)
    second = address_of(manager)
    assert read(crm, first).status_code == 404
    assert read(crm, second).status_code == 200
    assert Person(crm, "globex").get(second).status_code == 404
    tenant.clone(crm.tenants, "acme", "copy")
    assert Person(crm, "copy").get(second).status_code == 404
    with crm.tenants.session("acme"):
        users.update(TARAS, {"active": 0})
    assert read(crm, second).status_code == 404
    with crm.tenants.session("acme"):
        users.update(TARAS, {"active": 1})
    manager = Person(crm, user_id=TARAS)
    manager.sends("/settings/profile/calendar/end")
    assert read(crm, second).status_code == 404
    assert read(crm, "/calendar/x.ics").status_code == 404


def test_a_session_that_is_not_fresh_gets_no_address(crm, manager, clock):
    clock.tick(11 * 60)
    assert manager.post("/settings/profile/calendar").status_code == 403
