"""The command line with one safeguard taken out: `python mutated.py <mutation> <command> …`.

For tests that prove that the faults' tests notice. Nothing of the product knows of it.
"""

import runpy
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent


def commit_without_sync() -> None:
    from crm.storage.sqlite import connection

    connection.PRAGMAS = tuple(item.replace("FULL", "NORMAL") for item in connection.PRAGMAS)


def answer_before_commit() -> None:
    """Changes that are committed together are answered before."""
    from crm.server.runner import Runner
    from crm.storage import commit_groups

    finish, deliver = commit_groups.finish, Runner._deliver
    commit_groups.finish = lambda: None

    def deliver_first(*arguments: object) -> None:
        try:
            deliver(*arguments)
        finally:
            time.sleep(0.01)
            finish()

    Runner._deliver = deliver_first


def sync_nothing() -> None:
    from crm.storage import disk

    disk.sync = lambda path: None


if __name__ == "__main__":
    _, mutation, *sys.argv[1:] = sys.argv
    sys.path.insert(0, str(ROOT))
    globals()[mutation]()
    runpy.run_path(str(ROOT / "app.py"), run_name="__main__")
