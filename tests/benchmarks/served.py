"""The real server against PocketBase and c, driven by wrk: `python -m tests.benchmarks.served`."""

import argparse
import json
import os
import random
import resource
import signal
import statistics
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tests.benchmarks.processes import busy_seconds, describe_machine
from tests.benchmarks.report import aims_table, console_table, count_errors
from tests.benchmarks.servers import (
    CREATE,
    OPERATIONS,
    Server,
    check_answers,
    find_pocketbase,
    prepare_bare,
    prepare_crm,
    prepare_floor,
    prepare_pocketbase,
    sample,
)
from tests.benchmarks.wrk import MissingProgram, find_wrk, find_wrk_version, run_wrk

ROUNDS = int(os.environ.get("ROUNDS", 5))
SECONDS = int(os.environ.get("SECONDS", 2))  # of one run of wrk
ROWS = int(os.environ.get("ROWS", 50_000))
STARTS = 5  # of each server, to measure how long a start takes
CONNECTIONS = (8, 64)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.served", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one round of 1 s: does it all work?")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there")
    options = parser.parse_args()
    rounds, seconds, starts = (1, 1, 1) if options.quick else (ROUNDS, SECONDS, STARTS)
    # SIGTERM ends the servers and removes the data as Ctrl-C does.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        find_wrk(), find_pocketbase()
        figures = measure(rounds, seconds, starts)
    except MissingProgram as missing:
        sys.exit(str(missing))
    except KeyboardInterrupt:
        sys.exit("interrupted; servers ended, data removed")
    print(console_table(figures))
    print(aims_table(figures))
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(figures, ensure_ascii=False, indent=1) + "\n", "utf-8")
    if failed := count_errors(figures):
        sys.exit(f"{failed} answers failed: the rows with ERROR are no figures")


def measure(rounds: int, seconds: int, starts: int) -> dict[str, Any]:
    """The figures of all servers, in the shape that is written as JSON."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="crm-benchmark-")))
        rows = sample(ROWS)
        _tell(f"filling each server with {ROWS} leads")
        servers = [
            *prepare_crm(folder, rows),
            *prepare_pocketbase(folder, rows),
            *prepare_bare(folder, rows),
            *prepare_floor(folder, rows),
        ]
        taken: dict[str, list[float]] = {server.name: [] for server in servers}
        for _ in range(starts):
            for server in servers:
                with running(server):
                    pass
                taken[server.name].append(server.start_seconds)
        for server in servers:
            stack.enter_context(running(server))
            check_answers(server, rows)
        runs = Rounds(servers, folder)
        # Creates come after all rounds of the others, which thus meet the same leads every time.
        for title, operations in (("reading", OPERATIONS[:-1]), ("creating", (CREATE,))):
            if CREATE in operations:
                for server in servers:
                    server.before_creates(server)
            if rounds > 1:
                _tell(f"{title}: warming up")
                runs.run_all(operations, 1)
                for operation in operations:
                    runs.taken.pop(operation)
            for turn in range(rounds):
                _tell(f"{title}: round {turn + 1} of {rounds}")
                runs.run_all(operations, seconds, turn)
        for server in servers:
            server.after_creates(server)
        return {
            "origin": f"{describe_machine()}, {find_wrk_version()}",
            "rows": ROWS,
            "rounds": rounds,
            "seconds": seconds,
            "other_cores": round(runs.other_cores(), 2),
            "servers": {
                server.name: {
                    "version": server.version,
                    "synchronous": server.durability,
                    "start_seconds": round(statistics.median(taken[server.name]), 3),
                    "memory_mb": round(server.process.memory_mb(), 1),
                    "operations": runs.medians(server),
                }
                for server in servers
            },
        }


@contextmanager
def running(server: Server) -> Iterator[None]:
    try:
        server.start()
        yield
    finally:
        server.stop()


class Rounds:
    """Runs of wrk, one server after the other, so that all meet the same state of the machine."""

    def __init__(self, servers: list[Server], folder: Path):
        self._servers = servers
        self._folder = folder
        self.taken: dict[str, dict[tuple[str, int], list[dict[str, float]]]] = {}
        self._seconds = self._other_seconds = 0.0

    def run_all(self, operations: Sequence[str], seconds: int, turn: int = 0) -> None:
        """Each operation with each number of connections, by every server in turn."""
        # Whoever is first in one round is last in the next.
        start = turn % len(self._servers)
        servers = self._servers[start:] + self._servers[:start]
        for operation in operations:
            for connections in CONNECTIONS:
                for server in servers:
                    if operation in server.operations:
                        self._run(server, operation, connections, seconds)

    def _run(self, server: Server, operation: str, connections: int, seconds: int) -> None:
        server.process.check()
        begun, busy, wrk = server.process.cpu_seconds(), busy_seconds(), _children_seconds()
        run = run_wrk(
            server.requests[operation],
            server.port,
            connections,
            seconds,
            ROWS,
            random.randrange(ROWS),
            self._folder,
        )
        cpu = server.process.cpu_seconds() - begun
        self._other_seconds += busy_seconds() - busy - cpu - (_children_seconds() - wrk)
        self._seconds += run.seconds
        figures = asdict(run) | {"cpu_us": cpu / max(1, run.requests) * 1e6}
        runs = self.taken.setdefault(operation, {})
        runs.setdefault((server.name, connections), []).append(figures)

    def other_cores(self) -> float:
        """Cores that anything but the measured server and wrk has used on average."""
        return max(0.0, self._other_seconds / self._seconds)

    def medians(self, server: Server) -> dict[str, dict[str, dict[str, float]]]:
        """By operation and connections: the medians of the rounds, and the sum of errors."""
        return {
            operation: {
                str(connections): _median(self.taken[operation][server.name, connections])
                for connections in CONNECTIONS
            }
            for operation in server.operations
        }


def _children_seconds() -> float:
    """CPU time of this process's children that have ended, such as wrk."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def _median(runs: list[dict[str, float]]) -> dict[str, float]:
    return {
        "requests_per_second": round(
            statistics.median(run["requests"] / run["seconds"] for run in runs), 1
        ),
        "cpu_us": round(statistics.median(run["cpu_us"] for run in runs)),
        "p50_ms": round(statistics.median(run["p50_ms"] for run in runs), 2),
        "p99_ms": round(statistics.median(run["p99_ms"] for run in runs), 2),
        "errors": sum(run["errors"] for run in runs),
    }


def _tell(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
