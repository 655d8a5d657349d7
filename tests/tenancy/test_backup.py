"""Copies of tenants and the way back: real files, and a real server beside the command line."""

import contextlib
import os
import re
import shutil
import sqlite3
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from crm.copies import backup, backup_run, stores
from crm.copies.tenant_store import FileStore
from crm.errors import Busy, StorageFull
from crm.installation.tenants import Tenants
from crm.outbox import deliveries
from crm.outbox.subscriptions import hold_all_deliveries
from crm.resources import export, tenant, webhooks
from crm.resources.leads.record import LEAD, create
from crm.storage.session import transaction
from crm.storage.sqlite import archive_file, connection, migrations
from crm.storage.sqlite.archive_file import UNMARKED
from tests import external_programs
from tests.concurrency import start_python, wait_for_processes
from tests.copies import command, create_copy, query
from tests.installations import on_postgres
from tests.readme import blocks, run, section
from tests.tables import file_of, lead_names
from tests.waiting import wait_for

PHONE = "+380671234567"


def make_copy(crm, label: str, to: Path, keep: int = backup_run.MAX_COPIES) -> Path:
    with crm.tenants.session(label):
        return create_copy(to, keep)


def restore(crm, copy: Path, label: str) -> backup.Restored:
    return backup.restore(crm.tenants, copy, label, hold_all_deliveries)


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.name != backup_run.INDEX_NAME)


# Copies


def test_a_copy_has_all_that_is_committed_and_is_the_owners_only(crm, api, copies):
    api.create("/leads", name="In the log", phone=PHONE)
    before = os.umask(0)
    try:
        copy = make_copy(crm, "acme", copies)
    finally:
        os.umask(before)
    assert copy == copies / "acme-20260302T090000Z.db"
    assert copy.stat().st_mode & 0o777 == 0o600
    assert copies.stat().st_mode & 0o777 == 0o700
    assert files(copies) == [copy.name]
    assert query(copy, "SELECT name FROM lead") == [("In the log",)]
    assert backup.check_copy(copy) == len(migrations.STEPS)


def test_the_newest_of_each_label_stay(crm, clock, copies):
    for _ in range(4):
        make_copy(crm, "acme", copies, keep=2)
        clock.tick(60)
    crm.tenants.create("acme-2")
    make_copy(crm, "acme-2", copies, keep=1)
    (copies / "acme-notes.db").touch()
    assert files(copies) == [
        *("acme-2-20260302T090400Z.db", "acme-20260302T090200Z.db"),
        *("acme-20260302T090300Z.db", "acme-notes.db"),
    ]
    clock.tick(-3600)  # also one made by a clock that went back
    newest = make_copy(crm, "acme", copies, keep=1)
    assert files(copies) == ["acme-2-20260302T090400Z.db", newest.name, "acme-notes.db"]


@pytest.mark.files
def test_when_the_new_copy_fails_or_is_not_good_older_ones_stay_and_nothing_else(
    crm, clock, copies, monkeypatch
):
    old = make_copy(crm, "acme", copies)
    clock.tick(60)

    def no(path, name=""):
        raise archive_file.BadCopy("no")

    def no_room(connection: sqlite3.Connection, to: Path) -> None:
        to.touch()
        Path(f"{to}-journal").touch()
        full = sqlite3.OperationalError("database or disk is full")
        full.sqlite_errorcode = sqlite3.SQLITE_FULL
        raise full

    for name, fails, error in (
        ("check_copy", no, archive_file.BadCopy),
        ("copy_pages", no_room, StorageFull),
    ):
        with monkeypatch.context() as patch, pytest.raises(error):
            patch.setattr(archive_file, name, fails)
            make_copy(crm, "acme", copies, keep=1)
        assert files(copies) == [old.name]


