"""Deal items (spec: Deals and deal items; D1, D2, D8, D15)."""

from decimal import Decimal

import pytest

from crm.resources.deals import figures, items
from crm.resources.deals import record as deals
from crm.resources.deals.items import ITEM
from crm.resources.deals.record import DEAL, create
from crm.resources.products import record as products
from crm.storage.session import rows, transaction
from tests.resources.refusals import refusal

LARGEST = 9_999_999_999_9999  # a price, in 1/10 000


@pytest.fixture
def catalog(crm):
    """Products at acme: 1 a chair, 2 sold no more, 3 deleted, 4 in euros."""
    with crm.tenants.session("acme"):
        chair = {"sku": "CH-1", "name": "Крісло", "unit": "шт", "price": 1250_5000}
        products.create(chair)
        products.create({"sku": "OLD-1", "name": "Старе крісло", "price": 1_0000, "active": 0})
        gone = products.create({"sku": "GONE-1", "name": "Немає", "price": 1_0000})
        products.create({"sku": "EUR-1", "name": "Імпорт", "price": 10_0000, "currency": "EUR"})
        products.delete(gone)


def line(deal, **sent):
    """A new line of the deal, as it is shown; a free one unless it says a product."""
    if not {"product_id", "sku"} & set(sent):
        sent = {"name": "Стіл", "price": 100_0000, **sent}
    return ITEM.one(items.create(deal, sent))


def changed(deal, id, **data):
    return ITEM.one(items.update(deal, id, data).id)


# Rules


def test_a_line_is_one_piece_without_discount_unless_it_says_otherwise(acme):
    deal = create({})
    result = line(deal)
    assert (result["quantity"], result["discount"], result["discount_type"]) == (1, 0, "percent")
    assert (result["product_id"], result["sku"], result["unit"]) == (None, None, None)
    assert (result["subtotal"], result["discount_amount"], result["total"]) == (100, 0, 100)
    assert (result["position"], line(deal)["position"]) == (1, 2)


ROUNDED = (  # price, quantity, discount, its type, subtotal, what the discount takes off
    ("100", "3", "10", "percent", "300", "30"),
    ("0.005", "1", "0", "percent", "0.01", "0"),  # half up, also where half to even goes down
    ("1.005", "1", "0", "percent", "1.01", "0"),  # a float would say 1.00
    ("33.3333", "3", "0", "percent", "100", "0"),
    ("19.99", "1", "12.5", "percent", "19.99", "2.5"),
    ("10", "1", "33.3333", "percent", "10", "3.33"),
    ("10", "3", "4.5", "amount", "30", "4.5"),
)


def test_each_line_is_rounded_half_up(acme):
    deal = create({})
    for price, quantity, discount, kind, subtotal, taken in ROUNDED:
        stored = {
            "price": int(Decimal(price) * 10_000),
            "quantity": int(Decimal(quantity) * 1000),
            "discount": int(Decimal(discount) * 10_000),
        }
        result = line(deal, **stored, discount_type=kind)
        expected = Decimal(subtotal), Decimal(taken), Decimal(subtotal) - Decimal(taken)
        shown = result["subtotal"], result["discount_amount"], result["total"]
        assert shown == expected, (price, quantity, discount, kind)


def test_the_total_is_the_sum_of_rounded_lines(acme):
    deal = create({})
    for _ in range(3):
        line(deal, price=3333, quantity=1500)  # 0.49995 each
    assert DEAL.one(deal)["amount"] == Decimal("1.5")


def test_a_discount_is_at_most_the_line(acme):
    deal = create({})
    percent = {"discount": 100_0001}
    amount = {"discount": 100_0100, "discount_type": "amount"}
    for wrong in (percent, amount):
        assert refusal(lambda w=wrong: line(deal, **w)) == [("/discount", "too_large")]
    precise = {"discount": 1_0001, "discount_type": "amount"}
    assert refusal(lambda: line(deal, **precise)) == [("/discount", "too_precise")]
    id = line(deal, quantity=2000, discount=150_0000, discount_type="amount")["id"]
    # What would be is checked, not what was sent.
    assert refusal(lambda: changed(deal, id, quantity=1000)) == [("/discount", "too_large")]
    assert refusal(lambda: changed(deal, id, discount_type="percent")) == [
        ("/discount", "too_large")
    ]


