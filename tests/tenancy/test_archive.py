"""The portable archive of a tenant: one SQLite file, whatever engine the tenant lives in."""

import secrets
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from crm import CRMApp, create_app
from crm.config import Config
from crm.copies import backup
from crm.installation.tenants import Tenants
from crm.outbox.subscriptions import hold_all_deliveries
from crm.resources import tenant as tenants_rules
from crm.resources.leads.record import create
from crm.storage.postgres import schema, schema_archive, shared_schema
from crm.storage.postgres.connections import Database
from crm.storage.session import execute, one_row, transaction, write_archive
from crm.storage.sqlite import archive, migrations
from crm.storage.sqlite.archive_file import BadCopy, check_copy, open_copy
from tests import full_tenant, next_release
from tests.copies import contents_of, create_copy, list_copies_before_upgrades
from tests.postgres_server import Postgres
from tests.tables import lead_names

pytestmark = pytest.mark.process

PHONE = "+380671234567"


@pytest.fixture
def database(server: Postgres) -> Iterator[Database]:
    name = f"archive_{secrets.token_hex(6)}"
    result = Database(server.create_database(name), 4)
    shared_schema.prepare_database(result)
    yield result
    result.close()
    server.drop_database(name)


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The archive of a tenant in a file that has values of every kind."""
    folder = tmp_path_factory.mktemp("full")
    clock = full_tenant.Clock(full_tenant.START)
    app = create_app(Config(data=folder / "data"), clock, sends=False)
    full_tenant.fill_tenant(app, clock)
    with app.tenants.session("acme"):
        write_archive(folder / "full.db")
    app.tenants.forget_idle()
    return folder / "full.db"


@pytest.fixture
def crm(database: Database, tmp_path: Path) -> Iterator[CRMApp]:
    """An installation whose tenants live in schemas, with acme in it."""
    app = create_app(
        Config(data=tmp_path / "data", database=database.address),
        full_tenant.Clock(full_tenant.START),
        sends=False,
    )
    tenants_rules.open_tenant(app.tenants, "acme", owner={"name": "Olena"})
    yield app
    app.tenants.forget_idle()


def add_lead(crm: CRMApp, name: str) -> None:
    with crm.tenants.session("acme"), transaction():
        create({"name": name, "phone": PHONE})


def labels(database: Database) -> list[str]:
    return [label for (label,) in schema.read(database, "SELECT label FROM crm.tenant ORDER BY 1")]


def copy_of(path: Path, to: Path, *statements: str) -> Path:
    """Copy an archive and change it."""
    to.write_bytes(path.read_bytes())
    with closing(sqlite3.connect(to, isolation_level=None)) as file:
        for statement in statements:
            file.execute(statement)
    return to


# Writing and loading


def test_a_loaded_archive_is_written_again_the_same(full, database, tmp_path):
    schema_archive.load(database, ".new-acme-1", "draft_1", full)
    schema_archive.write(database, ".new-acme-1", tmp_path / "again.db")
    with closing(open_copy(full)) as first, closing(open_copy(tmp_path / "again.db")) as again:
        assert not [line for line in full_tenant.missing_values(first) if "event:" in line]
        contents = contents_of(first)
        assert contents_of(again) == contents
        assert {table for table, rows in contents.items() if not rows} == set()
        assert archive.numbers(again) == archive.numbers(first)
        assert migrations.version(again) == len(migrations.STEPS)
        for table, last_id in again.execute(
            "SELECT table_name, last_indexed_id FROM search_progress"
        ).fetchall():
            having = f"SELECT id FROM {table} WHERE instr(search_text, 'меб') > 0 ORDER BY id"
            indexed = f"SELECT rowid FROM {table}_search('\"меб\"') ORDER BY rowid"
            assert again.execute(indexed).fetchall() == first.execute(having).fetchall()
            assert again.execute(f"SELECT max(id) FROM {table}").fetchall() == [(last_id,)]
    assert (tmp_path / "again.db").stat().st_mode & 0o777 == 0o600


def test_a_character_that_a_text_cannot_have_is_replaced(full, database, tmp_path):
    path = copy_of(full, tmp_path / "nul.db", "UPDATE note SET text = 'a' || char(0) || 'b'")
    schema_archive.load(database, ".new-acme-1", "draft_1", path)
    with (
        closing(open_copy(path)) as file,
        schema_archive.snapshot(database, ".new-acme-1") as snapshot,
    ):
        (table,) = (table for table in archive.tables(file) if table.name == "note")
        index = table.columns.index("text")
        assert {row[index] for row in snapshot.rows(table)} == {"a\ufffdb"}


def test_an_archive_that_the_schema_does_not_allow_leaves_nothing(full, crm, database, tmp_path):
    with closing(sqlite3.connect(full)) as file:
        ((name, sql),) = file.execute(
            "SELECT name, sql FROM sqlite_schema WHERE type = 'index' AND tbl_name = 'user'"
            " AND sql LIKE '%UNIQUE%email%'"
        ).fetchall()
    path = copy_of(
        full,
        tmp_path / "acme-20260101T000000Z.db",
        f"DROP INDEX {name}",
        "UPDATE \"user\" SET email = 'same@acme.example'",
    )
    with pytest.raises(BadCopy, match="the archive cannot be loaded: duplicate key"):
        backup.restore(crm.tenants, path, "acme", hold_all_deliveries)
    assert labels(database) == ["acme"]


# What rests on it, in schemas


def test_nobody_sees_what_is_restored_before_it_is_prepared(crm, database, tmp_path):
    add_lead(crm, "Kept")
    with crm.tenants.session("acme"):
        copy = create_copy(tmp_path / "copies")

    add_lead(crm, "Of today")

    def fail() -> int:
        assert one_row("SELECT count(*) FROM lead") == (1,)
        execute("DELETE FROM lead")
        fresh = Tenants(crm.tenants.config)
        assert fresh.tenant("acme").read_first_row("SELECT count(*) FROM lead") == (2,)
        assert fresh.labels() == ["acme"]
        fresh.forget_idle()
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        backup.restore(crm.tenants, copy, "acme", fail)
    assert lead_names(crm) == ["Kept", "Of today"]
    assert labels(database) == ["acme"]
    assert not (crm.tenants.config.data / "trash").exists()


def test_a_schema_of_an_older_version_is_copied_before_its_next_steps(
    crm, database, full, monkeypatch
):
    """The copy has that older version, and each tenant has one."""
    version = len(migrations.STEPS)
    schema.create(database, ".new-old-1", "draft_old")
    with schema.writing(database) as connection:
        connection.run("SELECT set_config('search_path', 'draft_old', true)")
        connection.run(
            "INSERT INTO tenant (id, name, plan, created_at, tidied_at)"
            " VALUES (1, 'Old', 'base', '2026-01-01T00:00:00Z', '2026-01-01T00:00:00Z')"
        )
        schema.rename(connection, ".new-old-1", "old", "t_old")
    next_release.add_step(monkeypatch)
    for tenants in (crm.tenants, Tenants(crm.tenants.config)):
        with tenants.session("old"):
            assert one_row("SELECT name FROM tenant") == ("Old",)
    (copy,) = list_copies_before_upgrades(crm.tenants.config.data, "old")
    assert check_copy(copy) == version
    backup.restore(crm.tenants, copy, "older", hold_all_deliveries)
    with crm.tenants.session("older"):
        assert one_row("SELECT name FROM tenant") == ("Old",)
    tenants.forget_idle()
