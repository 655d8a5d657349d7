"""Undoing a batch: what it did to each record is reversed, the last first.

A record is reversed only if it still has the version that the batch left; else it is kept, and so
is one whose rules refuse, such as a client with open deals, and one that would be deleted with what
somebody has added to it since: a note, a task, a deal. `batch_record.outcome` has the reason.
A record is put back by its resource's own verbs, with their events.

An undo is as many short transactions as it needs (records/background.py). Each commits the outcome
of its records, so that one whose process has ended goes on where it was.
"""

from collections.abc import Callable, Collection, Sequence
from typing import Any, NamedTuple

from crm.errors import Conflict, CRMError, Forbidden, Gone
from crm.json import loads
from crm.records import background, batches
from crm.records.batches import Batch
from crm.records.custom import values as custom_values
from crm.records.record import MOVE_NOTES, Record
from crm.records.retention import KEPT_SECONDS
from crm.resources.custom_fields import removal as field_removal
from crm.resources.custom_fields.record import CustomFieldRecord, take_back
from crm.resources.custom_fields.values import naming
from crm.resources.pipelines import removal
from crm.resources.pipelines.record import Stage
from crm.resources.trash import RECORDS
from crm.resources.users import User
from crm.spreadsheets.resource import find_resource
from crm.storage import chunks
from crm.storage.dialect import quoted
from crm.storage.session import (
    current_session,
    execute,
    execute_many,
    now,
    one_row,
    rows,
    time_before,
    transaction,
)

REVERSED, CHANGED, GONE = "reversed", "changed", "gone"  # outcomes, beside codes of errors
MAX_TRIED = 2000  # records of a dry run, which counts the others as reversed
CHUNK_RECORDS = 500  # at most, of one transaction
MAX_LISTED = 20  # kept records that a dry run names
PENDING = """
    SELECT id, noun, record_id, action, version_before, version, audit_id FROM batch_record
    WHERE batch_id = ? AND outcome IS NULL ORDER BY id DESC LIMIT ?
"""
COUNT_PENDING = "SELECT count(*) FROM batch_record WHERE batch_id = ? AND outcome IS NULL"
VALUES_BEFORE = """
    SELECT before FROM audit_entry WHERE noun = ? AND record_id = ? AND id >= ? ORDER BY id DESC
"""
KEPT = """
    SELECT noun, record_id, outcome FROM batch_record
    WHERE batch_id = ? AND outcome <> 'reversed' ORDER BY id
"""

# What refers to a record since a time, but for what is as a batch left it and reversed after it.
ADDED = """
    SELECT id FROM {table} WHERE {condition} AND updated_at >= ? AND NOT EXISTS (
        SELECT 1 FROM batch_record AS noted WHERE batch_id = ? AND noted.id < ?
        AND noun = '{table}' AND record_id = {table}.id AND noted.version = {table}.version)
"""

# What a merge changed beside its records, put back at the end of its undo, in its transaction;
# set by merging.py, which imports this module.
after_merge: Any = None


class Undone(NamedTuple):
    """How many records an undo reversed and kept; of a dry run the first kept ones as in kept()."""

    reversed: int
    kept: int
    listed: list[tuple[str, int, str]]


def _delete_colleague(user: User) -> None:
    """Delete a user who has never been activated. Raises Conflict `user_in_use`."""
    for record in RECORDS.values():
        if "assigned_to" in record._meta.fields:
            if record.first("assigned_to = ?", user.id) or [*naming(User.noun, user.id)]:
                raise Conflict("this user is responsible for records", "user_in_use")
            execute(
                f"UPDATE {record.noun} SET assigned_to = NULL WHERE assigned_to = ?", (user.id,)
            )
    user.erase()


# Records without a trash that an import may create, and how they are deleted if nobody uses them.
CREATED: dict[str, tuple[type[Record], Callable[[Any], None]]] = {
    User.noun: (User, _delete_colleague),
    # Deleted deals of the stage move to another one.
    Stage.noun: (Stage, lambda stage: removal.delete_stage(stage.pipeline_id, stage.id)),
    CustomFieldRecord.noun: (CustomFieldRecord, take_back),
}
# Those that a batch may delete, and how they come back.
DELETED: dict[str, tuple[type[Record], Callable[[Any], None]]] = {
    CustomFieldRecord.noun: (CustomFieldRecord, field_removal.put_back),
}


def undo(id: int | str, dry_run: bool = False, in_background: bool = False) -> Undone:
    """Reverse what a batch did, or with `dry_run` find out what would be reversed.

    in_background: begin it, inside of a request, and return.
    Raises NotFound, Forbidden unless the actor made the batch or is an owner, Gone `too_old` after
    30 days, and Conflict `batch_running` or `already_undone`.
    """
    if dry_run:
        return _try(_find_undoable(id))
    with transaction():
        batch = _find_undoable(id)
        if batch.state == "running":  # its process has ended
            batch = background.end(id, "cancelled")
        batch.save_changes({"state": "undoing"})
        background.begin(batch, loads(batch.details or "{}"), here=not in_background)
    if in_background:
        background.look_after_current()
    else:
        background.run(batch)
    batch = Batch.find(id)
    return Undone(batch.reversed, batch.kept, [])


def kept(id: int | str) -> list[tuple[str, int, str]]:
    """(noun, id, why) of each record that the undo of a batch kept. Raises NotFound."""
    return rows(KEPT, (Batch.find(id).id,))


