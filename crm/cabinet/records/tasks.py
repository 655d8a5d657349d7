"""Tasks: what is overdue, what is for today, what can wait; done with one click."""

from typing import Any

from flask import request
from werkzeug.wrappers import Response

from crm.cabinet import edits, formatting
from crm.cabinet.forms import Form, load_form
from crm.cabinet.languages import gettext
from crm.cabinet.records import lists
from crm.cabinet.records.record_fields import form_names, record_fields
from crm.cabinet.records.record_pages import add_record_pages
from crm.cabinet.rendering import Pages, next_path, render, see_other, with_undo
from crm.records import pagination
from crm.resources import tasks
from crm.resources.tasks import TASK, TASK_FILTER, TASK_IN, TASK_PATCH, Task
from crm.storage.session import now

NEW = form_names("task", new=True)
FIELDS = form_names("task")
# What the short forms on the pages of records send besides.
ALSO_SENT = ("lead_id", "client_id", "deal_id", "status", "result")
PAGE_SIZE = 200
# Filters that hold unless the address of the list has others.
DEFAULT_FILTERS = {"status": ("open", "in_progress"), "assigned_to": ("me",)}
DEFAULTS = {**DEFAULT_FILTERS, "sort": ("due_at",), "limit": (str(PAGE_SIZE),)}

pages = Pages("tasks")


@pages.get("/tasks")
def list_tasks(form: Form | None = None) -> Response:
    page = lists.read_page(TASK, TASK_FILTER, DEFAULTS)
    statuses = {text for text in request.args.getlist("status") if text}
    sort = request.args.get("sort", "due_at")
    is_agenda = statuses <= {*DEFAULT_FILTERS["status"]} and sort == "due_at"
    return render(
        "tasks/list.html",
        page=page,
        groups=_grouped(page.records) if is_agenda else [("", page.records)],
        is_complete=page.next_cursor is None and "cursor" not in request.args,
        assigned_to=request.args.get("assigned_to") or "me",
        active_filters=lists.active_filters("task"),
        back=request.full_path.rstrip("?") if request.method == "GET" else "/tasks",
        export_links=lists.export_links("tasks", lists.with_defaults(DEFAULT_FILTERS)),
        form=form or Form(lists.new_values(priority="normal")),
        fields=record_fields("task", NEW),
    )


@pages.get("/tasks/done")
def list_done() -> Response:
    query = TASK_FILTER.read(request.args)
    page = pagination.page(TASK, query, TASK_FILTER.fields["sort"], "status = 'done'")
    links = lists.export_links("tasks", [("status", "done")])
    return render("tasks/done.html", page=page, export_links=links)


@pages.post("/tasks", page=list_tasks)
def create_task() -> Response:
    tasks.create(load_form(TASK_IN, (*NEW, *(name for name in ALSO_SENT if name in request.form))))
    return see_other(next_path("/tasks", "back"), gettext("Task added"))


@pages.get("/tasks/<id>")
def edit_task(id: str, form: Form | None = None, refused: Form | None = None) -> Response:
    """`refused` is another form than that of the task's fields."""
    task = TASK.one(id)
    due_at = formatting.local_input(task["due_at"])
    form = form or edits.open_form(task, FIELDS, refused, due_at=due_at)
    fields = record_fields("task", FIELDS, task)
    return render("tasks/card.html", task=task, form=form, fields=fields)


add_record_pages(pages, TASK, tasks, edit_page=edit_task, after_edit="")


@pages.post("/tasks/<id>/complete")
def complete_task(id: str) -> Response:
    status = Task.find(id).status  # before completing, for Undo
    task = tasks.complete(id)
    back = next_path("/tasks", "back")
    if status == "done":
        return see_other(back)
    undo_fields = {"status": status, "version": task.version, "back": back}
    text = gettext("“%(title)s” completed. Well done!", title=task.title)
    return see_other(back, with_undo(text, f"/tasks/{id}/reopen", undo_fields))


@pages.post("/tasks/<id>/reopen", page=edit_task, form_name="refused")
def reopen_task(id: str) -> Response:
    """Undo complete_task(), unless the task was changed since."""
    task = tasks.update(id, load_form(TASK_PATCH, ("status",)), edits.sent_version())
    return see_other(next_path("/tasks", "back"), gettext("“%(title)s” reopened", title=task.title))


def _grouped(tasks: list[dict[str, Any]]) -> list[tuple[str, list[dict[str, Any]]]]:
    """Group open tasks under their headings."""
    moment, midnight = now(), formatting.end_of_today()
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
