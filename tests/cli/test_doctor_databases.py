"""The doctor's lines about the databases of CRM_DATABASE, on a real server."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from crm.config import Config
from crm.installation.tenants import Tenants
from crm.storage.postgres import database_checks, shared_schema
from crm.storage.postgres.connections import Database
from crm.storage.sqlite import migrations
from crm.timed_checks import FAULT, OK, WARNING
from tests.database_cases import new_database, open_installation, open_tenant, run_command
from tests.postgres_server import Postgres
from tests.server_process import find_free_port

pytestmark = pytest.mark.process

DURABLE = {"fsync": "on", "full_page_writes": "on", "synchronous_commit": "on"}
Lines = dict[str, list[tuple[str, str]]]


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    with Postgres(settings=DURABLE | {"max_connections": "50"}) as server:
        yield server


@pytest.fixture
def name(server: Postgres) -> str:
    return new_database(server)


def doctor(data: Path, address: str, *words: str, **settings: str) -> Lines:
    """The lines of the doctor by the part that was checked."""
    result = run_command(data, address, "doctor", *words, **settings)
    assert result.stderr == f"data folder: {data}\n", result.stderr
    lines: Lines = {}
    for line in result.stdout.splitlines():
        lines.setdefault(line[9:21].strip(), []).append((line[:8].strip(), line[22:]))
    has_fault = any(level == FAULT for results in lines.values() for level, _ in results)
    assert result.exit_code == int(has_fault)
    return lines


def installed(data: Path, server: Postgres, name: str, *labels: str) -> str:
    """Return the address of a database that has these tenants."""
    crm = open_installation(data, server.url(name))
    for label in labels:
        open_tenant(crm, label)
    crm.tenants.forget_idle()
    return server.url(name)


def test_a_new_database_is_described_and_left_as_it_is(server, name, tmp_path):
    lines = doctor(tmp_path, server.url(name))
    database = lines["database"]
    assert database[0][0] == OK and database[0][1].startswith("PostgreSQL 15.")
    assert f"{name} at 127.0.0.1:{server.port} as postgres" in database[0][1]
    assert database[1:] == [
        (WARNING, "the shared schema is not there yet; `serve` makes it"),
    ]  # fmt: skip
    assert lines["tenants"] == [(OK, "0 of 0 tenants are whole and up to date")]
    assert server.execute("SELECT to_regnamespace('crm')", name) == [(None,)]
    assert "sqlite" in lines


def test_a_good_installation_has_no_warning_of_its_databases(server, name, tmp_path):
    address = installed(tmp_path, server, name, "acme", "globex")
    size = "SELECT pg_database_size(current_database()), max(oid::bigint) FROM pg_namespace"
    before = server.execute(size, name)
    lines = doctor(tmp_path, address, "--full")
    assert lines["database"][1:] == [
        (OK, "the shared schema has version 3"),
        (OK, "2 schemas"),
    ]
    assert {level for level, _ in lines["database"]} == {OK}
    assert lines["tenants"] == [(OK, "2 of 2 tenants are whole and up to date")]
    assert "directory" not in lines and "acme" not in lines
    assert server.execute(size, name)[0][1] == before[0][1], "a schema is left"


def test_what_is_lost_in_a_power_cut_is_said(server, name, tmp_path):
    address = installed(tmp_path, server, name)
    server.execute(f"ALTER DATABASE {name} SET synchronous_commit = off")
    assert (WARNING, "synchronous_commit is off: a crash loses the last acknowledged changes") in (
        doctor(tmp_path, address)["database"]
    )
    with Postgres() as fast:
        database = doctor(tmp_path, fast.url(new_database(fast)))["database"]
        text = "fsync or full_page_writes is off: a power cut may damage the whole database"
        assert (WARNING, text) in database


def test_the_shared_schema_of_another_release(server, name, tmp_path):
    address = installed(tmp_path, server, name, "acme")
    own = shared_schema.shared_version()
    for version, line in (
        (own[:5], (WARNING, "the shared schema is of an older release: restart the server")),
        (b"0099:", (OK, "the shared schema has version 99")),
    ):
        update = "UPDATE crm.setting SET value = '%s' WHERE name = 'shared_version'"
        server.execute(update % version.decode(), name)
        assert line in doctor(tmp_path, address)["database"]
        stored = server.execute("SELECT value FROM crm.setting WHERE name = 'shared_version'", name)
        assert stored == [(version,)]  # nothing was changed
        # A node of this release leaves a newer one alone, and brings an older one up to date.
        shared_schema.prepare_database(Database(address, 1))
        stored = server.execute("SELECT value FROM crm.setting WHERE name = 'shared_version'", name)
        assert stored == [(max(version, own),)]


def test_a_database_of_unreleased_code_is_left_alone(server, name, tmp_path):
    address = installed(tmp_path, server, name, "acme")
    server.execute("UPDATE crm.setting SET value = '0002:' WHERE name = 'shared_version'", name)
    server.execute("UPDATE crm.tenant SET version = 29", name)
    text = (
        "its schemas are of code from before release 0.2.0, which no release reads: make the"
        " tenants anew in another database"
    )
    assert doctor(tmp_path, address)["database"] == [(FAULT, text)]
    result = run_command(tmp_path, address, "migrate")
    assert result.exit_code == 1 and result.stderr.splitlines()[-1].endswith(text), result.stderr
    sql = "SELECT value FROM crm.setting WHERE name = 'shared_version'"
    assert server.execute(sql, name) == [(b"0002:",)]


def test_what_crashes_and_operators_left_is_said(server, name, tmp_path, monkeypatch):
    address = installed(tmp_path, server, name, "acme", "globex", "initech")
    for statement in (
        "DROP SCHEMA t_initech CASCADE",
        "CREATE SCHEMA t_nobody",
    ):
        server.execute(statement, name)
    monkeypatch.setattr(database_checks, "MANY_TENANTS", 2)
    lines = doctor(tmp_path, address)
    assert (WARNING, "3 schemas: use another installation for new tenants") in lines["database"]
    assert (FAULT, "the schemas of initech are gone: restore copies") in lines["database"]
    assert (WARNING, "schemas of no tenant: t_nobody; DROP SCHEMA … CASCADE") in lines["database"]
    assert lines["tenants"] == [(OK, "2 of 3 tenants are whole and up to date")]


def test_tenants_left_in_files_are_listed(server, name, tmp_path):
    files = Tenants(Config(data=tmp_path))
    for label in ("acme", "globex"):
        files.create(label)
    files.forget_idle()
    address = installed(tmp_path, server, name, "initech")
    server.execute("INSERT INTO crm.tenant VALUES ('globex', 't_globex', 9)", name)
    directory = doctor(tmp_path, address)["directory"]
    assert directory == [
        (
            WARNING,
            "1 tenants are in files of this machine: acme: `restore --to postgres` moves them",
        ),
        (
            WARNING,
            "files that are not used, as the label is a schema's or another node's: globex: give a"
            " `restore --to` that was interrupted again, or move them elsewhere",
        ),
    ]


def test_what_a_schema_lacks_is_named(server, name, tmp_path):
    address = installed(tmp_path, server, name, *LABELS)
    for statement in (
        "DROP INDEX t_noindex.lead_search",
        "ALTER TABLE t_nocolumn.lead DROP COLUMN comment CASCADE",
        "DROP TABLE t_notable.sms_code CASCADE",
        "ALTER TABLE t_nocheck.lead ALTER COLUMN name DROP NOT NULL",
        "CREATE INDEX more ON t_more.lead (name)",
        "UPDATE crm.tenant SET version = 5 WHERE label = 'older'",
        "UPDATE crm.tenant SET version = 99 WHERE label = 'newer'",
    ):
        server.execute(statement, name)
    lines = doctor(tmp_path, address)
    newest = len(migrations.STEPS)
    for label, level, text in (
        ("noindex", FAULT, "its schema is damaged: it lacks the index CREATE INDEX lead_search ON"),
        ("nocolumn", FAULT, "its schema is damaged: it lacks the column lead.comment text"),
        ("notable", FAULT, "its schema is damaged: it lacks the table sms_code: the database"),
        ("nocheck", FAULT, "its schema is damaged: it lacks the column lead.name text"),
        ("older", WARNING, f"version 5 of {newest}: run migrate"),
        ("newer", FAULT, f"version 99 is of a newer release, this one knows {newest}"),
    ):
        assert lines[label][0][0] == level and lines[label][0][1].startswith(text), lines[label]
    assert "more" not in lines
    assert lines["tenants"] == [(OK, f"1 of {len(LABELS)} tenants are whole and up to date")]
    assert server.execute("SELECT version FROM crm.tenant WHERE label = 'older'", name) == [(5,)]


LABELS = ("noindex", "nocolumn", "notable", "nocheck", "more", "older", "newer")


def test_full_reads_every_row(server, name, tmp_path):
    """A page of a table is overwritten on the disk."""
    address = installed(tmp_path, server, name, "acme", "globex")
    path = server.execute("SELECT pg_relation_filepath('t_acme.stage')", name)[0][0]
    server.stop()
    try:
        with open(server.data / path, "r+b") as file:
            file.seek(12)  # the bounds of the free space of the first page
            file.write(b"\xff" * 6)
    finally:
        server.start()
    server.execute("SELECT 1", name)
    lines = doctor(tmp_path, address, "--full")
    assert lines["acme"][0][0] == FAULT and "stage: invalid page" in lines["acme"][0][1]
    assert "(XX001)" in lines["acme"][0][1]
    assert lines["acme"][-1] == (
        FAULT, f"there is no copy in {tmp_path}/backups: restore acme FILE")  # fmt: skip
    assert "globex" not in lines
    server.drop_database(name)


def test_a_server_that_is_away_is_one_line_for_each_part(tmp_path):
    address = f"postgresql://crm:s3cret@127.0.0.1:{find_free_port()}/crm"
    started_at = time.monotonic()
    lines = doctor(tmp_path, address)
    assert time.monotonic() - started_at < 10
    assert len(lines["database"]) == 1 and "Connection refused" in lines["database"][0][1]
    assert lines["tenants"][0][1].startswith("they cannot be listed: the database crm cannot be")
    assert lines["folder"][0][0] == OK and lines["disk"][0][0] == OK
