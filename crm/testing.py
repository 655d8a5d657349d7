"""A pytest fixture for programs that embed the CRM; pytest finds it where the CRM is installed.

Every run of pytest there imports this module, so the CRM is imported by the fixture.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from crm import CRM


@pytest.fixture
def crm_tenant(tmp_path: Path) -> Iterator["CRM"]:
    """A CRM with a new tenant `test` of an owner, selected: `crm_tenant.leads.create(name=…)`.

    Its data folder is temporary, whatever `CRM_*` variables say. Nothing is sent. Its API is
    `crm_tenant.app.test_client()`, at the host `test.localhost`.
    """
    from crm import CRM
    from crm.config import Config

    crm = CRM(config=Config(data=tmp_path / "crm"), sends=False)
    crm.create_tenant("test", owner={"name": "Olena", "email": "olena@example.com"})
    with crm.tenant("test", user="olena@example.com"):
        yield crm
    crm.close()
