"""Deals with their items by CSV: one row per item (D7, D8, D9)."""

from decimal import Decimal
from typing import Any

import pytest

from crm.resources.deals.items import ITEM
from crm.resources.deals.record import DEAL, Deal
from crm.resources.pipelines import record as pipelines
from crm.storage.session import row, rows
from tests.conftest import OLENA, TARAS
from tests.csv_helpers import counts, errors, exported, file_of, load, said, send

pytestmark = pytest.mark.slow

ORDER = """external_id,title,client,stage,status,closed_at,created_at,manager,item_sku,item_name,\
item_quantity,item_price,item_discount,item_discount_type
D-1,Меблі,ТОВ Ромашка,Won,won,2024-02-01,2024-01-05,Taras,CH-1,Крісло,4,"1 250,50",10,
D-1,,,,,,,,,Доставка,1,350,50,amount
D-2,Столи,,Proposal,,,2024-01-06,,,,,,,
"""


@pytest.fixture
def acme(crm, api):
    """acme with a client, whose contact is Олена, and a chair in its price list."""
    contacts = [{"name": "Олена"}, {"name": "Ігор"}]
    api.create("/clients", name="ТОВ Ромашка", external_id="C-1", contacts=contacts)
    api.create("/products", sku="CH-1", name="Крісло офісне", price=1300, unit="шт")
    with crm.tenants.session("acme") as here:
        here.user_id = OLENA
        yield here


def deal(external_id: str) -> dict[str, Any]:
    return DEAL.one(Deal.first("external_id = ?", external_id).id)


def lines(external_id: str) -> list[dict[str, Any]]:
    return ITEM.every("deal_id = ? ORDER BY position", int(deal(external_id)["id"]))


def named(external_id: str) -> list[tuple[str, Any, Any]]:
    """(name, quantity, total) of a deal's items."""
    return [(line["name"], line["quantity"], line["total"]) for line in lines(external_id)]


# New deals


def test_a_deal_moves_in_with_its_items_stage_status_and_dates(acme, api):
    assert counts(load("deals", ORDER)) == (2, 0, 0, 0)
    won, stands = deal("D-1"), deal("D-2")
    assert (won["client_name"], won["manager"]) == (
        "ТОВ Ромашка",
        {"id": str(TARAS), "name": "Taras"},
    )
    assert (won["status"], won["closed_at"]) == ("won", "2024-01-31T22:00:00Z")
    assert (won["created_at"], won["version"]) == ("2024-01-04T22:00:00Z", 1)
    assert (won["amount"], won["amount_mode"], won["items_count"]) == (
        Decimal("4801.8"),
        "items",
        2,
    )
    chair, delivery = lines("D-1")
    assert (chair["sku"], chair["name"], chair["unit"]) == ("CH-1", "Крісло", "шт")
    assert (chair["product_id"], chair["price"], chair["total"]) == ("1", 1250.5, Decimal("4501.8"))
    assert (delivery["discount_type"], delivery["total"]) == ("amount", 300)
    assert (stands["status"], stands["amount"], stands["items_count"]) == ("open", None, 0)
    assert stands["assigned_to"] is None
    (move,) = api.read(f"/deals/{won['id']}/history")
    assert (move["to_name"], move["moved_at"]) == ("Won", "2024-01-31T22:00:00Z")


def test_a_deal_and_its_items_are_told_once_each_as_they_came(acme, api):
    load("deals", ORDER)
    item = api.events()[2:]
    assert [event["type"] for event in item] == [
        *("deal.created", "deal.won", "deal.items_changed"),
        "deal.created",
    ]
    for event in item[:3]:
        assert (event["data"]["deal"]["amount"], event["data"]["deal"]["version"]) == (4801.8, 1)
    assert len(item[2]["data"]["items"]) == 2


@pytest.mark.parametrize(
    ("amount", "mode", "found"),
    [
        ("", "", (200, "items")),
        ("150", "", (150, "manual")),
        ("", "manual", (None, "manual")),
        ("200,00", "items", (200, "items")),
        ("150", "items", "amount_of_items"),
    ],
)
def test_the_amount_is_that_of_the_items_unless_another_is_written(acme, amount, mode, found):
    header = "external_id,title,amount,amount_mode,item_name,item_price,item_quantity"
    result = load("deals", f'{header}\nD-1,Столи,"{amount}",{mode},Стіл,100,2\n')
    if isinstance(found, str):
        assert errors(result) == [(2, "amount", found)]
    else:
        assert (deal("D-1")["amount"], deal("D-1")["amount_mode"]) == found


