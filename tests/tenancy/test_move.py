"""A tenant moves between files and PostgreSQL, and between installations, by a copy of it.

PostgreSQL is real, and so are the processes that are killed.
"""

import os
import re
import signal
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from crm import CRMApp, create_app
from crm.access import api_keys, links, sessions
from crm.config import LOOPBACK, Config
from crm.copies import backup, stores
from crm.copies.schema_store import SchemaStore
from crm.copies.tenant_store import FileStore
from crm.installation.tenants import Tenants
from crm.outbox.sender import Sender
from crm.resources import tenant as tenants_rules
from crm.resources import users
from crm.resources.files import record as files
from crm.storage.postgres.connections import Database
from crm.storage.postgres.shared_schema import prepare_database
from crm.storage.session import execute, one_row, transaction, write_archive
from crm.storage.sqlite import archive
from crm.storage.sqlite.archive_file import check_copy, open_copy
from tests.concurrency import ForkServer
from tests.conftest import serve_installation
from tests.copies import contents_of
from tests.database_cases import run_command
from tests.postgres_server import Databases, Postgres
from tests.readme import blocks, run, section
from tests.waiting import wait_for

pytestmark = pytest.mark.process

LEAD = {"name": "Olena", "phone": "+380671234567"}
WAYS = (("files", "postgres"), ("postgres", "files"))
both_ways = pytest.mark.parametrize(("source", "target"), WAYS)
DATA = bytes(range(256)) * 1024 + b"and a second chunk"
SCHEMAS = "SELECT label FROM crm.tenant WHERE label !~ '^[._]'"


@pytest.fixture(scope="module")
def prepared(server: Postgres) -> Iterator[str]:
    """The name of a database with the shared schema and no tenant."""
    name = f"prepared_{os.getpid()}"
    database = Database(server.create_database(name), 1)
    prepare_database(database)
    database.close()
    yield name
    server.drop_database(name)


@pytest.fixture
def config(server: Postgres, prepared: str, tmp_path: Path) -> Iterator[Config]:
    """An installation with a database and no tenant yet."""
    name = f"moves_{os.getpid()}_{time.monotonic_ns()}"
    url = server.create_database(name, prepared)
    yield Config(data=tmp_path / "data", database=url, webhook_allow=LOOPBACK)
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


def open_acme(config: Config, place: str) -> str:
    """Create acme with its owner in a place, and return a key that may do everything."""
    alone = Config(data=config.data)
    tenants = Tenants(alone if place == "files" else config)
    tenants_rules.open_tenant(tenants, "acme", owner={"name": "Olena"})
    with tenants.session("acme"):
        key = api_keys.create("tests", "*", users.owner_id())[1]
    tenants.forget_idle()
    return key


def call(crm: CRMApp, key: str, method: str, path: str, **options: Any) -> Any:
    headers = {"Host": "acme.localhost", "Authorization": f"Bearer {key}"}
    return crm.test_client().open(f"/api/v1{path}", method=method, headers=headers, **options)


def command(config: Config, *words: object, code: int = 0) -> Result:
    ran = run_command(config.data, config.database, *words)
    assert ran.exit_code == code, (ran.output, ran.exception)
    return ran


def suspended_copy(config: Config, folder: Path) -> Path:
    """Suspend acme and copy it."""
    command(config, "tenant", "suspend", "acme")
    command(config, "backup", "create", "acme", "--to", folder)
    return max(folder.glob("acme-*.db"))


def suspend(crm: CRMApp) -> None:
    with crm.tenants.session("acme"):
        tenants_rules.suspend()


def archive_of(tenants: Tenants, to: Path) -> tuple[dict[str, Any], dict[str, int]]:
    """All rows of acme, and the last numbers that it has given."""
    with tenants.session("acme", sweeps_expired=False):
        write_archive(to)
    tenants.forget_idle()
    with closing(open_copy(to)) as file:
        rows, numbers = contents_of(file), archive.numbers(file)
    # The ids of contents, and when they were stored, are those of each place.
    rows["file_content"] = [(sha256, size) for _, sha256, size, *_ in rows["file_content"]]
    rows["file_chunk"] = [chunk for _, *chunk in rows["file_chunk"]]
    return rows, {**numbers, "file_content": 0}


