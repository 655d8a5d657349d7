"""The PostgreSQL that tests start: it is fast, clean, and ends with them."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from tests.concurrency import ROOT
from tests.memory_folder import MEMORY_FOLDER
from tests.postgres_server import Postgres, _is_running
from tests.waiting import wait_for

pytestmark = pytest.mark.process
PATIENCE_SECONDS = 20


@pytest.fixture(scope="module")
def postgres() -> Iterator[Postgres]:
    with Postgres() as server:
        yield server


@pytest.fixture
def database(postgres: Postgres) -> Iterator[str]:
    postgres.create_database("acme")
    yield "acme"
    for name in postgres.names():
        postgres.drop_database(name)


def test_text_is_that_of_production(postgres: Postgres, database: str) -> None:
    postgres.execute("CREATE EXTENSION pg_trgm", database)
    assert len(postgres.execute("SELECT unnest(show_trgm('їжак'))", database)) == 5
    encoding = "SELECT pg_encoding_to_char(encoding), datctype FROM pg_database WHERE datname = "
    assert postgres.execute(f"{encoding}'acme'") == [("UTF8", "C.UTF-8")]


def test_a_database_is_a_copy_of_its_template(postgres: Postgres, database: str) -> None:
    postgres.execute("CREATE TABLE lead AS SELECT 1 AS id", database)
    with psycopg.connect(postgres.url(database), autocommit=True) as busy:
        busy.execute("SELECT 1")
        url = postgres.create_database("copy", template=database)
        with psycopg.connect(url) as copy:
            assert copy.execute("SELECT * FROM lead").fetchall() == [(1,)]
        with pytest.raises(psycopg.errors.AdminShutdown):
            busy.execute("SELECT 1")
    postgres.execute("INSERT INTO lead VALUES (2)", "copy")
    assert postgres.create_database("copy") == url  # it stays as it is
    assert len(postgres.execute("SELECT * FROM lead", "copy")) == 2
    assert len(postgres.execute("SELECT * FROM lead", database)) == 1
    assert postgres.names() == {"acme", "copy"}
    postgres.drop_database("copy")
    postgres.drop_database("copy")
    assert postgres.names() == {"acme"}


def test_a_killed_server_recovers_what_was_committed() -> None:
    with Postgres(durable=True) as server:
        assert server.execute("SHOW fsync") == [("on",)]
        assert MEMORY_FOLDER not in server.folder.parents
        server.execute("CREATE TABLE lead (id int)")
        with psycopg.connect(server.url()) as open_transaction:
            open_transaction.execute("INSERT INTO lead VALUES (1)")
            server.execute("INSERT INTO lead VALUES (2)")
            pids = server.pids
            assert len(pids) > 2
            server.kill()
            assert server.pids == [] and not any(map(_is_running, pids))
            with pytest.raises(psycopg.OperationalError):
                server.execute("SELECT 1")
            with pytest.raises(psycopg.OperationalError):
                open_transaction.execute("SELECT 1")
        server.start()
        assert server.execute("SELECT id FROM lead") == [(2,)]
        for mode in ("smart", "fast", "immediate"):
            server.stop(mode)
            server.start()
        assert server.execute("SELECT id FROM lead") == [(2,)]


def test_why_it_does_not_start_is_told() -> None:
    server = Postgres(settings={"shared_buffers": "a lot"})
    with pytest.raises(RuntimeError, match="shared_buffers"), server:
        pass
    assert server.pids == [] and not server.folder.exists()


HELD = """
import time
from tests.postgres_server import Postgres
server = Postgres()
server.start()
print(server.folder, *server.pids, flush=True)
time.sleep(60)
"""


def test_a_killed_test_run_leaves_no_server() -> None:
    command = [sys.executable, "-c", HELD]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as run:
        assert run.stdout
        name, *words = run.stdout.readline().split()
        folder, pids = Path(name), list(map(int, words))
        # Some of its processes end by themselves, such as a worker of autovacuum.
        assert folder.is_dir() and any(map(_is_running, pids))
        os.kill(run.pid, signal.SIGKILL)
    wait_for(lambda: not any(map(_is_running, pids)), PATIENCE_SECONDS, "the server goes on")
    assert folder.is_dir()
    Postgres().remove()
    assert not folder.exists()
