"""PostgreSQL beside SQLite, in one run: `python -m tests.benchmarks.engines`.

Both write durably: SQLite with synchronous FULL, PostgreSQL with fsync and synchronous_commit. The
PostgreSQL server is started by the benchmark on this machine. CPU is that of this process: the
server's own comes on top, and is what a second machine would take over.
"""

import io
import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from crm import CRMApp, create_app
from crm.access import api_keys
from crm.config import Config
from crm.resources import tenant, users
from crm.resources.leads.record import LEAD_IN, create
from crm.resources.products.csv_columns import PRODUCTS
from crm.spreadsheets import import_file, read_file
from crm.storage.dialect import filling
from crm.storage.session import transaction
from tests.benchmarks.hot_path import caller, leads
from tests.benchmarks.servers import APP, Server
from tests.benchmarks.wrk import ID, Request, run_wrk
from tests.postgres_server import Postgres

ROWS = int(os.environ.get("ROWS", 5_000))  # leads in the tenant that is measured
IMPORT_ROWS = int(os.environ.get("IMPORT_ROWS", 20_000))
CLIENTS = 8
CLIENT_SECONDS = 2
BATCHES, BATCH_CALLS = 15, 60
TENANTS = 20  # that are created, for the time of one
UNLIMITED = dict.fromkeys(("start", "base", "pro", "business"), 10**9)
LEAD = json.dumps(
    {"name": "Олена Шевченко", "phone": "+380501234567", "source": "site", "comment": "хоче стіл"}
).encode()


class Cost(NamedTuple):
    """Median seconds of one call: CPU of this process, and in all."""

    cpu: float
    wall: float


class Installation:
    """An installation with one tenant on one engine."""

    def __init__(self, name: str, folder: Path, database: str = ""):
        self.name = name
        config = Config(data=folder, database=database, plans=UNLIMITED)
        self.crm: CRMApp = create_app(config, sends=False)
        tenant.open_tenant(self.crm.tenants, "acme", plan="pro")
        with self.crm.tenants.session("acme"):
            _, key = api_keys.create("benchmark", "*", users.owner_id())
            with transaction(), filling("lead"):
                for lead in leads(ROWS):
                    create(LEAD_IN.parse(lead))
        self.headers = {"Host": "acme.localhost", "Authorization": f"Bearer {key}"}
        self.call = caller(self.crm, self.headers)

    @contextmanager
    def served(self, folder: Path) -> Iterator[Server]:
        """Serve the installation by one process of the real server."""
        path, config = "/api/v1/leads", self.crm.tenants.config
        environ = {"CRM_PLANS": "pro=0"}
        if config.database:
            environ["CRM_DATABASE"] = config.database
        server = Server(
            self.name,
            "",
            "",
            lambda port: [
                *APP, "serve", "--data", str(config.data), "--port", str(port), "--workers", "1"
            ],
            folder,
            {
                "GET one": Request("GET", f"{path}/{ID}", self.headers),
                "list of 50": Request("GET", f"{path}?limit=50", self.headers),
                "create": Request("POST", path, self.headers, LEAD.decode()),
            },
            environ=environ,
        )  # fmt: skip
        server.start()
        try:
            yield server
        finally:
            server.stop()

    def import_seconds(self) -> float:
        """Seconds to import IMPORT_ROWS new products from CSV."""
        data = io.StringIO()
        data.write("sku,name,price,unit,category\n")
        for number in range(IMPORT_ROWS):
            price = f"{number % 9000}.{number % 100:02}"
            data.write(f"SKU-{number:06},Стіл письмовий {number},{price},шт,Меблі {number % 40}\n")
        started_at = time.perf_counter()
        with self.crm.tenants.session("acme"):
            result = import_file(read_file(data.getvalue().encode(), PRODUCTS))
        assert result.created == IMPORT_ROWS, result
        return time.perf_counter() - started_at

    def tenant_seconds(self) -> float:
        """Seconds to create a tenant."""
        started_at = time.perf_counter()
        for number in range(TENANTS):
            tenant.open_tenant(self.crm.tenants, f"tenant{number}")
        return (time.perf_counter() - started_at) / TENANTS


def measure(installations: list[Installation], call: Callable[[Installation], Any]) -> list[Cost]:
    """Return the cost of a call of each installation, in alternating batches."""
    costs: list[list[Cost]] = [[] for _ in installations]
    for batch in range(BATCHES + 1):
        for number, installation in enumerate(installations):
            cpu, wall = time.process_time(), time.perf_counter()
            for _ in range(BATCH_CALLS):
                call(installation)
            if batch:  # the first one prepares statements and opens connections
                costs[number].append(
                    Cost(
                        (time.process_time() - cpu) / BATCH_CALLS,
                        (time.perf_counter() - wall) / BATCH_CALLS,
                    )
                )
    return [Cost(*map(statistics.median, zip(*taken, strict=True))) for taken in costs]


def run_once(server: Server, what: str, folder: Path) -> float:
    """Requests a second of one run of wrk; every answer must be a good one."""
    run = run_wrk([server.requests[what]], server.port, CLIENTS, CLIENT_SECONDS, ROWS, 1, folder)
    assert not run.errors, (server.name, what, run)
    return run.requests / run.seconds


@contextmanager
def both(folder: Path) -> Iterator[list[Installation]]:
    """Make an installation on each engine."""
    server = Postgres(durable=True)
    server.start()
    try:
        address = server.create_database("benchmark")
        installations = [
            Installation("SQLite", folder / "sqlite"),
            Installation("PostgreSQL", folder / "postgres", address),
        ]
        yield installations
        for installation in installations:
            installation.crm.tenants.forget_idle()
    finally:
        server.remove()


def main() -> None:
    with tempfile.TemporaryDirectory() as name, both(Path(name)) as installations:
        requests: dict[str, Callable[[Installation], Any]] = {
            "GET one": lambda installation: installation.call("GET", "/api/v1/leads/7"),
            "list of 50": lambda installation: installation.call("GET", "/api/v1/leads?limit=50"),
            "search": lambda installation: installation.call("GET", "/api/v1/leads?q=5001234"),
            "create": lambda installation: installation.call("POST", "/api/v1/leads", LEAD),
        }
        print(f"{'':36}{'SQLite':>12}{'PostgreSQL':>12}{'ratio':>8}")
        for what, call in requests.items():
            sqlite, postgres = measure(installations, call)
            line(f"{what}, CPU, µs", sqlite.cpu * 1e6, postgres.cpu * 1e6)
            line(f"{what}, in all, µs", sqlite.wall * 1e6, postgres.wall * 1e6)
        with ExitStack() as stack:
            served = [
                stack.enter_context(installation.served(Path(name)))
                for installation in installations
            ]
            for what in served[0].requests:
                runs = [[run_once(server, what, Path(name)) for server in served] for _ in range(5)]
                sqlite_runs, postgres_runs = zip(*runs[1:], strict=True)  # the first warms up
                line(
                    f"{what}, served to {CLIENTS}, a second",
                    *(statistics.median(runs) for runs in (sqlite_runs, postgres_runs)),
                )
        line(
            f"import of {IMPORT_ROWS:,}, s",
            *(installation.import_seconds() for installation in installations),
        )
        line(
            "a new tenant, ms",
            *(1000 * installation.tenant_seconds() for installation in installations),
        )


def line(what: str, sqlite: float, postgres: float) -> None:
    print(f"{what:36}{sqlite:12.1f}{postgres:12.1f}{postgres / sqlite:8.2f}", flush=True)


if __name__ == "__main__":
    main()
