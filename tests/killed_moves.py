"""Kills `tenant move` by SIGKILL at each of its steps, in a process of its own."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from crm.config import Config
from tests.concurrency import ROOT

# Each move is in a child of a process that has imported all: that takes longer than the move.
MOVER = """
import json, os, sys
sys.path.insert(0, os.getcwd())
from crm.copies import moves  # before the children need it
from tests.killed_moves import be_killed
for line in sys.stdin:
    child = os.fork()
    if not child:
        be_killed(*json.loads(line))
        os._exit(0)
    print(os.waitpid(child, 0)[1], flush=True)
"""


class Step(NamedTuple):
    """A function of the module `moves`, or of the store that is the source or the target."""

    owner: str
    name: str
    when: str
    is_suspended: bool = True  # for who has to ask the directory


STEPS = (
    Step("moves", "_suspend", "before", False),
    Step("source", "hide", "before"),
    Step("source", "hide", "after"),
    Step("source", "archive_hidden", "after"),
    Step("target", "load_hidden", "before"),
    Step("target", "load_hidden", "after"),
    Step("moves", "_require_equal_numbers", "after"),
    Step("moves", "_copy_and_switch", "after"),  # decided, but not committed
    Step("target", "publish_hidden", "before"),
    Step("target", "publish_hidden", "after", False),
    Step("source", "discard_hidden", "before", False),
    Step("source", "discard_hidden", "after", False),
)


class Mover:
    """Moves acme, and is killed at a step. It can do so for several installations in turn."""

    def __init__(self) -> None:
        words = [sys.executable, "-c", MOVER]
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(words, cwd=ROOT, stdin=pipe, stdout=pipe, text=True)

    def __enter__(self) -> "Mover":
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()

    def kill(self, config: Config, to: str, source: str, target: str, step: Step) -> None:
        """Begin a move to a place; `source` and `target` are "files", or any other word."""
        name = {"source": source, "target": target}.get(step.owner, "")
        owner = step.owner if not name else "FileStore" if name == "files" else "SchemaStore"
        data, urls = str(config.data), list(config.database)
        assert self._process.stdin and self._process.stdout
        print(json.dumps([data, urls, to, owner, *step[1:3]]), file=self._process.stdin, flush=True)
        assert int(self._process.stdout.readline()) == signal.SIGKILL


def be_killed(data: str, urls: list[str], to: str, owner: str, name: str, when: str) -> None:
    """Move acme, and be killed before or after a function of `owner`."""
    from crm.copies import moves
    from crm.installation.opening import open_tenants

    module = getattr(moves, owner, moves)
    step = getattr(module, name)

    def die(*arguments: object) -> None:
        if when == "after":
            step(*arguments)
        os.kill(os.getpid(), signal.SIGKILL)

    setattr(module, name, die)
    moves.move(open_tenants(Config(data=Path(data), database=tuple(urls))), "acme", to)
