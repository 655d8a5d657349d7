"""Notes of leads, clients and deals: what somebody wrote down and when (D17).

A note is written once and may be deleted, never changed. It is not a part of its record: it emits
no event and makes no version. The notes of a deleted record can't be read either.
"""

from functools import partial
from typing import Any

from peewee import IntegerField, TextField

from crm.api.blueprints import Blueprint, Endpoints
from crm.errors import NotFound
from crm.records import columns, queries
from crm.records.record import Record, require_live
from crm.records.views import declare_views
from crm.storage import own_rows
from crm.storage.session import current_session, transaction

NOUNS = {"lead": "leads", "client": "clients", "deal": "deals"}


class Note(Record):
    """One note, of the record that `noun` and `record_id` name."""

    noun = TextField()
    record_id = IntegerField()
    text = columns.LongText(required=True)
    user_id = columns.Id(dump_only=True, allow_none=True, about="Who wrote it.")
    created_at = columns.PastDateTime(create_only=True, null=False, sorted=True)


own_rows.declare_parts_of_any("note")


def create(noun: str, record_id: int | str, data: dict[str, Any]) -> int:
    """Add a note to a live record, in the name of the session's user, and return its id.

    Raises NotFound.
    """
    with transaction():
        values = {
            "noun": noun,
            "record_id": require_live(noun, record_id),
            "user_id": current_session().user_id,
        }
        return Note.add({**values, **data}).id


def delete(
    noun: str, record_id: int | str, id: int | str, expected_version: int | None = None
) -> None:
    """Delete a note of a live record for good. Raises NotFound and Stale."""
    with transaction():
        find(noun, record_id, id, expected_version).erase()


def find(
    noun: str, record_id: int | str, id: int | str, expected_version: int | None = None
) -> Note:
    """The note of that id to that live record; raises NotFound, also for another record's."""
    note = Note.find(id, expected_version)
    if (note.noun, note.record_id) != (noun, require_live(noun, record_id)):
        raise NotFound
    return note


def of_record(noun: str, record_id: int | str) -> tuple[str, tuple[str, int]]:
    """The condition of the notes of a live record; raises NotFound."""
    return "noun = ? AND record_id = ?", (noun, require_live(noun, record_id))


def show(noun: str, record_id: int | str, id: int | str) -> dict[str, Any]:
    """The note as it is shown; raises NotFound."""
    return NOTE.one(find(noun, record_id, id).id)


NOTE, NOTE_IN, _ = declare_views(Note)


NOTE_FILTER = queries.filter_of(Note, queries.Filter, unsorted=("updated_at",))()

blueprint = Blueprint("notes", "Notes of leads, clients and deals.")


for noun, plural in NOUNS.items():
    notes = Endpoints(blueprint, f"/{plural}/<id>/notes", NOTE, f"{noun}_note", id="noteId")
    reading, writing = (f"{plural}:read",), (f"{plural}:write",)
    notes.list(
        NOTE_FILTER,
        f"List the notes of a {noun}, the newest first.",
        where=partial(of_record, noun),
        needs=reading,
    )
    notes.create(
        partial(create, noun),
        f"Write a note to a {noun}.",
        example={"text": "Зателефонувати після 15:00"},
        needs=writing,
    )
    notes.get(f"Get one note of a {noun}.", partial(show, noun), needs=reading)
    notes.delete(partial(delete, noun), f"Delete a note of a {noun}.", needs=writing)
