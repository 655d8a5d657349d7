"""Tasks in the cabinet: what is overdue, for today and for later; done with one click."""

import html
import re

from crm.resources import tasks
from crm.resources.tasks import TASK_IN
from crm.storage.session import transaction
from tests.conftest import OLENA, TARAS


def groups(page):
    """The titles under each heading."""
    matches = re.findall(r'<section aria-labelledby="group.*?</section>', page, re.S)
    return [titles(section) for section in matches]


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
    assert groups(olena.sees("/tasks")) == [["моє"]]
    assert groups(olena.sees("/tasks?assigned_to=none")) == [["нічиє"]]
    assert sorted(groups(olena.sees("/tasks?assigned_to=all"))[0]) == ["Тарасове", "моє", "нічиє"]


def titles(page):
    return re.findall(r'<a class="agenda-name" href="/tasks/\d+">(.*?)</a>', page)


def test_a_cancelled_task_is_found_by_its_status(olena, api):
    api.create("/tasks", title="скасоване", status="cancelled")
    api.create("/tasks", title="виконане", status="done")
    api.create("/tasks", title="відкрите")
    api.create("/tasks", title="у роботі", status="in_progress")
    assert sum(groups(olena.sees("/tasks")), []) == ["відкрите", "у роботі"]
    page = olena.sees("/tasks?status=cancelled")
    assert titles(page) == ["скасоване"]
    assert "Стан: Скасоване" in page and "/complete" not in page
    assert 'option value="cancelled" selected' in page
    assert titles(olena.sees("/tasks?status=done")) == ["виконане"]
    everything = olena.sees("/tasks?status=all")
    assert sorted(titles(everything)) == ["виконане", "відкрите", "скасоване", "у роботі"]
    assert titles(olena.sees("/tasks?q=скас&status=all")) == ["скасоване"]
    assert titles(olena.sees("/tasks?q=скас")) == []


def test_tasks_beyond_200_are_on_further_pages(olena, crm):
    with crm.tenants.session("acme") as here, transaction():
        here.user_id = OLENA
        for number in range(205):
            due = f"2026-03-{number % 28 + 1:02}T10:00:00Z" if number % 3 else None
            tasks.create(TASK_IN.parse({"title": f"№{number}", "due_at": due}))
    seen, path = [], "/tasks?assigned_to=all"
    while path:
        page = olena.sees(path)
        assert '<span class="head-note">205</span>' in page
        seen.append(titles(page))
        following = re.search(r'rel="next" href="([^"]*)"', page)
        path = following and html.unescape(following[1])
    assert [len(item) for item in seen] == [200, 5]
    assert {*seen[0], *seen[1]} == {f"№{number}" for number in range(205)}


def test_days_are_those_of_the_tenant(olena, api):
    for title, due in (
        ("вчора", "2026-03-01T21:59:59Z"),
        ("опівночі", "2026-03-01T22:00:00Z"),
        ("увечері", "2026-03-02T21:59:59Z"),
        ("завтра", "2026-03-02T22:00:00Z"),
        ("без терміну", None),
    ):
        api.create("/tasks", title=title, due_at=due)
    page = olena.sees("/tasks?due_since=2026-03-02&due_before=2026-03-02")
    assert titles(page) == ["опівночі", "увечері"]
    assert titles(olena.sees("/tasks?due_since=2026-03-01T22:00:01Z")) == ["увечері", "завтра"]
    file = olena.sees("/tasks/export?due_before=2026-03-01")
    assert "вчора" in file and "опівночі" not in file
    for wrong in ("2026-02-31", "0001-01-01", "10000-01-01", "1899-12-31", "soon"):
        olena.sees(f"/tasks?due_before={wrong}", 422)
    assert titles(olena.sees("/tasks?due_since=9999-12-30")) == []


def test_the_filter_of_tasks_names_whose_they_are(api, olena):
    api.create("/tasks", title="Тарасове", assigned_to=TARAS)
    page = olena.sees("/tasks?assigned_to=2")
    assert titles(page) == ["Тарасове"] and 'value="2" selected>Taras' in page
    page = olena.sees("/tasks")
    assert re.search(r'name="assigned_to">\s*<option value="" selected>Я<', page)


def test_a_repeating_task_says_how_and_what_is_next(olena, api, clock):
    due = {"due_at": "2026-03-02T10:00", "repeat": "FREQ=DAILY", "priority": "normal"}
    olena.sends("/tasks", {"title": "Дзвінок", **due})
    page = olena.sees("/tasks/1")
    assert '<option value="FREQ=DAILY" selected>Щодня</option>' in page
    clock.tick(2 * 86_400)
    olena.sends("/tasks/1/complete")
    page = html.unescape(olena.sees("/tasks"))
    assert "«Дзвінок» виконано. Наступного разу: " in page and "(пропущено 2 рази)" in page
    assert titles(page) == ["Дзвінок"]
    olena.sends("/tasks/1/reopen", {"status": "open"})
    assert [task["id"] for task in api.read("/tasks")] == ["1"]


def test_a_rule_is_shown_in_words(olena, api):
    rule = "FREQ=WEEKLY;INTERVAL=2;BYDAY=MO,WE;UNTIL=20261231"
    api.create("/tasks", title="Звіт", due_at="2026-03-02T10:00:00Z", repeat=rule)
    text = "Щотижня: раз на 2 тижні, пн, ср, до 31 груд. 2026"
    assert f'<option value="{rule}" selected>{text}</option>' in olena.sees("/tasks/1")
    api.patch("/tasks/1", {"repeat": "FREQ=MONTHLY;BYMONTHDAY=15;COUNT=5"})
    assert "Щомісяця: 15-го числа, ще 5 разів" in olena.sees("/tasks/1")
