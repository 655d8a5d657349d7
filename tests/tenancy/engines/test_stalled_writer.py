"""A node that stops in the middle of a transaction: other writers of the tenant get their turn."""

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from crm.config import Config
from crm.errors import Busy
from crm.installation.tenants import Tenants
from crm.resources import tenant
from crm.resources.leads.record import create as create_lead
from crm.storage.session import execute, row, transaction
from tests.postgres_server import Postgres

pytestmark = pytest.mark.process

LEAD = {"name": "Марія", "phone": "+380501234567"}
STALLED_SECONDS = 2.5


@pytest.fixture
def nodes(server: Postgres, tmp_path: Path) -> Iterator[list[Tenants]]:
    """Two nodes; what is a minute in the functions of the shared schema is less here."""
    address = server.create_database("stalled")
    results = []
    for name in "ab":
        tenants = Tenants(Config(data=tmp_path / name, database=address))
        results.append(tenants)
    tenant.open_tenant(results[0], "acme")
    for function in ("write_tenant", "end_stalled"):
        ((definition,),) = server.execute(
            f"SELECT pg_get_functiondef('crm.{function}'::regproc)", "stalled"
        )
        assert "'60s'" in definition
        server.execute(definition.replace("'60s'", f"'{STALLED_SECONDS}s'"), "stalled")
    yield results
    for tenants in results:
        tenants.forget_idle()
    server.drop_database("stalled")


@pytest.mark.parametrize("is_pipeline_open", [True, pytest.param(False, marks=pytest.mark.deep)])
def test_a_transaction_that_stopped_gives_its_turn_to_others(nodes, server, is_pipeline_open):
    stopped, goes_on = threading.Event(), threading.Event()
    errors = []

    def stop_in_a_transaction() -> None:
        try:
            with nodes[0].session("acme"), transaction():
                if is_pipeline_open:  # more than libpq keeps before it sends
                    for _ in range(20):
                        execute("UPDATE tenant SET name = ?", ("Ї" * 20_000,))
                else:
                    row("SELECT 1")
                stopped.set()
                goes_on.wait(60)
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=stop_in_a_transaction)
    thread.start()
    assert stopped.wait(30)
    began = time.monotonic()
    try:
        while True:
            try:
                with nodes[1].session("acme") as session:
                    session.lock_wait_seconds = 1.0
                    create_lead(LEAD)
                break
            except Busy:
                assert time.monotonic() - began < STALLED_SECONDS + 30
    finally:
        goes_on.set()
        thread.join()
    assert time.monotonic() - began > STALLED_SECONDS / 2
    assert len(errors) == 1  # what it had not committed is undone
    with nodes[0].session("acme"):
        assert row("SELECT name FROM tenant") == ("acme",)
        create_lead(LEAD)


def test_who_works_for_long_keeps_its_turn(nodes):
    """Only a transaction whose client sends nothing loses it."""
    begun = threading.Event()
    errors = []

    def work() -> None:
        try:
            with nodes[0].session("acme"), transaction():
                begun.set()
                until = time.monotonic() + 2 * STALLED_SECONDS
                while time.monotonic() < until:
                    execute("UPDATE tenant SET name = ?", ("Праця",))
                    row("SELECT name FROM tenant")
                    time.sleep(0.2)
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    assert begun.wait(30)
    while thread.is_alive():
        try:
            with nodes[1].session("acme") as session:
                session.lock_wait_seconds = 0.5
                create_lead(LEAD)
        except Busy:
            continue
    assert errors == []
