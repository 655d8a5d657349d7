"""Run the checks of `doctor`, each with a time limit, so that none stops the next."""

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

OK, WARNING, FAULT = "ok", "warning", "fault"
CHECK_TIMEOUT_SECONDS = 20.0

LevelAndDetail = tuple[str, str]  # a level, and a sentence for the operator


class CheckResult(NamedTuple):
    """One result of a check: `level` is OK, WARNING or FAULT."""

    level: str
    check: str
    detail: str


def run_check(
    name: str,
    check: Callable[[], Iterable[LevelAndDetail]],
    seconds: float = CHECK_TIMEOUT_SECONDS,
) -> Iterator[CheckResult]:
    """Run a check and yield its results; a fault if it raises or takes longer than `seconds`."""
    thread = _CheckThread(check)
    thread.start()
    deadline = time.monotonic() + seconds
    thread.join(seconds)
    is_late = thread.is_alive() and time.monotonic() >= deadline
    for level, detail in tuple(thread.results):
        yield CheckResult(level, name, detail)
    if is_late:
        yield CheckResult(FAULT, name, f"it is not done after {seconds:g} s")
    elif thread.error is not None:
        yield CheckResult(FAULT, name, _describe(thread.error))


class _CheckThread(threading.Thread):
    def __init__(self, check: Callable[[], Iterable[LevelAndDetail]]) -> None:
        # A daemon: a check that hangs must not delay the end of the process.
        super().__init__(name="check", daemon=True)
        self.results: list[LevelAndDetail] = []
        self.error: Exception | None = None
        self._check = check

    def run(self) -> None:
        try:
            for result in self._check():
                self.results.append(result)
        except Exception as error:
            self.error = error


def _describe(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        return ": ".join(str(part) for part in (error.strerror, error.filename) if part)
    return operator_text(error)


def operator_text(error: Exception) -> str:
    """Return an error as one line, with what is meant for the operator alone."""
    text = getattr(error, "reason", "") or str(error)
    return " ".join(text.split()) or type(error).__name__
