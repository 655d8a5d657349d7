"""Tasks: what is overdue, what is for today, what can wait; done with one click."""

from datetime import datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from flask import request
from flask_babel import gettext
from werkzeug.wrappers import Response

from crm.cabinet import cards, edits, people, texts, words
from crm.cabinet.forms import Form, take
from crm.cabinet.frame import (
    Pages,
    again,
    me,
    next_path,
    onward,
    render,
    told,
    told_with_undo,
)
from crm.cabinet.moving import exports
from crm.resources import tasks
from crm.resources.tasks import TASK, TASK_FILTER, TASK_IN, TASK_PATCH, Task
from crm.rest import paging
from crm.tenancy.database import now, transaction

FIELDS = ("title", "type", "priority", "assigned_to", "due_at", "description")
EDITED = (*FIELDS, "status", "result")
LINKS = ("lead_id", "client_id", "deal_id")
MOST = 200  # open tasks shown at once
OPEN_STATUSES = ("open", "in_progress")
OPEN = f"status IN {OPEN_STATUSES} AND deleted_at IS NULL"

pages = Pages("tasks")


@pages.get("/tasks")
def list_tasks(form: Form | None = None) -> Response:
    whose = request.args.get("assigned_to", "me")
    condition = {"me": "assigned_to = ?", "none": "assigned_to IS NULL"}.get(whose, "1")
    params = (me().user_id,) if whose == "me" else ()
    order = "ORDER BY coalesce(due_at, '9999'), id LIMIT ?"
    found = TASK.every(f"{OPEN} AND {condition} {order}", *params, MOST)
    asked = [("status", status) for status in OPEN_STATUSES]
    if whose in ("me", "none"):
        asked.append(("assigned_to", whose))
    return render(
        "tasks/list.html",
        groups=_grouped(found),
        whose=whose,
        ways=exports.ways("tasks", asked),
        form=form or _new(),
        **_choices(),
    )


@pages.get("/tasks/done")
def list_done() -> Response:
    query = TASK_FILTER.read(request.args)
    page = paging.page(TASK, query, TASK_FILTER.fields["sort"], "status = 'done'")
    ways = exports.ways("tasks", [("status", "done")])
    return render("tasks/done.html", page=page, ways=ways, people=people.names())


@pages.post("/tasks")
@again(lambda form: list_tasks(form))
def create_task() -> Response:
    data = take(TASK_IN, request.form, (*FIELDS, *(name for name in LINKS if name in request.form)))
    tasks.create(data)
    told(gettext("The task is there."))
    return onward(next_path("/tasks", "back"))


@pages.get("/tasks/<id>")
def edit_task(id: str, form: Form | None = None, refused: Form | None = None) -> Response:
    """`refused` is another form than that of the task's fields."""
    task = TASK.one(id)
    due_at = texts.local_input(task["due_at"])
    form = form or edits.open_form(task, EDITED, due_at=due_at)
    if refused:
        form.told = refused.told
    choices = _choices() | {"people": dict(people.choices(task["assigned_to"]))}
    return render("tasks/card.html", task=task, form=form, **choices)


@pages.post("/tasks/<id>")
@again(lambda form, id: edit_task(id, form))
def change_task(id: str) -> Response:
    data = take(TASK_PATCH, request.form, EDITED)
    with transaction():
        theirs = edits.keep_both(TASK, TASK.one(id), data)
        Task.find(id).change(data)
    edits.tell_saved(theirs)
    return onward("/tasks")


@pages.post("/tasks/<id>/complete")
def complete_task(id: str) -> Response:
    with transaction():
        task = Task.find(id)
        status = task.status
        task.complete()
    back = next_path("/tasks", "back")
    if status != "done":
        sent = {"status": status, "version": task.version, "back": back}
        text = gettext("“%(title)s” is done: well done!", title=task.title)
        told_with_undo(text, f"/tasks/{id}/reopen", sent)
    return onward(back)


@pages.post("/tasks/<id>/reopen")
@again(lambda form, id: edit_task(id, refused=form))
def reopen_task(id: str) -> Response:
    """Undo complete_task(), unless somebody has changed the task since."""
    data = take(TASK_PATCH, request.form, ("status",))
    with transaction():
        task = Task.find(id)
        cards.is_version(task.version)
        task.change(data)
    told(gettext("“%(title)s” is to be done again.", title=task.title))
    return onward(next_path("/tasks", "back"))


@pages.post("/tasks/<id>/delete")
def delete_task(id: str) -> Response:
    with transaction():
        task = Task.find(id)
        task.remove()
    text = gettext("“%(name)s” is deleted.", name=task.title)
    told_with_undo(text, f"/tasks/{id}/restore")
    return onward("/tasks")


@pages.post("/tasks/<id>/restore")
def restore_task(id: str) -> Response:
    with transaction():
        Task.removed(id).restore()
    told(gettext("The task is back."))
    return onward(f"/tasks/{id}")


def _grouped(found: list[dict[str, Any]]) -> list[tuple[str, list[dict[str, Any]]]]:
    """The open tasks under their headings."""
    moment, midnight = now(), _end_of_today()
    headings: dict[str, list[dict[str, Any]]] = {
        gettext("Overdue"): [],
        gettext("Today"): [],
        gettext("Later"): [],
    }
    overdue, today, later = headings.values()
    for task in found:
        due = task["due_at"]
        group = later if not due or due >= midnight else today if due >= moment else overdue
        group.append(task)
    return [*headings.items()]


def _new() -> Form:
    return Form({"assigned_to": str(me().user_id), "priority": "normal"})


def _choices() -> dict[str, Any]:
    return {
        "people": people.names(),
        "types": words.task_types(),
        "priorities": [
            ("low", gettext("Low")),
            ("normal", gettext("Normal")),
            ("high", gettext("High")),
        ],
        "statuses": [*words.statuses("task").items()],
    }


def _end_of_today() -> str:
    """Midnight of the tenant's zone, in UTC as times are stored."""
    zone = ZoneInfo(texts.time_zone())
    today = datetime.fromisoformat(now()).astimezone(zone).date() + timedelta(days=1)
    midnight = datetime.combine(today, datetime.min.time(), zone)
    return f"{midnight.astimezone(ZoneInfo('UTC')):%Y-%m-%dT%H:%M:%SZ}"
