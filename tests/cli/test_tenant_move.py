"""A tenant moves between files and databases: real PostgreSQL, real processes, nothing is lost."""

import os
import shutil
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
from crm.copies import moves, stores
from crm.copies.moves import move
from crm.copies.schema_store import SchemaStore
from crm.copies.tenant_store import FileStore
from crm.errors import TenantMoving, UnknownTenant
from crm.installation.opening import open_tenants
from crm.outbox.sender import Sender
from crm.resources import tenant as tenants_rules
from crm.resources import users
from crm.storage.file_errors import ServerError
from crm.storage.postgres import schema
from crm.storage.postgres.connections import Database
from crm.storage.postgres.schema import drop_abandoned
from crm.storage.postgres.shared_schema import prepare_database
from crm.storage.session import execute, one_row, transaction, write_archive
from crm.storage.sqlite import archive
from crm.storage.sqlite.archive_file import check_copy, open_copy
from tests import full_tenant
from tests.concurrency import ROOT
from tests.conftest import serve_installation
from tests.installations import SERVER_VARIABLE
from tests.killed_moves import STEPS, Mover
from tests.postgres_server import Databases, Postgres
from tests.waiting import wait_for

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


@pytest.fixture(scope="module")
def prepared(server: Databases) -> Iterator[str]:
    """The name of a database with the shared schema and no tenant."""
    name = f"prepared_{os.getpid()}"
    database = Database(server.create_database(name), 1)
    prepare_database(database)
    database.close()
    yield name
    server.drop_database(name)


@pytest.fixture
def config(server: Databases, prepared: str, tmp_path: Path) -> Iterator[Config]:
    """An installation with two databases, `first` and `second`, and no tenant yet."""
    names = [f"{name}_{os.getpid()}_{time.monotonic_ns()}" for name in ("first", "second")]
    urls = tuple(server.create_database(name, prepared) for name in names)
    yield Config(data=tmp_path / "data", database=urls, webhook_allow=LOOPBACK)
    for name in names:
        server.drop_database(name)


@pytest.fixture
def crm(wired: CRMApp, config: Config) -> Iterator[CRMApp]:
    serve_installation(wired, config)
    yield wired
    wired.tenants.forget_idle()


@pytest.fixture(scope="module")
def wired_again(tmp_path_factory: pytest.TempPathFactory) -> CRMApp:
    return create_app(Config(data=tmp_path_factory.mktemp("wired")), sends=False)


@pytest.fixture
def other(wired_again: CRMApp, config: Config) -> Iterator[CRMApp]:
    """Another process' app."""
    serve_installation(wired_again, config)
    yield wired_again
    wired_again.tenants.forget_idle()


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
        write_archive(to)
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
def test_a_pending_delivery_is_sent_once_after_the_move(config, crm, hook, source, target):
    key = open_acme(config, source)
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

        wait_for(is_recorded)
        call(crm, key, "POST", "/leads", json=LEAD | {"phone": "+380671234568"})
        assert len(hook.wait_for(2)) == 2
    finally:
        sender.close()


@pytest.mark.parametrize(("source", "target"), WAYS)
def test_of_writes_meanwhile_none_is_lost_and_no_request_gets_404(
    config, crm, other, source, target
):
    """Four writers, of which two are another process's app, and a reader."""
    key = open_acme(config, source)
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
        wait_for(lambda: created, 15)
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
        moved = len(created)
        wait_for(lambda: len(created) >= moved + 4, 15)
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert 0 < before <= moved
    assert statuses <= {200, 201, 503}, statuses
    with crm.tenants.session("acme"):
        assert one_row("SELECT count(*) FROM lead")[0] == len(created) == len(set(created))
        assert one_row("SELECT max(id) FROM lead")[0] == len(created)
        events = "SELECT count(*), max(sequence) - min(sequence) + 1 FROM event"
        count, numbers = one_row(events)
        assert count == numbers >= len(created)
    other.tenants.forget_idle()
    assert lives_in(crm, config, target)


def test_requests_to_a_tenant_that_is_being_moved_are_told_to_try_again(config, crm, other):
    key = open_acme(config, "files")
    assert call(crm, key, "GET", "/leads").status_code == 200  # it has it open
    compare = archive.require_equal

    def compare_later(*sides: Any) -> int:
        for app in (crm, other):
            for method, body in (("GET", None), ("POST", LEAD)):
                answer = call(app, key, method, "/leads", json=body)
                assert (answer.status_code, answer.json["code"]) == (503, "tenant_moving")
                assert int(answer.headers["Retry-After"]) > 0
            page = app.test_client().get("/login", headers={"Host": "acme.localhost"})
            assert page.status_code == 503 and "кабінет переносять" in page.text
        with pytest.raises(TenantMoving):
            stores.delete(other.tenants, "acme")
        return compare(*sides)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(archive, "require_equal", compare_later)
        move(crm.tenants, "acme", "postgres")
    assert call(other, key, "POST", "/leads", json=LEAD).status_code == 201


