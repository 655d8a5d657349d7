"""A tenant's file is copied before its next steps; `migrate`; the way back."""

import contextlib
import json
import os
import re
import resource
import shlex
import shutil
import threading
from functools import partial
from pathlib import Path

import pytest

from crm.copies import backup
from crm.storage import upgrades
from crm.storage.sqlite import archive_file, migrations
from crm.storage.sqlite.connection import connect
from tests import releases
from tests.concurrency import run_in_threads, start_python
from tests.conftest import Api
from tests.copies import command, list_copies_before_upgrades, query
from tests.readme import blocks, read, run
from tests.server_process import find_free_port
from tests.waiting import wait_for

pytestmark = pytest.mark.files

KNOWN = len(migrations.STEPS)
PHONE = "+380671234567"
STEP = ("next.sql", ["CREATE TABLE next (id INTEGER) STRICT"])
DIE = """
import os, sqlite3, sys
from pathlib import Path
from tests.installations import config_for
from crm.storage.sqlite import archive_file, migrations
from crm.installation.tenants import Tenants
migrations.STEPS.append(("next", ["CREATE TABLE next (id INTEGER) STRICT"]))
archive_file.has_mark = lambda *_: os.kill(os.getpid(), 9)
Tenants(config_for(Path(sys.argv[1]))).session("acme").__enter__()
"""


def close_files(crm) -> None:
    """Close every tenant's file, so that the next session opens it and takes the new steps.

    A connection that is in use at this moment comes back later.
    """
    folder = str(crm.tenants.path("acme").parent)

    def are_closed() -> bool:
        crm.tenants.forget_idle()
        return not any(name.startswith(f"{folder}/") for name in open_files())

    wait_for(are_closed, what=lambda: f"{open_files()} of {threading.enumerate()}")


def open_files() -> set[str]:
    names = set()
    for descriptor in os.listdir("/proc/self/fd"):
        with contextlib.suppress(FileNotFoundError):
            names.add(os.readlink(f"/proc/self/fd/{descriptor}"))
    return {name for name in names if ".db" in name}


@pytest.fixture
def steps(crm, monkeypatch):
    """The steps of a release to come."""
    close_files(crm)
    results = list(migrations.STEPS)
    monkeypatch.setattr(migrations, "STEPS", results)
    return results


def upgrade(api, steps, clock, number: int) -> None:
    """Open acme with one step more, a minute later."""
    close_files(api.crm)
    clock.tick(60)
    steps.append((f"{number}", [f"CREATE TABLE next_{number} (id INTEGER) STRICT"]))
    assert api.get("/leads").status_code == 200


def copy_names(crm, label: str = "acme") -> list[str]:
    """The names of a tenant's copies, that of the oldest version first."""
    return [
        path.name for path in reversed(list_copies_before_upgrades(crm.tenants.config.data, label))
    ]


