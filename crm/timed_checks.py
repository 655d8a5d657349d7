"""What a doctor does: checks, each with an end in time and none of which stops the next."""

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

OK, WARNING, FAULT = "ok", "warning", "fault"
CHECK_TIMEOUT_SECONDS = 20.0

LevelAndDetail = tuple[str, str]  # the level, and a sentence for the operator


class CheckResult(NamedTuple):
    """What came of a check: `level` is OK, WARNING or FAULT."""

    level: str
    what: str
    detail: str


def run_check(
    what: str, check: Callable[[], Iterable[LevelAndDetail]], seconds: float = CHECK_TIMEOUT_SECONDS
) -> Iterator[CheckResult]:
    """What the check says; a fault if it raises or isn't done in time."""
    look = _CheckThread(check)
    look.start()
    until = time.monotonic() + seconds
    look.join(seconds)
    late = look.is_alive() and time.monotonic() >= until
    for level, detail in tuple(look.said):
        yield CheckResult(level, what, detail)
    if late:
        yield CheckResult(FAULT, what, f"it is not done after {seconds:g} s")
    elif look.error is not None:
        yield CheckResult(FAULT, what, _sentence(look.error))


class _CheckThread(threading.Thread):
    def __init__(self, check: Callable[[], Iterable[LevelAndDetail]]) -> None:
        super().__init__(name="checkup", daemon=True)  # what hangs must not hold up the end
        self.said: list[LevelAndDetail] = []
        self.error: Exception | None = None
        self._check = check

    def run(self) -> None:
        try:
            for each in self._check():
                self.said.append(each)
        except Exception as error:
            self.error = error


def _sentence(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        return ": ".join(str(part) for part in (error.strerror, error.filename) if part)
    return " ".join(str(error).split()) or type(error).__name__
