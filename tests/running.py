"""The real thing: `app.py serve` as a process of its own, on loopback."""

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

from tests import log_leaks

ROOT = Path(__file__).resolve().parent.parent
PATIENCE = 30  # seconds until it listens


@contextmanager
def running(
    data: Path, *, workers: int = 1, expected: str | None = None, **settings: str
) -> Iterator[int]:
    """The port of a server on that data folder; it must end well. What it says is lines of JSON,
    none of them an error, unless it has the `expected` text."""
    port = free_port()
    command = [sys.executable, "app.py", "serve", "--data", str(data), "--port", str(port)]
    command += ["--workers", str(workers)]
    environ = {name: value for name, value in os.environ.items() if not name.startswith("CRM_")}
    with serving(command, port, expected, cwd=ROOT, env=environ | settings):
        yield port


@contextmanager
def serving(
    command: list[str], port: int, expected: str | None = None, **how: Any
) -> Iterator[subprocess.Popen[str]]:
    """A process that listens there, started as Popen takes it; it must end well."""
    with TemporaryFile("w+", encoding="utf-8") as log:  # a pipe that nobody reads would fill up
        server = subprocess.Popen(command, stderr=log, text=True, **how)
        try:
            wait_for(port, server)
            yield server
        finally:
            server.terminate()
            server.wait(timeout=PATIENCE)
            log.seek(0)
            said = log.read()
            log_leaks.heard("server", said)
    assert server.returncode == 0, said
    lines = [line for line in said.splitlines() if expected is None or expected not in line]
    assert not any(map(_is_complaint, lines)), said


def _is_complaint(line: str) -> bool:
    if line.startswith("{"):
        return json.loads(line)["level"] == "error"
    return "Traceback" in line  # a demo's lines are for people


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def wait_for(port: int, server: subprocess.Popen[str]) -> None:
    until = time.monotonic() + PATIENCE
    while server.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError:
            assert time.monotonic() < until, "the server does not listen"
            time.sleep(0.05)
    raise AssertionError(f"the server ended with {server.returncode}")
