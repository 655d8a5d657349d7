"""Storage quotas: how many megabytes a tenant may take, by its plan (CRM_STORAGE).

Checked where records are created and changed, inside their transaction, so that an import that
exceeds the quota is rolled back as a whole. Deleting, logging in and settings are not limited.
Space that deleted rows leave counts as free; deleted records are kept for 30 days.

With SQLite it is the file without its free pages. With PostgreSQL it is the tables and indexes of
the tenant's schema, of which the part that rows fill is estimated. What an empty schema takes on
the disk, about 2 MB, does not count.
"""

from typing import NamedTuple

from crm.errors import StorageQuota
from crm.storage.session import current_session, one_row, settings

MEGABYTE = 1 << 20  # bytes


class Storage(NamedTuple):
    """Bytes used by the current tenant, and bytes its plan allows; 0 means no limit."""

    used: int
    quota: int


def storage() -> Storage:
    """Return the storage of the current tenant, including the current transaction."""
    (plan,) = one_row("SELECT plan FROM tenant")
    used = current_session().connection.used_bytes()
    return Storage(used, settings().storage[plan] * MEGABYTE)


def require_room() -> None:
    """Raise StorageQuota if the current tenant takes as much as its plan allows, or more.

    Takes 3 µs while a file is smaller than the smallest quota of any plan.
    """
    smallest = settings().smallest_quota
    if not smallest or current_session().connection.allocated_bytes() < smallest * MEGABYTE:
        return
    used, quota = storage()
    if quota and used >= quota:
        megabytes = quota // MEGABYTE
        raise StorageQuota(
            f"the {megabytes} MB of this plan are used up: delete records or change the plan",
            quota_bytes=quota,
            used_bytes=used,
        )
