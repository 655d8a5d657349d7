"""A server process of a benchmark: started, watched in /proc, and ended with all its children."""

import os
import platform
import signal
import socket
import sqlite3
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

START_SECONDS = 60
STOP_SECONDS = 30
TICKS = os.sysconf("SC_CLK_TCK")


class ServerProcess:
    """One command, with the processes that it starts itself.

    It has a session of its own, so that Ctrl-C reaches the benchmark only, which then ends it.
    """

    def __init__(self, command: list[str], folder: Path, log: Path, **environ: str):
        known = {name: value for name, value in os.environ.items() if not name.startswith("CRM_")}
        self.log = log
        self.started = time.monotonic()
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                command,
                cwd=folder,
                env=known | environ,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )

    def check(self) -> None:
        """Raise RuntimeError with the end of its output if it has ended."""
        if self._process.poll() is not None:
            end = self.log.read_text("utf-8", "replace")[-2000:]
            raise RuntimeError(f"{self._process.args[0]} ended: {end}")

    def wait_until(self, holds: Callable[[], bool]) -> float:
        """Seconds from the start until `holds()`, which is asked every 5 ms."""
        while not holds():
            self.check()
            if time.monotonic() - self.started > START_SECONDS:
                raise RuntimeError(f"{self._process.args[0]}: no answer after {START_SECONDS} s")
            time.sleep(0.005)
        return time.monotonic() - self.started

    def ids(self) -> list[int]:
        """Process ids of the command and of all below it."""
        children: dict[int, list[int]] = {}
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                with suppress(OSError):
                    parent = int(_stat_fields(int(entry.name))[1])
                    children.setdefault(parent, []).append(int(entry.name))
        results = [self._process.pid]
        for id in results:
            results += children.get(id, [])
        return results

    def cpu_seconds(self) -> float:
        """CPU time of the whole tree, user and system, in steps of one clock tick (10 ms)."""
        fields = [_stat_fields(id) for id in self.ids()]
        return sum(int(field[11]) + int(field[12]) for field in fields) / TICKS

    def memory_mb(self) -> float:
        """Proportional set size of the whole tree: a shared page counts once."""
        total = 0
        for id in self.ids():
            rollup = Path(f"/proc/{id}/smaps_rollup").read_text("ascii")
            total += int(rollup.partition("\nPss:")[2].split()[0])
        return total * 1024 / 1e6

    def stop(self) -> None:
        """End it by SIGTERM, and what is left of its tree after STOP_SECONDS by SIGKILL."""
        ids = self.ids()
        self._process.terminate()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(STOP_SECONDS)
        for id in ids:
            # The session tells whether the id still is one of ours.
            with suppress(OSError):
                if os.getsid(id) == self._process.pid:
                    os.kill(id, signal.SIGKILL)
        self._process.wait()


def _stat_fields(id: int) -> list[str]:
    """The fields of /proc/<id>/stat from the third, the state, on (proc(5))."""
    return Path(f"/proc/{id}/stat").read_text("utf-8", "replace").rpartition(")")[2].split()


def busy_seconds() -> float:
    """CPU time that all processes of the machine have used, of all cores together (proc(5))."""
    user, nice, system, _, _, irq, softirq = map(
        int, Path("/proc/stat").read_text("ascii").split()[1:8]
    )
    return (user + nice + system + irq + softirq) / TICKS


def describe_machine() -> str:
    """Where and when figures were measured, in one line: cores, kernel, date, versions."""
    model = Path("/proc/cpuinfo").read_text("utf-8").partition("model name")[2]
    cpu = model.partition("\n")[0].strip(" \t:") or platform.machine()
    return (
        f"{os.cpu_count()} × {cpu}, Linux {platform.release().partition('-')[0]},"
        f" {datetime.now(UTC):%Y-%m-%d}, Python {platform.python_version()},"
        f" SQLite {sqlite3.sqlite_version}"
    )


def free_port() -> int:
    with socket.socket() as result:
        result.bind(("127.0.0.1", 0))
        return result.getsockname()[1]


def run(command: list[str], folder: Path, **environ: str) -> str:
    """The output of a command that must succeed."""
    known = {name: value for name, value in os.environ.items() if not name.startswith("CRM_")}
    ran = subprocess.run(
        command, cwd=folder, env=known | environ, capture_output=True, text=True, check=False
    )
    if ran.returncode:
        raise RuntimeError(f"{' '.join(command[:4])}: {ran.stderr[-2000:]}")
    return ran.stdout.strip()
