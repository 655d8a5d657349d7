"""A tenant as a whole: its archive, its clone, its end; real files, and a real server beside."""

import contextlib
import csv
import io
import os
import re
import sqlite3
import threading
import zipfile
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from crm import spreadsheets
from crm.access import api_keys, codes, links, sessions
from crm.copies import backup, stores, trash
from crm.errors import Busy, Conflict, NotFound, UnknownTenant
from crm.outbox import deliveries
from crm.resources import export, tenant, users, webhooks
from crm.resources.papers import links as paper_links
from crm.storage import upgrades, uploads
from crm.storage.commit_groups import WriterLock
from crm.storage.session import row, rows
from crm.storage.sqlite import archive_file, connection
from tests.concurrency import is_inside, run_in_threads, start_python
from tests.conftest import Api, key_for
from tests.copies import command, query
from tests.tables import assert_whole, lead_names
from tests.waiting import wait_for

PHONE = "+380671234567"
DIE = """
import os, sys
from pathlib import Path
from tests.installations import config_for
from crm.copies import stores, trash
from crm.storage import disk, uploads
from crm.installation.tenants import Tenants
def die(*_):
    os.kill(os.getpid(), 9)
modules = {"os": os, "disk": disk, "trash": trash, "uploads": uploads}
setattr(modules[sys.argv[2]], sys.argv[3], die)
stores.delete(Tenants(config_for(Path(sys.argv[1]))), "acme")
"""


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


# export


def test_an_archive_has_the_whole_file_and_what_people_read(crm, api, tmp_path):
    api.create("/leads", name="In the log", phone=PHONE)
    api.create("/products", name="Стіл, дубовий", sku="T-1", price="12.5")
    to = tmp_path / "acme.zip"
    result = command(crm, "tenant", "export", "acme", "--to", to)
    assert result.stdout == f"{to}\t{to.stat().st_size}\n"
    assert to.stat().st_mode & 0o777 == 0o600
    assert files(tmp_path) == ["acme.zip", "data"]
    with zipfile.ZipFile(to) as archive:
        assert archive.testzip() is None
        assert archive.namelist() == [
            "README.txt",
            "acme.db",
            *(resource.file_name for resource in spreadsheets.all_resources()),
        ]
        archive.extractall(tmp_path / "out")
    assert backup.check_copy(tmp_path / "out" / "acme.db")
    assert query(tmp_path / "out" / "acme.db", "SELECT name FROM lead") == [("In the log",)]
    (product,) = csv.DictReader(io.StringIO((tmp_path / "out" / "price-list.csv").read_text()))
    assert (product["sku"], product["name"]) == ("T-1", "Стіл, дубовий")
    about = (tmp_path / "out" / "README.txt").read_text()
    for said in ("acme.db", "*.csv", "hashes of\nAPI keys", "secrets of webhooks"):
        assert said in about


def test_all_in_an_archive_is_of_one_moment(crm, api, tmp_path, monkeypatch):
    """What comes after the copy is in none of the sheets."""
    api.create("/products", name="Before", sku="1", price=1)

    write_sheet = spreadsheets.export_csv

    def export_later(*wanted: Any) -> None:
        later = {"name": "After", "sku": "2", "price": 1}
        another = threading.Thread(target=lambda: api.post("/products", later))
        another.start()
        another.join()
        write_sheet(*wanted)

    monkeypatch.setattr(spreadsheets, "export_csv", export_later)
    export.write(crm.tenants, "acme", tmp_path / "a.zip")
    assert len(api.read("/products")) == 2
    with zipfile.ZipFile(tmp_path / "a.zip") as archive:
        assert b"Before" in archive.read("price-list.csv")
        assert b"After" not in archive.read("price-list.csv")
        archive.extract("acme.db", tmp_path)
    assert query(tmp_path / "acme.db", "SELECT name FROM product") == [("Before",)]
    assert len(api.read("/products")) == 2


def test_an_archive_is_whole_before_it_has_its_name(crm, tmp_path, monkeypatch):
    to = tmp_path / "a.zip"
    to.write_text("the one before")

    def no(*_: Any) -> None:
        raise Busy

    monkeypatch.setattr(spreadsheets, "export_csv", no)
    command(crm, "tenant", "export", "acme", "--to", to, code=1)
    assert to.read_text() == "the one before"
    assert files(tmp_path) == ["a.zip", "data"]