def test_items_of_before_need_no_product_of_today(acme, api):
    api.create("/products", sku="OLD", name="Старе", price=5, active=False)
    header = "external_id,title,item_sku,item_name,item_price"
    text = f"{header}\nD-1,Столи,OLD,Старе,7\nD-1,,GONE,Щезле,8\n"
    assert counts(load("deals", text)) == (1, 0, 0, 0)
    old, gone = lines("D-1")
    assert (old["sku"], old["product_id"], old["price"]) == ("OLD", "2", 7)
    assert (gone["sku"], gone["product_id"], gone["price"]) == ("GONE", None, 8)
    result = load("deals", f"{header}\nD-2,Столи,OLD,,\nD-3,Столи,GONE,,\nD-4,Столи,CH-1,,\n")
    assert errors(result) == [(2, "item_sku", "inactive_product"), (3, "item_sku", "unknown_sku")]
    assert named("D-4") == [("Крісло офісне", 1, 1300)]


# Known deals


def test_a_known_deal_and_its_items_change_in_one_step(acme, api, clock):
    load("deals", ORDER)
    clock.tick(60)
    text = (
        "external_id,comment,item_sku,item_name,item_quantity,item_price\n"
        "D-1,Терміново,CH-1,,5,\nD-1,,,Збирання,1,100\n"
    )
    assert counts(load("deals", text)) == (0, 1, 0, 0)
    after = deal("D-1")
    assert named("D-1") == [
        ("Крісло", 5, 5627.25),
        ("Доставка", 1, 300),
        ("Збирання", 1, 100),
    ]
    assert (after["version"], after["amount"], after["comment"]) == (2, 6027.25, "Терміново")
    assert api.kinds()[6:] == ["deal.items_changed"]
    (change,) = api.read(f"/deals/{after['id']}/changes")
    assert set(change["after"]) == {"comment", "amount", "items", "items_count"}
    assert api.events()[-1]["previous"] == {
        "comment": None,
        "amount": 4801.8,
        "items_count": 2,
    }
    assert counts(load("deals", text)) == (0, 0, 1, 0)


def test_items_are_found_by_id_and_the_nth_of_a_name_by_the_nth_row(acme):
    text = "external_id,title,item_name,item_price\nD-1,Столи,Стіл,{}\nD-1,,Стіл,{}\n"
    load("deals", text.format(100, 200))
    assert counts(load("deals", text.format(100, 300))) == (0, 1, 0, 0)
    assert [line["price"] for line in lines("D-1")] == [100, 300]
    second = lines("D-1")[1]["id"]
    renamed = f"external_id,item_id,item_name\nD-1,{second},Тумба\n"
    assert counts(load("deals", renamed)) == (0, 1, 0, 0)
    assert [line["name"] for line in lines("D-1")] == ["Стіл", "Тумба"]


def test_the_first_items_of_a_deal_make_its_amount(acme):
    load("deals", "external_id,title,amount\nD-1,Столи,500\nD-2,Столи,500\n")
    text = "external_id,amount,item_name,item_price\nD-1,,Стіл,100\nD-2,700,Стіл,100\n"
    load("deals", text)
    assert [(deal(id)["amount"], deal(id)["amount_mode"]) for id in ("D-1", "D-2")] == [
        (100, "items"),
        (700, "manual"),
    ]


def test_an_edited_export_needs_no_new_amount(acme, api):
    load("deals", ORDER)
    text = api.get("/deals/export?ids=1").data.decode()
    assert said(send(api, "deals", text.replace(",1250.50,", ",1000,"))) == (0, 1, 0)
    assert (deal("D-1")["amount"], deal("D-1")["version"]) == (3900, 2)
    (stale,) = load("deals", text.replace(",4801.80,", ",1,")).errors
    assert (stale["column"], stale["code"]) == ("amount", "amount_of_items")


