"""What is wrong with a database is said in one line, in the log, on stderr and to the caller."""

import os
import re
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

from crm.config import Config, ConfigError
from crm.storage.file_errors import ServerError
from crm.storage.postgres import connections
from crm.storage.postgres.connections import Database
from crm.storage.postgres.server_errors import error_of_cursor
from crm.storage.session import transaction
from tests.concurrency import ROOT, run_in_threads
from tests.conftest import Api
from tests.database_cases import (
    error_line,
    new_database,
    open_installation,
    open_tenant,
    run_command,
)
from tests.postgres_server import Postgres
from tests.waiting import wait_for

pytestmark = pytest.mark.process

PASSWORD = "pa55-of-the-database"


def test_an_address_that_is_none_is_named_without_its_password(tmp_path):
    for address in (
        f"postgresql://crm:{PASSWORD}%zz@127.0.0.1/crm",
        f"postgresql://crm:{PASSWORD}@[::1/crm",
        f"postgresql://crm:1/{PASSWORD}@127.0.0.1/crm",
        f"postgresql://crm:{PASSWORD}@127.0.0.1/crm?colour=red",
        f"mysql://crm:{PASSWORD}@127.0.0.1/crm",
        f"{PASSWORD}",
    ):
        for command in ("doctor", "migrate"):
            line = error_line(run_command(tmp_path, address, command))
            assert line.startswith("Error: CRM_DATABASE"), (address, line)
            assert "looks like postgresql://user:password@host:5432/name" in line
            assert PASSWORD not in line
    with pytest.raises(ConfigError, match="^CRM_DATABASE: it looks"):
        open_installation(tmp_path, f"postgresql://crm:{PASSWORD}%zz@127.0.0.1/crm")
    assert PASSWORD not in error_line(run_command(tmp_path, address, "serve"))


def test_several_databases_are_refused_with_what_to_do_instead(tmp_path):
    """Also in crm.env."""
    addresses = f"postgresql://crm:{PASSWORD}@127.0.0.1/a postgresql://crm:{PASSWORD}@127.0.0.1/b"
    advice = "it is one address: several databases are gone, use an installation for each of them"
    for command in ("serve", "migrate"):
        line = error_line(run_command(tmp_path, addresses, command))
        assert line == f"Error: CRM_DATABASE: {advice}"
    path = tmp_path / "crm.env"
    path.write_text(f"CRM_DATABASE={addresses}\n")
    with pytest.raises(ConfigError, match=f"^{re.escape(f'{path}: CRM_DATABASE: {advice}')}$"):
        Config.load({}, data=tmp_path)


@pytest.mark.deep
def test_a_missing_extra_stops_every_command_that_needs_it(tmp_path):
    """In a Python that has no psycopg."""
    blocked = tmp_path / "blocked"
    for package in ("psycopg", "psycopg_pool"):
        (blocked / package).mkdir(parents=True)
        (blocked / package / "__init__.py").write_text(f"raise ImportError('no {package}')")
    environ = os.environ | {
        "PYTHONPATH": str(blocked),
        "CRM_DATABASE": f"postgresql://crm:{PASSWORD}@127.0.0.1:1/crm",
    }
    advice = "CRM_DATABASE: it needs the extra `postgres`: pip install 'crm[postgres]'"

    command = [sys.executable, "app.py", "serve", "--data", str(tmp_path / "data")]
    ran = subprocess.run(command, cwd=ROOT, env=environ, capture_output=True, text=True, timeout=60)
    line = ran.stderr.strip().splitlines()[-1]
    assert (ran.returncode, line[: len(advice) + 7]) == (1, f"Error: {advice}"), ran.stderr


