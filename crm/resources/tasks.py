"""Tasks: what is to be done, by whom and until when (spec: Tasks; D3, D4, D10, D12, D17).

A task is assigned to its maker unless the request says otherwise, and may belong to a lead, a
client and a deal. Done by whatever verb, it emits one task.completed. A cancelled task is reopened
before it can be done; a reopened one has no `completed_at`. Whether a task is overdue depends on
the clock and is never stored. A task that repeats makes the next one when it is done.
"""

from contextlib import suppress
from datetime import datetime, time, timedelta
from typing import Any

from werkzeug.datastructures import MultiDict

from crm import values
from crm.alerts import alerts
from crm.alerts.kinds import TASK_DUE
from crm.api.blueprints import Blueprint, Endpoints
from crm.errors import Conflict, Invalid
from crm.outbox import events
from crm.records import columns, fields, parameters, verbs
from crm.records.columns import N_, Shown
from crm.records.conditions import Condition
from crm.records.custom.values import Custom
from crm.records.queries import filter_of, period
from crm.records.record import SoftDeletedRecord, require_reference
from crm.records.retention import erase_deleted
from crm.records.schemas import RecordSchema
from crm.records.views import declare_views
from crm.resources.clients.record import Client
from crm.resources.deals.record import Deal
from crm.resources.leads.record import Lead
from crm.resources.pipelines.record import TASK_TYPES, Stage
from crm.resources.user_references import ImportableRecord
from crm.resources.users import assignee, require_assignee, with_assignee
from crm.spreadsheets.resource import Entry
from crm.storage import own_rows
from crm.storage.session import current_session, now, one_row, row, tenant_zone, transaction

STATUSES = ("open", "in_progress", "done", "cancelled")
UNDONE = STATUSES[:2]
REMINDED_BY = frozenset({"remind_at", "assigned_to", "status"})
PRIORITIES = ("low", "normal", "high")
# The rules that forms offer.
RULES = (
    *("FREQ=DAILY", "FREQ=WEEKLY;BYDAY=MO,TU,WE,TH,FR", "FREQ=WEEKLY"),
    *("FREQ=MONTHLY", "FREQ=MONTHLY;BYMONTHDAY=-1", "FREQ=YEARLY"),
)
REFERENCES = {"lead_id": Lead, "client_id": Client, "deal_id": Deal}
# What the next task has of one that repeats.
REPEATED = ("title", "type", "priority", "assigned_to", *REFERENCES, "description", "custom")
MAX_DURATION_SECONDS = 7 * 86_400
NEVER = "'9999'"  # when a task without a time is due
DUE = f"coalesce(due_at, {NEVER})"
# A task waits for nobody while a record that it belongs to is deleted.
OF_LIVE = " AND ".join(
    f"NOT EXISTS (SELECT 1 FROM {noun} WHERE {noun}.id = task.{noun}_id"
    f" AND {noun}.deleted_at IS NOT NULL)"
    for noun in ("lead", "client", "deal")
)


class DueTime(fields.DateTime):
    """A time until when something is to be done; a date alone is the last second of that day."""

    time_of_day = time(23, 59, 59)

    def read(self, value: Any) -> str:
        with suppress(values.InvalidValue):
            return values.local_day(value, self.time_of_day, tenant_zone())
        return super().read(value)


class Repeat(fields.Choice):
    """A rule by which a task repeats; the choices are the usual ones."""

    def read(self, value: Any) -> str:
        return values.repeat_rule(value)

    def schema_type(self) -> dict[str, Any]:
        return {"type": "string", "maxLength": 64}


class Overdue(fields.Boolean):
    """From the due time of a task that is still to be done, or null."""

    def show(self, value: Any) -> bool:
        return value is not None and value < now()


def _reference(noun: str, example: str, label: str) -> columns.Column:
    """The column of a record that a task belongs to."""
    about = f"Tasks of this {noun}."
    filtered = parameters.Reference(about=about, rare=True)
    return columns.Id(example=example, filtered=filtered, references=noun, csv=True, label=label)


