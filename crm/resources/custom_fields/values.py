"""Long work on the values of a tenant's own fields: in chunks, each one transaction.

A field that was deleted 30 days ago leaves no trace in the records: its values are removed from
them, which is no change of theirs, without events and versions; then its key is free.
"""

import time
from collections.abc import Iterator, Sequence

from crm.json import dumps, loads
from crm.records import background
from crm.records.custom import fields as custom_fields
from crm.records.custom import values as custom_values
from crm.records.custom.fields import CustomField
from crm.records.retention import expired_before
from crm.resources.main_resources import MAIN_RESOURCES
from crm.storage import chunks, sweeps
from crm.storage.dialect import among
from crm.storage.session import execute, execute_many, row, rows
from crm.values.folding import fold

CHUNK_RECORDS = 500
MAX_REQUEST_SECONDS = 1.0  # of a request that changes a field
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


def begin_index() -> None:
    """As index_pending(), for so long as a request may take; a thread does the rest."""
    deadline = time.monotonic() + MAX_REQUEST_SECONDS

    def index_some(has_time: chunks.HasTime) -> bool:
        goes_on = _index_some(has_time)
        if goes_on and time.monotonic() > deadline:
            background.look_after_current()
            return False
        return goes_on

    chunks.run(index_some)


background.other_work.append(index_pending)


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
    with_values = f"FROM {field.table} WHERE id > ? AND custom IS NOT NULL ORDER BY id LIMIT ?"
    goes_on = True
    while goes_on:
        stored = rows(f"SELECT id, custom, search_text {with_values}", (last, CHUNK_RECORDS))
        _index(field, stored)
        last = stored[-1][0] if stored else last
        goes_on = len(stored) == CHUNK_RECORDS and has_time()
    if len(stored) == CHUNK_RECORDS:
        execute("UPDATE custom_field SET pending_from = ? WHERE id = ?", (last, id))
        return True
    if field.is_deleted:
        execute("DELETE FROM custom_field WHERE id = ?", (id,))
    else:
        execute("UPDATE custom_field SET pending_from = NULL WHERE id = ?", (id,))
    custom_fields.note_change()
    return True  # others may be pending, too


def _index(field: CustomField, stored: Sequence[tuple[int, str, str | None]]) -> None:
    """Let records be found by their values of a field, or no longer; a deleted one's are removed.

    stored: their ids, values and search texts.
    """
    table, ids = field.wire.found_in, dumps([id for id, *_ in stored]).decode()
    values = {id: loads(custom) for id, custom, _ in stored}
    if table:
        execute(f"DELETE FROM {table} WHERE {field.place} AND {among('record_id')}", (ids,))
    if field.is_deleted:
        left = [(id, one) for id, one in values.items() if one.pop(field.key, None) is not None]
        sql = f"UPDATE {field.table} SET custom = ? WHERE id = ?"
        execute_many(sql, [(dumps(one).decode() if one else None, id) for id, one in left])
        return
    if field.is_indexed:
        sql = f"INSERT INTO {table} (field_id, record_id, value) VALUES (?, ?, ?)"
        of_records = [custom_values.rows_of(field, id, values[id].get(field.key)) for id in values]
        execute_many(sql, [new for of_record in of_records for new in of_record])
    is_searched = bool(field.searched and field.is_live)
    for id, _, text in stored:
        folded = map(fold, field.shown_texts(values[id].get(field.key)))
        if text is not None and any((one in text) != is_searched for one in folded):
            MAIN_RESOURCES[field.resource].record.find(id).update_search_text()


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
