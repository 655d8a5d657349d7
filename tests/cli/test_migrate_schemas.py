"""`migrate` on schemas: it can be resumed, one bad tenant stops no other, servers go on."""

import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from crm.storage.postgres import schema, shared_schema
from crm.storage.postgres.connections import Database
from crm.storage.postgres.schema_checks import expected_objects, find_faults
from crm.storage.sqlite import migrations
from tests import next_release
from tests.concurrency import ROOT, run_in_threads
from tests.conftest import Api
from tests.database_cases import (
    clean_environ,
    error_line,
    new_database,
    open_installation,
    open_tenant,
    run_command,
)
from tests.postgres_server import Postgres

pytestmark = pytest.mark.process

OLD = len(migrations.STEPS)
NEWEST = OLD + 1
LABELS = [f"tenant{number:02}" for number in range(8)]
BROKEN = LABELS[5]
MIGRATE = ("-m", "tests.next_release", "migrate")


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    with Postgres() as server:
        yield server


@pytest.fixture(scope="module")
def template(server: Postgres) -> str:
    """A database with 8 tenants of an older version."""
    name = new_database(server, "template")
    database = Database(server.url(name), 2)
    shared_schema.prepare_database(database)
    for label in LABELS:
        schema.create(database, label, schema.schema_name(label))
        moment = "'2026-01-01T00:00:00Z'"
        server.execute(
            f"INSERT INTO t_{label}.tenant (id, name, plan, created_at, tidied_at)"
            f" VALUES (1, '{label}', 'start', {moment}, {moment})",
            name,
        )
    database.close()
    return name


@pytest.fixture
def name(server: Postgres, template: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """A copy of the database, for the next release."""
    next_release.add_step(monkeypatch)
    name = f"{template}_{time.monotonic_ns()}"
    server.create_database(name, template)
    return name


def versions(server: Postgres, name: str) -> dict[str, int]:
    return dict(server.execute("SELECT label, version FROM crm.tenant ORDER BY label", name))


def assert_whole(server: Postgres, name: str, labels: list[str]) -> None:
    """The schemas have all that a new one has."""
    database = Database(server.url(name), 2)
    expected = expected_objects(database)
    for label in labels:
        faults = list(find_faults(database, schema.schema_name(label), expected, full=False))
        assert faults == [], (label, faults)
    database.close()


def test_a_bad_tenant_stops_no_other(server, name, tmp_path):
    server.execute(f"DROP TABLE t_{BROKEN}.audit_entry CASCADE", name)
    address = server.url(name)
    result = run_command(tmp_path, address, "migrate", "--dry-run")
    assert result.exit_code == 0
    assert result.stdout.splitlines() == [f"{label}: version {OLD} of {NEWEST}" for label in LABELS]
    assert "8 of 8 to migrate" in result.stderr
    assert set(versions(server, name).values()) == {OLD}

    result = run_command(tmp_path, address, "migrate")
    good = [label for label in LABELS if label != BROKEN]
    assert result.exit_code == 1
    assert result.stdout.splitlines() == [f"{label}: version {NEWEST}, was {OLD}" for label in good]
    failure, count, error = result.stderr.splitlines()[-3:]
    said = f"{BROKEN}: {BROKEN} is not upgraded: no copy of it can be made first: relation "
    assert failure.startswith(said) and failure.endswith(" does not exist")
    assert count.startswith("7 of 8 migrated, ")
    assert error == f"Error: these could not be migrated: {BROKEN}"
    results = versions(server, name)
    broken = results.pop(BROKEN)
    assert OLD <= broken < NEWEST and set(results.values()) == {NEWEST}
    assert_whole(server, name, good)

    result = run_command(tmp_path, address, "migrate")  # again: nothing more to do for the others
    assert "0 of 8 migrated" in result.stderr and result.exit_code == 1


def test_it_goes_on_where_it_was_killed(server, name, tmp_path):
    command = [sys.executable, *MIGRATE, "--data", str(tmp_path)]
    environ = clean_environ() | {"CRM_DATABASE": server.url(name), "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(
        command, cwd=ROOT, env=environ, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        assert process.stdout is not None
        for _ in range(2):
            process.stdout.readline()
        process.kill()
    results = versions(server, name)
    assert 2 <= sum(version == NEWEST for version in results.values()) < 8
    result = run_command(tmp_path, server.url(name), "migrate")
    assert result.exit_code == 0, result.output
    assert set(versions(server, name).values()) == {NEWEST}
    assert_whole(server, name, LABELS)


def test_of_many_at_once_each_step_is_taken_by_one(server, name):
    databases = [Database(server.url(name), 1) for _ in range(6)]
    for label in LABELS[:3]:

        def migrate(number: int, label: str = label) -> int:
            return schema.migrate(databases[number], label)

        versions_before = run_in_threads(6, migrate)
        assert sorted(versions_before) == [OLD, *[NEWEST] * 5]
    assert_whole(server, name, LABELS[:3])
    for database in databases:
        database.close()


def test_the_base_host_is_migrated_too(server, tmp_path, monkeypatch):
    name = new_database(server)
    database = Database(server.url(name), 2)
    shared_schema.prepare_database(database)
    schema.create(database, "_front", "t__front")
    with schema.writing(database) as connection:
        connection.run(
            "INSERT INTO t__front.tenant (id, name, plan, created_at, tidied_at)"
            " VALUES (1, '', 'start', '2026-01-01T00:00:00Z', '2026-01-01T00:00:00Z')"
        )
    next_release.add_step(monkeypatch)
    result = run_command(tmp_path, server.url(name), "migrate", "--dry-run")
    assert result.stdout == f"base host: version {OLD} of {NEWEST}\n"
    result = run_command(tmp_path, server.url(name), "migrate")
    assert result.stdout == f"base host: version {NEWEST}, was {OLD}\n"
    database.close()


def test_an_older_release_leaves_newer_schemas_alone(server, tmp_path, caplog):
    """Its requests get 503, and commands say what to do."""
    name = new_database(server)
    crm = open_installation(tmp_path, server.url(name))
    key = open_tenant(crm, "acme")
    open_tenant(crm, "globex")
    server.execute(
        f"UPDATE crm.tenant SET version = {NEWEST} WHERE label = 'acme';"
        f"ALTER TABLE t_acme.lead ADD COLUMN added TEXT",
        name,
    )
    for app in (crm, open_installation(tmp_path, server.url(name))):
        answer = Api(app, "acme", key).get("/leads")
        assert (answer.status_code, answer.json["code"]) == (503, "newer_file")
        answer = Api(app, "acme", key).post("/leads", {"name": "Ivan"})
        assert (answer.status_code, answer.json["code"]) == (503, "newer_file")
        page = app.test_client().get("/login", headers={"Host": "acme.localhost"})
        assert page.status_code == 503
        assert Api(app, "globex", "crm_none").get("/leads").status_code == 401
        app.tenants.forget_idle()
    text = f"the schema of acme has version {NEWEST}, this release knows {OLD}: upgrade it"
    for words in (["migrate"], ["migrate", "--dry-run"]):
        result = run_command(tmp_path, server.url(name), *words)
        assert result.exit_code == 1 and f"acme: {text}" in result.stderr.splitlines()
    line = error_line(run_command(tmp_path, server.url(name), "key", "list", "acme"))
    assert line == f"Error: {text}"
    assert not [record for record in caplog.records if record.exc_info]
