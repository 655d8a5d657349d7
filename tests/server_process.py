"""Run `app.py serve`, or another server, as a separate process on loopback."""

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
from tests.installations import environ_for

ROOT = Path(__file__).resolve().parent.parent
TIMEOUT_SECONDS = 30  # to start, and to stop


@contextmanager
def run_server(
    data: Path, *, workers: int = 1, expected: str | None = None, **settings: str
) -> Iterator[int]:
    """Run `app.py serve` on the data folder and yield its port.

    `settings` are environment variables. Fails if the process ends with an error or logs one,
    except in lines that contain the `expected` text.
    """
    port = find_free_port()
    command = [sys.executable, "app.py", "serve", "--data", str(data), "--port", str(port)]
    command += ["--workers", str(workers)]
    environ = {name: value for name, value in os.environ.items() if not name.startswith("CRM_")}
    with run_listening_process(
        command, port, expected, cwd=ROOT, env=environ | environ_for(data) | settings
    ):
        yield port


@contextmanager
def run_listening_process(
    command: list[str], port: int, expected: str | None = None, **popen_options: Any
) -> Iterator[subprocess.Popen[str]]:
    """Run the command until the block ends, and yield its process once it listens on the port.

    Fails as `run_server` does.
    """
    # A file, because a pipe that nobody reads fills up and blocks the process.
    with TemporaryFile("w+", encoding="utf-8") as log:
        server = subprocess.Popen(command, stderr=log, text=True, **popen_options)
        try:
            wait_until_listening(port, server)
            yield server
        finally:
            server.terminate()
            server.wait(timeout=TIMEOUT_SECONDS)
            log.seek(0)
            output = log.read()
            log_leaks.heard("server", output)
    assert server.returncode == 0, output
    lines = [line for line in output.splitlines() if expected is None or expected not in line]
    assert not any(map(_reports_error, lines)), output


def _reports_error(line: str) -> bool:
    if line.startswith("{"):
        return json.loads(line)["level"] == "error"
    return "Traceback" in line  # a demo's lines are text, not JSON


def find_free_port() -> int:
    """Return a port of 127.0.0.1 that nothing listens on at this moment."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def wait_until_listening(port: int, server: subprocess.Popen[str]) -> None:
    """Wait until something listens on the port; fail if the process ends before."""
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while server.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError:
            assert time.monotonic() < deadline, "the server does not listen"
            time.sleep(0.05)
    raise AssertionError(f"the server ended with {server.returncode}")
