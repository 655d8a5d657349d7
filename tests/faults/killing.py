"""kill -9 of a server with all of its processes."""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from crm.storage.session import TenantSession
from tests.installations import environ_for
from tests.server_process import ROOT, find_free_port, wait_until_listening

PATIENCE_SECONDS = 20


def environ(**settings: str) -> dict[str, str]:
    """This process's environment with these settings and no others."""
    plain = {name: value for name, value in os.environ.items() if not name.startswith("CRM_")}
    return plain | settings


def kill(*processes: int) -> None:
    for pid in processes:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def die_at_commit(session: TenantSession, number: int, when: str) -> None:
    """Have this process killed before or after the n-th commit of a session."""
    commit, count = session.source.commit, 0

    def die(*arguments: Any) -> None:
        nonlocal count
        count += 1
        if count == number and when == "before":
            kill(os.getpid())
        commit(*arguments)
        if count == number:
            kill(os.getpid())

    session.source.commit = die


@contextlib.contextmanager
def killed(data: Path, workers: int, **settings: str) -> Iterator[int]:
    """The port of a server whose processes are all killed at the end. None outlives it."""
    port = find_free_port()
    command = [sys.executable, "app.py", "serve", "--data", str(data), "--port", str(port)]
    command += ["--workers", str(workers)]
    server = subprocess.Popen(
        command,
        cwd=ROOT,
        env=environ(
            CRM_LOG="warnings", **environ_for(data), **settings
        ),  # its pipe is read at the end alone
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        wait_until_listening(port, server)
        yield port
    finally:
        children = Path(f"/proc/{server.pid}/task/{server.pid}/children").read_text().split()
        kill(*map(int, children), server.pid)
        # Comes to an end when the workers, too, have let go of the pipe.
        said = server.communicate(timeout=PATIENCE_SECONDS)[1]
    assert "Traceback" not in said, said
