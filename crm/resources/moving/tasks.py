"""Tasks as they move by CSV (spec: Tasks; D10). What they belong to is here already."""

from typing import Any

from crm.resources.moving.cells import columns, id_column, reference
from crm.resources.moving.noun import Entry, Moving
from crm.resources.moving.references import References
from crm.resources.tasks import TASK_IN, Task, TaskSchema, create

BELONGS_TO = ("lead", "client", "deal")


def _live(noun: str, column: str) -> str:
    """SQL: a column of what a task belongs to, unless that was deleted."""
    return f"(SELECT {column} FROM {noun} WHERE {noun}.id = task.{noun}_id AND deleted_at IS NULL)"


class Tasks(Moving):
    name, plural, record, body = "task", "tasks", Task, TASK_IN
    own_columns = (
        *columns(TaskSchema, "task", ("external_id", "title", "type", "status", "priority")),
        reference("assigned_to", "task.assigned_to", of="users"),
        *columns(TaskSchema, "task", ("due_at",)),
        *(
            column
            for noun in BELONGS_TO
            for column in (
                id_column(f"{noun}_id", _live(noun, "id")),
                reference(f"{noun}_external_id", _live(noun, "external_id"), of=f"{noun}s"),
            )
        ),
        *columns(
            TaskSchema,
            "task",
            ("description", "result", "completed_at", "created_at", "extra"),
            new=("completed_at", "created_at"),
        ),
    )

    def shows(self, here: References) -> dict[str, Any]:
        return {"assigned_to": here.text_of_user}

    def settle(
        self, values: dict[str, Any], record: Any, of: str | None, here: References
    ) -> dict[str, Any]:
        if (text := values.get("assigned_to")) is not None:
            values["assigned_to"] = here.user(text, "assigned_to", of is not None)
        for noun in BELONGS_TO:
            if (id := here.kept(noun, values, of)) is not None:
                values[f"{noun}_id"] = id
        return values

    def create(self, data: dict[str, Any], entry: Entry, of: str | None) -> int:
        return create(data)

    def change(self, record: Any, data: dict[str, Any], entry: Entry, of: str | None) -> None:
        record.update_fields(data)


TASKS = Tasks()