class Task(SoftDeletedRecord):
    """One task, in stored form."""

    noun = "task"

    title = columns.Text(
        255, required=True, example="Зателефонувати Олені", searched=True, label=N_("Title")
    )
    type = columns.Choice(*TASK_TYPES, filtered=parameters.Equals(), label=N_("Type"), form="new")
    status = columns.Choice(
        *STATUSES, default="open", filtered=parameters.Equals(), label=N_("Status")
    )
    priority = columns.Choice(*PRIORITIES, default="normal", label=N_("Priority"), form="new")
    assigned_to = assignee(about="By default the key's user.", in_order=False)
    created_by = columns.Id(dump_only=True, allow_none=True)
    due_at = columns.DateTime(
        wire=DueTime(
            about="A date alone is the end of that day in the company's time zone.",
            example="2026-03-31T11:30:00Z",
        ),
        sorted=DUE,
        label=N_("Due"),
        form="new",
    )
    remind_at = columns.DateTime(
        about="When the responsible user is alerted; a time that is over reminds nobody.",
        label=N_("Remind"),
        form="new",
    )
    repeat = columns.Text(
        wire=Repeat(
            *RULES,
            about="A part of iCalendar's RRULE, in the company's time zone: `FREQ=DAILY`, `WEEKLY`"
            " (`BYDAY`), `MONTHLY` (`BYMONTHDAY`, -1 for the last day) or `YEARLY`; `INTERVAL`;"
            " `UNTIL` or `COUNT`. The task makes the next one when it is done.",
            example="FREQ=WEEKLY;BYDAY=MO",
        ),
        label=N_("Repeat"),
        form="new",
    )
    next_task_id = columns.Id(dump_only=True, allow_none=True, about="Made when this was done.")
    custom = Custom("tasks")
    is_overdue = Shown(
        Overdue(
            dump_only=True,
            column="CASE WHEN task.status IN ('open', 'in_progress')"
            f" AND {OF_LIVE} THEN task.due_at END",
            about="Still to be done, `due_at` has passed, and no record of it is deleted.",
        )
    )
    lead_id = _reference("lead", "3", N_("Lead"))
    client_id = _reference("client", "5", N_("Client"))
    deal_id = _reference("deal", "8", N_("Deal"))
    description = columns.LongText(searched=True, label=N_("Description"), form="new")
    result = columns.LongText(example="Домовилися про зустріч", label=N_("Result"))
    duration_seconds = columns.Integer(
        0,
        MAX_DURATION_SECONDS,
        about="How long a call or a meeting took.",
        example=240,
        label=N_("Duration, s"),
        form=False,
    )
    completed_at = columns.DateTime(dump_only=True, allow_none=True, csv=True)

    def update_fields(self, data: dict[str, Any]) -> None:
        """Change the sent fields; the status `done` completes the task. Inside a transaction.

        Raises Invalid, and Conflict `task_cancelled`.
        """
        if "assigned_to" in data:
            require_assignee(data, self)
        for name, record in REFERENCES.items():
            # A stored reference is not checked again: its record may have been deleted since.
            if data.get(name) != getattr(self, name):
                require_reference(record, data.get(name), name)
        require_due_time({"repeat": self.repeat, "due_at": self.due_at, **data})
        status = data.get("status", self.status)
        if status == "done" and self.status != "done":
            self._complete(data)
        else:
            completed_at = self.completed_at if status == "done" else None
            next_id = self.next_task_id if status == "done" else None
            ends = {"completed_at": completed_at, "next_task_id": next_id}
            before = self.save_changes({**data, **ends})
            if "assigned_to" in before:
                alerts.add_assigned(self)

    def save_changes(
        self, values: dict[str, Any], changed_parts: dict[str, tuple] | None = None
    ) -> dict[str, Any]:
        """As SoftDeletedRecord.save_changes(); the reminder follows, and so does the next task.

        That of a task that is no longer done is deleted, unless somebody has changed it.
        """
        if self.next_task_id and values.get("next_task_id", self.next_task_id) is None:
            if next_task := Task.first("id = ? AND version = 1", self.next_task_id):
                next_task.remove()
            else:
                values = {**values, "next_task_id": self.next_task_id}
        before = super().save_changes(values, changed_parts)
        if not REMINDED_BY.isdisjoint(before):
            self._set_reminder()
        return before

    def remove(self, **merged_into: str) -> None:
        super().remove(**merged_into)
        self._set_reminder()

    def restore(self) -> None:
        super().restore()
        self._set_reminder()

    def _set_reminder(self) -> None:
        waits = self.status in UNDONE and self.deleted_at is None
        alerts.set_reminder(self.id, self.assigned_to, self.remind_at if waits else None)
        if self.assigned_to and not waits:
            alerts.mark_record_seen(self.assigned_to, "task", self.id)

    def put_back(self, values: dict[str, Any]) -> None:
        """Give it the values before a change that is undone; task.completed if it was done."""
        before = self.save_changes(values)
        if "status" in before and self.status == "done":
            self._emit_completed(before)

    def _complete(self, data: dict[str, Any]) -> None:
        if self.status == "cancelled":
            raise Conflict("a cancelled task cannot be done: open it first", "task_cancelled")
        done = {**data, "status": "done", "completed_at": now()}
        next_task = self._add_next(done)
        if next_task is not None:
            done["next_task_id"] = next_task.id
        self._emit_completed(self.save_changes(done))
        if next_task is not None:
            events.emit(events.TASK_CREATED, next_task.id, {"task": TASK.one(next_task.id)})

    def _add_next(self, changes: dict[str, Any]) -> "Task | None":
        """Add the task that follows by the rule, if any does; times that are over are skipped."""
        task = {**self.__data__, **changes}
        if not task["repeat"] or self.next_task_id:
            return None
        if row(f"SELECT 1 FROM task WHERE id = ? AND {OF_LIVE}", (self.id,)) is None:
            return None
        following = values.next_time(task["repeat"], task["due_at"], now(), tenant_zone())
        if following is None:
            return None
        remind_at = task["remind_at"]
        if remind_at:
            times = (task["due_at"], remind_at, following.moment)
            due_at, reminded_at, next_due_at = map(datetime.fromisoformat, times)
            remind_at = values.moment(next_due_at - (due_at - reminded_at))
        next_task = Task.add(
            {
                **{name: task[name] for name in REPEATED},
                "status": "open",
                "due_at": following.moment,
                "remind_at": remind_at,
                "repeat": following.rule,
            }
        )
        next_task._set_reminder()
        return next_task

    def _emit_completed(self, before: dict[str, Any]) -> None:
        events.emit(events.TASK_COMPLETED, self.id, {"task": TASK.one(self.id)}, TASK.show(before))


