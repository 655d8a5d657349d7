"""kill -9 of the server and of the commands beside it, under all kinds of writes: what was answered
is there, once, and nothing is there in parts."""

import contextlib
import os
import random
import re
import sqlite3
import subprocess
import sys
import threading
import time
from collections import Counter
from itertools import count
from pathlib import Path

import pytest

from crm.access import api_keys
from crm.installation.tenants import Tenants
from crm.resources import tenant, users
from crm.storage.sqlite import archive_file as copying
from tests.faults.killing import environ, kill, killed
from tests.faults.losses import faults_inside, losses
from tests.faults.traffic import Caller, Strange, Writer
from tests.installations import config_for, environ_for, on_postgres
from tests.server_process import ROOT, run_server
from tests.tables import file_of
from tests.waiting import wait_for

pytestmark = [pytest.mark.process, pytest.mark.slow]

KILLS = int(os.environ.get("KILLS", 6))  # in 6, each command beside two workers and beside one
WRITERS = 4
GROWTH = 60  # answers between two kills at least,
LINGER_SECONDS = 0.1  # after a command has begun its work, at most
PATIENCE_SECONDS = 60
PAUSE_SECONDS = 0.02  # of a writer: commands are to begin in time
COMMANDS = ("leads", "backup", "restore")
SETTINGS = {"CRM_PLANS": "business=0"}
ROWS = 200  # of a file that is imported
COPIES = 5  # kept of a tenant


