"""The real thing: `app.py serve` as a process of its own, on loopback."""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PATIENCE = 30  # seconds until it listens


@contextmanager
def running(data: Path, **settings: str) -> Iterator[int]:
    """The port of a server on that data folder; it must end well, without a word of complaint."""
    port = free_port()
    command = [sys.executable, "app.py", "serve", "--data", str(data), "--port", str(port)]
    environ = {name: value for name, value in os.environ.items() if not name.startswith("CRM_")}
    with serving(command, port, cwd=ROOT, env=environ | settings):
        yield port


@contextmanager
def serving(command: list[str], port: int, **how: Any) -> Iterator[subprocess.Popen[str]]:
    """A process that listens there, started as Popen takes it; it must end well."""
    server = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, **how)
    try:
        wait_for(port, server)
        yield server
    finally:
        server.terminate()
        said = server.communicate(timeout=PATIENCE)[1]
    assert server.returncode == 0, said
    assert "Traceback" not in said, said


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
    raise AssertionError(f"the server ended: {server.communicate()[1]}")
