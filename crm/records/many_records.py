"""Many records of a kind, written by a few statements as their own methods write single ones.

With the rows are written their search texts, entries of the audit trail, and notes of the session's
batch. Rules of the record, its parts, its tags and its events are the caller's.
"""

from collections import defaultdict
from collections.abc import Sequence
from typing import Any, NamedTuple

from crm.json import dumps
from crm.records import words
from crm.records.custom import values as custom_values
from crm.records.record import (
    ADD_AUDIT_ENTRY,
    NOTE_IN_BATCH,
    SoftDeletedRecord,
    index_new,
    insert_statement,
    searched_columns,
    storable,
    update_statement,
)
from crm.storage import search_index
from crm.storage.quota import require_room
from crm.storage.session import (
    current_session,
    execute,
    execute_many,
    now,
    one_row,
    rows,
)
from crm.values import folding

NOTE_CREATED = """
    INSERT INTO batch_record (batch_id, noun, record_id, action, version_before, version)
    SELECT ?, ?, id, 'created', 0, version FROM {} WHERE id > ? ORDER BY id
"""


class Change(NamedTuple):
    """The stored values of a record, with its id and version, and those that differ.

    Among the stored ones are all that the search looks into.
    """

    stored: dict[str, Any]
    after: dict[str, Any]


def add_all(record: type[SoftDeletedRecord], new: Sequence[dict[str, Any]]) -> None:
    """Insert rows of the same columns, as SoftDeletedRecord.add() does one; in a transaction."""
    if not new:
        return
    require_room(records=len(new))
    if "sort_key" in record._meta.fields:
        keys = folding.sort_keys([values["name"] for values in new])
        new = [values | {"sort_key": key} for values, key in zip(new, keys, strict=True)]
    words.unify(record, new)
    table, moment = record._meta.table_name, now()
    stamps = {"created_at": moment, "updated_at": moment, "version": 1}
    statement = insert_statement(record, (*new[0], "search_text", *stamps))
    (last_id,) = one_row(f"SELECT coalesce(max(id), 0) FROM {table}")
    pairs = zip(new, _search_texts(record, new), strict=True)
    execute_many(statement, [(*v.values(), text, *stamps.values()) for v, text in pairs])
    index_new(table)
    if any(values.get("custom") for values in new):
        added = rows(f"SELECT id, NULL, custom FROM {table} WHERE id > ?", (last_id,))
        custom_values.index_many(f"{table}s", added)
    if batch_id := current_session().batch_id:
        execute(NOTE_CREATED.format(table), (batch_id, record.noun, last_id))


def save_all(record: type[SoftDeletedRecord], changes: Sequence[Change]) -> None:
    """Store changes, as SoftDeletedRecord.save_changes() does one; in a transaction."""
    if not changes:
        return
    words.unify(record, [change.after for change in changes])
    session, table, moment = current_session(), record._meta.table_name, now()
    actor = session.user_id, session.key_id, session.tool
    (last_audit_id,) = one_row("SELECT coalesce(max(id), 0) FROM audit_entry")
    entries = []
    for stored, after in changes:
        before = {name: stored[name] for name in after}
        json_texts = dumps(before).decode(), dumps(after).decode()
        entries.append((record.noun, stored["id"], moment, *actor, *json_texts))
    execute_many(ADD_AUDIT_ENTRY, entries)
    values = [(old["id"], old["custom"], new["custom"]) for old, new in changes if "custom" in new]
    custom_values.index_many(f"{table}s", values)
    searched = (*searched_columns(record), "custom")
    reworded = [change for change in changes if not change.after.keys().isdisjoint(searched)]
    texts = _search_texts(record, [stored | after for stored, after in reworded])
    for change, text in zip(reworded, texts, strict=True):
        change.after["search_text"] = text
    ids = dumps([change.stored["id"] for change in reworded]).decode()
    # The index finds the old words by the stored text, so they are removed before the update.
    execute(search_index.remove_statement(table), (ids,))
    by_columns: dict[tuple[str, ...], list[tuple[Any, ...]]] = defaultdict(list)
    for stored, after in changes:
        after |= storable(record, after)
        after |= {"updated_at": moment, "version": stored["version"] + 1}
        by_columns[tuple(after)].append((*after.values(), stored["id"]))
    for names, params in by_columns.items():
        execute_many(update_statement(record, names), params)
    execute(search_index.add_statement(table), (ids,))
    if session.batch_id is not None:
        sql = "SELECT record_id, id FROM audit_entry WHERE id > ? AND noun = ?"
        audit_ids = dict(rows(sql, (last_audit_id, record.noun)))
        noted = [
            (stored["id"], "updated", stored["version"], after["version"], audit_ids[stored["id"]])
            for stored, after in changes
        ]
        execute_many(NOTE_IN_BATCH, [(session.batch_id, record.noun, *note) for note in noted])
    require_room(records=len(changes))


def _search_texts(record: type[SoftDeletedRecord], many: Sequence[dict[str, Any]]) -> list[str]:
    names, plural = searched_columns(record), f"{record.noun}s"
    texts: list[list[Any]] = [[values.get(name) for name in names] for values in many]
    for own, values in zip(texts, many, strict=True):
        if custom := values.get("custom"):
            own += custom_values.search_texts(plural, custom)
    return folding.fold_many(texts)
