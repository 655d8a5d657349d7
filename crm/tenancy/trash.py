"""The trash: files of deleted tenants, and files replaced by a restore, whole and dated.

Of a tenant that lived in a schema it has the archive, which is such a file too.

Nothing in it is removed automatically, and everything can be restored like any other copy.
"""

import os
from contextlib import closing, suppress
from itertools import count
from pathlib import Path

from crm.errors import Busy
from crm.tenancy import disk, litestream, migrations, upgrades, uploads
from crm.tenancy.engines.sqlite import connect
from crm.tenancy.file_errors import FILE_ERRORS, is_busy
from crm.tenancy.files import Tenant, UnknownTenant
from crm.tenancy.tenants import Tenants


def new_path(tenants: Tenants, label: str, reason: str) -> Path:
    """Return the path in the trash for a tenant's file; the caller holds its writer lock.

    Raises Busy if a file of that tenant was put there in the same second.
    """
    folder = tenants.config.data / "trash"
    disk.make_folder(folder)
    path = folder / f"{label}.{reason}-{disk.stamp(tenants.clock())}.db"
    if path.exists():
        raise Busy("that was done in this very second, try again in a moment")
    return path


def free_path(tenants: Tenants, label: str, reason: str) -> Path:
    """Return a path as new_path() does; if that is taken, with the next second that is free.

    For what has happened already and must not fail because of a name.
    """
    folder = tenants.config.data / "trash"
    disk.make_folder(folder)
    stamps = (disk.stamp(tenants.clock() + seconds) for seconds in count())
    paths = (folder / f"{label}.{reason}-{stamp}.db" for stamp in stamps)
    return next(path for path in paths if not path.exists())


def delete(tenants: Tenants, label: str) -> Path:
    """Move a tenant to the trash and delete what else is kept of it; returns its file's path.

    Its next requests get 404 from all processes; a session that waits to write gets Busy. Raises
    UnknownTenant, or Busy when the file is in use for too long; nothing has changed then.
    """
    if not tenants.exists(label):
        raise UnknownTenant
    if store := tenants.schema_store(label):
        return store.delete()
    path = tenants.path(label)
    data = tenants.config.data
    with litestream.released(data, path), Tenant(label, path, tenants).lock():
        if not path.exists():
            raise UnknownTenant  # another deleted it while this one waited
        trashed = new_path(tenants, label, "deleted")
        checkpoint(path, trashed)
        # A process that dies here leaves one file with one name. The log goes last: connections
        # still open to it must find that their file has gone, not that their log has.
        with disk.renaming(path):
            os.rename(path, trashed)
            disk.delete_logs(path)
        disk.sync(trashed.parent)
        disk.sync(path.parent)
    uploads.delete_all(data, label)
    upgrades.delete_copies(data, label)
    litestream.delete_state(data, path)
    tenants.record_labels()
    return trashed


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
            numbers = connection.execute("SELECT name, seq FROM sqlite_sequence").fetchall()
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
    # The file may not have had its last steps yet.
    return {migrations.RENAMED_TABLES.get(table, table): number for table, number in numbers}