own_rows.declare_records("task")
erase_deleted("task")
waits = f"EXISTS (SELECT 1 FROM task WHERE task.id = alert.record_id AND {OF_LIVE})"
alerts.show_where(TASK_DUE, waits)


def require_due_time(data: dict[str, Any]) -> None:
    """Raise Invalid for a task that repeats without a time from which to."""
    if data.get("repeat") and not data.get("due_at"):
        raise Invalid.field("repeat", "due_at_required", "a task that repeats needs due_at")


def create(data: dict[str, Any]) -> int:
    """Add a task and return its id: task.created, then task.completed if it comes as done.

    An import may bring `completed_at` of a task that is done, which makes no next one. Raises
    Invalid.
    """
    with transaction():
        require_due_time(data)
        for name, record in REFERENCES.items():
            require_reference(record, data.get(name), name)
        values = {
            "status": "open",
            "priority": "normal",
            "assigned_to": current_session().user_id,
            **with_assignee(data),
        }
        is_done = values["status"] == "done"
        completed_at = (values.get("completed_at") or now()) if is_done else None
        task = Task.add({**values, "completed_at": completed_at})
        task._set_reminder()
        if "assigned_to" in data:  # not by default
            alerts.add_assigned(task)
        body = {"task": TASK.one(task.id)}
        events.emit(events.TASK_CREATED, task.id, body)
        if is_done:
            events.emit(events.TASK_COMPLETED, task.id, body)
        return task.id


