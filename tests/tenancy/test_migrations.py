"""A tenant's versions: whole steps, once, never backwards; the data model of its file."""

import contextlib
import re
import sqlite3
from collections.abc import Callable
from importlib import resources

import psycopg
import pytest

from crm.access import codes, known_browsers, links, rights, sessions
from crm.storage import sweeps
from crm.storage.file_errors import ServerError
from crm.storage.postgres import schema
from crm.storage.session import execute, row, rows, transaction
from crm.storage.sqlite import archive_file, migrations
from crm.storage.sqlite.connection import connect
from tests.concurrency import start_python, wait_for_processes
from tests.installations import environ_for, on_postgres
from tests.tables import assert_whole, read_tables, traced_statements
from tests.tenancy.engines.translate_migrations import statements_of

OPEN = """
import os, sys
from pathlib import Path
from tests.installations import config_for
from crm.storage.sqlite import migrations
from crm.storage.session import rows
from crm.installation.tenants import Tenants
from crm.storage.postgres import schema
from tests.tenancy.engines.translate_migrations import statements_of
schema.statements_of = statements_of
migrations.STEPS.append(
    ("next", ["CREATE TABLE once (id INTEGER) STRICT", "INSERT INTO once VALUES (1)"])
)
tenants = Tenants(config_for(Path(sys.argv[1])))
gate, opened = os.pipe()
children = []
for number in range(4):
    child = os.fork()
    if not child:
        os.close(opened)
        os.read(gate, 1)
        for label in sys.argv[2:]:
            with tenants.session(label):
                rows("SELECT 1")
            os.write(1, f"{label} {tenants.tenant(label).version()}\\n".encode())
        tenants.forget_idle()
        os._exit(0)
    children.append(child)
os.close(opened)  # all start
print([os.waitpid(child, 0)[1] for child in children])
"""
DIE = """
import os, sqlite3, sys
from pathlib import Path
from crm.storage.sqlite import migrations
connection = sqlite3.connect(Path(sys.argv[1]) / "tenants" / "acme.db", isolation_level=None)
connection.create_function("die", 0, lambda: os.kill(os.getpid(), 9))
migrations.STEPS.append(("next", ["CREATE TABLE once (id INTEGER) STRICT", "SELECT die()"]))
migrations.migrate(connection, "acme")
"""
DIE_IN_SCHEMA = """
import os, sys
from crm.storage.sqlite import migrations
from crm.storage.postgres import schema
from crm.storage.postgres.pipeline import PipelineConnection
from crm.installation.tenants import Tenants
from tests.installations import config_for
from tests.tenancy.engines.translate_migrations import statements_of
schema.statements_of = statements_of
migrations.STEPS.append(("next", ["CREATE TABLE once (id INTEGER) STRICT"]))
tenants = Tenants(config_for(sys.argv[1]))
def die(connection):
    connection.receive()
    os.kill(os.getpid(), 9)
PipelineConnection.commit_transaction = die
schema.migrate(tenants.postgres.directory.database, "acme")
"""
KNOWN = len(migrations.STEPS)
ONCE = "CREATE TABLE once (id INTEGER)"


@contextlib.contextmanager
def opened(path):
    connection = connect(path)
    try:
        yield connection
    finally:
        connection.close()


def set_version(tenants, label: str, version: int) -> None:
    """Let a tenant be of another version than its tables are."""
    if on_postgres():
        url = environ_for(tenants.config.data)["CRM_DATABASE"]
        with psycopg.connect(url) as connection:
            values = (version, label)
            connection.execute("UPDATE crm.tenant SET version = %s WHERE label = %s", values)
    else:
        with opened(tenants.path(label)) as file:
            file.execute(f"PRAGMA user_version = {version}")


@pytest.fixture
def steps(monkeypatch):
    """The steps, to be added to."""
    results = list(migrations.STEPS)
    monkeypatch.setattr(migrations, "STEPS", results)
    monkeypatch.setattr(schema, "statements_of", statements_of)
    return results


# Versions


