"""Storage quotas: how many megabytes a tenant's file may have, by its plan (CRM_STORAGE).

Checked where records are created and changed, inside their transaction, so that an import that
exceeds the quota is rolled back as a whole. Deleting, logging in and settings are not limited.
Space that deleted rows leave in the file counts as free; deleted records are kept for 30 days.
"""

from typing import NamedTuple

from crm.errors import StorageQuota
from crm.tenancy.database import one_row, settings

MEGABYTE = 1 << 20  # bytes


class Storage(NamedTuple):
    """Bytes used by the current tenant, and bytes its plan allows; 0 means no limit."""

    used: int
    quota: int


def storage() -> Storage:
    """Return the storage of the current tenant, including the current transaction."""
    (plan,) = one_row("SELECT plan FROM tenant")
    (free_pages,) = one_row("PRAGMA freelist_count")
    return Storage(_file_bytes(free_pages), settings().storage[plan] * MEGABYTE)


def require_room() -> None:
    """Raise StorageQuota if the current tenant's file is as large as its plan allows, or larger.

    Takes 3 µs while the file is smaller than the smallest quota of any plan.
    """
    smallest = settings().smallest_quota
    if not smallest or _file_bytes() < smallest * MEGABYTE:
        return
    used, quota = storage()
    if quota and used >= quota:
        megabytes = quota // MEGABYTE
        raise StorageQuota(
            f"the {megabytes} MB of this plan are used up: delete records or change the plan",
            quota_bytes=quota,
            used_bytes=used,
        )


def _file_bytes(free_pages: int = 0) -> int:
    (pages,), (page_bytes,) = one_row("PRAGMA page_count"), one_row("PRAGMA page_size")
    return (pages - free_pages) * page_bytes