@pytest.mark.files
def test_what_a_dead_process_left_unfinished_goes_after_a_day(crm, clock, copies, tmp_path):
    def leave_and(make, folder: Path, name: str) -> list[str]:
        folder.mkdir(exist_ok=True)
        for age, left in (
            (90_000, f"{name}-old"),
            (60, f"{name}-new"),
            (60, f"{name}-new-journal"),
        ):
            (folder / left).touch()
            os.utime(folder / left, (clock() - age, clock() - age))
        make()
        return [left for left in files(folder) if left.startswith(name)]

    new = [".new-gone-new", ".new-gone-new-journal"]
    assert leave_and(lambda: make_copy(crm, "acme", copies), copies, ".new-gone") == new
    clone = lambda: tenant.clone(crm.tenants, "acme", "tryout")  # noqa: E731
    assert leave_and(clone, crm.tenants.files.folder, ".new-gone") == new
    write = lambda: export.write(crm.tenants, "acme", tmp_path / "acme.zip")  # noqa: E731
    assert len(leave_and(write, tmp_path, ".export-acme")) == 2


@pytest.mark.files
def test_a_tenant_that_fails_does_not_stop_the_others(crm):
    crm.tenants.forget_idle()
    crm.tenants.path("acme").write_bytes(b"not a database " * 1000)
    result = command(crm, "backup", "create", code=1)
    (line,) = result.stdout.splitlines()
    path, size = line.split("\t")
    assert Path(path).parent == crm.tenants.config.data / "backups"
    assert Path(path).name.startswith("globex-")
    assert Path(path).stat().st_size == int(size)
    assert "acme: the file of acme cannot be used" in result.stderr
    assert result.stderr.endswith("Error: these tenants could not be copied: acme\n")


# Good copies and bad ones


def test_a_copy_whose_schema_is_no_text_any_more_is_reported(crm, copies):
    bad = make_copy(crm, "acme", copies)
    data = bad.read_bytes()
    at = data.index(b"AUTOINCREMENT")
    bad.write_bytes(data[: at + 6] + b"\xff" * 7 + data[at + 13 :])
    result = command(crm, "backup", "verify", bad, code=1)
    assert "is damaged: its schema is no text" in result.stderr


