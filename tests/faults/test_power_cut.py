"""Power cuts: what the server and the command line had acknowledged is there afterwards.

The real processes are traced while they write; the data folder is made anew as it may be after a
cut at many places of the trace, and opened by the real application. Unless all counts are asked
for, power is cut at a few places of one run, in which the server writes and a tenant is restored.
"""

import contextlib
import gzip
import http.client
import os
import random
import sqlite3
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from crm import create_app
from crm.config import Config
from crm.storage.sqlite import migrations
from crm.storage.sqlite.archive_file import check_copy
from tests import releases
from tests.copies import list_copies_before_upgrades
from tests.faults.power_cuts import NOT_PROMISED, Cut, Disk, Trace, build_tracer
from tests.faults.traced_runs import Recovered, Run, at_names, cut, places, server, told
from tests.faults.traffic import Caller, Operation, Writer

pytestmark = [pytest.mark.files, pytest.mark.process, pytest.mark.slow]

CUTS = int(os.environ.get("CUTS", 12))
WRITERS = 3
PAUSE_SECONDS = 0.05  # of a writer, while commands do their work beside it
LIVE_LEADS = "SELECT id, name, version FROM lead WHERE deleted_at IS NULL ORDER BY id"
# What changes through mmap, and a named pipe: nothing of it is promised.
UNTRACED = ("counters", "bell")


@pytest.fixture(scope="module")
def tracer(tmp_path_factory):
    return build_tracer(tmp_path_factory.mktemp("tracer"))


def begin(tracer: Path, folder: Path, mutation: str = "") -> Run:
    folder.mkdir(exist_ok=True)
    program = ["tests/faults/mutated.py", mutation] if mutation else ["app.py"]
    run = Run(Trace(tracer, folder / "trace", folder / "data"))
    run.command = [sys.executable, *program]
    run.key = run.create_tenant("acme")
    return run


def write(
    run: Run,
    workers: int,
    act: Callable[[int], None],
    writers: int = WRITERS,
    pause_seconds: float = PAUSE_SECONDS,
) -> None:
    """Have writers write to a server while `act(port)` runs."""
    caller = Caller(run.key)
    place = run.trace.place
    run.writers = [Writer(number, caller, place, pause_seconds) for number in range(writers)]
    with server(run, workers) as port:
        caller.port = port
        for writer in run.writers:
            writer.start()
        act(port)
        for writer in run.writers:
            writer.over.set()
        for writer in run.writers:
            writer.join(60)
            if writer.error:
                raise writer.error
            assert not writer.is_alive()


def operate(run: Run, port: int) -> None:
    """What an operator does while the server is written to."""
    folder = run.trace.root.parent
    link = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    with contextlib.closing(link):
        link.request("GET", "/login", headers={"Host": "acme.localhost"})
        assert b"csrf_token" in link.getresponse().read()
    ended = run.trace.place()
    made = (run.trace.root / "secret.key").read_bytes()
    run.operator.append(Operation("GET /login", ended, ended, {"secret.key": made.hex()}))

    globex = Caller(run.create_tenant("globex"), "globex")
    globex.port = port

    def names() -> dict[str, Any]:
        return {"names globex": sorted(lead["name"] for lead in globex.look("/leads"))}

    def add(name: str) -> None:
        begun = run.trace.place()
        status, said = globex.call("POST", "/leads", {"name": name, "phone": "+380501234567"})
        assert status == 201, said
        ended = run.trace.place()
        run.operator.append(Operation(name, begun, ended, names()))

    rows = "".join(f"Лід із файлу {number},{number}@file.example\n" for number in range(30))
    (folder / "leads.csv").write_text(f"name,email\n{rows}", "utf-8")
    add("before the copy")
    (copy,) = run.back_up("globex")
    add("after the copy")
    run.restored.add("globex")
    run.do(lambda _: names(), "restore", "globex", copy, "--yes")
    add("after the restore")
    run.do(lambda _: names(), "leads", "import", "globex", folder / "leads.csv")
    run.back_up()
    run.restored.add("omega")
    run.do(lambda _: {"tenant omega": True}, "restore", "omega", copy, "--yes")


