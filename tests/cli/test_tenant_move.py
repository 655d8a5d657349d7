"""A tenant moves between files and databases: real PostgreSQL, real processes, nothing is lost."""

import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from crm import CRMApp, cli, create_app
from crm.access import api_keys, sessions
from crm.config import LOOPBACK, Config
from crm.outbox.sender import Sender
from crm.resources import tenant as tenants_rules
from crm.resources import users
from crm.tenancy import archive
from crm.tenancy.copies import check_copy, open_copy
from crm.tenancy.database import execute, one_row, transaction
from crm.tenancy.engines import places
from crm.tenancy.engines.moves import move
from crm.tenancy.engines.postgres import Database
from crm.tenancy.engines.schema import drop_abandoned, prepare_database
from crm.tenancy.files import UnknownTenant
from crm.tenancy.installation import open_tenants
from tests import full_tenant
from tests.concurrency import ROOT
from tests.installations import SERVER_VARIABLE
from tests.postgres_server import Databases, Postgres

pytestmark = pytest.mark.process

LEAD = {"name": "Olena", "phone": "+380671234567"}
WAYS = (("files", "first"), ("first", "files"), ("first", "second"), ("second", "first"))


@pytest.fixture(scope="module")
def server() -> Iterator[Databases]:
    """The server of the run, or one for these tests, which need both engines."""
    if address := os.environ.get(SERVER_VARIABLE):
        yield Databases(address)
        return
    with Postgres() as own:
        yield own


@pytest.fixture
def config(server: Databases, tmp_path: Path) -> Iterator[Config]:
    """An installation with two databases, `first` and `second`, and no tenant yet."""
    names = [f"{name}_{os.getpid()}_{time.monotonic_ns()}" for name in ("first", "second")]
    urls = tuple(server.create_database(name) for name in names)
    for url in urls:
        database = Database(url, 1)
        prepare_database(database)
        database.close()
    yield Config(data=tmp_path / "data", database=urls, webhook_allow=LOOPBACK)
    for name in names:
        server.drop_database(name)


@pytest.fixture
def crm(config: Config) -> Iterator[CRMApp]:
    app = create_app(config, sends=False)
    yield app
    app.tenants.forget_idle()


def place(config: Config, name: str) -> str:
    """What the command calls a place."""
    urls = dict(zip(("first", "second"), config.database, strict=True))
    return urls[name].rpartition("/")[2] if name in urls else name


def in_files(config: Config) -> Config:
    return Config(data=config.data)


def open_acme(config: Config, at: str) -> str:
    """Create acme with its owner at a place, and return a key that may do everything."""
    tenants = open_tenants(in_files(config))
    tenants_rules.open_tenant(tenants, "acme", owner={"name": "Olena"})
    with tenants.session("acme"):
        key = api_keys.create("tests", "*", users.owner_id())[1]
    tenants.forget_idle()
    if at != "files":
        moving = open_tenants(config)
        move(moving, "acme", place(config, at))
        moving.forget_idle()
    return key


def call(crm: CRMApp, key: str, method: str, path: str, **options: Any) -> Any:
    headers = {"Host": "acme.localhost", "Authorization": f"Bearer {key}"}
    return crm.test_client().open(f"/api/v1{path}", method=method, headers=headers, **options)


def run_move(config: Config, to: str, code: int = 0) -> Result:
    environ = {"CRM_DATABASE": " ".join(config.database)}
    words = ["tenant", "move", "acme", "--to", to, "--data", str(config.data)]
    ran = CliRunner().invoke(cli.group, words, env=environ)
    assert ran.exit_code == code, (ran.output, ran.exception)
    return ran


def archive_of(crm: CRMApp, to: Path) -> tuple[dict[str, Any], dict[str, int]]:
    with crm.tenants.session("acme", sweeps_expired=False):
        archive.write(to)
    with closing(open_copy(to)) as file:
        return archive.file_digests(file), archive.numbers(file)


def lives_in(crm: CRMApp, config: Config, name: str) -> bool:
    """Whether acme is in this place, and nothing of it in the others."""
    crm.tenants.forget_idle()
    names = {}
    for database, url in zip(("first", "second"), config.database, strict=True):
        sql = "SELECT label FROM crm.tenant WHERE label <> '_front'"
        rows = Databases(url).execute(sql, url.rpartition("/")[2])
        schemas = Databases(url).execute(
            "SELECT nspname FROM pg_namespace WHERE nspname ~ '_' AND nspname !~ '^pg_|_schema$'",
            url.rpartition("/")[2],
        )
        names[database] = [label for (label,) in rows], [schema for (schema,) in schemas]
    files = {path.name for path in (config.data / "tenants").glob("*") if path.suffix != ".lock"}
    logs = {"acme.db-wal", "acme.db-shm"}
    here = (["acme"], ["t_acme"])
    return (
        (files - logs == {"acme.db"} if name == "files" else not files)
        and names["first"] == (here if name == "first" else ([], []))
        and names["second"] == (here if name == "second" else ([], []))
    )