def test_an_archive_may_go_into_a_pipe(crm, api, tmp_path):
    api.create("/leads", name="Piped", phone=PHONE)
    result = command(crm, "tenant", "export", "acme", "--to", "-")
    with zipfile.ZipFile(io.BytesIO(result.stdout_bytes)) as archive:
        archive.extract("acme.db", tmp_path)
    assert query(tmp_path / "acme.db", "SELECT name FROM lead") == [("Piped",)]
    assert not [name for name in files(crm.tenants.config.data) if name.startswith(".")]


# clone


@pytest.fixture
def busy(crm, api) -> Api:
    """Acme with all that must not go on in a clone."""
    with crm.tenants.session("acme"):
        webhooks.create({"url": "https://erp.example.com/crm"})
        webhooks.create({"url": "https://erp.example.com/off", "active": 0})
        deliveries.send_test(1)
    api.create("/leads", name="Марія", phone=PHONE)
    api.create("/leads", name="Under way", phone=PHONE)
    with crm.tenants.session("acme"):
        assert deliveries.claim_due("sender", 1, 1)[0]
    return api


def test_a_clone_has_everything_and_neither_hears_of_the_other(crm, busy):
    result = command(crm, "tenant", "clone", "acme", "tryout", "--name", "Проба")
    assert result.stdout == "http://tryout.localhost:8000\n"
    assert lead_names(crm, "tryout") == ["Марія", "Under way"]
    own = Api(crm, "tryout", key_for(crm, "tryout", "*"))
    assert own.read("/users/me")["tenant"]["name"] == "Проба"
    assert busy.read("/users/me")["tenant"]["name"] == "Acme"
    own.create("/leads", name="Only there", phone=PHONE)
    busy.create("/leads", name="Only here", phone=PHONE)
    assert lead_names(crm, "tryout") == ["Марія", "Under way", "Only there"]
    assert lead_names(crm, "acme") == ["Марія", "Under way", "Only here"]
    assert [event["sequence"] for event in own.events()] == [1, 2, 3]
    assert {event["tenant"] for event in own.events()} == {"tryout"}
    for label in ("tryout", "acme"):
        assert_whole(crm.tenants, label)


def test_a_clone_lets_nobody_in_whom_it_did_not_let_in_itself(crm, busy, furnished):
    with crm.tenants.session("acme"):
        cookie = sessions.open(1, "Firefox")
        link = links.create(links.LOGIN, 1)
        code = codes.create(codes.LOGIN, "+380501110001", "browser").code
        codes.create(codes.PHONE, "+380501110009", "browser")
        entered = codes.create(codes.SIGNUP, "+380501110008", "browser").code
        assert codes.check(codes.SIGNUP, "+380501110008", "browser", entered)
    tenant.clone(crm.tenants, "acme", "tryout")
    for key in (furnished[1]["olena"], furnished[1]["form"]):
        assert Api(crm, "tryout", key).get("/users/me").status_code == 401
        assert Api(crm, "acme", key).get("/users/me").status_code == 200
    with crm.tenants.session("tryout"):
        assert {key.state() for key in api_keys.list_all()} == {"revoked"}
        assert sessions.find(cookie) is None
        assert links.peek(links.LOGIN, link) is None
        assert not codes.check(codes.LOGIN, "+380501110001", "browser", code)
        assert not codes.is_entered(codes.SIGNUP, "+380501110008", "browser")
        assert users.reached_at("+380501110001").id == 1  # who may log in anew
    with crm.tenants.session("acme"):
        assert sessions.find(cookie)
        assert links.peek(links.LOGIN, link)
        assert codes.check(codes.LOGIN, "+380501110001", "browser", code)


@pytest.mark.process  # Typst
def test_links_to_papers_end_in_a_clone(crm, api):
    deal = api.create("/deals", title="Крісла", amount=100)
    paper = api.create(f"/deals/{deal}/papers", kind="offer")
    token = api.post(f"/papers/{paper}/links").json["url"].rpartition("/")[2]
    tenant.clone(crm.tenants, "acme", "tryout")
    with crm.tenants.session("tryout"), pytest.raises(NotFound):
        paper_links.find_paper(token)
    with crm.tenants.session("acme"):
        assert paper_links.find_paper(token).id == int(paper)


def test_a_clone_sends_to_no_webhook(crm, busy):
    tenant.clone(crm.tenants, "acme", "tryout")
    with crm.tenants.session("tryout"):
        assert rows("SELECT active FROM webhook") == [(0,), (0,)]
        assert rows("SELECT DISTINCT status, due_at, lease FROM delivery") == [("held", None, None)]
        assert deliveries.claim_due("sender", 50, 50) == ([], None)
    Api(crm, "tryout", key_for(crm, "tryout", "*")).create("/leads", name="x", phone=PHONE)
    with crm.tenants.session("tryout"):
        assert deliveries.claim_due("sender", 50, 50) == ([], None)
    with crm.tenants.session("acme"):
        assert row("SELECT count(*) FROM delivery WHERE status = 'pending'") == (3,)


