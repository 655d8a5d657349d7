"""GET one, list, create, search and import against c: `python -m tests.benchmarks.hot_path`."""

import csv
import io
import os
import random
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

from crm import CRMApp, create_app
from crm.access import api_keys
from crm.config import Config
from crm.json import dumps
from crm.resources import tenant, users
from crm.resources.custom_fields import record
from crm.resources.leads.record import LEAD_IN, create
from crm.resources.products.csv_columns import PRODUCTS
from crm.spreadsheets import import_file, read_file
from crm.storage.session import transaction
from tests.benchmarks.bare import bare_app
from tests.full_tenant import CUSTOM_VALUES

ROWS = int(os.environ.get("ROWS", 100_000))
FIRST = ("Олена", "Марія", "Іван", "Тарас", "Софія", "Петро", "Ганна", "Андрій", "Богдан", "Юлія")
LAST = ("Шевченко", "Коваль", "Бондар", "Ткач", "Мельник", "Кравець", "Олійник", "Гнатюк", "Савчук")
WORDS = ("хоче", "стіл", "диван", "замовлення", "доставка", "консультація", "каталог", "терміново")
STATUSES = ("new", "in_progress", "qualified", "unqualified")


def leads(rows: int = ROWS) -> Iterator[dict[str, Any]]:
    dice = random.Random(7)
    for number in range(rows):
        yield {
            "name": f"{dice.choice(FIRST)} {dice.choice(LAST)}",
            "phone": f"+380{dice.choice((50, 63, 66, 67, 93, 97))}{dice.randrange(10**7):07}",
            "email": f"lead{number}@example.com",
            "company": f"ТОВ {dice.choice(LAST)}-{number % 977}",
            "source": dice.choice(("site", "phone", "instagram")),
            "status": dice.choice(STATUSES),
            "assigned_to": 1,
            "comment": " ".join(dice.choices(WORDS, k=6)),
        }


def in_turns(pairs: dict[str, Callable[[int], Any]], batches: int, size: int) -> dict[str, float]:
    """Median seconds of one call of each, in alternating batches."""
    taken: dict[str, list[float]] = {name: [] for name in pairs}
    for batch in range(batches + 1):
        for name, call in pairs.items():
            begun = time.perf_counter()
            for turn in range(size):
                call(batch * size + turn)
            if batch:  # the first batch warms up
                taken[name].append((time.perf_counter() - begun) / size)
    return {name: statistics.median(result) for name, result in taken.items()}


def caller(app: Any, headers: dict[str, str]) -> Callable[..., None]:
    """Calls the WSGI app with an environ made once, as a server would hand it over."""
    client = app.test_client()
    kept: dict[tuple, dict] = {}

    def call(method: str, path: str, body: bytes = b"", **more: str) -> None:
        key = (method, path)
        if key not in kept:
            with client:
                builder = app.test_request_context(
                    path, method=method, headers=headers, content_type="application/json"
                )
                kept[key] = builder.request.environ
        environ = {**kept[key], "wsgi.input": io.BytesIO(body), **more}
        environ["CONTENT_LENGTH"] = str(len(body))
        environ.pop("werkzeug.request", None)
        status: list[str] = []
        answer = app(environ, lambda code, *_: status.append(code))
        b"".join(answer)
        getattr(answer, "close", lambda: None)()
        assert status[0][0] == "2", status

    return call


