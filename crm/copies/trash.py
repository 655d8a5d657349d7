"""The trash: files of deleted tenants, and files replaced by a restore, whole and dated.

Of a tenant that lived in a schema it has the archive, which is such a file too.

Nothing in it is removed automatically, and everything can be restored like any other copy.
"""

import os
from contextlib import closing, suppress
from itertools import count
from pathlib import Path

from crm.errors import Busy
from crm.installation.tenants import Tenants
from crm.storage import disk
from crm.storage.file_errors import FILE_ERRORS, is_busy
from crm.storage.sqlite import archive
from crm.storage.sqlite.connection import connect


def free_path(tenants: Tenants, label: str, reason: str) -> Path:
    """Return a path in the trash for a tenant's file, of this second or the next that is free.

    The caller holds the tenant's writer lock.
    """
    folder = tenants.config.data / "trash"
    disk.make_folder(folder)
    stamps = (disk.stamp(tenants.clock() + seconds) for seconds in count())
    paths = (folder / f"{label}.{reason}-{stamp}.db" for stamp in stamps)
    return next(path for path in paths if not path.exists())


def checkpoint(path: Path, trashed: Path) -> dict[str, int] | None:
    """Write the log of a tenant's file back into it; the caller holds its writer lock.

    Returns the last number that each table has given. Returns None when the file is too damaged
    for that: its log is then beside `trashed`, the path that the file is about to get. Raises Busy.
    """
    log = Path(f"{trashed}-wal")
    with suppress(FileNotFoundError):
        os.link(f"{path}-wal", log)  # before it is opened: closing may remove it
    damaged = False
    try:
        with closing(connect(path)) as connection:
            numbers = archive.numbers(connection)
            blocked, *_ = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        if blocked:
            raise Busy("the tenant is being read, try again in a moment")
    except FILE_ERRORS as error:
        if is_busy(error):
            raise Busy from error
        damaged = True
        return None
    finally:
        if not damaged:
            log.unlink(missing_ok=True)
    # That the log is empty is on the disk before another file takes the name: after a power cut it
    # would be read with what had been in this one's log.
    with suppress(FileNotFoundError):
        disk.sync(Path(f"{path}-wal"))
    return numbers