@contextlib.contextmanager
def no_file_beyond(size: int):
    """As on a full disk: nothing can be written beyond that many bytes of a file."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


# The copy


def test_a_file_is_copied_before_its_next_step(crm, api, steps):
    api.create("/leads", name="In the log", phone=PHONE)
    close_files(crm)
    steps.append(("next", ["CREATE TABLE next (id INTEGER) STRICT", "DELETE FROM lead"]))
    assert api.read("/leads") == []
    (copy,) = list_copies_before_upgrades(crm.tenants.config.data, "acme")
    assert copy.name == f"acme-v{KNOWN}-20260302T090000Z.db"
    assert copy.stat().st_mode & 0o777 == 0o600
    assert {parent.stat().st_mode & 0o777 for parent in copy.parents[:2]} == {0o700}
    assert backup.check_copy(copy) == KNOWN
    assert query(copy, "SELECT name FROM lead") == [("In the log",)]
    assert [path.name for path in copy.parent.iterdir()] == [copy.name]


def test_a_new_tenant_and_one_that_is_up_to_date_have_no_copy(crm, api):
    close_files(crm)
    crm.tenants.create("new")
    assert api.read("/leads") == []
    with crm.tenants.session("new"):
        pass
    assert not (crm.tenants.config.data / "upgrades").exists()


def test_of_many_requests_at_once_one_makes_the_copy_and_all_are_answered(crm, api, steps):
    steps.append(STEP)
    answers = run_in_threads(8, lambda _: Api(crm, "acme", api.key).get("/leads").status_code)
    assert answers == [200] * 8
    assert len(copy_names(crm)) == 1


def test_the_copies_of_the_two_newest_versions_stay(crm, api, steps, clock):
    for number in range(3):
        upgrade(api, steps, clock, number)
    shutil.copy(crm.tenants.path("globex"), crm.tenants.path("acme-2"))
    close_files(crm)
    with crm.tenants.session("acme-2"):
        pass
    assert set(copy_names(crm)) == {
        f"acme-v{KNOWN + 1}-20260302T090200Z.db",
        f"acme-v{KNOWN + 2}-20260302T090300Z.db",
    }
    assert copy_names(crm, "acme-2") == [f"acme-2-v{KNOWN}-20260302T090300Z.db"]


@pytest.mark.process
def test_a_process_killed_while_copying_leaves_the_file_as_it_was(crm, api):
    close_files(crm)
    died = start_python(DIE, crm.tenants.config.data)
    output = died.communicate()
    assert died.returncode == -9, output
    assert query(crm.tenants.path("acme"), "PRAGMA user_version") == [(KNOWN,)]
    folder = upgrades.folder(crm.tenants.config.data, "acme")
    assert [path.name for path in folder.iterdir()] == [".new"]
    path = crm.tenants.path("acme")
    with crm.tenants.tenant("acme").lock(), contextlib.closing(connect(path)) as file:
        write = partial(archive_file.copy_before_upgrade, file)
        copy = upgrades.keep_archive(crm.tenants.tenant("acme"), KNOWN, write)
    assert list(folder.iterdir()) == [copy]


# When there can be no copy


def is_unchanged(crm, label: str = "acme") -> bool:
    path = crm.tenants.path(label)
    folder = upgrades.folder(crm.tenants.config.data, "acme")
    left = list(folder.iterdir()) if folder.is_dir() else []
    return query(path, "PRAGMA user_version") == [(KNOWN,)] and not left


def test_without_room_for_the_copy_nothing_is_touched(crm, api, ivan, steps):
    steps.append(STEP)
    with no_file_beyond(100_000):
        refused = api.get("/leads")
        assert (refused.status_code, refused.json["code"]) == (503, "not_upgraded")
        assert refused.json["detail"].startswith(
            "acme is not upgraded: no copy of it can be made first: "
        )
        assert api.post("/leads", {"name": "x", "phone": PHONE}).status_code == 503
        assert is_unchanged(crm)
    assert api.get("/leads").status_code == 200
    assert ivan.get("/leads").status_code == 200


def test_a_copy_that_would_fill_the_disk_or_is_not_whole_stops_the_upgrade(
    crm, api, steps, monkeypatch
):
    steps.append(STEP)
    size, usage = crm.tenants.path("acme").stat().st_size, shutil.disk_usage(".")
    check = archive_file.has_mark

    def half(copy: Path) -> bool:
        os.truncate(copy, copy.stat().st_size // 8192 * 4096)
        return check(copy)

    with monkeypatch.context() as small:
        small.setattr(shutil, "disk_usage", lambda path: usage._replace(free=size + 4096))
        refused = api.get("/leads")
        assert refused.json["detail"].endswith(": there is no room for it on the disk")
        assert is_unchanged(crm)
    with monkeypatch.context() as cut:
        cut.setattr(archive_file, "has_mark", half)
        assert api.get("/leads").json["code"] == "not_upgraded"
        assert is_unchanged(crm)
    assert api.get("/leads").status_code == 200


# The command


def test_migrate_reports_each_file_and_how_long_it_took(crm, steps):
    crm.tenants.create("later")
    close_files(crm)
    steps.append(STEP)
    with crm.tenants.session("later"):
        pass
    result = command(crm, "migrate", "--dry-run")
    behind = f"version {KNOWN} of {KNOWN + 1}"
    assert result.stdout == f"acme: {behind}\nglobex: {behind}\n"
    assert result.stderr.splitlines()[1] == "2 of 3 to migrate"
    assert query(crm.tenants.path("globex"), "PRAGMA user_version") == [(KNOWN,)]
    result = command(crm, "migrate")
    now = KNOWN + 1
    was = f"version {now}, was {KNOWN}\n"
    assert result.stdout == f"acme: {was}globex: {was}later: version {now}\n"
    assert result.stderr.splitlines()[1] == "2 of 3 migrated"


def test_a_damaged_or_newer_file_does_not_stop_the_others(crm):
    close_files(crm)
    crm.tenants.path("acme").write_bytes(b"not a database " * 1000)
    crm.tenants.create("later")
    with contextlib.closing(connect(crm.tenants.path("later"))) as file:
        file.execute("PRAGMA user_version = 99")
    for words in (("migrate",), ("migrate", "--dry-run")):
        result = command(crm, *words, code=1)
        assert "globex: version" in result.stdout or "--dry-run" in words
        assert "acme: the file of acme cannot be used: " in result.stderr
        assert (
            f"later: the file of later has version 99, this release knows {KNOWN}" in result.stderr
        )
        assert result.stderr.endswith(": acme, later\n")


# The way back


def test_the_release_before_reads_the_copies_and_not_the_files(crm, api, ivan, steps, clock):
    """By the command of the guide."""
    for caller in (api, ivan):
        caller.create("/leads", name="Before", phone=PHONE)
    with crm.tenants.session("_front"):
        pass
    close_files(crm)
    steps.append(STEP)
    for caller in (api, ivan):
        caller.create("/leads", name="After", phone=PHONE)
    with crm.tenants.session("_front"):
        pass
    crm.tenants.create("later")
    del steps[-1]  # the code of the release before
    crm.tenants.create("unchanged")
    close_files(crm)
    assert api.get("/leads").json["code"] == "newer_file"
    data = crm.tenants.config.data
    (back,) = re.findall(r"^.*/crm (restore --all .*)$", blocks(read("upgrading"))[-1], re.M)
    words = shlex.split(back.replace("/var/lib/crm", str(data)))
    result = command(crm, *words[: words.index("--data")], code=1)
    assert "unchanged: not changed, this release can read it" in result.stdout
    refused = f"later: it has version {KNOWN + 1}, and {data}/upgrades has no copy of a version up"
    assert result.stderr.splitlines()[1].startswith(refused)
    assert result.stderr.endswith("Error: these could not be restored: later\n")
    for caller in (api, ivan):
        assert [lead["name"] for lead in caller.read("/leads")] == ["Before"]
    assert query(crm.tenants.path("_front"), "PRAGMA user_version") == [(KNOWN,)]
    assert len(list((data / "trash").glob("*.before-*.db"))) == 3
    again = command(crm, *words[: words.index("--data")], code=1).stdout.splitlines()
    assert len(again) == 4 and all(" not changed" in line for line in again)


def test_a_return_takes_the_copy_of_the_newest_version_that_is_known(crm, api, steps, clock):
    for number in range(2):
        api.create("/leads", name=f"By version {KNOWN + number}", phone=PHONE)
        upgrade(api, steps, clock, number)
    steps.pop()
    data = crm.tenants.config.data
    command(crm, "restore", "--all", "--from", data / "upgrades", "--yes")
    assert len(api.read("/leads")) == 2
    assert query(crm.tenants.path("acme"), "PRAGMA user_version") == [(KNOWN + 1,)]


def test_all_tenants_are_restored_from_a_folder_of_backups(crm, api, ivan, clock):
    data = crm.tenants.config.data
    copies = data / "copies"
    command(crm, "backup", "create", "acme", "--to", copies)
    (old,) = copies.glob("acme-*")
    old.rename(copies / "acme-20200101T000000Z.db")
    for caller in (api, ivan):
        caller.create("/leads", name="In the copy", phone=PHONE)
    command(crm, "backup", "create", "--to", copies)
    for caller in (api, ivan):
        caller.create("/leads", name="Later", phone=PHONE)
    _, restored = sorted(copies.glob("acme-*"))
    (damaged,) = copies.glob("globex-*")
    damaged.write_bytes(damaged.read_bytes()[:8192])
    close_files(crm)
    words = ("restore", "--all", "--from", copies)
    for answer in ("n\n", ""):
        assert (
            "Replace tenants by their copies in" in command(crm, *words, code=1, sent=answer).stderr
        )
    assert len(api.read("/leads")) == 2
    result = command(crm, *words, code=1, sent="y\n")
    assert [line for line in result.stdout.splitlines() if "file from before" not in line] == [
        f"acme is restored from {restored}"
    ]
    assert result.stderr.endswith("Error: these could not be restored: globex\n")
    assert str(damaged) in result.stderr
    assert [lead["name"] for lead in api.read("/leads")] == ["In the copy"]
    assert len(ivan.read("/leads")) == 2
    assert len(list((data / "trash").glob("*"))) == 1


@pytest.mark.parametrize("words", [("--all",), ("--all", "--from", "copies", "acme"), ("acme",)])
def test_what_to_restore_must_be_said_wholly(crm, words):
    result = command(crm, "restore", *words, code=2)
    assert result.stderr.endswith("Error: either TENANT and FILE, or --all --from DIR\n")


@pytest.mark.process
@pytest.mark.deep
def test_the_guides_commands_bring_a_frozen_release_up_to_date(tmp_path):
    """The lines as they stand, on a file of the first frozen release, beside no other server; the
    first line is the old release's."""
    result = releases.unpack("0.1.0a3", tmp_path / "frozen.db")
    releases.install(tmp_path / "frozen.db", tmp_path / "data")
    (was,) = query(tmp_path / "frozen.db", "PRAGMA user_version")[0]
    _, before, _ = blocks(read("upgrading"))
    by_the_old, before = before.split("\n", 1)
    assert "backup create" in by_the_old
    port = find_free_port()
    headers = f"-H 'Host: acme.localhost' -H 'Authorization: Bearer {result['key']}'"
    asked = f"curl --fail {headers} http://127.0.0.1:{port}/api/v1/users/me"
    said = run(f"{before.replace('.venv/bin/pip', ': pip')}\n{asked}", tmp_path, port)
    assert json.loads(said.strip().splitlines()[-1])["tenant"]["name"] == "Меблі «Затишок» і Ко"
    copies = list_copies_before_upgrades(tmp_path / "data", "acme")
    assert f"acme: version {was} of {KNOWN}\nacme: version {KNOWN}, was {was}\n" in said
    assert [path.name.split("-")[1] for path in copies] == [f"v{was}"]