def test_why_no_connection_is_made_is_said_once(server, tmp_path, caplog):
    """On stderr, in the log once a minute, to callers of the API, and on a page."""
    with as_user(server, "crm", PASSWORD):
        port = server.port
        for number, (address, reason) in enumerate((
            (f"postgresql://crm:{PASSWORD}@127.0.0.1:1/crm", "Connection refused"),
            (f"postgresql://crm:{PASSWORD}@nowhere.invalid/crm", "nowhere.invalid"),
            (f"postgresql://crm:wr0ng@127.0.0.1:{port}/crm", "password authentication failed"),
            (f"postgresql://crm:{PASSWORD}@127.0.0.1:{port}/other", '"other" does not exist'),
        )):  # fmt: skip
            caplog.clear()
            data = tmp_path / str(number)
            line = error_line(run_command(data, address, "migrate"))
            assert line.startswith("Error: the database ") and reason in line
            crm = open_installation(data, address)
            for _ in range(3):
                answer = Api(crm, "acme", "crm_none").get("/leads")
                assert (answer.status_code, answer.json["code"]) == (503, "tenant_unavailable")
                assert int(answer.headers["Retry-After"]) == 5
                assert answer.json["detail"] == (
                    "the database cannot be reached at this moment: try again"
                )
            page = crm.test_client().get("/", headers={"Host": "acme.localhost"})
            assert page.status_code == 503 and "Traceback" not in page.text
            assert reason not in page.text + answer.text
            said = [record.getMessage() for record in caplog.records if record.levelno >= 40]
            (line,) = {message for message in said if "cannot be used" in message}
            assert reason in line and len(said) <= 2
            texts = caplog.text + page.text + answer.text
            assert PASSWORD not in texts and "wr0ng" not in texts


def test_a_user_without_the_right_to_make_schemas_is_told(server, tmp_path):
    name = new_database(server)
    with as_user(server, "weak", PASSWORD):
        server.execute(f"REVOKE ALL ON DATABASE {name} FROM public")
        server.execute(f"GRANT CONNECT ON DATABASE {name} TO weak")
        address = f"postgresql://weak:{PASSWORD}@127.0.0.1:{server.port}/{name}"
        line = error_line(run_command(tmp_path, address, "serve"))
        assert line == (
            f"Error: the database {name} cannot be used: permission denied for database {name}:"
            " the user of CRM_DATABASE must own the database: ALTER DATABASE … OWNER TO …"
        )
        assert_doctor_says(tmp_path, address, "ALTER DATABASE … OWNER TO …")
        server.execute(f"ALTER DATABASE {name} OWNER TO weak")  # the advice helps
        open_tenant(open_installation(tmp_path, address), "acme")
        server.drop_database(name)


def test_a_database_that_knows_no_cyrillic_letter_is_refused(server, tmp_path):
    for name, options, reason in (
        ("latin", "ENCODING 'UTF8' LOCALE 'C'", "does not know Cyrillic letters"),
        ("ascii", "ENCODING 'SQL_ASCII' LOCALE 'C'", "its encoding is SQL_ASCII"),
    ):
        server.execute(f"CREATE DATABASE {name} {options} TEMPLATE template0")
        address = server.url(name)
        for command in ("serve", "migrate"):
            assert reason in error_line(run_command(tmp_path, address, command))
        assert_doctor_says(tmp_path, address, reason)
        assert server.execute("SELECT to_regnamespace('crm')", name) == [(None,)]  # nothing is left
    # A dump of a good one may be restored into it.
    server.execute("CREATE SCHEMA crm", "latin")
    server.execute("CREATE EXTENSION pg_trgm SCHEMA crm", "latin")
    server.execute("CREATE TABLE crm.setting AS SELECT 'shared_version' AS name,"
                   " '9999:'::bytea AS value", "latin")  # fmt: skip
    assert "Cyrillic" in error_line(run_command(tmp_path, server.url("latin"), "migrate"))


def test_the_extension_in_another_schema_is_moved_by_the_advice(server, tmp_path):
    name = new_database(server)
    server.execute("CREATE EXTENSION pg_trgm", name)
    line = error_line(run_command(tmp_path, server.url(name), "serve"))
    advice = "CREATE SCHEMA IF NOT EXISTS crm; ALTER EXTENSION pg_trgm SET SCHEMA crm"
    assert line.endswith(f"its extension pg_trgm is in the schema public: {advice}")
    assert_doctor_says(tmp_path, server.url(name), advice)
    for statement in advice.split("; "):
        server.execute(statement, name)
    open_tenant(open_installation(tmp_path, server.url(name)), "acme")


def test_a_server_without_contrib_is_refused(tmp_path):
    with without_contrib() as bare, bare:
        name = new_database(bare)
        line = error_line(run_command(tmp_path, bare.url(name), "serve"))
        assert line.endswith("install PostgreSQL's contrib package (postgresql-contrib)")
        assert_doctor_says(tmp_path, bare.url(name), "lacks the extension pg_trgm")