@pytest.mark.files
def test_moves_of_before_are_told_how_long_the_deal_had_stayed(crm, monkeypatch):
    at = "2026-03-01T09:00:00Z"
    with monkeypatch.context() as patch:
        patch.setattr(migrations, "STEPS", migrations.STEPS[: migrations.STEPS_OF_FIRST_RELEASE])
        crm.tenants.create("early")
        with crm.tenants.session("early"), transaction():
            times = (at, at)
            pipeline = "INSERT INTO pipeline (name, is_default, position, created_at, updated_at)"
            execute(f"{pipeline} VALUES ('Sales', 1, 1, ?, ?)", times)
            stage = "INSERT INTO stage (pipeline_id, name, type, position, created_at, updated_at)"
            execute(f"{stage} VALUES (1, 'New', 'open', 1, ?, ?)", times)
            for id in (1, 2):
                execute(
                    "INSERT INTO deal (title, pipeline_id, stage_id, status, amount_mode, currency,"
                    " stage_changed_at, created_at, updated_at)"
                    " VALUES ('Стіл', 1, 1, 'open', 'manual', 'UAH', ?, ?, ?)",
                    (at, at, at),
                )
                for came_from, moved_at in (
                    (None, at),
                    (1, "2026-03-03T10:00:01Z"),
                    (1, "2026-03-03T10:00:00Z"),
                ):
                    execute(
                        "INSERT INTO stage_move (deal_id, from_stage_id, to_stage_id, to_name,"
                        " moved_at) VALUES (?, ?, 1, 'New', ?)",
                        (id, came_from, moved_at),
                    )
    crm.tenants.forget_idle()
    with crm.tenants.session("early"):
        stayed = rows("SELECT deal_id, stayed_seconds FROM stage_move ORDER BY id")
        again = rows("SELECT left_again FROM stage_move ORDER BY id")
    two_days = 2 * 86_400 + 3601
    assert stayed == [(id, seconds) for id in (1, 2) for seconds in (None, two_days, 0)]
    assert again == [(0,), (0,), (1,)] * 2


@pytest.mark.files
def test_keys_of_who_had_left_before_do_not_come_back(crm, monkeypatch):
    at = "2026-03-01T09:00:00Z"
    with monkeypatch.context() as patch:
        patch.setattr(migrations, "STEPS", migrations.STEPS[: migrations.STEPS_OF_FIRST_RELEASE])
        crm.tenants.create("early")
        with crm.tenants.session("early"), transaction():
            for id in (1, 2):
                execute(
                    'INSERT INTO "user" (name, role, active, created_at, updated_at)'
                    " VALUES ('Olena', 'owner', ?, ?, ?)",
                    (id % 2, at, at),
                )
                execute(
                    "INSERT INTO api_key (name, hash, hint, scopes, origins, user_id, created_at)"
                    " VALUES ('erp', ?, 'crm_', '*', '', ?, ?)",
                    (bytes([id]), id, at),
                )
    crm.tenants.forget_idle()
    with crm.tenants.session("early"):
        assert rows("SELECT user_id, revoked_at FROM api_key ORDER BY id") == [(1, None), (2, at)]
        assert rows('SELECT deactivated_at FROM "user" ORDER BY id') == [(None,), (at,)]


def test_a_file_of_a_newer_release_is_refused_and_left_alone(crm, api, ivan):
    crm.tenants.forget_idle()
    set_version(crm.tenants, "acme", KNOWN + 1)
    with (
        pytest.raises(migrations.NewerFile) as refused,
        crm.tenants.session("acme"),
    ):
        rows("SELECT 1")
    assert re.fullmatch(
        f"the (file|schema) of acme has version {KNOWN + 1},"
        f" this release knows {KNOWN}: upgrade it",
        refused.value.detail,
    )
    answers = [api.get("/leads"), api.post("/leads", {"name": "x"})]
    if not on_postgres():  # where a page that reads nothing of the tenant does not ask for it
        answers.append(api.get("/docs"))
    for answer in answers:
        assert answer.status_code == 503
        assert answer.mimetype == "application/problem+json"
        assert answer.json["code"] == "newer_file"
        assert answer.json["detail"] == refused.value.detail
        assert answer.headers["X-Request-Id"] == answer.json["request_id"]
    assert ivan.get("/leads").status_code == 200
    assert crm.tenants.tenant("acme").version() == KNOWN + 1


