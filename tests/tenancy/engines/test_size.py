"""Measuring a schema looks at each table and index: that is not done for each change."""

from pathlib import Path

import pytest

from crm.installation.tenants import Tenants
from crm.resources import tenant
from crm.storage.postgres import schema_tenant
from tests.installations import config_on
from tests.postgres_server import Postgres

pytestmark = pytest.mark.process  # the server


def test_a_size_is_measured_again_once_the_quota_may_be_reached(
    server: Postgres, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    tenants, measured = Tenants(config_on(server.create_database("size"), tmp_path)), []
    tenant.open_tenant(tenants, "acme")
    with tenants.session("acme") as session:
        source = session.source

    def measure() -> int:
        measured.append(80)
        return 80

    for growth, times in ((1, 1), (1e12, 3)):  # bytes a second: 20 s, and no time
        monkeypatch.setattr(schema_tenant, "MAX_GROWTH", growth)
        assert [source.recent_bytes(100, measure) for _ in range(2)] == [80, 80]
        assert len(measured) == times
    assert source.recent_bytes(50, measure) == 80  # beyond the quota what is used is measured
    assert len(measured) == 3
    tenants.forget_idle()
    server.drop_database("size")
