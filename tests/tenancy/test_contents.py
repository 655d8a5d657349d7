"""Contents of files and papers: stored once, by their SHA-256, in chunks; on either engine."""

import hashlib
import io
import os
import random
from pathlib import Path
from typing import Any

import pytest

from crm.copies import backup, stores
from crm.copies.backup_run import file_state
from crm.errors import NotFound, StorageQuota
from crm.installation.tenants import Tenants
from crm.resources import tenant
from crm.resources.files import record as files
from crm.storage import contents
from crm.storage.contents import CHUNK_BYTES, NAMING_SECONDS
from crm.storage.quota import measure_storage
from crm.storage.session import current_session, execute, transaction
from crm.storage.sqlite.archive_file import copy_before_upgrade
from crm.storage.sqlite.file_contents import contents_path
from tests.concurrency import ForkServer, run_in_threads
from tests.copies import command, create_copy, query
from tests.installations import config_for

DAY = 86_400
LEAD = {"name": "Olena", "phone": "+380671234567"}
MARK = b"\x00\x01 what only this content has \x02"
DATA = MARK + random.Random(1).randbytes(3 * CHUNK_BYTES)  # the same in each process


def add(data: bytes = DATA) -> str:
    sha256, size = current_session().source.contents.add(io.BytesIO(data))
    assert (sha256, size) == (hashlib.sha256(data).hexdigest(), len(data))
    return sha256


def read(sha256: str, *span: int) -> bytes:
    return b"".join(current_session().source.contents.read(sha256, *span))


def is_there(sha256: str) -> bool:
    try:
        return read(sha256) is not None
    except NotFound:
        return False


def stored() -> tuple[int, int]:
    """How many contents and chunks of the current tenant are stored, also incomplete ones."""
    store = current_session().source.contents
    counts = "SELECT (SELECT count(*) FROM file_content), (SELECT count(*) FROM file_chunk)"
    with store._using(writes=True) as connection:
        return connection.execute(counts).fetchall()[0]


def delete_unused() -> None:
    while not current_session().source.contents.delete_unused():
        pass


