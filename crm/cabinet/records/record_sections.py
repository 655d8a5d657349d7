"""Sections that the cards of leads, clients and deals share: notes, tasks and history.

A card is rendered by render_card(), and its template includes `_notes.html`, `_tasks.html` and
`_history.html`, which need nothing else.
"""

from collections.abc import Iterable
from typing import Any

from flask import request
from werkzeug.wrappers import Response

from crm.cabinet import labels
from crm.cabinet.forms import Form, load_form
from crm.cabinet.languages import gettext
from crm.cabinet.records.record_fields import record_fields
from crm.cabinet.rendering import Pages, confirmed, me, render, see_other
from crm.records import pagination
from crm.resources import AUDITED_VIEWS, changes, task_figures
from crm.resources import notes as rules
from crm.resources.notes import NOTE, NOTE_FILTER, NOTE_IN, NOUNS
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


def render_card(
    noun: str, record: dict[str, Any], names: Iterable[str], **context: Any
) -> Response:
    """Render the card of a live record, with the fields of these names and the shared sections."""
    id = record["id"]
    card = {
        "noun": noun,
        "id": id,
        "path": _path(noun, id),
        "notes": _notes(noun, id, MAX_ENTRIES).records,
        "history": _history(noun, id, MAX_ENTRIES).records,
        "tasks": task_figures.of_record(noun, id, MAX_TASKS),
        "max_entries": MAX_ENTRIES,
    }
    return render(
        f"{noun}s/card.html",
        card=card,
        fields=record_fields(noun, names, record),
        extra=[(name, labels.plain(value)) for name, value in record["extra"].items()],
        note_form=Form(),
        task_form=Form({"assigned_to": str(me().user_id)}),
        task_fields=record_fields("task", TASK_FIELDS),
        **{noun: record},
        **context,
    )


@pages.get(f"{RECORD_PATH}/notes")
def list_notes(plural: str, id: str, form: Form | None = None) -> Response:
    noun = NOUN_OF[plural]
    page = _notes(noun, id, cursor=request.args.get("cursor", ""))
    card = {"path": _path(noun, id), "notes": page.records}
    context = {"name": _name(plural, id), "note_form": form or Form()}
    return render("record_sections/notes.html", card=card, page=page, **context)


@pages.post(f"{RECORD_PATH}/notes", page=list_notes)
def create_note(plural: str, id: str) -> Response:
    rules.create(NOUN_OF[plural], id, load_form(NOTE_IN, ["text"]))
    return see_other(f"/{plural}/{id}#notes", gettext("Note added"))


@pages.post(f"{RECORD_PATH}/notes/<note_id>/delete")
def delete_note(plural: str, id: str, note_id: str) -> Response:
    with confirmed(gettext("Delete this note?"), gettext("Delete"), f"/{plural}/{id}#notes"):
        rules.delete(NOUN_OF[plural], id, note_id)
    return see_other(f"/{plural}/{id}#notes", gettext("Note deleted"))


@pages.get(f"{RECORD_PATH}/history")
def list_history(plural: str, id: str) -> Response:
    noun = NOUN_OF[plural]
    page = _history(noun, id, cursor=request.args.get("cursor", ""))
    card = {"path": _path(noun, id), "history": page.records}
    return render("record_sections/history.html", name=_name(plural, id), card=card, page=page)


def _notes(noun: str, id: str, limit: int = PAGE_SIZE, cursor: str = "") -> pagination.Page:
    """The newest notes of a live record."""
    query = NOTE_FILTER.default()
    query.limit, query.cursor = limit, cursor
    condition = "noun = ? AND record_id = ?", (noun, integer_id(id))
    return pagination.page(NOTE, query, NOTE_FILTER.fields["sort"], *condition)


def _history(noun: str, id: str, limit: int = PAGE_SIZE, cursor: str = "") -> pagination.Page:
    """The newest changes of a live record: [{at, author, lines: [{field, before, after}]}]."""
    query, view = changes.CHANGE_FILTER.default(), AUDITED_VIEWS[NOUNS[noun]]
    query.limit, query.cursor = limit, cursor
    page, record = changes.of_record(view, id, query), view.one(id)
    for change in page.records:
        change |= {"author": _author_name(change), "lines": _lines(noun, record, change)}
    return page


def _author_name(change: dict[str, Any]) -> str:
    author = labels.user_name(change["user_id"])
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
