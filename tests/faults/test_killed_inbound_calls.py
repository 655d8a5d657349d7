"""kill -9 while inbound hooks take bodies: what was answered 200 is there with its record, and no
call is without its record, nor a record without its call."""

import http.client
import json
import threading
from contextlib import suppress
from pathlib import Path

import pytest

from crm.installation.opening import open_tenants
from crm.resources import tenant
from crm.resources.inbound import hooks
from crm.storage.session import rows
from tests.faults.killing import killed
from tests.installations import config_for
from tests.waiting import wait_for

pytestmark = [pytest.mark.process, pytest.mark.slow]

HOOKS = 12  # each takes 60 calls a minute
MANY = 120  # answers before the kill


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


def test_a_kill_loses_nothing_that_was_answered_and_leaves_nothing_in_parts(tmp_path: Path) -> None:
    tenants = open_tenants(config_for(tmp_path))
    tenant.open_tenant(tenants, "acme", plan="business")
    mapping = json.dumps({"name": "name", "phone": "phone"})
    with tenants.session("acme"):
        ids = [
            hooks.create({"name": "x", "target": "lead", "mapping": mapping, "id_path": "id"})
            for _ in range(HOOKS)
        ]
        paths = ["/in/" + hooks.HOOK.one(id)["url"].rpartition("/")[2] for id in ids]
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
    with open_tenants(config_for(tmp_path)).session("acme"):
        calls = {
            id: record_id for id, record_id in rows("SELECT sender_id, record_id FROM inbound_call")
        }
        leads = dict(rows("SELECT phone, id FROM lead"))
        failed = rows("SELECT reasons FROM inbound_call WHERE state <> 'done'")
    assert len(answered) >= MANY and not failed
    assert set(answered) <= calls.keys()
    assert calls == leads
