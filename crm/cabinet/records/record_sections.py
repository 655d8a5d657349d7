"""Sections that the cards of leads, clients and deals share: what to add, next step, timeline.

A card is rendered by render_card(), and its template includes `_composer.html`, `_next_step.html`
and `_timeline.html`, which need nothing else.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any

from flask import request
from werkzeug.datastructures import MultiDict
from werkzeug.wrappers import Response

from crm.alerts import alerts
from crm.cabinet import edits, formatting, labels
from crm.cabinet.forms import Form, load_form
from crm.cabinet.languages import N_, gettext
from crm.cabinet.records.record_fields import record_fields
from crm.cabinet.rendering import SELLER, Pages, confirmed, me, render, see_other
from crm.json import integer_id
from crm.records.custom.fields import PREFIX
from crm.resources import AUDITED_VIEWS, merging, task_figures, timeline
from crm.resources import notes as rules
from crm.storage.session import now

MAX_ENTRIES = 30  # of the timeline on a card; a page of its own has the others
MAX_TASKS, MAX_PINNED = 50, 10
PAGE_SIZE = 50
# Of a task that is due at one.
TIMES = [f"{minutes // 60:02}:{minutes % 60:02}" for minutes in range(8 * 60, 20 * 60 + 1, 30)]
TIME_CHOICES = [*zip(TIMES, TIMES, strict=True)]
CALL_MINUTES = (1, 2, 5, 10, 15, 20, 30, 45, 60, 90)
TASK_FIELDS = ("title", "due_at", "type", "assigned_to")  # of the short form for a new task
RECORD_PATH = "/<any(leads, clients, deals):plural>/<id>"
# The filters of the timeline: the kinds of each.
GROUPS = {
    N_("Notes"): ["note"],
    N_("Calls and tasks"): ["task"],
    N_("Changes"): ["change", "stage"],
    N_("Files"): ["file"],
}
UNDONE_WITHIN = timedelta(minutes=10)  # of a move: later it is a move of its own
# Not shown in the timeline: another field of the same change has the same meaning for users.
NOT_IN_HISTORY = {"client_name", "stage_changed_at", "converted_at", "items_count"}

pages = Pages("record_sections")


def render_card(
    noun: str, record: dict[str, Any], names: Iterable[str], **context: Any
) -> Response:
    """Render the card of a live record, with the fields of these names and the shared sections."""
    id = record["id"]
    alerts.mark_record_seen(me().user_id, noun, int(id))
    card = {
        "noun": noun,
        "id": id,
        **timeline_of(noun, id),
        "tasks": task_figures.of_record(noun, id, MAX_TASKS),
        "days": _next_days(),
        "times": TIME_CHOICES,
    }
    return render(
        f"{noun}s/card.html",
        card=card,
        fields=record_fields(noun, names, record, "in_card"),
        is_mergeable=merging.is_mergeable,
        extra=[(name, labels.plain(value)) for name, value in record["extra"].items()],
        note_form=Form(),
        task_form=Form({"assigned_to": str(me().user_id)}, prefix="task-"),
        task_fields=record_fields("task", TASK_FIELDS),
        call_durations=[
            (60 * minutes, formatting.duration(60 * minutes)) for minutes in CALL_MINUTES
        ],
        **{noun: labels.flat(noun, record)},
        **context,
    )


def _next_days() -> dict[str, str]:
    """The days on which a next step mostly is, as `YYYY-MM-DD`, and what they are called."""
    today = formatting.local(now()).date()
    days = {
        7 - today.weekday(): gettext("On Monday"),
        7: gettext("In a week"),
        3: gettext("In 3 days"),
        1: gettext("Tomorrow"),
        0: gettext("Today"),
    }
    return {f"{today + timedelta(days=after)}": days[after] for after in sorted(days)}


@pages.get("/<any(leads, clients, deals, tasks):plural>/<id>/timeline")
def show_timeline(plural: str, id: str, form: Form | None = None) -> Response:
    """A page of the timeline."""
    card = timeline_of(plural.removesuffix("s"), id, request.args.getlist("kind"), PAGE_SIZE)
    record = AUDITED_VIEWS[plural].one(id)
    name = record.get("title") or record["name"]
    return render("record_sections/timeline.html", card=card, name=name, note_form=form)


@pages.post(f"{RECORD_PATH}/notes", page=show_timeline, once=True)
def create_note(plural: str, id: str) -> Response:
    rules.create(plural.removesuffix("s"), id, load_form(rules.NOTE_IN, ["text"]))
    return see_other(f"/{plural}/{id}#timeline", gettext("Note added"))


@pages.get(f"{RECORD_PATH}/notes/<note_id>", role=SELLER)
def edit_note(plural: str, id: str, note_id: str, form: Form | None = None) -> Response:
    noun = plural.removesuffix("s")
    note = rules.show(noun, id, note_id)
    context = {"path": f"/{plural}/{id}", "name": labels.name_of(noun, id)}
    return render("record_sections/note.html", note=note, form=form or Form(note), **context)


@pages.post(f"{RECORD_PATH}/notes/<note_id>", page=edit_note)
def update_note(plural: str, id: str, note_id: str) -> Response:
    rules.update(
        plural.removesuffix("s"),
        id,
        note_id,
        load_form(rules.NOTE_PATCH, ("text", "pinned")),
        edits.sent_version(),
    )
    return see_other(f"/{plural}/{id}#timeline", gettext("Saved."))


@pages.post(f"{RECORD_PATH}/notes/<note_id>/delete")
def delete_note(plural: str, id: str, note_id: str) -> Response:
    with confirmed(gettext("Delete this note?"), gettext("Delete"), f"/{plural}/{id}#timeline"):
        rules.delete(plural.removesuffix("s"), id, note_id)
    return see_other(f"/{plural}/{id}#timeline", gettext("Note deleted"))


def timeline_of(
    noun: str, id: str, kinds: Sequence[str] = (), limit: int = MAX_ENTRIES
) -> dict[str, Any]:
    """What `_timeline.html` needs: the newest entries, or those behind the cursor of the address.

    A change gets its `lines`, [{field, before, after}], and `author`; one without lines is left
    out: it is told by another entry. So are a move of a deal and its undo.
    """
    cursor = request.args.get("cursor", "")
    sent = MultiDict({"kind": kinds, "limit": str(limit), "cursor": cursor})
    view = AUDITED_VIEWS[f"{noun}s"]
    page = timeline.of_record(view, id, timeline.TIMELINE_FILTER.read(sent))
    record, entries = view.one(id), list[dict[str, Any]]()
    pinned = "noun = ? AND record_id = ? AND pinned = 1 ORDER BY id DESC LIMIT ?"
    for entry in page.records:
        if entry["kind"] == "change":
            entry["lines"] = _lines(noun, record, entry)
        entry["author"] = _author_name(entry)
        if undo := next((newer for newer in entries if _is_undo(newer, entry)), None):
            entries.remove(undo)
        elif entry.get("lines", True):
            entries.append(entry)
    return {
        "path": f"/{noun}s/{id}",
        "entries": entries,
        "next_cursor": page.next_cursor,
        "kinds": kinds,
        "pinned": rules.NOTE.every(pinned, noun, integer_id(id), MAX_PINNED)
        if noun in rules.NOUNS
        else (),
        "groups": GROUPS if noun in rules.NOUNS else {},
    }


def _is_undo(newer: dict[str, Any], older: dict[str, Any]) -> bool:
    """Whether a move of a deal, or the change that it was, has soon taken an older one back."""
    if any(newer[name] != older[name] for name in ("kind", "user_id")):
        return False
    if older["kind"] == "stage":
        is_back = (newer["before"], newer["after"]) == (older["after"], older["before"])
    elif "stage_id" in older["after"]:
        back = [
            line | {"before": line["after"], "after": line["before"]} for line in older["lines"]
        ]
        is_back = newer["lines"] == back
    else:
        return False
    took = datetime.fromisoformat(newer["at"]) - datetime.fromisoformat(older["at"])
    return is_back and took <= UNDONE_WITHIN


def _author_name(entry: dict[str, Any]) -> str:
    author = labels.user_name(entry["user_id"])
    if entry["kind"] != "change" or not entry["title"]:
        return author
    by = gettext("%(who)s, by the API key “%(key)s”", who=author, key=entry["title"])
    return f"{by}, {gettext('tool %(name)s', name=entry['type'])}" if entry["type"] else by


def _lines(noun: str, record: dict[str, Any], change: dict[str, Any]) -> list[dict[str, str]]:
    # Over the whole record, because the text of a value may depend on others, as money on currency.
    sides = ("before", "after")
    before, after = (labels.flat(noun, {**record, **change[side]}) for side in sides)
    if "deleted_at" in change["after"]:
        return [{"field": gettext("Restored from the trash"), "before": "", "after": ""}]
    told_by_move = ("stage_id", "status", "closed_at") if "stage_id" in change["after"] else ()
    return [
        {
            "field": labels.field(noun, name),
            "before": labels.value(noun, name, before[name], before),
            "after": labels.value(noun, name, after[name], after),
        }
        for name in labels.with_own(noun, change["after"], "is_live")
        if name not in NOT_IN_HISTORY and not (noun == "deal" and name in told_by_move)
        if not (name.startswith(PREFIX) and before[name] == after[name])
    ]