def furnish(folder: Path) -> tuple[CRMApp, str]:
    crm = create_app(
        Config(data=folder, plans=dict.fromkeys(("start", "base", "pro"), 10**9)), sends=False
    )
    tenant.open_tenant(crm.tenants, "acme", plan="pro")
    with crm.tenants.session("acme"):
        _, key = api_keys.create("benchmark", "*", users.owner_id())
        with transaction():
            for lead in leads():
                create(LEAD_IN.parse(lead))
    return crm, key


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        crm, key = furnish(folder / "data")
        plain = [
            (
                n,
                *(lead[c] for c in ("name", "phone", "email", "company", "source", "status")),
                1,
                lead["comment"],
                "2026-03-02T09:00:00Z",
                "2026-03-02T09:00:00Z",
            )
            for n, lead in enumerate(leads(), 1)
        ]
        bare, connection = bare_app(folder / "bare.db", plain)
        ours = caller(crm, {"Host": "acme.localhost", "Authorization": f"Bearer {key}"})
        theirs = caller(bare, {})
        body = (
            '{"name": "Олена Шевченко", "phone": "+380501234567", "source": "site",'
            ' "comment": "хоче стіл"}'
        ).encode()
        report = {
            "GET one (at most 1.25)": in_turns(
                {
                    "crm": lambda n: ours("GET", f"/api/v1/leads/{n % 997 + 1}"),
                    "c": lambda n: theirs("GET", f"/leads/{n % 997 + 1}"),
                },
                *(21, 400),
            ),
            "list of 50 with a filter (at most 1.0)": in_turns(
                {
                    "crm": lambda _: ours("GET", "/api/v1/leads?status=qualified"),
                    "c": lambda _: theirs("GET", "/leads?status=qualified"),
                },
                *(21, 100),
            ),
            "create (at most 2.6)": in_turns(
                {
                    "crm": lambda _: ours("POST", "/api/v1/leads", body),
                    "c": lambda _: theirs("POST", "/leads", body),
                },
                *(21, 100),
            ),
        }
        for what, result in report.items():
            tell(what, result["crm"], result["c"])
        custom_fields(crm)
        search(ours)
        price_list(crm, folder)
        connection.close()
        crm.tenants.forget_idle()


def custom_fields(crm: CRMApp) -> None:
    """Requests of a tenant with ten fields of its own, all filled, against one without any."""
    calls, bodies = {}, {}
    values = {
        key: value for key, value in CUSTOM_VALUES.items() if key not in ("client", "long_text")
    }
    for label, custom in (("plain", {}), ("own", {**values, "more": "ясен"})):
        tenant.open_tenant(crm.tenants, label, plan="pro")
        with crm.tenants.session(label):
            _, key = api_keys.create("benchmark", "*", users.owner_id())
            for name, value in custom.items():
                type = name if name in values else "text"
                field = {"resource": "leads", "key": name, "label": name, "type": type}
                field["filtered"] = True
                if type in ("choice", "choices"):
                    keys = value if isinstance(value, list) else [value]
                    field["options"] = [{"label": key} for key in keys]
                record.create(record.CUSTOM_FIELD_IN.parse(field))
            with transaction():
                for lead in leads(5000):
                    create(LEAD_IN.parse(lead | {"custom": custom}))
        bodies[label] = dumps(next(leads(1)) | {"custom": custom})
        calls[label] = caller(crm, {"Host": f"{label}.localhost", "Authorization": f"Bearer {key}"})
    for what, size, request in (
        ("GET one (at most 1.10)", 400, lambda n, _: ("GET", f"/api/v1/leads/{n % 997 + 1}")),
        ("list of 50 (at most 1.2)", 100, lambda *_: ("GET", "/api/v1/leads?status=qualified")),
        ("create (at most 1.5)", 100, lambda _, label: ("POST", "/api/v1/leads", bodies[label])),
    ):
        taken = in_turns(
            {
                label: lambda n, call=call, label=label, request=request: call(*request(n, label))
                for label, call in calls.items()
            },
            *(21, size),
        )
        own, plain = taken["own"], taken["plain"]
        print(f"{what} with ten custom fields against none: {own / plain:.2f}")
        print(f"    {own * 1e6:.0f} µs, {plain * 1e6:.0f} µs")