def test_a_move_fires_the_events_of_any_other_interface(acme, api):
    load("deals", ORDER)
    load("deals", "external_id,stage,status,closed_at\nD-2,Lost,lost,2024-03-01\n")
    assert api.kinds()[6:] == ["deal.stage_changed", "deal.lost"]
    assert deal("D-2")["closed_at"] == "2024-02-29T22:00:00Z"
    load("deals", "external_id,stage\nD-2,qualified\n")
    assert (deal("D-2")["status"], deal("D-2")["closed_at"]) == ("open", None)


# What a deal names


def test_a_client_is_named_by_id_external_id_or_name(acme, api):
    api.create("/clients", name="ТОВ Липа", external_id="C-2")
    text = (
        "title,client_id,client_external_id,client,contact\n"
        "a,1,,,\nb,,C-1,,\nc,,, тов ромашка ,\nd,1,C-1,ТОВ Ромашка,олена\ne,,,,\n"
    )
    assert counts(load("deals", text)) == (5, 0, 0, 0)
    results = [(d["client_id"], d["contact_id"]) for d in DEAL.every("TRUE ORDER BY id")]
    assert results == [("1", None)] * 3 + [("1", "1"), (None, None)]


@pytest.mark.parametrize(
    ("cells", "column", "code"),
    [
        (",,ТОВ Ніхто,,,", "client", "not_found"),
        (",,Двоє,,,", "client", "ambiguous"),
        ("1,C-2,,,,", "client_external_id", "contradiction"),
        ("1,,,Степан,,", "contact", "not_found"),
        (",,,Олена,,", "contact", "not_found"),
        (",,,,Опт,", "pipeline", "not_found"),
        (",,,,,Мрія", "stage", "not_found"),
    ],
)
def test_what_is_not_found_or_not_clear_is_told(acme, api, cells, column, code):
    for external_id in ("C-2", "C-3"):
        api.create("/clients", name="Двоє", external_id=external_id)
    header = "title,client_id,client_external_id,client,contact,pipeline,stage"
    result = load("deals", f"{header}\nСтоли,{cells}\n")
    assert errors(result) == [(2, column, code)]


def test_stages_are_found_in_their_pipeline_by_name_or_id(acme):
    stages = [{"name": "Розмова"}, {"name": "New"}, {"name": "Гаразд", "type": "won"}]
    wholesale = pipelines.create({"name": "Опт", "stages": stages})
    ids = dict(rows("SELECT name, id FROM stage WHERE pipeline_id = ?", (wholesale,)))
    text = (
        "external_id,title,pipeline,stage\nA,a,опт,new\nB,b,,New\nC,c,,гаразд\n"
        f"D,d,{wholesale},{ids['Розмова']}\nE,e,Опт,\nF,f,Опт,Proposal\n"
    )
    result = load("deals", text)
    assert errors(result) == [(7, "stage", "not_found")]
    (first,) = row("SELECT id FROM stage WHERE pipeline_id = 1 ORDER BY position")
    results = {id: int(deal(id)["stage_id"]) for id in "ABCDE"}
    talk = ids["Розмова"]
    assert results == {"A": ids["New"], "B": first, "C": ids["Гаразд"], "D": talk, "E": talk}
    assert deal("C")["status"] == "won"


def test_a_pipeline_or_stage_of_a_doubtful_name_is_exported_by_its_id(acme, api):
    pipelines.create({"name": "sales", "stages": [{"name": "Одна"}, {"name": "одна"}]})
    (second,) = row("SELECT max(id) FROM stage")
    api.create("/deals", title="Столи", stage_id=second)
    (line,) = exported(api, "deals")
    assert (line["pipeline"], line["stage"]) == ("2", str(second))
    assert said(send(api, "deals", api.get("/deals/export").data)) == (0, 0, 1)


def test_a_manager_is_another_name_of_who_is_assigned(acme):
    text = "external_id,title,manager,assigned_to\nA,a,2,\nB,b,Taras,2\nC,c,Taras,1\nD,d,,\n"
    result = load("deals", text)
    assert errors(result) == [(4, "manager", "contradiction")]
    assert [deal(id)["assigned_to"] for id in "ABD"] == ["2", "2", None]
    load("deals", "external_id,title,manager\nE,e,\n")
    assert deal("E")["assigned_to"] is None


