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
from tests.concurrency import ROOT
from tests.database_cases import (
    clean_environ,
    new_database,
    run_command,
)
from tests.postgres_server import Postgres

pytestmark = pytest.mark.process

OLD = len(migrations.STEPS)
NEWEST = OLD + 1
LABELS = [f"tenant{number:02}" for number in range(6)]
BROKEN = LABELS[3]
MIGRATE = ("-m", "tests.next_release", "migrate")


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    with Postgres() as server:
        yield server


@pytest.fixture(scope="module")
def template(server: Postgres) -> str:
    """A database with 6 tenants of an older version."""
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
    assert "6 of 6 to migrate" in result.stderr
    assert set(versions(server, name).values()) == {OLD}

    result = run_command(tmp_path, address, "migrate")
    good = [label for label in LABELS if label != BROKEN]
    assert result.exit_code == 1
    assert result.stdout.splitlines() == [f"{label}: version {NEWEST}, was {OLD}" for label in good]
    *lines, count, error = result.stderr.splitlines()  # of progress, too, if it takes long
    said = f"{BROKEN}: {BROKEN} is not upgraded: no copy of it can be made first: relation "
    (failure,) = (line for line in lines if line.startswith(said))
    assert failure.endswith(" does not exist")
    assert count == "5 of 6 migrated"
    assert error == f"Error: these could not be migrated: {BROKEN}"
    results = versions(server, name)
    broken = results.pop(BROKEN)
    assert OLD <= broken < NEWEST and set(results.values()) == {NEWEST}
    assert_whole(server, name, good)

    result = run_command(tmp_path, address, "migrate")  # again: nothing more to do for the others
    assert "0 of 6 migrated" in result.stderr and result.exit_code == 1


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
    assert 2 <= sum(version == NEWEST for version in results.values()) < 6
    result = run_command(tmp_path, server.url(name), "migrate")
    assert result.exit_code == 0, result.output
    assert set(versions(server, name).values()) == {NEWEST}
    assert_whole(server, name, LABELS)


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
