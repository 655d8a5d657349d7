"""A connection of the pool serves any tenant in turn: nothing of a session is left in it."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from crm.installation.tenants import Tenants
from crm.resources import tenant, users
from crm.resources.leads.record import create
from crm.storage.file_errors import ServerError
from crm.storage.postgres.pipeline import PipelineConnection
from crm.storage.session import current_session, rows, transaction
from tests.installations import config_on
from tests.postgres_server import Postgres

pytestmark = pytest.mark.process  # the server
SETTINGS = """
    SELECT name, setting FROM pg_settings WHERE name IN (
        'search_path', 'transaction_read_only', 'transaction_isolation', 'lock_timeout',
        'idle_in_transaction_session_timeout', 'statement_timeout')
    UNION ALL SELECT 'role', current_user
    UNION ALL SELECT 'locks', CAST(count(*) AS TEXT) FROM pg_locks
        WHERE pid = pg_backend_pid() AND locktype = 'advisory'
"""


@pytest.fixture
def tenants(server: Postgres, tmp_path: Path) -> Iterator[Tenants]:
    """Acme and globex in a database of their own, to which there is one connection at most."""
    url = server.create_database("connections")
    made = Tenants(config_on(url, tmp_path, database_connections=1))
    for label in ("acme", "globex"):
        tenant.open_tenant(made, label)
    yield made
    made.forget_idle()
    server.drop_database("connections")


def read() -> None:
    assert rows("SELECT name FROM lead") == []


def write() -> None:
    create({"name": "Olena", "phone": "+380671234567"})


def roll_back() -> None:
    with pytest.raises(RuntimeError), transaction():
        write()
        raise RuntimeError


def fail() -> None:
    with pytest.raises(ServerError):
        rows("SELECT nothing FROM lead")


def fail_to_write() -> None:
    with pytest.raises(ServerError), transaction():
        current_session().connection.execute("UPDATE tenant SET plan = 'gold'")


def stream() -> None:
    assert len(list(current_session().connection.stream("SELECT id FROM stage"))) > 1


def leave_a_stream() -> None:
    result = current_session().connection.stream("SELECT id FROM stage")
    next(result)
    result.close()


def note_the_owner() -> None:
    assert users.owner_id() == 1


ACTS = (read, write, roll_back, fail, fail_to_write, stream, leave_a_stream, note_the_owner)


def taken(tenants: Tenants, look: Callable[[PipelineConnection], Any]) -> Any:
    connection = tenants.postgres.directory.database.take()
    try:
        return look(connection)
    finally:
        tenants.postgres.directory.database.give(connection)


def backend(connection: PipelineConnection) -> int:
    return connection.pgconn.backend_pid


def settings(connection: PipelineConnection) -> set[tuple[str, str]]:
    return set(connection.run(SETTINGS))


@pytest.mark.parametrize("act", ACTS, ids=lambda act: act.__name__)
def test_nothing_of_a_session_is_left_in_its_connection(
    tenants: Tenants, act: Callable[[], None]
) -> None:
    with tenants.postgres.directory.database.connect() as connection:
        new = set(connection.execute(SETTINGS).fetchall())
    before = taken(tenants, backend)
    with tenants.session("acme"):
        act()
    assert taken(tenants, settings) == new
    assert taken(tenants, backend) == before  # it was this connection
    with pytest.raises(ServerError, match="lead") as refused:
        taken(tenants, lambda connection: connection.run("SELECT name FROM lead"))
    assert refused.value.sqlstate == "42P01"  # there is no such table


def test_a_tenant_inside_another_waits_for_no_connection(tenants: Tenants) -> None:
    with tenants.session("acme"):
        read()
        with tenants.session("globex"):
            write()
            read_again = rows("SELECT count(*) FROM lead")
        assert (read_again, rows("SELECT count(*) FROM lead")) == ([(1,)], [(0,)])