def test_a_full_tenant_goes_everywhere_and_comes_back_the_same(config, tmp_path):
    clock = full_tenant.Clock()
    filled = create_app(in_files(config), clock, sends=False)
    key = full_tenant.fill_tenant(filled, clock)
    before = archive_of(filled, tmp_path / "before.db")
    filled.tenants.forget_idle()
    crm = create_app(config, clock, sends=False)
    for number, to in enumerate(("first", "second", "files", "second", "first", "files")):
        clock.tick(1)  # the trash names files by the second
        moved = move(crm.tenants, "acme", place(config, to))
        assert moved.rows == sum(digest.rows for digest in before[0].values())
        assert check_copy(moved.before) and moved.before.parent == config.data / "trash"
        assert lives_in(crm, config, to), to
        assert archive_of(crm, tmp_path / f"{number}.db") == before
        with closing(open_copy(moved.before)) as old:
            assert archive.file_digests(old) == before[0]
        assert call(crm, key, "GET", "/leads?q=меблі").status_code == 200
    crm.tenants.forget_idle()


@pytest.mark.parametrize(("source", "target"), WAYS)
def test_the_command_moves_a_tenant_with_keys_sessions_and_numbers(config, crm, source, target):
    key = open_acme(config, source)
    first = call(crm, key, "POST", "/leads", json=LEAD)
    assert first.status_code == 201
    with crm.tenants.session("acme"):
        cookie = sessions.open(users.owner_id(), "Firefox")
        (sequence,) = one_row("SELECT max(sequence) FROM event")
    gone = call(crm, key, "POST", "/leads", json=LEAD | {"phone": "+380671234568"})
    with crm.tenants.session("acme"), transaction():
        execute("DELETE FROM lead WHERE id = 2")
        execute("DELETE FROM event WHERE sequence > ?", (sequence,))
    ran = run_move(config, place(config, target))
    assert "rows compared" in ran.stdout and "its file from before: " in ran.stdout
    # The app that had it open before finds it.
    again = call(crm, key, "GET", "/leads/1")
    if again.status_code == 503:
        assert (source, target) == ("first", "files")
        again = call(crm, key, "GET", "/leads/1")
    assert again.status_code == 200
    assert lives_in(crm, config, target)
    with crm.tenants.session("acme"):
        assert sessions.find(cookie)
    new = call(crm, key, "POST", "/leads", json=LEAD | {"phone": "+380671234569"})
    assert (gone.json["lead_id"], new.json["lead_id"]) == ("2", "3")
    with crm.tenants.session("acme"):
        assert one_row("SELECT max(sequence) FROM event") == (sequence + 2,)


# What goes on meanwhile and afterwards


@pytest.mark.parametrize(("source", "target"), WAYS)
def test_a_pending_delivery_is_sent_once_after_the_move(config, hook, source, target):
    key = open_acme(config, source)
    crm = create_app(config, sends=False)
    call(crm, key, "POST", "/webhooks", json={"url": hook.url, "events": ["lead.created"]})
    call(crm, key, "POST", "/leads", json=LEAD)
    sender = Sender(crm.tenants)
    run_move(config, place(config, target))
    assert not hook.received
    sender.start()
    try:
        (sent,) = hook.wait_for(1)
        assert sent.event["type"] == "lead.created"

        def is_recorded() -> bool:
            with crm.tenants.session("acme"):
                return one_row("SELECT status FROM delivery") == ("delivered",)

        hook.wait_until(is_recorded)
        call(crm, key, "POST", "/leads", json=LEAD | {"phone": "+380671234568"})
        assert len(hook.wait_for(2)) == 2
    finally:
        sender.close()
        crm.tenants.forget_idle()


