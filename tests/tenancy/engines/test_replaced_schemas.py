"""A restore between the moment when a reader selects a tenant's schema and when it reads."""

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from crm.copies.schema_store import SchemaStore
from crm.errors import Busy
from crm.installation.tenants import Tenants
from crm.resources import tenant
from crm.resources.leads.record import create
from crm.storage.postgres import schema, schema_archive
from crm.storage.postgres.pipeline import PipelineConnection
from crm.storage.postgres.schema_connection import READ_TENANT
from crm.storage.session import execute, rows, transaction
from crm.storage.sqlite import migrations
from tests.installations import config_on
from tests.postgres_server import Postgres

pytestmark = pytest.mark.process

NAMES = "SELECT name FROM lead"


@pytest.fixture
def tenants(server: Postgres, tmp_path: Path, clock) -> Iterator[Tenants]:
    """The tenant acme, whose lead is After, and an archive of it whose lead is Before."""
    opened = Tenants(config_on(server.create_database("replaced"), tmp_path), clock)
    tenant.open_tenant(opened, "acme")
    with opened.session("acme"), transaction():
        create({"name": "Before", "phone": "+380671234567"})
    schema_archive.write(store(opened).database, "acme", tmp_path / "archive")
    with opened.session("acme"), transaction():
        execute("UPDATE lead SET name = 'After'")
    yield opened
    opened.forget_idle()
    server.drop_database("replaced")


def store(tenants: Tenants) -> SchemaStore:
    return SchemaStore(tenants, "acme")


def restore(tenants: Tenants, archive: Path) -> None:
    tenants.clock.tick(1)  # the names of files in the trash have seconds
    store(tenants).replace(archive, lambda: None)


@pytest.mark.parametrize("is_dropped", [False, True])
def test_a_reader_never_goes_on_in_another_schema_than_it_has_selected(
    tenants, server, tmp_path, monkeypatch, is_dropped
):
    if not is_dropped:
        monkeypatch.setattr("crm.copies.schema_store.drop", lambda *args: None)
    with psycopg.connect(server.url("replaced")) as reader:
        reader.execute("SELECT crm.use_tenant('acme', %s)", (len(migrations.STEPS),))
        for _ in range(2):  # the second one must not take the name of the first again
            restore(tenants, tmp_path / "archive")
        if is_dropped:
            with pytest.raises(psycopg.errors.UndefinedTable):
                reader.execute(NAMES)
        else:
            assert reader.execute(NAMES).fetchall() == [("After",)]


def test_a_session_reads_again_if_the_schema_was_dropped_after_it_had_selected_it(
    tenants, tmp_path, monkeypatch
):
    send, restored = PipelineConnection.send, []

    def send_and_restore(connection: PipelineConnection, sql: str, params=()) -> None:
        send(connection, sql, params)
        if sql == READ_TENANT and not restored:
            restored.append(connection.receive())
            connection._sent.clear()
            restore(tenants, tmp_path / "archive")

    with tenants.session("acme"):
        assert rows(NAMES) == [("After",)]
    monkeypatch.setattr(PipelineConnection, "send", send_and_restore)
    with tenants.session("acme"):
        assert rows(NAMES) == [("Before",)]


def test_a_session_that_has_read_is_refused_after_a_restore(tenants, tmp_path):
    with tenants.session("acme"):
        assert rows(NAMES) == [("After",)]
        restore(tenants, tmp_path / "archive")
        with pytest.raises(Busy):
            rows(NAMES)


def test_a_label_is_free_for_a_new_tenant_while_a_replaced_schema_waits_to_be_dropped(
    tenants, tmp_path, monkeypatch
):
    monkeypatch.setattr("crm.copies.schema_store.drop", lambda *args: None)
    restore(tenants, tmp_path / "archive")
    store(tenants).delete()
    tenant.open_tenant(tenants, "acme")
    with tenants.session("acme"):
        assert rows(NAMES) == []
    names = schema.read(store(tenants).database, "SELECT schema FROM crm.tenant WHERE label='acme'")
    assert names != [("t_acme",)]
