"""A statement that the server cancels is a request to be sent again: 503 `busy`, nothing half done.

An administrator cancels one, or `statement_timeout` of the server does.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest

from crm import CRMApp
from crm.storage.session import rows
from tests.conftest import Api
from tests.database_cases import (
    new_database,
    open_installation,
    open_tenant,
)
from tests.postgres_server import Postgres

pytestmark = pytest.mark.process

TIMEOUT_SECONDS = 20  # of the test itself
LEAD = {"name": "Марія", "phone": "+380671234567"}


@pytest.fixture
def name(server: Postgres) -> str:
    return new_database(server)


@contextmanager
def locked(server: Postgres, name: str, table: str) -> Iterator[None]:
    """Hold a table of acme, so that every statement about it waits."""
    with psycopg.connect(server.url(name)) as connection:
        connection.execute(f'LOCK TABLE "t_acme"."{table}" IN ACCESS EXCLUSIVE MODE')
        yield


@contextmanager
def cancelling(server: Postgres, name: str) -> Iterator[list[int]]:
    """Cancel statements that wait for a lock, as an administrator does; the list counts them."""
    done, cancelled = threading.Event(), []
    waiting = (
        "SELECT pg_cancel_backend(pid) FROM pg_stat_activity"
        f" WHERE datname = '{name}' AND wait_event_type = 'Lock'"
    )

    def cancel() -> None:
        with psycopg.connect(server.url(), autocommit=True) as connection:
            while not done.wait(0.05):
                cancelled.extend(1 for _ in connection.execute(waiting).fetchall())

    thread = threading.Thread(target=cancel)
    thread.start()
    try:
        yield cancelled
    finally:
        done.set()
        thread.join(TIMEOUT_SECONDS)


# By name: the table that is held, and a request.
REQUESTS: dict[str, tuple[str, Callable[[Api], Any]]] = {
    "create with an event": ("event", lambda api: api.post("/leads", LEAD)),
    "export": ("lead", lambda api: api.get("/leads/export")),
    "key": ("api_key", lambda api: api.get("/leads")),
}


def seen(answer: Any) -> tuple[int, str, str | None]:
    code = answer.json["code"] if answer.is_json else ""
    return answer.status_code, code, answer.headers.get("Retry-After")


def count_rows(crm: CRMApp) -> list[tuple[int]]:
    with crm.tenants.session("acme"):
        tables = ("lead", "client", "deal", "event")
        return [rows(f"SELECT count(*) FROM {table}")[0] for table in tables]


@pytest.mark.parametrize("request_name", REQUESTS)
def test_a_cancelled_statement_is_busy_and_leaves_nothing(
    server, name, tmp_path: Path, caplog, request_name
):
    table, ask = REQUESTS[request_name]
    crm = open_installation(tmp_path, server.url(name))
    api = Api(crm, "acme", open_tenant(crm, "acme"))
    api.create("/leads", **LEAD)
    before = count_rows(crm)
    with locked(server, name, table), cancelling(server, name) as cancelled:
        answer = ask(api)
    assert cancelled
    assert seen(answer) == (503, "busy", "1")
    assert "unforeseen" not in caplog.text
    assert "canceling statement due to user request" in caplog.text  # for the operator
    assert count_rows(crm) == before
    assert ask(api).status_code in (200, 201)
    crm.tenants.forget_idle()
