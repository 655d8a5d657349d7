"""Bytes of deleted rows, beside a transaction that may still read them."""

import threading
from pathlib import Path

import psycopg
import pytest

from crm.errors import Busy
from crm.installation.tenants import Tenants
from crm.resources import tenant
from crm.resources.leads.record import create
from crm.storage.postgres import schema_tenant
from crm.storage.session import execute, transaction
from tests.installations import config_on
from tests.postgres_server import Postgres

pytestmark = pytest.mark.process


def test_a_scrub_waits_for_transactions_that_may_read_what_was_deleted(
    server: Postgres, tmp_path: Path, clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = server.create_database("scrub")
    tenants = Tenants(config_on(url, tmp_path), clock)
    tenant.open_tenant(tenants, "acme")
    acme = tenants.tenant("acme")

    def size() -> int:
        with acme.database.connect() as connection:
            return connection.read("SELECT pg_relation_size('t_acme.lead')")[0][0]

    with psycopg.connect(url) as reader:  # of another tenant, for example
        with tenants.session("acme"), transaction():
            create({"name": "Olena", "phone": "+380671234567"})
        reader.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        reader.execute("SELECT 1")
        with tenants.session("acme"), transaction():
            execute("DELETE FROM lead")
        monkeypatch.setattr(schema_tenant, "SCRUB_SECONDS", 0.2)
        with pytest.raises(Busy):
            acme.scrub(["lead"])
        assert size() > 0
        monkeypatch.setattr(schema_tenant, "SCRUB_SECONDS", 30.0)
        threading.Timer(0.5, reader.rollback).start()
        acme.scrub(["lead"])
        assert size() == 0
    tenants.forget_idle()
    server.drop_database("scrub")