def test_a_taken_label_and_a_tenant_that_is_not_there_are_told(crm):
    result = command(crm, "tenant", "clone", "acme", "globex", code=1)
    assert "Error: the label globex is taken" in result.stderr
    result = command(crm, "tenant", "clone", "nobody", "tryout", code=1)
    assert result.stderr.endswith("Error: there is no tenant nobody\n")
    assert crm.tenants.labels() == ["acme", "globex"]


def test_of_many_clones_with_one_label_one_is_made_and_nothing_is_left(crm):
    def want(_: int) -> str:
        try:
            tenant.clone(crm.tenants, "acme", "tryout")
        except Conflict as taken:
            return taken.code
        return "made"

    assert sorted(run_in_threads(4, want)) == ["label_taken"] * 3 + ["made"]
    assert not [name for name in files(crm.tenants.files.folder) if name.startswith(".")]


def test_nobody_sees_a_clone_before_it_is_settled(crm, monkeypatch):
    seen = []

    def revoke_all() -> None:
        seen.append(crm.tenants.labels())
        raise Busy

    monkeypatch.setattr(api_keys, "revoke_all", revoke_all)
    with pytest.raises(Busy):
        tenant.clone(crm.tenants, "acme", "tryout")
    assert seen == [["acme", "globex"]]
    assert crm.tenants.labels() == ["acme", "globex"]
    assert not [name for name in files(crm.tenants.files.folder) if name.startswith(".")]


# delete


def test_a_deleted_tenant_is_in_the_trash_whole_and_its_label_is_free(crm, api, ivan):
    api.create("/leads", name="In the log", phone=PHONE)
    kept = stores.delete(crm.tenants, "acme")
    assert kept == crm.tenants.config.data / "trash" / "acme.deleted-20260302T090000Z.db"
    assert files(kept.parent) == [kept.name]
    assert kept.stat().st_mode & 0o777 == 0o600
    assert backup.check_copy(kept)
    assert query(kept, "SELECT name FROM lead") == [("In the log",)]
    assert api.get("/leads").status_code == 404
    assert ivan.get("/leads").status_code == 200
    assert crm.tenants.labels() == ["globex"]
    tenant.open_tenant(crm.tenants, "acme")
    assert lead_names(crm, "acme") == []
    assert query(kept, "SELECT name FROM lead") == [("In the log",)]


def test_a_deleted_tenant_is_restored_from_the_trash(crm, api, clock):
    api.create("/leads", name="Back again", phone=PHONE)
    kept = stores.delete(crm.tenants, "acme")
    assert api.get("/leads").status_code == 404
    command(crm, "restore", "acme", kept)
    assert [lead["name"] for lead in api.read("/leads")] == ["Back again"]
    assert api.create("/leads", name="Next", phone=PHONE) == "2"
    assert backup.check_copy(kept)
    clock.tick(1)
    assert stores.delete(crm.tenants, "acme") != kept


def test_delete_asks_first(crm):
    for result in ("n\n", None):
        command(crm, "tenant", "delete", "acme", code=1, sent=result)
    assert crm.tenants.exists("acme")
    result = command(crm, "tenant", "delete", "acme", sent="y\n")
    assert re.match(r"acme is deleted; its file: \S+/trash/acme\.deleted-\w+\.db\n", result.stdout)
    assert not crm.tenants.exists("acme")
    again = command(crm, "tenant", "delete", "acme", code=1)
    assert again.stderr.endswith("Error: there is no tenant acme\n")


@pytest.mark.parametrize("label", ["_front", "../secret", ""])
def test_only_a_tenant_can_be_deleted(crm, label):
    with crm.tenants.session("_front"):
        pass
    with pytest.raises(UnknownTenant):
        stores.delete(crm.tenants, label)
    with crm.tenants.session("_front"):
        pass


@pytest.mark.files
def test_what_else_is_kept_of_a_tenant_goes_and_of_no_other(crm):
    data = crm.tenants.config.data
    for label in ("acme", "globex"):
        with crm.tenants.session(label) as here:
            uploads.save(1, b"sku\n")
            with here.source.lock():
                connection = here.source.take(writes=True)
                write = partial(archive_file.copy_before_upgrade, connection)
                upgrades.keep_archive(here.source, 1, write)
                here.source.give(connection, writes=True)
    stores.delete(crm.tenants, "acme")
    assert [name.split(".")[0] for name in files(data / "uploads")] == ["globex"]
    assert files(data / "upgrades") == ["globex"]


