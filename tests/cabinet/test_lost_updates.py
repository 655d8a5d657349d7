"""Two people at the edit form of one record: no change of theirs is lost unseen."""

import re
from html import unescape
from typing import Any

import pytest

from crm.cabinet import edits
from crm.resources import users
from crm.resources.pipelines import record as pipelines
from crm.resources.tasks import TASK
from crm.resources.tasks import create as create_task
from crm.resources.tasks import update as update_task
from tests.conftest import OLENA, TARAS
from tests.page_client import Person

BOTH_KEPT = "обидві зміни збережено"
SAME_FIELD = "Хтось інший тим часом змінив ті самі поля"
PROPOSAL = 3


@pytest.fixture
def olena(crm):
    return Person(crm, "acme", OLENA)


def form_of(person: Person, path: str) -> dict[str, str]:
    """The fields of the page's form that is sent to the page itself, as they are."""
    form = re.search(
        rf'<form method="post" action="{re.escape(path)}".*?</form>', person.sees(path), re.S
    )[0]
    fields = {}
    for tag in re.findall(r"<input[^>]*>", form):
        name, value = re.search(r' name="([^"]+)"', tag), re.search(r' value="([^"]*)"', tag)
        is_box = 'type="checkbox"' in tag
        if name and (not is_box or " checked" in tag):
            fields[unescape(name[1])] = unescape(value[1]) if value else ""
    for name, inner in re.findall(r'<select[^>]* name="([^"]+)".*?>(.*?)</select>', form, re.S):
        chosen = re.search(r'value="([^"]*)"[^>]* selected', inner)
        fields[name] = chosen[1] if chosen else re.search(r'value="([^"]*)"', inner)[1]
    areas = r'<textarea[^>]* name="([^"]+)"[^>]*>(.*?)</textarea>'
    for name, text in re.findall(areas, form, re.S):
        fields[name] = unescape(text)
    fields.pop("csrf_token")
    return fields


PAGES: dict[str, tuple[str, Any, dict[str, str], dict[str, Any], str]] = {
    # path, the other person's verb, what is typed, what the other changes, the field of both
    "user": (
        f"/settings/users/{TARAS}",
        lambda data: users.update(TARAS, data),
        {"name": "Тарас Шевченко"},
        {"phone": "+380501119999"},
        "name",
    ),
    "stage": (
        f"/settings/pipelines/1/stages/{PROPOSAL}",
        lambda data: pipelines.update_stage(1, PROPOSAL, data),
        {"name": "Рахунок"},
        {"probability": 66},
        "name",
    ),
    "pipeline": (
        "/settings/pipelines/1",
        lambda data: pipelines.update(1, data),
        {"name": "Опт"},
        {"lost_reasons": '["Дорого"]'},
        "name",
    ),
    "task": (
        "/tasks/1",
        lambda data: update_task(1, data),
        {"title": "Написати"},
        {"priority": "high"},
        "title",
    ),
}
RECORDS = {
    "user": lambda: users.User.find(TARAS),
    "stage": lambda: pipelines.Stage.find(PROPOSAL),
    "pipeline": lambda: pipelines.Pipeline.find(1),
    "task": lambda: TASK.one(1),
}


def value(noun: str, name: str) -> Any:
    record = RECORDS[noun]()
    return record[name] if isinstance(record, dict) else getattr(record, name)


@pytest.mark.parametrize("noun", PAGES)
def test_fields_that_one_person_edited_are_all_kept(crm, olena, noun):
    path, change, typed, theirs, _ = PAGES[noun]
    with crm.tenants.session("acme"):
        create_task({"title": "Зателефонувати"})
    form = form_of(olena, path)
    with crm.tenants.session("acme"):
        change(theirs)
    assert BOTH_KEPT in olena.sees(olena.sends(path, form | typed))
    with crm.tenants.session("acme"):
        for name, expected in (typed | theirs).items():
            assert value(noun, name) == expected


@pytest.mark.parametrize("noun", PAGES)
def test_a_field_that_both_edited_is_saved_once_the_other_value_was_seen(crm, olena, noun):
    path, change, typed, _, name = PAGES[noun]
    with crm.tenants.session("acme"):
        create_task({"title": "Зателефонувати"})
    form = form_of(olena, path)
    with crm.tenants.session("acme"):
        change({name: "Чуже"})
    page = olena.post(path, form | typed)
    assert page.status_code == 422
    assert SAME_FIELD in page.text and "Хтось інший змінив це на «Чуже»." in page.text
    with crm.tenants.session("acme"):
        assert value(noun, name) == "Чуже"
    shown = re.search(r'name="shown" value="([^"]*)"', page.text)[1]
    olena.sends(path, form | typed | {"shown": unescape(shown)})
    with crm.tenants.session("acme"):
        assert value(noun, name) == typed[name]


@pytest.mark.parametrize("noun", PAGES)
def test_a_change_between_the_look_and_the_verb_is_looked_at_again(crm, olena, noun, monkeypatch):
    """As if somebody else's request came between the page's read and its transaction."""
    path, change, typed, theirs, _ = PAGES[noun]
    with crm.tenants.session("acme"):
        create_task({"title": "Зателефонувати"})
    form = form_of(olena, path)
    merge, changes = edits._merge, [theirs]

    def merge_and_change(*arguments: Any) -> Any:
        merged = merge(*arguments)
        if changes:
            change(changes.pop())
        return merged

    monkeypatch.setattr(edits, "_merge", merge_and_change)
    assert BOTH_KEPT in olena.sees(olena.sends(path, form | typed))
    with crm.tenants.session("acme"):
        for name, expected in (typed | theirs).items():
            assert value(noun, name) == expected


@pytest.mark.parametrize("due_at", ["2026-10-25T01:30:00Z", "1910-05-05T10:00:00Z"])
def test_a_time_that_nobody_edits_stays_whatever_the_clocks_did(api, olena, due_at):
    """The end of summer time repeats the first one, and the clocks of 1910 had odd seconds."""
    id = api.create("/tasks", title="Дзвінок", due_at=due_at)
    olena.sends(f"/tasks/{id}", form_of(olena, f"/tasks/{id}") | {"title": "Зустріч"})
    task = api.read(f"/tasks/{id}")
    assert (task["title"], task["due_at"]) == ("Зустріч", due_at)
