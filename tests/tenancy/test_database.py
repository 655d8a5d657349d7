"""Whoever visits a tenant reads and writes its file, no other (D18): threads, processes, errors."""

import contextlib
import contextvars
import sqlite3
import threading

import pytest

from crm import create_app
from crm.errors import Busy, NoTenant
from crm.installation.tenants import Tenants
from crm.resources import tenant
from crm.resources.leads.record import LEAD, Lead, create
from crm.storage import session
from crm.storage.file_errors import ServerError
from crm.storage.session import (
    after_commit,
    current_session,
    execute,
    execute_many,
    row,
    rows,
    transaction,
)
from tests.concurrency import kill_process, run_in_threads, start_python, wait_for_processes
from tests.conftest import Api, key_for
from tests.installations import config_for, copy_installation, environ_for, on_postgres
from tests.tables import assert_whole, read_rows

HOLD = """
import fcntl, os, sys
file = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT, 0o600)
fcntl.flock(file, fcntl.LOCK_EX)
print("held", flush=True)
sys.stdin.readline()
"""
HOLD_IN_SERVER = """
import sys
import psycopg
with psycopg.connect(sys.argv[1]) as connection:
    connection.execute("SELECT crm.lock_tenant(%s, 10000)", [sys.argv[2]])
    print("held", flush=True)
    sys.stdin.readline()
"""
WRITE = """
import sys
from pathlib import Path
from tests.installations import config_for
from crm.resources.leads.record import create
from crm.installation.tenants import Tenants
tenants = Tenants(config_for(Path(sys.argv[1])))
print("ready", flush=True)
sys.stdin.readline()
for number in range(20):
    with tenants.session("acme"):
        create({"name": f"{sys.argv[2]} {number}", "phone": "+380671234567"})
tenants.forget_idle()
"""


def lead(name: str) -> int:
    return create({"name": name, "phone": "+380671234567"})


def lock_of(crm, label: str):
    return crm.tenants.path(label).with_suffix(".lock")


@contextlib.contextmanager
def held_elsewhere(crm, label: str):
    """Another process holds the tenant's writer lock."""
    if on_postgres():
        url = environ_for(crm.tenants.config.data)["CRM_DATABASE"]
        holder = start_python(HOLD_IN_SERVER, url, label)
    else:
        holder = start_python(HOLD, lock_of(crm, label))
    assert holder.stdout.readline() == "held\n"
    try:
        yield holder
    finally:
        kill_process(holder)


# One tenant, one file


def names_in(crm, label: str) -> list[str]:
    assert_whole(crm.tenants, label)
    return [name for (name,) in read_rows(crm.tenants, label, "SELECT name FROM lead ORDER BY id")]


def test_two_tenants_and_32_threads_over_http_mix_no_rows(furnished, tmp_path, clock):
    copy_installation(furnished[0], tmp_path / "data")
    crm = create_app(config_for(tmp_path / "data", max_idle_connections=2), clock, sends=False)
    keys = {"acme": furnished[1]["olena"], "globex": furnished[1]["ivan"]}

    def work(number: int) -> None:
        label = ("acme", "globex")[number % 2]
        api = Api(crm, label, keys[label])
        for turn in range(3):
            api.create("/leads", name=f"{label} {number} {turn}", phone="+380671234567")
            assert {item["name"].split()[0] for item in api.read("/leads?limit=200")} == {label}
            assert api.read("/users/me")["name"] == {"acme": "Olena", "globex": "Ivan"}[label]

    run_in_threads(32, work)
    crm.tenants.forget_idle()
    for label in keys:
        result = names_in(crm, label)
        assert len(result) == 16 * 3 and all(name.startswith(label) for name in result)
        assert len(set(result)) == len(result)
    crm.tenants.forget_idle()


@pytest.mark.files
def test_idle_connections_are_few(crm):
    crm.tenants.pool._size = 2
    for number in range(4):
        tenant.open_tenant(crm.tenants, f"tenant{number}")
    for _ in range(2):
        for number in range(4):
            with crm.tenants.session(f"tenant{number}"):
                lead("x")
    assert len(crm.tenants.pool._idle) == 2


# Loud mistakes

# An error of the program on each engine: none is told as a disk that is read-only.
WRITES_OUTSIDE = (NoTenant, ServerError) if on_postgres() else sqlite3.OperationalError


def test_a_query_without_a_tenant_is_an_error(crm):
    for query in (
        lambda: rows("SELECT 1"),
        lambda: row("SELECT 1"),
        lambda: execute("DELETE FROM lead"),
        lambda: Lead.find(1),
        lambda: lead("x"),
        lambda: transaction().__enter__(),
        session.now,
    ):
        with pytest.raises(NoTenant, match="there is no tenant session"):
            query()
    assert session.session_or_none() is None