@pytest.mark.files
def test_who_waits_to_write_to_a_deleted_tenant_is_told_and_nobody_keeps_it_open(
    crm, api, monkeypatch
):
    """The request that waits for its turn gets 503, the next one 404."""
    answers: list[int] = []

    def write() -> None:
        another = Api(crm, "acme", api.key)
        answers.append(another.post("/leads", {"name": "x", "phone": PHONE}).status_code)

    waits, fold = threading.Thread(target=write), trash.checkpoint

    def slowly(path: Path, kept: Path) -> Any:
        waits.start()
        wait_for(lambda: is_inside(waits, WriterLock.acquire))
        return fold(path, kept)

    monkeypatch.setattr(trash, "checkpoint", slowly)
    api.create("/leads", name="Kept", phone=PHONE)
    kept = stores.delete(crm.tenants, "acme")
    waits.join()
    answers.append(api.post("/leads", {"name": "y", "phone": PHONE}).status_code)
    assert answers == [503, 404]
    assert query(kept, "SELECT name FROM lead") == [("Kept",)]
    opened = set()
    for number in range(1024):
        with contextlib.suppress(OSError):
            opened.add(os.fstat(number).st_ino)
    assert kept.stat().st_ino not in opened


@pytest.mark.files
def test_a_reader_that_does_not_make_way_stops_a_deletion_and_nothing_has_changed(
    crm, api, monkeypatch
):
    api.create("/leads", name="Now", phone=PHONE)
    path = crm.tenants.path("acme")
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM lead").fetchone()
        api.create("/leads", name="Later", phone=PHONE)
        quick = ("PRAGMA busy_timeout = 100", "PRAGMA foreign_keys = ON")
        monkeypatch.setattr(connection, "PRAGMAS", quick)
        with pytest.raises(Busy):
            stores.delete(crm.tenants, "acme")
    assert lead_names(crm, "acme") == ["Now", "Later"]
    assert files(crm.tenants.config.data / "trash") == []


@pytest.mark.files
def test_a_damaged_tenant_can_be_deleted_with_its_log(crm):
    crm.tenants.forget_idle()
    path = crm.tenants.path("acme")
    path.write_bytes(b"not a database " * 1000)
    path.with_suffix(".db-wal").write_bytes(b"its log")
    kept = stores.delete(crm.tenants, "acme")
    assert kept.read_bytes().startswith(b"not a database ")
    assert Path(f"{kept}-wal").read_bytes() == b"its log"
    tenant.open_tenant(crm.tenants, "acme")
    assert lead_names(crm, "acme") == []


@pytest.mark.files
@pytest.mark.process
@pytest.mark.parametrize(
    ("module", "name", "deleted"),
    [
        pytest.param("trash", "checkpoint", False, marks=pytest.mark.deep),
        pytest.param("disk", "sync", False, marks=pytest.mark.deep),
        ("os", "rename", False),
        ("disk", "delete_logs", True),
        pytest.param("uploads", "delete_all", True, marks=pytest.mark.deep),
    ],
)
def test_a_killed_deletion_leaves_the_tenant_or_the_trash_file_whole(
    crm, api, module, name, deleted
):
    """Killed at each step, while the server has the file open."""
    (crm.tenants.config.data / "trash").mkdir()  # else it is made, and synced, first
    api.create("/leads", name="Kept", phone=PHONE)
    died = start_python(DIE, crm.tenants.config.data, module, name)
    said = died.communicate()
    assert died.returncode == -9, said
    answer = api.post("/leads", {"name": "After", "phone": PHONE})
    bin_ = crm.tenants.config.data / "trash"
    if deleted:
        assert answer.status_code == 404
        (kept,) = bin_.iterdir()
        assert backup.check_copy(kept)
        assert query(kept, "SELECT name FROM lead") == [("Kept",)]
        tenant.open_tenant(crm.tenants, "acme")  # whose log is its own
        assert lead_names(crm, "acme") == []
        return
    assert answer.status_code == 201
    assert lead_names(crm, "acme") == ["Kept", "After"]
    assert files(bin_) == []
    crm.tenants.forget_idle()
    assert query(crm.tenants.path("acme"), "PRAGMA integrity_check") == [("ok",)]
