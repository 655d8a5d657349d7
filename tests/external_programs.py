"""Programs that tests need beside Python."""

import os
import shutil
import sys
from pathlib import Path
from typing import NoReturn

import pytest

DEBIAN_POSTGRESQL = Path("/usr/lib/postgresql")  # a folder for each version, not in PATH


def path_of(*names: str) -> str | None:
    """Return the path of a program by one of its names, or None if it is not on this machine."""
    own = Path(sys.executable).parent  # some come as packages of Python
    versions = sorted(DEBIAN_POSTGRESQL.glob("*/bin"), key=lambda path: path.parent.name)
    places = [str(own), os.environ.get("PATH", ""), "/usr/sbin", *map(str, reversed(versions))]
    for name in names:
        if path := shutil.which(name, path=os.pathsep.join(places)):
            return path
    return None


def found(package: str, *names: str) -> str:
    """The path of a program by one of its names. Without it the test is skipped, in CI it fails."""
    return path_of(*names or (package,)) or missing(package)


def missing(package: str) -> NoReturn:
    """Skip a test that needs a package of the system; in CI it fails."""
    why = f"a program is missing on this machine: apt-get install {package}"
    if os.environ.get("CI"):
        pytest.fail(why)
    pytest.skip(why)
