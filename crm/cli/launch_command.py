"""How this program was started, in words that start it again from any folder."""

import sys
from dataclasses import dataclass
from pathlib import Path

import crm

PYZ, BINARY = "pyz", "binary"


@dataclass(frozen=True)
class Program:
    """`words` begin its command line; `places` are what it reads; `unpacks`: PYZ, BINARY or None.

    A pyz unpacks itself once into SHIV_ROOT, a binary at each start into the temporary folder.
    """

    words: tuple[str, ...]
    places: tuple[Path, ...]
    unpacks: str | None = None


def program() -> Program:
    """The process's own: a checkout, an installed package, or one file of either kind."""
    python = Path(sys.executable)
    if getattr(sys, "frozen", False):  # as PyInstaller says it
        return Program((str(python),), (python,), BINARY)
    places = (python, Path(sys.prefix))
    loader = getattr(sys.modules["__main__"], "__loader__", None)
    if archive := getattr(loader, "archive", None):
        pyz = Path(archive).absolute()
        return Program((str(python), str(pyz)), (*places, pyz), PYZ)
    root = Path(crm.__file__).parent.parent
    script = root / "app.py"  # absent where the package is installed
    way = (str(script),) if script.is_file() else ("-m", "crm")
    return Program((str(python), *way), (*places, root))