def test_a_tenant_that_is_being_moved_makes_no_node_unready(config, crm, other):
    open_acme(config, "files")
    answers = []
    hide = FileStore.hide

    def hide_later(place: FileStore) -> None:
        with pytest.raises(TenantMoving):  # though the file still has its name
            other.tenants.session("acme").__enter__()
        answers.append(other.test_client().get("/readyz").json)
        hide(place)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(FileStore, "hide", hide_later)
        move(crm.tenants, "acme", "postgres")
    assert answers == [{"status": "ok"}]


# Refusals: nothing has changed then


def test_a_row_that_is_not_the_same_stops_the_move(config, crm, tmp_path):
    key = open_acme(config, "files")
    call(crm, key, "POST", "/leads", json=LEAD)
    before = archive_of(crm, tmp_path / "before.db")
    load = SchemaStore.load_hidden

    def change_a_row(place: SchemaStore, path: Path) -> None:
        changed = tmp_path / "changed.db"
        shutil.copyfile(path, changed)
        with closing(sqlite3.connect(changed)) as file:
            file.execute("UPDATE lead SET name = 'Ольга'")
            file.commit()
        load(place, changed)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(SchemaStore, "load_hidden", change_a_row)
        with pytest.raises(archive.NotEqual, match=r"in: lead \(1 rows, 1 in the copy\)"):
            move(crm.tenants, "acme", "postgres")
    assert lives_in(crm, config, "files")
    assert archive_of(crm, tmp_path / "after.db") == before


def test_a_next_number_that_is_not_the_same_stops_the_move(config, crm):
    key = open_acme(config, "files")
    call(crm, key, "POST", "/leads", json=LEAD)
    load = SchemaStore.load_hidden

    def give_a_number(place: SchemaStore, path: Path) -> None:
        load(place, path)
        with schema.writing(place.database) as connection:
            sql = "SELECT nextval(pg_get_serial_sequence('t_acme_moving.lead', 'id'))"
            connection.run(sql)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(SchemaStore, "load_hidden", give_a_number)
        with pytest.raises(archive.NotEqual, match="the next number of lead"):
            move(crm.tenants, "acme", "postgres")
    assert call(crm, key, "POST", "/leads", json=LEAD).json["lead_id"] == "2"
    assert lives_in(crm, config, "files")


@pytest.mark.parametrize(("source", "target"), WAYS[:2])
def test_a_move_that_fails_before_it_is_decided_is_taken_back(config, crm, source, target):
    key = open_acme(config, source)
    assert call(crm, key, "POST", "/leads", json=LEAD).status_code == 201

    def fail(*_: Any) -> None:
        raise OSError("no room")

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(moves, "_require_equal_numbers", fail)
        with pytest.raises(OSError, match="no room"):
            move(crm.tenants, "acme", place(config, target))
    assert call(crm, key, "GET", "/leads/1").status_code == 200
    assert call(crm, key, "POST", "/leads", json=LEAD).json["lead_id"] == "2"
    assert lives_in(crm, config, source)


def test_a_move_that_fails_after_it_is_decided_is_finished_by_the_same_command(config, crm):
    key = open_acme(config, "first")

    def fail(*_: Any) -> None:
        raise OSError("no room")

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(FileStore, "publish_hidden", fail)
        assert "the same command finishes it" in run_move(config, "files", code=1).stderr
    answers = [call(crm, key, "GET", "/leads") for _ in range(2)]
    assert {answer.json["code"] for answer in answers} == {"tenant_moving"}
    assert "that was interrupted is ended" in run_move(config, "files").stdout
    wait_for_answer(crm, key)
    assert lives_in(crm, config, "files")


def test_a_mover_that_lost_its_lock_decides_nothing(config, crm):
    key = open_acme(config, "files")
    call(crm, key, "POST", "/leads", json=LEAD)
    compare = archive.require_equal

    def lose_the_lock(*sides: Any) -> int:
        sql = (
            "SELECT pg_terminate_backend(pid) FROM pg_locks"
            " WHERE locktype = 'advisory' AND objsubid = 1 AND pid <> pg_backend_pid()"
        )
        assert Databases(config.database[0]).execute(sql, config.database[0].rpartition("/")[2])
        return compare(*sides)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(archive, "require_equal", lose_the_lock)
        with pytest.raises(ServerError):
            move(crm.tenants, "acme", "postgres")
    assert call(crm, key, "GET", "/leads").json["code"] == "tenant_moving"
    assert "is in a file: a move that was interrupted" in run_move(config, "files").stdout
    wait_for_answer(crm, key)
    assert call(crm, key, "POST", "/leads", json=LEAD).json["lead_id"] == "2"
    assert lives_in(crm, config, "files")


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
    load = SchemaStore.load_hidden

    def load_later(place_: SchemaStore, path: Path) -> None:
        assert "is being moved" in run_move(config, place(config, "second"), code=1).stderr
        load(place_, path)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(SchemaStore, "load_hidden", load_later)
        move(crm.tenants, "acme", "postgres")
    assert lives_in(crm, config, "first")


