"""The folder in which tests write: in memory where there is room."""

import contextlib
import os
import shutil
import tempfile
from pathlib import Path

MEMORY_FOLDER = Path("/dev/shm")
MIN_MEMORY_BYTES = 4 << 30  # containers often have 64 MB there


def memory_folder() -> Path:
    """Return a folder in memory for files that need not outlive the run, else that of the system.

    Tests start thousands of small installations: on a disk they wait for it longer than they
    compute.
    """
    with contextlib.suppress(OSError):
        # Tests also run programs that they have put into their folders.
        can_execute = not os.statvfs(MEMORY_FOLDER).f_flag & os.ST_NOEXEC
        if can_execute and shutil.disk_usage(MEMORY_FOLDER).free >= MIN_MEMORY_BYTES:
            return MEMORY_FOLDER
    return Path(tempfile.gettempdir())
