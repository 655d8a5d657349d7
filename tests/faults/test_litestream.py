"""The server burns down: what was answered two seconds before is restored on another machine.

The real Litestream copies to a folder, to a real SFTP server and over S3's protocol, while clients
write over HTTP and tenants are made; then server and Litestream are killed at once.
CRM_BURN_SECONDS makes the fire come later.
"""

import contextlib
import hashlib
import http.client
import io
import os
import sqlite3
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from crm.access import api_keys
from crm.installation.tenants import Tenants
from crm.resources import tenant, users
from crm.resources.files import record as files
from crm.storage.contents import CHUNK_BYTES
from tests import storage
from tests.faults.killing import killed
from tests.http_calls import ask
from tests.installations import config_for
from tests.server_process import run_server
from tests.tables import check_search_index
from tests.waiting import wait_for

pytestmark = [pytest.mark.files, pytest.mark.process]

BURN_SECONDS = float(os.environ.get("CRM_BURN_SECONDS", "3"))
LOSS_SECONDS = 2.0  # of writes, at most
TENANT_SECONDS = 0.7  # between two new tenants
PAUSE_SECONDS = 0.02  # of a writer: the machine is to be alive, not choked
PATIENCE = 30  # seconds
SETTINGS = {"CRM_PLANS": "business=0", "CRM_WEBHOOK_ALLOW": "127.0.0.0/8"}


def open_tenant(data: Path, label: str) -> str:
    """Make a tenant; gives a key that may do everything there."""
    tenants = Tenants(config_for(data))
    tenant.open_tenant(tenants, label, plan="business")
    with tenants.session(label):
        secret = api_keys.create("writer", "*", users.owner_id())[1]
    tenants.forget_idle()
    return secret


def call(port: int, label: str, key: str, method: str, path: str, body: Any = None) -> Any:
    """The answer to one request, which must be a good one."""
    answer = ask(port, method, f"/api/v1{path}", body, key, label)
    assert answer.status in (200, 201), (answer.status, answer.body)
    return answer.json


class Clients:
    """Those who write to a server until it is gone, and what they were answered."""

    def __init__(self, data: Path, port: int) -> None:
        self.data, self.port = data, port
        self.keys: dict[str, str] = {}
        self.opened: dict[str, float] = {}  # label: when the tenant was there
        self.leads: dict[str, dict[int, tuple[str, float]]] = {}  # label: id: name, when answered
        self.files: dict[str, tuple[bytes, float]] = {}  # by SHA-256: bytes, when it was added
        self.odd: list[BaseException] = []
        self.over = threading.Event()
        self._threads: list[threading.Thread] = []

    def start(self, work: Any, *args: Any) -> None:
        thread = threading.Thread(target=self._run, args=(work, *args), daemon=True)
        self._threads.append(thread)
        thread.start()

    def _run(self, work: Any, *args: Any) -> None:
        try:
            work(*args)
        except (OSError, http.client.HTTPException):
            pass  # the server is gone
        except BaseException as error:
            self.odd.append(error)

    def write(self, label: str, number: int) -> None:
        answered = self.leads.setdefault(label, {})
        for count in range(1_000_000):
            if self.over.is_set():
                return
            name = f"{number}-{count}"
            lead = {"name": name, "email": f"{name}@client.example"}
            said = call(self.port, label, self.keys[label], "POST", "/leads", lead)
            answered[int(said["lead_id"])] = (name, time.monotonic())
            self.over.wait(PAUSE_SECONDS)

    def add_files(self, label: str) -> None:
        """Files to the first lead, each another one of two chunks, in this process."""
        tenants = Tenants(config_for(self.data))
        wait_for(lambda: self.leads.get(label))
        while not self.over.wait(TENANT_SECONDS):
            data = os.urandom(CHUNK_BYTES + 1)
            with tenants.session(label, sweeps_expired=False):
                files.add("lead", 1, io.BytesIO(data), "x")
            self.files[hashlib.sha256(data).hexdigest()] = data, time.monotonic()
        tenants.forget_idle()

    def open_tenants(self) -> None:
        """Again and again a new tenant, with a writer of its own."""
        for count in range(1_000_000):
            if self.over.wait(TENANT_SECONDS):
                return
            label = f"new{count}"
            self.keys[label] = open_tenant(self.data, label)
            self.opened[label] = time.monotonic()
            self.start(self.write, label, 0)

    def end(self) -> None:
        self.over.set()
        for thread in self._threads:
            thread.join(PATIENCE)