@pytest.mark.files
@pytest.mark.parametrize("version", [6, 30])
def test_a_file_of_unreleased_code_is_refused_and_left_alone(crm, api, ivan, version):
    """Its steps were others than those of the same numbers now, and of numbers to come."""
    api.create("/leads", name="Kept", phone="+380671234567")
    crm.tenants.forget_idle()
    with opened(crm.tenants.path("acme")) as file:
        file.execute("PRAGMA application_id = 0")
        file.execute(f"PRAGMA user_version = {version}")
    before = crm.tenants.path("acme").read_bytes()
    answer = api.post("/leads", {"name": "x", "phone": "+380671234568"})
    assert (answer.status_code, answer.json["code"]) == (503, "newer_file")
    assert answer.json["detail"].startswith(f"it has version {version} of code from before release")
    with pytest.raises(migrations.NewerFile):
        archive_file.check_copy(crm.tenants.path("acme"))
    crm.tenants.forget_idle()
    assert crm.tenants.path("acme").read_bytes() == before
    assert ivan.get("/leads").status_code == 200


def test_a_step_happens_whole_or_not_at_all(crm, api, steps):
    crm.tenants.forget_idle()
    steps.append(("next", [f"{ONCE} STRICT", "INSERT INTO once VALUES (1)"]))
    second = "CREATE TABLE second (id INTEGER) STRICT"
    steps.append(("later", [second, "DROP TABLE one_time_link", "DROP TABLE nonsense"]))
    failures = (sqlite3.OperationalError, ServerError)
    with pytest.raises(failures, match="nonsense"), crm.tenants.session("acme"):
        rows("SELECT 1")
    tables = read_tables(crm.tenants, "acme")
    if on_postgres():  # all steps are one transaction
        assert crm.tenants.tenant("acme").version() == KNOWN and "once" not in tables
    else:
        assert crm.tenants.tenant("acme").version() == KNOWN + 1 and tables["once"] == [{"id": 1}]
    assert "one_time_link" in tables and "second" not in tables
    assert api.get("/leads").status_code == 500
    steps[-1] = ("later", [second])  # mended
    assert api.get("/leads").status_code == 200
    assert crm.tenants.tenant("acme").version() == KNOWN + 2
    assert read_tables(crm.tenants, "acme")["second"] == []
    assert crm.tenants.tenant("globex").version() == KNOWN  # the others when they are visited


@pytest.mark.process
def test_a_killed_step_leaves_the_version_before(crm):
    crm.tenants.forget_idle()
    died = start_python(DIE_IN_SCHEMA if on_postgres() else DIE, crm.tenants.config.data)
    died.communicate()
    assert died.returncode == -9
    assert crm.tenants.tenant("acme").version() == KNOWN
    assert "once" not in read_tables(crm.tenants, "acme")
    assert_whole(crm.tenants, "acme")


@pytest.mark.process
def test_of_four_processes_that_open_a_file_at_once_one_migrates_it(crm):
    crm.tenants.forget_idle()
    labels = ("acme", "globex")
    (process,) = wait_for_processes(start_python(OPEN, crm.tenants.config.data, *labels))
    *versions, ends = process.splitlines()
    assert ends == "[0, 0, 0, 0]"
    assert sorted(versions) == sorted(f"{label} {KNOWN + 1}" for label in labels * 4)
    for label in labels:
        assert read_tables(crm.tenants, label)["once"] == [{"id": 1}]
        assert_whole(crm.tenants, label)
        if not on_postgres():
            with opened(crm.tenants.path(label)) as file:
                assert file.execute("PRAGMA journal_mode").fetchone() == ("wal",)