# Killed at any step


@pytest.fixture(scope="module")
def mover() -> Iterator[Mover]:
    with Mover() as own:
        yield own


@pytest.mark.parametrize("number", range(len(STEPS)), ids=["-".join(step[1:3]) for step in STEPS])
@pytest.mark.parametrize(("source", "target"), WAYS[:2])
def test_a_move_killed_at_any_step_loses_nothing_and_is_ended_by_a_command(
    config, crm, other, tmp_path, mover, source, target, number
):
    step = STEPS[number]
    key = open_acme(config, source)
    assert call(crm, key, "POST", "/leads", json=LEAD).status_code == 201  # it has it open
    before = archive_of(crm, tmp_path / "before.db")
    mover.kill(config, place(config, target), source, target, step)
    wait_for_locks(config)
    state = state_of(config)
    for app in (other, other):  # not `crm`: it is to keep its connections to the former place
        answer = call(app, key, "GET", "/leads/1")
        assert answer.status_code in (200, 503), answer.json
        if answer.status_code == 503:
            assert answer.json["code"] in ("tenant_moving", "busy")
        assert "acme" in app.tenants.labels()
    assert state_of(config) == state  # no request has repaired anything
    if step.is_suspended:
        assert call(other, key, "POST", "/leads", json=LEAD).json["code"] == "tenant_moving"
        findings = [text for _, check in other.tenants.postgres.checks() for _, text in check()]
        assert any("a move was interrupted: acme" in text for text in findings), findings
        other.tenants.postgres.directory.changes_nothing = False
    # The same command, or that of the way back.
    to = target if (number + WAYS.index((source, target))) % 2 else source
    ran = run_move(config, place(config, to), code=int(to == source and not state["moves"]))
    assert ran.exit_code or "rows compared" in ran.stdout or "is ended" in ran.stdout
    for app in (crm, other):
        wait_for_answer(app, key)
    assert archive_of(crm, tmp_path / "after.db") == before
    new = call(crm, key, "POST", "/leads", json=LEAD | {"phone": "+380671234568"})
    assert new.json["lead_id"] == "2"
    assert call(other, key, "GET", "/leads/2").status_code == 200
    for url in config.database:
        database = Database(url, 1)
        drop_abandoned(database)
        database.close()
    other.tenants.forget_idle()
    assert lives_in(crm, config, to)
    assert not state_of(config)["moves"]
    for path in (config.data / "trash").glob("*"):
        check_copy(path)
    run_move(config, place(config, source if to == target else target))  # nothing is in the way


def state_of(config: Config) -> dict[str, Any]:
    """What the directory, the moves and the places have, and which file is the tenant's."""
    state: dict[str, Any] = {}
    for number, url in enumerate(config.database):
        sql = "SELECT label FROM crm.tenant ORDER BY label"
        state[f"schemas {number}"] = Databases(url).execute(sql, url.rpartition("/")[2])
    first = Databases(config.database[0])
    for table in ("directory", "move"):
        sql = f"SELECT * FROM crm.{table} ORDER BY label"
        state[f"{table}s"] = first.execute(sql, config.database[0].rpartition("/")[2])
    files = (config.data / "tenants").glob("*")
    state["files"] = sorted(
        (path.name, path.stat().st_ino)
        for path in files
        if path.suffix not in (".lock", ".db-wal", ".db-shm")
    )
    return state


def wait_for_answer(crm: CRMApp, key: str) -> None:
    """Let an app that knew the tenant at its former place find it: its first answer may be 503."""
    answers = [call(crm, key, "GET", "/leads").status_code for _ in range(2)]
    assert answers in ([200, 200], [503, 200]), answers


def wait_for_locks(config: Config) -> None:
    """Wait until the servers have noticed that a process is gone."""
    sql = "SELECT count(*) FROM pg_stat_activity WHERE state LIKE 'idle in transaction%'"
    for url in config.database:
        name = url.rpartition("/")[2]
        wait_for(lambda url=url, name=name: Databases(url).execute(sql, name) == [(0,)])
