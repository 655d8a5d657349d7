"""Uploaded files kept between two pages, until their user has confirmed what to do with them.

A file is kept in the data folder under a random name, for an hour, for one login session of one
tenant: to anybody else it does not exist. When a session, or a tenant, has too many, its oldest
files are deleted. Saving a file also deletes the expired files of all tenants.
"""

import os
import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from crm.errors import NotFound, StorageFull
from crm.tenancy import disk
from crm.tenancy.database import current_session, settings
from crm.tenancy.file_errors import Cause, cause_of

FOLDER = "uploads"  # of the data folder
MAX_AGE_SECONDS = 3600
MAX_PER_SESSION, MAX_PER_TENANT = 3, 30
NAME = re.compile(r"[0-9a-f]{32}\Z")


def save(session_id: int, data: bytes) -> str:
    """Save a file for a login session and return its name. Raises StorageFull."""
    folder = _folder()
    disk.make_folder(folder)
    delete_expired()
    tenant = f"{current_session().label}."
    _make_room(tenant, MAX_PER_TENANT)
    _make_room(f"{tenant}{session_id}.", MAX_PER_SESSION)
    name = secrets.token_hex(16)
    path = _path(session_id, name)
    try:
        with os.fdopen(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "wb") as file:
            file.write(data)
        _touch(path)
    except OSError as error:
        path.unlink(missing_ok=True)
        if cause_of(error) is Cause.FULL:
            raise StorageFull from error
        raise
    return name


def read(session_id: int, name: str) -> bytes:
    """Return the content of a file. Raises NotFound."""
    path = _path(session_id, name)
    try:
        if path.stat().st_mtime <= current_session().clock() - MAX_AGE_SECONDS:
            raise NotFound
        return path.read_bytes()
    except FileNotFoundError:
        raise NotFound from None


@contextmanager
def claim(session_id: int, name: str) -> Iterator[bytes]:
    """Use the content of a file in a `with` block, once; an exception in it leaves the file.

    Raises NotFound, also while or after another request uses it.
    """
    data = read(session_id, name)
    path = _path(session_id, name)
    claimed = path.with_suffix(".taken")
    try:
        path.rename(claimed)
    except FileNotFoundError:
        raise NotFound from None  # another request took it meanwhile
    try:
        yield data
    except BaseException:
        with suppress(FileNotFoundError):
            claimed.rename(path)
        raise
    claimed.unlink(missing_ok=True)


def delete(session_id: int, name: str) -> None:
    """Delete a file, if it is still there."""
    _path(session_id, name).unlink(missing_ok=True)


def delete_expired() -> None:
    """Delete the expired files of all tenants."""
    expired_before = current_session().source.steady_clock.erasing_now() - MAX_AGE_SECONDS
    for written_at, path in _files(""):
        if written_at <= expired_before:
            path.unlink(missing_ok=True)


def delete_all(data: Path, label: str) -> None:
    """Delete the files of a tenant that was deleted; `data` is the installation's data folder."""
    for path in (data / FOLDER).glob(f"{label}.*"):
        path.unlink(missing_ok=True)


def _make_room(prefix: str, max_files: int) -> None:
    """Delete the oldest files of a name prefix, so that one more makes at most `max_files`."""
    files = sorted(_files(prefix))
    for _, path in files[: max(0, len(files) - max_files + 1)]:
        path.unlink(missing_ok=True)


def _files(prefix: str) -> list[tuple[float, Path]]:
    """List (time of writing, path) of the files of a name prefix."""
    files = []
    with suppress(FileNotFoundError), os.scandir(_folder()) as entries:
        for entry in entries:
            if entry.name.startswith(prefix):
                with suppress(FileNotFoundError):
                    files.append((entry.stat().st_mtime, Path(entry.path)))
    return files


def _path(session_id: int, name: str) -> Path:
    if not NAME.match(name):
        raise NotFound
    return _folder() / f"{current_session().label}.{session_id}.{name}.csv"


def _folder() -> Path:
    return settings().data / FOLDER


def _touch(path: Path) -> None:
    """Set its time of writing by the tenant's clock, by which it expires."""
    moment = current_session().clock()
    os.utime(path, (moment, moment))