@pytest.mark.parametrize(("source", "target"), WAYS)
def test_of_writes_meanwhile_none_is_lost_and_no_request_gets_404(config, crm, source, target):
    """Four writers, of which two are another process's app, and a reader."""
    key = open_acme(config, source)
    other = create_app(config, sends=False)
    stop, created, statuses = threading.Event(), [], set()

    def write(number: int) -> None:
        app = (crm, other)[number % 2]
        count = 0
        while not stop.is_set():
            count += 1
            lead = LEAD | {"phone": f"+38067{number}{count:06}"}
            answer = call(app, key, "POST", "/leads", json=lead)
            statuses.add(answer.status_code)
            time.sleep(0.05)  # a key may call some hundred times a minute
            if answer.status_code == 201:
                created.append(answer.json["lead_id"])

    def read() -> None:
        while not stop.is_set():
            statuses.add(call(other, key, "GET", "/leads?limit=1").status_code)
            time.sleep(0.05)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(4)]
    threads.append(threading.Thread(target=read))
    for thread in threads:
        thread.start()
    try:
        time.sleep(0.5)
        before = len(created)
        ran = subprocess.run(
            [sys.executable, "app.py", "tenant", "move", "acme", "--to", place(config, target)]
            + ["--data", str(config.data)],
            cwd=ROOT,
            env=os.environ | {"CRM_DATABASE": " ".join(config.database)},
            capture_output=True,
            text=True,
        )
        assert ran.returncode == 0, ran.stderr
        moved, until = len(created), time.monotonic() + 15
        while len(created) < moved + 4 and time.monotonic() < until:
            time.sleep(0.05)
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert 0 < before <= moved < moved + 4 <= len(created)
    assert statuses <= {200, 201, 503}, statuses
    with crm.tenants.session("acme"):
        assert one_row("SELECT count(*) FROM lead")[0] == len(created) == len(set(created))
        assert one_row("SELECT max(id) FROM lead")[0] == len(created)
        events = "SELECT count(*), max(sequence) - min(sequence) + 1 FROM event"
        count, numbers = one_row(events)
        assert count == numbers >= len(created)
    other.tenants.forget_idle()
    assert lives_in(crm, config, target)


def test_who_writes_waits_for_the_move(config, crm):
    key = open_acme(config, "files")
    answers = []

    def write() -> None:
        answers.append(call(crm, key, "POST", "/leads", json=LEAD))

    compare = archive.require_equal
    writer = threading.Thread(target=write)

    def compare_later(*sides: Any) -> int:
        writer.start()
        time.sleep(0.3)
        assert not answers
        assert call(crm, key, "GET", "/leads").status_code == 200
        return compare(*sides)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(archive, "require_equal", compare_later)
        move(crm.tenants, "acme", "postgres")
    writer.join()
    assert answers[0].status_code in (201, 503)
    if answers[0].status_code == 503:
        assert answers[0].headers["Retry-After"]


# Refusals: nothing has changed then


def test_a_row_that_is_not_the_same_stops_the_move(config, crm, tmp_path):
    key = open_acme(config, "files")
    call(crm, key, "POST", "/leads", json=LEAD)
    before = archive_of(crm, tmp_path / "before.db")
    load = places.SchemaPlace.load

    def change_a_row(place: places.SchemaPlace, path: Path) -> Any:
        with closing(sqlite3.connect(path)) as file:
            file.execute("UPDATE lead SET name = 'Ольга'")
            file.commit()
        return load(place, path)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(places.SchemaPlace, "load", change_a_row)
        with pytest.raises(archive.NotEqual, match=r"in: lead \(1 rows, 1 in the copy\)"):
            move(crm.tenants, "acme", "postgres")
    assert lives_in(crm, config, "files")
    assert archive_of(crm, tmp_path / "after.db") == before


def test_a_failure_after_the_old_place_was_hidden_is_undone(config, crm):
    key = open_acme(config, "first")

    def fail(*_: Any) -> None:
        raise OSError("no room")

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(places.FilePlace, "publish", fail)
        with pytest.raises(OSError, match="no room"):
            move(crm.tenants, "acme", "files")
    assert call(crm, key, "GET", "/leads").status_code == 200
    assert lives_in(crm, config, "first")


def test_a_move_to_where_it_is_or_nowhere_or_of_nobody_is_refused(config, crm):
    open_acme(config, "first")
    for to in ("postgres", place(config, "first")):
        assert "is in the database" in run_move(config, to, code=1).stderr
    assert "there is no elsewhere: files, postgres, or one of" in (
        run_move(config, "elsewhere", code=1).stderr
    )
    with pytest.raises(UnknownTenant):
        move(crm.tenants, "hooli", "files")
    words = ["tenant", "move", "acme", "--to", "files", "--data", str(config.data)]
    ran = CliRunner().invoke(cli.group, words, env={"CRM_DATABASE": ""})
    assert ran.exit_code == 1 and "CRM_DATABASE is not set" in ran.stderr
    (config.data / "tenants" / "acme.db").touch()
    assert "there is a file already" in run_move(config, "files", code=1).stderr


