"""Run `app.py serve`, or another server, as a separate process on loopback."""

import errno
import json
import os
import random
import socket
import subprocess
import sys
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

from tests import log_leaks
from tests.installations import environ_for
from tests.waiting import wait_for

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
    command: list[str],
    port: int,
    expected: str | None = None,
    exit_status: int = 0,
    **popen_options: Any,
) -> Iterator[subprocess.Popen[str]]:
    """Run the command until the block ends, and yield its process once it listens on the port.

    `exit_status` is that after SIGTERM. Fails as `run_server` does.
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
    assert server.returncode == exit_status, output
    lines = [line for line in output.splitlines() if expected is None or expected not in line]
    assert not any(map(_reports_error, lines)), output


def _reports_error(line: str) -> bool:
    if line.startswith("{"):
        return json.loads(line)["level"] == "error"
    return "Traceback" in line  # a demo's lines are text, not JSON


# Below the ports that the kernel gives to whoever names none: one of those would often belong to
# another test before the server that is told of it listens. Each worker of the tests has its own.
PORTS = range(10_000, 32_000)
PORTS_OF_A_WORKER = 1_000
_given: deque[int] = deque(maxlen=PORTS_OF_A_WORKER // 2)  # not again for a while


def find_free_port() -> int:
    """Return a port that nothing listens on, at any address, and that no other test will get."""
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    first = PORTS.start + worker * PORTS_OF_A_WORKER % len(PORTS)
    while True:
        port = random.randrange(first, first + PORTS_OF_A_WORKER)
        if port not in _given and is_free(port):
            _given.append(port)
            return port


def is_free(port: int) -> bool:
    """Whether nothing listens on a port, for instance what a killed run of tests has left."""
    for family, every_address in ((socket.AF_INET, "0.0.0.0"), (socket.AF_INET6, "::")):
        try:
            with socket.socket(family) as listener:
                if family == socket.AF_INET6:
                    listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
                listener.bind((every_address, port))
        except OSError as error:
            if error.errno == errno.EADDRINUSE:  # else there are no such addresses here
                return False
    return True


def wait_until_listening(port: int, server: subprocess.Popen[str]) -> None:
    """Wait until something listens on the port; fail if the process ends before."""

    def listens() -> bool:
        assert server.poll() is None, f"the server ended with {server.returncode}"
        with suppress(OSError):
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return True
        return False

    wait_for(listens, TIMEOUT_SECONDS, "the server does not listen")
