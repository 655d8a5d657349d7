"""Tenants whose files cannot be used: noted for all processes, and logged once a minute.

A note is `<data>/unavailable/<label>`: the identity of the file, and the cause. Failing to write it
is ignored, as the disk may be the cause. It holds until the file has another identity.
"""

import contextlib
import errno
import logging
import math
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from crm.errors import DatabaseUnavailable
from crm.storage import file_errors

LOG_INTERVAL_SECONDS = 60.0  # between two lines of one cause
RECENT_SECONDS = 900.0  # for which /readyz counts a tenant after its last request

log = logging.getLogger("crm.tenants")


class LogLimit:
    """Allows one log line per cause in LOG_INTERVAL_SECONDS."""

    def __init__(self) -> None:
        self._logged_at: dict[str, float] = {}

    def allows(self, cause: str) -> bool:
        """Whether a line of that cause may be logged now; if so it counts as logged."""
        now = time.monotonic()
        if now - self._logged_at.get(cause, -math.inf) < LOG_INTERVAL_SECONDS:
            return False
        self._logged_at[cause] = now
        return True


disk_full = LogLimit()


def identity(path: Path) -> str:
    """Return a text that changes with a file, its log, or the rights of these or of its lock.

    An empty log counts as none: SQLite makes it as a file is opened and removes it with the last
    connection.
    """
    parts: list[object] = []
    for name in (str(path), f"{path}-wal", str(path.with_suffix(".lock"))):
        try:
            stat = os.stat(name)
        except OSError as error:
            parts.append(error.errno)
            continue
        is_empty_log = name.endswith("-wal") and not stat.st_size
        state = stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns
        parts += [errno.ENOENT] if is_empty_log else state
    return str(parts)


class Unusable(NamedTuple):
    """Why a file is not opened: as long as it has this identity, or until `retry_at`."""

    cause: str
    identity: str
    retry_at: float  # monotonic seconds


class Unavailable:
    """The notes of one installation."""

    def __init__(self, data: Path):
        self._folder = data / "unavailable"
        self._limit = LogLimit()

    def add(self, label: str, path: Path, error: BaseException) -> str:
        """Note that a tenant's file cannot be used, and return its identity."""
        file_identity = identity(path)
        self.report(label, file_identity, file_errors.describe(error))
        return file_identity

    def report(self, label: str, file_identity: str, cause: str) -> None:
        """Log that a request needed an unusable file, and note it, unless that was done lately."""
        if not self._limit.allows(f"{label} {cause}"):
            return
        with contextlib.suppress(OSError):
            self._folder.mkdir(mode=0o700, exist_ok=True)
            (self._folder / label).write_text(f"{file_identity}\n{cause}\n")
        log.error(
            "the file of %s cannot be used, its requests get 503 until it changes: %s;"
            " `doctor` tells what to do",
            label,
            cause,
        )

    def report_folder(self, error: OSError) -> None:
        """Log that the folder of tenants cannot be read."""
        self._log("the folder of tenants cannot be used, all requests get 503", error)

    def report_server(self, name: str, error: BaseException) -> DatabaseUnavailable:
        """Log that a database cannot be used, and return the error to raise."""
        cause = self._log(f"the database {name} cannot be used, its tenants get 503", error)
        unavailable = DatabaseUnavailable()
        unavailable.reason = f"the database {name} cannot be used: {cause}"
        unavailable.is_final = getattr(error, "sqlstate", "") == file_errors.UNSUITABLE
        return unavailable

    def report_refusal(self, name: str, error: BaseException, label: str = "") -> None:
        """Log an error of a database whose cause its operator removes, such as a full disk.

        `label`: of the tenant that it concerns, if it may concern it alone.
        """
        whose = f", of {label}" if label else ""
        self._log(f"the database {name} refuses requests{whose}", error)

    def _log(self, text: str, error: BaseException) -> str:
        """Log an error unless that was done lately, and return its cause."""
        cause = file_errors.describe(error)
        if self._limit.allows(f"{text} {cause}"):
            log.error("%s: %s", text, cause)
        return cause

    def count(self, path_of: Callable[[str], Path]) -> int:
        """Count the unusable tenants with recent requests, and delete notes that are obsolete."""
        count = 0
        with contextlib.suppress(OSError), os.scandir(self._folder) as notes:
            for note in notes:
                with contextlib.suppress(OSError, IndexError, UnicodeError):
                    noted_identity = Path(note.path).read_text().splitlines()[0]
                    is_recent = time.time() - note.stat().st_mtime < RECENT_SECONDS
                    if is_recent and noted_identity == identity(path_of(note.name)):
                        count += 1
                    else:
                        os.unlink(note.path)
        return count
