"""Run code in threads that start together, and in other processes."""

import contextlib
import json
import os
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from socketserver import BaseServer
from typing import Any

from crm import wsgi
from crm.installation.tenants import Tenants
from crm.storage.session import transaction

ROOT = Path(__file__).resolve().parent.parent


def run_in_threads(count: int, function: Callable[[int], Any]) -> list[Any]:
    """Call `function(number)` in `count` threads at once and return the results by number.

    Raises the first exception that a thread raised.
    """
    barrier = threading.Barrier(count)
    results: list[Any] = [None] * count
    errors: list[BaseException] = []

    def run(number: int) -> None:
        barrier.wait()
        try:
            results[number] = function(number)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return results


@contextlib.contextmanager
def serve_in_thread(server: BaseServer) -> Iterator[None]:
    """Run a server of Python's library in a thread of this process until the block ends."""
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def writing(tenants: Tenants, label: str) -> contextlib.AbstractContextManager[None]:
    """Let another thread be in a transaction of a tenant until the block ends."""
    return holding(tenants, label, transaction)


@contextlib.contextmanager
def holding(
    tenants: Tenants, label: str, turn: Callable[[], contextlib.AbstractContextManager[Any]]
) -> Iterator[None]:
    """Let another thread hold a turn at a tenant until the block ends."""
    begun, ended = threading.Event(), threading.Event()

    def hold() -> None:
        with tenants.session(label, sweeps_expired=False), turn():
            begun.set()
            ended.wait()

    holder = threading.Thread(target=hold)
    holder.start()
    try:
        assert begun.wait(30), "its turn does not come"
        yield
    finally:
        ended.set()
        holder.join()


def is_inside(thread: threading.Thread, function: Any) -> bool:
    """Whether a thread is running a function of Python, or something that it has called."""
    frame = sys._current_frames().get(thread.ident or 0)
    codes = (frame.f_code for frame, _ in traceback.walk_stack(frame)) if frame else ()
    return function.__code__ in codes


def is_answering() -> bool:
    """Whether a thread answers a request, such as one that a browser has left."""
    return any(
        frame.f_code.co_filename == wsgi.__file__
        for thread in sys._current_frames().values()
        for frame, _ in traceback.walk_stack(thread)
    )


def start_python(code: str, *arguments: Any) -> subprocess.Popen:
    """Start another Python that runs `code`, with its standard streams as text pipes."""
    return subprocess.Popen(
        [sys.executable, "-c", code, *map(str, arguments)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def kill_process(process: subprocess.Popen) -> None:
    """Kill the process with SIGKILL and close its pipes."""
    process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout, process.stderr):
        with contextlib.suppress(BrokenPipeError):
            pipe.close()


def wait_for_processes(*processes: subprocess.Popen) -> list[str]:
    """Wait until the processes have ended with status 0; return the standard output of each."""
    outputs = []
    for process in processes:
        output, errors = process.communicate(timeout=30)
        assert process.returncode == 0, errors
        outputs.append(output)
    return outputs


FORK_SERVER = """
import importlib, json, os, sys
sys.path.insert(0, os.getcwd())
module = importlib.import_module(sys.argv[1])
for line in sys.stdin:
    child = os.fork()
    if not child:
        name, arguments = json.loads(line)
        getattr(module, name)(*arguments)
        os._exit(0)
    print(os.waitpid(child, 0)[1], flush=True)
"""


class ForkServer:
    """Calls functions, each in a process of its own that is forked from one which has imported
    their module: to import it takes longer than most calls."""

    def __init__(self, module: str):
        pipe = subprocess.PIPE
        words = [sys.executable, "-W", "error", "-c", FORK_SERVER, module]
        self._process = subprocess.Popen(words, cwd=ROOT, stdin=pipe, stdout=pipe, text=True)

    def __enter__(self) -> "ForkServer":
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()

    def call(self, function: str, *arguments: Any) -> int:
        """Call a function of the module; return the exit code of the process, or -N if the signal
        N ended it. The arguments are those that JSON has, others are their texts."""
        assert self._process.stdin and self._process.stdout
        line = json.dumps([function, arguments], default=str)
        print(line, file=self._process.stdin, flush=True)
        return os.waitstatus_to_exitcode(int(self._process.stdout.readline()))
