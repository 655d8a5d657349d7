"""Copies of many tenants: no change is missed, and what did not change costs nothing."""

import contextlib
import os
import random
import sqlite3
import time
from pathlib import Path

import pytest

from crm.copies import backup, backup_run
from crm.copies.backup_run import INDEX_NAME, BackupRun, NewCopy
from crm.installation.tenants import Tenants
from crm.outbox.subscriptions import hold_all_deliveries
from crm.resources.leads.record import LEAD, create
from crm.storage.session import execute, transaction
from crm.storage.sqlite import archive_file as copies_module
from crm.storage.sqlite.archive_file import check_copy, list_copies
from tests.copies import command

DAY = 86_400
PHONE = "+380671234567"
SETTLED_SECONDS = 0.05  # far above the ticks of the file system's clock


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """A file is settled soon after it was written to."""
    monkeypatch.setattr(backup_run, "RACY_NANOSECONDS", int(SETTLED_SECONDS * 1e9))


def settle() -> None:
    time.sleep(SETTLED_SECONDS + 0.02)


def run(crm, copies: Path, keep: int = 99) -> dict[str, NewCopy]:
    """A run over all tenants, by a process of its own as far as SQLite knows."""
    home = Tenants(crm.tenants.config, crm.tenants.clock)
    made = BackupRun(copies, keep, home.clock, home.steady_clock.erasing_now())
    try:
        results = [item for label in home.labels() for item in made.add(home.tenant(label))]
        results += made.finish()
    finally:
        made.close()
        home.forget_idle()
    crm.tenants.clock.tick(1)
    return {item.label: item for item in results}


def content(path: Path) -> list[list[tuple]]:
    """What is in a file: rows of tables that every write changes one of."""
    tables = ("lead", "lead_search_data", "event", "session", "tenant", "sqlite_sequence")
    with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
        return [connection.execute(f"SELECT * FROM {table}").fetchall() for table in tables]


def add_lead(crm, label: str, name: str = "Марія") -> None:
    with crm.tenants.session(label):
        create({"name": name, "phone": PHONE})


# What has not changed


@pytest.mark.files
def test_a_tenant_that_did_not_change_gets_a_link(crm, copies):
    crm.tenants.forget_idle()
    settle()
    first, second = run(crm, copies), run(crm, copies)
    assert [item.is_link for item in first.values()] == [False, False]
    assert [item.is_link for item in second.values()] == [True, True]
    assert first["acme"].path.samefile(second["acme"].path)
    assert first["acme"].path != second["acme"].path
    assert list_copies(copies)["acme"] == [first["acme"].path, second["acme"].path]
    for made in (*first.values(), *second.values()):
        assert check_copy(made.path)


@pytest.mark.files
def test_any_write_makes_the_next_copy_a_new_one(crm, copies):
    crm.tenants.forget_idle()
    settle()
    run(crm, copies)
    add_lead(crm, "acme")
    settle()
    made = run(crm, copies)
    assert (made["acme"].is_link, made["globex"].is_link) == (False, True)
    assert content(made["acme"].path) == content(crm.tenants.path("acme"))


def test_what_was_written_to_a_moment_ago_is_copied_again(crm, copies, monkeypatch):
    monkeypatch.setattr(backup_run, "RACY_NANOSECONDS", 60 * 10**9)
    add_lead(crm, "acme")
    assert not run(crm, copies)["acme"].is_link
    assert not run(crm, copies)["acme"].is_link


@pytest.mark.files
def test_what_is_written_while_it_is_copied_is_in_the_next_copy(crm, copies, monkeypatch):
    settle()
    copy = copies_module.copy_pages

    def copy_and_write(connection: sqlite3.Connection, to: Path) -> None:
        if "globex" not in to.name:
            add_lead(crm, "acme", "before")
        copy(connection, to)
        if "globex" not in to.name:
            add_lead(crm, "acme", "after")

    monkeypatch.setattr(copies_module, "copy_pages", copy_and_write)
    run(crm, copies)
    monkeypatch.undo()
    made = run(crm, copies)["acme"]
    assert not made.is_link
    assert content(made.path) == content(crm.tenants.path("acme"))


@pytest.mark.parametrize("loss", ["removed", "spoiled", "index spoiled", "no links"])
def test_a_lost_copy_or_index_costs_a_new_copy_and_so_does_a_file_system_without_links(
    crm, copies, monkeypatch, loss
):
    def no_links(*_):
        raise OSError("not supported")

    crm.tenants.forget_idle()
    settle()
    first = run(crm, copies)["acme"].path
    if loss == "removed":
        first.unlink()
    elif loss == "spoiled":
        first.write_bytes(b"not a database")
    elif loss == "index spoiled":
        (copies / INDEX_NAME).write_bytes((copies / INDEX_NAME).read_bytes()[:-9])
    else:
        monkeypatch.setattr(os, "link", no_links)
    made = run(crm, copies)["acme"]
    assert not made.is_link
    assert check_copy(made.path)


