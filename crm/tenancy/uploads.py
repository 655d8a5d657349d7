"""Files that wait between two pages until a person has decided about them.

A file waits in the data folder under a random name, for an hour, for one session of one tenant:
whoever else names it finds nothing. A session's oldest make room for its newest, and so do a
tenant's. Whoever keeps a file lets those go that have waited too long, at any tenant.
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
WAITS = 3600  # seconds
MOST_OF_SESSION, MOST_OF_TENANT = 3, 30
NAME = re.compile(r"[0-9a-f]{32}\Z")


def keep(session_id: int, data: bytes) -> str:
    """Let a file wait and give its name. Raises StorageFull."""
    folder = _folder()
    disk.make_folder(folder)
    forget_old()
    tenant = f"{current_session().label}."
    _make_room(tenant, MOST_OF_TENANT)
    _make_room(f"{tenant}{session_id}.", MOST_OF_SESSION)
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
    """What waits under that name. Raises NotFound."""
    path = _path(session_id, name)
    try:
        if path.stat().st_mtime <= current_session().clock() - WAITS:
            raise NotFound
        return path.read_bytes()
    except FileNotFoundError:
        raise NotFound from None


@contextmanager
def taken(session_id: int, name: str) -> Iterator[bytes]:
    """What waits under that name, for one taker only; it waits on if what is done with it fails.

    Raises NotFound.
    """
    data = read(session_id, name)
    path = _path(session_id, name)
    mine = path.with_suffix(".taken")
    try:
        path.rename(mine)
    except FileNotFoundError:
        raise NotFound from None  # another took it meanwhile
    try:
        yield data
    except BaseException:
        with suppress(FileNotFoundError):
            mine.rename(path)
        raise
    mine.unlink(missing_ok=True)


def drop(session_id: int, name: str) -> None:
    """It need not wait any more; nothing happens if it doesn't."""
    _path(session_id, name).unlink(missing_ok=True)


def forget_old() -> None:
    """Let go what has waited too long, at any tenant."""
    limit = current_session().keeper.steady.for_erasing() - WAITS
    for written_at, path in _waiting(""):
        if written_at <= limit:
            path.unlink(missing_ok=True)


def forget_all(data: Path, label: str) -> None:
    """Let go all that waits of a tenant that is no more, in an installation's data folder."""
    for path in (data / FOLDER).glob(f"{label}.*"):
        path.unlink(missing_ok=True)


def _make_room(start: str, most: int) -> None:
    """For one more of the files whose names start so."""
    found = sorted(_waiting(start))
    for _, path in found[: max(0, len(found) - most + 1)]:
        path.unlink(missing_ok=True)


def _waiting(start: str) -> list[tuple[float, Path]]:
    """(when it was written, path) of the files whose names start so."""
    found = []
    with suppress(FileNotFoundError), os.scandir(_folder()) as entries:
        for entry in entries:
            if entry.name.startswith(start):
                with suppress(FileNotFoundError):
                    found.append((entry.stat().st_mtime, Path(entry.path)))
    return found


def _path(session_id: int, name: str) -> Path:
    if not NAME.match(name):
        raise NotFound
    return _folder() / f"{current_session().label}.{session_id}.{name}.csv"


def _folder() -> Path:
    return settings().data / FOLDER


def _touch(path: Path) -> None:
    """Its time is the tenant's clock's, by which it is counted."""
    moment = current_session().clock()
    os.utime(path, (moment, moment))
