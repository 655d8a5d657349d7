"""A real sales history, played through a real server: the API's totals are those of the files.

The rows are every fourth deal of `tests/data/b2b_pipeline`, and every expected number here is
computed from them. tests/spreadsheets/test_import_deals.py imports all of them.
"""

import csv
import io
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from crm import cli
from tests.history import CURRENCY, STAGES, Connection, Played, moment, play, sku_of, table, upload
from tests.installations import environ_for
from tests.server_process import run_server

pytestmark = [pytest.mark.process, pytest.mark.slow, pytest.mark.deep]

ROWS = table("sales_pipeline")[::4]
WON = [row for row in ROWS if row["deal_stage"] == "Won"]
OPEN = [row for row in ROWS if STAGES[row["deal_stage"]] == "open"]
PRICES = {sku_of(row["product"]): int(row["sales_price"]) for row in table("products")}


def command(data: Path, *words: str) -> str:
    """The last line that a command prints."""
    done = CliRunner().invoke(cli.group, [*words, "--data", str(data)], env=environ_for(data))
    assert done.exit_code == 0, done.output
    return done.stdout.splitlines()[-1]


@pytest.fixture(scope="module")
def acme(tmp_path_factory) -> Any:
    """(connection, what was played) of a server that has the whole history."""
    data = tmp_path_factory.mktemp("history") / "data"
    command(data, "tenant", "create", "acme", "--plan", "business", "--owner-name", "Olena")
    key = command(data, "key", "create", "acme", "--name", "history")
    users = {
        row["sales_agent"]: command(data, "user", "create", "acme", "--name", row["sales_agent"])
        for row in table("sales_teams")
    }
    with run_server(data, CRM_PLANS="business=0") as port:
        played = play(port, key, users, ROWS)
        connection = Connection(port, key)
        yield connection, played
        connection.link.close()


@pytest.fixture
def api(acme) -> Connection:
    return acme[0]


@pytest.fixture
def played(acme) -> Played:
    return acme[1]


def value_of(row: dict[str, str]) -> int:
    """What the deal comes to: as it was won, else by the price list."""
    return int(row["close_value"]) if row["deal_stage"] == "Won" else PRICES[sku_of(row["product"])]


def total(api: Connection, path: str, **query: Any) -> int:
    return api.get(path, total="true", limit=1, **query)["meta"]["total"]


def test_everything_is_there(api):
    assert total(api, "/deals") == len(ROWS) == 2200
    assert total(api, "/clients") == len(table("accounts")) == 85
    assert total(api, "/products") == len(PRICES) == 7
    assert total(api, "/users") == 1 + len(table("sales_teams")) == 36


def test_deals_per_stage(api, played):
    results = {name: total(api, "/deals", stage_id=id) for name, id in played.stages.items()}
    assert results == Counter(row["deal_stage"] for row in ROWS)


def test_deals_per_status(api):
    results = {status: total(api, "/deals", status=status) for status in ("open", "won", "lost")}
    assert results == Counter(STAGES[row["deal_stage"]] for row in ROWS)


def test_won_amounts_and_open_deals_per_client(api):
    won, is_open = Counter(), Counter(row["account"] for row in OPEN)
    for row in WON:
        won[row["account"]] += int(row["close_value"])
    for client in api.every("/clients", type="company"):
        name = client["external_id"]
        assert client["won_amounts"] == [{"currency": CURRENCY, "amount": won.pop(name)}]
        assert client["deals_open"] == is_open.pop(name, 0)
    assert not won
    assert is_open == {"": total(api, "/deals", status="open") - sum_of_clients(api)}


def sum_of_clients(api: Connection) -> int:
    return sum(client["deals_open"] for client in api.every("/clients"))


def test_won_amount_per_agent(api, played):
    wanted: dict[str, int] = defaultdict(int)
    for row in WON:
        wanted[row["sales_agent"]] += int(row["close_value"])
    for name, id in played.users.items():
        deals = api.every("/deals", status="won", assigned_to=id)
        assert sum(deal["amount"] for deal in deals) == wanted[name]
    assert sum(wanted.values()) == 2_442_747


def test_every_deal_is_as_in_its_row(api, played):
    deals = {deal["external_id"]: deal for deal in api.every("/deals")}
    names = {id: name for name, id in played.users.items()}
    stages = {id: name for name, id in played.stages.items()}
    for row in ROWS:
        deal = deals.pop(row["opportunity_id"])
        assert deal["client_name"] == (row["account"] or None)
        assert deal["manager"]["name"] == names[deal["assigned_to"]] == row["sales_agent"]
        assert stages[deal["stage_id"]] == row["deal_stage"]
        assert deal["status"] == STAGES[row["deal_stage"]]
        assert deal["closed_at"] == moment(row["close_date"])
        assert deal["amount"] == value_of(row)
        assert (deal["items_count"], deal["amount_mode"]) == (1, "items")
        if row["engage_date"]:
            assert deal["created_at"] == moment(row["engage_date"])
    assert not deals


