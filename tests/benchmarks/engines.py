"""PostgreSQL beside SQLite, in one run: `python -m tests.benchmarks.engines`.

Both have the two tenants of tests/benchmarks/growth, and write durably: SQLite with synchronous
FULL, PostgreSQL with fsync and synchronous_commit. The PostgreSQL server is started by the
benchmark on this machine. CPU is that of this process: the server's own comes on top, and is what a
second machine would take over.
"""

import argparse
import io
import json
import os
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import count
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlencode

from crm import CRMApp, create_app
from crm.config import PLANS, Config
from crm.copies import backup
from crm.resources import tenant
from crm.resources.products.csv_columns import PRODUCTS
from crm.spreadsheets import import_file, read_file
from crm.storage.session import one_row, write_archive
from tests.benchmarks.growth.data import SIZES, give_access, make_tenants
from tests.benchmarks.hot_path import caller
from tests.benchmarks.servers import APP, Server
from tests.benchmarks.wrk import Request, run_wrk
from tests.postgres_server import Postgres

IMPORT_ROWS = int(os.environ.get("IMPORT_ROWS", 20_000))
CLIENTS = 8
CLIENT_SECONDS = 2
BATCHES, BATCH_CALLS = 12, 10
TENANTS = 20  # that are created, for the time of one
UNLIMITED = dict.fromkeys(PLANS, 0)
SMALL, LARGE = SIZES
API = "/api/v1/leads"
REQUESTS = {  # {id}: a lead's
    "GET one": ("GET", f"{API}/{{id}}"),
    "list of 50": ("GET", API),
    "list, filter": ("GET", f"{API}?status=qualified"),
    "search": ("GET", f"{API}?{urlencode({'q': 'шевченко'})}"),
    "create": ("POST", API),
    "change": ("PATCH", f"{API}/{{id}}"),
    "page of today": ("GET", "/"),
    "page of leads": ("GET", "/leads"),
    "page of deals": ("GET", "/deals"),
    "page of a lead": ("GET", "/leads/{id}"),
}
NUMBERS = count()


class Cost(NamedTuple):
    """The least seconds of one call: CPU of this process, and in all."""

    cpu: float
    wall: float


class Subject:
    """A tenant of an installation, with its requests."""

    def __init__(self, crm: CRMApp, label: str):
        self.crm, self.label = crm, label
        access, host = give_access(crm, label)["owner"], {"Host": f"{label}.localhost"}
        self.headers = {**host, "Authorization": f"Bearer {access['key']}"}
        self._api = caller(crm, self.headers)
        cookie = {"Cookie": f"crm_session={access['cookie']}", "Accept-Language": "uk"}
        self._pages = caller(crm, host | cookie)
        with crm.tenants.session(label):
            (self.lead_id,) = one_row("SELECT max(id) / 2 FROM lead WHERE deleted_at IS NULL")

    def ask(self, what: str) -> None:
        method, path = REQUESTS[what]
        call = self._api if path.startswith(API) else self._pages
        body = lead_of(next(NUMBERS)) if method in ("POST", "PATCH") else b""
        call(method, path.format(id=self.lead_id), body)


def lead_of(number: int) -> bytes:
    """The body of a lead that no other has."""
    lead = {
        "name": "Олена Шевченко",
        "phone": f"+3805{number:08}",
        "source": "site",
        "comment": f"хоче стіл {number}",
    }
    return json.dumps(lead).encode()


def measure(what: str, subjects: list[Subject]) -> list[Cost]:
    """Return the cost of a request to each, in alternating batches."""
    costs: list[list[Cost]] = [[] for _ in subjects]
    for batch in range(BATCHES + 1):
        for taken, subject in zip(costs, subjects, strict=True):
            cpu, wall = time.process_time(), time.perf_counter()
            for _ in range(BATCH_CALLS):
                subject.ask(what)
            if batch:  # the first one prepares statements and opens connections
                cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
                taken.append(Cost(cpu / BATCH_CALLS, wall / BATCH_CALLS))
    return [Cost(*map(min, zip(*taken, strict=True))) for taken in costs]


@contextmanager
def served(subject: Subject, folder: Path) -> Iterator[Server]:
    """Serve the installation by one process of the real server."""
    config = subject.crm.tenants.config
    environ = {"CRM_PLANS": "business=0", "CRM_DATABASE": config.database}
    headers, lead = subject.headers, lead_of(next(NUMBERS)).decode()
    server = Server(
        subject.label,
        "",
        "",
        lambda port: [
            *APP, "serve", "--data", str(config.data), "--port", str(port), "--workers", "1"
        ],
        folder,
        {
            "GET one": (Request("GET", f"{API}/{subject.lead_id}", headers),),
            "list of 50": (Request("GET", f"{API}?limit=50", headers),),
            "create": (Request("POST", API, headers, lead),),
        },
        environ={name: value for name, value in environ.items() if value},
    )  # fmt: skip
    server.start()
    try:
        yield server
    finally:
        server.stop()


