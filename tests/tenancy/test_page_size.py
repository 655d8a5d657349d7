"""How much room a tenant's file and its log take."""

import pytest

from crm.installation.opening import open_tenants
from crm.installation.tenants import Tenants
from crm.storage.session import execute, transaction
from tests.installations import config_for

pytestmark = pytest.mark.files


def test_an_empty_tenant_takes_little_room(tmp_path):
    tenants = open_tenants(config_for(tmp_path))
    tenants.create("acme")
    assert size(tenants, "acme") <= 250_000
    with tenants.session("acme"), transaction():
        execute("UPDATE tenant SET name = 'Acme'")
    tenants.forget_idle()
    assert size(tenants, "acme") <= 250_000


def size(tenants: Tenants, label: str) -> int:
    """Bytes of a tenant's files, which no log is one of once they are closed."""
    files = list(tenants.files.folder.glob(f"{label}*"))
    assert {path.name for path in files} == {f"{label}.db", f"{label}.lock"}
    return sum(path.stat().st_size for path in files)