def test_the_steps_are_numbered_without_gaps_and_none_of_their_statements_is_lost():
    numbers = [int(name.partition("_")[0]) for name, _ in migrations.STEPS]
    assert numbers == list(range(1, len(numbers) + 1))
    for page in resources.files(migrations).iterdir():
        if page.name.endswith(".sql"):
            text = re.sub(r"--[^\n]*", "", page.read_text("utf-8"))
            words = "CREATE|INSERT|ALTER|UPDATE|DROP|DELETE|PRAGMA"
            begun = re.findall(rf"^({words})\b", text, re.M)
            (statements,) = (result for name, result in migrations.STEPS if name == page.name)
            assert len(statements) == len(begun) > 0
            assert text.rstrip().endswith(";")


# The data model


@pytest.mark.files
def test_every_table_is_strict_and_no_id_is_reused_because_of_autoincrement(crm):
    with crm.tenants.session("acme"):
        tables = rows("SELECT name, strict, type FROM pragma_table_list WHERE schema = 'main'")
        for noun in (
            *("lead", "client", "deal", "deal_item", "product", "task", "user", "api_key"),
            *("session", "sms_code", "one_time_link"),
            *("webhook", "delivery", "attempt"),
        ):
            (sql,) = row("SELECT sql FROM sqlite_schema WHERE name = ?", (noun,))
            assert "AUTOINCREMENT" in sql, noun
    loose = {name for name, strict, kind in tables if kind == "table" and not strict}
    assert loose <= {"sqlite_schema", "sqlite_sequence"}
    assert len(tables) > 20


DELETED = ("lead", "deal", "contact", "event", "webhook", "delivery")


@pytest.mark.files
def test_every_reference_to_what_may_be_deleted_has_an_index(crm):
    """Without one, deleting the row it names reads the whole table."""
    with crm.tenants.session("acme"):
        tables = [name for (name,) in rows("SELECT name FROM sqlite_schema WHERE type = 'table'")]
        lacking = []
        for table in tables:
            firsts = set()
            for _, index, *_ in rows(f"PRAGMA index_list({table})"):
                firsts.add(rows(f"PRAGMA index_info({index})")[0][2])
            for key in rows(f"PRAGMA foreign_key_list({table})"):
                target, column = key[2], key[3]
                if target in DELETED and column not in firsts:
                    lacking.append(f"{table}.{column}")
    assert lacking == []


# Plans


@pytest.mark.files
def test_authentication_reads_by_indexes_alone(crm, furnished):
    with crm.tenants.session("acme"):
        with traced_statements() as asked:  # whether anybody has committed, the key
            rights.authenticate(furnished[1]["olena"])
        plan = [step[3] for step in rows(f"EXPLAIN QUERY PLAN {asked[1]}")]
    assert plan and all(step.startswith("SEARCH") for step in plan), plan


LOGIN_QUERIES = {
    "find a session": lambda: sessions.find("token"),
    "list sessions": lambda: sessions.list_live(1),
    "end a session": lambda: sessions.end(1, 1),
    "end the others": lambda: sessions.end_others(1, 1),
    "find a known browser": lambda: known_browsers.identify_browser(b"", f"1.{'0' * 64}", 1),
    "wait for a code": lambda: codes.seconds_until_next(codes.LOGIN, "+380671234567"),
    "ask for a code": lambda: codes.create(codes.LOGIN, "+380671234567", "browser"),
    "make a link": lambda: links.create(links.INVITE, 1),
    "use a link": lambda: links.use(links.RESET, links.create(links.RESET, 1)),
    "let go": lambda: sweeps.run(),
}


def steps_of(act: Callable[[], object]) -> list[str]:
    """How the statements of an act about the cabinet's tables are carried out."""
    with traced_statements() as asked:
        act()
    about = [text for text in asked if re.search(r"\b(session|sms_code|one_time_link)\b", text)]
    assert about
    plans = [rows(f"EXPLAIN QUERY PLAN {text}") for text in about]
    return [step[3] for plan in plans for step in plan if not step[3].startswith("LIST")]


@pytest.mark.files
@pytest.mark.parametrize("act", LOGIN_QUERIES.values(), ids=LOGIN_QUERIES)
def test_logging_in_and_out_reads_by_indexes_alone(crm, act):
    with crm.tenants.session("acme"), transaction():
        result = steps_of(act)
    assert result and all(step.startswith("SEARCH") for step in result), result
