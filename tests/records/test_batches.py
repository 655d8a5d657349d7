"""What is noted of each record while a batch is recorded."""

import pytest

from crm.records import batches
from crm.resources.clients import record as clients
from crm.storage.session import rows, transaction

pytestmark = pytest.mark.usefixtures("acme")

NOTED = "SELECT noun, record_id, action, version FROM batch_record WHERE batch_id = ? ORDER BY id"


def test_each_record_is_noted_once_with_the_version_that_was_left() -> None:
    ids = [clients.create({"name": name}) for name in ("А", "Б", "В")]
    with transaction(), batches.batch("bulk", "client", "зміна тегів") as batch:
        clients.update(ids[0], {"name": "АА", "contacts": [{"name": "Олена"}]})
        clients.update(ids[0], {"name": "ААА"})
        clients.delete(ids[1])
        clients.update(ids[2], {"name": "В"})  # no change
        new = clients.create({"name": "Г"})
    clients.update(ids[2], {"name": "ВВ"})  # after the batch
    assert rows(NOTED, (batch.id,)) == [
        ("client", ids[0], "updated", 3),
        ("client", ids[1], "deleted", 2),
        ("client", new, "created", 1),
    ]
    stored = batches.Batch.find(batch.id)
    assert (stored.created, stored.updated, stored.deleted, stored.state) == (1, 1, 1, "done")


def test_the_first_audit_entry_of_a_record_is_noted() -> None:
    id = clients.create({"name": "А"})
    with transaction(), batches.batch("bulk", "client") as batch:
        clients.update(id, {"name": "Б"})
        clients.update(id, {"name": "В"})
    ((audit_id,),) = rows("SELECT audit_id FROM batch_record WHERE batch_id = ?", (batch.id,))
    ((before,),) = rows("SELECT before FROM audit_entry WHERE id = ?", (audit_id,))
    assert before == '{"name":"А"}'


def test_what_is_rolled_back_is_not_noted() -> None:
    with pytest.raises(ZeroDivisionError), transaction(), batches.batch("bulk", "client"):
        clients.create({"name": "А"})
        raise ZeroDivisionError
    assert not rows("SELECT * FROM batch_record") and not rows("SELECT * FROM batch")
    clients.create({"name": "Б"})
    assert not rows("SELECT * FROM batch_record"), "the batch has ended"