def damage(path: Path) -> None:
    """Turn the pages in its middle into nonsense."""
    with path.open("r+b") as file:
        file.seek(path.stat().st_size // 2)
        file.write(b"\xff" * 16_384)


def test_verify_changes_nothing_and_leaves_nothing_beside(crm, copies):
    copy = make_copy(crm, "acme", copies)
    os.utime(copy, (1, 1))
    before = copy.read_bytes()
    result = command(crm, "backup", "verify", copy)
    assert result.stdout == f"{copy}\tversion {len(migrations.STEPS)}\t{len(before)}\n"
    assert (copy.read_bytes(), copy.stat().st_mtime) == (before, 1)
    assert files(copies) == [copy.name]


def test_a_bad_copy_is_reported_and_the_others_are_still_verified(crm, copies):
    bad, good = make_copy(crm, "acme", copies), make_copy(crm, "globex", copies)
    damage(bad)
    result = command(crm, "backup", "verify", "--from", copies, code=1)
    assert result.stdout.startswith(f"{good}\t")
    assert result.stdout.count("\n") == 1
    assert f"{bad}: {bad} " in result.stderr
    assert result.stderr.endswith(f"Error: these copies are damaged, or may not be whole: {bad}\n")


@pytest.mark.files
@pytest.mark.parametrize(
    "change",
    [
        "PRAGMA user_version = 99",
        "PRAGMA user_version = 0",
        "DELETE FROM tenant",
        "INSERT INTO contact (client_id, name, created_at, updated_at) VALUES (99, '', '', '')",
    ],
)
def test_what_is_no_tenants_file_is_neither_verified_nor_restored(crm, api, copies, change):
    api.create("/leads", name="Now", phone=PHONE)
    copy = make_copy(crm, "acme", copies)
    query(copy, change)
    before = files(crm.tenants.files.folder)
    with pytest.raises((archive_file.BadCopy, migrations.NewerFile)) as refused:
        backup.check_copy(copy)
    with pytest.raises(type(refused.value)) as again:
        restore(crm, copy, "acme")
    assert str(again.value) == str(refused.value)
    assert lead_names(crm, "acme") == ["Now"]
    assert files(crm.tenants.files.folder) == before
    assert not (crm.tenants.config.data / "trash").exists()


@pytest.mark.files
def test_a_part_of_a_file_is_no_copy(crm, api, copies):
    """As `cp` takes it from a live one: without its log, or with it."""
    api.create("/leads", name="In the log", phone=PHONE)
    live = crm.tenants.path("acme")
    with pytest.raises(archive_file.BadCopy):
        restore(crm, live, "globex")
    copies.mkdir()
    for suffix in (".db", ".db-wal"):
        (copies / f"half{suffix}").write_bytes(live.with_suffix(suffix).read_bytes())
    for refuses in (backup.check_copy, lambda path: restore(crm, path, "globex")):
        with pytest.raises(archive_file.BadCopy, match="a part of it is in half.db-wal"):
            refuses(copies / "half.db")


@pytest.mark.files
def test_what_cp_makes_of_a_file_in_use_is_taken_as_perhaps_not_whole(crm, api, copies):
    api.create("/leads", name="In the log", phone=PHONE)
    copies.mkdir()
    torn = copies / "acme-20261121T065900Z.db"
    torn.write_bytes(crm.tenants.path("acme").read_bytes())
    assert f"{torn}: {UNMARKED}\n" in command(crm, "backup", "verify", torn, code=1).stderr
    told = command(crm, "backup", "test-restore", "--from", copies, code=1).stderr
    assert f"acme: {torn}: {UNMARKED}\n" in told
    told = command(crm, "doctor", "--from", copies).output
    assert f"the newest copy may not be whole of acme: {UNMARKED}\n" in told
    warning = f"warning: {torn}: {UNMARKED}\n"
    told = command(crm, "restore", "acme", torn, sent="n\n", code=1).stderr
    assert f"{warning}Replace acme by" in told
    assert warning in command(crm, "restore", "--all", "--from", copies, "--yes").stderr
    assert lead_names(crm, "acme") == []


@pytest.mark.files
def test_whole_copies_have_a_mark_that_no_file_in_use_and_no_cut_copy_has(crm, api, copies):
    api.create("/leads", name="In the log", phone=PHONE)
    copy = make_copy(crm, "acme", copies)
    by_sqlite = copies / "by-sqlite"
    query(crm.tenants.path("acme"), f"VACUUM INTO '{by_sqlite}'")
    before = restore(crm, copy, "acme").before
    deleted = stores.delete(crm.tenants, "globex")
    for path in (copy, by_sqlite, before, deleted):
        assert archive_file.has_mark(path)
        assert "warning" not in command(crm, "restore", "acme", path, "--yes").stderr
        command(crm, "tenant", "list")  # opens the file
        assert not archive_file.has_mark(crm.tenants.path("acme"))
    for size in (0, 99, 1024, copy.stat().st_size - 1024):
        os.truncate(copy, size)
        assert not archive_file.has_mark(copy)


@pytest.mark.files
def test_a_file_that_has_lost_its_version_is_refused_with_the_way_back(crm, tmp_path):
    file = tmp_path / "early.db"
    query(crm.tenants.path("globex"), f"VACUUM INTO '{file}'")
    query(file, "PRAGMA application_id = 0", "PRAGMA user_version = 0")
    assert "lost its version" in command(crm, "restore", "late", file, code=1).stderr
    query(file, f"PRAGMA user_version = {len(migrations.STEPS)}")
    query(file, f"PRAGMA application_id = {migrations.APPLICATION_ID}")
    command(crm, "restore", "late", file)
    assert lead_names(crm, "late") == []


# The way back


def test_a_restored_tenant_is_as_it_was_and_what_it_was_before_can_be_restored(
    crm, api, clock, copies
):
    api.create("/leads", name="Kept", phone=PHONE)
    copy = make_copy(crm, "acme", copies)
    api.create("/leads", name="Undone", phone=PHONE)
    done = restore(crm, copy, "acme")
    assert [lead["name"] for lead in api.read("/leads")] == ["Kept"]
    assert done.before == crm.tenants.config.data / "trash" / "acme.before-20260302T090000Z.db"
    assert files(done.before.parent) == [done.before.name]
    assert done.before.stat().st_mode & 0o777 == 0o600
    assert query(done.before, "SELECT name FROM lead ORDER BY id") == [("Kept",), ("Undone",)]
    assert api.create("/leads", name="After", phone=PHONE)
    assert lead_names(crm, "acme") == ["Kept", "After"]
    clock.tick(1)
    restore(crm, done.before, "acme")
    assert lead_names(crm, "acme") == ["Kept", "Undone"]


def test_numbers_that_were_given_are_not_given_again(crm, api, copies):
    api.create("/leads", name="Kept", phone=PHONE)
    copy = make_copy(crm, "acme", copies)
    undone = int(api.create("/leads", name="Undone", phone=PHONE))
    client = int(api.create("/clients", name="Undone"))
    last = api.events()[-1]["sequence"]
    restore(crm, copy, "acme")
    assert int(api.create("/leads", name="After", phone=PHONE)) == undone + 1
    assert int(api.create("/clients", name="After")) == client + 1
    after = api.get(f"/events?after={last}").json["data"]
    assert [event["sequence"] for event in after] == [last + 1, last + 2]


def test_ids_are_skipped_that_may_have_been_given_since_the_copy(crm, api, copies):
    """In all tables: the copy has no task."""
    api.create("/leads", name="Before", phone=PHONE)
    copy = make_copy(crm, "acme", copies)
    lost = [api.create("/leads", name="Lost", phone=PHONE), api.create("/tasks", title="Lost")]
    command(crm, "tenant", "delete", "acme", "--yes")
    command(crm, "restore", "acme", copy, "--skip-ids")
    before = api.events()[-1]["sequence"]
    for path, id in zip(("/leads", "/tasks"), lost, strict=True):
        body = {"title": "After"} if path == "/tasks" else {"name": "After", "phone": PHONE}
        assert int(api.create(path, **body)) > int(id) + 900_000
    assert api.events()[-1]["sequence"] > before + 900_000
    assert [lead["name"] for lead in api.read("/leads")] == ["After", "Before"]


def test_a_copy_makes_a_new_tenant(crm, api, copies):
    api.create("/leads", name="Kept", phone=PHONE)
    copy = make_copy(crm, "acme", copies)
    api.create("/leads", name="Later", phone=PHONE)
    for suffix in () if on_postgres() else (".db-wal", ".db-shm"):  # of one that was there
        log = crm.tenants.path("acme").with_suffix(suffix).read_bytes()
        crm.tenants.path("hooli").with_suffix(suffix).write_bytes(log)
    assert restore(crm, copy, "hooli").before is None
    assert lead_names(crm, "hooli") == ["Kept"]
    api.label = "hooli"
    assert api.create("/leads", name="Own", phone=PHONE)
    assert lead_names(crm, "hooli") == ["Kept", "Own"]
    assert lead_names(crm, "acme") == ["Kept", "Later"]


@pytest.mark.files
def test_a_damaged_tenant_is_replaced_and_kept_with_its_log(crm, api, copies):
    api.create("/leads", name="Kept", phone=PHONE)
    copy = make_copy(crm, "acme", copies)
    crm.tenants.forget_idle()
    path = crm.tenants.path("acme")
    path.write_bytes(b"not a database " * 1000)
    path.with_suffix(".db-wal").write_bytes(b"its log")
    done = restore(crm, copy, "acme")
    assert lead_names(crm, "acme") == ["Kept"]
    assert done.before.read_bytes().startswith(b"not a database ")
    assert Path(f"{done.before}-wal").read_bytes() == b"its log"


@pytest.mark.files
def test_a_reader_that_does_not_finish_stops_a_restore_and_nothing_has_changed(
    crm, api, copies, monkeypatch
):
    copy = make_copy(crm, "acme", copies)
    api.create("/leads", name="Now", phone=PHONE)
    path = crm.tenants.path("acme")
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM lead").fetchone()
        api.create("/leads", name="Later", phone=PHONE)
        quick = ("PRAGMA busy_timeout = 100", "PRAGMA foreign_keys = ON")
        monkeypatch.setattr(connection, "PRAGMAS", quick)
        with pytest.raises(Busy):
            restore(crm, copy, "acme")
    assert lead_names(crm, "acme") == ["Now", "Later"]
    assert files(crm.tenants.config.data / "trash") == []
    assert not [name for name in files(crm.tenants.files.folder) if name.startswith(".")]


@pytest.mark.files
def test_a_restore_waits_for_a_writer(crm, copies):
    copy = make_copy(crm, "acme", copies)
    with crm.tenants.session("acme") as here, here.source.lock():
        lock = backup.Tenant("acme", crm.tenants.path("acme"), crm.tenants).lock
        with pytest.raises(Busy):
            lock.acquire(0)
        waiting = threading.Thread(target=restore, args=(crm, copy, "acme"))
        waiting.start()
        waiting.join(0.3)
        assert waiting.is_alive()
        assert not (crm.tenants.config.data / "trash").exists()
    waiting.join(30)
    assert not waiting.is_alive()
    assert files(crm.tenants.config.data / "trash")


def test_what_waited_in_a_copy_is_held_until_somebody_recovers_it(crm, api, copies):
    with crm.tenants.session("acme"):
        id, _ = webhooks.create({"url": "https://erp.example.com/crm"})
    api.create("/leads", name="Waits", phone=PHONE)
    api.create("/leads", name="Is being sent", phone=PHONE)
    with crm.tenants.session("acme"):
        assert len(deliveries.claim_due("sender", 1, 1)[0]) == 1
        deliveries.send_test(id)
    copy = make_copy(crm, "acme", copies)
    assert restore(crm, copy, "acme").prepared == 3
    with crm.tenants.session("acme"):
        assert deliveries.claim_due("sender", 50, 50) == ([], None)
        assert deliveries.recover(id, "2026-01-01T00:00:00Z") == 2
        assert len(deliveries.claim_due("sender", 50, 50)[0]) == 2


def test_restore_asks_before_it_replaces_a_tenant(crm, api, copies):
    copy = make_copy(crm, "acme", copies)
    api.create("/leads", name="Now", phone=PHONE)
    words = ("restore", "acme", copy)
    command(crm, *words, code=1, sent="n\n")
    command(crm, *words, code=1)
    assert lead_names(crm, "acme") == ["Now"]
    result = command(crm, *words, sent="y\n")
    assert result.stdout.splitlines()[0] == f"acme is restored from {copy}"
    assert lead_names(crm, "acme") == []


# The trial


def test_a_test_restore_counts_what_a_copy_brings_back(crm, api, copies):
    api.create("/leads", name="Kept", phone=PHONE)
    make_copy(crm, "acme", copies)
    make_copy(crm, "globex", copies).rename(copies / "hooli-20260302T090000Z.db")
    api.create("/leads", name="Later", phone=PHONE)
    result = command(crm, "backup", "test-restore", "--from", copies)
    table = [line.split("\t") for line in result.stdout.splitlines()]
    assert table[0] == ["tenant", "table", "copy", "restored"]
    assert table[1] == ["acme", "lead", "1", "1"]
    assert table[2] == ["acme", "client", "0", "0"]
    assert ["acme", "event", "1", "1"] in table
    assert ["hooli", "lead", "0", "0"] in table
    assert [row[1] for row in table[1:]] == [*backup.COUNTED_TABLES, *backup.COUNTED_TABLES]
    assert lead_names(crm, "acme") == ["Kept", "Later"]


@pytest.mark.files
def test_a_test_restore_that_brings_back_less_fails(crm, api, copies, monkeypatch):
    api.create("/leads", name="Kept", phone=PHONE)
    make_copy(crm, "acme", copies)
    load = FileStore.load

    def lose(store, archive):
        query(archive, "DELETE FROM event", "DELETE FROM lead")
        return load(store, archive)

    monkeypatch.setattr(FileStore, "load", lose)
    result = command(crm, "backup", "test-restore", "--from", copies, code=1)
    assert "acme\tlead\t1\t0" in result.stdout.splitlines()
    assert "acme: lead: 1 in the copy, 0 restored" in result.stderr


def test_a_test_restore_tries_the_newest_copy_and_fails_on_a_bad_one(crm, api, clock, copies):
    old = make_copy(crm, "acme", copies)
    clock.tick(60)
    new = make_copy(crm, "acme", copies)
    damage(old)
    command(crm, "backup", "test-restore", "--from", copies)
    damage(new)
    result = command(crm, "backup", "test-restore", "--from", copies, code=1)
    assert "Error: these copies cannot be restored completely: acme" in result.stderr


def test_a_test_restore_and_a_verification_of_nothing_fail(crm, copies):
    for words in (
        ("test-restore",),
        ("test-restore", "--from", copies),
        ("verify", "--from", copies),
    ):
        result = command(crm, "backup", *words, code=1)
        assert "Error: there are no copies in " in result.stderr


# Between two names

SLOWLY = """
import sys
from pathlib import Path
from tests.installations import config_for
from crm.outbox.subscriptions import hold_all_deliveries
from crm.copies import backup
from crm.storage import disk
from crm.installation.tenants import Tenants
delete_logs = disk.delete_logs
def slowly(path):
    print("half way", flush=True)
    sys.stdin.readline()
    delete_logs(path)
disk.delete_logs = slowly
data, copy, label = sys.argv[1:]
backup.restore(Tenants(config_for(Path(data))), Path(copy), label, hold_all_deliveries)
"""
DIE = SLOWLY.replace("    sys.stdin.readline()\n", "    import os; os.kill(os.getpid(), 9)\n")


@pytest.mark.files
@pytest.mark.process
def test_a_file_opened_during_a_restore_is_read_with_its_own_log(crm, api, copies):
    """The restore stands still between the new file's arrival and the old log's end."""
    api.create("/leads", name="Kept", phone=PHONE)
    copy = make_copy(crm, "acme", copies)
    api.create("/leads", name="Undone", phone=PHONE)
    restores = start_python(SLOWLY, crm.tenants.config.data, copy, "acme")
    assert restores.stdout.readline() == "half way\n"
    goes_on = threading.Event()

    def go_on() -> None:
        goes_on.set()
        restores.stdin.write("\n")
        restores.stdin.flush()

    threading.Timer(0.3, go_on).start()
    api.create("/leads", name="Just then", phone=PHONE)
    assert goes_on.is_set()  # it waited
    assert wait_for_processes(restores) == [""]
    assert lead_names(crm, "acme") == ["Kept", "Just then"]
    others = Tenants(crm.tenants.config)
    with others.session("acme"):
        assert [lead["name"] for lead in LEAD.every("TRUE ORDER BY id")] == ["Kept", "Just then"]
    others.forget_idle()
    crm.tenants.forget_idle()
    assert lead_names(crm, "acme") == ["Kept", "Just then"]


@pytest.mark.process
@pytest.mark.files
def test_a_restore_killed_during_the_exchange_has_happened_and_no_write_is_lost(crm, api, copies):
    api.create("/leads", name="Kept", phone=PHONE)
    copy = make_copy(crm, "acme", copies)
    api.create("/leads", name="Undone", phone=PHONE)
    died = start_python(DIE, crm.tenants.config.data, copy, "acme")
    died.communicate()
    assert died.returncode == -9
    for _ in range(3):
        api.create("/leads", name="After", phone=PHONE)
    assert lead_names(crm, "acme") == ["Kept", *["After"] * 3]
    crm.tenants.forget_idle()
    assert lead_names(crm, "acme") == ["Kept", *["After"] * 3]
    assert query(crm.tenants.path("acme"), "PRAGMA integrity_check") == [("ok",)]
    (before,) = (crm.tenants.config.data / "trash").iterdir()
    assert query(before, "SELECT name FROM lead") == [("Kept",), ("Undone",)]


@pytest.mark.slow
def test_of_many_restores_among_many_openings_no_row_is_lost_or_mixed(
    crm, clock, copies, restores=12
):
    """Every visit opens its own connections, and must see one file's rows from end to end."""
    both = []
    for label, kind in (("acme", "A"), ("globex", "B")):
        with crm.tenants.session(label), transaction():
            for _ in range(3):
                create({"name": kind, "phone": PHONE})
        both.append(make_copy(crm, label, copies))
    crm.tenants.forget_idle()
    opening = Tenants(replace(crm.tenants.config, max_idle_connections=0), clock)
    written: list[str] = []
    wrong: list[object] = []
    stop = threading.Event()

    def kinds() -> set[str]:
        return {lead["name"] for lead in LEAD.every("TRUE")}

    def work(number: int) -> None:
        for count in range(1_000_000):
            if stop.is_set():
                return
            id = f"{number}-{count}"
            try:
                with opening.session("acme"):
                    seen = kinds()
                    if number:
                        with transaction():
                            (kind,) = kinds()
                            create({"name": kind, "phone": PHONE, "external_id": id})
                        written.append(id)
                        continue
                    time.sleep(0.002)
                    seen |= kinds()
                if len(seen) != 1:
                    wrong.append(seen)
            except Busy:
                continue
            except BaseException as error:
                wrong.append(error)
                raise

    threads = [threading.Thread(target=work, args=(number,)) for number in (0, 0, 0, 1, 2)]
    for thread in threads:
        thread.start()
    befores = []
    try:
        for number in range(restores):
            clock.tick(1)
            befores.append(restore(crm, both[number % 2], "acme").before)
            time.sleep(0.01)
        wait_for(lambda: written or wrong)
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert not wrong
    assert written
    results: list[str] = []
    for path in (*befores, file_of(crm.tenants, "acme")):
        assert query(path, "PRAGMA integrity_check") == [("ok",)]
        assert len(query(path, "SELECT DISTINCT name FROM lead")) == 1
        ids = "SELECT external_id FROM lead WHERE external_id IS NOT NULL"
        results += [id for (id,) in query(path, ids)]
    assert sorted(results) == sorted(written)


@pytest.mark.process
@pytest.mark.files
def test_the_guides_commands_copy_a_file_in_use_and_read_a_damaged_one(crm, api, tmp_path):
    external_programs.found("sqlite3")
    api.create("/leads", name="In the log", phone=PHONE)
    by_sqlite, from_dump = blocks(section("trouble", "Copies by other programs"))
    run(by_sqlite, tmp_path)
    copy, damaged = tmp_path / "acme.copy", tmp_path / "acme.damaged"
    assert archive_file.has_mark(copy)
    shutil.copy(copy, damaged)
    ((page,),) = query(copy, "SELECT rootpage FROM sqlite_schema WHERE name = 'user_site_id'")
    with damaged.open("r+b") as file:
        file.seek((page - 1) * connection.PAGE_BYTES)
        file.write(b"\xff" * connection.PAGE_BYTES)
    copy.unlink()
    with pytest.raises(archive_file.BadCopy):
        archive_file.check_copy(damaged)
    said = run(from_dump, tmp_path)
    assert f"acme.copy\tversion {len(migrations.STEPS)}\t" in said
    assert lead_names(crm, "acme") == ["In the log"]


@pytest.mark.process
@pytest.mark.deep
def test_the_guides_commands_work_as_they_stand(crm, tmp_path):
    crm.tenants.forget_idle()
    sections = [section("first-day", title) for title in ("Backups", "Restore a copy")]
    sections.append(section("command-line", "Export, clone or delete a tenant"))
    lines = "\n".join(line for text in sections for line in blocks(text))
    said = run(re.sub(r"acme-[0-9TZ]+\.db", "acme-*.db", lines), tmp_path)
    assert "acme\tlead\t0\t0\n" in said
    assert "acme is restored from copies/acme-" in said
    assert "its file from before: " in said
    assert "acme.zip\t" in said
    assert "http://tryout.localhost:8000\n" in said
    assert "tryout is deleted; its file: " in said
