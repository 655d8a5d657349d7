"""A thousand tenants in a PostgreSQL database: `python -m tests.benchmarks.many_tenants`.

They are created, visited through `serve`, backed up, and migrated by one step that is added to a
copy of the code. The migration is killed on its way and begun again, and one tenant's schema is
damaged before: it must stop no other. PostgreSQL is started by the benchmark and writes durably.
"""

import http.client
import os
import random
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from crm.access import api_keys
from crm.config import Config
from crm.installation.tenants import Tenants
from crm.resources import tenant, users
from crm.storage.sqlite import migrations
from tests.benchmarks.processes import ServerProcess
from tests.postgres_server import Postgres
from tests.server_process import ROOT, find_free_port

TENANTS = int(os.environ.get("TENANTS", 1000))
LIFETIME_MINUTES = float(os.environ.get("LIFETIME_MINUTES", 0))  # of visits, one every 50 ms
THREADS = 4
SAMPLE = 100
MB = 1e6
STEP = """\
ALTER TABLE lead ADD COLUMN probe TEXT;
CREATE INDEX lead_probe ON lead (probe);
"""
DATABASE = "one"

_lock = threading.Lock()
_keys: dict[str, str] = {}


def report(what: str, value: object) -> None:
    print(f"{what:<58} {value}", flush=True)


def create_tenants(tenants: Tenants) -> None:
    """Create the tenants by THREADS threads, each with a key."""
    seconds: list[float] = []

    def create(number: int) -> None:
        label, began = f"tenant-{number:05}", time.perf_counter()
        tenant.open_tenant(tenants, label)
        took = time.perf_counter() - began
        with tenants.session(label):
            key = api_keys.create("benchmark", "*", users.owner_id())[1]
        with _lock:
            seconds.append(took)
            _keys[label] = key

    began = time.perf_counter()
    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(create, range(TENANTS)))
    whole = time.perf_counter() - began
    report(f"create {TENANTS} tenants by {THREADS} threads, s", f"{whole:.0f}")
    report("  a tenant, ms of the clock", f"{whole / TENANTS * 1000:.0f}")
    first, last = statistics.median(seconds[:SAMPLE]), statistics.median(seconds[-SAMPLE:])
    report(f"  one call, the first and last {SAMPLE}, ms", f"{first * 1000:.0f} {last * 1000:.0f}")


def report_database(server: Postgres, tenants: Tenants) -> None:
    sql = "SELECT count(*), pg_database_size(current_database()) FROM crm.tenant"
    ((count, size),) = server.execute(sql, DATABASE)
    report("the database: tenants, MB, MB a tenant", f"{count} {size / MB:.0f} "
           f"{size / MB / max(count, 1):.2f}")  # fmt: skip
    assert len(tenants.labels()) == TENANTS


def private_mb(pids: Iterable[int]) -> list[float]:
    """Memory of processes that they share with no other, the largest first."""
    results = []
    for pid in pids:
        try:
            lines = Path(f"/proc/{pid}/smaps_rollup").read_text("ascii").splitlines()
        except OSError:
            continue
        results.append(sum(int(line.split()[1]) for line in lines if line.startswith("Private_")))
    return sorted((kilobytes * 1024 / MB for kilobytes in results), reverse=True)


def backends(server: Postgres) -> list[int]:
    sql = "SELECT pid FROM pg_stat_activity WHERE backend_type = 'client backend' AND datname = "
    return [pid for (pid,) in server.execute(f"{sql}'{DATABASE}'")]


class Visitor:
    """Asks for something of each tenant over one connection."""

    def __init__(self, port: int):
        self._link = http.client.HTTPConnection("127.0.0.1", port, timeout=60)

    def visit(self, label: str, path: str = "/leads") -> float:
        """Return the seconds of one GET."""
        headers = {"Host": f"{label}.localhost", "Authorization": f"Bearer {_keys[label]}"}
        began = time.perf_counter()
        self._link.request("GET", f"/api/v1{path}", headers=headers)
        answer = self._link.getresponse()
        data = answer.read()
        assert answer.status == 200, data
        return time.perf_counter() - began


def report_visits(what: str, seconds: list[float], server: Postgres, node: ServerProcess) -> None:
    ordered = sorted(seconds)
    figures = [statistics.median(ordered), ordered[int(len(ordered) * 0.95)], ordered[-1]]
    report(
        f"{what}: GET, median 95 % max, ms", " ".join(f"{figure * 1000:.1f}" for figure in figures)
    )
    memory = private_mb(backends(server))
    report(
        "  backends, the largest and all, MB", f"{len(memory)} {memory[0]:.0f} {sum(memory):.0f}"
    )
    report("  the node, MB", f"{node.memory_mb():.0f}")