def test_a_deal_of_a_deleted_client_goes_on_with_its_name(acme, api):
    load("deals", ORDER)
    api.delete("/clients/1")
    text = api.get("/deals/export").data.decode()
    first = exported(api, "deals")[0]
    assert (first["client_id"], first["client"]) == ("", "")
    assert said(send(api, "deals", text)) == (0, 0, 2)
    by_name = "external_id,client,comment\nD-1,ТОВ Ромашка,Давній\n"
    assert said(send(api, "deals", by_name)) == (0, 1, 0)
    assert deal("D-1")["client_name"] == "ТОВ Ромашка"


# Bad rows


@pytest.mark.parametrize(
    ("cells", "line", "column", "code"),
    [
        ("won,,,,Стіл,1,,", 2, None, None),
        ("open,2024-01-01,,,Стіл,1,,", 2, "closed_at", "deal_is_open"),
        ("won,2023-01-01,2024-01-01,,Стіл,1,,", 2, "closed_at", "before_created_at"),
        (",,,2023-12-31,Стіл,1,,", 2, "stage_changed_at", "before_created_at"),
        (",,,,Стіл,,,", 2, "item_price", "required"),
        (",,,,Стіл,1,,101", 2, "item_discount", "too_large"),
        (",,,,Стіл,1,,\n,,,,,,,,Шафа,1,,200", 3, "item_discount", "too_large"),
        (",,,,Стіл,1,,5 %", 2, None, None),
        (",,,,Стіл,1,,5%,amount", 2, "item_discount", "contradiction"),
        (",,,,Стіл,1%,,", 2, "item_price", "invalid_number"),
    ],
)
def test_a_bad_deal_is_rejected_whole(acme, cells, line, column, code):
    header = "external_id,title,status,closed_at,created_at,stage_changed_at"
    items = "item_name,item_price,item_quantity,item_discount,item_discount_type"
    cells = cells.replace("\n,,,,,,,,", "\n,,,,,,")
    result = load("deals", f"{header},{items}\nD-1,Столи,{cells}\nD-2,Добра,,,,,,,,\n")
    assert errors(result) == ([(line, column, code)] if code else [])
    assert counts(result) == ((1, 0, 0, 1) if code else (2, 0, 0, 0))
    assert bool(code) == (Deal.first("external_id = 'D-1'") is None)


def test_a_bad_item_leaves_a_known_deal_as_it_is(acme):
    load("deals", ORDER)
    before = deal("D-1"), lines("D-1")
    text = "external_id,comment,item_id,item_sku,item_name,item_price\nD-1,Терміново,{}\nD-1,,{}\n"
    for cells, column, code in (
        ((",CH-1,,1", ",,Стіл,"), "item_price", "required"),
        ((",CH-1,,1", "99,,Стіл,1"), "item_id", "unknown_id"),
        (("1,,,1", "1,,,2"), "item_id", "repeated"),
        (("1,,,1", "2,CH-1,,2"), "item_sku", "read_only"),
    ):
        result = load("deals", text.format(*cells))
        assert errors(result) == [(3, column, code)]
        assert (deal("D-1"), lines("D-1")) == before


def test_an_export_has_a_row_for_each_item(acme, api):
    load("deals", ORDER)
    first, second, third = exported(api, "deals")
    assert (first["client_id"], first["client_external_id"]) == ("1", "C-1")
    assert (first["stage"], first["amount"], first["item_sku"]) == ("Won", "4801.80", "CH-1")
    assert (second["id"], second["title"], second["item_name"]) == (first["id"], "", "Доставка")
    assert (third["title"], third["item_id"]) == ("Столи", "")
    assert "manager" not in first


# Deals with many items

MANY_ITEMS = "external_id,title,item_sku,item_name,item_quantity,item_price\n" + "".join(
    f"D-1,Накладна,S-{n},Товар {n},2,1.50\n" for n in range(1114)
)


def test_a_wholesale_invoice_is_one_deal(acme):
    assert counts(load("deals", MANY_ITEMS)) == (1, 0, 0, 0)
    assert (deal("D-1")["amount"], deal("D-1")["items_count"]) == (1114 * 3, 1114)
    assert counts(load("deals", file_of("deals"))) == (0, 0, 1, 0)
