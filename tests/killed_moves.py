"""Kills `tenant move` by SIGKILL at each of its steps, in a process of its own."""

import os
import signal
from pathlib import Path
from typing import NamedTuple

from crm.config import Config
from crm.copies import moves
from crm.installation.opening import open_tenants
from tests.concurrency import ForkServer


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


class Mover(ForkServer):
    """Moves acme, and is killed at a step. It can do so for several installations in turn."""

    def __init__(self) -> None:
        super().__init__(__name__)

    def kill(self, config: Config, to: str, source: str, target: str, step: Step) -> None:
        """Begin a move to a place; `source` and `target` are "files", or any other word."""
        name = {"source": source, "target": target}.get(step.owner, "")
        owner = step.owner if not name else "FileStore" if name == "files" else "SchemaStore"
        urls = list(config.database)
        ended = self.call("be_killed", config.data, urls, to, owner, *step[1:3])
        assert ended == -signal.SIGKILL


def be_killed(data: str, urls: list[str], to: str, owner: str, name: str, when: str) -> None:
    """Move acme, and be killed before or after a function of `owner`."""
    module = getattr(moves, owner, moves)
    step = getattr(module, name)

    def die(*arguments: object) -> None:
        if when == "after":
            step(*arguments)
        os.kill(os.getpid(), signal.SIGKILL)

    setattr(module, name, die)
    moves.move(open_tenants(Config(data=Path(data), database=tuple(urls))), "acme", to)