def add_file(crm: CRMApp) -> None:
    """Add a file of two chunks to acme's first lead."""
    with crm.tenants.session("acme"):
        files.add("lead", 1, BytesIO(DATA), "x")


def lives_in(crm: CRMApp, place: str) -> bool:
    """Whether acme is in this place, and nothing of it in the other."""
    crm.tenants.forget_idle()
    config = crm.tenants.config
    rows = Databases(config.database).execute(SCHEMAS, config.database.rpartition("/")[2])
    paths = sorted((config.data / "tenants").glob("*.db"))
    names = [path.name for path in paths if path.name != "acme.files.db" or len(paths) == 1]
    found = {"files": names, "postgres": [f"{label}.db" for (label,) in rows]}
    return found == {"files": [], "postgres": []} | {place: ["acme.db"]}


@both_ways
def test_keys_sessions_deliveries_and_numbers_go_on(
    config, crm, other, hook, tmp_path, source, target
):
    key = open_acme(config, source)
    call(crm, key, "POST", "/webhooks", json={"url": hook.url, "events": ["lead.created"]})
    assert call(other, key, "POST", "/leads", json=LEAD).status_code == 201  # both have it open
    add_file(crm)
    with crm.tenants.session("acme"):
        cookie, link = sessions.open(users.owner_id(), "Firefox"), links.create(links.LOGIN, 1)
        (sequence,) = one_row("SELECT max(sequence) FROM event")
    gone = call(crm, key, "POST", "/leads", json=LEAD | {"phone": "+380671234568"})
    with crm.tenants.session("acme"), transaction():
        execute("DELETE FROM lead WHERE id = 2")
        execute("DELETE FROM event WHERE sequence > ?", (sequence,))
    copy = suspended_copy(config, tmp_path / "copies")
    sender = Sender(crm.tenants)
    sender.start()
    try:
        ran = command(config, "restore", "acme", copy, "--to", target, "--yes")
        assert "its file from before: " in ran.stdout and "`tenant resume acme`" in ran.stdout
        for app in (crm, other):  # the first answer may be 503 from who had it open
            answers = [call(app, key, "POST", "/leads", json=LEAD) for _ in range(2)]
            assert answers[0].status_code in (403, 503)
            assert answers[1].json["code"] == "tenant_suspended"
        assert not hook.received  # a suspended tenant sends nothing
        command(config, "tenant", "resume", "acme")
        (sent,) = hook.wait_for(1)
        assert sent.event["data"]["lead"]["id"] == "1"
    finally:
        sender.close()
    for app in (crm, other):
        assert call(app, key, "GET", "/leads/1").status_code == 200
        assert call(app, key, "GET", "/files/1").data == DATA
    assert lives_in(crm, target)
    with crm.tenants.session("acme"):
        assert sessions.find(cookie) and links.peek(links.LOGIN, link)
    new = call(crm, key, "POST", "/leads", json=LEAD | {"phone": "+380671234569"})
    assert (gone.json["lead_id"], new.json["lead_id"]) == ("2", "3")
    with crm.tenants.session("acme"):
        assert one_row("SELECT max(sequence) FROM event") == (sequence + 2,)