def test_writing_outside_a_transaction_is_an_error(crm):
    with crm.tenants.session("acme"):
        lead("kept")
        for write in (
            lambda: execute("DELETE FROM lead"),
            lambda: execute_many("DELETE FROM lead WHERE id = ?", [(1,)]),
        ):
            with pytest.raises(NoTenant, match="transaction"):
                write()
        for write in (
            lambda: rows("DELETE FROM lead RETURNING id"),
            lambda: row("UPDATE lead SET name = 'x' RETURNING id"),
            lambda: rows("PRAGMA user_version = 9"),
        ):
            with pytest.raises(WRITES_OUTSIDE, match="readonly|needs a transaction|syntax error"):
                write()
        assert rows("SELECT name FROM lead") == [("kept",)]
        with transaction():
            execute("UPDATE lead SET name = 'changed'")
        assert rows("SELECT name FROM lead") == [("changed",)]
        with pytest.raises(WRITES_OUTSIDE, match="readonly|needs a transaction"):
            rows("DELETE FROM lead RETURNING id")


def test_a_session_belongs_to_its_thread(crm):
    with crm.tenants.session("acme"):
        context = contextvars.copy_context()
        failed = []

        def elsewhere() -> None:
            for query in (current_session, lambda: rows("SELECT 1")):
                with pytest.raises(NoTenant, match="another thread"):
                    query()
            with crm.tenants.session("acme") as mine:  # its own
                rows("SELECT 1")
                failed.append(mine.connection)

        thread = threading.Thread(target=context.run, args=(elsewhere,))
        thread.start()
        thread.join()
        assert len(failed) == 1 and failed[0] is not current_session().connection
    for query in (lambda: rows("SELECT 1"), lambda: lead("x")):  # of an ended session
        with pytest.raises(NoTenant):
            context.run(query)


def test_another_tenant_inside_a_transaction_is_an_error(crm):
    with crm.tenants.session("acme"), transaction():
        lead("x")
        with pytest.raises(NoTenant, match="inside a transaction"), crm.tenants.session("globex"):
            raise AssertionError
        with crm.tenants.session("acme") as same:
            assert same is current_session()
            lead("y")
    with crm.tenants.session("acme"):
        assert rows("SELECT name FROM lead") == [("x",), ("y",)]
    with crm.tenants.session("globex"):
        assert lead("globex is free") == 1


def test_after_an_inner_session_the_outer_one_is_current_again(crm):
    with crm.tenants.session("acme") as outer:
        with pytest.raises(RuntimeError), crm.tenants.session("globex"):
            assert current_session().label == "globex"
            raise RuntimeError
        assert current_session() is outer
    assert session.session_or_none() is None


# Transactions


def test_all_or_nothing(crm):
    with crm.tenants.session("acme"):
        with pytest.raises(RuntimeError), transaction():
            lead("a")
            with transaction():  # joins
                lead("b")
            assert len(rows("SELECT 1 FROM lead")) == 2
            raise RuntimeError
        assert rows("SELECT 1 FROM lead") == rows("SELECT 1 FROM event") == []
        lead("c")
        assert rows("SELECT sequence FROM event") == [(1,)]


def test_a_rollback_releases_the_writer_lock(crm):
    def write(_: int) -> int:
        with crm.tenants.session("acme") as here:
            here.lock_wait_seconds = 1
            return lead("b")

    for failure in (RuntimeError, Busy, sqlite3.OperationalError, KeyboardInterrupt):
        with crm.tenants.session("acme"), pytest.raises(failure), transaction():
            lead("a")
            raise failure
        assert run_in_threads(1, write)
    with crm.tenants.session("acme"):
        with pytest.raises((sqlite3.IntegrityError, ServerError)), transaction():
            execute("UPDATE tenant SET plan = 'gold'")
        assert run_in_threads(1, write)
        assert rows("SELECT DISTINCT name FROM lead") == [("b",)]


def test_a_commit_that_fails_leaves_nothing_and_releases_the_writer_lock(crm):
    with crm.tenants.session("acme"):
        failures = (sqlite3.IntegrityError, ServerError)
        with pytest.raises(failures), transaction():
            if not on_postgres():  # where COMMIT is the first to be answered here
                execute("PRAGMA defer_foreign_keys = ON")
            id = lead("a")
            execute("UPDATE lead SET assigned_to = 77 WHERE id = ?", (id,))
        assert rows("SELECT 1 FROM lead") == []
        assert lead("b")


