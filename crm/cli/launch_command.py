"""The command line that starts this program again from any folder."""

import sys
from dataclasses import dataclass
from pathlib import Path

import crm

PYZ, BINARY = "pyz", "binary"


@dataclass(frozen=True)
class LaunchCommand:
    """How to start this program.

    words: the beginning of the command line. paths: the files and folders that it reads.
    unpacks: PYZ for a file that unpacks itself once into SHIV_ROOT, BINARY for one that unpacks
    itself at each start into the temporary folder, else None.
    """

    words: tuple[str, ...]
    paths: tuple[Path, ...]
    unpacks: str | None = None


def launch_command() -> LaunchCommand:
    """The command of this process: of a checkout, an installed package, a pyz or a binary."""
    python = Path(sys.executable)
    if getattr(sys, "frozen", False):  # set by PyInstaller
        return LaunchCommand((str(python),), (python,), BINARY)
    paths = (python, Path(sys.prefix))
    loader = getattr(sys.modules["__main__"], "__loader__", None)
    if archive := getattr(loader, "archive", None):
        pyz = Path(archive).absolute()
        return LaunchCommand((str(python), str(pyz)), (*paths, pyz), PYZ)
    root = Path(crm.__file__).parent.parent
    script = root / "app.py"  # absent where the package is installed
    arguments = (str(script),) if script.is_file() else ("-m", "crm")
    return LaunchCommand((str(python), *arguments), (*paths, root))
