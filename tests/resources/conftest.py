"""What tests of resources without HTTP share."""

from collections.abc import Iterator

import pytest

from crm import CRMApp
from crm.storage.session import TenantSession
from tests.conftest import OLENA


@pytest.fixture
def acme(crm: CRMApp) -> Iterator[TenantSession]:
    """A session at acme in Olena's name."""
    with crm.tenants.session("acme") as session:
        session.user_id = OLENA
        yield session
