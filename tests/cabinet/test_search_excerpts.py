"""The page of the search: price and separators as lists show them, and the text that matched."""

import html
import re

import pytest

from crm.cabinet import search as excerpts
from crm.records import search
from tests.cases import loop_over

ITEM = re.compile(r'<li><a href="/(\w+)/\d+">(.*?)</a>(.*?)</li>', re.S)


def items(page):
    """[(noun, name, facts, excerpts)] of what was found, with the marks in them."""
    results = []
    for noun, name, rest in ITEM.findall(page):
        facts = re.search(r"<div>(.*?)</div>", rest, re.S)
        texts = re.findall(r'<div class="excerpt">(.*?)</div>', rest, re.S)
        results.append((noun, name, plain(facts[1]) if facts else "", texts))
    return results


def plain(text):
    """Without tags, but with marks."""
    return html.unescape(re.sub(r"<(?!/?mark>)[^>]*>", "", text)).replace("\u00a0", " ")


def find(olena, q):
    return items(olena.sees("/search", query_string={"q": q}))


def test_prices_have_their_currency_and_facts_are_separated(olena, api):
    api.create("/products", name="Стелаж", sku="ST-1", price=12500.5)
    client = api.create("/clients", name="ТОВ Ромашка", phone="+380441112233", email="r@a.example")
    api.create("/deals", title="Стелаж під замовлення", amount=1234567, client_id=client)
    api.create("/leads", name="Стелаж", company="ТОВ", phone="+380671112233", email="l@a.example")
    facts = {noun: facts for noun, _, facts, _ in find(olena, "стелаж")}
    assert facts == {
        "leads": "ТОВ · 067 111 22 33 · l@a.example",
        "deals": "ТОВ Ромашка · 1 234 567 ₴",
        "products": "ST-1 · 12 500,50 ₴",
    }
    ((_, _, facts, _),) = find(olena, "ромашка r@a")
    assert facts == "044 111 22 33 · <mark>r@a</mark>.example"


def test_what_matched_is_marked_where_it_is_shown(olena, api):
    api.create("/leads", name="Марія Стельмах", phone="+380671112233", comment="До стельмаха")
    part = "Коментар: До <mark>стель</mark>маха"
    assert find(olena, "СТЕЛЬ") == [
        ("leads", "Марія <mark>Стель</mark>мах", "067 111 22 33", [part]),
    ]
    ((_, name, facts, texts),) = find(olena, "067-111 стель")
    assert (name, facts, texts) == ("Марія <mark>Стель</mark>мах", "067 111 22 33", [part])


@pytest.mark.parametrize(
    ("path", "record", "field"),
    [
        ("/leads", {"name": "Ганна", "phone": "0671112233", "comment": "TEXT"}, "Коментар"),
        ("/products", {"name": "Стіл", "price": 1, "description": "TEXT"}, "Опис"),
        ("/products", {"name": "Стіл", "price": 1, "category": "потрібна шафа-купе"}, "Категорія"),
        ("/tasks", {"title": "Дзвінок", "description": "TEXT"}, "Опис"),
        ("/deals", {"title": "Меблі", "comment": "TEXT"}, "Коментар"),
        ("/clients", {"name": "ТОВ", "tags": ["опт", "потрібна шафа"]}, "Теги"),
        ("/clients", {"name": "ТОВ", "phone": "0671112233",
                      "contacts": [{"name": "Шафаренко"}]}, "Контакт"),
    ],
)  # fmt: skip
def test_a_match_elsewhere_is_shown_with_the_text_around_it(olena, api, path, record, field):
    text = "Перший рядок.\n" + "далі " * 50 + "потрібна шафа-купе & <b>дзеркало</b> " + "ще " * 99
    sent = {name: text if value == "TEXT" else value for name, value in record.items()}
    api.create(path, **sent)
    ((_, name, _, (response,)),) = find(olena, "шафа")
    assert "<mark>" not in name
    assert response.startswith(f"{field}: ")
    assert re.search("<mark>[Шш]афа</mark>", response)
    if "TEXT" in record.values():
        assert "&amp; &lt;b&gt;дзеркало&lt;/b&gt;" in response
        assert response.count("…") == 2
        assert len(plain(response)) < 200


WORDS = {
    ("стіл", "Столи і СТІЛ"): "Столи і <mark>СТІЛ</mark>",
    ("ст", "Столи, стіл"): "<mark>Ст</mark>оли, <mark>ст</mark>іл",
    ("мар'яна", "Мар’яна"): "<mark>Мар’яна</mark>",
    ("&lt", "a &lt; b"): "a <mark>&amp;lt</mark>; b",
    ("<", "<script>"): "<mark>&lt;</mark>script&gt;",
    ("слово", "<i>& слово"): "&lt;i&gt;&amp; <mark>слово</mark>",
    ("%", "100% так"): "100<mark>%</mark> так",
    ("нічого", "текст"): "текст",
}


@loop_over("q, text", WORDS)
def test_matches_are_marked_and_all_else_is_text(q, text):
    assert excerpts.marked(text, search.words(q)) == WORDS[q, text]
    result = excerpts.excerpt(text, search.words(q))
    assert result == (WORDS[q, text] if "<mark>" in WORDS[q, text] else None)


@loop_over("length", [0, 1, 39, 40, 41, 99, 100, 101, 500, 19_000])
@loop_over("glue", [" ", ""])
def test_an_excerpt_holds_its_match_wherever_it_is(length, glue):
    text = f"{'а' * length}{glue}шафа{glue}{'б' * length}"
    assert "<mark>шафа</mark>" in excerpts.excerpt(text, search.words("шафа"))
    long = "ш" * 200
    assert f"<mark>{long}</mark>" in excerpts.excerpt(f"{text} {long} {text}", search.words(long))
