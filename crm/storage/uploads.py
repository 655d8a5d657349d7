"""Uploaded files kept between two pages, until their user has confirmed what to do with them.

A file is kept under a random name, for an hour, for one login session of one tenant: to anybody
else it does not exist. When a session, or a tenant, has too many, its oldest files are deleted.
Saving a file also deletes expired files of other tenants. The files of a tenant in a file are in
the data folder; those of one in a schema in its database (sqlite/file_uploads.py,
postgres/schema_uploads.py).
"""

import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from crm.errors import NotFound
from crm.storage.file_errors import FILE_ERRORS
from crm.storage.session import current_session

FOLDER = "uploads"  # of the data folder
MAX_AGE_SECONDS = 3600
MAX_PER_SESSION, MAX_PER_TENANT = 3, 30
NAME = re.compile(r"[0-9a-f]{32}\Z")


def save(session_id: int, data: bytes) -> str:
    """Save a file for a login session and return its name."""
    delete_expired()
    name = secrets.token_hex(16)
    _store().save(session_id, name, data, current_session().clock())
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
    """Use the content of a file in a `with` block, once; an exception in it saves the file again.

    Raises NotFound, also while or after another request uses it.
    """
    data, store = read(session_id, name), _store()
    if not store.delete(session_id, name):
        raise NotFound  # another request took it meanwhile
    try:
        yield data
    except BaseException:
        with suppress(OSError, *FILE_ERRORS):
            store.save(session_id, name, data, current_session().clock())
        raise


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


def _store() -> Any:
    return current_session().source.uploads


def _require_name(name: str) -> None:
    if not NAME.match(name):
        raise NotFound
