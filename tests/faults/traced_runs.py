"""Traced runs of the real server and command line, and folders that power cuts leave of them."""

import contextlib
import json
import os
import random
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from crm import CRMApp
from crm.config import PLANS
from crm.resources.leads.record import LEAD
from crm.storage.sqlite.archive_file import check_copy, list_copies
from tests.conftest import serve_installation
from tests.faults.losses import faults_inside, losses
from tests.faults.power_cuts import Cut, Disk, Trace
from tests.faults.traffic import Operation, Strange, Writer, view_of
from tests.installations import config_for
from tests.server_process import ROOT, find_free_port, run_listening_process

UNLIMITED = {"CRM_PLANS": "business=0,start=0"}


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
    port = find_free_port()
    command = [*run.command, "serve", "--data", str(run.trace.root), "--port", str(port)]
    environ = {name: value for name, value in os.environ.items() if name[:4] != "CRM_"}
    environ |= UNLIMITED | run.trace.environ()
    with run_listening_process([*command, "--workers", str(workers)], port, cwd=ROOT, env=environ):
        yield port


# A folder after a cut


class Recovered:
    """The real application at a data folder."""

    def __init__(self, app: CRMApp, run: Run, folder: Path):
        self.app, self.run, self.folder = app, run, folder
        serve_installation(app, config_for(folder, plans=dict.fromkeys(PLANS, 0)))
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
                return True if copy.exists() and check_copy(copy) else None
            case ["names", label]:
                tenants = self.app.tenants
                if not tenants.exists(label):
                    return None
                with tenants.session(label):
                    return sorted(lead["name"] for lead in LEAD.every("TRUE"))
            case _:
                answer = self.get("acme", f"/api/v1{path}", self.run.key)
                return view_of(path, answer.status_code, answer.json)
        if status == 404:
            return None
        raise Strange(f"{path}: {status}")

    def faults(self, cut: float) -> Iterator[str]:
        """What is wrong with it after a cut at a place of the trace."""
        for operations in (self.run.operator, *(writer.operations for writer in self.run.writers)):
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
        for copies in list_copies(self.folder / "backups").values():
            for copy in copies:
                try:
                    check_copy(copy)
                except Exception as error:
                    yield f"{copy.name}: {error!r}"
        page = self.client.get("/", headers={"Host": "localhost"})
        if page.status_code not in (200, 302, 303):
            yield f"the page of the base host: {page.status_code}"
        if len(tenants.secret_key()) != 32:
            yield "secret.key cannot be used"
        tenants.forget_idle()


def places(run: Run, count: int) -> list[tuple[int, Cut]]:
    """Where and how to cut, in the order of the trace: just after an answer, where losses show
    best, just after a change of names, in the midst of a command, and anywhere."""
    dice = random.Random(7)
    changes = [(change.end, change.kind in "CDLRUT") for change in run.trace.changes()]
    answers = [operation.ended for writer in run.writers for operation in writer.operations]
    results = []
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
        results.append((place, Cut(way, number)))
    return sorted(results, key=lambda operation: operation[0])


def at_names(run: Run, begun: int, ended: float = float("inf")) -> list[tuple[int, Cut]]:
    """Cuts after each change of a name or a length between two places: with none of what was not
    synced, and with the names alone."""
    return [
        (change.end, Cut(way, change.end))
        for change in run.trace.changes()
        if begun < change.end <= ended and change.kind in "CDLRUT"
        for way in ("dropped", "names")
    ]


def cut(app: CRMApp, run: Run, folder: Path, at: list[tuple[int, Cut]]) -> dict[str, list[str]]:
    """What is wrong after each of the cuts."""
    disk = Disk(run.trace)
    results = {}
    for number, (place, how) in enumerate(at):
        disk.play(place)
        recovered = folder / f"cut-{number}"
        disk.write_to(recovered, how)
        if faults := list(Recovered(app, run, recovered).faults(place)):
            results[f"{recovered} at {place}, {how.way}"] = faults
    return results


def told(found: dict[str, list[str]]) -> str:
    return json.dumps(found, indent=1, ensure_ascii=False, default=str)[:4000]
