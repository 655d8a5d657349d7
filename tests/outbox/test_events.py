"""The outbox (spec: Events; D15): an event is written with its change, or not at all."""

import json
import sqlite3

import pytest

from crm.errors import Conflict
from crm.outbox import events
from crm.resources.leads.record import LEAD, create
from crm.storage.session import NoTenant, execute, row, transaction

MARIA = {"name": "Марія", "phone": "+380671234567"}


@pytest.fixture
def acme(crm):
    with crm.tenants.session("acme") as session:
        yield session


def read_events():
    """The tenant's events as receivers get them, oldest first."""
    bodies, _ = events.list_bodies_after(0, list(events.KINDS), 1000)
    return [json.loads(body) for body in bodies]


def read_sequences():
    return [event["sequence"] for event in read_events()]


def test_an_event_has_the_record_as_get_one_shows_it(acme, clock):
    id = create(MARIA)
    (event,) = read_events()
    assert event == {
        "id": event["id"],
        "type": "lead.created",
        "timestamp": "2026-03-02T09:00:00Z",
        "tenant": "acme",
        "sequence": 1,
        "data": {"lead": LEAD.one(id)},
        "previous": {},
    }
    names = ["id", "type", "timestamp", "tenant", "sequence", "data", "previous"]
    assert list(event) == names


def test_a_rolled_back_change_has_no_event_and_leaves_no_gap(acme):
    create(MARIA)
    for error in (Conflict, sqlite3.OperationalError, KeyboardInterrupt):
        with pytest.raises(error), transaction():
            create(MARIA)
            create(MARIA)
            raise error
    create(MARIA)
    assert read_sequences() == [1, 2]
    assert row("SELECT count(*) FROM lead") == (2,)


def test_a_number_is_never_given_twice(acme):
    create(MARIA)
    create(MARIA)
    with transaction():
        execute("DELETE FROM event")
    create(MARIA)
    assert read_sequences() == [3]


def test_emitting_needs_the_transaction_of_the_change(acme):
    with pytest.raises(NoTenant):
        events.emit(events.LEAD_CREATED, 1, {"lead": {}})
    assert read_events() == []


def test_reading_on_passes_other_kinds_and_what_comes_later(acme):
    for _ in range(3):
        create(MARIA)
    tasks = [events.TASK_CREATED, events.TASK_COMPLETED]
    assert events.list_bodies_after(0, tasks, 10) == ([], 3)
    assert events.list_bodies_after(3, tasks, 10) == ([], 3)
    assert events.list_bodies_after(9, tasks, 10) == ([], 9)
    bodies, following = events.list_bodies_after(0, [events.LEAD_CREATED], 2)
    assert (len(bodies), following) == (2, 2)
    assert len(events.list_bodies_after(following, [events.LEAD_CREATED], 2)[0]) == 1
