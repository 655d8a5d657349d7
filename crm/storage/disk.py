"""Files and folders of the data folder: creating, naming, syncing and deleting them safely.

A connection finds its file and its log by name, one after the other. If another file took the name
in between, it would read a tenant's old file with the new file's log. Therefore opening a file
takes a shared lock of its folder, and changing which file has a name an exclusive one.
"""

import fcntl
import os
import secrets
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

ABANDONED_AFTER_SECONDS = 86_400  # an unfinished file of that age was left by a dead process
MIN_FREE_BYTES = 1 << 20
LOG_SUFFIXES = ("-wal", "-shm", "-journal")  # such a file belongs to one and damages another


@contextmanager
def locked(folder: Path, shared: bool = False) -> Iterator[None]:
    """Keep all others from changing which file has a name in a folder, for a few system calls.

    Unless it is `shared`, also from opening a file that is opened under a shared lock.
    """
    # The lock is on the folder itself: there is no file to create, and none is left behind.
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH if shared else fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def make(path: Path) -> None:
    """Create an empty file that only its owner may read. Raises FileExistsError."""
    os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))


def make_folder(path: Path) -> None:
    """Create a folder that only its owner may enter, with missing parents, and sync their names.

    An existing folder stays as it is: somebody may have given it to a group on purpose. Raises
    OSError.
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
    """Create or replace a small file that only its owner may read.

    It is synced before it gets its name, and the name before this returns: after a power cut the
    file has its old or its new content, and is never cut or empty.
    """
    draft = path.with_name(f".{path.name}-{secrets.token_hex(4)}")
    try:
        with os.fdopen(os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, path)
    finally:
        draft.unlink(missing_ok=True)
    sync(path.parent)


def name_file(draft: Path, path: Path) -> None:
    """Give a complete file its name, synced as in write_file(). Raises FileExistsError."""
    sync(draft)
    os.link(draft, path)
    sync(path.parent)


def sync(path: Path) -> None:
    """Write a file, or the names in a folder, to the disk, and wait for that."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def require_room(folder: Path, bytes_needed: int = 0) -> None:
    """Raise OSError unless a file of that size leaves MIN_FREE_BYTES: a full disk stops all."""
    if shutil.disk_usage(folder).free < bytes_needed + MIN_FREE_BYTES:
        raise OSError(None, "there is no room for it on the disk")


def delete_logs(path: Path) -> None:
    """Delete the logs beside a file, which must not be read with another file of that name."""
    for suffix in LOG_SUFFIXES:
        Path(f"{path}{suffix}").unlink(missing_ok=True)


def delete_abandoned(within: Path, pattern: str, moment: float) -> None:
    """Delete unfinished files and folders that dead processes left, of names like the pattern.

    `moment`: the current time in epoch seconds, by the clock that may delete.
    """
    for path in within.glob(pattern):
        with suppress(FileNotFoundError):
            if path.stat().st_mtime < moment - ABANDONED_AFTER_SECONDS:
                shutil.rmtree(path) if path.is_dir() else path.unlink()


def stamp(seconds: float) -> str:
    """Write epoch seconds as in the names of files: 20261121T065900Z."""
    return time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(seconds))
