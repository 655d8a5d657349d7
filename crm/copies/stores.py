"""The store of a tenant, by where it lives, and deleting a tenant."""

from pathlib import Path
from typing import TYPE_CHECKING

from crm.copies.tenant_store import FileStore
from crm.errors import UnknownTenant
from crm.installation.tenants import Tenants
from crm.storage import upgrades, uploads

if TYPE_CHECKING:
    from crm.copies.schema_store import SchemaStore


def find_store(tenants: Tenants, label: str) -> "FileStore | SchemaStore":
    """Return the store of a tenant where it lives, or where a new one is to live.

    Raises TenantElsewhere, DatabaseUnavailable.
    """
    if tenants.postgres is None or tenants.lives_in_file(label):
        return FileStore(tenants, label)
    from crm.copies.schema_store import SchemaStore  # it needs the driver of CRM_DATABASE

    return SchemaStore(tenants, label)


def delete(tenants: Tenants, label: str) -> Path:
    """Move a tenant to the trash and delete what else is kept of it; returns its file's path.

    Its next requests get 404 from all processes; a session that waits to write gets Busy. Raises
    UnknownTenant, or Busy when the tenant is in use for too long; nothing has changed then.
    """
    if not tenants.exists(label):
        tenants.leave_directory(label)  # of a process that died before it did so
        raise UnknownTenant
    trashed = find_store(tenants, label).delete()
    tenants.leave_directory(label)
    uploads.delete_all(tenants.config.data, label)
    upgrades.delete_copies(tenants.config.data, label)
    return trashed
