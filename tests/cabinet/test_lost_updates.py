"""Two people at the edit form of one record: no change of theirs is lost unseen."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import pytest

from crm.cabinet import edits, labels
from crm.resources import leads, products, tasks, users
from crm.resources.clients import record as clients
from crm.resources.deals import record as deals
from crm.resources.pipelines import record as pipelines
from tests.page_client import hidden

BOTH_KEPT = "обидві зміни збережено"
SAME_FIELD = "Хтось інший тим часом змінив ті самі поля"


class Page(NamedTuple):
    """The edit form of a record, which two people have open."""

    path: str
    update: Callable[[int, dict[str, Any]], Any]  # the other person's
    id: int
    typed: dict[str, str]
    theirs: dict[str, Any]


STAGE, CONTACT = "/settings/pipelines/1/stages/3", "/clients/1/contacts/1"
update_stage, update_contact = (
    partial(verb, 1) for verb in (pipelines.update_stage, clients.update_contact)
)
PAGES = {
    "user": Page("/settings/users/2", users.update, 2, {"name": "Тарас"}, {"email": "t@a.example"}),
    "stage": Page(STAGE, update_stage, 3, {"name": "Рахунок"}, {"probability": 66}),
    "pipeline": Page(
        "/settings/pipelines/1", pipelines.update, 1, {"name": "Опт"}, {"lost_reasons": '["Ні"]'}
    ),
    "task": Page("/tasks/1", tasks.update, 1, {"title": "Написати"}, {"priority": "high"}),
    "lead": Page("/leads/1/edit", leads.update, 1, {"name": "Ганна"}, {"comment": "Чужий"}),
    "client": Page("/clients/1/edit", clients.update, 1, {"name": "Обрій"}, {"address": "Київ"}),
    "contact": Page(CONTACT, update_contact, 1, {"name": "Оля"}, {"position": "директорка"}),
    "deal": Page("/deals/1/edit", deals.update, 1, {"title": "Моя"}, {"comment": "Чужа зміна"}),
    "product": Page("/products/1", products.update, 1, {"name": "Диван"}, {"unit": "шт"}),
}


@pytest.fixture
def records(crm):
    """One of each."""
    with crm.tenants.session("acme"):
        tasks.create({"title": "Зателефонувати"})
        leads.create({"name": "Марія", "phone": "+380671234567"})
        clients.create({"name": "Світанок", "contacts": [{"name": "Ольга"}]})
        deals.create({"title": "Крісла"})
        products.create({"name": "Стіл", "price": 10_0000})


each_page = pytest.mark.parametrize("noun", PAGES)


def has(crm, noun: str, values: dict[str, Any]) -> bool:
    """Whether the record has these values."""
    with crm.tenants.session("acme"):
        record = labels.MODELS[noun].find(PAGES[noun].id)
    return values == {name: getattr(record, name) for name in values}


@each_page
def test_fields_that_one_person_edited_are_all_kept(crm, olena, records, noun):
    page = PAGES[noun]
    form = olena.form_as_it_is(page.path)
    with crm.tenants.session("acme"):
        page.update(page.id, page.theirs)
    assert BOTH_KEPT in olena.sees(olena.sends(page.path, form | page.typed))
    assert has(crm, noun, page.typed | page.theirs)


@each_page
def test_a_field_that_both_edited_is_saved_once_the_other_value_was_seen(crm, olena, records, noun):
    page = PAGES[noun]
    ((name, typed),) = page.typed.items()
    form = olena.form_as_it_is(page.path) | page.typed
    with crm.tenants.session("acme"):
        page.update(page.id, {name: "Чуже"})
    answer = olena.post(page.path, form)
    assert answer.status_code == 422
    assert SAME_FIELD in answer.text and "Хтось інший змінив це на «Чуже»." in answer.text
    assert f'value="{typed}"' in answer.text
    assert has(crm, noun, {name: "Чуже"})
    olena.sends(page.path, form | {"shown": hidden(answer.text, "shown")})
    assert has(crm, noun, page.typed)


def test_a_change_between_the_look_and_the_verb_is_looked_at_again(
    crm, olena, records, monkeypatch
):
    """As if somebody else's request came between the page's read and its transaction."""
    page = PAGES["lead"]
    form = olena.form_as_it_is(page.path)
    merge, changes = edits._merge, [page.theirs]

    def merge_and_change(*arguments: Any) -> Any:
        merged = merge(*arguments)
        if changes:
            page.update(page.id, changes.pop())
        return merged

    monkeypatch.setattr(edits, "_merge", merge_and_change)
    assert BOTH_KEPT in olena.sees(olena.sends(page.path, form | page.typed))
    assert has(crm, "lead", page.typed | page.theirs)


def test_a_refused_value_does_not_hide_what_others_changed(olena, api):
    api.create("/deals", title="Крісла")
    sent = olena.form_as_it_is("/deals/1/edit") | {"title": "Моя назва", "amount": "багато"}
    api.patch("/deals/1", {"title": "Чужа назва"})
    page = olena.post("/deals/1/edit", sent).text
    again = {**sent, "shown": hidden(page, "shown"), "amount": "5"}
    assert "Чужа назва" in olena.post("/deals/1/edit", again).text


@pytest.mark.parametrize("due_at", ["2026-10-25T01:30:00Z", "1910-05-05T10:00:00Z"])
def test_a_time_that_nobody_edits_stays_whatever_the_clocks_did(api, olena, due_at):
    """The end of summer time repeats the first one, and the clocks of 1910 had odd seconds."""
    id = api.create("/tasks", title="Дзвінок", due_at=due_at)
    olena.sends(f"/tasks/{id}", olena.form_as_it_is(f"/tasks/{id}") | {"title": "Зустріч"})
    task = api.read(f"/tasks/{id}")
    assert (task["title"], task["due_at"]) == ("Зустріч", due_at)
