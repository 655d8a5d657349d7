"""Several processes of one `serve`: limits, webhooks and writers as with one."""

import http.client
import json
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from tests.concurrency import run_in_threads
from tests.server_process import run_server
from tests.waiting import wait_for

pytestmark = pytest.mark.process

CLIENTS = 8


class Client:
    """One connection of a caller; connections come to one process or the other."""

    def __init__(self, port: int, key: str) -> None:
        self.link = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        self.headers = {"Host": "acme.localhost", "Authorization": f"Bearer {key}"}

    def call(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        headers = self.headers | ({"Content-Type": "application/json"} if body else {})
        self.link.request(method, f"/api/v1{path}", json.dumps(body) if body else None, headers)
        answer = self.link.getresponse()
        said = answer.read()
        return answer.status, json.loads(said) if said else None


def at_once(port: int, key: str, act: Any) -> list[Any]:
    """What `act(client, number)` gave to each of several clients at once."""

    def run(number: int) -> Any:
        client = Client(port, key)
        with closing(client.link):
            return act(client, number)

    return run_in_threads(CLIENTS, run)


def holder_of(lock: Path) -> int | None:
    """The process that holds the lock of a file, by the kernel's list."""
    inode = lock.stat().st_ino if lock.exists() else 0
    for line in Path("/proc/locks").read_text().splitlines():
        kind, process, file = (line.replace("->", "").split()[at] for at in (1, 4, 5))
        if kind == "FLOCK" and int(file.rpartition(":")[2]) == inode:
            return int(process)
    return None


def test_each_event_is_sent_once_and_the_sender_is_replaced(tmp_path, key, hook):
    settings = {"CRM_PLANS": "business=0", "CRM_WEBHOOK_ALLOW": "127.0.0.0/8"}
    with run_server(tmp_path, workers=2, expected="was sent SIGKILL", **settings) as port:
        client = Client(port, key)
        assert client.call("POST", "/webhooks", {"url": hook.url})[0] == 201

        def create(client: Client, number: int) -> None:
            for count in range(10):
                lead = {"name": f"{number}-{count}", "email": "a@b.example"}
                assert client.call("POST", "/leads", lead)[0] == 201

        at_once(port, key, create)
        events = [request.event["id"] for request in hook.wait_for(10 * CLIENTS)]
        assert len(set(events)) == len(events) == 10 * CLIENTS
        sender = holder_of(tmp_path / "sender.lock")
        os.kill(sender, signal.SIGKILL)  # the parent starts another process
        client.link.close()
        assert client.call("POST", "/leads", {"name": "X", "email": "a@b.example"})[0] == 201
        hook.wait_for(10 * CLIENTS + 1)
        client.link.close()


def connections_by_process(port: int) -> list[int]:
    """How many clients each process has that has any."""
    lines = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    established = {
        f"socket:[{line[9]}]" for line in lines if line[1:4:2] == [f"0100007F:{port:04X}", "01"]
    }
    numbers = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended, or is another user's
            numbers.append(
                sum(os.readlink(file) in established for file in (process / "fd").iterdir())
            )
    return sorted(filter(None, numbers))


@contextmanager
def spread_clients(port: int, key: str) -> Iterator[tuple[list[Client], Callable[[], None]]]:
    """Clients of which each of two processes has half, so both serve; and a read by each."""
    clients = [Client(port, key) for _ in range(CLIENTS)]

    def read() -> None:
        for client in clients:
            assert client.call("GET", "/leads")[0] == 200

    def are_spread() -> bool:
        read()
        return connections_by_process(port) == [CLIENTS // 2] * 2

    with ExitStack() as stack:
        for client in clients:
            stack.enter_context(closing(client.link))
        wait_for(are_spread, 30)
        yield clients, read


@pytest.mark.files
def test_changes_meet_in_one_process_and_reads_are_spread(tmp_path, key):
    with run_server(tmp_path, workers=2) as port, spread_clients(port, key) as (clients, read):
        for _ in range(2):
            for client in clients:
                lead = {"name": "X", "email": "a@b.example"}
                assert client.call("POST", "/leads", lead)[0] == 201
            read()
            assert connections_by_process(port) == [CLIENTS]
        read()
        assert connections_by_process(port) == [CLIENTS // 2] * 2