class Operator(threading.Thread):
    """The command line beside the server: imports, backups and restores, again and again."""

    def __init__(self, data: Path, acme: Caller, globex: Caller) -> None:
        super().__init__(daemon=True)
        self.data, self.acme, self.globex = data, acme, globex
        self.over = threading.Event()
        self.error: Exception | None = None
        self.command: subprocess.Popen[str] | None = None
        self.words: tuple[object, ...] = ()  # of the command
        self.killed: Counter[str] = Counter()  # commands, and those below at their end
        self.ended: Counter[str] = Counter()
        self.names = ["in the copy"]  # of globex

    def run(self) -> None:
        try:
            self.globex.call("POST", "/leads", {"name": self.names[0], "phone": "0501234567"})
            copies = self.data / "own"
            while not self.act("backup", "create", "globex", "--to", copies):
                pass
            copy = min(copies.glob("globex-*.db"))  # more, if it was killed when it had made one
            for number in count():
                self.bring(f"F-{number}")
                self.act("backup", "create", "--keep", COPIES)
                self.restore(copy, f"undone-{number}")
                if self.over.is_set():
                    return
        except Exception as error:
            self.error = error

    def is_at_work(self, name: str) -> bool:
        """Has that command a file of the data folder open, or a connection to the database? Most
        of its time it only starts."""
        if name not in self.words[:1]:
            return False
        with contextlib.suppress(OSError, AttributeError):
            files = Path(f"/proc/{self.command.pid}/fd").iterdir()
            work = (f"{self.data}/", "socket:") if on_postgres() else (f"{self.data}/",)
            return any(os.readlink(file).startswith(work) for file in files)
        return False

    def act(self, *words: object) -> bool:
        """Did the command come to its end? Else it was killed, or had to give way."""
        self.words = words
        command = [sys.executable, "app.py", *map(str, words), "--data", str(self.data)]
        self.command = command = subprocess.Popen(
            command, cwd=ROOT, env=environ(**environ_for(self.data)),
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        _, said = command.communicate(timeout=PATIENCE_SECONDS)
        if command.returncode > 0 and "try again" not in said:
            raise Strange(f"{words}: {said}")
        (self.killed if command.returncode else self.ended)[str(words[0])] += 1
        return not command.returncode

    def bring(self, source: str) -> None:
        """Import a file: all of its rows are there, or none."""
        rows = "".join(f"Рядок {n},{source}-{n}@file.example,{source}\n" for n in range(ROWS))
        file = self.data / f"{source}.csv"
        file.write_text(f"name,email,source\n{rows}", "utf-8")
        while True:
            ended = self.act("leads", "import", "acme", file)
            status, said = self.acme.call("GET", f"/leads?source={source}&total=true&limit=1")
            result = said["meta"]["total"] if status == 200 else status
            if result not in ((ROWS,) if ended else (0, ROWS)):
                raise Strange(f"{result} rows of {source}")
            if result:
                return

    def restore(self, copy: Path, name: str) -> None:
        """Change the tenant, then put its copy in its place: it is there, or it is not."""
        status, said = self.globex.call(
            "POST", "/leads", {"name": name, "phone": "0501234567"}, {"Idempotency-Key": name}
        )
        if status != 201:
            raise Strange(f"{status}: {said}")
        self.names.append(name)
        before, restored = sorted(self.names), ["in the copy"]
        ended = self.act("restore", "globex", copy, "--yes")
        results = sorted(lead["name"] for lead in self.globex.look("/leads?limit=200"))
        if results not in ([restored] if ended else [before, restored]):
            raise Strange(f"globex has {results} after a restore, instead of {restored}")
        self.names = results


@pytest.fixture
def cast(tmp_path):
    """Keys of acme and globex."""
    tenants = Tenants(config_for(tmp_path))
    keys = []
    for label in ("acme", "globex"):
        tenant.open_tenant(tenants, label, plan="business")
        with tenants.session(label):
            keys.append(api_keys.create("writer", "*", users.owner_id())[1])
    tenants.forget_idle()
    return keys


@pytest.mark.parametrize("kills", [1, pytest.param(KILLS, marks=pytest.mark.deep)])
def test_kill_9_loses_doubles_and_halves_nothing(tmp_path, cast, kills):
    acme, globex = Caller(cast[0]), Caller(cast[1], "globex")
    writers = [Writer(number, acme, pause_seconds=PAUSE_SECONDS) for number in range(WRITERS)]
    operator = Operator(tmp_path, acme, globex)
    dice = random.Random(9)

    def answers() -> int:
        for item in (*writers, operator):
            if item.error:
                raise item.error
        return sum(len(writer.operations) for writer in writers)

    def write_on(port: int, command: str) -> None:
        """Until there are more answers, and all of them, and a command, in the midst of their
        next."""
        acme.port = globex.port = port
        wanted = answers() + GROWTH
        for item in (*writers, operator):
            if not item.ident:
                item.start()
        wait_for(lambda: answers() >= wanted, PATIENCE_SECONDS, "the writers get no answers")
        until = time.monotonic() + PATIENCE_SECONDS
        while not operator.is_at_work(command):
            answers()
            assert time.monotonic() < until, f"{command} is never at work"
            time.sleep(0.002)
        time.sleep(LINGER_SECONDS * dice.random())

    try:
        for number in range(kills):
            with killed(tmp_path, workers=2 - number % 2, **SETTINGS) as port:
                write_on(port, COMMANDS[number % len(COMMANDS)])
                if operator.command and operator.command.poll() is None:
                    kill(operator.command.pid)
            check_copies(tmp_path)
        with run_server(tmp_path, **SETTINGS) as port:
            write_on(port, "restore")  # the last one of a round
            for item in (*writers, operator):
                item.over.set()
            for item in (*writers, operator):
                item.join(PATIENCE_SECONDS)
                assert not item.is_alive()
            answers()
            lost = [loss for writer in writers for loss in losses(writer.operations, acme.look)]
    finally:
        for item in (*writers, operator):
            item.over.set()
        acme.stopped.set()
        globex.stopped.set()
    killed_commands = sum(operator.killed.values())
    assert lost == []
    assert acme.interrupted >= kills
    assert killed_commands >= kills // 3, (operator.killed, operator.ended)
    assert {*operator.killed, *operator.ended} == set(COMMANDS)
    check(tmp_path, writers)
    assert check_copies(tmp_path) == {"acme", "globex"}


def check_copies(data: Path) -> set[str]:
    """Copies that have a name are whole; gives whose they are."""
    copies = copying.list_copies(data / "backups")
    for copy in (copy for item in copies.values() for copy in item):
        with contextlib.suppress(FileNotFoundError):  # a newer one took its place
            assert copying.check_copy(copy)
    return set(copies)


def check(data: Path, writers: list[Writer]) -> None:
    """The files are whole, and have each record once."""
    tenants = Tenants(config_for(data))
    acme, globex = (file_of(tenants, label) for label in ("acme", "globex"))
    assert list(faults_inside(acme)) == []
    assert list(faults_inside(globex, has_gaps=True)) == []
    made: Counter[str] = Counter()
    for what in (operation.what for writer in writers for operation in writer.operations):
        if what.startswith("POST") and what.endswith("/convert"):
            made.update(["client.created", "deal.created", "lead.converted"])
        elif results := re.fullmatch(r"POST /(lead|client|deal|product|task)s", what):
            made[f"{results[1]}.created"] += 1
        elif what == "POST /products/import":
            made["product.imported"] += 1
        elif what.endswith("/complete"):
            made["task.completed"] += 1
    with contextlib.closing(sqlite3.connect(acme)) as file:
        results = dict(
            file.execute(
                "SELECT type, count(*) FROM event WHERE noun <> 'lead' OR type <> 'lead.created'"
                " OR record_id IN (SELECT id FROM lead WHERE source IS NULL"
                " OR source NOT LIKE 'F-%') GROUP BY type"
            )
        )
    assert {kind: results.get(kind) for kind in made} == dict(made)
