"""Waiting uploads of a tenant in a schema: the next page may come from another node."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from crm.errors import NotFound
from crm.installation.tenants import Tenants
from crm.resources import tenant
from crm.storage import uploads
from crm.storage.postgres import schema
from tests.concurrency import run_in_threads
from tests.conftest import Clock
from tests.installations import config_on
from tests.postgres_server import Postgres

pytestmark = pytest.mark.process


@pytest.fixture
def nodes(server: Postgres, tmp_path: Path, clock: Clock) -> Iterator[list[Any]]:
    address = server.create_database("uploads")
    both = [Tenants(config_on(address, tmp_path / name), clock) for name in "ab"]
    for label in ("acme", "globex"):
        if not both[0].exists(label):
            tenant.open_tenant(both[0], label)
    yield both
    with schema.writing(both[0].postgres.directory.database) as connection:
        connection.run("DELETE FROM crm.upload")
    for tenants in both:
        tenants.forget_idle()


def test_a_file_that_one_node_saved_is_read_and_claimed_by_another(nodes, tmp_path):
    content = bytes(range(256)) * 4000
    with nodes[0].session("acme"):
        name = uploads.save(1, content)
    with nodes[1].session("acme"):
        assert uploads.read(1, name) == content
        with pytest.raises(NotFound):
            uploads.read(2, name)
        with uploads.claim(1, name) as data:
            assert data == content
    with nodes[0].session("acme"), pytest.raises(NotFound):
        uploads.read(1, name)
    assert not (tmp_path / "a" / "uploads").exists()


def test_of_claims_on_both_nodes_at_once_one_succeeds(nodes):
    for _ in range(5):
        with nodes[0].session("acme"):
            name = uploads.save(1, b"sku")

        def claim(number: int, name: str = name) -> bool:
            with nodes[number % 2].session("acme"):
                try:
                    with uploads.claim(1, name):
                        return True
                except NotFound:
                    return False

        assert sum(run_in_threads(6, claim)) == 1


def test_a_session_has_room_for_three_on_all_nodes_together(nodes, clock):
    names = []
    for number in range(5):
        clock.tick(1)
        with nodes[number % 2].session("acme"):
            names.append(uploads.save(1, b"%d" % number))

    def save(number: int) -> None:
        with nodes[number % 2].session("acme"):
            uploads.save(2, b"")

    run_in_threads(6, save)
    with nodes[0].session("acme"):
        for name in names[:2]:
            with pytest.raises(NotFound):
                uploads.read(1, name)
        assert [uploads.read(1, name) for name in names[2:]] == [b"2", b"3", b"4"]
    counts = "SELECT session_id, count(*) FROM crm.upload GROUP BY session_id ORDER BY session_id"
    assert schema.read(nodes[0].postgres.directory.database, counts) == [(1, 3), (2, 3)]


def test_a_tenant_that_was_deleted_leaves_no_files(nodes):
    tenant.open_tenant(nodes[0], "initech")
    for label in ("initech", "globex"):
        with nodes[0].session(label):
            uploads.save(1, b"sku")
    with schema.writing(nodes[0].postgres.directory.database) as connection:
        schema.drop(connection, "initech")
    labels = schema.read(nodes[0].postgres.directory.database, "SELECT label FROM crm.upload")
    assert labels == [("globex",)]
