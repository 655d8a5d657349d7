"""One switch runs the same tests on PostgreSQL."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.concurrency import ROOT
from tests.installations import SERVER_VARIABLE
from tests.postgres_server import Postgres, _is_running
from tests.server_process import find_free_port

pytestmark = pytest.mark.process
TESTS = """
import json, os, subprocess, sys
from pathlib import Path
import psycopg
import pytest
from tests.installations import copy_installation, environ_for, settings_for
from tests.postgres_server import Databases

NOTES = Path(os.environ["NOTES"])
EARLIER = set()  # databases of tests that have ended

def note(**found):
    server = os.environ["TEST_CRM_DATABASE"]
    with psycopg.connect(server) as connection:
        pid = connection.execute("SELECT pg_backend_pid()").fetchone()[0]
        parent = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    with NOTES.open("a") as file:
        file.write(json.dumps({"server": parent, "worker": os.getpid(), **found}) + "\\n")

def query(folder, sql):
    with psycopg.connect(environ_for(folder)["CRM_DATABASE"], autocommit=True) as connection:
        cursor = connection.execute(sql)
        return cursor.fetchall() if cursor.description else []

@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("made") / "data"
    folder.mkdir()
    query(folder, "CREATE TABLE lead AS SELECT 1 AS id")
    return folder

@pytest.mark.parametrize("turn", range(3))
def test_each_copy_is_its_own(made, tmp_path, turn):
    with psycopg.connect(environ_for(made)["CRM_DATABASE"]):  # a pool that is still open
        copy = copy_installation(made, tmp_path / "data")
    assert query(copy, "SELECT * FROM lead") == [(1,)]
    query(copy, "INSERT INTO lead VALUES (2)")
    assert len(query(made, "SELECT * FROM lead")) == 1
    url = environ_for(copy)["CRM_DATABASE"]
    assert EARLIER.isdisjoint(Databases(os.environ["TEST_CRM_DATABASE"]).names())
    EARLIER.add(url.rpartition("/")[2])
    note(database=url)

def test_the_folder_names_the_database(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    url = environ_for(tmp_path / "data")["CRM_DATABASE"]
    assert settings_for("data")["database"] == url
    assert environ_for("data") == {"CRM_DATABASE": url}
    assert environ_for(tmp_path / "other")["CRM_DATABASE"] != url
    code = "from tests.installations import environ_for; print(environ_for('data'))"
    command = [sys.executable, "-c", code]
    environ = os.environ | {"PYTHONPATH": os.environ["ROOT"]}
    child = subprocess.run(command, cwd=tmp_path, env=environ, capture_output=True, text=True)
    assert child.stdout == f"{environ_for(tmp_path / 'data')}\\n", child.stderr
    note(database=url)

@pytest.mark.files
def test_of_files():
    raise AssertionError("it is about files")
"""


def run_pytest(folder: Path, *options: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """Run the tests in a pytest of their own, without this run's switch."""
    for name in ("one", "other"):
        (folder / f"test_{name}.py").write_text(TESTS)
    command = [sys.executable, "-m", "pytest", "-p", "tests.database_switch", *options]
    command += ["-p", "no:cacheprovider", "-c", "/dev/null", "--rootdir", str(folder), str(folder)]
    known = {name: text for name, text in os.environ.items() if name != SERVER_VARIABLE}
    known |= {"NOTES": str(folder / "notes"), "ROOT": str(ROOT), **environ}
    return subprocess.run(command, cwd=ROOT, env=known, capture_output=True, text=True, timeout=120)


def notes_of(folder: Path) -> dict[str, set]:
    """What the tests noted: {"server": {pid}, "worker": {pid}, "database": {url}}."""
    lines = [json.loads(line) for line in (folder / "notes").read_text().splitlines()]
    assert len(lines) == 8
    return {name: {line[name] for line in lines} for name in lines[0]}


@pytest.mark.deep
def test_all_workers_share_one_server_that_ends_with_them(tmp_path: Path) -> None:
    ran = run_pytest(tmp_path, "--database", "postgres", "-n", "2", "--dist", "loadfile")
    assert ran.returncode == 0 and "8 passed" in ran.stdout, ran.stdout + ran.stderr
    noted = notes_of(tmp_path)
    assert len(noted["database"]) == 8 and len(noted["worker"]) == 2
    (server,) = noted["server"]
    assert not _is_running(server)


@pytest.mark.deep
def test_a_given_server_is_used_and_left_empty(tmp_path: Path) -> None:
    with Postgres() as server:
        server.create_database("production")
        ran = run_pytest(tmp_path, **{SERVER_VARIABLE: server.address})
        assert ran.returncode == 0 and "8 passed, 2 deselected" in ran.stdout, ran.stdout
        assert notes_of(tmp_path)["server"] == {server.pids[0]}
        assert server.names() == {"production"}


def test_without_the_switch_all_is_sqlite(tmp_path: Path) -> None:
    options = ("--database", "sqlite", "-k", "of_files")
    nowhere = f"postgresql://postgres@127.0.0.1:{find_free_port()}/postgres"
    ran = run_pytest(tmp_path, *options, **{SERVER_VARIABLE: nowhere})
    assert "2 failed" in ran.stdout and "database: sqlite" in ran.stdout
