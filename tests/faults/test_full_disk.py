"""A disk that is really full, and a file system that is really read-only: small ones, mounted here.

What was acknowledged stays, reads go on, writes are refused with one word, nothing is half written,
and all goes on without a restart once there is room.
"""

import contextlib
import errno
import http.client
import io
import json
import os
import re
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from browsing import Person
from conftest import OLENA, Api, key_for

from crm import CRMApp, create_app
from crm.config import Config
from crm.resources import tenant, users
from crm.tenancy.tenants import Tenants
from tests.running import ROOT, running

LABELS = ("open", "closed", "logged", "bare")


class Disk:
    """A file system of its own that can be filled and freed."""

    def __init__(self, path: Path):
        self.path = path
        self._filler = path / "filler"

    def fill(self) -> None:
        with self._filler.open("ab", buffering=0) as file, pytest.raises(OSError) as full:
            while True:
                file.write(bytes(4096))
        assert full.value.errno == errno.ENOSPC

    def free(self) -> None:
        self._filler.unlink(missing_ok=True)

    def remount(self, options: str) -> None:
        subprocess.run(["mount", "-o", f"remount,{options}", str(self.path)], check=True)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    """24 MiB. Where nobody may mount, the test is skipped, in CI it fails."""
    path = tmp_path / "disk"
    path.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", str(path)]
    mounted = subprocess.run(command, capture_output=True, text=True)
    if mounted.returncode:
        why = f"a file system cannot be mounted here: {mounted.stderr.strip()}"
        pytest.fail(why) if os.environ.get("CI") else pytest.skip(why)
    try:
        yield Disk(path)
    finally:
        subprocess.run(["umount", "--lazy", str(path)], check=True)


@pytest.fixture
def keys(disk: Disk) -> dict[str, str]:
    """A data folder on that disk; the key of each tenant. All files are closed.

    The log of `logged` was left by a killed process, and so was that of `bare`, whose index is
    gone.
    """
    data = disk.path / "data"
    app = create_app(Config(data=data), sends=False)
    found = {}
    for label in LABELS:
        tenant.open_tenant(app.tenants, label, plan="business", owner={"name": "Olena"})
        found[label] = key_for(app, label, "*")
        Api(app, label, found[label]).create("/leads", name="Ivan", phone="+380671234567")
    app.tenants.forget_idle()
    for label in ("logged", "bare"):
        killed = (
            f"import os; from crm import create_app; from crm.config import Config\n"
            f"from pathlib import Path; from crm.resources.leads import create\n"
            f"here = create_app(Config(data=Path({str(data)!r})), sends=False).tenants.visit"
            f"({label!r}).__enter__()\n"
            f"create({{'name': 'Late', 'phone': '+380671234568'}})\n"
            f"os.kill(os.getpid(), 9)"
        )
        subprocess.run([sys.executable, "-c", killed], cwd=ROOT, check=False)
        assert (data / "tenants" / f"{label}.db-wal").stat().st_size
    (data / "tenants" / "bare.db-shm").unlink()
    return found


@pytest.fixture
def app(disk: Disk, keys: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> Iterator[CRMApp]:
    """The application upon that folder; of the tenants only `open` is open."""
    monkeypatch.setenv("TMPDIR", str(disk.path))
    found = create_app(Config(data=disk.path / "data"), sends=False)
    Api(found, "open", keys["open"]).read("/leads")
    yield found
    disk.free()
    found.tenants.forget_idle()


def whole(data: Path, label: str) -> None:
    """The file is whole, and so is its search."""
    with closing(sqlite3.connect(data / "tenants" / f"{label}.db")) as file:
        assert file.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert file.execute("PRAGMA foreign_key_check").fetchall() == []
        file.execute("INSERT INTO lead_search (lead_search, rank) VALUES ('integrity-check', 1)")


def write(api: Api) -> Any:
    return api.post("/leads", {"name": "New", "phone": "+380671234569", "comment": "х" * 5000})


def write_until_full(api: Api) -> None:
    """There may be room left in pages that SQLite has already."""
    for _ in range(40):
        answer = write(api)
        if answer.status_code != 201:
            break
    refused(answer)


def refused(answer: Any) -> None:
    assert (answer.status_code, answer.json["code"]) == (503, "storage_full"), answer.text
    assert int(answer.headers["Retry-After"]) > 0


@pytest.mark.parametrize("label", LABELS)
def test_reads_go_on_and_writes_are_refused_whether_a_file_is_open_or_not(
    disk: Disk, app: CRMApp, keys: dict[str, str], label: str
) -> None:
    api = Api(app, label, keys[label])
    disk.fill()
    first = api.read("/leads")
    assert len(first) == (2 if label in ("logged", "bare") else 1)
    write_until_full(api)
    before = api.read("/leads")
    for _ in range(3):
        for path in ("/leads", f"/leads/{first[0]['id']}", "/leads?q=Ivan&sort=name", "/users/me"):
            assert api.get(path).status_code == 200
        assert api.get("/products/export").status_code == 200
        refused(write(api))
        refused(api.patch(f"/leads/{first[0]['id']}", {"comment": "х" * 19_000}))
        table = b"sku,name,price\n" + b"".join(b"s%d,Nut,1\n" % n for n in range(2000))
        refused(
            api.post("/products/import", data={"file": (io.BytesIO(table), "t.csv")})
        )
    assert api.read("/leads") == before
    disk.free()
    assert write(api).status_code == 201
    assert len(api.read("/leads")) == len(before) + 1
    app.tenants.forget_idle()
    whole(disk.path / "data", label)
