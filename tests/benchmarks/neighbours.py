"""What requests of one tenant take beside a busy one: `python -m tests.benchmarks.neighbours`.

The real server on loopback. In each round the clients of globex read one lead after the other:
alone, then beside ten clients of acme that import a price list of 50,000 rows again and again,
then beside ten that create leads while another process holds acme's writer lock.
"""

import csv
import http.client
import io
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from crm.access import api_keys
from crm.config import Config
from crm.installation.tenants import Tenants
from crm.resources import tenant, users
from crm.resources.leads.record import create
from tests.server_process import run_server

ROUNDS = int(os.environ.get("ROUNDS", 3))
SECONDS = float(os.environ.get("SECONDS", 8))
WORKERS = int(os.environ.get("WORKERS", 1))
READERS, BUSY_CLIENTS = 4, 10
ROOT = Path(__file__).resolve().parent.parent.parent


def fill(data: Path) -> dict[str, str]:
    """Two tenants with a key each, and a lead to read."""
    tenants, keys = Tenants(Config(data=data)), {}
    for label in ("acme", "globex"):
        tenant.open_tenant(tenants, label, plan="business")
        with tenants.session(label):
            keys[label] = api_keys.create("benchmark", "*", users.owner_id())[1]
            create({"name": "Олена Шевченко", "phone": "+380501234567"})
    tenants.forget_idle()
    return keys


def price_list() -> bytes:
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(("sku", "name", "price", "unit", "category", "description", "active"))
    for n in range(50_000):
        writer.writerow((f"S-{n}", f"Стіл {n}", f"{n % 900}.50", "шт", "Меблі", "Опис", "true"))
    return text.getvalue().encode()


def post(port: int, path: str, label: str, key: str, body: bytes, kind: str) -> int:
    link = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    headers = {"Host": f"{label}.localhost", "Authorization": f"Bearer {key}"}
    link.request("POST", path, body, headers | {"Content-Type": kind})
    answer = link.getresponse()
    answer.read()
    link.close()
    return answer.status


def read_for(seconds: float, port: int, key: str) -> list[float]:
    """Milliseconds that each read of one lead took, by several clients on kept connections."""
    taken: list[float] = []

    def client() -> None:
        link = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        headers = {"Host": "globex.localhost", "Authorization": f"Bearer {key}"}
        while time.monotonic() < until:
            began = time.perf_counter()
            link.request("GET", "/api/v1/leads/1", headers=headers)
            answer = link.getresponse()
            answer.read()
            assert answer.status == 200, answer.status
            taken.append((time.perf_counter() - began) * 1000)
            time.sleep(0.01)

    until = time.monotonic() + seconds
    threads = [threading.Thread(target=client) for _ in range(READERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return taken


@contextmanager
def busy(call: Callable[[], int]) -> Iterator[None]:
    """Ten clients that repeat a call, and what it answered; they end with the block."""
    over, answers = threading.Event(), []

    def client() -> None:
        while not over.is_set():
            answers.append(call())

    threads = [threading.Thread(target=client) for _ in range(BUSY_CLIENTS)]
    for thread in threads:
        thread.start()
    time.sleep(1)
    try:
        yield
    finally:
        over.set()
        for thread in threads:
            thread.join()
        print(f"    the busy tenant was answered {len(answers)} times: {sorted(set(answers))}")


@contextmanager
def holding_the_writer_lock(data: Path) -> Iterator[None]:
    """Another process holds acme's lock for as long as the block lasts."""
    code = (
        "import sys\nfrom pathlib import Path\nfrom crm.storage.commit_groups import WriterLock\n"
        "WriterLock(Path(sys.argv[1])).acquire()\nprint('held', flush=True)\nsys.stdin.read()"
    )
    lock = data / "tenants" / "acme.lock"
    holder = subprocess.Popen(
        [sys.executable, "-c", code, str(lock)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=ROOT,
    )
    holder.stdout.readline()
    try:
        yield
    finally:
        holder.communicate()


def report(name: str, taken: list[float]) -> None:
    taken = sorted(taken)
    p99 = taken[int(len(taken) * 0.99)]
    print(
        f"{name}: p50 {statistics.median(taken):.1f} ms, p99 {p99:.1f} ms, longest"
        f" {taken[-1]:.1f} ms of {len(taken)}"
    )


def main() -> None:
    body = (
        b'--b\r\nContent-Disposition: form-data; name="file"; filename="p.csv"\r\n'
        b"Content-Type: text/csv\r\n\r\n" + price_list() + b"\r\n--b--\r\n"
    )
    lead = b'{"name": "X", "phone": "+380501234567"}'
    with tempfile.TemporaryDirectory() as name:
        data = Path(name)
        keys = fill(data)

        def import_once() -> int:
            kind = "multipart/form-data; boundary=b"
            return post(port, "/api/v1/products/import", "acme", keys["acme"], body, kind)

        def create_once() -> int:
            return post(port, "/api/v1/leads", "acme", keys["acme"], lead, "application/json")

        settings = {"CRM_PLANS": "business=0", "CRM_LOG": "warnings"}
        with run_server(data, workers=WORKERS, **settings) as port:
            for _ in range(ROUNDS):
                report("alone", read_for(SECONDS, port, keys["globex"]))
                with busy(import_once):
                    report("beside ten imports", read_for(SECONDS, port, keys["globex"]))
                with busy(create_once), holding_the_writer_lock(data):
                    report("beside a held writer lock", read_for(SECONDS, port, keys["globex"]))


if __name__ == "__main__":
    main()
