"""Deleting a field: its values are hidden at once, and removed after 30 days (values.py)."""

import re
from typing import Any

from crm.errors import Conflict
from crm.records import batches
from crm.records.custom import fields as custom_fields
from crm.resources.custom_fields import record, values
from crm.resources.custom_fields.record import CustomFieldRecord
from crm.storage.session import now, one_row, rows, transaction


def delete(id: int | str, dry_run: bool = False) -> tuple[int, int | None]:
    """Delete a retired field: how many records have a value, and the batch that takes it back.

    dry_run: only count. Raises NotFound, and Conflict `field_in_use`, which says what names it, for
    one that is not retired.
    """
    with transaction():
        field = record.find(id)
        if field.retired_at is None:
            detail = "retire it first: forms and lists have it"
            raise Conflict(detail, "field_in_use", used_by=users_of(field))
        noun = field.resource[:-1]
        has_value, params = values.has_key("custom", field.key)
        sql = f"SELECT count(*) FROM {noun} WHERE deleted_at IS NULL AND {has_value}"
        (count,) = one_row(sql, params)
        if dry_run:
            return count, None
        with batches.batch("field", noun, field.label) as batch:
            field.save_changes({"deleted_at": now(), "pending_from": None})
            field.note_in_batch("deleted")
        custom_fields.note_change()
        return count, batch.id


def put_back(field: CustomFieldRecord) -> None:
    """Undo the deletion of a field, which is retired again; inside a transaction."""
    field.save_changes({"deleted_at": None, "pending_from": 0})
    custom_fields.note_change()


def users_of(field: CustomFieldRecord) -> list[dict[str, Any]]:
    """What names a field by its key: [{what, id, name}], such as a saved view."""
    name = re.compile(rf'"(client\.)?[-a-z_]*custom\.{field.key}(_from|_to)?"')
    return [
        {"what": table, "id": str(id), "name": title}
        for table, (plural_sql, *columns) in custom_fields.uses.items()
        for id, title, plural, *texts in rows(
            f"SELECT id, name, {plural_sql}, {', '.join(columns)} FROM {table}"
        )
        for of_client in {match[1] for text in texts for match in name.finditer(text or "")}
        if field.resource == ("clients" if of_client else plural)
    ]