def test_a_server_that_is_too_old_is_refused(server, tmp_path, monkeypatch):
    name = new_database(server)
    monkeypatch.setattr(connections, "MIN_SERVER_VERSION", 99)
    ((version,),) = server.execute("SHOW server_version_num")
    reason = f"its server is PostgreSQL {int(version) // 10_000}, and 99 is the oldest that will do"
    line = error_line(run_command(tmp_path, server.url(name), "migrate"))
    assert line == f"Error: the database {name} cannot be used: {reason}"
    assert_doctor_says(tmp_path, server.url(name), reason)
    answer = Api(open_installation(tmp_path, server.url(name)), "acme", "").get("/leads")
    assert answer.status_code == 503


def test_a_database_that_may_only_be_read_is_read(server, tmp_path, caplog):
    name = new_database(server)
    crm = open_installation(tmp_path, server.url(name))
    key = open_tenant(crm, "acme")
    lead = Api(crm, "acme", key).create("/leads", name="Ivan", phone="+380501112233")
    server.execute(f"ALTER DATABASE {name} SET default_transaction_read_only = on")
    crm.tenants.forget_idle()
    api = Api(open_installation(tmp_path, server.url(name)), "acme", key)
    assert api.read(f"/leads/{lead}")["name"] == "Ivan"
    answer = api.post("/leads", {"name": "Petro", "phone": "+380501112234"})
    assert (answer.status_code, answer.json["code"]) == (503, "storage_read_only")
    assert "read-only transaction (25006)" in caplog.text
    assert_doctor_says(tmp_path, server.url(name), "it may only be read")
    server.execute(f"ALTER DATABASE {name} RESET default_transaction_read_only")
    server.disconnect(name)
    api.create("/leads", name="Petro", phone="+380501112234")


def test_of_a_server_without_connections_left_those_of_the_process_are_shared(
    server, tmp_path, caplog
):
    name = new_database(server)
    with as_user(server, "few", PASSWORD):
        server.execute(f"ALTER DATABASE {name} OWNER TO few")
        address = f"postgresql://few:{PASSWORD}@127.0.0.1:{server.port}/{name}"
        key = open_tenant(open_installation(tmp_path, address), "acme")
        crm = open_installation(tmp_path, address, database_connections=8)
        api = Api(crm, "acme", key)
        assert api.get("/leads").status_code == 200  # one connection is open
        server.execute(f"ALTER DATABASE {name} CONNECTION LIMIT 1")
        answers = run_in_threads(8, lambda _: Api(crm, "acme", key).get("/leads"))
        assert {answer.status_code for answer in answers} == {200}
        with crm.tenants.session("acme"), transaction():  # it has the one connection
            other = threading.Thread(target=lambda: answers.append(api.get("/leads")))
            other.start()
            wait_for(lambda: "gives no more connections" in caplog.text)
        other.join()
        assert answers[-1].status_code == 200
        assert f"the database {name} gives no more connections" in caplog.text
        crm.tenants.forget_idle()
        server.drop_database(name)


@pytest.mark.deep
def test_requests_go_on_seconds_after_the_server_is_back(tmp_path):
    """Restarted under load: no answer but 200 and 503, and no restart of ours."""
    with Postgres(durable=True) as server:  # the tenant has only just been created
        name = new_database(server)
        crm = open_installation(tmp_path, server.url(name))
        key = open_tenant(crm, "acme")
        answers: list[tuple[float, int, str]] = []
        stopped = threading.Event()

        def ask() -> None:
            api = Api(crm, "acme", key)
            while not stopped.is_set():
                answer = api.get("/leads")
                retry = answer.headers.get("Retry-After", "")
                answers.append((time.monotonic(), answer.status_code, retry))

        def all_are_well() -> bool:
            return [status for _, status, _ in answers[-30:]] == [200] * 30

        threads = [threading.Thread(target=ask) for _ in range(6)]
        for thread in threads:
            thread.start()
        try:
            wait_for(all_are_well)
            for mode in ("immediate", "fast"):
                server.stop(mode)
                wait_for(lambda: answers[-1][1] == 503)
                server.start()
                back_at = time.monotonic()
                wait_for(all_are_well)
                refused = [at for at, status, _ in answers if status == 503]
                assert refused[-1] < back_at + 10
        finally:
            stopped.set()
            for thread in threads:
                thread.join()
        assert {status for _, status, _ in answers} == {200, 503}
        assert {retry for _, status, retry in answers if status == 503} <= {"1", "5"}
        crm.tenants.forget_idle()


