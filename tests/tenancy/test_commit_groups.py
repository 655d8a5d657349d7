"""Changes of one tenant that are committed together: each can fail alone, none is there before."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from werkzeug.datastructures import MultiDict

from crm import CRMApp
from crm.errors import Conflict
from crm.records.pagination import page
from crm.resources.leads.endpoints import LEAD_FILTER
from crm.resources.leads.record import LEAD, create
from crm.storage import commit_groups
from crm.storage.session import after_commit, current_session, execute, rows, savepoint, transaction

pytestmark = pytest.mark.files  # PostgreSQL commits together by itself


@contextmanager
def group() -> Iterator[None]:
    commit_groups.collect()
    try:
        yield
    finally:
        commit_groups.finish()


@contextmanager
def request(crm: CRMApp, label: str = "acme", joins: bool = True) -> Iterator[None]:
    """A request as the server's loop runs it, to an operation that may join or not."""
    commit_groups.begin_request()
    with crm.tenants.session(label, sweeps_expired=False):
        current_session().joins_groups = joins
        yield


def add(crm: CRMApp, name: str, label: str = "acme", **more: Any) -> commit_groups.Group | None:
    with request(crm, label):
        create({"name": name, "phone": "+380671234567", **more})
    return commit_groups.joined_group()


def names(crm: CRMApp, label: str = "acme") -> list[str]:
    """The names of the leads that anybody else sees now."""
    seen: list[str] = []

    def read() -> None:
        with crm.tenants.session(label, sweeps_expired=False):
            seen.extend(name for (name,) in rows("SELECT name FROM lead ORDER BY id"))

    thread = threading.Thread(target=read)
    thread.start()
    thread.join()
    return seen


def test_nothing_is_there_before_the_one_commit(crm, api):
    with group():
        members = [add(crm, name) for name in ("Petro", "Oleh", "Zina")]
        assert names(crm) == []
    assert names(crm) == ["Petro", "Oleh", "Zina"]
    assert members[0] is not None and len({*members}) == 1 and not members[0].has_failed
    assert [lead["name"] for lead in api.read("/leads?q=zina")] == ["Zina"]
    events = api.events()
    assert [event["sequence"] for event in events] == [1, 2, 3]
    assert [event["data"]["lead"]["name"] for event in events] == ["Petro", "Oleh", "Zina"]


def test_a_refused_request_undoes_its_own_changes_alone(crm, api):
    with group():
        add(crm, "Petro", external_id="7")
        with pytest.raises(Conflict), request(crm), transaction():
            create({"name": "Undone", "phone": "+380671234567"})
            create({"name": "Refused", "phone": "+380671234567", "external_id": "7"})
        add(crm, "Zina")
    assert names(crm) == ["Petro", "Zina"]
    assert [lead["name"] for lead in api.read("/leads?q=067")] == ["Zina", "Petro"]
    assert api.read("/leads?q=undone") == []
    assert [event["data"]["lead"]["name"] for event in api.events()] == ["Petro", "Zina"]


def test_a_search_in_a_transaction_finds_its_own_records(crm):
    with request(crm, joins=False), transaction():
        create({"name": "Petro", "phone": "+380671234567"})
        with pytest.raises(Conflict), savepoint():
            create({"name": "Undone", "phone": "+380671234567"})
            assert found("undone") == ["Undone"]
            raise Conflict("", "")
        assert found("petro") == ["Petro"] and found("undone") == []
    assert names(crm) == ["Petro"]
    with group():
        add(crm, "Zina")
        with request(crm):
            create({"name": "Oleh", "phone": "+380671234567"})
            assert found("oleh") == ["Oleh"] and found("zina") == ["Zina"]
    with request(crm):
        assert found("067") == ["Oleh", "Zina", "Petro"] and found("undone") == []


def found(q: str) -> list[str]:
    query = LEAD_FILTER.read(MultiDict({"q": q}))
    return [lead["name"] for lead in page(LEAD, query, LEAD_FILTER.fields["sort"]).records]


def test_a_failed_commit_undoes_all_and_calls_nobody(crm, caplog):
    called = []
    with group():
        first = add(crm, "Petro")
        with request(crm), transaction():
            # Checked at the COMMIT alone, which then fails.
            execute("PRAGMA defer_foreign_keys = ON")
            create({"name": "Zina", "phone": "+380671234567"})
            execute("UPDATE lead SET client_id = 999 WHERE name = 'Zina'")
            after_commit(lambda: called.append("Zina"))
        second = commit_groups.joined_group()
    assert first is second and first is not None and first.has_failed
    assert names(crm) == [] and called == []
    assert "could not be committed" in caplog.text
    assert add(crm, "Oleh") is None  # the lock is free, and the connection as before
    assert names(crm) == ["Oleh"]


def test_who_is_to_be_told_is_told_once_after_the_commit(crm):
    called = []
    with group():
        for name in ("Petro", "Zina"):
            with request(crm), transaction():
                create({"name": name, "phone": "+380671234567"})
                after_commit(lambda name=name: called.append((name, names(crm))))
        assert called == []
    assert called == [("Petro", ["Petro", "Zina"]), ("Zina", ["Petro", "Zina"])]


def test_a_transaction_that_may_not_join_commits_the_group_first(crm):
    with group():
        add(crm, "Petro")
        with request(crm, joins=False), transaction():
            assert names(crm) == ["Petro"]
            create({"name": "Zina", "phone": "+380671234567"})
        assert names(crm) == ["Petro", "Zina"]
        assert commit_groups.joined_group() is None
        add(crm, "Oleh")
        assert names(crm) == ["Petro", "Zina"]
    assert names(crm) == ["Petro", "Zina", "Oleh"]


def test_a_change_of_another_tenant_commits_the_group_first(crm):
    with group():
        first = add(crm, "Petro")
        second = add(crm, "Ivan", "globex")
        assert names(crm) == ["Petro"] and names(crm, "globex") == []
    assert names(crm, "globex") == ["Ivan"]
    assert first is not second


def test_others_wait_for_the_commit_of_a_group(crm):
    finished = threading.Event()

    def write() -> None:
        with crm.tenants.session("acme", sweeps_expired=False):
            create({"name": "Other", "phone": "+380671234567"})
        finished.set()

    with group():
        add(crm, "Petro")
        other = threading.Thread(target=write)
        other.start()
        assert not finished.wait(0.1)
        add(crm, "Zina")
    other.join()
    assert names(crm) == ["Petro", "Zina", "Other"]
