"""A tenant moves between files and databases: real PostgreSQL, real processes, nothing is lost."""

import json
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
from crm.errors import Busy, Conflict
from crm.outbox.sender import Sender
from crm.resources import tenant as tenants_rules
from crm.resources import users
from crm.tenancy import archive
from crm.tenancy.copies import check_copy, open_copy
from crm.tenancy.database import execute, one_row, transaction
from crm.tenancy.engines import moves, places
from crm.tenancy.engines.moves import move
from crm.tenancy.engines.postgres import Database
from crm.tenancy.engines.schema import prepare_database
from crm.tenancy.engines.schema_tenants import SchemaTenants
from crm.tenancy.files import UnknownTenant
from crm.tenancy.installation import open_tenants
from tests import full_tenant
from tests.concurrency import ROOT
from tests.installations import SERVER_VARIABLE
from tests.postgres_server import Databases, Postgres
from tests.webhook_receiver import WebhookReceiver

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
    environ = {"CRM_DATABASE": ",".join(config.database)}
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