@pytest.fixture(
    params=[
        name if name == "folder" else pytest.param(name, marks=pytest.mark.deep)
        for name in storage.STORAGES
    ]
)
def place(request, tmp_path):
    with storage.STORAGES[request.param](tmp_path / "storage") as storages:
        yield storages


def test_what_was_answered_two_seconds_before_the_fire_is_restored(tmp_path, place, hook):
    data, other = tmp_path / "data", tmp_path / "other"
    keys = {"acme": open_tenant(data, "acme")}
    with storage.litestream(data, place) as copier, killed(data, 2, **SETTINGS) as port:
        kinds = ["lead.created"]
        call(port, "acme", keys["acme"], "POST", "/webhooks", {"url": hook.url, "events": kinds})
        clients = Clients(data, port)
        clients.keys = keys
        clients.opened["acme"] = time.monotonic()
        for number in range(3):
            clients.start(clients.write, "acme", number)
        clients.start(clients.add_files, "acme")
        clients.start(clients.open_tenants)

        def are_old_enough() -> bool:
            ages = [time.monotonic() - at for at in list(clients.opened.values())]
            return max(ages) > BURN_SECONDS and sum(age > LOSS_SECONDS for age in ages) > 1

        wait_for(are_old_enough, BURN_SECONDS + PATIENCE)
        fire = time.monotonic()
        copier.kill()
    clients.end()
    assert not clients.odd
    sequences = [received.event["sequence"] for received in hook.received]

    copies = tmp_path / "copies"
    copies.mkdir()
    for label in clients.opened:
        place.restore(label, copies / f"{label}-20260101T000000Z.db")
        place.restore(f"{label}.files", copies / f"{label}-20260101T000000Z.files.db")
    done = storage.command(other, "restore", "--all", "--from", str(copies), "--yes", "--skip-ids")
    assert done.returncode == 0, done.stderr
    restored = set(Tenants(config_for(other)).labels())
    expected = {label for label, at in clients.opened.items() if at < fire - LOSS_SECONDS}
    assert "acme" in expected and len(expected) > 1
    assert expected <= restored
    for label in restored & clients.leads.keys():
        with contextlib.closing(sqlite3.connect(other / "tenants" / f"{label}.db")) as file:
            assert file.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
            assert file.execute("PRAGMA foreign_key_check").fetchall() == []
            check_search_index(file, "lead")
            leads = dict(file.execute("SELECT id, name FROM lead"))
        answered = clients.leads[label]
        lost = {id: fire - at for id, (_, at) in answered.items() if id not in leads}
        assert all(age < LOSS_SECONDS for age in lost.values()), (label, lost)
        same = {id: name for id, (name, _) in answered.items() if id in leads}
        assert same.items() <= leads.items()

    added = {one: data for one, (data, at) in clients.files.items() if at < fire - LOSS_SECONDS}
    tenants = Tenants(config_for(other))
    with tenants.session("acme") as session:
        store = session.source.contents
        assert added and {one: b"".join(store.read(one)) for one in added} == added
    tenants.forget_idle()

    with run_server(other, **SETTINGS) as port:  # the keys of the burnt server are good here
        for label in restored & clients.leads.keys():
            before = max(clients.leads[label], default=0)
            lead = {"name": "After", "phone": "+380501112233"}
            made = call(port, label, clients.keys[label], "POST", "/leads", lead)
            assert int(made["lead_id"]) > before
        hook.wait_until(lambda: hook.received[-1].event["data"]["lead"]["name"] == "After")
    assert sequences, "the receiver heard nothing before the fire"
    assert hook.received[-1].event["sequence"] > max(sequences)
