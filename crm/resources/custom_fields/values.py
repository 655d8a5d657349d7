"""Long work on the values of a tenant's own fields: in chunks, each one transaction."""

from crm.json import loads
from crm.records import custom_fields, custom_values
from crm.records.custom_fields import CustomField
from crm.records.record import SoftDeletedRecord
from crm.resources.main_resources import MAIN_RESOURCES
from crm.storage import chunks
from crm.storage.session import execute, execute_many, row, rows

CHUNK_RECORDS = 500
FIND_PENDING = """
    SELECT id, pending_from FROM custom_field WHERE pending_from IS NOT NULL ORDER BY id LIMIT 1
"""


def index_pending() -> None:
    """Bring what the values of changed fields are found by up to date, in as many transactions as
    it needs. What a process that has ended left undone is done by the next one."""
    chunks.run(_index_some)


def _index_some(has_time: chunks.HasTime) -> bool:
    """Index some records of a field that was changed; inside a transaction."""
    pending = row(FIND_PENDING)
    if pending is None:
        return False
    id, last = pending
    every = custom_fields.of_transaction().all
    field = next(one for one in every if one.id == id)
    record = MAIN_RESOURCES[field.resource].record
    table = record._meta.table_name
    sql = f"SELECT id FROM {table} WHERE id > ? AND custom IS NOT NULL ORDER BY id LIMIT ?"
    while has_time():
        ids = [one for (one,) in rows(sql, (last, CHUNK_RECORDS))]
        for last in ids:
            if one := record.find_any(last):
                _index(field, one)
        if len(ids) < CHUNK_RECORDS:
            execute("UPDATE custom_field SET pending_from = NULL WHERE id = ?", (id,))
            custom_fields.note_change()
            return True  # others may be pending, too
    execute("UPDATE custom_field SET pending_from = ? WHERE id = ?", (last, id))
    return True


def _index(field: CustomField, record: SoftDeletedRecord) -> None:
    """Let a record be found by its value of a field, or no longer."""
    table = field.wire.found_in
    if table:
        execute(f"DELETE FROM {table} WHERE {field.place} AND record_id = ?", (record.id,))
    if field.is_indexed:
        sql = f"INSERT INTO {table} (field_id, record_id, value) VALUES (?, ?, ?)"
        value = loads(record.custom).get(field.key)
        execute_many(sql, custom_values.rows_of(field, record.id, value))
    if record.deleted_at is None:
        record.update_search_text()
