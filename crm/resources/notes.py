"""Notes of leads, clients and deals: what somebody wrote down and when (D17).

A note is written once and may be deleted, never changed. It is not a part of its record: it emits
no event and makes no version. The notes of a deleted record can't be read either.
"""

from typing import Any

from peewee import IntegerField, TextField

from crm.api.envelopes import page_of
from crm.api.operations import Blueprint, named
from crm.errors import NotFound
from crm.records import columns, pagination, queries
from crm.records.pagination import Page
from crm.records.parameters import Query
from crm.records.queries import filter_of
from crm.records.record import Record, live
from crm.records.schemas import schema_of
from crm.records.views import RecordView
from crm.tenancy.database import current_session, transaction

NOUNS = {"lead": "leads", "client": "clients", "deal": "deals"}


class Note(Record):
    """One note, of the record that `noun` and `record_id` name."""

    noun = TextField()
    record_id = IntegerField()
    text = columns.LongText(required=True)
    user_id = columns.Id(dump_only=True, allow_none=True, null=True, about="Who wrote it.")
    created_at = columns.PastDateTime(create_only=True, null=False, sorted=True)


def create(noun: str, record_id: int | str, data: dict[str, Any]) -> int:
    """Add a note to a live record, in the name of the session's user, and return its id.

    Raises NotFound.
    """
    with transaction():
        values = {
            "noun": noun,
            "record_id": live(noun, record_id),
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
    if (note.noun, note.record_id) != (noun, live(noun, record_id)):
        raise NotFound
    return note


NoteSchema = schema_of(Note)
NOTE = RecordView(NoteSchema.out("NoteOut"), "note", live=False)
NOTE_IN = NoteSchema.body("NoteIn")
NOTE_PAGE = page_of(NOTE.schema)


NoteFilter = filter_of(Note, queries.Filter, unsorted=("updated_at",))
NOTE_FILTER = NoteFilter()

blueprint = Blueprint("notes", "Notes of leads, clients and deals.")


def add_endpoints(noun: str, plural: str) -> None:
    """The endpoints of one noun's notes, with the noun's rights."""
    reading, writing = blueprint.needs(f"{plural}:read"), blueprint.needs(f"{plural}:write")
    path = f"/{plural}/<id>/notes"

    @blueprint.get(path)
    @reading
    @blueprint.arguments(NOTE_FILTER, location="query")
    @blueprint.page(NOTE_PAGE)
    @named(f"list_{noun}_notes", f"List the notes of a {noun}, the newest first.")
    def list_notes(query: Query, id: str) -> Page:
        of_record = (noun, live(noun, id))
        condition = "noun = ? AND record_id = ?"
        return pagination.page(NOTE, query, NOTE_FILTER.fields["sort"], condition, of_record)

    @blueprint.post(path)
    @writing
    @blueprint.arguments(NOTE_IN, example={"text": "Зателефонувати після 15:00"})
    @blueprint.created("note", NOTE)
    @named(f"create_{noun}_note", f"Write a note to a {noun}.")
    def create_note(data: dict[str, Any], id: str) -> int:
        return create(noun, id, data)

    @blueprint.get(f"{path}/<noteId>")
    @reading
    @blueprint.one(NOTE)
    @named(f"get_{noun}_note", f"Get one note of a {noun}.")
    def get_note(id: str, noteId: str) -> dict[str, Any]:
        return NOTE.one(find(noun, id, noteId).id)

    @blueprint.delete(f"{path}/<noteId>")
    @writing
    @blueprint.empty()
    @named(f"delete_{noun}_note", f"Delete a note of a {noun}.")
    def delete_note(id: str, noteId: str, expected_version: int | None = None) -> None:
        delete(noun, id, noteId, expected_version)


for noun, plural in NOUNS.items():
    add_endpoints(noun, plural)