def test_two_moves_of_a_tenant_do_not_meet(config, crm):
    open_acme(config, "files")
    load = places.SchemaPlace.load

    def load_later(place_: places.SchemaPlace, path: Path) -> Any:
        assert "is being moved" in run_move(config, place(config, "second"), code=1).stderr
        return load(place_, path)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(places.SchemaPlace, "load", load_later)
        move(crm.tenants, "acme", "postgres")
    assert lives_in(crm, config, "first")


# Killed at any step

DIE = """
import os, sys
sys.path.insert(0, os.getcwd())
from crm.tenancy.engines import moves, places
from crm.tenancy.installation import open_tenants
from crm.config import Config
from pathlib import Path
data, urls, to, owner, name, when = sys.argv[1:]
owner = getattr(places, owner, None) or moves
step = getattr(owner, name)
def die(*arguments):
    if when == "after":
        step(*arguments)
    os.kill(os.getpid(), 9)
setattr(owner, name, die)
moves.move(open_tenants(Config(data=Path(data), database=tuple(urls.split()))), "acme", to)
"""
CLASSES = {"files": "FilePlace", "first": "SchemaPlace", "second": "SchemaPlace"}
STEPS = (  # of which place, and whether the tenant has moved
    ("target", "load", "after", False),
    ("source", "hide", "before", False),
    ("source", "hide", "after", False),
    ("moves", "_point", "before", False),
    ("moves", "_point", "after", False),
    ("target", "publish", "before", False),
    ("target", "publish", "after", True),
    ("source", "discard", "before", True),
    ("source", "discard", "after", True),
)


@pytest.mark.parametrize(("owner", "step", "when", "has_moved"), STEPS)
@pytest.mark.parametrize(("source", "target"), WAYS[:3])
def test_a_move_killed_at_any_step_loses_nothing_and_can_be_repeated(
    config, crm, tmp_path, source, target, owner, step, when, has_moved
):
    key = open_acme(config, source)
    assert call(crm, key, "POST", "/leads", json=LEAD).status_code == 201  # it has it open
    before = archive_of(crm, tmp_path / "before.db")
    class_name = (
        CLASSES[{"source": source, "target": target}.get(owner, "")]
        if (owner != "moves")
        else owner
    )
    arguments = (str(config.data), " ".join(config.database), place(config, target))
    ran = subprocess.run(
        [sys.executable, "-c", DIE, *arguments, class_name, step, when],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert ran.returncode == -signal.SIGKILL, ran.stderr
    wait_for_locks(config)
    if step == "discard":  # nobody has found the tenant gone: the command itself ends the move
        ran = run_move(config, place(config, target), code=int(when == "after"))
        said = "is in the database" if target != "files" else "is in a file"
        assert (said in ran.stderr) if when == "after" else "is finished" in ran.stdout
    found = [call(crm, key, "GET", "/leads/1").status_code for _ in range(2)]
    assert found in ([200, 200], [503, 200]), found
    fresh = open_tenants(config)
    assert "acme" in fresh.labels()
    with fresh.session("acme"):
        assert one_row("SELECT count(*) FROM lead") == (1,)
    fresh.forget_idle()
    assert archive_of(crm, tmp_path / "after.db") == before
    assert bool(crm.tenants.lives_in_file("acme")) == ((target if has_moved else source) == "files")
    new = call(crm, key, "POST", "/leads", json=LEAD | {"phone": "+380671234568"})
    assert new.json["lead_id"] == "2"
    ran = run_move(config, place(config, target), code=int(has_moved))
    assert ("already" in ran.stderr) if has_moved else ("rows compared" in ran.stdout)
    fresh = open_tenants(config)
    with fresh.session("acme"):
        assert one_row("SELECT count(*), max(id) FROM lead") == (2, 2)
    fresh.forget_idle()
    drop_drafts(config)
    assert lives_in(crm, config, target)
    for path in (config.data / "trash").iterdir():
        check_copy(path)


def wait_for_locks(config: Config) -> None:
    """Wait until the servers have noticed that a process is gone."""
    sql = "SELECT count(*) FROM pg_stat_activity WHERE state LIKE 'idle in transaction%'"
    until = time.monotonic() + 10
    for url in config.database:
        while Databases(url).execute(sql, url.rpartition("/")[2]) != [(0,)]:
            assert time.monotonic() < until
            time.sleep(0.02)


def drop_drafts(config: Config) -> None:
    """Drop the drafts that a killed process left, as another would after a day."""
    for url in config.database:
        old = "UPDATE crm.tenant SET created_at = now() - interval '2 days'"
        Databases(url).execute(old, url.rpartition("/")[2])
        database = Database(url, 1)
        drop_abandoned(database)
        database.close()
    for path in (config.data / "tenants").glob(".new-*"):
        path.unlink()
