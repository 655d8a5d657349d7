"""The store of a tenant, by where it lives, moving it to the other engine, and deleting it."""

import shutil
from contextlib import closing
from pathlib import Path

from crm.copies.tenant_store import FileStore, TenantStore
from crm.errors import Conflict, UnknownTenant
from crm.installation.tenants import Tenants
from crm.storage import upgrades, uploads
from crm.storage.session import one_row
from crm.storage.sqlite import archive
from crm.storage.sqlite.archive_file import open_copy

FILES, POSTGRES = PLACES = ("files", "postgres")
SUSPENDED_AT = "SELECT suspended_at FROM tenant"


def find_store(tenants: Tenants, label: str) -> TenantStore:
    """Return the store of a tenant where it lives, or where a new one is to live.

    Raises TenantElsewhere, DatabaseUnavailable.
    """
    has_file = tenants.postgres is None or tenants.lives_in_file(label)
    return store_in(tenants, label, FILES if has_file else POSTGRES)


def store_in(tenants: Tenants, label: str, place: str) -> TenantStore:
    """Return the store of a tenant in one of PLACES. Raises Conflict where there is no database."""
    if place == FILES:
        return FileStore(tenants, label)
    if tenants.postgres is None:
        raise Conflict("CRM_DATABASE is not set: all tenants live in files")
    from crm.copies.schema_store import SchemaStore  # it needs the driver of CRM_DATABASE

    return SchemaStore(tenants, label)


def move(tenants: Tenants, label: str, copy: Path, place: str) -> Path | None:
    """Move a tenant of this installation to one of PLACES, by a copy of it of the newest version.

    Both must be suspended, and the tenant as it is in the copy: then nothing is lost, and all goes
    on there. Returns where in the trash the tenant is that was in the other place. Done again, it
    finishes what a process that died has begun. Raises Conflict, and what restoring does.
    """
    with closing(open_copy(copy)) as file:
        (copied,), numbers = file.execute(SUSPENDED_AT).fetchone(), archive.numbers(file)
    with tenants.session(label, sweeps_expired=False):
        (suspended_at,) = one_row(SUSPENDED_AT)
    if suspended_at is None or copied != suspended_at:
        raise Conflict(
            f"{label} was not suspended when this copy was made, or not since: tenant suspend"
            f" {label}, backup create {label}, and restore that copy"
        )
    target, home, moved = store_in(tenants, label, place), find_store(tenants, label), None
    if type(home) is not type(target):
        moved = home.move(target, copy, numbers)
    elif place == POSTGRES and tenants.files.has(label):  # left by a process that died here
        moved = FileStore(tenants, label).delete()
    if place == POSTGRES:
        tenants.leave_directory(label)
    tenants.forget(label)
    return moved


def delete(tenants: Tenants, label: str) -> Path:
    """Move a tenant to the trash and delete what else is kept of it; returns its file's path.

    Its next requests get 404 from all processes; a session that waits to write gets Busy. Raises
    UnknownTenant, or Busy when the tenant is in use for too long; nothing has changed then.
    """
    if not tenants.exists(label):
        tenants.leave_directory(label)  # of a process that died before it did so
        raise UnknownTenant
    trashed = find_store(tenants, label).delete()
    if tenants.files.has(label):  # left by a move that was interrupted: it must not come back
        FileStore(tenants, label).delete()
    tenants.leave_directory(label)
    uploads.delete_all(tenants.config.data, label)
    shutil.rmtree(upgrades.folder(tenants.config.data, label), ignore_errors=True)
    return trashed
