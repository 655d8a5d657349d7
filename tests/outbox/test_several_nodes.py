"""Several nodes on one PostgreSQL: real threads, real HTTP, real processes (D15).

The server is started here, also where the run is on SQLite.
"""

import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from crm.outbox import deliveries, in_flight
from crm.resources import tasks
from crm.storage import sweeps
from crm.storage.postgres import due_watcher, schema
from crm.storage.session import execute, execute_many, transaction
from tests.concurrency import kill_process, run_in_threads, start_python
from tests.faults.test_clock import Machine
from tests.outbox.nodes import (
    LABELS,
    Node,
    ProcessNode,
    make_tenants,
    run_node,
)
from tests.postgres_server import Postgres
from tests.waiting import wait_for
from tests.webhook_receiver import Received

pytestmark = [pytest.mark.process, pytest.mark.slow]

DUE = "SELECT at FROM crm.due WHERE label = 'acme'"
LISTENING = "SELECT pid FROM pg_stat_activity WHERE query = 'LISTEN crm_due'"
SKEW_SECONDS = 30


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    with Postgres() as running:
        yield running


@pytest.fixture(scope="module")
def template(server: Postgres, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The name of a database with the tenants, to be copied for each test."""
    node = Node(tmp_path_factory.mktemp("template"), server.create_database("template"))
    make_tenants(node)
    node.close()
    return "template"


@pytest.fixture
def address(server: Postgres, template: str) -> Iterator[str]:
    yield server.create_database("nodes", template)
    server.drop_database("nodes")


@pytest.fixture
def make_node(address: str, tmp_path: Path) -> Iterator[Callable[[], Node]]:
    """A function that makes another node in this process."""
    nodes: list[Node] = []

    def make() -> Node:
        nodes.append(Node(tmp_path / f"node-{len(nodes)}", address))
        return nodes[-1]

    yield make
    for node in nodes:
        node.close()


@pytest.fixture
def fast_poll(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(due_watcher, "POLL_SECONDS", 0.5)


@pytest.fixture
def no_poll(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(due_watcher, "POLL_SECONDS", 600.0)


def ids(received: list[Received]) -> Counter[str]:
    return Counter(request.event["id"] for request in received)


def is_listening(server: Postgres) -> list[Any]:
    return server.execute(LISTENING, "nodes")


# Claims


def test_each_event_of_two_nodes_is_delivered_once(make_node, hook, server):
    nodes = [make_node(), make_node()]
    for label in LABELS:
        nodes[0].add_webhook(hook.url, label)
    for node in nodes:
        node.start()
    run_in_threads(4, lambda n: nodes[n % 2].add_leads(40, LABELS[n // 2]))
    hook.wait_for(160, 60)
    for label in LABELS:
        nodes[0].wait_until_delivered(80, label)
    counts = ids(hook.received)
    assert (len(counts), set(counts.values())) == (160, {1})
    assert all(node.sender.count for node in nodes)
    for label in LABELS:
        assert nodes[0].read("SELECT count(*), sum(tries) FROM delivery", label) == [(80, 80)]
    wait_for(lambda: not server.execute(DUE, "nodes"))  # nobody needs to look again


CLAIM = """
import json, sys
from pathlib import Path
from crm.outbox import deliveries, in_flight
from tests.outbox.nodes import Node
in_flight.MAX_PER_WEBHOOK = deliveries.MAX_IN_FLIGHT_PER_TENANT = 10_000
node = Node(Path(sys.argv[1]), sys.argv[2])
claimed = []
with node.tenants.session("acme"):
    print("ready", flush=True)
    sys.stdin.readline()
    while batch := deliveries.claim_due(sys.argv[1], 20, 20)[0]:
        claimed += [delivery.id for delivery in batch]
print(json.dumps(claimed))
"""


def test_of_hundreds_of_deliveries_two_processes_claim_none_twice(make_node, address, tmp_path):
    node = make_node()
    webhook = node.add_webhook("http://127.0.0.1:9/hook")
    with node.tenants.session("acme"), transaction():
        execute_many(
            "INSERT INTO delivery (webhook_id, test_id, status, due_at, cause, created_at)"
            " VALUES (?, ?, 'pending', ?, 'test', ?)",
            [(webhook, f"evt_{number}", *["2026-01-01T00:00:00Z"] * 2) for number in range(300)],
        )
    processes = [start_python(CLAIM, tmp_path / name, address) for name in ("a", "b")]
    try:
        for process in processes:
            assert process.stdout.readline() == "ready\n"
        for process in processes:
            process.stdin.write("\n")
            process.stdin.flush()
        claimed = [json.loads(process.stdout.readline()) for process in processes]
    finally:
        for process in processes:
            kill_process(process)
    assert all(len(part) > 30 for part in claimed)  # they did so at the same time
    counts = Counter(id for part in claimed for id in part)
    assert (len(counts), set(counts.values())) == (300, {1})


def test_a_lease_of_another_node_counts_until_it_ends(make_node, monkeypatch):
    first, second = make_node(), make_node()
    monkeypatch.setattr(deliveries, "LEASE_SECONDS", 1)
    first.add_webhook("http://127.0.0.1:9/hook")
    first.add_leads(3)

    def claim(node: Node, most: int) -> list[int]:
        with node.tenants.session("acme"):
            return [claimed.id for claimed in deliveries.claim_due(node.sender.lease, most, 9)[0]]

    assert claim(first, 2) == [1, 2]
    assert claim(second, 9) == [3]
    assert claim(first, 9) == claim(second, 9) == []
    claimed: list[int] = []  # not at once if the leases began in two seconds
    wait_for(lambda: claimed.extend(claim(second, 9)) or claimed == [1, 2, 3])


# What a node leaves


def test_what_a_killed_node_had_in_flight_is_sent_by_another(
    make_node, hook, address, tmp_path, fast_poll
):
    node = make_node()
    node.add_webhook(hook.url)
    dead = threading.Event()
    hook.answer = lambda _: dead.wait(60) and 204
    with run_node(tmp_path / "killed", address, lease_seconds=2) as killed:
        killed.add_leads(10)
        hook.wait_for(in_flight.MAX_PER_WEBHOOK)
        # Only now, because it would claim a part of them as well. Where it is slow, the leases end
        # before the kill, and it sends the four again all the same.
        node.start()
        killed.process.kill()
        killed.process.wait()
    dead.set()
    node.wait_until_delivered(10)
    counts = ids(hook.received)
    assert len(counts) == 10
    assert sorted(counts.values()) == [1] * 6 + [2] * 4  # what was in flight is sent again


def test_a_stopped_node_leaves_what_is_next_to_others_at_once(make_node, hook, no_poll, server):
    first, second = make_node(), make_node()
    first.add_webhook(hook.url)
    goes_on = threading.Event()
    hook.answer = lambda _: goes_on.wait(60) and 204
    first.start()
    first.add_leads(8)
    hook.wait_for(in_flight.MAX_PER_WEBHOOK)
    second.start()
    wait_for(lambda: len(is_listening(server)) == 2)
    first.sender.stop()
    goes_on.set()
    hook.wait_for(8)
    first.close()
    second.wait_until_delivered(8)
    assert set(ids(hook.received).values()) == {1}


# Clocks


def test_a_node_whose_clock_is_ahead_delays_nothing(make_node, hook, address, tmp_path, no_poll):
    machine = Machine(_folder(tmp_path / "ahead"))
    machine.set_off(SKEW_SECONDS)
    node = make_node()
    node.add_webhook(hook.url)
    node.start()
    with run_node(tmp_path / "0", address, sends=False, **machine.settings) as ahead:
        for count in range(1, 4):
            ahead.add_leads(1)
            hook.wait_for(count)
        _end(ahead)


def _folder(path: Path) -> Path:
    path.mkdir()
    return path


def _end(*nodes: ProcessNode) -> None:
    for node in nodes:
        node.process.communicate(timeout=30)
        assert node.process.returncode == 0


# Waking


def test_a_process_without_a_sender_wakes_another_node_at_once(make_node, hook, server, no_poll):
    sending, writing = make_node(), make_node()
    sending.add_webhook(hook.url)
    sending.start()
    wait_for(lambda: is_listening(server))
    time.sleep(0.2)  # the first poll is over
    for count in range(1, 4):
        writing.add_leads()
        hook.wait_for(count)


def test_a_notification_that_fails_is_no_error_of_the_change(make_node, monkeypatch):
    node = make_node()
    node.add_webhook("http://127.0.0.1:9/hook")
    take, fails = node.tenants.postgres.directory.database.take, threading.Event()

    def fail() -> Any:
        if fails.is_set():
            raise schema.ServerError("terminating connection", "57P01")
        return take()

    monkeypatch.setattr(node.tenants.postgres.directory.database, "take", fail)
    with node.tenants.session("acme"), transaction():
        tasks.create({"title": "Дзвінок"})
        fails.set()
    fails.clear()
    assert node.read("SELECT count(*) FROM delivery") == [(1,)]


def test_when_the_listening_connection_is_cut_the_poll_goes_on(make_node, hook, server, fast_poll):
    sending, writing = make_node(), make_node()
    sending.add_webhook(hook.url)
    sending.start()
    ((first,),) = wait_for(lambda: is_listening(server))
    server.execute(f"SELECT pg_terminate_backend({first}, 5000)")
    writing.add_leads()
    hook.wait_for(1)
    ((second,),) = wait_for(lambda: is_listening(server))
    assert second != first
    writing.add_leads()
    hook.wait_for(2)


# Retention


def test_one_node_at_a_time_sweeps_a_tenant_and_none_waits(make_node, monkeypatch):
    nodes = [make_node(), make_node()]
    with nodes[0].tenants.session("acme", sweeps_expired=False), transaction():
        execute("UPDATE tenant SET tidied_at = '2020-01-01T00:00:00Z'")
    sweeping, goes_on = threading.Event(), threading.Event()
    calls: list[int] = []

    def sweep(_: int) -> int:
        calls.append(threading.get_ident())
        sweeping.set()
        assert goes_on.wait(60)
        return 0

    monkeypatch.setattr(sweeps, "_sweeps", [sweep])
    for node in nodes:
        monkeypatch.setattr(node.tenants.steady_clock, "erasing_now", node.tenants.steady_clock.now)
    visit = threading.Thread(target=nodes[0].read, args=("SELECT 1",))
    visit.start()
    assert sweeping.wait(30)
    begun = time.monotonic()
    assert nodes[1].read("SELECT 1") == [(1,)]
    assert time.monotonic() - begun < 20
    assert len(calls) == 1
    goes_on.set()
    visit.join()
    nodes[1].tenants.tenant("acme").next_sweep_at = 0.0
    nodes[1].read("SELECT 1")
    assert len(calls) == 1  # it is not due any more
