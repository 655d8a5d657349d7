"""Several databases of one installation: the next takes tenants that the first has no room for."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from crm.config import Config
from crm.errors import Conflict
from crm.installation.opening import open_tenants
from crm.installation.tenants import Tenants
from crm.resources import tenant
from crm.resources.leads.record import create as create_lead
from crm.storage.postgres import directory
from crm.storage.session import one_row
from tests.postgres_server import Postgres

pytestmark = pytest.mark.process

NAMES = ("first", "second")
LABELS = ["anna", "borys", "clara", "dmytro", "emma"]


@pytest.fixture
def server() -> Iterator[Postgres]:
    with Postgres() as running:
        yield running


def open_node(server: Postgres, folder: Path, *names: str) -> Tenants:
    config = Config(data=folder, database=tuple(map(server.url, names)))
    tenants = open_tenants(config)
    return tenants


def labels_in(server: Postgres, name: str) -> list[str]:
    sql = "SELECT label FROM crm.tenant WHERE label !~ '^[._]' ORDER BY label"
    return [label for (label,) in server.execute(sql, name)]


def test_the_second_database_takes_the_next_tenants(server, tmp_path, monkeypatch):
    monkeypatch.setattr(directory, "MAX_TENANTS_PER_DATABASE", 3)
    for name in NAMES:
        server.create_database(name)
    node = open_node(server, tmp_path / "a", *NAMES)
    for label in LABELS:
        tenant.open_tenant(node, label)
    assert [labels_in(server, name) for name in NAMES] == [LABELS[:3], LABELS[3:]]
    other = open_node(server, tmp_path / "b", *NAMES)
    assert other.labels() == LABELS
    for tenants in (node, other):
        for label in LABELS:
            with tenants.session(label):
                create_lead({"name": label, "phone": "+380671234567"})
    for label in LABELS:
        with node.session(label):
            assert one_row("SELECT count(*), min(name) FROM lead") == (2, label)
    tenant.open_tenant(node, "fedir")
    with pytest.raises(Conflict) as refused:
        tenant.open_tenant(node, "hanna")
    assert refused.value.code == "databases_full"
    assert "hanna" not in node.labels()
    assert labels_in(server, "second") == [*LABELS[3:], "fedir"]
    for tenants in (node, other):
        tenants.forget_idle()