def test_a_products_words_are_copied_and_stay(acme, catalog):
    deal = create({})
    result = line(deal, product_id=1, quantity=2000)
    assert (result["sku"], result["name"], result["unit"]) == ("CH-1", "Крісло", "шт")
    assert (result["price"], result["total"]) == (Decimal("1250.5"), 2501)
    with transaction():
        products.update(1, {"name": "Трон", "price": 1, "sku": "X", "unit": "кг"})
    assert ITEM.one(result["id"]) == result
    with transaction():
        products.Product.find(1).remove()
    assert ITEM.one(result["id"]) == result
    assert changed(deal, result["id"], quantity=3000)["total"] == Decimal("3751.5")


def test_a_sku_names_the_product_too(acme, catalog):
    deal = create({})
    assert line(deal, sku="CH-1")["product_id"] == "1"
    assert line(deal, sku="CH-1", product_id=1)["product_id"] == "1"
    assert refusal(lambda: line(deal, sku="CH-1", product_id=4)) == [("/sku", "sku_conflict")]


def test_what_is_sent_goes_before_what_the_product_says(acme, catalog):
    result = line(create({}), product_id=1, price=1_0000, name="Крісло синє", unit="пара")
    assert (result["price"], result["name"], result["unit"]) == (1, "Крісло синє", "пара")
    # A product of another currency needs a price.
    assert line(create({}), product_id=4, price=430_0000)["price"] == 430
    assert line(create({"currency": "EUR"}), product_id=4)["price"] == 10


def test_a_product_that_cannot_be_sold_is_refused(acme, catalog):
    deal = create({})
    for sent, fault in (
        ({"product_id": 2}, ("/product_id", "inactive_product")),
        ({"sku": "OLD-1"}, ("/sku", "inactive_product")),
        ({"product_id": 3}, ("/product_id", "unknown_id")),
        ({"sku": "GONE-1"}, ("/sku", "unknown_sku")),
        ({"product_id": 99}, ("/product_id", "unknown_id")),
        ({"product_id": 4}, ("/price", "currency_mismatch")),
    ):
        assert refusal(lambda s=sent: line(deal, **s)) == [fault]
    assert DEAL.one(deal)["items_count"] == 0


def test_the_first_line_makes_the_amount_the_items_total(acme):
    deal = create({"amount": 5000_0000})
    line(deal)
    assert (DEAL.one(deal)["amount"], DEAL.one(deal)["amount_mode"]) == (100, "items")
    deals.update(deal, {"amount": 90_0000})
    line(deal)  # the second one leaves what was set by hand since
    assert (DEAL.one(deal)["amount"], DEAL.one(deal)["amount_mode"]) == (90, "manual")
    assert DEAL.one(deal)["items_count"] == 2


def test_the_amount_follows_the_items(acme):
    deal = create({})
    first, second = line(deal), line(deal, quantity=2000)
    assert DEAL.one(deal)["amount"] == 300
    changed(deal, first["id"], discount=50_0000)
    assert DEAL.one(deal)["amount"] == 250
    for id in (first["id"], second["id"]):
        items.delete(deal, id)
    assert (DEAL.one(deal)["amount"], DEAL.one(deal)["amount_mode"]) == (0, "items")


def test_every_change_of_the_items_is_one_of_the_deal(acme, clock):
    deal = create({})
    id = line(deal)["id"]
    assert DEAL.one(deal)["version"] == 2
    clock.tick(60)
    changed(deal, id, comment="Синій")
    shown = DEAL.one(deal)
    assert (shown["version"], shown["updated_at"]) == (3, "2026-03-02T09:01:00Z")
    changed(deal, id, comment="Синій")
    assert DEAL.one(deal)["version"] == 3


