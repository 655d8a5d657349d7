"""kill -9 in a large import and an undo, at each commit: another process goes on where it was."""

import http.client
import json
import os
import signal
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

from crm.access import api_keys
from crm.errors import Conflict
from crm.installation.opening import open_tenants
from crm.records import background
from crm.resources import tenant, users
from crm.resources.batches import undo
from crm.resources.leads import record as leads
from crm.spreadsheets import find_resource, large_import, read_file
from crm.spreadsheets.import_run import ImportRun
from crm.spreadsheets.importer import import_file
from crm.storage import chunks
from crm.storage.session import rows
from tests.concurrency import ForkServer
from tests.conftest import Clock
from tests.csv_helpers import all_files
from tests.faults.killing import killed
from tests.installations import config_for
from tests.resources.test_undo import FILES, fill
from tests.waiting import wait_for

pytestmark = [pytest.mark.process, pytest.mark.slow]

MORE = ("deals", "products")  # imported by other code


def be_killed(data: str, kind: str, id: int, moment: float, number: int, when: str) -> None:
    """Do the work in a process that is killed before or after its n-th commit."""
    tenants = open_tenants(config_for(Path(data)), at(moment))
    chunks.CHUNK_SECONDS = 0
    with tenants.session("acme") as session:
        commit, count = session.source.commit, 0

        def die(*arguments: Any) -> None:
            nonlocal count
            count += 1
            if count == number and when == "before":
                os.kill(os.getpid(), signal.SIGKILL)
            commit(*arguments)
            if count == number:
                os.kill(os.getpid(), signal.SIGKILL)

        session.source.commit = die
        run(kind, id)


def run(kind: str, id: int) -> None:
    if kind == "import":
        if claimed := background.claim():  # else it was killed after the last commit
            background.resume(*claimed)
    else:
        with suppress(Conflict):  # for the same reason
            undo.undo(id)


def at(moment: float) -> Clock:
    clock = Clock()
    clock.moment = moment
    return clock


@pytest.mark.parametrize("when", ["after", pytest.param("before", marks=pytest.mark.deep)])
@pytest.mark.parametrize(
    "plural", ["leads", *(pytest.param(name, marks=pytest.mark.deep) for name in MORE)]
)
def test_an_import_and_its_undo_that_are_killed_at_every_commit(
    crm, clock, monkeypatch, plural, when
):
    from crm.resources.products import bulk_import

    monkeypatch.setattr(bulk_import, "CHUNK_ROWS", 2)
    file = read_file(FILES[plural].encode(), find_resource(plural))
    data = crm.tenants.config.data
    with crm.tenants.session("globex"):
        fill()
        expected = import_file(file)
    with crm.tenants.session("acme"):
        fill()
        before = all_files()
        id = large_import.start(file, "файл.csv")[0].id
    crm.tenants.forget_idle()
    with ForkServer(__name__) as worker:
        kills = until_done(worker, data, clock, "import", id, when)
        with crm.tenants.session("acme"):
            report = ImportRun.find(id)
            for name in ("created", "updated", "unchanged"):
                # Taras, whom a file names, works at acme alone.
                assert getattr(report, name) == getattr(expected, name), name
            assert (report.state, report.rejected) == ("done", 0)
            events = rows("SELECT type, count(*) FROM event GROUP BY type ORDER BY type")
        with crm.tenants.session("globex"):
            assert rows("SELECT type, count(*) FROM event GROUP BY type ORDER BY type") == events
        assert kills >= 2
        kills = until_done(worker, data, clock, "undo", report.batch_id, when)
    assert kills >= 4
    with crm.tenants.session("acme"):
        assert all_files() == before
        assert not rows("SELECT * FROM batch_record WHERE outcome IS NULL OR outcome <> 'reversed'")


def until_done(worker: ForkServer, data: Path, clock: Clock, kind: str, id: int, when: str) -> int:
    """Kill the work at its first, second and third commit in turn until it comes to its end."""
    kills, number = 0, 1
    while ended := worker.call("be_killed", data, kind, id, clock.moment, number, when):
        assert ended == -signal.SIGKILL
        kills += 1
        # A claim is a commit too: killed before the second one it would never come further.
        number = number % 3 + 1
        clock.tick(background.LEASE_SECONDS + 1)
        assert kills < 100
    return kills


@pytest.mark.deep
def test_a_server_goes_on_with_an_import_after_its_kill(tmp_path):
    """The server takes 4 MB, is killed in the midst of it, and another one imports the rest."""
    data, count = tmp_path / "data", 12_000
    tenants = open_tenants(config_for(data))
    tenant.open_tenant(tenants, "acme", plan="business")
    with tenants.session("acme"):
        key = api_keys.create("tests", "*", users.owner_id())[1]
        for n in range(0, count, 1000):
            lead = {"name": f"Старий {n}", "phone": "+380501112233", "comment": "був"}
            leads.create({**lead, "external_id": f"L-{n}"})
        files_before = all_files()
    tenants.forget_idle()
    comment = "стіл " * 40
    lines = (f"L-{n},Лід {n},0671234567,{comment}\n" for n in range(count))
    text = ("external_id,name,phone,comment\n" + "".join(lines)).encode()
    boundary = "x" * 30
    head = f'--{boundary}\r\nContent-Disposition: form-data; name="file"; filename="a.csv"\r\n\r\n'
    body = head.encode() + text + f"\r\n--{boundary}--\r\n".encode()

    def call(port: int, method: str, path: str, body: bytes | None = None) -> Any:
        link = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        headers = {"Host": "acme.localhost", "Authorization": f"Bearer {key}"}
        if body:
            headers["Content-Type"] = f"multipart/form-data; boundary={boundary}"
        link.request(method, f"/api/v1{path}", body, headers)
        with closing(link):
            return json.loads(link.getresponse().read())

    settings = {"CRM_PLANS": "business=0", "CRM_STORAGE": "business=0"}
    with killed(data, 2, **settings) as port:
        started = call(port, "POST", "/leads/import", body)
        assert started["status"] == "running", started
        id = started["import_id"]
        wait_for(lambda: call(port, "GET", f"/imports/{id}")["position"] > 500, 60)
    with tenants.session("acme"):
        position = ImportRun.find(int(id)).position
        assert 500 < position < count
    with killed(data, 2, **settings) as port:
        report = call(port, "GET", f"/imports/{id}")
        assert report["status"] == "running"
        wait_for(lambda: call(port, "GET", f"/imports/{id}")["status"] != "running", 150)
        report = call(port, "GET", f"/imports/{id}")
        assert (report["status"], report["created"]) == ("done", count - 12)
        undone = call(port, "POST", f"/batches/{report['batch_id']}/undo")
        assert undone == {"status": "ok", "reversed": count, "kept": 0}
    with tenants.session("acme"):
        assert all_files() == files_before
        ((created,),) = rows("SELECT count(*) FROM event WHERE type = 'lead.created'")
        assert created == count, "no lead was imported twice"
