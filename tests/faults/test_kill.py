"""kill -9 of the whole server while clients write: what was answered is there, once."""

import contextlib
import http.client
import json
import os
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from running import ROOT, free_port, running, wait_for

KILLS = 3
WRITERS = 4
GROWTH = 40  # answers between two kills
PATIENCE = 20  # seconds


@contextlib.contextmanager
def killed(data: Path, workers: int) -> Iterator[int]:
    """The port of a server that is killed at the end; no worker must outlive it."""
    port = free_port()
    command = [sys.executable, "app.py", "serve", "--data", str(data), "--port", str(port)]
    command += ["--workers", str(workers)]
    environ = {name: value for name, value in os.environ.items() if not name.startswith("CRM_")}
    server = subprocess.Popen(
        command,
        cwd=ROOT,
        env=environ | {"CRM_PLANS": "business=0", "CRM_LOG": "warnings"},
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        wait_for(port, server)
        yield port
    finally:
        server.kill()
        # Comes to an end when the worker, too, has let go of the pipe.
        said = server.communicate(timeout=PATIENCE)[1]
    assert "Traceback" not in said, said


class Writer(threading.Thread):
    """A client that sends each request until it is answered, to whichever port is served."""

    def __init__(self, number: int, key: str) -> None:
        super().__init__(daemon=True)
        self.number, self.key = number, key
        self.port: int | None = None
        self.over = threading.Event()
        self.answered: dict[str, str] = {}  # id of a lead: its name
        self.cut = 0
        self.strange: list[tuple[int, bytes]] = []

    def run(self) -> None:
        count = 0
        while not self.over.is_set():
            count += 1
            self.create(f"{self.number}-{count}")

    def create(self, name: str) -> None:
        headers = {
            "Host": "acme.localhost",
            "Authorization": f"Bearer {self.key}",
            "Content-Type": "application/json",
            "Idempotency-Key": name,
        }
        body = json.dumps({"name": name, "email": f"{name}@client.example"})
        while not self.over.is_set():
            link = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
            try:
                with contextlib.closing(link):
                    link.request("POST", "/api/v1/leads", body, headers)
                    answer = link.getresponse()
                    said = answer.read()
            except (OSError, http.client.HTTPException):
                self.cut += 1
                time.sleep(0.02)
                continue
            if answer.status == 201:
                self.answered[json.loads(said)["lead_id"]] = name
            else:
                self.strange.append((answer.status, said))
            return


def test_kill_9_loses_and_doubles_nothing(tmp_path: Path, key: str) -> None:
    writers = [Writer(number, key) for number in range(WRITERS)]

    def write_on(port: int) -> None:
        """Until there are more answers, and writers in the midst of their next."""
        before = answers()
        for writer in writers:
            writer.port = port
            if not writer.ident:
                writer.start()
        until = time.monotonic() + PATIENCE
        while answers() < before + GROWTH:
            assert time.monotonic() < until, "the writers get no answers"
            time.sleep(0.005)

    def answers() -> int:
        return sum(len(writer.answered) for writer in writers)

    try:
        for number in range(KILLS):
            with killed(tmp_path, workers=2 - number % 2) as port:
                write_on(port)
        with running(tmp_path, CRM_PLANS="business=0") as port:
            write_on(port)
            for writer in writers:
                writer.over.set()
                writer.join(PATIENCE)
    finally:
        for writer in writers:
            writer.over.set()
    assert [writer.strange for writer in writers] == [[]] * WRITERS
    assert sum(writer.cut for writer in writers) >= KILLS
    answered = {int(id): name for writer in writers for id, name in writer.answered.items()}
    with contextlib.closing(sqlite3.connect(tmp_path / "tenants" / "acme.db")) as file:
        assert file.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert file.execute("PRAGMA foreign_key_check").fetchall() == []
        file.execute("INSERT INTO lead_search (lead_search, rank) VALUES ('integrity-check', 1)")
        assert dict(file.execute("SELECT id, name FROM lead")) == answered
        created = file.execute(
            "SELECT sequence, record_id FROM event WHERE type = 'lead.created' ORDER BY sequence"
        ).fetchall()
        assert [sequence for sequence, _ in created] == list(range(1, len(answered) + 1))
        assert sorted(id for _, id in created) == sorted(answered)
        assert file.execute("SELECT count(*) FROM answer").fetchone() == (len(answered),)