def test_a_history_of_stages_has_the_historys_dates(api):
    row = WON[0]
    (deal,) = api.get("/deals", external_id=row["opportunity_id"])["data"]
    moves = api.get(f"/deals/{deal['id']}/history")["data"]
    assert [(move["to_name"], move["moved_at"]) for move in moves] == [
        ("Engaging", moment(row["engage_date"])),
        ("Won", moment(row["close_date"])),
    ]


def test_lists_by_age_begin_and_end_with_the_history(api):
    engaged = sorted(moment(row["engage_date"]) for row in ROWS if row["engage_date"])
    oldest = api.get("/deals", sort="created_at", limit=1)["data"][0]
    assert oldest["created_at"] == engaged[0] == "2016-10-20T00:00:00Z"
    since = "2017-10-01T00:00:00Z"
    dateless = sum(not row["engage_date"] for row in ROWS)
    later = sum(engage >= since for engage in engaged) + dateless
    assert total(api, "/deals", created_since=since) == later


@pytest.mark.parametrize("words", ["cancity", "GTX Plus Pro", "plus pro cancity", "kan-code"])
def test_search_finds_what_reading_the_files_finds(api, played, words):
    wanted = 0
    for row in ROWS:
        name = played.products[sku_of(row["product"])]["name"]
        text = f"{name} {row['opportunity_id']} {row['account']}".lower()
        wanted += all(word in text for word in words.lower().split())
    assert wanted > 0
    assert total(api, "/deals", q=words) == wanted


def test_the_feed_tells_each_fact_once(api):
    kinds, after = Counter(), 0
    while True:
        page = api.get("/events", after=after, limit=200)
        sequences = [event["sequence"] for event in page["data"]]
        assert sequences == [*range(after + 1, after + 1 + len(sequences))]
        kinds.update(event["type"] for event in page["data"])
        if not sequences:
            break
        after = page["meta"]["next_after"]
    by_stage = Counter(row["deal_stage"] for row in ROWS)
    assert kinds == {
        "product.imported": 1,
        "product.updated": 7,
        "client.created": 85,
        "deal.created": len(ROWS),
        "deal.items_changed": len(ROWS),
        "deal.stage_changed": by_stage["Won"] + by_stage["Lost"],
        "deal.won": by_stage["Won"],
        "deal.lost": by_stage["Lost"],
    }


def test_played_again_it_is_the_same_history(api, played):
    before = total(api, "/deals"), total(api, "/clients"), total(api, "/pipelines")
    key, port = api.headers["Authorization"].removeprefix("Bearer "), api.link.port
    again = play(port, key, played.users, ROWS[:50])
    assert again.clients == played.clients
    assert (total(api, "/deals"), total(api, "/clients"), total(api, "/pipelines")) == before


# The same price list, written three ways

COLUMNS = ("sku", "name", "price", "unit", "category", "description", "active")
UKRAINIAN = {"GTX": "Ноутбук", "MG": "Монітор", "GTK": "Сервер"}


def catalogue() -> list[dict[str, str]]:
    """The catalogue of the history for a Ukrainian shop; prices with kopecks."""
    return [
        {
            "sku": sku_of(row["product"]),
            "name": f"{UKRAINIAN[row['series']]} «{row['product']}»",
            "price": f"{int(row['sales_price']) * 41.5:.2f}",
            "unit": "шт",
            "category": f"Серія {row['series']}",
            "description": "",
            "active": "true",
        }
        for row in table("products")
    ]


def written(columns: tuple[str, ...], delimiter: str = ",", comma: bool = False) -> str:
    file = io.StringIO()
    writer = csv.DictWriter(file, columns, delimiter=delimiter, extrasaction="ignore")
    writer.writeheader()
    for row in catalogue():
        price = row["price"].replace(".", ",") if comma else row["price"]
        writer.writerow({**row, "price": price})
    return file.getvalue()


WAYS = {
    "UTF-8 and comma": written(COLUMNS).encode(),
    "Windows-1251, semicolon and decimal comma": written(COLUMNS, ";", comma=True).encode("cp1251"),
    "UTF-8 with BOM and columns in another order": written(
        ("category", "price", "active", "sku", "unit", "name", "description"), "\t"
    ).encode("utf-8-sig"),
}


@pytest.mark.parametrize("first", WAYS)
def test_a_price_list_written_three_ways_is_the_same_rows(tmp_path, first):
    data = tmp_path / "data"
    command(data, "tenant", "create", "acme", "--plan", "business")
    key = command(data, "key", "create", "acme", "--name", "prices")
    with run_server(data) as port:
        api = Connection(port, key)
        counts, _ = api.ask("POST", "/products/import", upload(WAYS[first]))
        assert counts == {"status": "ok", "created": 7, "updated": 0, "skipped": 0}
        for way in WAYS.values():
            counts, _ = api.ask("POST", "/products/import", upload(way))
            assert counts == {"status": "ok", "created": 0, "updated": 0, "skipped": 7}
        products = {product["sku"]: product for product in api.every("/products")}
        api.link.close()
    for row in catalogue():
        product = products.pop(row["sku"])
        assert f"{product['price']:.2f}" == row["price"]
        assert (product["name"], product["category"]) == (row["name"], row["category"])
        assert (product["unit"], product["active"]) == ("шт", True)
    assert not products
