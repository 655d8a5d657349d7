"""What a bad receiver costs the others, how soon sending goes on after a start, and how much of it
there is: `python -m tests.benchmarks.webhooks`, with a real server process on loopback."""

import http.client
import json
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

from crm.access import api_keys
from crm.config import LOOPBACK, Config
from crm.installation.tenants import Tenants
from crm.resources import tenant, users, webhooks
from crm.resources.leads.record import create
from crm.storage.session import transaction

ROUNDS = int(os.environ.get("ROUNDS", 5))  # of each kind, in turns
SECONDS = float(os.environ.get("SECONDS", 20))  # of a round
PACE = int(os.environ.get("PACE", 40))  # requests a second, by CLIENTS
TENANTS = int(os.environ.get("TENANTS", 10_000))
DELIVERIES = int(os.environ.get("DELIVERIES", 2_000))
CLIENTS = 4
PATIENCE = 60
ROOT = Path(__file__).resolve().parent.parent.parent
GOOD = b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n"
LEAD = {
    "name": "Олена Шевченко",
    "phone": "+380501234567",
    "source": "site",
    "comment": "хоче стіл",
}


class Receiver:
    """Listens on loopback; each connection is one for `serve`, in a thread of a few or its own."""

    def __init__(self, serve: Callable[[socket.socket], None]):
        self._serve = serve
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=256)
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}/"
        self.open = self.calls = 0
        self._lock = threading.Lock()

    def start(self, threads: int) -> "Receiver":
        for _ in range(threads):
            threading.Thread(target=self._run, daemon=True).start()
        return self

    def _run(self) -> None:
        while True:
            link, _ = self._listener.accept()
            self._count(1)
            self.calls += 1
            with link, suppress(OSError):
                self._serve(link)
            self._count(-1)

    def _count(self, more: int) -> None:
        with self._lock:
            self.open += more


class Healthy:
    """A receiver that answers at once, and when each event came."""

    def __init__(self) -> None:
        self.came: dict[tuple[str, str], float] = {}  # (tenant, id of a lead): when
        self.receiver = Receiver(self._take).start(8)
        self.url = self.receiver.url

    def _take(self, link: socket.socket) -> None:
        data = b""
        while not (head := data.partition(b"\r\n\r\n"))[1]:
            data += link.recv(65536)
        fields = head[0].lower().partition(b"content-length:")[2]
        body, length = head[2], int(fields.partition(b"\r\n")[0])
        while len(body) < length:
            body += link.recv(65536)
        at = time.monotonic()
        link.sendall(GOOD)
        event = json.loads(body)
        self.came.setdefault((event["tenant"], event["data"]["lead"]["id"]), at)

    def wait_for(self, holds: Callable[[], bool]) -> None:
        until = time.monotonic() + PATIENCE
        while not holds():
            assert time.monotonic() < until, f"{len(self.came)} came"
            time.sleep(0.002)


def hang(link: socket.socket) -> None:
    """Accept, read, and never answer."""
    while link.recv(65536):
        pass


def drip(link: socket.socket) -> None:
    """One byte of a header a second."""
    for byte in GOOD + b"x" * 3600:
        link.sendall(bytes([byte]))
        time.sleep(1)


@contextmanager
def served(data: Path) -> Iterator[tuple[int, float]]:
    """The port of a server on the folder, and when it was started."""
    with socket.socket() as result:
        result.bind(("127.0.0.1", 0))
        port = result.getsockname()[1]
    settings = {"CRM_PLANS": "business=0", "CRM_WEBHOOK_ALLOW": "127.0.0.0/8"}
    command = [sys.executable, "app.py", "serve", "--data", str(data), "--port", str(port)]
    begun = time.monotonic()
    server = subprocess.Popen(
        command, cwd=ROOT, env=os.environ | settings, stderr=subprocess.DEVNULL
    )
    try:
        while server.poll() is None:
            with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                break
            time.sleep(0.01)
        yield port, begun
    finally:
        server.terminate()
        server.wait(PATIENCE)


class Caller:
    """A client with a kept connection."""

    def __init__(self, port: int, key: str):
        self.link = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
        self.headers = {
            "Host": "acme.localhost",
            "Authorization": f"Bearer {key}",
            "Content-Type": "application/json",
        }

    def call(self, method: str, path: str, body: bytes) -> dict:
        self.link.request(method, f"/api/v1{path}", body, self.headers)
        answer = self.link.getresponse()
        said = answer.read()
        assert answer.status < 300, said
        return json.loads(said)


class Round:
    """What clients at their pace saw: seconds of each POST, and when which lead was answered."""

    def __init__(self) -> None:
        self.taken: list[float] = []
        self.answered: dict[str, float] = {}

    def run(self, port: int, key: str, seconds: float) -> None:
        clients = [
            threading.Thread(target=self._post, args=(port, key, seconds)) for _ in range(CLIENTS)
        ]
        for client in clients:
            client.start()
            time.sleep(1 / PACE)
        for client in clients:
            client.join()

    def delays(self, healthy: Healthy) -> list[float]:
        """Seconds from each answer to the arrival, 0 if that came first."""
        return [max(0.0, healthy.came["acme", id] - at) for id, at in self.answered.items()]

    def _post(self, port: int, key: str, seconds: float) -> None:
        caller, body = Caller(port, key), json.dumps(LEAD).encode()
        begun = time.monotonic()
        for turn in range(int(seconds * PACE / CLIENTS)):
            time.sleep(max(0.0, begun + turn * CLIENTS / PACE - time.monotonic()))
            asked = time.monotonic()
            said = caller.call("POST", "/leads", body)
            at = time.monotonic()
            self.taken.append(at - asked)
            self.answered[said["lead_id"]] = at


