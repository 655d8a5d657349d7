"""Tasks: what is overdue, what is for today, what can wait; done with one click."""

from itertools import groupby, takewhile
from typing import Any

from flask import request
from werkzeug.datastructures import MultiDict
from werkzeug.wrappers import Response

from crm import values
from crm.alerts import alerts
from crm.cabinet import edits, formatting, labels
from crm.cabinet.forms import Form, load_form, wire_value
from crm.cabinet.languages import N_, gettext, ngettext
from crm.cabinet.records import lists
from crm.cabinet.records.record_fields import form_names, load_record, record_fields
from crm.cabinet.records.record_pages import add_record_pages
from crm.cabinet.records.record_sections import timeline_of
from crm.cabinet.rendering import SELLER, Pages, me, next_path, render, see_other, with_undo
from crm.resources import tasks
from crm.resources.agenda import people_of
from crm.resources.tasks import TASK, TASK_FILTER, TASK_IN, TASK_PATCH, Task
from crm.storage.session import tenant_zone

FIELDS = form_names("task")
PAGE_SIZE = 200
TO_DO = ("open", "in_progress")
LIST = lists.ListPage(
    TASK,
    TASK_FILTER,
    N_("Tasks"),
    filters=("status", "type", "assigned_to", "due_since", "due_before"),
    sorts=(("", N_("Due soonest first")), ("-id", N_("Newest first")), lists.UPDATED_FIRST),
    columns=(),
    tabs=((N_("Mine"), {"assigned_to": "me"}), lists.NOBODYS, (N_("All"), {"assigned_to": "all"})),
    # They hold unless the address of the list has others.
    defaults={
        "status": TO_DO,
        "assigned_to": ("me",),
        "sort": ("due_at",),
        "limit": (str(PAGE_SIZE),),
    },
    new=N_("New task"),
    values={"priority": "normal"},
)

pages = Pages("tasks")


@pages.get("/tasks")
def list_tasks() -> Response:
    statuses = {text for text in request.args.getlist("status") if text}
    sort = request.args.get("sort") or "due_at"
    is_agenda = statuses <= {*TO_DO} and sort == "due_at"
    return lists.render_list(
        LIST,
        group=_grouped if is_agenda else lambda tasks: [("", tasks)],
        people_of=people_of,
        back=request.full_path.rstrip("?"),
    )


@pages.get("/tasks/new", role=SELLER)
def new_task(form: Form | None = None) -> Response:
    return lists.render_new(LIST, form)


@pages.post("/tasks", page=new_task, once=True)
def create_task() -> Response:
    """A task of the form, or of the short one of a record: with a day and perhaps a time of it."""
    due: dict[str, Any] = {}
    if day := request.form.get("due_day"):
        due["due_at"] = day
        if time := request.form.get("due_time"):
            sent = MultiDict({"due_at": f"{day}T{time}"})
            due["due_at"] = wire_value(TASK_IN.fields["due_at"], sent, "due_at")
    # The short form of a record has few of the fields.
    names = [*request.form, "custom"] if "description" in request.form else []
    tasks.create(load_record("task", TASK_IN, names, **due))
    return see_other(next_path("/tasks", "back"), gettext("Task added"))


@pages.get("/tasks/<id>")
def edit_task(id: str, form: Form | None = None, refused: Form | None = None) -> Response:
    """`refused` is another form than that of the task's fields."""
    task = TASK.one(id)
    alerts.mark_record_seen(me().user_id, "task", int(id))
    times = {name: formatting.local_input(task[name]) for name in ("due_at", "remind_at")}
    form = form or edits.open_form(task, FIELDS, refused, "task", **times)
    return render(
        "tasks/card.html",
        task=task,
        card=timeline_of("task", id),
        form=form,
        fields=record_fields("task", FIELDS, task, repeat=_repeat_choices(task["repeat"])),
        person=people_of([task]).get(id),
        deal=labels.name_of("deal", task["deal_id"], live=True),
    )


add_record_pages(pages, TASK, tasks, edit_page=edit_task, after_edit="")


@pages.post("/tasks/<id>/complete")
def complete_task(id: str) -> Response:
    status = Task.find(id).status  # before completing, for Undo
    task = tasks.complete(id)
    back = next_path("/tasks", "back")
    undo_fields = {"status": status, "version": task.version, "back": back}
    text = gettext("“%(title)s” completed", title=task.title)
    if task.next_task_id is not None:
        text = f"{text}. {_next_time(task)}"
    return see_other(back, with_undo(text, f"/tasks/{id}/reopen", undo_fields))


@pages.post("/tasks/<id>/reopen", page=edit_task, form_name="refused")
def reopen_task(id: str) -> Response:
    """Undo complete_task(), unless the task was changed since."""
    task = tasks.update(id, load_form(TASK_PATCH, ("status",)), edits.sent_version())
    return see_other(next_path("/tasks", "back"), gettext("“%(title)s” reopened", title=task.title))


def _next_time(task: Task) -> str:
    """When the task that follows this one is due, and how many times of the rule were skipped."""
    due_at = Task.find(task.next_task_id).due_at
    text = gettext("Next time: %(time)s", time=formatting.moment(due_at))
    times = values.times_after(task.repeat, task.due_at, tenant_zone())
    skipped = sum(1 for _ in takewhile(lambda time: time < due_at, times))
    if skipped:
        text += ngettext(" (%(num)d time is skipped)", " (%(num)d times are skipped)", skipped)
    return text


def _repeat_choices(rule: str | None) -> list[tuple[str, str]]:
    """(rule, text) of the usual rules and of the one that a task has."""
    rules = dict.fromkeys((*tasks.RULES, rule) if rule else tasks.RULES)
    return [(each, labels.rule(each)) for each in rules]


def _grouped(tasks: list[dict[str, Any]]) -> list[tuple[str, list[dict[str, Any]]]]:
    """Group open tasks, which are sorted by their due time, under headings."""
    midnight = formatting.end_of_today()

    def heading(task: dict[str, Any]) -> str:
        if task["is_overdue"]:
            return gettext("Overdue")
        return gettext("Today") if (task["due_at"] or midnight) < midnight else gettext("Later")

    return [(text, [*group]) for text, group in groupby(tasks, heading)]
