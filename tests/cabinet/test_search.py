"""The search: what it finds in which records, its pages, and who sees them."""

import re

import pytest

from tests.page_client import Person


def found(text):
    """{noun: [texts that lead to records]} of the page of the search."""
    text = re.sub("</?mark>", "", text)
    sections = re.findall(r'aria-labelledby="found-(\w+)"(.*?)</section>', text, re.S)
    return {
        noun: re.findall(rf'<li><a href="/{noun}/\d+">(.*?)</a>', section)
        for noun, section in sections
    }


@pytest.fixture
def stocked(api):
    api.create("/leads", name="Марія Стельмах", phone="+380671112233")
    api.create("/clients", name="ТОВ «Стеля»", phone="+380441112233")
    api.create("/deals", title="Стелаж")
    api.create("/products", name="Стелаж сосновий", sku="ST-1", price=1250)
    api.create("/tasks", title="Подзвонити Стельмах")
    api.create("/leads", name="Іван", email="ivan@example.com")


def test_a_search_finds_every_noun_in_any_case_but_nothing_deleted_or_of_others(
    stocked, api, crm, olena
):
    assert found(olena.sees("/search", query_string={"q": "стел"})) == {
        "leads": ["Марія Стельмах"],
        "clients": ["ТОВ «Стеля»"],
        "deals": ["Стелаж"],
        "products": ["Стелаж сосновий"],
        "tasks": ["Подзвонити Стельмах"],
    }
    api.delete("/leads/1")
    assert "leads" not in found(olena.sees("/search?q=стел"))
    assert not found(Person(crm, "globex", 1).sees("/search?q=стел"))


def test_ten_are_shown_and_a_link_leads_to_all(api, olena):
    for number in range(12):
        api.create("/leads", name=f"Іван & {number}", phone="+380671112233")
        api.create("/deals", title=f"Іван & {number}")
        api.create("/tasks", title=f"Іван & {number}")
    text = olena.sees("/search", query_string={"q": "іван &"})
    assert {noun: len(item) for noun, item in found(text).items()} == {
        "leads": 10,
        "deals": 10,
        "tasks": 10,
    }
    q = "%D1%96%D0%B2%D0%B0%D0%BD%20%26"
    of_tasks = re.search(r'href="(/tasks\?[^"]*&amp;q=)', text)[1] + q
    for path in (f"/leads?q={q}", f"/deals?view=list&amp;q={q}", of_tasks):
        assert f'href="{path}"' in text
        every = olena.sees(path.replace("&amp;", "&"))
        assert all(f"Іван &amp; {number}<" in every for number in range(12))


def test_a_search_for_nothing_shows_the_form(olena):
    for q in ("", "   "):
        text = olena.sees("/search", query_string={"q": q})
        assert 'name="q"' in text and not found(text) and "Нічого не знайдено" not in text
    assert "Нічого не знайдено" in olena.sees("/search", query_string={"q": "бегемот"})


def test_a_search_that_is_too_long_is_kept_and_told(stocked, olena):
    assert olena.sees("/search", query_string={"q": "я" * 200})
    text = olena.sees("/search", 422, query_string={"q": "я" * 201})
    assert f'value="{"я" * 201}"' in text
    assert 'id="q-fault"' in text
    assert "Нічого не знайдено" not in text
