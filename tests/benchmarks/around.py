"""What stands around the CRM, as ratios of one run: `python -m tests.benchmarks.around`.

The log's line of a request, a site that embeds the CRM, and moving in, each against the
same without it.
"""

import logging
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from flask import Flask

from crm import CRM, CRMApp, create_app, log
from crm.access import api_keys
from crm.config import Config
from crm.resources import moving, tenant, users
from crm.resources.leads.record import LEAD_IN, create
from crm.tenancy.database import transaction
from tests.benchmarks.hot_path import caller, in_turns

ROWS = 10_000
HEADER = "external_id,name,phone,email,company,source,comment\n"
BATCHES = 21, 400


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
    with crm.tenants.visit("acme"):
        create(LEAD_IN.take(lead(0)))
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
    CRM(host, url_prefix="/crm", tenant="acme", config=config, sends=False)
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
    with open(os.devnull, "w") as nowhere:
        pairs = {
            "with": _logging(nowhere, lambda: alone("GET", "/api/v1/leads/1")),
            "without": lambda _: alone("GET", "/api/v1/leads/1"),
        }
        told(in_turns(pairs, *BATCHES), "GET one with a line of the log, against without")


def _logging(to: Any, ask: Callable[[], None]) -> Callable[[int], None]:
    handler = logging.StreamHandler(to)
    handler.setFormatter(log.Lines())

    def asked(_: int) -> None:
        log.requests.setLevel(logging.INFO)
        log.requests.handlers[:] = [handler]
        ask()
        log.requests.handlers.clear()
        log.requests.setLevel(logging.NOTSET)

    return asked


def moves(folder: Path) -> None:
    rows = [lead(number) for number in range(ROWS)]
    text = HEADER + "".join(",".join(row.values()) + "\n" for row in rows)
    crm = create_app(Config(data=folder / "moving"), sends=False)
    taken: dict[str, list[float]] = {"file": [], "again": [], "verbs": [], "export": []}
    for turn in range(3):
        for label in (f"file{turn}", f"verbs{turn}"):
            tenant.open_tenant(crm.tenants, label)
        taken["file"].append(_at(crm, f"file{turn}", lambda: _import(text, ROWS)))
        taken["again"].append(_at(crm, f"file{turn}", lambda: _import(text, 0)))
        taken["export"].append(_at(crm, f"file{turn}", lambda: moving.export_csv("leads")))
        taken["verbs"].append(_at(crm, f"verbs{turn}", lambda: _create(rows)))
    file, again, verbs, export = (statistics.median(found) for found in taken.values())
    print(f"import of {ROWS:,} leads, against creating them: {file / verbs:.2f}")
    print(
        f"    {ROWS / file:,.0f} a second; unchanged {ROWS / again:,.0f}; out {ROWS / export:,.0f}"
    )
    crm.tenants.forget_idle()


def _at(crm: CRMApp, label: str, act: Callable[[], Any]) -> float:
    begun = time.perf_counter()
    with crm.tenants.visit(label):
        act()
    return time.perf_counter() - begun


def _import(text: str, created: int) -> None:
    assert moving.import_csv(moving.read(text.encode(), "leads")).created == created


def _create(rows: list[dict[str, str]]) -> None:
    with transaction():
        for row in rows:
            create(LEAD_IN.take(row))


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        requests(Path(name))
        moves(Path(name))


if __name__ == "__main__":
    main()