def test_a_suspended_tenant_goes_on_in_another_installation(config, crm, hook, tmp_path):
    key = open_acme(config, "postgres")
    call(crm, key, "POST", "/webhooks", json={"url": hook.url, "events": ["lead.created"]})
    call(crm, key, "POST", "/leads", json=LEAD)
    copy = suspended_copy(config, tmp_path / "copies")
    new = Config(data=tmp_path / "new", webhook_allow=LOOPBACK)
    ran = command(new, "restore", "acme", copy, "--to", "files")
    assert "it is suspended: `tenant resume acme` lets it go on" in ran.stdout
    assert "from before" not in ran.stdout and lives_in(crm, "postgres")
    command(new, "tenant", "resume", "acme")
    there = create_app(new, sends=False)
    sender = Sender(there.tenants)
    sender.start()
    try:
        assert hook.wait_for(1)[0].event["sequence"] == 1
    finally:
        sender.close()
    assert call(there, key, "GET", "/leads/1").status_code == 200
    assert call(crm, key, "GET", "/leads/1").json["code"] == "tenant_suspended"
    there.tenants.forget_idle()


@both_ways
def test_nothing_is_moved_that_has_changed_since_its_copy(
    config, crm, tmp_path, monkeypatch, source, target
):
    key = open_acme(config, source)
    move = ("restore", "acme", "--to", target, "--yes")
    command(config, "backup", "create", "acme", "--to", tmp_path / "before")
    (before,) = (tmp_path / "before").glob("acme-*.db")
    assert (
        "was not suspended when this copy was made" in command(config, *move, before, code=1).stderr
    )
    copy = suspended_copy(config, tmp_path / "copies")
    assert "was not suspended when" in command(config, *move, before, code=1).stderr
    with crm.tenants.session("acme"):  # a request that was under way
        tenants_rules.users.create(users.USER_IN.parse({"name": "Taras", "phone": "0671112233"}))
    assert "acme has changed since this copy" in command(config, *move, copy, code=1).stderr
    command(config, "tenant", "resume", "acme")
    assert call(crm, key, "POST", "/leads", json=LEAD).status_code == 201
    monkeypatch.setattr(tenants_rules, "now", lambda: "2030-01-01T00:00:00Z")
    command(config, "tenant", "suspend", "acme")
    assert "was not suspended when" in command(config, *move, copy, code=1).stderr
    assert lives_in(crm, source)
    trash = config.data / "trash"
    left = {path.name.split("-")[0] for path in trash.glob("*")}
    assert left <= ({"acme.moved"} if source == "postgres" else set())


def test_who_was_erased_before_a_move_is_erased_again_after_it(config, crm, tmp_path):
    """By a restore of an older copy, also on another node than the one that has erased."""
    key = open_acme(config, "postgres")
    call(crm, key, "POST", "/clients", json={"name": "Марія"})
    command(config, "backup", "create", "acme", "--to", tmp_path / "older")
    (older,) = (tmp_path / "older").glob("acme-*.db")
    assert call(crm, key, "POST", "/clients/1/erase").status_code == 200
    copy = suspended_copy(config, tmp_path / "copies")
    node = replace(config, data=tmp_path / "node")
    command(node, "restore", "acme", copy, "--to", "files", "--yes")
    command(node, "restore", "acme", older, "--yes")
    tenants = Tenants(node)
    with tenants.session("acme"):
        assert one_row("SELECT count(*) FROM client WHERE name = 'Марія'") == (0,)
    tenants.forget_idle()


def test_without_a_database_all_tenants_live_in_files(config, tmp_path):
    open_acme(config, "files")
    alone = Config(data=config.data)
    copy = suspended_copy(alone, tmp_path / "copies")
    ran = command(alone, "restore", "acme", copy, "--to", "postgres", "--yes", code=1)
    assert "CRM_DATABASE is not set" in ran.stderr
    command(alone, "restore", "acme", copy, "--to", "files", "--yes")


@pytest.mark.deep
def test_the_guides_commands_move_a_tenant(config, tmp_path):
    open_acme(config, "files")
    within, old, new = blocks(section("beyond-one-machine", "Move a tenant"))
    within, old, new = (
        re.sub(r"acme-[0-9TZ]+\.db", "acme-*.db", lines) for lines in (within, old, new)
    )
    assert "acme is restored from" in run(within, tmp_path, CRM_DATABASE=config.database)
    for copy in (tmp_path / "copies").glob("acme-*"):
        copy.unlink()
    run(old, tmp_path, CRM_DATABASE=config.database)
    assert "lets it go on" in run(new, tmp_path, CRM_DATA=str(tmp_path / "new"))


