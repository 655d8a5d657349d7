"""`/readyz` asks the database of CRM_DATABASE, and `/livez` does not."""

import time
from collections.abc import Iterator
from typing import Any

import pytest

from crm import CRMApp
from crm.storage.postgres.connections import CONNECT_TIMEOUT_SECONDS
from tests.database_cases import new_database, open_installation
from tests.postgres_server import Postgres
from tests.waiting import wait_for

pytestmark = pytest.mark.process


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    with Postgres() as server:
        yield server


def get(crm: CRMApp, path: str) -> Any:
    return crm.test_client().get(path, headers={"Host": "acme.localhost"})


def test_ready_while_the_database_answers(server, tmp_path, caplog):
    crm = open_installation(tmp_path, server.url(new_database(server)))
    assert get(crm, "/readyz").json == {"status": "ok"}
    server.stop()
    try:
        started_at = time.monotonic()
        answer = get(crm, "/readyz")
        assert (answer.status_code, answer.json) == (
            503,
            {"status": "unavailable", "reason": "database_unreachable"},
        )
        assert int(answer.headers["Retry-After"]) > 0
        assert time.monotonic() - started_at < CONNECT_TIMEOUT_SECONDS
        assert get(crm, "/livez").status_code == 200
        get(crm, "/readyz")
        said = [record.getMessage() for record in caplog.records]
        assert len([line for line in said if "Connection refused" in line]) == 1
        assert said.count("not ready: database_unreachable") == 1
    finally:
        server.start()
    wait_for(lambda: get(crm, "/readyz").status_code == 200)
    crm.tenants.forget_idle()


def test_a_server_that_does_not_answer_at_all_delays_no_check(tmp_path):
    """Of TEST-NET-1, which nobody answers from."""
    crm = open_installation(tmp_path, "postgresql://crm@192.0.2.1/crm")
    for _ in range(3):
        started_at = time.monotonic()
        answer = get(crm, "/readyz")
        assert (answer.status_code, answer.json["reason"]) == (503, "database_unreachable")
        assert time.monotonic() - started_at < CONNECT_TIMEOUT_SECONDS


def test_connections_that_are_all_in_use_are_no_reason(server, tmp_path):
    crm = open_installation(tmp_path, server.url(new_database(server)), database_connections=1)
    assert get(crm, "/readyz").status_code == 200
    database = crm.tenants.postgres.directory.database
    connection = database.take()
    assert get(crm, "/readyz").json == {"status": "ok"}
    database.give(connection)
    crm.tenants.forget_idle()
