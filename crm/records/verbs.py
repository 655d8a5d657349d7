"""The verbs that soft-deleted records share: update, delete, restore (D17).

A resource names those of its record:

    update, delete, restore = verbs.of(Product)

What the record's own rules add stands in its `update_fields()`, `remove()` and `restore()`, and so
do the errors that they raise.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from crm.records.batches import batch
from crm.records.record import SoftDeletedRecord
from crm.storage.session import transaction

Soft = TypeVar("Soft", bound=SoftDeletedRecord)


def update(
    record: type[Soft], id: int | str, data: dict[str, Any], expected_version: int | None = None
) -> Soft:
    """Change the sent fields of a record, which is returned. Raises Invalid, NotFound and Stale."""
    with transaction():
        existing = record.find(id, expected_version)
        existing.update_fields(data)
        return existing


def delete(record: type[Soft], id: int | str, expected_version: int | None = None) -> Soft:
    """Soft-delete a record. Raises NotFound and Stale."""
    with transaction():
        existing = record.find(id, expected_version)
        existing.remove()
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