# Killed


# One point in each direction is enough for the quick run.
POINTS = (
    pytest.param("before replace", marks=pytest.mark.deep),
    "after replace",
    pytest.param("after _removing", marks=pytest.mark.deep),
)


@pytest.fixture(scope="module")
def mover() -> Iterator[ForkServer]:
    with ForkServer(__name__) as own:
        yield own


def be_killed(data: str, database: str, copy: str, place: str, point: str) -> None:
    """Move acme, and be killed before or after the target has it, or as the source was removed."""
    when, name = point.split()
    source, target = (FileStore, SchemaStore) if place == "postgres" else (SchemaStore, FileStore)
    owner = target if name == "replace" else source
    step = getattr(owner, name)

    def die(*arguments: Any) -> Any:
        if when == "after":
            step(*arguments)
        os.kill(os.getpid(), signal.SIGKILL)

    def die_at_the_end(*arguments: Any) -> Any:
        with step(*arguments) as given:
            yield given
        os.kill(os.getpid(), signal.SIGKILL)

    setattr(owner, name, die)
    if name == "_removing":
        setattr(owner, name, contextmanager(die_at_the_end))
    config = Config(data=Path(data), database=database)
    backup.restore(Tenants(config), Path(copy), "acme", int, place)


@pytest.mark.parametrize("point", POINTS)
@both_ways
def test_a_killed_move_loses_nothing_and_the_same_command_succeeds(
    config, crm, other, tmp_path, mover, source, target, point
):
    key = open_acme(config, source)
    assert call(crm, key, "POST", "/leads", json=LEAD).status_code == 201  # it has it open
    add_file(crm)
    copy = suspended_copy(config, tmp_path / "copies")
    before = archive_of(crm.tenants, tmp_path / "before.db")
    assert mover.call("be_killed", config.data, config.database, copy, target, point) == -9
    wait_for_rollback(config)
    for app in (crm, other):
        assert call(app, key, "POST", "/leads", json=LEAD).status_code in (403, 503)
    assert archive_of(Tenants(config), tmp_path / "killed.db") == before
    if point == "after replace":
        assert "files that are not used" in command(config, "doctor").stdout
    command(config, "restore", "acme", copy, "--to", target, "--yes")
    assert lives_in(other, target)
    assert archive_of(Tenants(config), tmp_path / "after.db") == before
    command(config, "tenant", "resume", "acme")
    for app in (crm, other):
        wait_for(lambda app=app: call(app, key, "GET", "/leads/1").status_code == 200)
    new = call(crm, key, "POST", "/leads", json=LEAD | {"phone": "+380671234568"})
    assert new.json["lead_id"] == "2"
    for path in (config.data / "trash").glob("*"):
        check_copy(path)


def test_a_file_that_a_killed_move_left_is_deleted_with_its_tenant(config, crm, tmp_path, mover):
    open_acme(config, "files")
    copy = suspended_copy(config, tmp_path / "copies")
    arguments = (config.data, config.database, copy, "postgres", "after replace")
    assert mover.call("be_killed", *arguments) == -9
    wait_for_rollback(config)
    stores.delete(crm.tenants, "acme")
    assert not crm.tenants.exists("acme") and crm.tenants.labels() == []
    assert len(list((config.data / "trash").iterdir())) == 2


def wait_for_rollback(config: Config) -> None:
    """Wait until the server has noticed that a process is gone."""
    sql = "SELECT count(*) FROM pg_stat_activity WHERE state LIKE 'idle in transaction%'"
    name = config.database.rpartition("/")[2]
    wait_for(lambda: Databases(config.database).execute(sql, name) == [(0,)])
