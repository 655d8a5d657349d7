"""Faults of nodes and of their PostgreSQL, under all kinds of writes with retries.

What was acknowledged is there, `sequence` has no gap and a follower misses no event, and each event
is delivered at least once. The servers are real, and keep what they commit.
"""

import contextlib
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.load import LEAD, Load, ask_node, milliseconds, seconds_until_works
from tests.faults.losses import faults_inside
from tests.nodes import Nodes, run_nodes
from tests.postgres_server import Postgres
from tests.waiting import wait_for
from tests.webhook_receiver import WebhookReceiver

pytestmark = [pytest.mark.process, pytest.mark.slow, pytest.mark.deep]

GROWTH = 45  # acknowledged changes between two faults
WRITERS = 4  # of acme; the other tenant has half of that
OTHER_NODE_SECONDS = 2.0  # in which the tenants of a killed node are answered
DELIVERY_SECONDS = 0.1  # so that some are in flight at each fault
BACK_SECONDS = 10.0  # in which nodes work again once the database does
REDELIVERY_SECONDS = 90  # the lease of a delivery that a killed node had in flight, and a poll


@pytest.fixture
def server():
    with Postgres(durable=True) as running:
        yield running


@contextlib.contextmanager
def loaded(folder: Path, database: str, hook: WebhookReceiver) -> Iterator[tuple[Nodes, Load]]:
    """Two nodes under load, each with a tenant of its own; acme has a webhook."""
    with run_nodes(folder, database) as nodes:
        keys = {label: nodes.create_tenant(label) for label in nodes.find_labels()}
        body = {"url": hook.url}
        assert ask_node(nodes[0], keys["acme"], "POST", "/webhooks", body).status == 201
        hook.answer = lambda received: time.sleep(DELIVERY_SECONDS) or 204
        writers = {label: WRITERS if label == "acme" else WRITERS // 2 for label in keys}
        with Load(nodes.port, keys, writers) as load:
            load.go_on(GROWTH)
            yield nodes, load


def check(nodes: Nodes, load: Load, hook: WebhookReceiver, folder: Path) -> None:
    """Nothing is lost, in parts or out of order, and all was delivered."""
    load.finish()
    assert load.losses() == []
    assert sum(caller.without_retry_after for caller in load.callers.values()) == 0
    copies = folder / "copies"
    for label in load.writers:
        nodes.command("backup", "create", label, "--to", copies)
        (copy,) = copies.glob(f"{label}-*.db")
        assert list(faults_inside(copy)) == []
    expected = set(load.followers["acme"].ids)
    assert len(expected) == len(load.followers["acme"].ids)
    hook.wait_until(lambda: expected <= ids(hook).keys(), REDELIVERY_SECONDS)


def ids(hook: WebhookReceiver) -> Counter[str]:
    return Counter(received.event["id"] for received in list(hook.received))


def test_kill_9_of_a_node_loses_nothing_and_the_other_goes_on(tmp_path, server, hook):
    """Each of its hosts, which nginx sent to it alone, is answered by the other."""
    silences = []
    with loaded(tmp_path, server.url(), hook) as (nodes, load):
        for number, label in enumerate(nodes.find_labels()):
            nodes[number].kill()
            killed_at = milliseconds()
            load.go_on(GROWTH)
            silences.append(load.silence_seconds(killed_at, label))
            assert nodes.node_of(label) == 1 - number
            nodes[number].start()
            load.go_on(GROWTH // 3)
        check(nodes, load, hook, tmp_path)
        assert max(silences) < OTHER_NODE_SECONDS


def test_kill_9_of_the_database_loses_nothing_and_nodes_find_it_again(tmp_path, server, hook):
    returns = []
    with loaded(tmp_path, server.url(), hook) as (nodes, load):
        for _ in range(2):
            server.kill()
            for node in nodes.nodes:
                for method in ("GET", "POST"):
                    answer = ask_node(node, load_key(load), method, "/leads", LEAD)
                    assert answer.status == 503, answer.body
                    assert int(answer.headers["Retry-After"]) > 0
                    assert answer.json["code"] == "tenant_unavailable"
                    assert answer.seconds < 5
            server.start()
            for node in nodes.nodes:
                returns.append(seconds_until_works(node, load_key(load)))
            load.go_on(GROWTH)
        check(nodes, load, hook, tmp_path)
        assert max(returns) < BACK_SECONDS


def load_key(load: Load) -> str:
    return load.callers["acme"].headers["Authorization"].removeprefix("Bearer ")


def test_nodes_go_on_with_a_promoted_standby(tmp_path, hook):
    """It is a synchronous one, so nothing is lost; libpq finds the server that takes writes."""
    with contextlib.ExitStack() as stack:
        primary = Postgres(durable=True)
        stack.callback(primary.remove)
        primary.start()
        standby = Postgres(durable=True)
        stack.callback(standby.remove)
        standby.follow(primary)
        standby.start()
        primary.execute("ALTER SYSTEM SET synchronous_standby_names = '*'")
        primary.execute("SELECT pg_reload_conf()")
        state = "SELECT sync_state FROM pg_stat_replication"
        wait_for(lambda: primary.execute(state) == [("sync",)], 20)
        hosts = f"127.0.0.1:{primary.port},127.0.0.1:{standby.port}"
        database = f"postgresql://postgres@{hosts}/postgres?target_session_attrs=read-write"
        nodes, load = stack.enter_context(loaded(tmp_path, database, hook))
        primary.kill()
        standby.promote()
        seconds = [seconds_until_works(node, load_key(load)) for node in nodes.nodes]
        load.go_on(GROWTH)
        check(nodes, load, hook, tmp_path)
        assert max(seconds) < BACK_SECONDS