def test_idle_connections_that_the_server_has_closed_are_not_used(server, tmp_path):
    name = new_database(server)
    crm = open_installation(tmp_path, server.url(name), database_connections=30)
    key = open_tenant(crm, "acme")
    answers = run_in_threads(25, lambda _: Api(crm, "acme", key).get("/leads").status_code)
    assert set(answers) == {200}
    server.disconnect(name)
    assert crm.tenants.labels() == ["acme"]  # one statement, which is not tried again
    assert Api(crm, "acme", key).get("/leads").status_code == 200


def test_errors_have_no_values_of_rows(server, tmp_path, caplog):
    name, secret = new_database(server), "Olena Kovalenko"
    database = Database(server.url(name), 1)
    with database.connect() as connection:
        connection.execute("CREATE TABLE lead (name TEXT UNIQUE, age INTEGER CHECK (age > 0))")
        connection.execute("INSERT INTO lead VALUES (%s, 1)", (secret,))
    for sql, params in (
        ("INSERT INTO lead VALUES ($1, 1)", (secret,)),
        ("INSERT INTO lead VALUES ($1, -1)", (secret,)),
        ("SELECT CAST($1 AS BIGINT)", (secret,)),
        ("SELECT CAST($1 AS DATE)", (secret,)),
        ("SELECT CAST($1 AS JSONB)", (secret,)),
    ):
        connection = database.take()
        with pytest.raises(ServerError) as from_pipeline:
            connection.run(sql, params)
        database.give(connection)
        with pytest.raises(ServerError) as from_cursor, database.connect() as cursors:
            cursors.execute(sql.replace("$1", "%s").encode(), params)
        for error in (from_pipeline, from_cursor):
            assert secret not in str(error.value) and error.value.sqlstate != ""
        assert "psycopg" not in str(from_cursor.getrepr(style="native")), "its text has the values"
    with pytest.raises(psycopg.Error) as raw, psycopg.connect(server.url(name)) as plain:
        plain.execute("INSERT INTO lead VALUES (%s, 1)", (secret,))
    assert secret in str(raw.value) and secret not in str(error_of_cursor(raw.value))
    assert secret not in caplog.text
    database.close()


def assert_doctor_says(data: Path, address: str, reason: str) -> None:
    result = run_command(data, address, "doctor")
    assert result.exit_code == 1
    faults = [line for line in result.stdout.splitlines() if line.startswith("fault    database ")]
    assert any(reason in line for line in faults), result.stdout
    assert PASSWORD not in result.output


@contextmanager
def as_user(server: Postgres, user: str, password: str) -> Iterator[None]:
    """Let a user log in by password alone until the block ends."""
    rules = server.data / "pg_hba.conf"
    before = rules.read_text()
    server.execute(f"CREATE ROLE {user} LOGIN PASSWORD '{password}'")
    rules.write_text(f"host all {user} 127.0.0.1/32 scram-sha-256\n{before}")
    loaded = server.execute("SELECT pg_conf_load_time()")
    server.execute("SELECT pg_reload_conf()")
    wait_for(lambda: server.execute("SELECT pg_conf_load_time()") != loaded)
    try:
        yield
    finally:
        rules.write_text(before)
        server.execute("SELECT pg_reload_conf()")


@contextmanager
def without_contrib() -> Iterator[Postgres]:
    """Yield a server, to be started, of a copy of PostgreSQL that has no extension."""
    postgres = Postgres()
    shutil.rmtree(postgres.data)
    programs = postgres.programs
    prefix = postgres.folder / "copy"
    share = Path(
        postgres.run("pg_config", "--sharedir").strip()
        if (programs / "pg_config").exists()
        else f"/usr/share/{programs.parent.parent.name}/{programs.parent.name}"
    )
    (prefix / programs.relative_to("/")).mkdir(parents=True)
    for program in ("postgres", "initdb"):  # they look for their files from where they are
        shutil.copy(programs / program, prefix / programs.relative_to("/") / program)
    library = programs.parent / "lib"
    (prefix / library.relative_to("/")).symlink_to(library)
    copied_share = prefix / share.relative_to("/")
    shutil.copytree(share, copied_share, ignore=shutil.ignore_patterns("pg_trgm*", "man"))
    subprocess.run(["chmod", "-R", "a+rX", str(postgres.folder)], check=True)
    postgres.programs = prefix / programs.relative_to("/")
    words = ["-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C.UTF-8", "--no-sync"]
    postgres.run("initdb", "-D", str(postgres.data), *words)
    yield postgres
