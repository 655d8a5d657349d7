"""Without CRM_DATABASE nothing of PostgreSQL is used, or imported.

peewee imports psycopg by itself where it is installed; the CRM's own modules and the pool are what
tells.
"""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.server_process import ROOT

SERVE_A_REQUEST = """
import sys
from pathlib import Path
from crm import create_app
from crm.resources import tenant
from tests.installations import config_for
app = create_app(config_for(Path(sys.argv[1])), sends=False)
tenant.open_tenant(app.tenants, "acme")
assert app.test_client().get("/api/v1/docs", base_url="http://acme.localhost").status_code == 200
names = ("crm.storage.postgres.", "crm.copies.schema_store", "psycopg_pool")
print(*sorted(name for name in sys.modules if name.startswith(names)))
"""


@pytest.mark.process
@pytest.mark.files
def test_no_other_engine_is_imported_without_the_setting(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SERVE_A_REQUEST, str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        env={"PATH": "/usr/bin"},
    )
    assert (done.returncode, done.stdout.strip()) == (0, ""), done.stderr
