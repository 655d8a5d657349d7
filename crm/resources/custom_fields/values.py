"""Long work on the values of a tenant's own fields: in chunks, each one transaction.

A field that was deleted 30 days ago leaves no trace in the records: its values are removed from
them, which is no change of theirs, without events and versions; then its key is free.
"""

from collections.abc import Iterator

from crm.json import dumps, loads
from crm.records.custom import fields as custom_fields
from crm.records.custom import values as custom_values
from crm.records.custom.fields import CustomField
from crm.records.record import SoftDeletedRecord
from crm.records.retention import expired_before
from crm.resources.main_resources import MAIN_RESOURCES
from crm.storage import chunks, sweeps
from crm.storage.session import execute, execute_many, row, rows

CHUNK_RECORDS = 500
FIND_PENDING = """
    SELECT id, pending_from FROM custom_field WHERE pending_from IS NOT NULL ORDER BY id LIMIT 1
"""
FORGET_EXPIRED = """
    UPDATE custom_field SET pending_from = 0 WHERE pending_from IS NULL AND deleted_at < ?
"""


def index_pending() -> None:
    """Bring what the values of changed fields are found by up to date, in as many transactions as
    it needs. What a process that has ended left undone is done by the next one."""
    chunks.run(_index_some)


@sweeps.register
def go_on(max_rows: int) -> int:
    """Go on with what is pending, and remove what was deleted long ago; `max_rows` if more is."""
    if execute(FORGET_EXPIRED, (expired_before(),)).rowcount:
        custom_fields.note_change()
    return max_rows if _index_some(chunks.begin()) else 0


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
    goes_on = True
    while goes_on:
        ids = [one for (one,) in rows(sql, (last, CHUNK_RECORDS))]
        for last in ids:
            if one := record.find_any(last):
                _index(field, one)
        goes_on = len(ids) == CHUNK_RECORDS and has_time()
    if len(ids) == CHUNK_RECORDS:
        execute("UPDATE custom_field SET pending_from = ? WHERE id = ?", (last, id))
        return True
    if field.is_deleted:
        execute("DELETE FROM custom_field WHERE id = ?", (id,))
    else:
        execute("UPDATE custom_field SET pending_from = NULL WHERE id = ?", (id,))
    custom_fields.note_change()
    return True  # others may be pending, too


def _index(field: CustomField, record: SoftDeletedRecord) -> None:
    """Let a record be found by its value of a field, or no longer; a deleted one's is removed."""
    table, values = field.wire.found_in, loads(record.custom)
    value = values.pop(field.key, None)
    if table:
        execute(f"DELETE FROM {table} WHERE {field.place} AND record_id = ?", (record.id,))
    if field.is_deleted:
        left = dumps(values).decode() if values else None
        execute(f"UPDATE {field.table} SET custom = ? WHERE id = ?", (left, record.id))
        return
    if field.is_indexed:
        sql = f"INSERT INTO {table} (field_id, record_id, value) VALUES (?, ?, ?)"
        execute_many(sql, custom_values.rows_of(field, record.id, value))
    if record.deleted_at is None:
        record.update_search_text()


def has_key(column: str, key: str) -> tuple[str, list[str]]:
    """An SQL condition, and its parameter: a column of JSON objects has a key, at whatever depth.

    It reads all rows: for what people do once with a field.
    """
    # Every key stands so in the JSON text, and no value does.
    return f"replace({column}, ?, '') <> {column}", [f"{dumps(key).decode()}:"]


def naming(noun: str, id: int) -> Iterator[tuple[CustomField, int]]:
    """The fields with a value that names a record of a noun, each with the id of the record."""
    for field in custom_fields.of_transaction().all:
        if field.references == noun:
            sql = f"SELECT record_id FROM {field.wire.found_in} WHERE {field.place} AND value = ?"
            yield from ((field, record_id) for (record_id,) in rows(sql, (id,)))


def refer(noun: str, old: int, new: int) -> None:
    """Let values that name a record name another one, but for deleted ones, whose id leads there;
    inside a transaction."""
    for field, id in [*naming(noun, old)]:
        if one := MAIN_RESOURCES[field.resource].record.first("id = ?", id):
            patch = dumps({field.key: str(new)}).decode()
            one.save_changes({"custom": custom_values.merged(one.custom, patch)})