def test_changes_of_a_deal_show_its_lines(api):
    deal = api.create("/deals", title="Кухня")
    item = api.create(f"/deals/{deal}/items", name="Стіл", price=1.5)
    api.delete(f"/deals/{deal}/items/{item}")
    gone, added = api.read(f"/deals/{deal}/changes")
    assert gone["before"]["items"] == added["after"]["items"]
    assert [(line["id"], line["price"]) for line in added["after"]["items"]] == [(item, 1.5)]
    assert gone["after"]["items"] == added["before"]["items"] == []


def test_no_line_and_no_deal_comes_to_more_than_fits(acme):
    deal = create({})
    assert refusal(lambda: line(deal, price=LARGEST, quantity=1001_000)) == [
        ("/price", "too_large")
    ]
    most = {"name": "Місто", "price": LARGEST, "quantity": 999_999}
    hundred = [most] * 100
    assert refusal(items.create_all, deal, hundred) == [("", "too_large")]
    assert DEAL.one(deal)["items_count"] == 0
    line(deal, **most)
    assert refusal(lambda: line(deal, **most)) == [("", "too_large")]
    small = line(deal, price=1_0000)["id"]
    assert refusal(lambda: changed(deal, small, **most)) == [("", "too_large")]


def test_a_deal_has_a_bounded_number_of_items(acme, monkeypatch):
    monkeypatch.setattr(items, "MAX_ITEMS", 2)
    deal = create({})
    line(deal)
    line(deal)
    assert refusal(line, deal) == "too_many_items"
    assert DEAL.one(deal)["items_count"] == 2


# Endpoints


@pytest.fixture
def deal(api):
    """The path of a deal's items; the deal is there, the items are not."""
    return f"/deals/{api.create('/deals', title='Офіс')}/items"


def told(api):
    """What was told of the deal's items."""
    return [event for event in api.events() if event["type"] == "deal.items_changed"]


def test_several_at_once_are_one_event(api, deal):
    lines = [{"name": f"Стіл {n}", "price": n} for n in range(100)]
    answer = api.post(deal, {"items": lines})
    assert answer.status_code == 201
    assert answer.json == {"status": "ok", "item_ids": [str(n) for n in range(1, 101)]}
    (event,) = told(api)
    assert event["previous"] == {"amount": None, "amount_mode": "manual", "items_count": 0}
    assert [item["position"] for item in api.read(f"{deal}?limit=200")] == [*range(1, 101)]
    assert api.read("/deals/1")["amount"] == 4950


def test_several_are_at_most_a_hundred_and_at_least_one(api, deal):
    for lines in ([], [{"name": "Стіл", "price": 1}] * 101, {}, None, "x"):
        answer = api.post(deal, {"items": lines})
        assert answer.status_code == 422
        assert answer.json["errors"][0]["pointer"] == "/items"
    answer = api.post(deal, {"items": [{"name": "Стіл", "price": 1}], "name": "Стіл"})
    assert answer.json["errors"][0]["pointer"] == "/name"
    assert told(api) == []


def test_the_faults_of_several_point_to_each(api, deal, catalog):
    good = {"name": "Стіл", "price": 1}
    lines = [good, {**good, "price": -1}, {**good, "quantity": 0, "x": 5}, "x"]
    for call in (api.post, api.put):
        errors = call(deal, {"items": lines}).json["errors"]
        assert sorted((e["pointer"], e["code"]) for e in errors) == [
            ("/items/1/price", "too_small"),
            ("/items/2/quantity", "too_small"),
            ("/items/2/x", "unknown_field"),
            ("/items/3", "invalid_type"),
        ]
        lines_of_rules = [good, {"name": "Стіл"}, good, {"product_id": 2}, {"product_id": 4}]
        errors = call(deal, {"items": lines_of_rules}).json["errors"]
        assert [(e["pointer"], e["code"]) for e in errors] == [
            ("/items/1/price", "required"),
            ("/items/3/product_id", "inactive_product"),
            ("/items/4/price", "currency_mismatch"),
        ]
    assert api.read(deal) == []
    assert told(api) == []


def test_the_product_of_a_line_stays(api, deal, catalog):
    id = api.create(deal, product_id=1)
    for sent in ({"product_id": "4"}, {"sku": "EUR-1"}, {"total": 1}, {"id": "9"}):
        assert api.patch(f"{deal}/{id}", sent).json["errors"][0]["code"] == "read_only"


