"""Uploaded files kept between two pages, until their user has confirmed what to do with them.

A file is kept under a random name, for an hour, for one login session of one tenant: to anybody
else it does not exist. When a session, or a tenant, has too many, its oldest files are deleted.
Saving a file also deletes expired files of other tenants. The files of a tenant in a file are in
the data folder; the store of a tenant in a schema is engines/schema_uploads.py.
"""

import os
import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Protocol

from crm.errors import NotFound, StorageFull
from crm.tenancy import disk
from crm.tenancy.database import current_session
from crm.tenancy.file_errors import FILE_ERRORS, Cause, cause_of

FOLDER = "uploads"  # of the data folder
MAX_AGE_SECONDS = 3600
MAX_PER_SESSION, MAX_PER_TENANT = 3, 30
NAME = re.compile(r"[0-9a-f]{32}\Z")


class UploadStore(Protocol):
    """Where the waiting uploads of one tenant are; names are valid. Times are epoch seconds."""

    def save(self, session_id: int, name: str, data: bytes, moment: float) -> None:
        """Save a file, and delete the oldest of too many."""

    def read(self, session_id: int, name: str, after: float) -> bytes | None:
        """Return the content of a file that was saved after a moment and is not claimed."""

    def claim(self, session_id: int, name: str) -> bool:
        """Claim a file; returns False if it is gone, or claimed already."""

    def release(self, session_id: int, name: str) -> None:
        """Let a claimed file be read and claimed again, if it is still there."""

    def delete(self, session_id: int, name: str, is_claimed: bool = False) -> None:
        """Delete a file if it is there, and claimed or not as given."""

    def delete_until(self, moment: float) -> None:
        """Delete the files, also those of other tenants, that were saved until a moment."""


def save(session_id: int, data: bytes) -> str:
    """Save a file for a login session and return its name. Raises StorageFull."""
    delete_expired()
    name = secrets.token_hex(16)
    try:
        _store().save(session_id, name, data, current_session().clock())
    except (OSError, *FILE_ERRORS) as error:
        if cause_of(error) is Cause.FULL:
            raise StorageFull from error
        raise
    return name


def read(session_id: int, name: str) -> bytes:
    """Return the content of a file. Raises NotFound."""
    _require_name(name)
    data = _store().read(session_id, name, current_session().clock() - MAX_AGE_SECONDS)
    if data is None:
        raise NotFound
    return data


@contextmanager
def claim(session_id: int, name: str) -> Iterator[bytes]:
    """Use the content of a file in a `with` block, once; an exception in it leaves the file.

    Raises NotFound, also while or after another request uses it.
    """
    data, store = read(session_id, name), _store()
    if not store.claim(session_id, name):
        raise NotFound  # another request took it meanwhile
    try:
        yield data
    except BaseException:
        store.release(session_id, name)
        raise
    store.delete(session_id, name, is_claimed=True)


def delete(session_id: int, name: str) -> None:
    """Delete a file, if it is still there."""
    _require_name(name)
    _store().delete(session_id, name)


def delete_expired() -> None:
    """Delete the expired files of all tenants that share the current one's store."""
    _store().delete_until(current_session().source.steady_clock.erasing_now() - MAX_AGE_SECONDS)


def delete_all(data: Path, label: str) -> None:
    """Delete the files of a tenant that was deleted; `data` is the installation's data folder."""
    for path in (data / FOLDER).glob(f"{label}.*"):
        path.unlink(missing_ok=True)


def _store() -> UploadStore:
    return current_session().source.uploads


def _require_name(name: str) -> None:
    if not NAME.match(name):
        raise NotFound


class FileUploads:
    """The waiting uploads of a tenant in a file: files in a folder of the data folder."""

    def __init__(self, data: Path, label: str):
        self._folder, self._prefix = data / FOLDER, f"{label}."

    def save(self, session_id: int, name: str, data: bytes, moment: float) -> None:
        """Save a file, and delete the oldest of too many. Raises OSError."""
        disk.make_folder(self._folder)
        self._make_room(self._prefix, MAX_PER_TENANT)
        self._make_room(f"{self._prefix}{session_id}.", MAX_PER_SESSION)
        path = self._path(session_id, name)
        try:
            file = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
            with os.fdopen(file, "wb") as opened:
                opened.write(data)
            _set_time(path, moment)
        except OSError:
            path.unlink(missing_ok=True)
            raise

    def read(self, session_id: int, name: str, after: float) -> bytes | None:
        """Return the content of a file that was saved after a moment and is not claimed."""
        path = self._path(session_id, name)
        try:
            return path.read_bytes() if path.stat().st_mtime > after else None
        except FileNotFoundError:
            return None

    def claim(self, session_id: int, name: str) -> bool:
        """Claim a file; returns False if it is gone, or claimed already."""
        path = self._path(session_id, name)
        try:
            path.rename(_claimed(path))
        except FileNotFoundError:
            return False
        return True

    def release(self, session_id: int, name: str) -> None:
        """Let a claimed file be read and claimed again, if it is still there."""
        path = self._path(session_id, name)
        with suppress(FileNotFoundError):
            _claimed(path).rename(path)

    def delete(self, session_id: int, name: str, is_claimed: bool = False) -> None:
        """Delete a file if it is there, and claimed or not as given."""
        path = self._path(session_id, name)
        (_claimed(path) if is_claimed else path).unlink(missing_ok=True)

    def delete_until(self, moment: float) -> None:
        """Delete the files of all tenants that were saved until a moment."""
        for saved_at, path in self._files(""):
            if saved_at <= moment:
                path.unlink(missing_ok=True)

    def _make_room(self, prefix: str, max_files: int) -> None:
        """Delete the oldest files of a name prefix: one more then makes at most `max_files`."""
        files = sorted(self._files(prefix))
        for _, path in files[: max(0, len(files) - max_files + 1)]:
            path.unlink(missing_ok=True)

    def _files(self, prefix: str) -> list[tuple[float, Path]]:
        """List (time of writing, path) of the files of a name prefix."""
        files = []
        with suppress(FileNotFoundError), os.scandir(self._folder) as entries:
            for entry in entries:
                if entry.name.startswith(prefix):
                    with suppress(FileNotFoundError):
                        files.append((entry.stat().st_mtime, Path(entry.path)))
        return files

    def _path(self, session_id: int, name: str) -> Path:
        return self._folder / f"{self._prefix}{session_id}.{name}.csv"


def _claimed(path: Path) -> Path:
    return path.with_suffix(".taken")


def _set_time(path: Path, moment: float) -> None:
    """Set a file's time of writing by the tenant's clock, by which it expires."""
    os.utime(path, (moment, moment))