def visit_all(folder: Path, environ: dict[str, str], server: Postgres) -> None:
    port = find_free_port()
    command = ["serve", "--data", str(folder), "--port", str(port), "--workers", "1"]
    node = ServerProcess([sys.executable, "app.py", *command], ROOT, folder / "log", **environ)
    try:
        visitor = Visitor(port)
        node.wait_until(lambda: _answers(port))
        labels = sorted(_keys)
        report_visits(
            "first visits in order", [visitor.visit(item) for item in labels], server, node
        )
        order = random.Random(7)
        order.shuffle(labels)
        visits = [visitor.visit(item) for item in labels]
        report_visits("second visits at random", visits, server, node)
        with ThreadPoolExecutor(8) as pool:
            parts = [labels[number::8] for number in range(8)]
            visits = [
                second
                for part in pool.map(lambda part: _visit_part(port, part), parts)
                for second in part
            ]
        report_visits("by 8 clients at random", visits, server, node)
        until, largest = time.monotonic() + LIFETIME_MINUTES * 60, 0.0
        while time.monotonic() < until:
            for label in order.choices(labels, k=200):
                visitor.visit(label)
                time.sleep(0.05)
            largest = max(largest, *private_mb(backends(server))[:1])
        if LIFETIME_MINUTES:
            report(f"largest backend in {LIFETIME_MINUTES:.0f} min of 20 visits a second, MB",
                   f"{largest:.0f}")  # fmt: skip
            report_visits("after them", [visitor.visit(item) for item in labels], server, node)
    finally:
        node.stop()


def _visit_part(port: int, labels: list[str]) -> list[float]:
    visitor = Visitor(port)
    return [visitor.visit(label) for label in labels]


def _answers(port: int) -> bool:
    try:
        link = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
        link.request("GET", "/livez")
        return link.getresponse().status == 200
    except OSError:
        return False


def run(folder: Path, environ: dict[str, str], *words: str, cwd: Path = ROOT) -> Any:
    """Run a command to its end; return the process, its seconds and its peak memory in MB."""
    command = ["/usr/bin/env", sys.executable, "app.py", *words, "--data", str(folder)]
    began = time.perf_counter()
    process = subprocess.Popen(
        command, cwd=cwd, env=os.environ | environ,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    peak = 0.0
    done = threading.Event()

    def watch() -> None:
        nonlocal peak
        while not done.wait(0.2):
            peak = max([peak, *private_mb([process.pid])])

    watcher = threading.Thread(target=watch)
    watcher.start()
    process.output, process.errors = process.communicate()  # type: ignore[attr-defined]
    done.set()
    watcher.join()
    return process, time.perf_counter() - began, peak


def migrate(folder: Path, environ: dict[str, str], server: Postgres) -> None:
    """Migrate by a step that is added to a copy of the code, killed on its way once."""
    copy = folder / "newer"
    copy.mkdir()
    shutil.copy(ROOT / "app.py", copy)
    shutil.copytree(ROOT / "crm", copy / "crm", ignore=shutil.ignore_patterns("__pycache__"))
    number = len(migrations.STEPS) + 1
    file, storage = f"{number:04}_probe.sql", copy / "crm/storage"
    (storage / "sqlite/migrations" / file).write_text(STEP)
    with open(storage / "postgres/tables.sql", "a") as tables:
        tables.write(f"-- name: {file}\n{STEP}")
    damaged = f"tenant-{TENANTS // 3:05}"
    server.execute(f'DROP TABLE "t_{damaged}".lead CASCADE', DATABASE)

    def migrated() -> int:
        sql = f"SELECT count(*) FROM crm.tenant WHERE version = {number}"
        return server.execute(sql, DATABASE)[0][0]

    words = [sys.executable, "app.py", "migrate", "--data", str(folder)]
    process = subprocess.Popen(
        words, cwd=copy, env=os.environ | environ, stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )  # fmt: skip
    while migrated() < TENANTS // 4:
        assert process.poll() is None, "it ended"
        time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    process.wait()
    before = migrated()
    report("migrate, killed with so many done", before)
    ran, seconds, peak = run(folder, environ, "migrate", cwd=copy)
    report("migrate again: others done, s, ms each, MB", f"{migrated() - before} {seconds:.1f} "
           f"{seconds / max(1, migrated() - before) * 1000:.1f} {peak:.0f}")  # fmt: skip
    report("  not done, exit code", f"{TENANTS - migrated()} {ran.returncode}")
    assert damaged in ran.errors, ran.errors
    print(ran.errors[-600:])
    ran, seconds, peak = run(folder, environ, "migrate", cwd=copy)
    report("migrate when nothing is left but the damaged one, s", f"{seconds:.1f}")


def back_up(folder: Path, environ: dict[str, str]) -> None:
    ran, seconds, peak = run(folder, environ, "backup", "create")
    copies = list((folder / "backups").glob("*.db"))
    size = sum(copy.stat().st_size for copy in copies)
    report("backup create: copies, exit code", f"{len(copies)} {ran.returncode}")
    report("  s, ms each, MB each, MB of memory",
           f"{seconds:.0f} {seconds / max(1, len(copies)) * 1000:.0f} "
           f"{size / MB / max(1, len(copies)):.2f} {peak:.0f}")  # fmt: skip
    if ran.returncode:
        print(ran.errors[-600:])


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="crm-many-") as name, Postgres(durable=True) as server:
        folder = Path(name)
        address = server.create_database(DATABASE)
        environ = {"CRM_DATABASE": address, "CRM_PLANS": "business=0"}
        tenants = Tenants(Config(data=folder, database=address))
        create_tenants(tenants)
        report_database(server, tenants)
        memory = private_mb(backends(server))
        report("backends that created them, the largest, MB", f"{len(memory)} {memory[0]:.0f}")
        tenants.forget_idle()
        visit_all(folder, environ, server)
        whole = sum(private_mb(server.pids))
        report("the whole server without shared memory, MB", f"{whole:.0f}")
        back_up(folder, environ)
        migrate(folder, environ, server)


if __name__ == "__main__":
    main()
