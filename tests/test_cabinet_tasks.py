"""Tasks in the cabinet: what is overdue, for today and for later; done with one click."""

import re

import pytest
from browsing import Person
from conftest import OLENA, TARAS

from crm.resources import users

NOON = "2026-03-02T12:00"  # in Kyiv; the clock stands at 11:00 there


def groups(page):
    """The titles under each heading."""
    found = re.findall(r'<section class="panel" aria-labelledby="group.*?</section>', page, re.S)
    return [re.findall(r'<a href="/tasks/\d+">(.*?)</a>', section) for section in found]


def test_tasks_stand_under_overdue_today_and_later(olena, api, clock):
    for title, due in (
        ("прострочене", "2026-03-02T08:59:59Z"),
        ("зараз", "2026-03-02T09:00:00Z"),
        ("увечері", "2026-03-02T21:59:59Z"),
        ("після півночі в Києві", "2026-03-02T22:00:00Z"),
        ("без терміну", None),
    ):
        api.create("/tasks", title=title, due_at=due)
    assert groups(olena.sees("/tasks")) == [
        ["прострочене"],
        ["зараз", "увечері"],
        ["після півночі в Києві", "без терміну"],
    ]


def test_mine_nobodys_and_all(olena, api):
    for title, assigned_to in (("моє", OLENA), ("нічиє", None), ("Тарасове", TARAS)):
        api.create("/tasks", title=title, assigned_to=assigned_to)
    assert groups(olena.sees("/tasks"))[2] == ["моє"]
    assert groups(olena.sees("/tasks?assigned_to=none"))[2] == ["нічиє"]
    assert sorted(groups(olena.sees("/tasks?assigned_to=all"))[2]) == ["Тарасове", "моє", "нічиє"]


def test_a_new_task_is_due_at_the_local_time_and_fires_its_event(olena, api):
    sent = {"title": "Дзвінок", "due_at": NOON, "assigned_to": "2", "priority": "high"}
    assert olena.sends("/tasks", {**sent, "type": "call", "description": ""}) == "/tasks"
    task = api.read("/tasks/1")
    assert (task["due_at"], task["assigned_to"]) == ("2026-03-02T10:00:00Z", "2")
    assert (task["priority"], task["type"], task["description"]) == ("high", "call", None)
    assert api.kinds() == ["task.created"]


def test_what_is_refused_comes_back_as_it_was_typed(olena, api):
    page = olena.post("/tasks", {"title": "", "description": "тут <b>все</b>"})
    assert page.status_code == 422
    assert "тут &lt;b&gt;все&lt;/b&gt;" in page.text
    assert 'id="title-fault"' in page.text
    assert api.kinds() == []


def test_one_click_completes_a_task_and_leads_back(olena, api):
    api.create("/tasks", title="Дзвінок")
    assert olena.sends("/tasks/1/complete", {"back": "/leads"}) == "/leads"
    assert api.read("/tasks/1")["status"] == "done"
    assert api.kinds() == ["task.created", "task.completed"]
    assert "Дзвінок" in olena.sees("/tasks/done")


@pytest.mark.parametrize("back", ["//evil.example", "https://evil.example", "/\\evil.example"])
def test_the_way_back_never_leads_elsewhere(olena, api, back):
    api.create("/tasks", title="Дзвінок")
    assert olena.sends("/tasks/1/complete", {"back": back}) == "/tasks"


def test_a_task_is_changed_and_deleted_on_its_card(olena, api):
    api.create("/tasks", title="Дзвінок", due_at="2026-03-02T10:00:00Z")
    assert f'value="{NOON}"' in olena.sees("/tasks/1")
    sent = {"title": "Зустріч", "due_at": NOON, "assigned_to": "1", "priority": "low"}
    olena.sends("/tasks/1", {**sent, "status": "in_progress", "result": "домовились"})
    task = api.read("/tasks/1")
    assert (task["title"], task["status"], task["result"]) == (
        "Зустріч",
        "in_progress",
        "домовились",
    )
    olena.sends("/tasks/1/delete")
    olena.sees("/tasks/1", 404)


def test_a_cancelled_task_is_not_done_by_a_stale_page(olena, api):
    api.create("/tasks", title="Дзвінок", status="cancelled")
    page = olena.post("/tasks/1/complete")
    assert page.status_code == 409
    assert "Скасоване завдання не можна виконати" in page.text


def test_a_viewer_sees_no_form_and_no_button(crm, api):
    api.create("/tasks", title="Дзвінок", assigned_to=None)
    with crm.tenants.visit("acme"):
        viewer = users.create({"name": "Зоя", "role": "viewer"}).id
    page = Person(crm, user_id=viewer).sees("/tasks?assigned_to=none")
    assert "Дзвінок" in page
    assert 'name="title"' not in page
    assert "/complete" not in page
