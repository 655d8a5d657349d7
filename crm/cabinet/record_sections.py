"""Sections that the cards of leads, clients and deals share: notes, tasks and history.

A card is rendered with `**sections("lead", id)`, and its template includes `_notes.html`,
`_tasks.html` and `_history.html`, which need nothing else.
"""

from typing import Any

from flask import request
from werkzeug.wrappers import Response

from crm.cabinet import labels, user_choices
from crm.cabinet.forms import Form, load_form
from crm.cabinet.languages import gettext
from crm.cabinet.record_fields import record_fields
from crm.cabinet.rendering import (
    Pages,
    confirmed,
    flash,
    flash_with_undo,
    me,
    render,
    rerender_on_error,
    see_other,
)
from crm.records import pagination
from crm.resources import AUDITED_VIEWS, changes
from crm.resources import notes as rules
from crm.resources.notes import NOTE, NOTE_FILTER, NOTE_IN, NOUNS
from crm.resources.tasks import TASK
from crm.values.ids import integer_id

MAX_ENTRIES = 10  # notes and changes on a card; pages of their own have the others
MAX_TASKS = 50
PAGE_SIZE = 50
TASK_FIELDS = ("title", "due_at", "type", "assigned_to")  # of the short form for a new task
NOUN_OF = {plural: noun for noun, plural in NOUNS.items()}
RECORD_PATH = "/<any(leads, clients, deals):plural>/<id>"
# Not shown in the history: another field of the same change has the same meaning for users.
NOT_IN_HISTORY = {"client_name", "stage_changed_at", "converted_at", "items_count"}

pages = Pages("record_sections")


def sections(noun: str, id: str) -> dict[str, Any]:
    """The context of the shared sections for a live record; raises NotFound."""
    return {
        "card": {
            "noun": noun,
            "id": id,
            "path": _path(noun, id),
            "notes": notes(noun, id),
            "history": history(noun, id),
            "tasks": tasks(noun, id),
            "max_entries": MAX_ENTRIES,
        },
        "note_form": Form(),
        "task_form": Form({"assigned_to": str(me().user_id)}),
        "task_fields": record_fields("task", TASK_FIELDS),
        "everyone": user_choices.everyone(),
    }


def notes(noun: str, id: str, limit: int = MAX_ENTRIES) -> list[dict[str, Any]]:
    """The newest notes of a live record: [{id, text, who, when}]."""
    return [_note(note) for note in _notes_page(noun, id, limit).records]


def history(noun: str, id: str, limit: int = MAX_ENTRIES) -> list[dict[str, Any]]:
    """The newest changes of a live record: [{when, who, lines: [{field, before, after}]}]."""
    query = changes.CHANGE_FILTER.default()
    query.limit = limit
    return _history_entries(noun, id, changes.of_record(AUDITED_VIEWS[NOUNS[noun]], id, query))


def tasks(noun: str, id: str) -> list[dict[str, Any]]:
    """The tasks of a record as the API shows them: first those to do, by time, then those done."""
    return TASK.every(
        f"{noun}_id = ? AND status <> 'cancelled' AND deleted_at IS NULL"
        " ORDER BY status = 'done', coalesce(due_at, '9999'), id LIMIT ?",
        integer_id(id),
        MAX_TASKS,
    )


def flash_deleted(noun: str, id: str, name: str) -> None:
    """Show on the next page that the record is deleted, with a button that restores it."""
    text = gettext("“%(name)s” deleted", name=name)
    flash_with_undo(text, f"{_path(noun, id)}/restore")


@pages.get(f"{RECORD_PATH}/notes")
def list_notes(plural: str, id: str, form: Form | None = None) -> Response:
    noun = NOUN_OF[plural]
    page = _notes_page(noun, id, cursor=request.args.get("cursor", ""))
    card = {"path": _path(noun, id), "notes": [_note(note) for note in page.records]}
    name = _name(plural, id)
    form = form or Form()
    return render("record_sections/notes.html", note_form=form, name=name, card=card, page=page)


@pages.post(f"{RECORD_PATH}/notes")
@rerender_on_error(lambda form, plural, id: list_notes(plural, id, form))
def create_note(plural: str, id: str) -> Response:
    rules.create(NOUN_OF[plural], id, load_form(NOTE_IN, request.form, ["text"]))
    flash(gettext("Note added"))
    return see_other(f"/{plural}/{id}#notes")


@pages.post(f"{RECORD_PATH}/notes/<note_id>/delete")
def delete_note(plural: str, id: str, note_id: str) -> Response:
    with confirmed(gettext("Delete this note?"), gettext("Delete"), f"/{plural}/{id}#notes"):
        rules.delete(NOUN_OF[plural], id, note_id)
    flash(gettext("Note deleted"))
    return see_other(f"/{plural}/{id}#notes")


@pages.get(f"{RECORD_PATH}/history")
def list_history(plural: str, id: str) -> Response:
    noun = NOUN_OF[plural]
    query = changes.CHANGE_FILTER.default()
    query.cursor = request.args.get("cursor", "")
    page = changes.of_record(AUDITED_VIEWS[plural], id, query)
    card = {"path": _path(noun, id), "history": _history_entries(noun, id, page)}
    name = _name(plural, id)
    return render("record_sections/history.html", name=name, card=card, page=page)


def _notes_page(noun: str, id: str, limit: int = PAGE_SIZE, cursor: str = "") -> pagination.Page:
    query = NOTE_FILTER.default()
    query.limit, query.cursor = limit, cursor
    condition = "noun = ? AND record_id = ?", (noun, integer_id(id))
    return pagination.page(NOTE, query, NOTE_FILTER.fields["sort"], *condition)


def _note(note: dict[str, Any]) -> dict[str, Any]:
    author = user_choices.everyone().get(note["user_id"], "")
    return {"id": note["id"], "text": note["text"], "who": author, "when": note["created_at"]}


def _history_entries(noun: str, id: str, page: pagination.Page) -> list[dict[str, Any]]:
    record = AUDITED_VIEWS[NOUNS[noun]].one(id)
    return [
        {"when": change["at"], "who": _author_name(change), "lines": _lines(noun, record, change)}
        for change in page.records
    ]


def _author_name(change: dict[str, Any]) -> str:
    author = user_choices.everyone().get(change["user_id"], "")
    if change["key"]:
        return gettext("%(who)s, by the API key “%(key)s”", who=author, key=change["key"]["name"])
    return author


def _lines(noun: str, record: dict[str, Any], change: dict[str, Any]) -> list[dict[str, str]]:
    # Over the whole record, because the text of a value may depend on others, as money on currency.
    before, after = ({**record, **change[side]} for side in ("before", "after"))
    return [
        {
            "field": labels.field(noun, name),
            "before": labels.value(noun, name, before[name], before),
            "after": labels.value(noun, name, after[name], after),
        }
        for name in change["after"]
        if name not in NOT_IN_HISTORY
    ]


def _path(noun: str, id: str) -> str:
    return f"/{NOUNS[noun]}/{id}"


def _name(plural: str, id: str) -> str:
    record = AUDITED_VIEWS[plural].one(id)
    return record.get("title") or record["name"]
