"""Files that are made once: on the disk before they have their names, and names with their folder.

The order of the system calls of a real process is traced, as a power cut would see it.
"""

import logging
import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from crm import create_app
from crm.copies import backup, stores
from crm.installation.tenants import Tenants
from crm.resources import tenant
from crm.storage.engine import BASE_HOST_FILE
from tests.concurrency import run_in_threads
from tests.copies import create_copy
from tests.installations import config_for

pytestmark = pytest.mark.files

UNUSABLE = {"empty": b"", "cut": b"a" * 16, "long": b"a" * 64}


class Trace:
    """What was synced and named, in order."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch):
        self.steps: list[tuple[str, str]] = []
        fsync, mkdir = os.fsync, Path.mkdir

        def traced_fsync(descriptor: int) -> None:
            self.steps.append(("sync", os.readlink(f"/proc/self/fd/{descriptor}")))
            fsync(descriptor)

        def traced_mkdir(path: Path, *how: object, **more: object) -> None:
            mkdir(path, *how, **more)
            self.steps.append(("folder", str(path)))

        monkeypatch.setattr(os, "fsync", traced_fsync)
        monkeypatch.setattr(Path, "mkdir", traced_mkdir)
        for name in ("link", "replace"):
            monkeypatch.setattr(os, name, self._trace_names(getattr(os, name)))

    def _trace_names(self, rename: Callable[[Path, Path], None]) -> Callable[[Path, Path], None]:
        def traced(source: Path, to: Path) -> None:
            rename(source, to)
            self.steps.append(("name", f"{source} {to}"))

        return traced

    def is_safe(self, path: Path) -> bool:
        """Was the file synced before it had its name, and its folder after?"""
        names = [at for at, (what, which) in enumerate(self.steps)
                 if what == "name" and which.endswith(f" {path}")]  # fmt: skip
        assert names, self.steps
        before, after = self.steps[: names[-1]], self.steps[names[-1] :]
        source = self.steps[names[-1]][1].split()[0]
        return ("sync", source) in before and ("sync", str(path.parent)) in after

    def folders_are_safe(self) -> bool:
        """Was the folder above each new one synced after?"""
        return all(
            ("sync", str(Path(which).parent)) in self.steps[at:]
            for at, (what, which) in enumerate(self.steps)
            if what == "folder"
        )


@pytest.fixture
def trace(monkeypatch):
    return Trace(monkeypatch)


def test_the_secret_key_is_synced_before_it_has_its_name(tmp_path, trace):
    tenants = Tenants(config_for(tmp_path / "data"))
    key = tenants.secret_key()
    assert len(key) == 32
    assert trace.is_safe(tmp_path / "data" / "secret.key")
    assert trace.folders_are_safe()
    assert tenants.secret_key() == key == (tmp_path / "data" / "secret.key").read_bytes()
    assert (tmp_path / "data" / "secret.key").stat().st_mode & 0o777 == 0o600
    assert os.listdir(tmp_path / "data") == ["secret.key"]


@pytest.mark.parametrize("how", UNUSABLE)
def test_an_unusable_key_is_made_anew_with_a_line_that_tells_the_cost(tmp_path, how, trace, caplog):
    path = tmp_path / "secret.key"
    path.write_bytes(UNUSABLE[how])
    key = Tenants(config_for(tmp_path)).secret_key()
    assert len(key) == 32 and key == path.read_bytes()
    assert trace.is_safe(path)
    (line,) = caplog.records
    assert line.levelno == logging.WARNING
    for word in ("secret.key has", "made anew", "forms", "limits", "API keys and data"):
        assert word in line.message
    assert Tenants(config_for(tmp_path)).secret_key() == key
    assert len(caplog.records) == 1


def test_a_login_outlives_the_key(crm):
    from tests.page_client import Person

    crm.tenants.secret_key()
    olena = Person(crm, "acme", 1)
    olena.sees("/leads")
    (crm.tenants.config.data / "secret.key").write_bytes(b"")
    other = create_app(crm.tenants.config, crm.tenants.clock, sends=False)
    again = Person(other, "acme")
    again.client.set_cookie("crm_session", olena.cookie("crm_session").value, domain=again.host)
    assert "Acme" in again.sees("/leads")
    assert again.sends("/leads", {"name": "New", "phone": "+380671234569"})
    other.tenants.forget_idle()


def test_installations_that_start_together_make_one_key(tmp_path):
    """Each has an open file of its own, as processes have, so the lock excludes threads too."""
    together = threading.Barrier(8)
    for number in range(20):
        data = tmp_path / str(number)

        def load(_: int, data: Path = data) -> bytes:
            tenants = Tenants(config_for(data))
            together.wait()
            return tenants.secret_key()

        assert set(run_in_threads(8, load)) == {(data / "secret.key").read_bytes()}


def a_new_tenant(tenants: Tenants, _: Path) -> Path:
    tenant.open_tenant(tenants, "initech", owner={"name": "Petro"})
    return tenants.path("initech")


def a_clone(tenants: Tenants, _: Path) -> Path:
    tenant.clone(tenants, "acme", "initech")
    return tenants.path("initech")


def the_base_host(tenants: Tenants, _: Path) -> Path:
    with tenants.session(BASE_HOST_FILE):
        pass
    return tenants.path(BASE_HOST_FILE)


def a_copy(tenants: Tenants, aside: Path) -> Path:
    with tenants.session("acme"):
        return create_copy(aside / "new" / "copies")


def a_restored_tenant(tenants: Tenants, aside: Path) -> Path:
    copy = a_copy(tenants, aside)
    backup.restore(tenants, copy, "acme", lambda: 0)
    return tenants.path("acme")


@pytest.mark.parametrize("make", [a_new_tenant, a_clone, the_base_host, a_copy, a_restored_tenant])
def test_what_is_made_is_whole_before_it_is_named_and_its_name_is_synced(
    crm, tmp_path, trace, make
):
    path = make(crm.tenants, tmp_path)
    assert trace.is_safe(path)
    assert trace.folders_are_safe()


def test_a_deleted_tenant_has_its_new_name_on_the_disk(crm, trace):
    kept = stores.delete(crm.tenants, "acme")
    steps = [which for what, which in trace.steps if what == "sync"]
    assert str(kept.parent) in steps and str(crm.tenants.files.folder) in steps
    assert trace.folders_are_safe()
