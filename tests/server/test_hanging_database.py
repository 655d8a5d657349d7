"""A PostgreSQL that hangs: its tenants get 503 soon, and nobody else waits with them."""

import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator

import psycopg
import pytest

from crm.storage.postgres.connections import CONNECT_TIMEOUT_SECONDS
from crm.storage.postgres.pipeline import MAX_WAITING
from tests.database_cases import new_database, open_installation, open_tenant
from tests.http_calls import Answer, ask
from tests.postgres_server import Postgres
from tests.server_process import run_server
from tests.waiting import wait_for

pytestmark = [pytest.mark.process, pytest.mark.slow]

LABELS = [f"shop{number}" for number in range(16)]  # in schemas; two requests of each
QUIET_SECONDS = 3.0  # of the most that others may wait as it begins to hang
HANG_SECONDS = 4.5


@contextlib.contextmanager
def stopped(server: Postgres) -> Iterator[None]:
    """Stop all processes of the server by SIGSTOP; its connections stay open."""
    pids = server.pids
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)


@contextlib.contextmanager
def locked(server: Postgres, database: str) -> Iterator[None]:
    """Hold a lock that every statement of a tenant needs."""
    with psycopg.connect(server.url(database)) as connection:
        connection.execute("LOCK TABLE crm.tenant IN ACCESS EXCLUSIVE MODE")
        yield
        connection.rollback()


class Site:
    """A server with tenants in schemas and one in a file, `inafile`."""

    def __init__(self, port: int, keys: dict[str, str]):
        self.port, self.keys = port, keys

    def get(self, label: str, path: str = "/api/v1/leads") -> Answer:
        return ask(self.port, "GET", path, None, self.keys.get(label, ""), label)


@pytest.fixture(scope="module")
def server():
    with Postgres() as server:
        yield server


def test_a_database_that_hangs_keeps_only_its_own_tenants_waiting(server, tmp_path):
    files = open_installation(tmp_path / "data")
    keys = {"inafile": open_tenant(files, "inafile")}
    files.tenants.forget_idle()
    database = new_database(server)
    crm = open_installation(tmp_path / "data", server.url(database))
    keys |= {label: open_tenant(crm, label) for label in LABELS}
    crm.tenants.forget_idle()
    settings = {"CRM_DATABASE": server.url(database), "CRM_PLANS": "business=0"}
    expected = "database"  # in the lines that say it cannot be used, and is not ready
    with run_server(tmp_path / "data", expected=expected, **settings) as port:
        site = Site(port, keys)
        for label in keys:
            assert site.get(label).status == 200
        with locked(server, database):
            statuses = others_go_on(site, readiness=200)
        assert statuses() == {200, 503}  # and by now there are connections for MAX_WAITING
        with stopped(server):
            statuses = others_go_on(site, readiness=503)
        # After a failed try to connect, even those that wait may be refused for a second.
        assert statuses() <= {200, 503}
        wait_for(lambda: site.get(LABELS[-1]).status == 200)


def others_go_on(site: Site, readiness: int) -> Callable[[], set[int]]:
    """Let many requests wait for the database; the others have their answers meanwhile.

    Returns a function that returns the statuses of those, once the database goes on.
    """
    results: list[int] = []
    threads = [
        threading.Thread(target=lambda label=label: results.append(site.get(label).status))
        for label in LABELS
        for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    began = time.monotonic()
    for _ in range(5):
        assert site.get("nobody", "/livez").seconds < QUIET_SECONDS / 2
    while time.monotonic() - began < HANG_SECONDS:
        assert site.get("nobody", "/livez").status == 200
        is_new = time.monotonic() - began < QUIET_SECONDS
        answer = site.get("inafile")
        assert answer.status == 200 and answer.seconds < (
            QUIET_SECONDS if is_new else QUIET_SECONDS / 2
        )
        if not is_new:
            answer = site.get(LABELS[-1])
            code, retry_after = answer.json["code"], int(answer.headers["Retry-After"])
            # The other where one had to make a connection, in vain.
            assert answer.status == 503 and code in ("busy", "tenant_unavailable")
            assert retry_after > 0 and answer.seconds < CONNECT_TIMEOUT_SECONDS + 1
            if readiness == 200:
                assert code == "busy" and answer.seconds < QUIET_SECONDS / 2
        answer = site.get("nobody", "/readyz")
        assert answer.status == readiness and answer.seconds < QUIET_SECONDS
        time.sleep(0.1)
    assert set(results) == {503}
    if readiness == 200:
        # Those that wait, and those that came before it was known that the database hangs.
        assert MAX_WAITING <= len(threads) - len(results) <= 3 * MAX_WAITING

    def statuses() -> set[int]:
        for thread in threads:
            thread.join()
        return set(results)

    return statuses
