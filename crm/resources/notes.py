"""Notes of leads, clients and deals: what somebody wrote down and when (D17).

A note is not a part of its record: it emits no event and makes no version. A changed one keeps its
former texts. The notes of a deleted record can't be read either. Colleagues whom a note names, as
`@Олена`, are alerted.
"""

import re
from collections import Counter
from functools import partial
from typing import Any

from peewee import IntegerField, TextField

from crm.alerts import alerts
from crm.alerts.kinds import MENTIONED
from crm.api.blueprints import Blueprint, Endpoints
from crm.errors import NotFound
from crm.json import dumps, loads
from crm.records import columns, fields, nested, queries
from crm.records.columns import N_
from crm.records.record import Record, require_live
from crm.records.schemas import RecordSchema
from crm.records.views import declare_views
from crm.resources import users
from crm.storage import own_rows
from crm.storage.session import current_session, now, transaction
from crm.values.folding import fold

MAX_FORMER_TEXTS = 50  # of a note; the oldest go
NOUNS = {"lead": "leads", "client": "clients", "deal": "deals"}


class FormerTextSchema(RecordSchema):
    text = fields.LongText(dump_only=True)
    user_id = fields.Id(dump_only=True, allow_none=True, about="Who replaced it.")
    at = fields.DateTime(dump_only=True, about="Until when it was the text.")


class Note(Record):
    """One note, of the record that `noun` and `record_id` name."""

    noun = TextField()
    record_id = IntegerField()
    text = columns.LongText(required=True)
    user_id = columns.Id(dump_only=True, allow_none=True, about="Who wrote it.")
    pinned = columns.Boolean(
        default=False, about="Shown above the history of the record.", label=N_("Pinned")
    )
    former_texts = columns.Text(
        wire=nested.NestedList(
            FormerTextSchema.out("FormerTextOut"), dump_only=True, about="The newest first."
        ),
        null=True,
    )
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
        note = Note.add({**values, **data})
        _alert_mentioned(note)
        return note.id


def update(
    noun: str,
    record_id: int | str,
    id: int | str,
    data: dict[str, Any],
    expected_version: int | None = None,
) -> Note:
    """Change the text of a note, or pin it. Raises NotFound and Stale."""
    with transaction():
        note = find(noun, record_id, id, expected_version)
        former_text = note.text
        if data.get("text", former_text) != former_text:
            replaced = {"text": former_text, "user_id": current_session().user_id, "at": now()}
            texts = [replaced, *loads(note.former_texts or "[]")][:MAX_FORMER_TEXTS]
            data = {**data, "former_texts": dumps(texts).decode()}
        note.save_changes(data)
        _alert_mentioned(note, former_text)
        return note


def _alert_mentioned(note: Note, former_text: str = "") -> None:
    """Alert the users whom a note names and its former text does not."""
    for user_id in _mentioned(note.text) - _mentioned(former_text):
        alerts.add(MENTIONED, note.noun, note.record_id, to=user_id)


def _mentioned(text: str) -> set[int]:
    """The users that a text names: by @ and the whole name, or the first one if no other has it."""
    if "@" not in text:
        return set()
    names = {int(id): fold(name) for id, name in users.names("active = 1").items()}
    firsts = Counter(name.split()[0] for name in names.values())
    forms = {name: id for id, name in names.items()}
    forms |= {first: id for id, name in names.items() if firsts[first := name.split()[0]] == 1}
    longest_first = "|".join(sorted(map(re.escape, forms), key=len, reverse=True))
    found = re.findall(rf"(?<!\w)@({longest_first})(?!\w)", fold(text))
    return {forms[name] for name in found}


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


NOTE, NOTE_IN, NOTE_PATCH = declare_views(Note)


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
    notes.change(partial(update, noun), f"Change or pin a note of a {noun}.", needs=writing)
    notes.delete(partial(delete, noun), f"Delete a note of a {noun}.", needs=writing)
