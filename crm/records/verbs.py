"""The verbs that soft-deleted records share: update, delete, restore (D17).

A resource names those of its record:

    update, delete, restore = verbs.of(Product)

What the record's own rules add stands in its `update_fields()`, `remove()` and `restore()`, and so
do the errors that they raise.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from crm.errors import Invalid
from crm.records.batches import batch
from crm.records.custom import values as custom_values
from crm.records.record import Record, SoftDeletedRecord
from crm.storage.session import transaction
from crm.values import InvalidValue, merge_object

Soft = TypeVar("Soft", bound=SoftDeletedRecord)
AnyRecord = TypeVar("AnyRecord", bound=Record)


def update(
    record: type[Soft], id: int | str, data: dict[str, Any], expected_version: int | None = None
) -> Soft:
    """Change the sent fields of a record, which is returned. Raises Invalid, NotFound and Stale."""
    with transaction():
        existing = record.find(id, expected_version)
        patch(existing, data)
        return existing


def patch(record: SoftDeletedRecord, data: dict[str, Any]) -> None:
    """Change the sent fields, and of objects the sent keys (D4); inside a transaction."""
    record.update_fields(data | merged_objects(record, data))


def merged_objects(record: SoftDeletedRecord, data: dict[str, Any]) -> dict[str, str | None]:
    """`extra`, `custom` and `requisites` after a change, if that has them; raises Invalid beyond
    their limits, and for an unknown record that `custom` names."""
    if "custom" in data:
        custom_values.require_references(f"{record.noun}s", record.custom, data["custom"])
    merged: dict[str, str | None] = {}
    for name in {"custom", "requisites"} & data.keys():
        if data[name] is not None:
            merged[name] = custom_values.merged(getattr(record, name), data[name])
    if data.get("extra") is None:
        return merged
    try:
        return {**merged, "extra": merge_object(record.extra, data["extra"])}
    except InvalidValue as error:
        raise Invalid.field("extra", error.code, error.detail) from None


def delete(record: type[Soft], id: int | str, expected_version: int | None = None) -> Soft:
    """Soft-delete a record. Raises NotFound and Stale."""
    with transaction():
        existing = record.find(id, expected_version)
        existing.remove()
        return existing


def erase(record: type[AnyRecord], id: int | str, expected_version: int | None = None) -> AnyRecord:
    """Delete a record for good. Raises NotFound and Stale."""
    with transaction():
        existing = record.find(id, expected_version)
        existing.erase()
        return existing


def restore(record: type[Soft], id: int | str) -> Soft:
    """Undo delete(), as a batch. Raises NotFound, and Conflict `duplicate_external_id`."""
    with transaction():
        removed = record.removed(id)
        with batch("restore", record.noun):
            removed.restore()
        return removed


def of(record: type[Soft]) -> tuple[Callable[..., Soft], Callable[..., Soft], Callable[..., Soft]]:
    """update(), delete() and restore() of a kind of records."""
    return partial(update, record), partial(delete, record), partial(restore, record)
