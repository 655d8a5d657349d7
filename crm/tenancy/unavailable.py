"""Tenants whose files cannot be used: noted for all processes, and told in the log once a minute.

A note is `<data>/unavailable/<label>`: the cause, and the identity that the file had. It is written
best effort, as the disk may be the cause. It holds until the file has another identity.
"""

import contextlib
import errno
import logging
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

from crm.tenancy import file_errors

LOG_SECONDS = 60.0  # between two lines of one cause
LATELY_SECONDS = 900.0  # after the last request to a tenant, /readyz tells of it no more

log = logging.getLogger("crm.tenants")


class LogLimit:
    """One line per cause in LOG_SECONDS."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._said_at: dict[str, float] = {}

    def allows(self, cause: str) -> bool:
        """May there be a line of that cause now? It counts as written then."""
        now = time.monotonic()
        with self._lock:
            before = self._said_at.get(cause)
            if before is not None and now - before < LOG_SECONDS:
                return False
            self._said_at = {one: at for one, at in self._said_at.items() if now - at < LOG_SECONDS}
            self._said_at[cause] = now
            return True


disk_full = LogLimit()


def identity(path: Path) -> str:
    """What changes when a file, its log, or the rights of these or of its lock are changed.

    An empty log counts as none: SQLite makes it as a file is opened and removes it with the last
    connection.
    """
    parts = []
    for name in (str(path), f"{path}-wal", str(path.with_suffix(".lock"))):
        try:
            stat = os.stat(name)
        except OSError as error:
            parts.append(str(error.errno))
        else:
            if name.endswith("-wal") and not stat.st_size:
                parts.append(str(errno.ENOENT))
                continue
            parts.append(
                f"{stat.st_dev}:{stat.st_ino}:{stat.st_size}:{stat.st_mtime_ns}:{stat.st_ctime_ns}"
            )
    return " ".join(parts)


class Unavailable:
    """The notes of one installation."""

    def __init__(self, data: Path):
        self._folder = data / "unavailable"
        self._limit = LogLimit()

    def add(self, label: str, path: Path, error: BaseException) -> str:
        """Note that a tenant's file cannot be used; gives its identity."""
        found = identity(path)
        self.touch(label, found, file_errors.describe(error))
        return found

    def touch(self, label: str, found: str, cause: str) -> None:
        """A request met the file as it was noted: tell the operator, unless that was done."""
        if not self._limit.allows(f"{label} {cause}"):
            return
        note = self._folder / label
        text = f"{found}\n{cause}\n"
        with contextlib.suppress(OSError):
            # Another process may have said it.
            if time.time() - note.stat().st_mtime < LOG_SECONDS and note.read_text() == text:
                return
        with contextlib.suppress(OSError):
            self._folder.mkdir(mode=0o700, exist_ok=True)
            note.write_text(text)
        log.error(
            "the file of %s cannot be used, its requests get 503 until it changes: %s;"
            " `doctor` tells what to do",
            label,
            cause,
        )

    def tell_of_folder(self, error: OSError) -> None:
        """No tenant can be looked for."""
        cause = file_errors.describe(error)
        if self._limit.allows(cause):
            log.error("the folder of tenants cannot be used, all requests get 503: %s", cause)

    def remove(self, label: str) -> None:
        """Its file can be used again, or is no more."""
        with contextlib.suppress(OSError):
            (self._folder / label).unlink()

    def count(self, path_of: Callable[[str], Path]) -> int:
        """How many tenants cannot be used, of those that were asked for lately."""
        found = 0
        with contextlib.suppress(OSError), os.scandir(self._folder) as notes:
            for note in notes:
                with contextlib.suppress(OSError, IndexError, UnicodeError):
                    kept = Path(note.path).read_text().splitlines()[0]
                    lately = time.time() - note.stat().st_mtime < LATELY_SECONDS
                    if lately and kept == identity(path_of(note.name)):
                        found += 1
                    else:
                        os.unlink(note.path)
        return found
