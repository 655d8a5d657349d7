"""What each request costs as a tenant grows: `python -m tests.benchmarks.growth [--json FILE]`."""

import argparse
import json
import os
import random
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
from crm.resources import tenant, users
from crm.storage import search_index
from crm.storage.dialect import filling
from crm.storage.session import execute, execute_many, time_text, transaction
from crm.values import folding
from tests.benchmarks.hot_path import FIRST, LAST, WORDS, caller
from tests.benchmarks.processes import describe_machine

ROWS = int(os.environ.get("ROWS", 1_000_000))
SIZES = [size for size in (1_000, 10_000, 100_000, 1_000_000) if size <= ROWS]
BEGUN = 1_700_000_000  # the first lead; the others follow, one a minute
DEEP = 50_000  # leads before the deep page, or half of them all: page 1,000
STATUSES = ("new", "in_progress", "qualified", "unqualified")
COLUMNS = (
    *("name", "phone", "email", "company", "source", "status", "assigned_to", "comment"),
    *("currency", "created_at", "updated_at", "search_text"),
)
BODY = (
    '{"name": "Олена Шевченко", "phone": "+380501234567", "source": "site", "comment": "стіл"}'
).encode()
SEARCHES = ("шевченко", "олена марія", "5001234", "lead777", "савчук-300", "коваль терміново")
LISTS = {
    "list": "",
    "list, filter": "status=qualified",
    "list, sort": "sort=name",
    "list, filter and sort": "status=qualified&sort=-updated_at",
    "list with total": "total=true",
    "list, filter and total": "status=qualified&total=true",
    "search, two letters": f"q={quote('щщ')}",
    "search, two letters, sort": f"q={quote('щщ')}&sort=name",
    "search, two letters, total": f"q={quote('щщ')}&total=true",
}
PLOTTED = (
    *("GET one", "list, filter", "list, filter and sort"),
    *("list, filter and total", "search", "create"),
)
ORDERS = ("-id", "name", "-created_at", "updated_at")
Call = Callable[[int], Any]


def leads(count: int) -> Iterator[tuple[Any, ...]]:
    """Rows in the order of COLUMNS, the same for each count."""
    dice = random.Random(7)
    for number in range(count):
        name = f"{dice.choice(FIRST)} {dice.choice(LAST)}"
        phone = f"+380{dice.choice((50, 63, 66, 67, 93, 97))}{dice.randrange(10**7):07}"
        email, company = f"lead{number}@example.com", f"ТОВ {dice.choice(LAST)}-{number % 977}"
        source, status = dice.choice(("site", "phone", "instagram")), dice.choice(STATUSES)
        comment = " ".join(dice.choices(WORDS, k=6))
        created = BEGUN + number * 60
        updated = created + dice.randrange(30 * 86_400)
        folded = folding.fold(name, phone, email, company, comment)
        yield (
            *(name, phone, email, company, source, status, 1, comment, "UAH"),
            *(time_text(created), time_text(updated), folded),
        )


def furnish(folder: Path, count: int) -> tuple[CRMApp, str]:
    """A tenant with so many leads, and a key: written as an import writes them."""
    plans = dict.fromkeys(("start", "base", "pro"), 10**9)
    crm = create_app(Config(data=folder, plans=plans), sends=False)
    tenant.open_tenant(crm.tenants, "acme", plan="pro")
    with crm.tenants.session("acme"):
        _, key = api_keys.create("benchmark", "*", users.owner_id())
        insert = f"INSERT INTO lead ({', '.join(COLUMNS)}) VALUES ({', '.join('?' * len(COLUMNS))})"
        with transaction(), filling("lead"):
            execute_many(insert, leads(count))
            execute(search_index.add_later_statement("lead"), (0,))
    return crm, key


def microseconds(call: Call, before: Callable[[], Any] = lambda: None) -> float:
    """The median of some calls, for as many as fit into half a second.

    `before` is called before each, and takes no part in the time.
    """
    call(0)
    taken: list[float] = []
    until = time.perf_counter() + 0.5
    while len(taken) < 5 or (time.perf_counter() < until and len(taken) < 400):
        before()
        begun = time.perf_counter()
        call(len(taken) + 1)
        taken.append(time.perf_counter() - begun)
    return statistics.median(taken) * 1e6


def cursor_after(crm: CRMApp, headers: dict[str, str], order: str, count: int) -> str:
    """The cursor behind so many leads of an order."""
    client, cursor = crm.test_client(), ""
    for _ in range(count // 200):
        asked = f"/api/v1/leads?sort={order}&limit=200"
        answer = client.get(f"{asked}&cursor={cursor}" if cursor else asked, headers=headers)
        cursor = answer.json["meta"]["next_cursor"]
    return cursor


def measured(count: int, folder: Path) -> dict[str, float]:
    crm, key = furnish(folder, count)
    headers = {"Host": "acme.localhost", "Authorization": f"Bearer {key}"}
    ask = caller(crm, headers)
    path = "/api/v1/leads"
    results = {"GET one": microseconds(lambda n: ask("GET", f"{path}/{n * 7919 % count + 1}"))}
    note = f"{path}/1/notes", b'{"text": "x"}'
    for name, query in LISTS.items():
        results[name] = microseconds(
            lambda _, query=query: ask("GET", f"{path}?{query}"),
            lambda: ask("POST", *note),  # a commit: a total that was counted is forgotten
        )
    words = [f"{path}?q={quote(words)}" for words in SEARCHES]
    results["search"] = statistics.median(
        microseconds(lambda _, word=word: ask("GET", word)) for word in words
    )
    for order in ORDERS:
        deep = cursor_after(crm, headers, order, min(DEEP, count // 2))
        first, asked = f"{path}?sort={order}", f"{path}?sort={order}&cursor={deep}"
        results[f"sort={order}, first page"] = microseconds(lambda _, at=first: ask("GET", at))
        results[f"sort={order}, deep page"] = microseconds(lambda _, at=asked: ask("GET", at))
    results["create"] = microseconds(lambda _: ask("POST", path, BODY))
    crm.tenants.forget_idle()
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, help="write the figures of the plot to this file")
    options = parser.parse_args()
    results: dict[int, dict[str, float]] = {}
    for count in SIZES:
        with tempfile.TemporaryDirectory() as name:
            results[count] = measured(count, Path(name) / "data")
    few = results[SIZES[0]]
    print("µs, and how many times that of the first column")
    print(f"{'leads':28}", *(f"{count:>16,}" for count in SIZES))
    for name, first in few.items():
        cells = (f"{item[name]:>9.0f} {item[name] / first:>6.2f}" for item in results.values())
        print(f"{name:28}", *cells)
    if options.json:
        figures = {name: [round(results[count][name], 1) for count in SIZES] for name in PLOTTED}
        content = {"origin": describe_machine(), "rows": SIZES, "figures": figures}
        options.json.write_text(json.dumps(content, ensure_ascii=False, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
