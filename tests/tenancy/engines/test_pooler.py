"""PgBouncer in transaction mode: each transaction may run in another backend."""

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.concurrency import run_in_threads
from tests.conftest import Api
from tests.database_cases import new_database, open_installation, open_tenant
from tests.pgbouncer_server import PgBouncer
from tests.postgres_server import Postgres

pytestmark = pytest.mark.process

THREADS, ROUNDS = 8, 25
LABELS = ("acme", "globex")


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    with Postgres() as server:
        yield server


@pytest.mark.parametrize("has_roles", [False, True])
def test_tenants_share_backends_and_see_only_their_own(server, tmp_path: Path, caplog, has_roles):
    name = new_database(server)
    # Fewer backends than threads, so that each serves both tenants in turn.
    with PgBouncer(server, pool_size=3) as pooler:
        crm = open_installation(
            tmp_path, pooler.url(name), database_connections=THREADS, database_roles=has_roles
        )
        keys = {label: open_tenant(crm, label) for label in LABELS}
        numbers = itertools.count()

        def work(thread: int) -> list[tuple[str, str]]:
            made = []
            for step in range(ROUNDS):
                label = LABELS[(thread + step) % 2]
                api = Api(crm, label, keys[label])
                own = f"{label} {next(numbers)}"
                id = api.create("/leads", name=own, phone="+380501112233")
                assert api.read(f"/leads/{id}")["name"] == own
                assert {lead["name"].split()[0] for lead in api.read("/leads?limit=50")} == {label}
                assert api.patch(f"/leads/{id}", {"comment": own}).status_code == 200
                made.append((label, id))
            return made

        made = list(itertools.chain(*run_in_threads(THREADS, work)))
        for label in LABELS:
            ids = {id for owner, id in made if owner == label}
            assert len(ids) == THREADS * ROUNDS / 2
            sequence = [event["sequence"] for event in Api(crm, label, keys[label]).events()]
            assert sequence == list(range(1, len(sequence) + 1))
        # Nothing of a tenant is left in any backend. Each transaction may get another of them.
        for _ in range(20):
            assert pooler.execute("SHOW search_path", name) == [('"$user", public',)]
            assert pooler.execute("SELECT current_user::text, session_user::text", name) == [
                ("postgres", "postgres")
            ]
            assert pooler.execute("SHOW transaction_read_only", name) == [("off",)]
        assert not [record for record in caplog.records if record.levelname == "ERROR"]
        crm.tenants.forget_idle()
