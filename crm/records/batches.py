"""Batches: what an import, a bulk action, a merge, a restore or the deletion of a field changed, so
that it can be undone.

While a batch is recorded, each soft-deleted record that is created, changed, deleted or restored is
noted in `batch_record`, with the version that this left (SoftDeletedRecord). Parts, such as a
client's contacts, are changes of their record.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

from peewee import TextField

from crm.errors import Conflict, Invalid, NotFound
from crm.records import columns, erasure, parameters
from crm.records.record import Record
from crm.records.retention import expired_before
from crm.storage import own_rows, sweeps
from crm.storage.session import current_session, execute, rows, savepoint

KINDS = ("import", "bulk", "merge", "restore", "field")
STATES = ("running", "done", "failed", "cancelled", "undoing", "undone")
COUNTED = {"created": "created", "updated": "updated", "restored": "updated", "deleted": "deleted"}


class Batch(Record):
    """One batch, in stored form. `noun` is the singular of its resource."""

    noun: ClassVar[str] = columns.Text(64, dump_only=True)  # type: ignore[assignment]
    kind = columns.Choice(*KINDS, dump_only=True, filtered=parameters.Equals())
    state = columns.Choice(*STATES, dump_only=True)
    created = columns.Integer(dump_only=True)
    updated = columns.Integer(dump_only=True)
    deleted = columns.Integer(dump_only=True)
    reversed = columns.Integer(dump_only=True, about="By its undo.")
    kept = columns.Integer(dump_only=True, about="By its undo: changed since, or refused.")
    note = columns.Text(255, dump_only=True, allow_none=True, example="clients.csv")
    details = TextField(null=True)  # JSON of its kind, and for whom its work acts
    lease_until = TextField(null=True)  # of the process that works at it, with a random part
    user_id = columns.Id(dump_only=True, allow_none=True)
    key_id = columns.Id(dump_only=True, allow_none=True)
    undone_at = columns.DateTime(dump_only=True, allow_none=True)


own_rows.declare("batch", "batch.user_id = ?")


def start(kind: str, noun: str, note: str | None = None) -> Batch:
    """Add a batch of the session's user, in the state `running`; inside a transaction."""
    values = {"kind": kind, "noun": noun, "state": "running", "note": note}
    session = current_session()
    return Batch.add({**values, "user_id": session.user_id, "key_id": session.key_id})


@contextmanager
def recording(batch: Batch) -> Iterator[None]:
    """Note in the batch what the block changes. One batch may have several such blocks."""
    session = current_session()
    session.batch_id, session.is_import = batch.id, batch.kind == "import"
    try:
        yield
    finally:
        session.batch_id, session.is_import = None, False


@contextmanager
def undoing() -> Iterator[None]:
    """What the block changes is the undo of a batch."""
    session = current_session()
    session.is_undo = True
    try:
        yield
    finally:
        session.is_undo = False


def refused(change: Callable[[], Any]) -> str:
    """Change a record; the code of the rule that refuses it, after which it stays as it was."""
    try:
        with savepoint():
            change()
    except (Invalid, Conflict, NotFound) as error:
        return error.faults[0].code if error.faults else error.code
    return ""


def finish(batch: Batch, state: str = "done") -> None:
    """Store the counts of what was noted, and the state; inside a transaction."""
    sql = "SELECT action, count(*) FROM batch_record WHERE batch_id = ? GROUP BY action"
    counts = {"created": 0, "updated": 0, "deleted": 0}
    for action, count in rows(sql, (batch.id,)):
        counts[COUNTED[action]] += count
    batch.save_changes({**counts, "state": state})


@contextmanager
def batch(kind: str, noun: str, note: str | None = None) -> Iterator[Batch]:
    """Run the block, inside a transaction, as one batch that is done at its end.

    Inside another batch the block is a part of that one.
    """
    if (outer_id := current_session().batch_id) is not None:
        yield Batch.find(outer_id)
        return
    started = start(kind, noun, note)
    with recording(started):
        yield started
    finish(started)


@sweeps.register
def delete_expired(max_rows: int) -> int:
    """Delete what was noted of the records of batches that can't be undone any more."""
    expired = (
        "SELECT batch_record.id FROM batch JOIN batch_record ON batch_record.batch_id = batch.id"
        " WHERE batch.created_at < ? LIMIT ?"
    )
    params = expired_before(), max_rows
    return execute(f"DELETE FROM batch_record WHERE id IN ({expired})", params).rowcount


# Notes that name a person are removed with it.
NOTES = erasure.Texts(
    "batches",
    "batch",
    keys=("id",),
    columns=("note",),
    is_named=lambda person, texts: person.is_named_in(texts[0]),
    erase=lambda person, id, texts: execute("UPDATE batch SET note = NULL WHERE id = ?", id),
)
erasure.register_texts(NOTES, NOTES.table)
