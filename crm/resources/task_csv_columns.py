"""Tasks in files (spec: Tasks; D10). The records that they belong to exist already."""

from collections.abc import Callable
from typing import Any

from crm.resources import tasks
from crm.resources.tasks import TASK_IN, Task
from crm.resources.user_references import UserLookup, resolve_user, user_column
from crm.spreadsheets.csv_columns import Column, declared_columns, id_column, reference_column
from crm.spreadsheets.references import References
from crm.spreadsheets.resource import Entry, ImportableResource, register

BELONGS_TO = ("lead", "client", "deal")


def _owner_columns(noun: str) -> tuple[Column, ...]:
    """The id and the external_id of what a task belongs to, unless that was deleted."""
    live = f"FROM {noun} WHERE {noun}.id = task.{noun}_id AND deleted_at IS NULL"
    return (
        id_column(f"{noun}_id", f"(SELECT id {live})"),
        reference_column(f"{noun}_external_id", f"(SELECT external_id {live})", shows=f"{noun}s"),
    )


class ImportableTasks(ImportableResource):
    singular, plural, import_order = "task", "tasks", 5
    file_name = "tasks.csv"
    record, body = Task, TASK_IN
    own_columns = declared_columns(
        Task,
        replaced={
            "assigned_to": (user_column("assigned_to", "task.assigned_to"),),
            **{f"{noun}_id": _owner_columns(noun) for noun in BELONGS_TO},
        },
    )
    column_of_conflict = {"duplicate_external_id": "external_id", "task_cancelled": "status"}

    def reference_names(self, references: References) -> dict[str, Callable[[Any], str]]:
        return {"assigned_to": references.lookup(UserLookup).name_of}

    def resolve_references(
        self, values: dict[str, Any], record: Any, source: str | None, references: References
    ) -> dict[str, Any]:
        resolve_user(values, "assigned_to", source, references)
        for noun in BELONGS_TO:
            if (id := references.find_record(noun, values, source)) is not None:
                values[f"{noun}_id"] = id
        return values

    def create(self, data: dict[str, Any], entry: Entry, source: str | None) -> int:
        return tasks.create(data)

    def update(self, record: Any, data: dict[str, Any], entry: Entry, source: str | None) -> int:
        record.update_fields(data)
        return record.version


TASKS = register(ImportableTasks())