def run_once(server: Server, what: str, folder: Path) -> float:
    """Requests a second of one run of wrk; every answer must be a good one."""
    run = run_wrk(server.requests[what], server.port, CLIENTS, CLIENT_SECONDS, 1, 1, folder)
    assert not run.errors, (server.name, what, run)
    return run.requests / run.seconds


def import_seconds(subject: Subject) -> float:
    """Seconds to import IMPORT_ROWS new products from CSV."""
    data = io.StringIO()
    data.write("sku,name,price,unit,category\n")
    for number in range(IMPORT_ROWS):
        price = f"{number % 9000}.{number % 100:02}"
        data.write(f"SKU-{number:06},Стіл письмовий {number},{price},шт,Меблі {number % 40}\n")
    started_at = time.perf_counter()
    with subject.crm.tenants.session(subject.label):
        result = import_file(read_file(data.getvalue().encode(), PRODUCTS))
    assert result.created == IMPORT_ROWS, result
    return time.perf_counter() - started_at


def tenant_seconds(subject: Subject) -> float:
    """Seconds to create a tenant."""
    started_at = time.perf_counter()
    for number in range(TENANTS):
        tenant.open_tenant(subject.crm.tenants, f"tenant{number}")
    return (time.perf_counter() - started_at) / TENANTS


def open_installation(folder: Path, database: str = "") -> CRMApp:
    crm = create_app(Config(data=folder, database=database, plans=UNLIMITED), sends=False)
    crm.limiter.count_page = lambda *_: None  # of one visitor
    return crm


@contextmanager
def both(folder: Path) -> Iterator[list[CRMApp]]:
    """Open an installation on each engine, with the same tenants; made unless the folder has them.

    The tables of PostgreSQL are vacuumed, as autovacuum does within a minute.
    """
    files = folder / "sqlite"
    if not files.exists():
        make_tenants(files).tenants.forget_idle()
    with Postgres(durable=True) as server, tempfile.TemporaryDirectory() as name:
        installations = [
            open_installation(files),
            open_installation(Path(name), server.create_database("benchmark")),
        ]
        sqlite, postgres = installations
        for label in SIZES:
            archive = Path(name) / f"{label}.db"
            with sqlite.tenants.session(label):
                write_archive(archive)
            backup.restore(postgres.tenants, archive, label, lambda: None)
            archive.unlink()
        server.execute("VACUUM ANALYZE", "benchmark")
        yield installations
        for installation in installations:
            installation.tenants.forget_idle()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, help="a folder to make the tenants in, or with them")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = options.data or Path(name)
        with both(folder) as installations:
            print_table(installations, Path(name))


def print_table(installations: list[CRMApp], folder: Path) -> None:
    small, large = ([Subject(crm, label) for crm in installations] for label in SIZES)
    print(f"{'':40}{'SQLite':>12}{'PostgreSQL':>12}{'ratio':>8}")
    for what in REQUESTS:
        costs = measure(what, small + large)
        for label, (sqlite, postgres) in zip(SIZES, (costs[:2], costs[2:]), strict=True):
            line(f"{what}, {label}, CPU, µs", sqlite.cpu * 1e6, postgres.cpu * 1e6)
            line(f"{what}, {label}, in all, µs", sqlite.wall * 1e6, postgres.wall * 1e6)
        growth = [
            after.wall / before.wall for before, after in zip(costs[:2], costs[2:], strict=True)
        ]
        line(f"{what}, large / small, in all", *growth)
    with ExitStack() as stack:
        servers = [stack.enter_context(served(subject, folder)) for subject in small]
        for what in servers[0].requests:
            runs = [[run_once(server, what, folder) for server in servers] for _ in range(5)]
            rates = zip(*runs[1:], strict=True)  # the first warms up
            line(f"{what}, served to {CLIENTS}, a second", *map(statistics.median, rates))
    line(f"import of {IMPORT_ROWS:,}, s", *map(import_seconds, small))
    line("a new tenant, ms", *(1000 * tenant_seconds(subject) for subject in small))


def line(what: str, sqlite: float, postgres: float) -> None:
    print(f"{what:40}{sqlite:12.2f}{postgres:12.2f}{postgres / sqlite:8.2f}", flush=True)


if __name__ == "__main__":
    main()
