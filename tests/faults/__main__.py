"""The full form of the tests of faults, isolation, limits and the documented answers:

    python -m tests.faults [pytest's options]

Prints a table of what was done, with its date, for crm/docs/durability.md.
CI runs the same tests with smaller counts.
"""

import os
import platform
import sqlite3
import sys
import time
from collections import defaultdict
from typing import Any

import pytest

COUNTS = {"CUTS": "200", "KILLS": "100", "CASES": "20000"}
TESTS = (
    "tests/faults",
    "tests/access/test_isolation.py",
    "tests/server/test_processes.py",
    "tests/access/test_limits.py",
    "tests/api/test_openapi.py::test_answers_are_as_documented",
)


class Figures:
    """A plugin of pytest: what each file's tests did, and for how long."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)
        self.outcomes: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
        self.figures: dict[str, list[str]] = defaultdict(list)

    def pytest_runtest_logreport(self, report: Any) -> None:
        file = report.nodeid.partition("::")[0]
        self.seconds[file] += report.duration
        if report.when == "call" or report.outcome != "passed":
            self.outcomes[file][report.outcome].add(report.nodeid)
        if report.when == "call":
            self.figures[file] += [text for name, text in report.user_properties if name == "did"]

    def table(self) -> str:
        made = f"{platform.machine()} with {os.cpu_count()} processors"
        lines = [
            f"{time.strftime('%Y-%m-%d', time.gmtime())}, {made}, Python"
            f" {platform.python_version()}, SQLite {sqlite3.sqlite_version}:",
            "",
            "| Tests | Done | Result | Time |",
            "|---|---|---|---|",
        ]
        for file, outcomes in self.outcomes.items():
            done = "; ".join(self.figures[file]) or "as in CI"
            if file.endswith("api/test_openapi.py"):
                done = f"{int(os.environ['CASES']):,} requests made of the document"
            result = ", ".join(f"{len(ids)} {outcome}" for outcome, ids in sorted(outcomes.items()))
            minutes, seconds = divmod(round(self.seconds[file]), 60)
            lines.append(f"| `{file}` | {done} | {result} | {minutes}:{seconds:02} |")
        return "\n".join(lines)


def main() -> int:
    for name, count in COUNTS.items():
        os.environ.setdefault(name, count)
    figures = Figures()
    code = pytest.main([*("-m", ""), *TESTS, *sys.argv[1:]], plugins=[figures])
    print(f"\n{figures.table()}")
    return int(code)


if __name__ == "__main__":
    sys.exit(main())
