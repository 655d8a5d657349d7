"""Changing many records of a list in the workspace: the question, the change, its undo."""

import re

import pytest

from tests.conftest import TARAS
from tests.page_client import Person

each = pytest.mark.parametrize


@pytest.fixture
def leads(api) -> list[str]:
    return [api.create("/leads", name=name, phone="+380671234567") for name in ("А", "Б", "В")]


def ask(person: Person, plural: str, **sent) -> dict[str, str]:
    """The fields of the question that an action gets."""
    page = person.post(f"/{plural}/bulk", sent)
    assert page.status_code == 200, page.text
    return person.form_fields(page.text, f"/{plural}/bulk")


def test_chosen_leads_are_assigned_after_a_question_and_undone(olena, api, leads):
    sent = {"ids": leads[:2], "do": "assigned_to", "assigned_to": str(TARAS)}
    page = olena.post("/leads/bulk", sent).text
    assert "Змінити 2 записи?" in page and "Відповідальний: Taras" in page and "А, Б" in page
    assert "btn-danger" not in page  # which is for what deletes
    assert api.read(f"/leads/{leads[0]}")["assigned_to"] != str(TARAS)
    assert olena.sends("/leads/bulk", sent | {"expect": "2"}) == "/leads"
    page = olena.sees("/leads")
    assert "Змінено 2 записи" in page
    changed = [api.read(f"/leads/{id}")["assigned_to"] == str(TARAS) for id in leads]
    assert changed == [True, True, False]
    (undo,) = re.findall(r'action="(/leads/batches/\d+/undo)"', page)
    assert olena.sends(undo, olena.form_fields(page, undo)) == "/leads"
    assert api.read(f"/leads/{leads[0]}")["assigned_to"] != str(TARAS)


def test_what_was_so_and_what_is_gone_are_told(olena, api, leads):
    api.patch(f"/leads/{leads[0]}", {"assigned_to": str(TARAS)})
    assert api.delete(f"/leads/{leads[2]}").status_code == 204
    sent = {"ids": leads, "do": "assigned_to", "assigned_to": str(TARAS)}
    assert "Тим часом видалено вибраних записів: 1." in olena.post("/leads/bulk", sent).text
    olena.sends("/leads/bulk", sent | {"expect": "2"})
    assert "Змінено 1 запис · уже так: 1" in olena.sees("/leads")
    assert "Зміна кількох записів: Відповідальний" in olena.sees("/leads/batches")


def test_all_that_match_are_changed(olena, api, leads):
    api.patch(f"/leads/{leads[0]}", {"tags": ["vip"]})
    sent = {"everything": "1", "query": "tag=vip", "do": "add_tag", "tag": "опт"}
    fields = ask(olena, "leads", **sent)
    assert fields["expect"] == "1"
    olena.sends("/leads/bulk", fields)
    assert [api.read(f"/leads/{id}")["tags"] for id in leads] == [["vip", "опт"], [], []]


def test_what_stays_is_told_before(olena, api, leads):
    api.post(f"/leads/{leads[2]}/convert", {"title": "Стіл"})
    page = olena.post("/leads/bulk", {"ids": leads, "do": "status", "status": "qualified"}).text
    assert "Змінити 2 записи?" in page and "Залишаться без змін:" in page and "(1)" in page


def test_another_number_of_records_is_not_changed(olena, api, leads):
    sent = {"everything": "1", "query": "", "do": "delete", "expect": "2"}
    assert olena.sends("/leads/bulk", sent) == "/leads"
    assert "Кількість записів змінилася" in olena.sees("/leads")
    assert len(api.read("/leads")) == 3
    olena.sends("/leads/bulk", sent | {"expect": "3"})
    assert api.read("/leads") == []


@each("sent", [{}, {"ids": ["1"], "do": "explode"}, {"ids": ["1"], "do": "add_tag", "tag": ""}])
def test_what_cannot_be_meant_is_told_at_the_list(olena, leads, sent):
    assert olena.sends("/leads/bulk", {"next": "/leads?status=new"} | sent) == "/leads?status=new"
    assert "alert-danger" in olena.sees("/leads")


@each("plural, noun", [("deals?view=list", "deal"), ("clients", "client"), ("products", "product")])
def test_each_list_has_its_actions(olena, api, plural, noun):
    record = {"title": "Стіл"} if noun == "deal" else {"name": "Стіл"}
    id = api.create(f"/{noun}s", **record, **({"price": 1} if noun == "product" else {}))
    page = olena.sees(f"/{plural}")
    assert f'name="ids" value="{id}"' in page
    for do in {"deal": ("stage_id", "add_tag"), "client": ("add_tag",), "product": ("active",)}[
        noun
    ]:
        assert f'name="do" value="{do}"' in page
    olena.sends(f"/{noun}s/bulk", ask(olena, f"{noun}s", ids=[id], do="delete"))
    assert api.read(f"/{noun}s") == []
