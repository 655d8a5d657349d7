"""A tenant's file as it was before an upgrade: its next steps begin with a copy of it.

The copy is the way back: a release that is older than the file refuses it. Of each tenant those of
the two newest versions are kept, so that a step which fails half way, and is tried again and again,
leaves the copy from before the first one.
"""

import os
import re
import secrets
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

from crm.errors import Busy, CRMError
from crm.tenancy import disk, migrations
from crm.tenancy.file_errors import is_busy

VERSIONS = 2  # of a tenant's file, of which a copy is kept
NAME = re.compile(r".+-v(?P<version>[0-9]+)-[0-9]{8}T[0-9]{6}Z\.db\Z")
SPARE = 1 << 20  # bytes that a copy must leave free: a full disk stops everybody


class NotUpgraded(CRMError):
    """There is no room for the copy, or no way to write it; the file is as it was."""

    code = "not_upgraded"


def folder(data: Path, label: str) -> Path:
    """Each tenant's copies have a folder: one for all would be read for each of 10,000 tenants."""
    return data / "upgrades" / label


def keep(connection: sqlite3.Connection, label: str, data: Path, moment: float) -> Path:
    """Copy an open file before its next steps; the caller holds its writer lock.

    Gives the copy's path, `<label>-v<version>-<time>.db`. Raises NotUpgraded.
    """
    version = migrations.version(connection)
    to = folder(data, label)
    unseen = to / f".new-{label}-{secrets.token_hex(4)}"
    try:
        disk.make_folder(to.parent)
        disk.make_folder(to)
        for left in to.glob(f".new-{label}-????????"):  # by a dead process: the lock is ours
            left.unlink()
        _require_room(connection, to)
        disk.make(unseen)
        try:
            _copy(connection, unseen)
            _check(connection, unseen)
            disk.sync(unseen)
            found = to / f"{label}-v{version}-{disk.stamp(moment)}.db"
            os.replace(unseen, found)
        finally:
            unseen.unlink(missing_ok=True)
        disk.sync(to)
    except (OSError, sqlite3.Error) as error:
        if is_busy(error):
            raise Busy from error
        why = getattr(error, "strerror", None) or str(error)
        raise NotUpgraded(
            f"the file of {label} is not upgraded: no copy of it can be made first: {why}"
        ) from error
    _let_older_go(to, found)
    return found


def copies(data: Path, label: str) -> list[Path]:
    """The copies of a tenant's file, that of the newest version first."""
    return [path for _, path in sorted(_copies(folder(data, label)), reverse=True)]


def forget(data: Path, label: str) -> None:
    """Let go the copies of a tenant that is no more."""
    shutil.rmtree(folder(data, label), ignore_errors=True)


def _copies(within: Path) -> Iterator[tuple[int, Path]]:
    with suppress(FileNotFoundError):
        for name in os.listdir(within):
            if named := NAME.match(name):
                yield int(named["version"]), within / name


def _let_older_go(within: Path, newest: Path) -> None:
    """One copy of a version stays, and those of the two newest versions."""
    found = sorted(_copies(within), key=lambda copy: (copy[1] == newest, *copy))
    kept = dict(found)  # by version, the last one of each
    stay = sorted(kept, reverse=True)[:VERSIONS]
    for version, path in found:
        if path != newest and (version not in stay or kept[version] != path):
            path.unlink(missing_ok=True)


def _require_room(connection: sqlite3.Connection, within: Path) -> None:
    (pages,), (size,) = (
        connection.execute(f"PRAGMA {each}").fetchone() for each in ("page_count", "page_size")
    )
    if shutil.disk_usage(within).free < pages * size + SPARE:
        raise OSError(None, "there is no room for it on the disk")


def _copy(connection: sqlite3.Connection, to: Path) -> None:
    """Page by page: VACUUM INTO, which builds each index anew, takes ten times as long for a small
    file. Nobody writes meanwhile."""
    with closing(sqlite3.connect(to)) as made:
        made.execute("PRAGMA journal_mode = OFF")
        made.execute("PRAGMA synchronous = OFF")  # it is synced as a whole, before it has its name
        connection.backup(made)


def _check(connection: sqlite3.Connection, copy: Path) -> None:
    """Is it like the file, by version, schema and size?"""
    asked = ("PRAGMA user_version", "SELECT count(*), sum(length(sql)) FROM sqlite_schema")
    with closing(sqlite3.connect(f"{copy.resolve().as_uri()}?immutable=1", uri=True)) as made:
        told = [made.execute(sql).fetchone() for sql in asked]
        (pages,), (size,) = (
            made.execute(f"PRAGMA {each}").fetchone() for each in ("page_count", "page_size")
        )
    if told != [connection.execute(sql).fetchone() for sql in asked]:
        raise sqlite3.DatabaseError("the copy is not like the file")
    if copy.stat().st_size != pages * size:
        raise sqlite3.DatabaseError("the copy is not whole")