def search(ours: Callable) -> None:
    """Searches of three letters or more, in any case, over the same leads."""
    words = "олена ШЕВЧЕНКО енко стіл 5001234 lead777 тов-нема савчук-300 Марія консультація"
    print("search over 100,000 leads, p50 (at most 5 ms)")
    for q in [*words.split(), "олена марія", "диван Київ", "коваль терміново"]:
        taken = []
        for _ in range(15):
            begun = time.perf_counter()
            ours("GET", f"/api/v1/leads?q={quote(q)}")
            taken.append(time.perf_counter() - begun)
        print(f"    {q:22} {statistics.median(taken) * 1000:6.2f} ms")


UPSERT = (
    "INSERT INTO product (sku, name, price, unit, category, description, active{columns})"
    " VALUES (?, ?, ?, ?, ?, ?, ?{values}) ON CONFLICT (sku) {where} DO UPDATE SET"
    " name = excluded.name, price = excluded.price, unit = excluded.unit,"
    " category = excluded.category, description = excluded.description, active = excluded.active"
)
PLAIN = UPSERT.format(columns="", values="", where="")
SAME = UPSERT.format(
    columns=", currency, created_at, updated_at",
    values=", 'UAH', '2026-03-02T09:00:00Z', '2026-03-02T09:00:00Z'",
    where="WHERE sku IS NOT NULL AND deleted_at IS NULL",
)


def price_list(crm: CRMApp, folder: Path) -> None:
    """50,000 new rows against csv.reader and one executemany: into the same table with the same
    indexes, and into a table without any."""
    data = fifty_thousand()
    taken: dict[str, list[float]] = {"crm": [], "same": [], "plain": []}
    for turn in range(5):
        for label in (f"ours{turn}", f"same{turn}"):
            tenant.open_tenant(crm.tenants, label)
        crm.tenants.forget_idle()
        begun = time.perf_counter()
        with crm.tenants.session(f"ours{turn}"):
            result = import_file(read_file(data, PRODUCTS))
        taken["crm"].append(time.perf_counter() - begun)
        assert result.created == 50_000
        taken["same"].append(upsert(crm.tenants.path(f"same{turn}"), data, SAME))
        taken["plain"].append(upsert(folder / f"plain{turn}.db", data, PLAIN))
    ours, same, plain = (statistics.median(results) for results in taken.values())
    print(f"import of 50,000 rows against csv + executemany (at most 2): {ours / same:.2f}")
    print(f"    crm {ours:.2f} s, c {same:.2f} s; into a table without indexes {plain:.2f} s")


def fifty_thousand() -> bytes:
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(("sku", "name", "price", "unit", "category", "description", "active"))
    for n in range(50_000):
        price = f"{n % 9000}.{n % 100:02}"
        name, category = f"Стіл письмовий, модель {n}", f"Меблі {n % 40}"
        writer.writerow(
            (f"SKU-{n:06}", name, price, "шт", category, f"Опис товару {n % 500}", "true")
        )
    return text.getvalue().encode()


def upsert(file: Path, data: bytes, sql: str) -> float:
    """Seconds of csv.reader and one executemany."""
    begun = time.perf_counter()
    connection = sqlite3.connect(file, isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    rows: Any = csv.reader(io.StringIO(data.decode()))
    next(rows)
    if sql is SAME:
        rows = ((*row[:2], int(row[2].replace(".", "")) * 100, *row[3:6], 1) for row in rows)
    else:
        connection.execute(
            "CREATE TABLE product (id INTEGER PRIMARY KEY, sku TEXT UNIQUE, name TEXT, price TEXT,"
            " unit TEXT, category TEXT, description TEXT, active TEXT)"
        )
    connection.execute("BEGIN")
    connection.executemany(sql, rows)
    connection.execute("COMMIT")
    connection.close()
    return time.perf_counter() - begun


def tell(what: str, ours: float, theirs: float) -> None:
    print(f"{what}: {ours / theirs:.2f}   crm {ours * 1e6:.0f} µs, c {theirs * 1e6:.0f} µs")


if __name__ == "__main__":
    main()
