"""Tasks: what is overdue, what is for today, what can wait; done with one click."""

from datetime import datetime, timedelta
from functools import partial
from typing import Any
from zoneinfo import ZoneInfo

from flask import request
from werkzeug.wrappers import Response

from crm import values
from crm.cabinet import edits, formatting, labels, lists, user_choices
from crm.cabinet.forms import Form, load_form
from crm.cabinet.languages import gettext
from crm.cabinet.record_fields import form_names, record_fields
from crm.cabinet.rendering import (
    Pages,
    flash,
    flash_with_undo,
    me,
    next_path,
    render,
    rerender_on_error,
    see_other,
)
from crm.cabinet.spreadsheets.exports import export_links
from crm.records import pagination
from crm.resources import tasks
from crm.resources.tasks import TASK, TASK_FILTER, TASK_IN, TASK_PATCH, Task
from crm.tenancy.database import now

NEW = form_names("task", new=True)
FIELDS = form_names("task")
LINKS = ("lead_id", "client_id", "deal_id")
PAGE_SIZE = 200
# Filters that hold unless the address of the list has others.
DEFAULT_FILTERS = {
    "status": ("open", "in_progress"),
    "assigned_to": ("me",),
    "sort": ("due_at",),
    "limit": (str(PAGE_SIZE),),
}

pages = Pages("tasks")


@pages.get("/tasks")
def list_tasks(form: Form | None = None) -> Response:
    page = lists.read_page(TASK, TASK_FILTER, DEFAULT_FILTERS)
    statuses = {text for text in request.args.getlist("status") if text}
    is_agenda = (
        statuses <= {*DEFAULT_FILTERS["status"]} and request.args.get("sort", "due_at") == "due_at"
    )
    return render(
        "tasks/list.html",
        page=page,
        groups=_grouped(page.records) if is_agenda else [("", page.records)],
        is_complete=page.next_cursor is None and "cursor" not in request.args,
        assigned_to=request.args.get("assigned_to") or "me",
        active_filters=lists.active_filters("task"),
        back=request.full_path.rstrip("?") if request.method == "GET" else "/tasks",
        export_links=export_links("tasks", _export_filters()),
        form=form or Form({"assigned_to": str(me().user_id), "priority": "normal"}),
        fields=record_fields("task", NEW),
        people=user_choices.names(),
        types=labels.task_types(),
        statuses=[*labels.statuses("task").items()],
    )


@pages.get("/tasks/done")
def list_done() -> Response:
    query = TASK_FILTER.read(request.args)
    page = pagination.page(TASK, query, TASK_FILTER.fields["sort"], "status = 'done'")
    links = export_links("tasks", [("status", "done")])
    return render("tasks/done.html", page=page, export_links=links, people=user_choices.names())


@pages.post("/tasks")
@rerender_on_error(lambda form: list_tasks(form))
def create_task() -> Response:
    data = load_form(
        TASK_IN, request.form, (*NEW, *(name for name in LINKS if name in request.form))
    )
    tasks.create(data)
    flash(gettext("Task added"))
    return see_other(next_path("/tasks", "back"))


@pages.get("/tasks/<id>")
def edit_task(id: str, form: Form | None = None, refused: Form | None = None) -> Response:
    """`refused` is another form than that of the task's fields."""
    task = TASK.one(id)
    due_at = formatting.local_input(task["due_at"])
    form = form or edits.open_form(task, FIELDS, due_at=due_at)
    if refused:
        form.messages = refused.messages
    fields = record_fields("task", FIELDS, task)
    return render("tasks/card.html", task=task, form=form, fields=fields)


@pages.post("/tasks/<id>")
@rerender_on_error(lambda form, id: edit_task(id, form))
def change_task(id: str) -> Response:
    data = load_form(TASK_PATCH, request.form, FIELDS)
    other_changes = edits.save(TASK, id, data, partial(tasks.update, id))
    edits.flash_saved(other_changes)
    return see_other("/tasks")


@pages.post("/tasks/<id>/complete")
def complete_task(id: str) -> Response:
    status = Task.find(id).status  # before completing, for Undo
    task = tasks.complete(id)
    back = next_path("/tasks", "back")
    if status != "done":
        undo_fields = {"status": status, "version": task.version, "back": back}
        text = gettext("“%(title)s” completed. Well done!", title=task.title)
        flash_with_undo(text, f"/tasks/{id}/reopen", undo_fields)
    return see_other(back)


@pages.post("/tasks/<id>/reopen")
@rerender_on_error(lambda form, id: edit_task(id, refused=form))
def reopen_task(id: str) -> Response:
    """Undo complete_task(), unless the task was changed since."""
    data = load_form(TASK_PATCH, request.form, ("status",))
    task = tasks.update(id, data, edits.sent_version())
    flash(gettext("“%(title)s” reopened", title=task.title))
    return see_other(next_path("/tasks", "back"))


@pages.post("/tasks/<id>/delete")
def delete_task(id: str) -> Response:
    task = tasks.delete(id)
    text = gettext("“%(name)s” deleted", name=task.title)
    flash_with_undo(text, f"/tasks/{id}/restore")
    return see_other("/tasks")


@pages.post("/tasks/<id>/restore")
def restore_task(id: str) -> Response:
    tasks.restore(id)
    flash(gettext("Task restored"))
    return see_other(f"/tasks/{id}")


def _grouped(tasks: list[dict[str, Any]]) -> list[tuple[str, list[dict[str, Any]]]]:
    """Group open tasks under their headings."""
    moment, midnight = now(), _end_of_today()
    headings: dict[str, list[dict[str, Any]]] = {
        gettext("Overdue"): [],
        gettext("Today"): [],
        gettext("Later"): [],
    }
    overdue, today, later = headings.values()
    for task in tasks:
        due = task["due_at"]
        group = later if not due or due >= midnight else today if due >= moment else overdue
        group.append(task)
    return [*headings.items()]


def _export_filters() -> list[tuple[str, str]]:
    """The filters of the list that is shown, for an export of the same tasks."""
    parameters = [(name, text) for name, text in request.args.items(multi=True) if text.strip()]
    named = {name for name, _ in parameters}
    parameters += [
        (name, text)
        for name in ("status", "assigned_to")
        if name not in named
        for text in DEFAULT_FILTERS[name]
    ]
    return [
        (name, text)
        for name, text in parameters
        if name not in DEFAULT_FILTERS or text != lists.ALL
    ]


def _end_of_today() -> str:
    zone = formatting.time_zone()
    today = datetime.fromisoformat(now()).astimezone(ZoneInfo(zone)).date()
    return values.midnight(today + timedelta(days=1), zone)