@pytest.mark.files
def test_a_copy_of_its_own_comes_after_a_week(crm, clock, copies):
    crm.tenants.forget_idle()
    settle()
    links = []
    for _ in range(15):
        links.append(run(crm, copies)["acme"].is_link)
        clock.tick(DAY)
    assert links == [*[False, *[True] * 6] * 2, False]


def test_making_a_copy_does_not_change_the_tenant(crm, clock, copies):
    """Retention would write to it, and it would be copied for ever."""
    crm.tenants.forget_idle()
    clock.tick(2 * DAY)
    settle()
    before = backup_run.file_state(crm.tenants.path("acme"))
    run(crm, copies)
    assert backup_run.file_state(crm.tenants.path("acme")) == before


@pytest.mark.files
def test_copies_of_links_restore_and_test_restore(crm, copies):
    add_lead(crm, "acme", "Kept")
    crm.tenants.forget_idle()
    settle()
    run(crm, copies)
    link = run(crm, copies)["acme"]
    assert link.is_link
    copied, restored = backup.test_restore(crm.tenants, link.path, "acme", hold_all_deliveries)
    assert copied == restored
    add_lead(crm, "acme", "Undone")
    backup.restore(crm.tenants, link.path, "acme", hold_all_deliveries)
    with crm.tenants.session("acme"):
        assert [lead["name"] for lead in LEAD.every("TRUE ORDER BY id")] == ["Kept"]
    first, second = list_copies(copies)["acme"]
    assert content(first) == content(second)  # the restored file is no link


# What is copied


@pytest.mark.files
def test_a_large_file_is_copied_page_by_page(crm, copies, monkeypatch):
    monkeypatch.setattr(copies_module, "MAX_IN_MEMORY_BYTES", 0)
    add_lead(crm, "acme")
    path = run(crm, copies)["acme"].path
    assert check_copy(path)
    assert content(path) == content(crm.tenants.path("acme"))


@pytest.mark.files
def test_each_batch_is_on_the_disk_before_it_has_its_names(crm, copies, monkeypatch):
    monkeypatch.setattr(backup_run, "MAX_BATCH_FILES", 1)
    copies.mkdir()
    synced = []
    sync = backup_run.disk.sync
    monkeypatch.setattr(backup_run.disk, "sync", lambda path: synced.append(path) or sync(path))
    made = run(crm, copies)
    names = [path.name.rpartition("-")[0] or path.name for path in synced]
    # Each with the index, which is a file of its own.
    assert names == [".new-acme", *["copies"] * 2, ".new-globex", *["copies"] * 2]
    assert set(made) == {"acme", "globex"}


@pytest.mark.files
def test_the_command_reports_its_progress(crm, copies, monkeypatch):
    monkeypatch.setattr("crm.cli.commands.PROGRESS_INTERVAL_SECONDS", 0.0)
    crm.tenants.forget_idle()
    ended = command(crm, "backup", "create", "--to", copies)
    assert "copied 1 of 2\ncopied 2 of 2\n" in ended.stderr
    assert ended.stdout.count("\n") == 2


# Whatever happens between


@pytest.mark.files
@pytest.mark.slow
@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(seed, marks=pytest.mark.deep) for seed in range(1, 4))]
)
def test_every_copy_is_the_tenant_as_it_was_then(crm, copies, clock, seed):
    """Random writes, closes and restores between the runs, by a server that keeps files open."""
    dice = random.Random(seed)
    was: dict[Path, list] = {}
    links = 0
    for step in range(14):
        for label in ("acme", "globex"):
            for _ in range(dice.choice((0, 0, 1, 1, 3))):
                add_lead(crm, label, f"{label} {step}")
            if dice.random() < 0.2:  # one that changes neither the file's size nor the log's
                with crm.tenants.session(label), transaction():
                    execute("UPDATE tenant SET name = ?", (f"{dice.randrange(10**6):06}",))
            if dice.random() < 0.15 and (old := [path for path in was if label in path.name]):
                backup.restore(crm.tenants, dice.choice(old), label, hold_all_deliveries)
                clock.tick(1)
        if dice.random() < 0.3:
            crm.tenants.forget_idle()
        if dice.random() < 0.7:
            settle()
        made = run(crm, copies)
        for item in made.values():
            was[item.path] = content(crm.tenants.path(item.label))
            links += item.is_link
    assert links
    for path, before in was.items():
        assert content(path) == before, path
        assert check_copy(path)
