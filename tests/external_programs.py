"""Programs that tests need beside Python."""

import os
import shutil
import sys
from pathlib import Path

import pytest


def found(package: str, *names: str) -> str:
    """The path of a program by one of its names. Without it the test is skipped, in CI it fails."""
    own = Path(sys.executable).parent  # some come as packages of Python
    places = f"{own}:{os.environ.get('PATH', '')}:/usr/sbin"
    for name in names or (package,):
        if path := shutil.which(name, path=places):
            return path
    why = f"a program is missing on this machine: apt-get install {package}"
    if os.environ.get("CI"):
        pytest.fail(why)
    pytest.skip(why)
