"""Copies of tenants' files from before their upgrades: a file is copied before its next steps.

The copy is the way back, because an older release refuses the upgraded file. Of each tenant the
copies of the two newest versions are kept, so that a step which fails, and is tried again and
again, leaves the copy from before the first of them.
"""

import os
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

from crm.errors import Busy, CRMError
from crm.storage import disk
from crm.storage.connection_source import ConnectionSource
from crm.storage.file_errors import FILE_ERRORS, is_busy
from crm.storage.sqlite.archive_file import BadCopy

MAX_VERSIONS = 2  # of a tenant's file, of which a copy is kept
NAME = re.compile(r".+-v(?P<version>[0-9]+)-[0-9]{8}T[0-9]{6}Z\.db\Z")


class NotUpgraded(CRMError):
    """The copy cannot be written, for example because the disk is full; the file is unchanged."""

    code = "not_upgraded"


def folder(data: Path, label: str) -> Path:
    """Return the folder of a tenant's copies.

    Each tenant has one: a folder of all copies would be read for each of 10,000 tenants.
    """
    return data / "upgrades" / label


def keep_archive(tenant: ConnectionSource, version: int, write: Callable[[Path], None]) -> Path:
    """Copy a tenant of whatever engine before its next steps; the caller holds its writer lock.

    `write` makes the copy at a path: checked and synced. Returns the path of the copy,
    `<label>-v<version>-<time>.db`. Raises NotUpgraded, Busy.
    """
    label, moment = tenant.label, tenant.installation.clock()
    to = folder(tenant.config.data, label)
    draft = to / ".new"
    try:
        disk.make_folder(to)
        draft.unlink(missing_ok=True)  # left by a dead process: this one holds the lock
        try:
            write(draft)
            disk.require_room(to)
            copy = to / f"{label}-v{version}-{disk.stamp(moment)}.db"
            os.replace(draft, copy)
        finally:
            draft.unlink(missing_ok=True)
        disk.sync(to)
    except (OSError, BadCopy, *FILE_ERRORS) as error:
        if is_busy(error):
            raise Busy from error
        reason = getattr(error, "strerror", None) or str(error)
        raise NotUpgraded(
            f"{label} is not upgraded: no copy of it can be made first: {reason}"
        ) from error
    _delete_older(to, copy)
    return copy


def find_copy(within: Path, label: str, version: int) -> Path | None:
    """Find a tenant's copy of the newest version up to this one, in a folder of all tenants'."""
    known = [copy for copy in _copies(within / label) if copy[0] <= version]
    return max(known)[1] if known else None


def _copies(within: Path) -> Iterator[tuple[int, Path]]:
    with suppress(FileNotFoundError):
        for name in os.listdir(within):
            if match := NAME.match(name):
                yield int(match["version"]), within / name


def _delete_older(within: Path, newest: Path) -> None:
    """Keep the last copy of each of the newest versions and delete the others."""
    copies = sorted(_copies(within))
    kept = [*dict(copies).values()][-MAX_VERSIONS:]
    for _, path in copies:
        if path not in (newest, *kept):
            path.unlink(missing_ok=True)
