"""Files that wait between two pages: for one session of one tenant, for an hour, a few at most."""

import os
import stat

import pytest

from crm.errors import NotFound
from crm.storage import uploads
from tests.waiting_uploads import names_of_uploads


@pytest.fixture
def folder(crm):
    return crm.tenants.config.data / "uploads"


def test_another_session_and_another_tenant_find_nothing(crm, acme):
    name = uploads.save(1, b"sku")
    with pytest.raises(NotFound):
        uploads.read(2, name)
    uploads.delete(2, name)
    with crm.tenants.session("globex"), pytest.raises(NotFound):
        uploads.read(1, name)
    assert uploads.read(1, name) == b"sku"


@pytest.mark.parametrize(
    "name", ["", "x", "../../tenants/acme.db", "..%2f", "0" * 31, "0" * 33, "0" * 32 + "\n"]
)
def test_only_a_name_that_was_given_reaches_a_file(acme, name):
    for ask in (uploads.read, uploads.delete):
        with pytest.raises(NotFound):
            ask(1, name)


@pytest.mark.files
def test_nobody_else_on_the_machine_may_read_it(acme, folder):
    uploads.save(1, b"sku")
    (file,) = folder.iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_it_is_taken_once_and_waits_on_when_its_taker_fails(acme, crm):
    name = uploads.save(1, b"sku")
    with pytest.raises(ZeroDivisionError), uploads.claim(1, name):
        raise ZeroDivisionError
    with uploads.claim(1, name) as data:
        assert data == b"sku"
        with pytest.raises(NotFound), uploads.claim(1, name):
            pass
    with pytest.raises(NotFound):
        uploads.read(1, name)
    assert not names_of_uploads(crm.tenants)


def test_it_waits_for_an_hour(acme, clock, crm):
    name = uploads.save(1, b"sku")
    clock.tick(3599)
    assert uploads.read(1, name)
    clock.tick(1)
    with pytest.raises(NotFound):
        uploads.read(1, name)
    uploads.save(2, b"another")
    assert len(names_of_uploads(crm.tenants)) == 1


def test_the_newest_of_a_session_stay(acme, clock):
    names = []
    for n in range(4):
        names.append(uploads.save(1, b"%d" % n))
        clock.tick(1)
    others = uploads.save(12, b"other")
    assert [uploads.read(1, name) for name in names[1:]] == [b"1", b"2", b"3"]
    assert uploads.read(12, others)
    with pytest.raises(NotFound):
        uploads.read(1, names[0])


def test_a_tenant_has_room_for_thirty(acme, clock, crm):
    for session in range(32):
        uploads.save(session, b"")
        clock.tick(1)
    names = names_of_uploads(crm.tenants)
    assert len(names) == uploads.MAX_PER_TENANT
    assert not [name for name in names if name.startswith(("acme.0.", "acme.1."))]


@pytest.mark.files
def test_a_full_disk_is_told_and_leaves_nothing(acme, folder, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "utime", full)
    with pytest.raises(OSError, match="No space left"):
        uploads.save(1, b"sku")
    assert not list(folder.iterdir())
