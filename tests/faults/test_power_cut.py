"""Power cuts: what the server and the command line had acknowledged is there afterwards.

The real processes are traced while they write; the data folder is made anew as it may be after a
cut at many places of the trace, and opened by the real application.
"""

import contextlib
import http.client
import json
import os
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from crm import CRMApp, cabinet, create_app
from crm.config import PLANS, Config
from crm.tenancy import backup
from crm.tenancy.tenants import Tenants
from tests.faults.power_cuts import NOT_PROMISED, Cut, Disk, Trace, build_tracer
from tests.faults.traffic import (
    Caller,
    Operation,
    Strange,
    Writer,
    faults_inside,
    losses,
    view_of,
)
from tests.running import ROOT, free_port, serving

CUTS = int(os.environ.get("CUTS", 20))
WRITERS = 3
PAUSE_SECONDS = 0.01
UNLIMITED = {"CRM_PLANS": "business=0,start=0"}
# What changes through mmap, and a named pipe: nothing of it is promised.
UNTRACED = ("counters", "bell")
Did = Callable[
    [str, object], None
]  # pytest's record_property: figures for tests/faults/__main__.py


@dataclass
class Run:
    """A traced run: its trace, and who did what when."""

    trace: Trace
    key: str = ""
    command: list[str] = field(default_factory=list)  # the program
    operator: list[Operation] = field(default_factory=list)
    writers: list[Writer] = field(default_factory=list)
    restored: set[str] = field(default_factory=set)  # labels

    def run(self, *words: str | Path) -> str:
        """A command of the command line; what it wrote."""
        environ = {name: value for name, value in os.environ.items() if name[:4] != "CRM_"}
        done = subprocess.run(
            [*self.command, *map(str, words), "--data", str(self.trace.root)],
            cwd=ROOT,
            env=environ | self.trace.environ(),
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def do(self, after: Callable[[str], dict[str, Any]], *words: str | Path) -> str:
        """A command that changes what `after` tells, by what it wrote."""
        begun = self.trace.place()
        wrote = self.run(*words)
        ended = self.trace.place()
        what = " ".join(map(str, words))
        self.operator.append(Operation(what, begun, ended, after(wrote)))
        return wrote

    def create_tenant(self, label: str) -> str:
        """A tenant and its key; gives the key."""
        self.do(lambda _: {f"tenant {label}": True}, "tenant", "create", label,
                "--plan", "business", "--owner-name", "Olena")  # fmt: skip
        return self.create_key(label)

    def create_key(self, label: str) -> str:
        wrote = self.do(
            lambda wrote: {f"key {label} {wrote.split()[-1]}": True},
            *("key", "create", label, "--name", "tests"),
        )
        return wrote.split()[-1]

    def back_up(self, *words: str) -> list[Path]:
        """Copies of tenants; gives their paths."""

        def copies(wrote: str) -> dict[str, Any]:
            paths = [Path(line.split("\t")[0]) for line in wrote.splitlines()]
            return {f"copy {path.relative_to(self.trace.root)}": True for path in paths}

        self.do(copies, "backup", "create", *words)
        return [self.trace.root / path.removeprefix("copy ") for path in self.operator[-1].after]


@contextlib.contextmanager
def server(run: Run, workers: int) -> Iterator[int]:
    """The port of a traced server."""
    port = free_port()
    command = [*run.command, "serve", "--data", str(run.trace.root), "--port", str(port)]
    environ = {name: value for name, value in os.environ.items() if name[:4] != "CRM_"}
    environ |= UNLIMITED | run.trace.environ()
    with serving([*command, "--workers", str(workers)], port, cwd=ROOT, env=environ):
        yield port


@pytest.fixture(scope="module")
def tracer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_tracer(tmp_path_factory.mktemp("tracer"))


def begin(tracer: Path, folder: Path, mutation: str = "") -> Run:
    folder.mkdir(exist_ok=True)
    program = ["tests/faults/mutated.py", mutation] if mutation else ["app.py"]
    run = Run(Trace(tracer, folder / "trace", folder / "data"))
    run.command = [sys.executable, *program]
    run.key = run.create_tenant("acme")
    return run


def write(run: Run, workers: int, act: Callable[[int], None]) -> None:
    """Have writers write to a server while `act(port)` runs."""
    caller = Caller(run.key)
    place = run.trace.place
    run.writers = [Writer(number, caller, place, PAUSE_SECONDS) for number in range(WRITERS)]
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
    (copy,) = run.back_up("--tenant", "globex")
    add("after the copy")
    run.restored.add("globex")
    run.do(lambda _: names(), "restore", copy, "--tenant", "globex", "--yes")
    add("after the restore")
    run.do(lambda _: names(), "import", "leads", folder / "leads.csv", "--tenant", "globex")
    run.back_up("--all")
    run.restored.add("omega")
    run.do(lambda _: {"tenant omega": True}, "restore", copy, "--tenant", "omega", "--yes")


# A folder after a cut


class Recovered:
    """The real application at a data folder."""

    def __init__(self, app: CRMApp, run: Run, folder: Path):
        self.app, self.run, self.folder = app, run, folder
        app.tenants = Tenants(Config(data=folder, plans=dict.fromkeys(PLANS, 0)), time.time)
        app.limiter.__init__(app.tenants.counters)
        cabinet.begin_counting(app)
        self.client = app.test_client()

    def get(self, label: str, path: str, key: str = "") -> Any:
        headers = {"Host": f"{label}.localhost"}
        if key:
            headers["Authorization"] = f"Bearer {key}"
        return self.client.get(path, headers=headers)

    def look(self, path: str) -> Any:
        """The view of a record of acme, or of what `Run` tells of; None: it is not there."""
        match path.split():
            case ["secret.key"]:
                return self.app.tenants.secret_key().hex()
            case ["tenant", label]:
                status = self.get(label, "/api/v1/users/me").status_code
                if status == 401:
                    return True
            case ["key", label, key]:
                status = self.get(label, "/api/v1/users/me", key).status_code
                if status == 200:
                    return True
                if status == 401:  # the tenant is there, the key not yet
                    return None
            case ["copy", name]:
                copy = self.folder / name
                return True if copy.exists() and backup.check(copy) else None
            case ["names", label]:
                tenants = self.app.tenants
                if not tenants.exists(label):
                    return None
                with tenants.visit(label):
                    from crm.resources.leads.record import LEAD

                    return sorted(lead["name"] for lead in LEAD.every("1"))
            case _:
                answer = self.get("acme", f"/api/v1{path}", self.run.key)
                return view_of(path, answer.status_code, answer.json)
        if status == 404:
            return None
        raise Strange(f"{path}: {status}")

    def faults(self, cut: float) -> Iterator[str]:
        """What is wrong with it after a cut at a place of the trace."""
        for operations in (self.run.operator, *(each.operations for each in self.run.writers)):
            try:
                yield from losses(operations, self.look, cut)
            except Exception as error:
                yield repr(error)
        tenants = self.app.tenants
        for label in tenants.labels():
            try:
                self.look(f"tenant {label}")
                yield from (
                    f"{label}: {fault}"
                    for fault in faults_inside(tenants.path(label), label in self.run.restored)
                )
            except Exception as error:
                yield f"{label}: {error!r}"
        for copies in backup.copies(self.folder / "backups").values():
            for copy in copies:
                try:
                    backup.check(copy)
                except Exception as error:
                    yield f"{copy.name}: {error!r}"
        page = self.client.get("/", headers={"Host": "localhost"})
        if page.status_code not in (200, 302, 303):
            yield f"the page of the base host: {page.status_code}"
        if len(tenants.secret_key()) != 32:
            yield "secret.key cannot be used"
        tenants.forget_idle()


@pytest.fixture(scope="module")
def app() -> CRMApp:
    return create_app(Config(data=Path("unused")), sends=False)


def places(run: Run, count: int) -> list[tuple[int, Cut]]:
    """Where and how to cut, in the order of the trace: just after an answer, where losses show
    best, just after a change of names, in the midst of a command, and anywhere."""
    dice = random.Random(7)
    changes = [(change.end, change.kind in "CDLRUT") for change in run.trace.changes()]
    answers = [each.ended for writer in run.writers for each in writer.operations]
    found = []
    for number in range(count):
        command = dice.choice(run.operator)
        within = [end for end, _ in changes if command.begun < end <= command.ended]
        kinds = (
            [command.ended],
            answers,
            [end for end, is_name in changes if is_name],
            within,
            [end for end, _ in changes],
        )
        place = dice.choice(kinds[number % len(kinds)] or [command.ended])
        way = dice.choice(["dropped", "dropped", "names", "kept", *["mixed"] * 6])
        found.append((place, Cut(way, number)))
    return sorted(found, key=lambda each: each[0])


def cut(app: CRMApp, run: Run, folder: Path, at: list[tuple[int, Cut]]) -> dict[str, list[str]]:
    """What is wrong after each of the cuts."""
    disk = Disk(run.trace)
    found = {}
    for number, (place, how) in enumerate(at):
        disk.play(place)
        recovered = folder / f"cut-{number}"
        disk.write_to(recovered, how)
        if faults := list(Recovered(app, run, recovered).faults(place)):
            found[f"{recovered} at {place}, {how.way}"] = faults
    return found


def told(found: dict[str, list[str]]) -> str:
    return json.dumps(found, indent=1, ensure_ascii=False, default=str)[:4000]


@pytest.mark.parametrize("workers", [1, 2])
def test_what_was_answered_outlives_a_power_cut(
    tracer: Path, app: CRMApp, tmp_path: Path, workers: int, record_property: Did
) -> None:
    run = begin(tracer, tmp_path / "run")
    write(run, workers, lambda port: operate(run, port))
    kinds = Counter(what.what.split("/")[1] for w in run.writers for what in w.operations)
    nouns = {"leads", "products", "clients", "deals", "tasks", "webhooks"}
    assert nouns <= set(kinds), kinds
    is_like_the_folder(run, tmp_path / "whole")
    at = places(run, CUTS // 2)
    found = cut(app, run, tmp_path, at)
    answers = len(run.operator) + sum(len(writer.operations) for writer in run.writers)
    record_property(
        "did",
        f"{len(at)} cuts of {sum(1 for _ in run.trace.changes()):,} changes with {answers:,} "
        f"answers ({workers} processes): {len(found)} with a loss",
    )
    assert not found, told(found)


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

    expected, found = files(run.trace.root), files(folder)
    assert sorted(expected) == sorted(found)
    assert [name for name in found if found[name] != expected[name]] == []


def test_a_restore_beside_a_server_happens_wholly_or_not_at_all(
    tracer: Path, app: CRMApp, tmp_path: Path
) -> None:
    run = begin(tracer, tmp_path / "run")
    caller = Caller(run.key)
    run.restored.add("acme")
    with server(run, 1) as port:
        caller.port = port
        caller.call("POST", "/leads", {"name": "in the copy", "phone": "+380501234567"})
        (copy,) = run.back_up("--tenant", "acme")
        begun = run.trace.place()
        for number in range(10):  # they are in the log when the file is replaced
            caller.call("POST", "/products", {"name": f"Стіл {number}", "price": 1})
        caller.call("POST", "/leads", {"name": "undone", "phone": "+380501234567"})
        ended = run.trace.place()
        both = {"names acme": ["in the copy", "undone"]}
        run.operator.append(Operation("POST /leads", begun, ended, both))
        words = ("restore", copy, "--tenant", "acme", "--yes")
        run.do(lambda _: {"names acme": ["in the copy"]}, *words)
    restore = run.operator[-1]
    at = [
        (change.end, Cut(way, change.end))
        for change in run.trace.changes()
        if restore.begun < change.end <= restore.ended and change.kind in "CDLRUT"
        for way in ("dropped", "names")
    ]
    found = cut(app, run, tmp_path, at)
    assert not found, told(found)


# Proofs that a loss would be seen


def after_each(operations: list[Operation]) -> list[tuple[int, Cut]]:
    """Cuts just after answers, in which everything is lost that was not synced."""
    return [(each.ended, Cut("dropped", 0)) for each in sorted(operations, key=lambda o: o.ended)]


def test_commits_without_a_sync_are_seen_to_be_lost(
    tracer: Path, app: CRMApp, tmp_path: Path, record_property: Did
) -> None:
    run = begin(tracer, tmp_path / "run", "commit_without_sync")
    write(run, 1, lambda port: time.sleep(2))
    at = places(run, CUTS)
    found = cut(app, run, tmp_path, at)
    record_property("did", f"with synchronous=NORMAL {len(found)} of {len(at)} cuts with a loss")
    assert found
    (tmp_path / "answers").mkdir()
    answers = run.writers[0].operations[2:9]
    found = cut(app, run, tmp_path / "answers", after_each(answers))
    assert len(found) == len(answers), told(found)


def test_names_without_a_sync_are_seen_to_be_lost(
    tracer: Path, app: CRMApp, tmp_path: Path
) -> None:
    run = begin(tracer, tmp_path / "run", "sync_nothing")
    run.back_up("--tenant", "acme")
    found = cut(app, run, tmp_path, after_each(run.operator[-1:]))
    assert len(found) == 1
    assert "copy backups/acme" in told(found)


def test_a_restore_without_a_sync_of_its_folder_is_seen_to_be_lost(
    tracer: Path, app: CRMApp, tmp_path: Path
) -> None:
    for mutation, lost in (("restore_without_sync", 1), ("", 0)):
        run = begin(tracer, tmp_path / f"run-{mutation}", mutation)
        (copy,) = run.back_up("--tenant", "acme")
        run.do(lambda _: {"tenant omega": True}, "restore", copy, "--tenant", "omega", "--yes")
        folder = tmp_path / f"cuts-{mutation}"
        folder.mkdir()
        found = cut(app, run, folder, after_each(run.operator[-1:]))
        assert len(found) == lost, told(found)
        assert ("tenant omega is None" in told(found)) == bool(lost)
