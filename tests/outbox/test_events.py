"""The outbox (spec: Events; D15): an event is written with its change, or not at all."""

import json
import sqlite3

import pytest

from crm.errors import Conflict
from crm.outbox import events
from crm.resources.leads.record import create
from crm.storage.session import NoTenant, execute, row, transaction

MARIA = {"name": "Марія", "phone": "+380671234567"}


def read_events():
    """The tenant's events as receivers get them, oldest first."""
    bodies, _ = events.list_bodies_after(0, list(events.KINDS), 1000)
    return [json.loads(body) for body in bodies]


def read_sequences():
    return [event["sequence"] for event in read_events()]


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
