"""Tenants' files as the disk knows them: their logs, their names, and when a name may change.

A connection finds its file and its log by name, one after the other. If another file took the name
in between, it would read one tenant's past with the log of its present. So whoever opens a file and
whoever changes which file has a name go through a gate: many may open, one alone may change.
"""

import fcntl
import os
import secrets
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

ABANDONED = 86_400  # seconds after which what is unfinished was left by a dead process
LOGS = ("-wal", "-shm", "-journal")  # what belongs to one file and would damage another


@contextmanager
def opening(path: Path) -> Iterator[None]:
    """Which file has a name does not change in here, until one is open that was read from."""
    with _gate(path.parent, fcntl.LOCK_SH):
        yield


@contextmanager
def renaming(path: Path) -> Iterator[None]:
    """Nobody opens a file in here. For a few system calls, by who holds the writer lock."""
    with _gate(path.parent, fcntl.LOCK_EX):
        yield


@contextmanager
def _gate(folder: Path, way: int) -> Iterator[None]:
    # The lock is the folder's own, so that there is no file to make, and a dead process has none.
    gate = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(gate, way)
        yield
    finally:
        os.close(gate)


def make(path: Path) -> None:
    """An empty file that only its owner may read. Raises FileExistsError."""
    os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))


def make_folder(path: Path) -> None:
    """Make a folder that only its owner may enter, with those above it that are missing.

    Their names are on the disk then. One that is there stays as it is: somebody may have given it
    to a group on purpose. Raises OSError.
    """
    try:
        path.mkdir(0o700)
    except FileNotFoundError:
        make_folder(path.parent)
        path.mkdir(0o700, exist_ok=True)
    except FileExistsError:
        if not path.is_dir():
            raise
        return
    sync(path.parent)


def write_file(path: Path, data: bytes) -> None:
    """Make or replace a small file that only its owner may read.

    It is on the disk before it has its name, and its name before this returns: after a power cut
    the file is there as it was or as it is to be, never cut or empty.
    """
    unseen = path.with_name(f".{path.name}-{secrets.token_hex(4)}")
    try:
        with os.fdopen(os.open(unseen, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(unseen, path)
    finally:
        unseen.unlink(missing_ok=True)
    sync(path.parent)


def name_file(unseen: Path, path: Path) -> None:
    """Give a whole file its name, as write_file() does. Raises FileExistsError."""
    sync(unseen)
    os.link(unseen, path)
    sync(path.parent)


@contextmanager
def making(folder: Path) -> Iterator[None]:
    """Nobody else makes what may be made once in a folder, in any process."""
    with _gate(folder, fcntl.LOCK_EX):
        yield


def make_index_name(path: Path) -> None:
    """An empty index of a file's log, if there is none: SQLite reads no log without that name.

    It is linked, not opened at its place: a process that closes a file loses its locks on it.
    """
    index = Path(f"{path}-shm")
    if index.exists():
        return
    unseen = path.with_name(f".new-{secrets.token_hex(4)}")
    try:
        make(unseen)
        with suppress(FileExistsError):
            os.link(unseen, index)
    finally:
        unseen.unlink(missing_ok=True)


def sync(path: Path) -> None:
    """Wait until a file, or the names in a folder, are on the disk."""
    opened = os.open(path, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def drop_logs(path: Path) -> None:
    for log in LOGS:
        Path(f"{path}{log}").unlink(missing_ok=True)


def forget_abandoned(within: Path, pattern: str, moment: float) -> None:
    """Let go what dead processes left unfinished: files and folders of a name like the pattern."""
    for path in within.glob(pattern):
        with suppress(FileNotFoundError):
            if path.stat().st_mtime < moment - ABANDONED:
                shutil.rmtree(path) if path.is_dir() else path.unlink()


def stamp(seconds: float) -> str:
    """A time as it stands in the names of files: 20261121T065900Z."""
    return time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(seconds))