def _find_undoable(id: int | str) -> Batch:
    batch, user_id = Batch.find(id), current_session().user_id
    # Who acts without being a user is the operator, by a program in Python.
    if user_id not in (None, batch.user_id) and User.find(user_id).role != "owner":
        raise Forbidden("only who made this batch, or an owner, can undo it", "not_your_batch")
    if batch.state == "undone":
        raise Conflict("this batch is undone already", "already_undone")
    if background.is_leased(batch):
        raise Conflict("this batch is still running: cancel it first, or wait", "batch_running")
    if batch.created_at < time_before(KEPT_SECONDS):
        raise Gone("a batch can be undone for 30 days", "too_old")
    return batch


def _prepare(batch: Batch) -> background.Step:
    def undo_some(batch: Batch, has_time: chunks.HasTime) -> bool:
        pending = rows(PENDING, (batch.id, CHUNK_RECORDS))
        outcomes = []
        for noted in pending:
            outcomes.append((_reverse(batch, noted), noted[0]))
            if not has_time():
                break
        execute_many("UPDATE batch_record SET outcome = ? WHERE id = ?", outcomes)
        reversed = sum(outcome == REVERSED for outcome, _ in outcomes)
        kept = batch.kept + len(outcomes) - reversed
        batch.save_changes({"reversed": batch.reversed + reversed, "kept": kept})
        return bool(pending)

    return undo_some


def _on_end(batch: Batch, error: CRMError | None) -> None:
    if error is not None:
        return
    batch.save_changes({"undone_at": now()})
    if batch.kind == "merge":
        with batches.undoing():
            after_merge(batch)
    find_resource(f"{batch.noun}s").on_undone(batch.id, batch.reversed, batch.kept)


def _try(batch: Batch) -> Undone:
    """What an undo would do: it is done and undone for the first records."""
    reversed_records, kept = set[tuple[str, int]](), list[tuple[str, int, str]]()
    pending = rows(PENDING, (batch.id, MAX_TRIED))
    remaining = iter(pending)

    def reverse_some(has_time: chunks.HasTime) -> bool:
        for noted in remaining:
            noun, id = noted[1:3]
            # What uses a colleague may have been reversed, and put back, in another transaction.
            has_no_trash = noun in CREATED or noun in DELETED
            outcome = REVERSED if has_no_trash else _reverse(batch, noted, reversed_records)
            if outcome == REVERSED:
                reversed_records.add((noun, id))
            else:
                kept.append((noun, id, outcome))
            if not has_time():
                return True
        return False

    chunks.run(reverse_some, is_trial=True)
    (count,) = one_row(COUNT_PENDING, (batch.id,))
    untried = count - len(pending)
    reversed = batch.reversed + len(reversed_records) + untried
    return Undone(reversed, batch.kept + len(kept), kept[:MAX_LISTED])


def _reverse(
    batch: Batch, noted: Sequence[Any], reversed_records: Collection[tuple[str, int]] = ()
) -> str:
    """Reverse what a batch did to a record: the outcome; inside a transaction.

    noted: a row of PENDING. reversed_records: what a dry run has reversed, and put back, before.
    """
    noted_id, noun, id, action, version_before, version, audit_id = noted
    without_trash = DELETED if action == "deleted" else CREATED
    if noun in without_trash:
        kind, reverse = without_trash[noun]
        one = kind.find_any(id)
        if one is None:
            return GONE
        if one.version != version:
            return CHANGED
        return batches.refused(lambda: reverse(one)) or REVERSED
    resource = find_resource(f"{noun}s")
    record = resource.record.find_any(id)
    if record is None or (record.deleted_at is not None and action in ("created", "restored")):
        return GONE
    if record.version != version:
        return CHANGED if record.deleted_at is None or action == "deleted" else GONE

    def put_back() -> None:
        live = record
        if action in ("created", "restored"):
            record.remove()
            _require_unused(batch, noted_id, record, reversed_records)
        else:
            if record.deleted_at is not None:
                live = resource.record.removed(id)
                live.restore()
            if audit_id is not None and (values := _values_before(noun, id, audit_id)):
                resource.put_back(live, values)
        (undone,) = one_row(f"SELECT version FROM {quoted(noun)} WHERE id = ?", (id,))
        execute(MOVE_NOTES, (undone, noun, id, version_before))

    with batches.undoing():
        return batches.refused(put_back) or REVERSED


def _require_unused(
    batch: Batch, noted_id: int, record: Record, reversed_records: Collection[tuple[str, int]]
) -> None:
    """Raise Conflict `in_use` if something was added to a record since the batch."""
    noun = record.noun
    conditions = {
        other.noun: f"{noun}_id = ? AND deleted_at IS NULL"
        for other in RECORDS.values()
        if f"{noun}_id" in other._meta.fields
    }
    conditions["note"] = f"noun = '{noun}' AND record_id = ?"
    conditions["file"] = f"noun = '{noun}' AND record_id = ? AND deleted_at IS NULL"
    if noun == "deal":
        conditions["paper"] = "deal_id = ?"
    if noun == "product":
        conditions["deal_item"] = "product_id = ?"
    for table, condition in conditions.items():
        params = (record.id, batch.created_at, batch.id, noted_id)
        added = rows(ADDED.format(table=table, condition=condition), params)
        if any((table, id) not in reversed_records for (id,) in added):
            raise Conflict("somebody has worked with it since", "in_use")


def _values_before(noun: str, id: int, audit_id: int) -> dict[str, Any]:
    """The stored values of a record's columns and parts before its changes from that entry on."""
    values: dict[str, Any] = {}
    for (before,) in rows(VALUES_BEFORE, (noun, id, audit_id)):
        values |= loads(before)
    values.pop("deleted_at", None)
    if values.get("custom"):
        values["custom"] = custom_values.known(f"{noun}s", values["custom"])
    return values


background.register("undo", _prepare, _on_end)
