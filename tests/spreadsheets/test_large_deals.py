"""Deals with many items, and whole exports, in files."""

import pytest

from crm.resources.deals import items
from crm.resources.deals.items import MAX_ITEMS, DealItem
from crm.spreadsheets import find_resource, import_file, read_file
from crm.spreadsheets.large_import import import_in_chunks
from crm.storage.session import one_row
from tests.csv_helpers import file_of
from tests.installations import on_postgres

HEADER = "external_id,title,item_sku,item_name,item_quantity,item_price\n"


def lines(count: int) -> str:
    return HEADER + "".join(f"D-1,Накладна,S-{n},Товар {n},2,1.50\n" for n in range(count))


@pytest.mark.parametrize("count", [1114, pytest.param(MAX_ITEMS, marks=pytest.mark.deep)])
def test_a_wholesale_invoice_is_one_deal(crm, count):
    with crm.tenants.session("acme"):
        result = import_file(read_file(lines(count).encode(), find_resource("deals")))
        assert (result.created, result.errors) == (1, [])
        assert one_row("SELECT amount, items_count FROM (SELECT amount, (SELECT count(*) FROM"
                       " deal_item WHERE deal_id = deal.id) AS items_count FROM deal) AS counted"
                       ) == (count * 3_0000, count)  # fmt: skip
        exported = file_of("deals")
        again = import_file(read_file(exported, find_resource("deals")))
        assert (again.unchanged, again.errors) == (1, [])


def test_a_deal_has_no_more_items_than_that(crm, monkeypatch):
    monkeypatch.setattr(items, "MAX_ITEMS", 20)
    with crm.tenants.session("acme"):
        result = import_file(read_file(lines(21).encode(), find_resource("deals")))
    assert [error["code"] for error in result.errors] == ["too_many_items"]


@pytest.mark.deep
@pytest.mark.slow
def test_a_whole_export_of_40_000_lines_goes_back_in(crm):
    count = 12_000 if on_postgres() else 40_000  # a database server takes four times as long
    text = HEADER + "".join(
        f"D-{n // 10},Угода {n // 10},S-{n % 500},Товар {n % 500},1,2\n" for n in range(count)
    )
    with crm.tenants.session("acme"):
        result = import_in_chunks(read_file(text.encode(), find_resource("deals")))
        assert (result.created, result.errors) == (count // 10, [])
        exported = file_of("deals")
        file = read_file(exported, find_resource("deals"))
        assert file.is_large and len(file.rows) == count
        again = import_in_chunks(file)
        assert (again.unchanged, again.errors) == (count // 10, [])
        assert file_of("deals") == exported
        assert len(DealItem.every("deal_id = 1")) == 10
