"""kill -9 while values of a field are indexed, removed or moved: another process goes on."""

import signal
from pathlib import Path

import pytest

from crm.installation.tenants import Tenants
from crm.records import background
from crm.resources.custom_fields import adoption, values
from crm.storage import chunks
from crm.storage.session import rows, transaction
from tests.concurrency import ForkServer
from tests.faults.killing import die_at_commit
from tests.faults.test_killed_imports import at
from tests.installations import config_for
from tests.resources.test_custom_fields import LEAD, WOOD

pytestmark = [pytest.mark.process, pytest.mark.slow]

MONTH = 31 * 86_400


def be_killed(data: str, work: str, moment: float, number: int) -> None:
    """Do the work in a process that is killed after its n-th commit."""
    tenants = Tenants(config_for(Path(data)), at(moment))
    chunks.CHUNK_SECONDS, values.CHUNK_RECORDS = 0, 2
    with tenants.session("acme", sweeps_expired=False) as session:
        die_at_commit(session, number, "after")
        {"index": values.index_pending, "purge": purge, "adopt": adopt}[work]()


def purge() -> None:
    goes_on = 1
    while goes_on:
        with transaction():
            goes_on = values.go_on(1)


def adopt() -> None:
    if claimed := background.claim():
        background.resume(*claimed)
    elif not rows("SELECT 1 FROM batch"):
        adoption.adopt(1, "w")


@pytest.mark.parametrize("work", ["index", "purge", "adopt"])
def test_what_was_killed_goes_on_to_its_end(crm, api, clock, monkeypatch, work):
    wood = api.create("/fields", **WOOD | {"filtered": work != "index"})
    value = {"extra": {"w": "oak", "a": 1}} if work == "adopt" else {"custom": {"wood": "oak"}}
    for _ in range(7):
        api.create("/leads", **LEAD, **value)
    if work == "purge":
        api.post(f"/fields/{wood}/retire")
        api.delete(f"/fields/{wood}")
        clock.tick(MONTH)
    if work == "index":
        with monkeypatch.context() as patch:
            patch.setattr(values, "begin_index", lambda: None)
            api.patch(f"/fields/{wood}", {"filtered": True})
        refused = api.get("/leads?custom.wood=oak")
        assert "being indexed" in refused.json["errors"][0]["detail"]
    crm.tenants.forget_idle()
    kills = 0
    with ForkServer(__name__) as worker:
        # A lease is a commit too: killed after the first one it would never come further.
        while ended := worker.call(
            "be_killed", crm.tenants.config.data, work, clock.moment, kills % 2 + 1
        ):
            assert ended == -signal.SIGKILL
            kills += 1
            clock.tick(background.LEASE_SECONDS + 1)
            assert kills < 30
    assert kills >= 3
    with crm.tenants.session("acme", sweeps_expired=False):
        leads = rows("SELECT DISTINCT custom, extra, version FROM lead")
        found = rows("SELECT count(*) FROM custom_text")
        if work == "purge":
            assert (leads, found) == ([(None, None, 1)], [(0,)])
            assert rows("SELECT 1 FROM custom_field") == []
        elif work == "index":
            assert (leads, found) == ([('{"wood":"oak"}', None, 1)], [(7,)])
        else:
            assert (leads, found) == ([('{"wood":"oak"}', '{"a":1}', 2)], [(7,)])
    if work == "index":
        assert len(api.read("/leads?custom.wood=oak")) == 7