@pytest.fixture(scope="module")
def app():
    return create_app(Config(data=Path("unused")), sends=False)


@pytest.mark.deep
@pytest.mark.parametrize("workers", [1, 2])
def test_what_was_answered_outlives_a_power_cut(tracer, app, tmp_path, workers):
    run = begin(tracer, tmp_path / "run")
    write(run, workers, lambda port: operate(run, port))
    kinds = Counter(what.what.split("/")[1] for w in run.writers for what in w.operations)
    nouns = {"leads", "products", "clients", "deals", "tasks", "webhooks"}
    assert nouns <= set(kinds), kinds
    is_like_the_folder(run, tmp_path / "whole")
    at = places(run, CUTS // 2)
    result = cut(app, run, tmp_path, at)
    assert not result, told(result)


def some_of(at: list[tuple[int, Cut]], count: int) -> list[tuple[int, Cut]]:
    return sorted(random.Random(1).sample(at, min(len(at), count)), key=lambda each: each[0])


def all_answers(run: Run) -> list[Operation]:
    """Those of all writers, in the order of their ends."""
    answers = [operation for writer in run.writers for operation in writer.operations]
    return sorted(answers, key=lambda operation: operation.ended)


def is_like_the_folder(run: Run, folder: Path) -> None:
    """The trace has seen everything: played to its end it gives the folder, byte by byte."""
    disk = Disk(run.trace)
    disk.play(run.trace.place())
    disk.write_to(folder, Cut("kept", 0))

    def files(within: Path) -> dict[str, bytes]:
        return {
            str(path.relative_to(within)): path.read_bytes()
            for path in within.rglob("*")
            if path.is_file() and not path.name.endswith(NOT_PROMISED) and path.name not in UNTRACED
        }

    expected, result = files(run.trace.root), files(folder)
    assert sorted(expected) == sorted(result)
    assert [name for name in result if result[name] != expected[name]] == []


@pytest.mark.deep
def test_a_restore_beside_a_server_happens_wholly_or_not_at_all(tracer, app, tmp_path):
    run = begin(tracer, tmp_path / "run")
    caller = Caller(run.key)
    run.restored.add("acme")
    with server(run, 1) as port:
        caller.port = port
        caller.call("POST", "/leads", {"name": "in the copy", "phone": "+380501234567"})
        (copy,) = run.back_up("acme")
        begun = run.trace.place()
        for number in range(10):  # they are in the log when the file is replaced
            caller.call("POST", "/products", {"name": f"Стіл {number}", "price": 1})
        caller.call("POST", "/leads", {"name": "undone", "phone": "+380501234567"})
        ended = run.trace.place()
        both = {"names acme": ["in the copy", "undone"]}
        run.operator.append(Operation("POST /leads", begun, ended, both))
        words = ("restore", "acme", copy, "--yes")
        run.do(lambda _: {"names acme": ["in the copy"]}, *words)
    restore = run.operator[-1]
    at = at_names(run, restore.begun, restore.ended)
    result = cut(app, run, tmp_path, at)
    assert not result, told(result)


@pytest.mark.deep
def test_tenants_are_made_cloned_and_deleted_wholly_or_not_at_all(tracer, app, tmp_path):
    run = begin(tracer, tmp_path / "run")
    globex = Caller(run.create_tenant("globex"), "globex")
    with server(run, 1) as port:
        globex.port = port
        for number in range(10):  # they are in the log when the file is cloned and deleted
            globex.call("POST", "/leads", {"name": f"Лід {number}", "phone": "+380501234567"})
        begun = run.trace.place()
        names = [f"Лід {number}" for number in range(10)]
        run.operator[:] = [Operation("POST /leads", begun, begun, {"names globex": names})]
        run.do(lambda _: {"names copy": names}, "tenant", "clone", "globex", "copy")
        run.do(lambda _: {"names globex": None}, "tenant", "delete", "globex", "--yes")
        run.do(lambda _: {"names globex": []}, "tenant", "create", "globex")
        run.restored |= {"globex", "copy"}
    at = some_of(at_names(run, begun), 3 * CUTS)
    result = cut(app, run, tmp_path, at)
    assert not result, told(result)


@pytest.mark.deep
def test_an_upgrade_has_the_copy_from_before_it(tracer, app, tmp_path):
    frozen = min(releases.FOLDER.glob("*.db.gz"))
    trace = Trace(tracer, tmp_path / "trace", tmp_path / "data")
    tenants = trace.root / "tenants"
    tenants.mkdir(parents=True)
    (tenants / "acme.db").write_bytes(gzip.decompress(frozen.read_bytes()))
    with contextlib.closing(sqlite3.connect(tenants / "acme.db")) as file:
        (old,) = file.execute("PRAGMA user_version").fetchone()
        leads = file.execute(LIVE_LEADS).fetchall()
    trace.begin_with_folder()
    run = Run(trace, command=[sys.executable, "app.py"])
    run.do(lambda _: {}, "migrate")
    at = at_names(run, 0)
    at += [(change.end, Cut("mixed", change.end)) for change in trace.changes()][:: 400 // CUTS]
    disk = Disk(trace)
    versions = set()
    for number, (place, how) in enumerate(sorted(at, key=lambda each: each[0])):
        disk.play(place)
        folder = tmp_path / f"cut-{number}"
        disk.write_to(folder, how)
        copies = list_copies_before_upgrades(folder, "acme")
        assert [check_copy(copy) for copy in copies] in ([], [old])
        with contextlib.closing(sqlite3.connect(folder / "tenants" / "acme.db")) as file:
            (version,) = file.execute("PRAGMA user_version").fetchone()
            assert file.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
            assert file.execute(LIVE_LEADS).fetchall() == leads
        versions.add(version)
        assert version == old or copies, (number, place, how.way)
        recovered = Recovered(app, run, folder)
        assert recovered.look("tenant acme")
        app.tenants.forget_idle()
    # Each step is a transaction of its own.
    newest = len(migrations.STEPS)
    assert {old, newest} <= versions <= set(range(old, newest + 1))


# Proofs that a loss would be seen


def after_each(operations: list[Operation]) -> list[tuple[int, Cut]]:
    """Cuts just after answers, in which everything is lost that was not synced."""
    return [
        (operation.ended, Cut("dropped", 0))
        for operation in sorted(operations, key=lambda o: o.ended)
    ]


@pytest.mark.deep
def test_commits_without_a_sync_are_seen_to_be_lost(tracer, app, tmp_path):
    run = begin(tracer, tmp_path / "run", "commit_without_sync")
    write(run, 1, lambda port: time.sleep(2))
    at = places(run, max(CUTS, 20))
    result = cut(app, run, tmp_path, at)
    assert result
    (tmp_path / "answers").mkdir()
    answers = run.writers[0].operations[2:9]
    result = cut(app, run, tmp_path / "answers", after_each(answers))
    assert len(result) == len(answers), told(result)


@pytest.mark.deep
def test_answers_before_the_commit_are_seen_to_be_lost(tracer, app, tmp_path):
    run = begin(tracer, tmp_path / "run", "answer_before_commit")
    write(run, 1, lambda port: time.sleep(2), writers=12, pause_seconds=0)
    answers = all_answers(run)
    assert cut(app, run, tmp_path, after_each(answers[:: max(1, len(answers) // CUTS)]))


@pytest.mark.deep
def test_names_without_a_sync_are_seen_to_be_lost(tracer, app, tmp_path):
    run = begin(tracer, tmp_path / "run", "sync_nothing")
    run.back_up("acme")
    result = cut(app, run, tmp_path, after_each(run.operator[-1:]))
    assert len(result) == 1
    assert "copy backups/acme" in told(result)
