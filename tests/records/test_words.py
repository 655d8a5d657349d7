"""Sources and categories: one spelling of each, the first one (D2)."""

import json
from contextlib import suppress
from urllib.parse import quote

from crm.resources.leads.record import Lead
from crm.resources.personal_data import erase
from crm.storage.session import rows, savepoint, transaction
from tests.csv_helpers import send


def sources(api, noun="leads"):
    return [record["source"] for record in reversed(api.read(f"/{noun}?sort=-created_at"))]


def create(api, source, **more):
    return api.create("/leads", name="Олена", phone="0671234567", source=source, **more)


def test_a_word_is_stored_as_it_was_first_written_by_whatever_way(api, olena):
    lead = create(api, "Інста")
    create(api, "ІНСТА")
    api.create("/clients", name="ТОВ", source="інста")
    api.create("/deals", title="Столи", source="інстА")
    olena.sends("/leads", {"name": "Сторінка", "phone": "0671234568", "source": "інСТА"})
    send(api, "leads", "name,phone,source\nФайл,0671234569,інстА\nФайл,0671234560,Новий\n")
    send(api, "leads", "name,phone,source\nФайл,0671234561,новий\n")
    mapping = quote(json.dumps({"Хто": "name", "Чим": "phone", "Звідки": "source"}))
    text = "Хто,Чим,Звідки\nФайл,0671234562,ІнСТА\n"
    assert send(api, "leads", text, f"?mapping={mapping}").json["created"] == 1
    assert set(sources(api)) == {"Інста", "Новий"}
    assert sources(api, "clients") == sources(api, "deals") == ["Інста"]
    assert api.read(f"/leads/{lead}")["version"] == 1
    assert api.patch(f"/leads/{lead}", {"source": "інста"}).json["version"] == 1
    assert api.patch(f"/leads/{lead}", {"source": "НОВИЙ"}).json["source"] == "Новий"


def test_a_word_of_a_rejected_row_is_learned_again(crm):
    source = Lead.source.wire
    with crm.tenants.session("acme"), transaction():
        with suppress(ValueError), savepoint():
            assert source.learned("Виставка") == source.learned("ВИСТАВКА") == "Виставка"
            raise ValueError
        assert source.learned("виставка") == "виставка"
    with crm.tenants.session("acme"):
        assert rows("SELECT text FROM word WHERE vocabulary = 'source'") == [("виставка",)]


def test_filters_and_reports_have_a_word_once(api):
    for source in ("Інста", "інста", "Сайт"):
        create(api, source)
    assert len(api.read(f"/leads?source={quote('ІНСТА')}")) == 2
    assert len(api.read(f"/leads?source={quote('ІНСТА')}&source={quote('сайт')}")) == 3
    report = api.get("/reports/sources?since=2026-01-01&until=2026-12-31").json
    assert {row["source"] for row in report["data"]} == {"Інста", "Сайт"}


def test_categories_of_a_price_list_too(api):
    send(api, "products", "sku,name,price,category\nA,Стіл,5,Меблі\nB,Шафа,6,МЕБЛІ\n")
    answer = send(api, "products", "sku,name,price,category\nA,Стіл,5,меблі\nB,Шафа,6,меблі\n")
    assert (answer.json["updated"], answer.json["skipped"]) == (0, 2)
    api.create("/products", name="Полиця", price=1, category="меблі")
    products = api.read(f"/products?category={quote('мЕБЛІ')}")
    assert [product["category"] for product in products] == ["Меблі"] * 3


def test_many_records_at_once_take_the_known_word(api):
    create(api, "Інста")
    other = create(api, "Сайт")
    answer = api.post("/leads/bulk", {"ids": [other], "set": {"source": "інста"}, "expect": 1})
    assert answer.status_code == 200, answer.text
    assert api.read(f"/leads/{other}")["source"] == "Інста"


def test_an_erasure_forgets_the_words_that_nobody_has_any_more(api):
    create(api, "Сайт")
    lead = create(api, "Від сусіда", external_id="1")
    with api.crm.tenants.session("acme") as session:
        session.user_id = 1
        erase("lead", lead)
        assert rows("SELECT text FROM word WHERE vocabulary = 'source' ORDER BY text") == [
            ("Сайт",)
        ]
