"""Nodes for tests: installations with data folders of their own on one PostgreSQL database."""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from crm.config import LOOPBACK
from crm.installation.tenants import Tenants
from crm.outbox.sender import Sender
from crm.resources import tenant, webhooks
from crm.resources.leads.record import create as create_lead
from crm.storage.session import rows
from tests.concurrency import ROOT
from tests.installations import config_on
from tests.waiting import wait_for

TIMEOUT_SECONDS = 30
LABELS = ("acme", "globex")
LEAD = {"name": "Марія", "phone": "+380501234567"}


class CountingSender(Sender):
    """A sender that counts the deliveries it has sent."""

    def __init__(self, tenants: Tenants):
        super().__init__(tenants)
        self.count, self._counting = 0, threading.Lock()

    def _deliver(self, label: str, delivery: Any) -> None:
        with self._counting:
            self.count += 1
        super()._deliver(label, delivery)


class Node:
    """A node in this process. Its sender runs from start() to close()."""

    def __init__(self, folder: Path, address: str):
        tenants = Tenants(config_on(address, folder, webhook_allow=LOOPBACK))
        self.tenants, self.address = tenants, address
        self.sender = CountingSender(tenants)

    def start(self) -> None:
        """Start to send."""
        self.sender.start()

    def close(self) -> None:
        """Stop to send, and close all connections."""
        if self.sender.started:
            self.sender.close()
        self.tenants.forget_idle()

    def add_webhook(self, url: str, label: str = "acme", **fields: Any) -> int:
        with self.tenants.session(label):
            return webhooks.create({"url": url, **fields})[0]

    def add_leads(self, count: int = 1, label: str = "acme") -> None:
        for _ in range(count):
            with self.tenants.session(label):
                create_lead(LEAD)

    def read(self, sql: str, label: str = "acme") -> list[tuple[Any, ...]]:
        with self.tenants.session(label):
            return rows(sql)

    def wait_until_delivered(self, count: int, label: str = "acme") -> None:
        """Wait until so many deliveries of a tenant are recorded as delivered."""
        sql = "SELECT count(*) FROM delivery WHERE status = 'delivered'"
        wait_for(lambda: self.read(sql, label)[0][0] >= count)


def make_tenants(node: Node) -> None:
    """Create the tenants of LABELS."""
    for label in LABELS:
        tenant.open_tenant(node.tenants, label, plan="business", owner={"name": "Olena"})


# A node in a process of its own: it sends, and for each line that it reads adds that many leads.
PROCESS = """
import json, sys
from pathlib import Path
settings = json.loads(sys.argv[3])
from crm.outbox import deliveries
from crm.storage.postgres import due_watcher
deliveries.LEASE_SECONDS = settings["lease_seconds"]
due_watcher.POLL_SECONDS = settings["poll_seconds"]
from tests.outbox.nodes import Node
node = Node(Path(sys.argv[1]), sys.argv[2])
if settings["sends"]:
    node.start()
print("ready", flush=True)
for line in sys.stdin:
    node.add_leads(int(line))
    print("done", flush=True)
node.close()
"""


class ProcessNode:
    """A node in another process."""

    def __init__(self, process: "subprocess.Popen[str]"):
        self.process = process

    def add_leads(self, count: int) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{count}\n")
        self.process.stdin.flush()
        self.expect("done")

    def expect(self, line: str) -> None:
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == f"{line}\n"


@contextmanager
def run_node(
    folder: Path,
    address: str,
    *,
    lease_seconds: int = 60,
    poll_seconds: float = 5.0,
    sends: bool = True,
    **environ: str,
) -> Iterator[ProcessNode]:
    """Run a node in a process, which is killed at the end if it still runs."""
    settings = {"lease_seconds": lease_seconds, "poll_seconds": poll_seconds, "sends": sends}
    process = subprocess.Popen(
        [sys.executable, "-c", PROCESS, str(folder), address, json.dumps(settings)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | environ,
    )
    try:
        node = ProcessNode(process)
        node.expect("ready")
        yield node
    finally:
        process.kill()
        process.communicate()
