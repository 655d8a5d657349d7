"""Where tenants' files go that gave up their place: whole, under a name that says why and when.

Nothing here is removed by itself. What is here can be restored like any other copy.
"""

import os
from contextlib import closing, suppress
from pathlib import Path

from crm.errors import Busy
from crm.tenancy import disk, litestream, migrations, upgrades, uploads
from crm.tenancy.database import connect
from crm.tenancy.file_errors import FILE_ERRORS, is_busy
from crm.tenancy.files import Tenant, UnknownTenant
from crm.tenancy.tenants import Tenants


def place(tenants: Tenants, label: str, why: str) -> Path:
    """The name that a tenant's file gets now; the caller holds its writer lock. Raises Busy."""
    folder = tenants.config.data / "trash"
    disk.make_folder(folder)
    found = folder / f"{label}.{why}-{disk.stamp(tenants.clock())}.db"
    if found.exists():
        raise Busy("that was done in this very second, try again in a moment")
    return found


def delete(tenants: Tenants, label: str) -> Path:
    """Take a tenant's file to the trash, and let go what else is kept of the tenant.

    Whoever serves it answers 404 from the next request on; one that waits for its turn to write
    gets Busy. Gives the file's new path. Raises UnknownTenant, Busy when readers or writers don't
    make way; nothing has changed then.
    """
    path = tenants.path(label)
    if not tenants.exists(label):
        raise UnknownTenant
    data = tenants.config.data
    with litestream.released(data, path), Tenant(label, path, tenants).lock():
        if not path.exists():
            raise UnknownTenant  # another deleted it while this one waited
        kept = place(tenants, label, "deleted")
        fold(path, kept)
        # Whoever dies in here leaves one file with one name. The log goes last: connections still
        # open to it must find that their file has gone, not that their log has.
        with disk.renaming(path):
            os.rename(path, kept)
            disk.drop_logs(path)
        disk.sync(kept.parent)
        disk.sync(path.parent)
    uploads.forget_all(data, label)
    upgrades.forget(data, label)
    litestream.forget(data, path)
    tenants.record_labels()
    return kept


def fold(path: Path, kept: Path) -> dict[str, int] | None:
    """Make a tenant's file whole without its log, under its lock.

    Gives the last number that it gave, by table; None when it is too damaged for that: its log is
    then found beside `kept`, the name that the file is about to get. Raises Busy.
    """
    log = Path(f"{kept}-wal")
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
