"""Copies of tenants' files in a folder: their names, and whether one is whole.

The header of a whole copy marks it: its journal mode is not that of a log, and it has as many pages
as are counted there. A file that a server uses always has the mode of a log, so that what `cp`
makes of it lacks the mark: changes of the log may be missing, which no check of the content shows.
"""

import os
import re
import sqlite3
import struct
from contextlib import closing, suppress
from pathlib import Path

from crm.config import LABEL
from crm.errors import Conflict
from crm.storage import disk
from crm.storage.file_errors import FILE_ERRORS
from crm.storage.sqlite import migrations

NAME = re.compile(r"(?P<label>.+)-(?P<time>[0-9]{8}T[0-9]{6}Z)\.db\Z")

MAX_IN_MEMORY_BYTES = 16 << 20  # a larger file is copied page by page
JOURNAL_MODE_OFFSET, ROLLBACK_JOURNAL = 18, b"\1\1"  # in the header: the copy has no log
HEADER = struct.Struct(">16xH2s8xI")  # bytes of a page, journal mode, pages
UNMARKED = (
    "it lacks the mark of a whole copy: if it was made by cp or rsync while the tenant was in use,"
    " the last changes may be missing, those in the log (-wal) beside the tenant's file"
)


class BadCopy(Conflict):
    """The copy is damaged, incomplete, or not a copy of a tenant."""

    code = "bad_copy"


def list_copies(within: Path) -> dict[str, list[Path]]:
    """List the copies in a folder by label, the oldest first."""
    copies: dict[str, list[Path]] = {}
    with suppress(FileNotFoundError):
        for name in sorted(os.listdir(within)):
            if (match := NAME.match(name)) and LABEL.match(match["label"]):
                copies.setdefault(match["label"], []).append(within / name)
    return copies


def made_at(copy: Path) -> str:
    """Return when a copy was made, by its name: `20261121T065900Z`. A link's file is older."""
    match = NAME.match(copy.name)
    assert match is not None, copy
    return match["time"]


def check_copy(path: Path, name: str = "") -> int:
    """Read a whole copy without changing anything, and return its version.

    `name` is what errors call it, by default its path. Raises BadCopy, NewerFile, or
    FileNotFoundError.
    """
    name = name or str(path)
    require_alone(path)
    try:
        with closing(open_copy(path)) as copy:
            version = migrations.version(copy)
            if version > len(migrations.STEPS):
                raise migrations.newer(name, version)
            faults = copy.execute("PRAGMA integrity_check(1)").fetchall()
            if faults != [("ok",)]:
                raise BadCopy(f"{name} is damaged: {faults[0][0]}")
            if not version:
                raise BadCopy(
                    f"{name} is no tenant's file, or has lost its version, as what is made of a"
                    " .dump has: PRAGMA user_version and application_id give it back (trouble.md)"
                )
            if copy.execute("SELECT count(*) FROM tenant").fetchone() != (1,):
                raise BadCopy(f"{name} is no tenant's file")
            if violation := copy.execute("PRAGMA foreign_key_check").fetchone():
                raise BadCopy(
                    f"{name} is damaged: a {violation[0]} names a {violation[2]} not there"
                )
    except UnicodeError as error:  # of SQLite's message, which quotes a damaged schema
        raise BadCopy(f"{name} is damaged: its schema is no text") from error
    except FILE_ERRORS as error:
        raise BadCopy(f"{name} cannot be used: {error}") from error
    return version


def has_mark(path: Path) -> bool:
    """Whether a file has the mark of a whole copy; only its header is read."""
    with path.open("rb") as file:
        header = file.read(HEADER.size).ljust(HEADER.size, b"\0")
    page_bytes, journal_mode, pages = HEADER.unpack(header)
    return journal_mode == ROLLBACK_JOURNAL and pages * page_bytes == path.stat().st_size


def mark(path: Path) -> None:
    """Mark a file as a whole copy: nothing of it is in a log, and it is nobody's to write."""
    with path.open("r+b") as file:
        file.seek(JOURNAL_MODE_OFFSET)
        file.write(ROLLBACK_JOURNAL)


def open_copy(path: Path) -> sqlite3.Connection:
    """Open a copy to read it. Raises FileNotFoundError."""
    # Immutable: SQLite makes no log beside it, and looks for none.
    address = f"{path.resolve().as_uri()}?immutable=1"
    os.stat(path)
    return sqlite3.connect(address, uri=True, isolation_level=None)


def require_alone(path: Path) -> None:
    """Raise BadCopy if a part of the file is in a log beside it."""
    for log in ("-wal", "-journal"):
        with suppress(FileNotFoundError):
            if os.stat(f"{path}{log}").st_size:
                raise BadCopy(f"{path} is no whole copy: a part of it is in {path.name}{log}")


def copy_pages(connection: sqlite3.Connection, to: Path) -> None:
    """Copy all that is committed in an open file to a path where nothing is.

    Writers don't wait for it. The copy is not synced. Page by page: VACUUM INTO, which builds each
    index anew, takes ten times as long for a small file.
    """
    disk.make(to)
    if _size(connection) <= MAX_IN_MEMORY_BYTES:
        to.write_bytes(connection.serialize())
    else:
        with closing(sqlite3.connect(to)) as copy:
            copy.execute("PRAGMA journal_mode = OFF")
            copy.execute("PRAGMA synchronous = OFF")
            connection.backup(copy)
    mark(to)


def copy_before_upgrade(connection: sqlite3.Connection, to: Path) -> None:
    """Copy an open file that nobody writes to. Raises OSError if the disk has no room."""
    disk.require_room(to.parent, _size(connection))
    copy_pages(connection, to)
    if not has_mark(to):  # it has as many pages as its header says
        raise BadCopy("the copy is not whole")
    disk.sync(to)


def _size(connection: sqlite3.Connection) -> int:
    """Return the bytes of an open file."""
    pragmas = ("page_count", "page_size")
    (pages,), (size,) = (connection.execute(f"PRAGMA {name}").fetchone() for name in pragmas)
    return pages * size