def furnish(tenants: Tenants, label: str, url: str, leads: int) -> str:
    """A tenant with an endpoint at the address and so many events for it; gives a key."""
    tenant.open_tenant(tenants, label, plan="business")
    with tenants.session(label):
        webhooks.create({"url": url, "description": "benchmark"})
        with transaction():
            for _ in range(leads):
                create(LEAD)
        return api_keys.create("benchmark", "*", users.owner_id())[1]


def beside_bad_ones(data: Path) -> None:
    """One healthy endpoint alone, and with a hanging and a dripping one beside it, in turns."""
    healthy = Healthy()
    bad = [Receiver(hang).start(16), Receiver(drip).start(16)]
    tenants = Tenants(Config(data=data, webhook_allow=LOOPBACK))
    key = furnish(tenants, "acme", healthy.url, 0)
    tenants.forget_idle()
    rounds: dict[str, list[Round]] = {"alone": [], "beside": []}
    with served(data) as (port, _):
        caller = Caller(port, key)
        ids = [
            caller.call(
                "POST", "/webhooks", json.dumps({"url": item.url, "active": False}).encode()
            )["webhook_id"]
            for item in bad
        ]
        Round().run(port, key, 3)  # warms up
        for _ in range(ROUNDS):
            for name, result in rounds.items():
                active = json.dumps({"active": name == "beside"}).encode()
                for id in ids:
                    Caller(port, key).call("PATCH", f"/webhooks/{id}", active)
                if name == "alone":
                    healthy.wait_for(lambda: not any(item.open for item in bad))
                result.append(Round())
                result[-1].run(port, key, SECONDS)
                answered = {("acme", id) for id in result[-1].answered}
                healthy.wait_for(partial(answered.issubset, healthy.came))
    assert all(item.calls >= ROUNDS for item in bad)
    print(f"{ROUNDS} x {SECONDS:.0f} s at {PACE} requests/s, ms    alone   beside   ratio")
    measures = {
        "POST /leads": lambda item: item.taken,
        "from there to the arrival": lambda item: item.delays(healthy),
    }
    for what, measure in measures.items():
        for percent in (50, 95, 99):
            alone, beside = (
                statistics.median(percentile(measure(item), percent) * 1000 for item in result)
                for result in rounds.values()
            )
            name = f"{what}, p{percent}"
            print(f"    {name:30} {alone:8.2f} {beside:8.2f} {beside / alone:7.2f}")
    print("    (medians of the rounds; goals: arrival p95 below 2000 beside, POST p95 ratio 1.2)")


def percentile(found: list[float], percent: int) -> float:
    return statistics.quantiles(found, n=100)[percent - 1]


def after_a_start(data: Path) -> None:
    """Deliveries that wait in a few of many tenants' files when the server starts."""
    healthy = Healthy()
    tenants = Tenants(Config(data=data, webhook_allow=LOOPBACK))
    furnish(tenants, "empty", "http://127.0.0.1:9/", 0)
    furnish(tenants, "waiting", healthy.url, 1)
    tenants.forget_idle()
    empty, waiting = (tenants.path(label).rename(data / label) for label in ("empty", "waiting"))
    labels = [f"tenant-{number:06}" for number in range(TENANTS)]
    few = {"last": labels[-1], "in the middle": labels[TENANTS // 2], "first": labels[0]}
    for label in labels:
        shutil.copyfile(waiting if label in few.values() else empty, tenants.path(label))
    os.sync()
    with served(data) as (_, begun):
        listening = time.monotonic() - begun
        healthy.wait_for(lambda: len(healthy.came) == len(few))
    print(f"start with {TENANTS} tenants: it listens after {listening:.2f} s; what waits arrives")
    for when, label in few.items():
        seconds = healthy.came[label, "1"] - begun
        print(f"    at the tenant written to {when:13} after {seconds:6.2f} s")
    print("    (goal: below 10 s)")


def in_a_row(data: Path) -> None:
    """Deliveries of one tenant to one receiver that answers at once."""
    healthy = Healthy()
    tenants = Tenants(Config(data=data, webhook_allow=LOOPBACK))
    furnish(tenants, "acme", healthy.url, DELIVERIES)
    tenants.forget_idle()
    with served(data):
        healthy.wait_for(lambda: len(healthy.came) == DELIVERIES)
    begun, ended = min(healthy.came.values()), max(healthy.came.values())
    print(
        f"{DELIVERIES} deliveries of one tenant: {(DELIVERIES - 1) / (ended - begun):.0f} a second"
    )


def main() -> None:
    for measure in (in_a_row, after_a_start, beside_bad_ones):
        if sys.argv[1:] in ([], [measure.__name__]):
            with tempfile.TemporaryDirectory() as folder:
                measure(Path(folder))


if __name__ == "__main__":
    main()
