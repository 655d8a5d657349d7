"""A real history moves in by three files: every eighth of its deals."""

import csv
import io
from collections import Counter
from typing import Any

import pytest

from crm import create_app
from crm.resources import tenant, users
from crm.resources.clients.record import CLIENT
from crm.resources.deals.record import DEAL
from crm.resources.pipelines import record as pipelines
from crm.storage.session import row, rows
from tests.csv_helpers import counts, file_of, load
from tests.history import CURRENCY, STAGES, moment, price_list, sku_of, table
from tests.installations import config_for

pytestmark = pytest.mark.slow

ROWS = table("sales_pipeline")[::8]
PRICES = {sku_of(found["product"]): int(found["sales_price"]) for found in table("products")}
NAMES = {sku_of(found["product"]): found["product"] for found in table("products")}


def value_of(found: dict[str, str]) -> int:
    """What the deal comes to: as it was won, else by the price list."""
    if found["deal_stage"] == "Won":
        return int(found["close_value"])
    return PRICES[sku_of(found["product"])]


def written(header: str, lines: list[list[Any]]) -> bytes:
    file = io.StringIO()
    csv.writer(file).writerows([header.split(","), *lines])
    return file.getvalue().encode()


CLIENTS = written(
    "external_id,type,name,extra",
    [
        [found["account"], "company", found["account"], f'{{"sector":"{found["sector"]}"}}']
        for found in table("accounts")
    ],
)
DEALS = written(
    "external_id,title,client,pipeline,stage,currency,assigned_to,created_at,closed_at"
    ",item_sku,item_name,item_price",
    [
        [
            found["opportunity_id"],
            f"{NAMES[sku_of(found['product'])]} {found['opportunity_id']}",
            found["account"],
            "B2B",
            found["deal_stage"],
            CURRENCY,
            found["sales_agent"],
            moment(found["engage_date"]),
            moment(found["close_date"]),
            sku_of(found["product"]),
            NAMES[sku_of(found["product"])],
            value_of(found),
        ]
        for found in ROWS
    ],
)


@pytest.fixture(scope="module")
def office(tmp_path_factory) -> Any:
    """A tenant with the history, imported from files."""
    crm = create_app(config_for(tmp_path_factory.mktemp("office")), sends=False)
    tenant.open_tenant(crm.tenants, "office", plan="business")
    with crm.tenants.session("office"):
        for result in table("sales_teams"):
            users.create({"name": result["sales_agent"]})
        stages = [{"name": name, "type": type} for name, type in STAGES.items()]
        pipelines.create({"name": "B2B", "stages": stages})
        for noun, data, count in (
            ("products", price_list(), 7),
            ("clients", CLIENTS, 85),
            ("deals", DEALS, 1100),
        ):
            assert counts(load(noun, data)) == (count, 0, 0, 0)
        yield crm
    crm.tenants.forget_idle()


def test_a_real_history_moves_in_with_its_sums(office):
    won = Counter()
    for result in ROWS:
        if result["deal_stage"] == "Won":
            won[result["account"]] += int(result["close_value"])
    for client in CLIENT.every("TRUE"):
        amount = {"currency": CURRENCY, "amount": won.pop(client["external_id"])}
        assert client["won_amounts"] == [amount]
    assert not won
    by_agent = dict(
        rows('SELECT user.name, count(*) FROM deal JOIN "user" ON user.id = assigned_to GROUP BY 1')
    )
    assert by_agent == Counter(result["sales_agent"] for result in ROWS)


def test_every_deal_of_the_history_is_as_in_its_row(office):
    deals = {deal["external_id"]: deal for deal in DEAL.every("TRUE")}
    stages = {str(id): name for id, name in rows("SELECT id, name FROM stage")}
    for result in ROWS:
        deal = deals.pop(result["opportunity_id"])
        assert deal["client_name"] == (result["account"] or None)
        assert stages[deal["stage_id"]] == result["deal_stage"]
        assert deal["status"] == STAGES[result["deal_stage"]]
        assert deal["closed_at"] == moment(result["close_date"])
        assert (deal["amount"], deal["amount_mode"]) == (value_of(result), "items")
        if result["engage_date"]:
            assert deal["created_at"] == moment(result["engage_date"])
    assert not deals


def test_the_history_fired_each_event_once(office):
    by_stage = Counter(result["deal_stage"] for result in ROWS)
    assert dict(rows("SELECT type, count(*) FROM event GROUP BY type")) == {
        "product.imported": 1,
        "client.created": 85,
        "deal.created": 1100,
        "deal.items_changed": 1100,
        "deal.won": by_stage["Won"],
        "deal.lost": by_stage["Lost"],
    }


def test_the_history_moved_in_again_is_the_same(office):
    (last,) = row("SELECT max(sequence) FROM event")
    for noun, data in (("clients", CLIENTS), ("deals", DEALS)):
        result = load(noun, data)
        assert (result.created, result.updated, result.rejected) == (0, 0, 0)
    assert row("SELECT max(sequence) FROM event") == (last,)
    assert len(file_of("deals").splitlines()) == 1101
