"""kill -9 while inbound hooks take bodies: what was answered 200 is there with its record, and no
call is without its record, nor a record without its call."""

import http.client
import json
import os
import signal
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from crm.installation.opening import open_tenants
from crm.resources import tenant
from crm.resources.inbound import calls, hooks
from crm.storage.session import rows
from tests.concurrency import ForkServer
from tests.faults.killing import killed
from tests.installations import config_for
from tests.waiting import wait_for

pytestmark = [pytest.mark.process, pytest.mark.slow]

MAPPING = json.dumps({"name": "name", "phone": "phone"})
PHONE = "+380671234567"
HOOKS = 12  # each takes 60 calls a minute
MANY = 120  # answers before the kill


def be_killed(data: str, hook_id: str, when: str) -> None:
    """Take a body in a process that is killed before or after its first commit."""
    with open_tenants(config_for(Path(data))).session("acme") as session:
        commit = session.source.commit

        def die(*arguments: Any) -> None:
            if when == "after":
                commit(*arguments)
            os.kill(os.getpid(), signal.SIGKILL)

        session.source.commit = die
        hook = hooks.InboundHook.find(hook_id)
        calls.receive(hook, json.dumps({"id": when, "name": when, "phone": PHONE}))


def send_bodies(port: int, sender: int, path: str, answered: list[str]) -> None:
    """Send one body after the other, each of a person of its own, until the server is gone."""
    with suppress(OSError, http.client.HTTPException):
        for number in range(60):
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
            phone = f"+38067{sender:03}{number:04}"
            body = json.dumps({"id": phone, "name": "Олег", "phone": phone})
            connection.request("POST", path, body, {"Host": f"acme.localhost:{port}"})
            if connection.getresponse().status == 200:
                answered.append(phone)
            connection.close()


@pytest.fixture
def hook_ids(tmp_path: Path) -> list[int]:
    """Hooks of acme, in a data folder that is `tmp_path`."""
    tenants = open_tenants(config_for(tmp_path))
    tenant.open_tenant(tenants, "acme", plan="business")
    hook = {"name": "x", "target": "lead", "mapping": MAPPING, "id_path": "id"}
    with tenants.session("acme"):
        ids = [hooks.create(dict(hook)) for _ in range(HOOKS)]
    tenants.forget_idle()
    return ids


def made(data: Path) -> tuple[dict[str, int | None], dict[str, int]]:
    """{the sender's id: record} of the calls, and {the same: id} of the leads."""
    tenants = open_tenants(config_for(data))
    with tenants.session("acme"):
        stored = dict(rows("SELECT sender_id, record_id FROM inbound_call"))
        leads = rows("SELECT external_id, id FROM lead")
    tenants.forget_idle()
    return stored, {external_id.partition("-")[2]: id for external_id, id in leads}


def test_a_call_is_committed_with_its_record(tmp_path: Path, hook_ids: list[int]) -> None:
    with ForkServer(__name__) as server:
        for when, expected in ("before", set()), ("after", {"after"}):
            assert server.call("be_killed", tmp_path, hook_ids[0], when) == -signal.SIGKILL
            stored, leads = made(tmp_path)
            assert stored == leads and stored.keys() == expected, when


@pytest.mark.deep
def test_a_kill_loses_nothing_that_was_answered_and_leaves_nothing_in_parts(
    tmp_path: Path, hook_ids: list[int]
) -> None:
    tenants = open_tenants(config_for(tmp_path))
    with tenants.session("acme"):
        paths = ["/in/" + hooks.HOOK.one(id)["url"].rpartition("/")[2] for id in hook_ids]
    tenants.forget_idle()
    answered: list[str] = []
    with killed(tmp_path, workers=2) as port:
        senders = [
            threading.Thread(target=send_bodies, args=(port, number, path, answered))
            for number, path in enumerate(paths)
        ]
        for sender in senders:
            sender.start()
        wait_for(lambda: len(answered) >= MANY, what=lambda: f"{len(answered)} answers")
    for sender in senders:
        sender.join()
    stored, leads = made(tmp_path)
    assert len(answered) >= MANY
    assert set(answered) <= stored.keys()
    assert stored == leads
