"""The fields of a deal that are no columns: its manager and the number of its items."""

from typing import Any

from crm.records import fields, nested
from crm.records.schemas import RecordSchema
from crm.storage.dialect import json_row
from crm.values import InvalidValue


class UserId(fields.Id):
    """A user's id, or an object with it."""

    def read(self, value: Any) -> int:
        if isinstance(value, dict):
            if not {"id"} <= set(value) <= {"id", "name"}:
                raise InvalidValue("invalid_type", "must be an id or an object with an id")
            value = value["id"]
        return super().read(value)

    def schema_type(self) -> dict[str, Any]:
        id = super().schema_type()
        name = {"type": "string", "maxLength": 255}
        user = {
            "type": "object",
            "properties": {"id": super().schema_type(), "name": name},
            "required": ["id"],
            "additionalProperties": False,
        }
        return {"anyOf": [*id["anyOf"], user]}


class ManagerSchema(RecordSchema):
    id = fields.Id(dump_only=True)
    name = fields.Text(255, required=True, example="Тарас")


class Manager(nested.Nested):
    """Shown as {id, name}, sent as an id or {id}."""

    def variant(self, *, incoming: bool, required: bool) -> Any:
        if incoming:
            return UserId(example="1", about=self.about).variant(incoming=True, required=False)
        return super().variant(incoming=incoming, required=required)


MANAGER: str = json_row(
    {"id": '"user".id', "name": '"user".name'}, '"user" WHERE "user".id = deal.assigned_to'
)
ITEMS_COUNT = "(SELECT count(*) FROM deal_item WHERE deal_item.deal_id = deal.id)"
