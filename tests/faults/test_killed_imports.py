"""kill -9 in a large import and an undo, at each commit: another process goes on where it was."""

import signal
from contextlib import suppress
from pathlib import Path

import pytest

from crm.errors import Conflict
from crm.installation.tenants import Tenants
from crm.records import background
from crm.resources.batches import undo
from crm.resources.products import csv_columns
from crm.spreadsheets import find_resource, import_file, import_run, read_file
from crm.spreadsheets.import_run import ImportRun
from crm.spreadsheets.options import ImportOptions
from crm.storage import chunks
from crm.storage.session import rows
from tests.concurrency import ForkServer
from tests.conftest import Clock
from tests.csv_helpers import all_files
from tests.faults.killing import die_at_commit
from tests.installations import config_for
from tests.resources.test_undo import FILES, fill

pytestmark = [pytest.mark.process, pytest.mark.slow]

MORE = ("deals", "products")  # imported by other code


def be_killed(data: str, kind: str, id: int, moment: float, number: int, when: str) -> None:
    """Do the work in a process that is killed before or after its n-th commit."""
    tenants = Tenants(config_for(Path(data)), at(moment))
    chunks.CHUNK_SECONDS = 0
    with tenants.session("acme") as session:
        die_at_commit(session, number, when)
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
    monkeypatch.setattr(csv_columns, "CHUNK_ROWS", 2)
    data = crm.tenants.config.data
    with crm.tenants.session("globex"):
        file = read_file(FILES[plural].encode(), find_resource(plural))
        fill()
        expected = import_file(file)
    with crm.tenants.session("acme"):
        fill()
        before = all_files()
        id = import_run.start(file, "файл.csv")[0].id
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


@pytest.mark.parametrize("when", ["after", pytest.param("before", marks=pytest.mark.deep)])
def test_an_import_that_adds_a_field_and_its_undo_that_are_killed(crm, clock, when):
    data = crm.tenants.config.data
    lines = "".join(f"Lead {n},+38050111220{n},дуб\n" for n in range(5))
    field = {"new_field": {"key": "wood", "type": "text", "filtered": True}}
    options = ImportOptions({"name": "name", "phone": "phone", "Порода": field})
    with crm.tenants.session("acme"):
        text = f"name,phone,Порода\n{lines}".encode()
        file = read_file(text, find_resource("leads"), options=options)
        id = import_run.start(file, "ліди.csv")[0].id
    crm.tenants.forget_idle()
    live = "FROM lead JOIN custom_text ON record_id = lead.id WHERE deleted_at IS NULL"
    with ForkServer(__name__) as worker:
        assert until_done(worker, data, clock, "import", id, when) >= 2
        with crm.tenants.session("acme"):
            assert rows("SELECT key FROM custom_field") == [("wood",)]
            assert rows(f"SELECT custom, value {live}") == [('{"wood":"дуб"}', "дуб")] * 5
            batch_id = ImportRun.find(id).batch_id
        assert until_done(worker, data, clock, "undo", batch_id, when) >= 2
    with crm.tenants.session("acme"):
        assert rows("SELECT key FROM custom_field WHERE deleted_at IS NULL") == []
        assert rows(f"SELECT value {live}") == []


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