def test_after_commit_calls_once_and_only_after_a_commit(crm):
    woken = []
    with crm.tenants.session("acme"):
        with transaction():
            lead("a")
            with transaction():
                after_commit(lambda: woken.append(len(rows("SELECT 1 FROM lead"))))
            assert woken == []
        assert woken == [1]
        with pytest.raises(RuntimeError), transaction():
            after_commit(lambda: woken.append("rolled back"))
            raise RuntimeError
        with transaction():
            lead("b")
    assert woken == [1]


# Other threads and processes


@pytest.mark.process
def test_busy_while_another_process_writes(crm, api, monkeypatch):
    monkeypatch.setattr(session, "MAX_LOCK_WAIT_SECONDS", 0.05)
    assert api.get("/leads").status_code == 200
    with held_elsewhere(crm, "acme") as holder:
        answer = api.post("/leads", {"name": "Марія", "phone": "+380671234567"})
        assert answer.status_code == 503
        assert answer.json["code"] == "busy"
        assert int(answer.headers["Retry-After"]) > 0
        assert api.get("/leads").status_code == 200  # readers wait for nobody
        with pytest.raises(Busy), crm.tenants.session("acme"):
            lead("x")
        with crm.tenants.session("globex"):
            assert lead("another file") == 1
        holder.stdin.write("\n")
        holder.stdin.flush()
        holder.wait()
        assert api.create("/leads", name="Марія", phone="+380671234567") == "1"


@pytest.mark.process
def test_a_killed_process_loses_its_open_change_and_no_other(crm):
    code = WRITE.replace(
        'with tenants.session("acme"):',
        'with tenants.session("acme"), __import__("crm.storage.session", fromlist=[""]).'
        "transaction():",
    ).replace("for number in range(20):\n", "for number in range(3):\n") + (
        '\nwith tenants.session("acme"), '
        '__import__("crm.storage.session", fromlist=[""]).transaction():\n'
        '    create({"name": "open", "phone": "+380671234567"})\n'
        '    print("open", flush=True)\n'
        "    sys.stdin.readline()\n"
    )
    writer = start_python(code, crm.tenants.config.data, "committed")
    assert writer.stdout.readline() == "ready\n"
    writer.stdin.write("\n")
    writer.stdin.flush()
    assert writer.stdout.readline() == "open\n"
    kill_process(writer)
    with crm.tenants.session("acme"):
        lead("after")
    crm.tenants.forget_idle()
    assert names_in(crm, "acme") == ["committed 0", "committed 1", "committed 2", "after"]


@pytest.mark.process
def test_two_processes_lose_no_row(crm):
    folder = crm.tenants.config.data
    tenants = Tenants(crm.tenants.config)  # by the true clock, as the others
    writers = [start_python(WRITE, folder, name) for name in ("one", "two")]
    for writer in writers:
        assert writer.stdout.readline() == "ready\n"
    for writer in writers:
        writer.stdin.write("\n")
        writer.stdin.flush()
    for number in range(20):  # and this one between them
        with tenants.session("acme"):
            lead(f"here {number}")
    wait_for_processes(*writers)
    tenants.forget_idle()
    result = names_in(crm, "acme")
    for name, count in (("one", 20), ("two", 20), ("here", 20)):
        assert [n for n in result if n.startswith(name)] == [f"{name} {k}" for k in range(count)]
    with tenants.session("acme"):
        assert row("SELECT min(sequence), max(sequence), count(*) FROM event") == (1, 60, 60)
    tenants.forget_idle()


@pytest.mark.process
def test_noting_a_keys_use_waits_for_nobody(crm, furnished, monkeypatch):
    monkeypatch.setattr(session, "MAX_LOCK_WAIT_SECONDS", 3600.0)
    api = Api(crm, "acme", key_for(crm, "acme", "*"))
    with held_elsewhere(crm, "acme"):
        assert api.get("/leads").status_code == 200
    assert api.get("/leads").status_code == 200
    with crm.tenants.session("acme"):
        assert row("SELECT last_used_at FROM api_key ORDER BY id DESC LIMIT 1") != (None,)


@pytest.mark.files
def test_a_commit_is_on_the_disk(crm):
    with crm.tenants.session("acme"), transaction():
        here = current_session().connection
        assert here.execute("PRAGMA synchronous").fetchone() == (2,)  # FULL
        assert here.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert here.execute("PRAGMA foreign_keys").fetchone() == (1,)
        assert LEAD.every("TRUE") == []
