"""`tenant move` killed at each step while two nodes of two processes write all the time.

No acknowledged row is lost, no id is given twice and no sequence has a gap; there are never two
live copies, and a command ends each move.
"""

import contextlib
import http.client
import json
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from crm.copies.moves import move
from crm.errors import Conflict
from crm.installation.opening import open_tenants
from crm.storage.sqlite.archive_file import open_copy
from tests.installations import config_on
from tests.killed_moves import STEPS, Mover
from tests.nodes import Node, Nodes, run_nodes
from tests.postgres_server import Postgres
from tests.redis_server import RedisProcess
from tests.waiting import wait_for

pytestmark = [pytest.mark.process, pytest.mark.slow]

WRITERS = 2  # at each node
PAUSE_SECONDS = 0.04
PATIENCE_SECONDS = 30
MEANWHILE = 5  # acknowledged rows between two moves
SUSPENDED_SECONDS = 0.3  # for which the nodes try, after the mover was killed


class Writer(threading.Thread):
    """Creates leads at one node, each again until it is acknowledged."""

    def __init__(self, name: str, node: Node, key: str):
        super().__init__(name=name, daemon=True)
        self.node, self.key = node, key
        self.over = threading.Event()
        self.acknowledged: list[tuple[int, str]] = []  # id and name
        self.answers: Counter[tuple[int, str]] = Counter()  # status and code

    def run(self) -> None:
        while not self.over.is_set():
            name = f"{self.name}-{len(self.acknowledged)}"
            status, body = self.post({"name": name, "email": f"{name}@example.com"})
            self.answers[status, body.get("code", "")] += 1
            if status == 201:
                self.acknowledged.append((int(body["lead_id"]), name))
            self.over.wait(PAUSE_SECONDS)

    def post(self, lead: dict[str, str]) -> tuple[int, dict[str, str]]:
        link = http.client.HTTPConnection("127.0.0.1", self.node.port, timeout=PATIENCE_SECONDS)
        with closing(link):
            headers = {"Host": "acme.localhost", "Authorization": f"Bearer {self.key}"}
            headers["Content-Type"] = "application/json"
            link.request("POST", "/api/v1/leads", json.dumps(lead), headers)
            answer = link.getresponse()
            return answer.status, json.loads(answer.read())


@contextlib.contextmanager
def writing(nodes: Nodes, key: str) -> Iterator[list[Writer]]:
    writers = [
        Writer(f"{node}-{number}", nodes[node], key) for node in (0, 1) for number in range(WRITERS)
    ]
    for writer in writers:
        writer.start()
    try:
        yield writers
    finally:
        for writer in writers:
            writer.over.set()
        for writer in writers:
            writer.join(PATIENCE_SECONDS)
            assert not writer.is_alive()


def count(writers: list[Writer]) -> int:
    return sum(len(writer.acknowledged) for writer in writers)


def test_a_move_killed_at_any_step_under_load_loses_nothing(
    tmp_path: Path, redis: RedisProcess, record_property
) -> None:
    """At each step one of the ways is finished in turn, the other taken back if not decided.

    Without load, tests/cli/test_tenant_move.py ends each of them both ways.
    """
    keys: dict[str, str] = {}

    def prepare(nodes: Nodes) -> None:
        keys["acme"] = nodes.create_tenant("acme")

    with (
        Postgres() as server,
        run_nodes(tmp_path, server.url(), redis.url, prepare=prepare, workers=2) as nodes,
        Mover() as mover,
        writing(nodes, keys["acme"]) as writers,
    ):
        config = config_on(server.url(), nodes[0].folder)
        places = ["postgres", "files"]
        for step in STEPS:
            here, there = places
            for source, target in ((here, there), (there, here)):
                before = count(writers)
                wait_for(lambda before=before: count(writers) >= before + MEANWHILE, 20)
                mover.kill(config, target, source, target, step)
                time.sleep(SUSPENDED_SECONDS)
                tenants = open_tenants(config)
                # Nothing is left to be ended if it had not begun, or had finished.
                with contextlib.suppress(Conflict):
                    move(tenants, "acme", there)
                tenants.forget_idle()
            places.reverse()
        before = count(writers)
        wait_for(lambda: count(writers) >= before + MEANWHILE, 20)
        for writer in writers:
            writer.over.set()
            writer.join(PATIENCE_SECONDS)
        nodes.command("backup", "create", "acme", "--to", tmp_path / "copies")
        acknowledged = [row for writer in writers for row in writer.acknowledged]
        assert len({id for id, _ in acknowledged}) == len(acknowledged)
        (copy,) = (tmp_path / "copies").glob("acme-*.db")
        with closing(open_copy(copy)) as file:
            rows = file.execute("SELECT id, name FROM lead").fetchall()
            assert sorted(rows) == sorted(acknowledged)
            sequence = file.execute("SELECT count(*), max(sequence) FROM event").fetchone()
            assert sequence == (len(rows), len(rows))
        answers = sum((writer.answers for writer in writers), Counter())
        record_property("did", f"{len(STEPS) * 2} kills, {dict(answers)}")
        codes = {"", "tenant_moving", "tenant_elsewhere", "busy"}
        assert {status for status, _ in answers} <= {201, 503}, answers
        assert {code for _, code in answers} <= codes, answers
        assert all(writer.acknowledged for writer in writers)
