"""The command of a process of its own, which does what needs limits of time and memory."""

import sys
from pathlib import Path


def command(subcommand: str, file: str) -> list[str]:
    """The command that runs a module which imports nothing of the CRM, up to its arguments.

    file: the module's. subcommand: what the single file that needs no Python calls it
    (`.ci/build`).
    """
    if getattr(sys, "frozen", False):  # set by PyInstaller
        return [sys.executable, subcommand]
    # A server such as uWSGI is not the interpreter.
    is_python = Path(sys.executable or "").name.startswith("python")
    python = sys.executable if is_python else str(Path(sys.exec_prefix, "bin", "python3"))
    return [python, "-I", "-S", file]
