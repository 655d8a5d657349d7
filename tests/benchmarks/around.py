"""What stands around the CRM, as ratios of one run: `python -m tests.benchmarks.around`.

A site that embeds the CRM, the log's line of a request, and imports, each against the
same without it; and what it takes to count a request against its limit.
"""

import logging
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from flask import Flask

from crm import CRM, CRMApp, create_app, log
from crm.access import api_keys
from crm.api.request_limits import Limiter
from crm.config import Config
from crm.limits.counters import Counters
from crm.resources import tenant, users
from crm.resources.leads.csv_columns import LEADS
from crm.resources.leads.record import LEAD_IN, create
from crm.spreadsheets import export_csv, import_file, read_file
from crm.storage.reading import SpooledFile
from crm.storage.session import transaction
from tests.benchmarks.hot_path import caller, in_turns

ROWS = 10_000
HEADER = "external_id,name,phone,email,company,source,comment\n"
BATCHES = 21, 400
MOMENT = 1_772_442_000.0


def lead(number: int) -> dict[str, str]:
    return {
        "external_id": f"L-{number}",
        "name": f"Марія Коваль {number}",
        "phone": f"+38067{number:07}",
        "email": f"lead{number}@example.com",
        "company": f"ТОВ Ромашка {number % 977}",
        "source": "site",
        "comment": "хоче стіл",
    }


def furnished(data: Path) -> tuple[Config, str]:
    """A data folder with acme and one lead, and a key of it."""
    config = Config(data=data, plans={"start": 0, "base": 0, "pro": 0, "business": 0})
    crm = create_app(config, sends=False)
    tenant.open_tenant(crm.tenants, "acme")
    with crm.tenants.session("acme"):
        create(LEAD_IN.parse(lead(0)))
        key = api_keys.create("benchmark", "*", users.owner_id())[1]
    crm.tenants.forget_idle()
    return config, key


def site() -> Flask:
    app = Flask("site")
    app.add_url_rule("/", view_func=lambda: "the site")
    return app


def requests(folder: Path) -> None:
    config, key = furnished(folder / "data")
    keyed = {"Authorization": f"Bearer {key}"}
    alone = caller(create_app(config, sends=False), {**keyed, "Host": "acme.localhost"})
    plain, host = site(), site()
    CRM(host, url_prefix="/crm", tenant="acme", data=config.data, sends=False)
    below, ours, theirs = caller(host, keyed), caller(host, {}), caller(plain, {})

    def told(found: dict[str, float], what: str) -> None:
        first, second = found.values()
        print(f"{what}: {first / second:.2f}   {first * 1e6:.0f} µs, {second * 1e6:.0f} µs")

    pairs = {
        "embedded": lambda _: below("GET", "/crm/api/v1/leads/1"),
        "alone": lambda _: alone("GET", "/api/v1/leads/1"),
    }
    told(in_turns(pairs, *BATCHES), "GET one below a site's prefix, against the CRM by itself")
    pairs = {"with": lambda _: ours("GET", "/"), "without": lambda _: theirs("GET", "/")}
    told(in_turns(pairs, *BATCHES), "a page of the site, against the site without the CRM")
    logging_requests(folder, lambda: alone("GET", "/api/v1/leads/1"))


def logging_requests(folder: Path, ask: Callable[[], None]) -> None:
    """Time of all threads: lines are written by another one than answers."""
    taken: dict[str, list[float]] = {"with": [], "without": []}
    with open(folder / "log", "w", buffering=1) as file:
        handler = log.LogHandler(file)
        for batch in range(BATCHES[0] + 1):
            for name, seconds in taken.items():
                log.requests.handlers[:] = [handler] * (name == "with")
                log.requests.setLevel(logging.INFO if name == "with" else logging.CRITICAL)
                begun = time.process_time()
                for _ in range(BATCHES[1]):
                    ask()
                handler.flush()
                if batch:  # the first batch warms up
                    seconds.append((time.process_time() - begun) / BATCHES[1])
    log.requests.handlers.clear()
    log.requests.setLevel(logging.NOTSET)
    logged, plain = map(statistics.median, taken.values())
    lines = statistics.median(a - b for a, b in zip(*taken.values(), strict=True))
    print(
        f"GET one with a line of the log, against without: {logged / plain:.2f}"
        f"   {lines * 1e6:.1f} µs of processor time a line"
    )


def limits(folder: Path) -> None:
    """Counted in the file that all processes share, and in memory."""
    shared = Limiter(Counters(folder, lambda: b"a key"))
    logging.getLogger("crm").setLevel(logging.ERROR)  # that it cannot be made is meant
    alone = Limiter(Counters(folder / "nowhere", lambda: b"a key"))
    pairs = {
        "shared": lambda _: shared.count_request("acme", 10**9, MOMENT),
        "alone": lambda _: alone.count_request("acme", 10**9, MOMENT),
    }
    shared_seconds, alone_seconds = in_turns(pairs, BATCHES[0], 10 * BATCHES[1]).values()
    print(
        f"a request counted for all processes, against in memory:"
        f" {shared_seconds / alone_seconds:.2f}   {shared_seconds * 1e6:.1f} µs"
    )


def _export() -> None:
    SpooledFile(lambda to: export_csv(to, LEADS)).close()


def moves(folder: Path) -> None:
    rows = [lead(number) for number in range(ROWS)]
    text = HEADER + "".join(",".join(row.values()) + "\n" for row in rows)
    crm = create_app(Config(data=folder / "imports"), sends=False)
    taken: dict[str, list[float]] = {"file": [], "again": [], "verbs": [], "export": []}
    for turn in range(3):
        for label in (f"file{turn}", f"verbs{turn}"):
            tenant.open_tenant(crm.tenants, label)
        taken["file"].append(_at(crm, f"file{turn}", lambda: _import(text, ROWS)))
        taken["again"].append(_at(crm, f"file{turn}", lambda: _import(text, 0)))
        taken["export"].append(_at(crm, f"file{turn}", _export))
        taken["verbs"].append(_at(crm, f"verbs{turn}", lambda: _create(rows)))
    file, again, verbs, export = (statistics.median(result) for result in taken.values())
    print(f"import of {ROWS:,} leads, against creating them: {file / verbs:.2f}")
    print(
        f"    {ROWS / file:,.0f} a second; unchanged {ROWS / again:,.0f}; out {ROWS / export:,.0f}"
    )
    crm.tenants.forget_idle()


def _at(crm: CRMApp, label: str, act: Callable[[], Any]) -> float:
    begun = time.perf_counter()
    with crm.tenants.session(label):
        act()
    return time.perf_counter() - begun


def _import(text: str, created: int) -> None:
    assert import_file(read_file(text.encode(), LEADS)).created == created


def _create(rows: list[dict[str, str]]) -> None:
    with transaction():
        for row in rows:
            create(LEAD_IN.parse(row))


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        requests(Path(name))
        limits(Path(name))
        moves(Path(name))


if __name__ == "__main__":
    main()