def add_task_of_stage(deal: Deal, stage: Stage) -> None:
    """Add the task of a deal that comes to a stage for the first time, if the stage has one.

    Inside a transaction. An import brings a deal's own tasks.
    """
    session = current_session()
    if not stage.task_title or session.is_import or session.is_undo:
        return
    came = "SELECT count(*) FROM stage_move WHERE deal_id = ? AND to_stage_id = ?"
    if one_row(came, (deal.id, stage.id))[0] > 1:
        return
    zone = tenant_zone()
    day = datetime.fromisoformat(now()).astimezone(zone).date()
    day += timedelta(days=1 if stage.task_within_days is None else stage.task_within_days)
    create(
        {
            "title": stage.task_title,
            "type": stage.task_type,
            "deal_id": deal.id,
            "assigned_to": deal.assigned_to,
            "due_at": values.local_day(day, DueTime.time_of_day, zone),
        }
    )


def complete(id: int | str, result: str | None = None) -> Task:
    """Mark a task as done. A done task stays as it is, its result included.

    Raises NotFound, and Conflict `task_cancelled`.
    """
    with transaction():
        task = Task.find(id)
        # A repeated call is no error, and writes neither an event nor another result.
        if task.status != "done":
            task._complete({"result": result} if result else {})
        return task


update, delete, restore = verbs.of(Task)
TASK, TASK_IN, TASK_PATCH = declare_views(Task)


class ImportableTasks(ImportableRecord):
    """Tasks in files; the records that they belong to exist already (D10)."""

    record, body = Task, TASK_IN
    column_of_conflict = {"duplicate_external_id": "external_id", "task_cancelled": "status"}

    def create(self, data: dict[str, Any], entry: Entry, source: str | None) -> int:
        return create(data)


TASKS = ImportableTasks()


class CompletionSchema(RecordSchema):
    result = fields.LongText(example="Домовилися про зустріч", about="What came of it.")


COMPLETION = CompletionSchema.body("Completion")


class TaskFilter(filter_of(Task)):  # type: ignore[misc]  # made from the declaration
    due_since, due_before = period(DUE, "Due", absent=NEVER)
    completed_since, completed_until = period("completed_at", "Done", is_order=False)

    def read(self, sent: MultiDict) -> parameters.Query:
        """As Filter: what waits for one user is read in its order by an index of that alone."""
        query = super().read(sent)
        is_own = any(condition.sql == "assigned_to = ?" for condition in query.conditions)
        waits = is_own and {*sent.getlist("status")} == {*UNDONE}
        if waits and query.sort == "due_at" and not query.include_deleted:
            query.conditions.append(Condition(f"status IN {UNDONE}", walks="task_waiting"))
        return query


TASK_FILTER = TaskFilter()

blueprint = Blueprint("tasks", "Calls, meetings, e-mails and other things to do.", N_("Tasks"))


tasks = Endpoints(blueprint, "/tasks", TASK)
tasks.list(TASK_FILTER)
tasks.create(create, example={"title": "Зателефонувати Олені", "type": "call"})
tasks.get()
tasks.change(update)
tasks.delete(delete)


@blueprint.operation(
    "POST", "/tasks/<id>/complete", body=COMPLETION, response_view=TASK, conflicts=True
)
def complete_task(id: str, data: dict[str, Any]) -> dict[str, Any]:
    """Mark a task as done."""
    return TASK.changed(complete(id, data.get("result")).id)
