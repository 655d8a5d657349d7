"""Plays a published sales history through the API of a running server, as an integrator would.

`python tests/history.py PORT KEY` plays it for the tenant acme on 127.0.0.1:PORT and tells the
rate; the plan must have room for it (`CRM_PLANS=business=0`). Every POST carries an Idempotency-Key
made of the history's own ids, so it may be played again after a break.
"""

import csv
import http.client
import json
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any
from urllib.parse import urlencode

FOLDER = Path(__file__).parent / "data" / "b2b_pipeline"
CURRENCY = "USD"
STAGES = {"Prospecting": "open", "Engaging": "open", "Won": "won", "Lost": "lost"}
CONNECTIONS = 4

Row = dict[str, str]


def table(name: str) -> list[Row]:
    with (FOLDER / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def sku_of(product: str) -> str:
    """`GTXPro` and `GTX Pro` are one product."""
    return product.replace(" ", "").upper()


def moment(date: str) -> str | None:
    """10/20/2016 as the API takes it."""
    if not date:
        return None
    month, day, year = date.split("/")
    return f"{year}-{month:0>2}-{day:0>2}T00:00:00Z"


class Connection:
    """One keep-alive connection to a tenant, with a key."""

    def __init__(self, port: int, key: str, label: str = "acme"):
        self.link = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        self.headers = {"Host": f"{label}.localhost", "Authorization": f"Bearer {key}"}
        self.requests = 0

    def ask(
        self, method: str, path: str, body: Any = None, once: str = ""
    ) -> tuple[dict[str, Any], http.client.HTTPMessage]:
        """The answer and its headers; anything but success is an error of the loader."""
        headers = self.headers
        if once:
            headers = headers | {"Idempotency-Key": once}
        if isinstance(body, bytes):
            headers = headers | {"Content-Type": f"multipart/form-data; boundary={BOUNDARY}"}
        elif body is not None:
            headers = headers | {"Content-Type": "application/json"}
            body = json.dumps(body).encode()
        self.link.request(method, f"/api/v1{path}", body, headers)
        answer = self.link.getresponse()
        said = answer.read()
        self.requests += 1
        if not 200 <= answer.status < 300:
            raise AssertionError(f"{method} {path}: {answer.status} {said.decode()}")
        return json.loads(said), answer.headers

    def create(self, path: str, once: str, **fields: Any) -> str:
        """The id of what was created, or had been by the same `once`."""
        sent = {name: value for name, value in fields.items() if value is not None}
        result, _ = self.ask("POST", path, sent, once.replace(" ", "-"))
        return next(value for name, value in result.items() if name.endswith("_id"))

    def get(self, path: str, **query: Any) -> dict[str, Any]:
        return self.ask("GET", f"{path}?{urlencode(query)}")[0]

    def every(self, path: str, **query: Any) -> Iterator[dict[str, Any]]:
        """All records of a list, page by page."""
        cursor: str | None = ""
        while cursor is not None:
            page = self.get(path, limit=200, **query, **({"cursor": cursor} if cursor else {}))
            yield from page["data"]
            cursor = page["meta"]["next_cursor"]


BOUNDARY = "----price-list"


def upload(text: bytes) -> bytes:
    """A multipart body with the part `file`."""
    return (
        f"--{BOUNDARY}\r\n"
        'Content-Disposition: form-data; name="file"; filename="products.csv"\r\n'
        "Content-Type: text/csv\r\n\r\n"
    ).encode() + b"%s\r\n--%s--\r\n" % (text, BOUNDARY.encode())


def price_list() -> bytes:
    """The catalogue as a price list: `series` is the category."""
    lines = ["sku,name,price,category"]
    for row in table("products"):
        name = row["product"]
        lines.append(f"{sku_of(name)},{name},{row['sales_price']},{row['series']}")
    return "\n".join(lines).encode()


@dataclass
class Played:
    """What the history's names are in the CRM, and what it took."""

    users: dict[str, str]
    stages: dict[str, str]
    products: dict[str, dict[str, Any]]
    clients: dict[str, str]
    requests: int
    seconds: float


def play(port: int, key: str, users: dict[str, str], deals: list[Row] | None = None) -> Played:
    """Play the history, or these rows of it. `users` are the ids of the agents by name."""
    began = time.monotonic()
    office = Connection(port, key)
    stages = [{"name": name, "type": type} for name, type in STAGES.items()]
    pipeline = office.create("/pipelines", "pipeline", name="B2B", stages=stages)
    listed = office.get(f"/pipelines/{pipeline}/stages")["data"]

    counts, _ = office.ask("POST", "/products/import", upload(price_list()), "price-list")
    assert counts["created"] + counts["updated"] + counts["skipped"] == 7, counts
    products = {product["sku"]: product for product in office.every("/products")}
    for product in products.values():
        office.ask("PATCH", f"/products/{product['id']}", {"currency": CURRENCY})

    clients = {row["account"]: create_client(office, row) for row in table("accounts")}
    played = Played(
        users=users,
        stages={stage["name"]: stage["id"] for stage in listed},
        products=products,
        clients=clients,
        requests=0,
        seconds=0,
    )
    rows = table("sales_pipeline") if deals is None else deals
    played.requests = office.requests + side_by_side(port, key, rows, played)
    played.seconds = time.monotonic() - began
    office.link.close()
    return played


def create_client(connection: Connection, row: Row) -> str:
    facts = {name: value for name, value in row.items() if name != "account" and value}
    name = row["account"]
    return connection.create(
        "/clients", f"client-{name}", type="company", name=name, external_id=name, extra=facts
    )


def create_deal(connection: Connection, row: Row, played: Played) -> str:
    """The deal with its one item; it comes in at its open stage and is won or lost there."""
    id, stage = row["opportunity_id"], row["deal_stage"]
    product = played.products[sku_of(row["product"])]
    is_closed = bool(row["close_date"])
    deal = connection.create(
        "/deals",
        f"deal-{id}",
        external_id=id,
        title=f"{product['name']} {id}",
        currency=CURRENCY,
        client_id=played.clients[row["account"]] if row["account"] else None,
        assigned_to=played.users[row["sales_agent"]],
        stage_id=played.stages["Engaging" if is_closed else stage],
        created_at=moment(row["engage_date"]),
    )
    price = row["close_value"] if stage == "Won" else None
    connection.create(f"/deals/{deal}/items", f"item-{id}", product_id=product["id"], price=price)
    if is_closed:
        closing = {"stage_id": played.stages[stage], "closed_at": moment(row["close_date"])}
        connection.ask("PATCH", f"/deals/{deal}", closing)
    return deal


def side_by_side(port: int, key: str, rows: Iterable[Row], played: Played) -> int:
    """Create the deals of rows over several connections; gives the number of requests."""
    waiting: SimpleQueue[Row] = SimpleQueue()
    for row in rows:
        waiting.put(row)
    connections = [Connection(port, key) for _ in range(CONNECTIONS)]
    failed: list[BaseException] = []

    def work(connection: Connection) -> None:
        try:
            while not failed:
                create_deal(connection, waiting.get_nowait(), played)
        except Empty:
            return
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=work, args=(connection,)) for connection in connections]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for connection in connections:
        connection.link.close()
    if failed:
        raise failed[0]
    return sum(connection.requests for connection in connections)


if __name__ == "__main__":
    port, key = int(sys.argv[1]), sys.argv[2]
    known = {user["name"]: user["id"] for user in Connection(port, key).every("/users")}
    done = play(port, key, known)
    rate = done.requests / done.seconds
    print(f"{done.requests} requests in {done.seconds:.1f} s: {rate:.0f} a second")
