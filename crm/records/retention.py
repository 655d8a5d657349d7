"""How long rows are kept, and their deletion (D3, D4, D5, D9, D15).

Owners of tables register their sweeps with crm.storage.sweeps; this module has what they share.
"""

from crm.json import dumps
from crm.records.custom import values as custom_values
from crm.storage import sweeps
from crm.storage.clocks import erasing_before
from crm.storage.dialect import among
from crm.storage.session import execute, rows

KEPT_DAYS = 30  # events with their deliveries, deleted records, expired one-time links
KEPT_SECONDS = KEPT_DAYS * sweeps.DAY_SECONDS


def expired_before() -> str:
    """The time before which rows that are kept for KEPT_DAYS are deleted for good."""
    return erasing_before(KEPT_SECONDS)


def delete_after(
    table: str, column: str, seconds: int = KEPT_SECONDS, condition: str = "TRUE"
) -> None:
    """Register a sweep that deletes rows of a table so long after their time in `column`.
    `condition`: SQL that must also hold."""

    @sweeps.register
    def sweep(max_rows: int) -> int:
        return execute(
            f"DELETE FROM {table} WHERE id IN"
            f" (SELECT id FROM {table} WHERE {column} < ? AND {condition} LIMIT ?)",
            (erasing_before(seconds), max_rows),
        ).rowcount


def erase_deleted(table: str, *referring: str) -> None:
    """Register a sweep that erases the soft-deleted records of a table after KEPT_DAYS, with their
    notes, files and audit entries. `referring`: tables with a column of their id; one with a row
    there stays."""
    unreferenced = "".join(
        f"NOT EXISTS (SELECT 1 FROM {other} WHERE {other}.{table}_id = {table}.id) AND "
        for other in referring
    )

    @sweeps.register
    def sweep(max_rows: int) -> int:
        expired = rows(
            f"SELECT id FROM {table} WHERE {unreferenced}deleted_at < ? LIMIT ?",
            (expired_before(), max_rows),
        )
        if expired:
            ids = dumps([id for (id,) in expired]).decode()
            of_records = f"noun = ? AND {among('record_id')}"
            execute(f"DELETE FROM note WHERE {of_records}", (table, ids))
            execute(f"DELETE FROM file WHERE {of_records}", (table, ids))
            execute(f"DELETE FROM audit_entry WHERE {of_records}", (table, ids))
            custom_values.forget(f"{table}s", ids)
            execute(f"DELETE FROM {table} WHERE {among('id')}", (ids,))
        return len(expired)
