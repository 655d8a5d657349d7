"""How much storage a tenant uses, and whether its plan has room for more (CRM_STORAGE)."""

from typing import Any, NamedTuple

from crm.errors import StorageQuota
from crm.storage.session import current_session, one_row, settings

MEGABYTE = 1024 * 1024
# What one record takes at most, with its event and audit entry: bodies have at most 1 MiB.
MAX_RECORD_BYTES = 8 * MEGABYTE
MAX_UNCHECKED_RECORDS = 100  # of one transaction
UNCHECKED_RECORDS = "unchecked records"  # in the memo of a session: how many may still come


class Storage(NamedTuple):
    """Bytes used by the current tenant, and bytes its plan allows; 0 means no limit.

    With SQLite: the tenant's file and that of its contents, without free pages. With PostgreSQL:
    tables and indexes, as far as rows fill them by an estimate; an empty schema's 2 MB don't count.
    """

    used: int
    quota: int


def measure_storage() -> Storage:
    """Return the storage of the current tenant, including the current transaction."""
    return Storage(sum(store.used_bytes() for store in _stores()), _read_quota())


def _stores() -> tuple[Any, Any]:
    return (session := current_session()).connection, session.source.contents


def _read_quota() -> int:
    (plan,) = one_row("SELECT plan FROM tenant")
    return settings().storage[plan] * MEGABYTE


def require_room(more_bytes: int = 0, records: int = 1) -> None:
    """Raise StorageQuota if the current tenant takes as much as its plan allows (CRM_STORAGE).

    For records that are created or changed, inside their transaction, so that an import beyond the
    quota is rolled back as a whole; and before an upload of `more_bytes`. It takes 10 µs, unless
    what is allocated is beyond the plan's quota: then what is used, which is less, is measured.
    Where there is room for many records, the next ones of the transaction are not checked.
    """
    memo = current_session().memo
    if not more_bytes and memo.get(UNCHECKED_RECORDS, 0) >= records:
        memo[UNCHECKED_RECORDS] -= records
        return
    for read_quota in (lambda: settings().smallest_quota * MEGABYTE, _read_quota):
        if not (quota := read_quota()):
            return
        left = quota - more_bytes - sum(store.allocated_bytes(quota) for store in _stores())
        if left > 0:
            memo[UNCHECKED_RECORDS] = min(MAX_UNCHECKED_RECORDS, left // MAX_RECORD_BYTES)
            return
    if (used := measure_storage().used) + more_bytes >= quota:
        raise StorageQuota(
            f"the {quota // MEGABYTE} MB of this plan are used up:"
            " delete records or change the plan",
            quota_bytes=quota,
            used_bytes=used,
        )