@pytest.mark.parametrize("size", [0, 1, CHUNK_BYTES, CHUNK_BYTES + 1, 3 * CHUNK_BYTES - 1])
def test_what_was_stored_is_read_in_whole_and_in_ranges(acme, size):
    data = os.urandom(size)
    sha256 = add(data)
    assert read(sha256) == data
    for start, stop in (0, 1), (size // 3, size // 2), (CHUNK_BYTES - 1, CHUNK_BYTES + 1), (9, 5):
        assert read(sha256, start, stop) == data[start:stop]
    assert read(sha256, size // 2) == data[size // 2 :]


def test_a_content_is_stored_once_also_by_many_at_once_and_each_tenant_has_its_own(crm):
    def add_as(label: str) -> str:
        with crm.tenants.session(label):
            return add()

    assert len(set(run_in_threads(6, lambda number: add_as("acme")))) == 1
    assert add_as("acme") == add_as("acme")
    with crm.tenants.session("acme"):
        assert stored() == (1, 4)
        sha256 = add()
    with crm.tenants.session("globex"):
        assert not is_there(sha256)


def test_what_breaks_off_leaves_nothing(acme):
    class Broken(io.BytesIO):
        def read(self, count: int | None = -1) -> bytes:
            if self.tell() == 2 * CHUNK_BYTES and self.has_told_size:
                raise ConnectionError
            self.has_told_size = self.tell() == len(DATA) or self.has_told_size
            return super().read(count)

    broken = Broken(DATA)
    broken.has_told_size = False
    with pytest.raises(ConnectionError):
        acme.source.contents.add(broken)
    assert stored() == (0, 0)


def add_large_files(data: str) -> None:
    """Add 8 x 20 MiB at once; exits with an error if that takes too much memory."""
    tenants, peaks = Tenants(config_for(Path(data))), []

    def resident() -> int:
        with open("/proc/self/statm") as statm:
            return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    def add_one(number: int) -> None:
        with open(f"{data}/large{number}", "rb") as file, tenants.session("acme") as session:
            sha256, size = session.source.contents.add(file)
            peaks.append(resident())
            assert sum(map(len, session.source.contents.read(sha256))) == size
            peaks.append(resident())

    with tenants.session("acme"):
        add(b"warm")
    before = resident()
    run_in_threads(8, add_one)
    assert max(peaks) - before < 60 << 20, (before, peaks)


@pytest.mark.process
def test_eight_that_store_20_mib_at_once_take_a_chunk_each(crm):
    data = crm.tenants.config.data
    for number in range(8):
        (data / f"large{number}").write_bytes(os.urandom(20 << 20))
    crm.tenants.forget_idle()
    with ForkServer(__name__) as worker:
        assert worker.call("add_large_files", data) == 0


# Which are deleted


def test_what_no_row_names_goes_after_a_day_and_what_was_added_again_stays(acme, api, clock):
    api.create("/leads", **LEAD)
    files.add("lead", 1, io.BytesIO(b"in use"), "x")
    named = hashlib.sha256(b"in use").hexdigest()
    unused, again = add(), add(b"added again")
    delete_unused()
    clock.tick(DAY + 1)
    assert add(b"added again") == again
    delete_unused()
    assert [is_there(sha256) for sha256 in (named, unused, again)] == [True, False, True]
    assert stored() == (2, 2)
    assert add() == unused and read(unused) == DATA  # as if it had never been there
    with transaction():
        execute("DELETE FROM file")
    for _ in range(2):
        clock.tick(DAY + 1)
        delete_unused()
    assert stored() == (0, 0)


def test_a_sweep_of_the_tenant_deletes_them_in_bounded_pieces(crm, clock, monkeypatch):
    monkeypatch.setattr(contents, "CHECKED_CONTENTS", 2)
    monkeypatch.setattr(contents, "MAX_DELETIONS", 2)
    with crm.tenants.session("acme"):
        for number in range(5):
            add(b"%d" % number)
    for _ in range(2):
        clock.tick(DAY + 1)
        with crm.tenants.session("acme"):
            pass
    with crm.tenants.session("acme", sweeps_expired=False):
        assert stored() == (0, 0)


def test_what_is_added_while_others_are_deleted_is_there(crm, clock):
    def work(number: int) -> str | None:
        with crm.tenants.session("acme", sweeps_expired=False):
            return add(b"again and again") if number % 2 else delete_unused()

    for _ in range(20):
        with crm.tenants.session("acme", sweeps_expired=False):
            delete_unused()
            clock.tick(DAY + 1)  # now it is due, if it is there
            *_, sha256 = run_in_threads(4, work)
            assert is_there(sha256)


@pytest.mark.files
def test_an_erasure_removes_them_from_the_bytes_of_the_files(crm, api, clock):
    api.create("/leads", **LEAD)
    with crm.tenants.session("acme"):
        files.add("lead", 1, io.BytesIO(DATA), "x")
    folder = crm.tenants.files.folder

    def has_bytes() -> bool:
        return any(MARK in path.read_bytes() for path in folder.glob("acme.*"))

    assert has_bytes()
    clock.tick(NAMING_SECONDS + 1)
    with crm.tenants.session("acme") as session:
        new = add(b"a row is about to name it")
        with transaction():
            execute("DELETE FROM file")
        session.source.contents.erase_unused()
        assert is_there(new)
        assert stored() == (1, 1)
    assert not has_bytes()


def test_they_count_for_the_quota(crm, clock):
    storage = {"start": 2, "base": 20, "pro": 0, "business": 0}
    crm.tenants = Tenants(config_for(crm.tenants.config.data, storage=storage), clock)
    with crm.tenants.session("acme"):
        tenant.change_plan("start")
        before = measure_storage().used
        add()
        assert measure_storage().used - before > len(DATA)
        with pytest.raises(StorageQuota) as refused:
            add(os.urandom(3 << 20))
        assert stored() == (1, 4)
        assert refused.value.more["used_bytes"] < 2 << 20
        add()  # it is there


# Copies, and all that is made of them


@pytest.fixture
def filled(crm, api) -> str:
    """Acme with a content that a row names; its SHA-256."""
    api.create("/leads", **LEAD)
    with crm.tenants.session("acme"):
        files.add("lead", 1, io.BytesIO(DATA), "x")
    return hashlib.sha256(DATA).hexdigest()


def has(crm, label: str, sha256: str) -> bool:
    """Whether a tenant has the content and none is missing."""
    with crm.tenants.session(label, sweeps_expired=False) as session:
        assert session.source.contents.list_missing() == []
        return is_there(sha256) and read(sha256) == DATA


def test_a_copy_a_clone_and_the_trash_have_them(crm, filled, copies):
    def copy(label: str) -> Any:
        with crm.tenants.session(label):
            return create_copy(copies)

    made = copy("acme")
    command(crm, "backup", "verify", made)
    report = command(crm, "backup", "test-restore", "--from", copies).stdout
    assert "acme\tfile_content\t1\t1" in report and "acme\tfile\t1\t1" in report
    tenant.clone(crm.tenants, "acme", "hooli")
    assert has(crm, "hooli", filled)
    # What was there before a restore, a new tenant of the label, and the trash
    restored = backup.restore(crm.tenants, copy("globex"), "acme", lambda: None)
    stores.delete(crm.tenants, "acme")
    tenant.open_tenant(crm.tenants, "acme")
    with crm.tenants.session("acme"):
        assert stored() == (0, 0)
    for whole in (made, restored.before):
        backup.restore(crm.tenants, whole, "acme", lambda: None)
        assert has(crm, "acme", filled)
    trashed = stores.delete(crm.tenants, "acme")
    assert not list((crm.tenants.config.data / "tenants").glob("acme*.db*"))
    backup.restore(crm.tenants, trashed, "initech", lambda: None)
    assert has(crm, "initech", filled)
    query(made, "UPDATE file SET sha256 = 'gone'")
    assert "1 contents" in command(crm, "backup", "verify", made, code=1).output


@pytest.mark.files
def test_a_copy_from_before_an_upgrade_keeps_those_that_are_there(crm, filled, tmp_path):
    here = crm.tenants.tenant("acme")
    connection = here.take(writes=True)
    upgrades_copy = tmp_path / "acme-20260101T000000Z.db"
    copy_before_upgrade(connection, upgrades_copy)
    here.give(connection, writes=True)
    backup.restore(crm.tenants, upgrades_copy, "acme", lambda: None)
    assert has(crm, "acme", filled)


@pytest.mark.files
def test_a_file_changed_by_a_content_alone_is_copied_again(crm, filled, copies):
    here = crm.tenants.tenant("acme")
    before = file_state(here.path), file_state(here.contents.path)
    with crm.tenants.session("acme"):
        add(b"another")
    crm.tenants.forget_idle()
    assert file_state(here.contents.path) != before[1]


@pytest.mark.files
def test_those_of_a_damaged_tenant_are_kept_beside_it_and_restored_from_there(
    crm, filled, copies, tmp_path
):
    with crm.tenants.session("acme"):
        whole = create_copy(copies)
    query(whole, "DELETE FROM file_chunk", "DELETE FROM file_content")
    crm.tenants.forget_idle()
    path = crm.tenants.path("acme")
    path.write_bytes(b"damaged" * 1000)
    trashed = stores.delete(crm.tenants, "acme")
    assert trashed.read_bytes() == b"damaged" * 1000
    assert not list(path.parent.glob("acme*.db*"))
    copy = tmp_path / "acme-20260101T000000Z.db"
    whole.rename(copy)
    contents_path(trashed).rename(contents_path(copy))
    command(crm, "backup", "verify", copy)
    backup.restore(crm.tenants, copy, "acme", lambda: None)
    assert has(crm, "acme", filled)
