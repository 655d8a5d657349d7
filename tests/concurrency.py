"""Many at once: threads that start together, and other processes."""

import contextlib
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent


def crowd(count: int, act: Callable[[int], Any]) -> list[Any]:
    """What `act(number)` gave in each of `count` threads; raises what the first to fail raised."""
    gate = threading.Barrier(count)
    given: list[Any] = [None] * count
    failed: list[BaseException] = []

    def run(number: int) -> None:
        gate.wait()
        try:
            given[number] = act(number)
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failed:
        raise failed[0]
    return given


def process(code: str, *arguments: Any) -> subprocess.Popen:
    """Another Python running `code`; its pipes are lines of text."""
    return subprocess.Popen(
        [sys.executable, "-c", code, *map(str, arguments)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def end(running: subprocess.Popen) -> None:
    """kill -9."""
    running.kill()
    running.wait()
    for pipe in (running.stdin, running.stdout, running.stderr):
        with contextlib.suppress(BrokenPipeError):
            pipe.close()


def finish(*running: subprocess.Popen) -> list[str]:
    """Wait for processes that must end well; what each wrote."""
    written = []
    for each in running:
        out, err = each.communicate(timeout=30)
        assert each.returncode == 0, err
        written.append(out)
    return written
