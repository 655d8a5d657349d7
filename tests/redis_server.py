"""A real redis-server on a free port of 127.0.0.1, for one test or for a whole run."""

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from crm.api.admission import Limiter
from crm.config import RedisAddress
from crm.limits import open_store
from crm.limits.windows import Store
from tests.external_programs import found
from tests.server_process import find_free_port, wait_until_listening

STOP_TIMEOUT_SECONDS = 10


class RedisProcess:
    """A redis-server that can be stopped, killed, made to hang, and started again on its port."""

    def __init__(self, folder: Path, *options: str, port: int | None = None):
        """`options` are those of redis-server's command line. It stores nothing on the disk."""
        self.port = port or find_free_port()
        self._folder = folder
        self._options = options
        self._process: subprocess.Popen[str] | None = None

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    @property
    def address(self) -> RedisAddress:
        return RedisAddress("127.0.0.1", self.port)

    def start(self) -> None:
        """Start it, and wait until it listens."""
        command = [found("redis-server"), "--port", str(self.port), "--bind", "127.0.0.1"]
        command += ["--save", "", "--dir", str(self._folder), "--loglevel", "warning"]
        process = subprocess.Popen(
            [*command, *self._options], stdout=subprocess.DEVNULL, text=True, cwd=self._folder
        )
        self._process = process
        wait_until_listening(self.port, process)

    def kill(self) -> None:
        """Kill it with SIGKILL: its counts are lost."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """Stop it if it runs, also if it hangs."""
        if self._process is not None:
            self.resume()
            self._end(signal.SIGTERM)

    def hang(self) -> None:
        """Let it answer nothing, while the system still accepts connections for it."""
        self._send(signal.SIGSTOP)

    def run(self, *command: str) -> Any:
        """Send one command by a connection of its own, and return the answer."""
        import redis  # not where only the address is used

        connection = redis.Connection(port=self.port, protocol=2)
        try:
            connection.send_command(*command)
            return connection.read_response()
        finally:
            connection.disconnect()

    def resume(self) -> None:
        self._send(signal.SIGCONT)

    def _send(self, number: int) -> None:
        assert self._process is not None
        os.kill(self._process.pid, number)

    def _end(self, number: int) -> None:
        assert self._process is not None
        self._send(number)
        try:
            self._process.wait(timeout=STOP_TIMEOUT_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process = None


def wait_for_window(seconds: float = 20.0) -> None:
    """Wait until this minute of Redis' clock, which is this machine's, still lasts so long."""
    left = 60 - time.time() % 60
    if left < seconds:
        time.sleep(left + 0.05)


@contextmanager
def run_redis(folder: Path, *options: str) -> Iterator[RedisProcess]:
    """Run a redis-server until the block ends."""
    server = RedisProcess(folder, *options)
    server.start()
    try:
        yield server
    finally:
        server.stop()


@pytest.fixture(scope="session")
def redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisProcess]:
    """A Redis of all tests that leave it as it is; their secrets tell installations apart."""
    with run_redis(tmp_path_factory.mktemp("redis")) as server:
        yield server


@pytest.fixture(params=["file", pytest.param("redis", marks=pytest.mark.process)])
def any_counters(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    """The counts of one machine, and those of several: in Redis windows are real minutes."""
    secret = str(tmp_path).encode()[-60:]
    if request.param == "file":
        return open_store(None, tmp_path, lambda: secret)
    server = request.getfixturevalue("redis")
    wait_for_window(5)
    return open_store(server.address, tmp_path, lambda: secret)


@pytest.fixture
def any_limiter(any_counters: Store) -> Limiter:
    return Limiter(any_counters)
