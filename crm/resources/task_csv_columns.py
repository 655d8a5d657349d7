"""Tasks in files (spec: Tasks; D10). The records that they belong to exist already."""

from typing import Any

from crm.resources.tasks import TASK_IN, Task, create
from crm.resources.user_references import ImportableRecord
from crm.spreadsheets.resource import Entry


class ImportableTasks(ImportableRecord):
    record, body = Task, TASK_IN
    column_of_conflict = {"duplicate_external_id": "external_id", "task_cancelled": "status"}

    def create(self, data: dict[str, Any], entry: Entry, source: str | None) -> int:
        return create(data)

    def put_back(self, record: Any, values: dict[str, Any]) -> None:
        record.put_back(values)


TASKS = ImportableTasks()
