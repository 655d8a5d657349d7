"""The disk of the database server is really full: a small one, mounted here, has the database.

What was acknowledged stays, reads go on, writes are refused with one word, and all goes on without
a restart once there is room.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import Api
from tests.database_cases import open_installation, open_tenant
from tests.faults.test_full_disk import Disk, mounted
from tests.page_client import Person
from tests.postgres_server import Postgres

pytestmark = pytest.mark.process


@pytest.fixture
def server() -> Iterator[Postgres]:
    with Postgres() as server:
        yield server


@pytest.fixture
def disk(server: Postgres) -> Iterator[Disk]:
    with mounted(server.folder / "disk", "64m") as disk:
        yield disk
        server.stop("immediate")


def test_a_full_disk_of_the_server_refuses_writes_alone(
    server: Postgres, disk: Disk, tmp_path: Path, caplog
):
    folder = disk.path / "tables"
    folder.mkdir()
    if server.user:
        os.chown(folder, server.user.pw_uid, server.user.pw_gid)
    server.execute(f"CREATE TABLESPACE small LOCATION '{folder}'")
    server.execute("CREATE DATABASE crm TABLESPACE small")
    crm = open_installation(tmp_path / "data", server.url("crm"))
    api = Api(crm, "acme", open_tenant(crm, "acme"))
    lead = api.create("/leads", name="Ivan", phone="+380501112233", comment="x" * 2000)
    disk.fill()
    accepted = []
    for number in range(500):
        name = f"Petro {number}"
        answer = api.post("/leads", {"name": name, "phone": "+380501112234",
                                     "comment": os.urandom(900).hex()})  # fmt: skip
        if answer.status_code != 201:
            break
        accepted.append(name)
    assert (answer.status_code, answer.json["code"]) == (503, "storage_full")
    assert answer.headers["Retry-After"] == "60"
    said = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
    assert sum("No space left on device (53100)" in line for line in said) == 1, said
    assert said[0].startswith("the database crm refuses requests: could not extend file")
    page = Person(crm).get("/login")
    assert page.status_code in (200, 302, 503)
    assert api.read(f"/leads/{lead}")["name"] == "Ivan"
    assert api.read("/leads?limit=1")
    answer = crm.test_client().get("/readyz")
    assert (answer.status_code, answer.json) == (200, {"status": "ok"})  # it can be read
    disk.free()
    api.create("/leads", name="Later", phone="+380501112234")
    names = {lead["name"] for lead in api.read("/leads?limit=100")}
    assert {"Later", "Ivan", *accepted[-90:]} <= names and f"Petro {number}" not in names
    crm.tenants.forget_idle()
