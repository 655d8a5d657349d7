"""kill -9 while inbound hooks take bodies: what was answered 200 is there with its record, and no
call is without its record, nor a record without its call."""

import json
import signal
from pathlib import Path

import pytest

from crm.installation.tenants import Tenants
from crm.resources import tenant
from crm.resources.inbound import calls, hooks
from crm.storage.session import rows
from tests.concurrency import ForkServer
from tests.faults.killing import die_at_commit
from tests.installations import config_for

pytestmark = [pytest.mark.process, pytest.mark.slow]

MAPPING = json.dumps({"name": "name", "phone": "phone"})
PHONE = "+380671234567"


def be_killed(data: str, hook_id: str, when: str) -> None:
    """Take a body in a process that is killed before or after its first commit."""
    with Tenants(config_for(Path(data))).session("acme") as session:
        die_at_commit(session, 1, when)
        hook = hooks.InboundHook.find(hook_id)
        calls.receive(hook, json.dumps({"id": when, "name": when, "phone": PHONE}))


@pytest.fixture
def hook_id(tmp_path: Path) -> int:
    """A hook of acme, in a data folder that is `tmp_path`."""
    tenants = Tenants(config_for(tmp_path))
    tenant.open_tenant(tenants, "acme", plan="business")
    hook = {"name": "x", "target": "lead", "mapping": MAPPING, "id_path": "id"}
    with tenants.session("acme"):
        id = hooks.create(hook)
    tenants.forget_idle()
    return id


def made(data: Path) -> tuple[dict[str, int | None], dict[str, int]]:
    """{the sender's id: record} of the calls, and {the same: id} of the leads."""
    tenants = Tenants(config_for(data))
    with tenants.session("acme"):
        stored = dict(rows("SELECT sender_id, record_id FROM inbound_call"))
        leads = rows("SELECT external_id, id FROM lead")
    tenants.forget_idle()
    return stored, {external_id.partition("-")[2]: id for external_id, id in leads}


def test_a_call_is_committed_with_its_record(tmp_path: Path, hook_id: int) -> None:
    with ForkServer(__name__) as server:
        for when, expected in ("before", set()), ("after", {"after"}):
            assert server.call("be_killed", tmp_path, hook_id, when) == -signal.SIGKILL
            stored, leads = made(tmp_path)
            assert stored == leads and stored.keys() == expected, when
