"""The checks of `doctor` and of `/readyz`, each with a time limit, so that none stops the next.

A check is a generator of findings: pairs of a level (OK, WARNING, FAULT) and a sentence.
"""

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from crm.errors import operator_text

OK, WARNING, FAULT = "ok", "warning", "fault"
CHECK_TIMEOUT_SECONDS = 20.0
MAX_NAMES = 3  # in one sentence

LevelAndDetail = tuple[str, str]  # a level, and a sentence for the operator


class CheckResult(NamedTuple):
    """One result of a check: `level` is OK, WARNING or FAULT."""

    level: str
    check: str
    detail: str


class CheckList(list[tuple[str, float, Callable[[Any], Iterable[Any]]]]):
    """Checks in the order of their definition: name, time limit in seconds, function.

    An instance is the decorator that adds one, a generator of findings about what is checked:

        check = CheckList()

        @check("disk")
        def check_disk(tenants):
            yield OK, "there is room"

    One without a name has no time limit, and yields instances of CheckResult.
    """

    def __call__(self, name: str = "", seconds: float = CHECK_TIMEOUT_SECONDS) -> Callable:
        """Return a decorator that adds a check and returns its function."""

        def add(function: Callable) -> Callable:
            self.append((name, seconds, function))
            return function

        return add


def run_checks(
    checks: Iterable[tuple[str, float, Callable[[Any], Iterable[Any]]]], subject: Any
) -> Iterator[CheckResult]:
    """Yield the results of all checks of the subject."""
    for name, seconds, function in checks:
        check = partial(function, subject)
        yield from run_check(name, check, seconds) if name else check()


class CheckThread(threading.Thread):
    """Runs a check. `results` are what it has yielded so far, `error` is what it has raised."""

    def __init__(self, name: str, check: Callable[[], Iterable[Any]], seconds: float) -> None:
        # A daemon: a check that hangs must not delay the end of the process.
        super().__init__(name=name, daemon=True)
        self.results: list[Any] = []
        self.error: Exception | None = None
        self._check = check
        self._deadline = time.monotonic() + seconds
        self.start()

    def run(self) -> None:
        """Collect what the check yields."""
        try:
            for result in self._check():
                self.results.append(result)
        except Exception as error:
            self.error = error

    def is_late(self) -> bool:
        """Wait until the check is done or its time is up; return whether it is not done."""
        self.join(max(0.0, self._deadline - time.monotonic()))
        return self.is_alive()


def run_check(
    name: str,
    check: Callable[[], Iterable[LevelAndDetail]],
    seconds: float = CHECK_TIMEOUT_SECONDS,
) -> Iterator[CheckResult]:
    """Run a check and yield its results; a fault if it raises or takes longer than `seconds`."""
    thread = CheckThread("check", check, seconds)
    is_late = thread.is_late()
    for level, detail in tuple(thread.results):
        yield CheckResult(level, name, detail)
    if is_late:
        yield CheckResult(FAULT, name, f"it is not done after {seconds:g} s")
    elif thread.error is not None:
        yield CheckResult(FAULT, name, operator_text(thread.error))


def list_names(names: Sequence[str | Path]) -> str:
    """Return the first names of a list, and how many more there are."""
    first = [name.name if isinstance(name, Path) else name for name in names[:MAX_NAMES]]
    more = len(names) - len(first)
    return ", ".join(first) + (f" and {more} more" if more else "")