def test_an_item_of_another_deal_is_not_found(api, deal):
    id = api.create(deal, name="Стіл", price=1)
    other = f"/deals/{api.create('/deals')}/items"
    for path in (f"{other}/{id}", f"{deal}/99", f"{deal}/x", f"/deals/99/items/{id}"):
        assert api.get(path).status_code == 404
        assert api.patch(path, {"quantity": 2}).status_code == 404
        assert api.delete(path).status_code == 404
    assert api.get("/deals/99/items").status_code == 404
    assert len(api.read(deal)) == 1


def test_put_replaces_all_items(api, deal):
    kept = api.create(deal, name="Стіл", price=10)
    gone = api.create(deal, name="Шафа", price=20)
    lines = [{"name": "Лампа", "price": 5}, {"id": kept, "quantity": 3}]
    answer = api.put(deal, {"items": lines})
    assert (answer.status_code, answer.json["meta"]) == (200, {"next_cursor": None})
    data = answer.json["data"]
    assert data == api.read(deal)
    assert [(item["name"], item["total"]) for item in data] == [("Лампа", 5), ("Стіл", 30)]
    assert (data[1]["id"], data[1]["version"]) == (kept, 2)
    assert api.get(f"{deal}/{gone}").status_code == 404
    *_, event = told(api)
    assert len(told(api)) == 3
    assert event["data"] == {"deal": api.read("/deals/1"), "items": data}
    assert event["previous"] == {"amount": 30}


def test_what_was_read_can_be_put_back_changed(api, deal, catalog):
    api.create(deal, product_id=1)
    api.create(deal, name="Доставка", price=10)
    with api.crm.tenants.session("acme"), transaction():
        products.update(1, {"sku": "NEW", "active": 0})
    lines = api.read(deal)
    assert api.put(deal, {"items": lines}).json["data"] == lines
    assert len(told(api)) == 2
    lines[0]["quantity"] = 2
    assert api.put(deal, {"items": lines}).json["data"][0]["total"] == 2501
    lines = api.read(deal)
    lines[0]["product_id"], lines[1]["total"] = "4", 1
    errors = api.put(deal, {"items": lines}).json["errors"]
    assert [(e["pointer"], e["code"]) for e in errors] == [
        ("/items/0/product_id", "read_only"),
        ("/items/1/total", "read_only"),
    ]


def test_put_refuses_ids_that_are_not_the_deals(api, deal):
    mine = api.create(deal, name="Стіл", price=10)
    other = api.create(f"/deals/{api.create('/deals')}/items", name="Стіл", price=10)
    lines = [{"id": mine}, {"id": other}, {"id": mine}, {"id": 99}]
    errors = api.put(deal, {"items": lines}).json["errors"]
    assert [(e["pointer"], e["code"]) for e in errors] == [
        ("/items/1/id", "unknown_id"),
        ("/items/2/id", "repeated"),
        ("/items/3/id", "unknown_id"),
    ]
    for body in ({}, {"items": None}, {"items": {}}):
        assert api.put(deal, body).json["errors"][0]["pointer"] == "/items"
    assert len(api.read(deal)) == 1


def test_items_stand_by_position(api, deal):
    first = api.create(deal, name="A", price=1)
    second = api.create(deal, name="B", price=1)
    third = api.create(deal, name="C", price=1, position=1)
    assert [item["name"] for item in api.read(deal)] == ["A", "C", "B"]
    api.patch(f"{deal}/{first}", {"position": 9})
    assert [item["name"] for item in api.read(deal)] == ["C", "B", "A"]
    assert [item["id"] for item in told(api)[-1]["data"]["items"]] == [third, second, first]
    assert [item["name"] for item in api.read(f"{deal}?sort=-position")] == ["A", "B", "C"]


@pytest.mark.files
def test_what_is_sold_often_is_read_from_the_latest_items_alone(crm):
    with crm.tenants.session("acme"):
        steps = [step[3] for step in rows(f"EXPLAIN QUERY PLAN {figures.OFTEN_SOLD}", (9, 9))]
    assert steps[0].endswith("USING INTEGER PRIMARY KEY (rowid>?)")
