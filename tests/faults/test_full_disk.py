"""A disk that is really full, and a file system that is really read-only: small ones, mounted here.

What was acknowledged stays, what cannot be done is refused with one word, nothing is half written,
and all goes on without a restart once there is room.
"""

import errno
import io
import os
import re
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from crm import create_app, start
from crm.config import LOOPBACK
from crm.outbox import sender
from crm.resources import tenant
from tests.concurrency import ForkServer
from tests.conftest import OLENA, Api, key_for
from tests.http_calls import ask
from tests.installations import config_for, copy_installation
from tests.page_client import Person
from tests.server.test_commit_groups import ask_together, call
from tests.server_process import ROOT, run_server
from tests.tables import check_search_index

pytestmark = [pytest.mark.files, pytest.mark.process]

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


@contextmanager
def mounted(path: Path, size: str) -> Iterator[Disk]:
    """A disk of that size. Where nobody may mount, the test is skipped, in CI it fails."""
    path.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(path)]
    mounted = subprocess.run(command, capture_output=True, text=True)
    if mounted.returncode:
        why = f"a file system cannot be mounted here: {mounted.stderr.strip()}"
        pytest.fail(why) if os.environ.get("CI") else pytest.skip(why)
    try:
        yield Disk(path)
    finally:
        subprocess.run(["umount", "--lazy", str(path)], check=True)


@pytest.fixture
def disk(tmp_path):
    with mounted(tmp_path / "disk", "24m") as disk:
        yield disk


@pytest.fixture(scope="module")
def installation(tmp_path_factory):
    """A data folder whose files are all closed, and the key of each tenant.

    The log of `logged` was left by a killed process, and so was that of `bare`, whose index is
    gone.
    """
    data = tmp_path_factory.mktemp("full_disk") / "data"
    app = create_app(config_for(data), sends=False)
    results = {}
    for label in LABELS:
        tenant.open_tenant(app.tenants, label, plan="business", owner={"name": "Olena"})
        results[label] = key_for(app, label, "*")
        Api(app, label, results[label]).create("/leads", name="Ivan", phone="+380671234567")
    app.tenants.forget_idle()
    app.tenants.counters.close()
    for label in ("logged", "bare"):
        killed = (
            f"import os; from crm import create_app; from tests.installations import config_for\n"
            f"from pathlib import Path; from crm.resources.leads.record import create\n"
            f"here = create_app(config_for(Path({str(data)!r})), sends=False).tenants.session"
            f"({label!r}).__enter__()\n"
            f"create({{'name': 'Late', 'phone': '+380671234568'}})\n"
            f"os.kill(os.getpid(), 9)"
        )
        subprocess.run([sys.executable, "-c", killed], cwd=ROOT, check=False)
        assert (data / "tenants" / f"{label}.db-wal").stat().st_size
    (data / "tenants" / "bare.db-shm").unlink()
    return data, results


@pytest.fixture
def keys(disk, installation):
    """The key of each tenant of a copy of the installation on that disk."""
    copy_installation(installation[0], disk.path / "data")
    return installation[1]


@pytest.fixture
def app(disk, keys, monkeypatch):
    """The application upon that folder; of the tenants only `open` is open."""
    monkeypatch.setenv("TMPDIR", str(disk.path))
    result = create_app(config_for(disk.path / "data"), sends=False)
    Api(result, "open", keys["open"]).read("/leads")
    yield result
    disk.free()
    result.tenants.forget_idle()


def whole(data: Path, label: str) -> None:
    """The file is whole, and so is its search."""
    with closing(sqlite3.connect(data / "tenants" / f"{label}.db")) as file:
        assert file.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert file.execute("PRAGMA foreign_key_check").fetchall() == []
        check_search_index(file, "lead")


def write(api: Api) -> Any:
    return api.post("/leads", {"name": "New", "phone": "+380671234569", "comment": "х" * 5000})


def refused(answer: Any) -> None:
    assert (answer.status_code, answer.json["code"]) == (503, "storage_full"), answer.text
    assert int(answer.headers["Retry-After"]) > 0


@pytest.mark.parametrize("label", LABELS)
def test_writes_are_refused_and_all_is_back_once_there_is_room(disk, app, keys, label):
    """A file that nobody has open may not be read either, as SQLite cannot make its index."""
    api = Api(app, label, keys[label])
    names = ["Late", "Ivan"] if label in ("logged", "bare") else ["Ivan"]
    disk.fill()
    for _ in range(40):  # there may be room left in pages that SQLite has already
        answer = write(api)
        if answer.status_code != 201:
            break
        names.insert(0, "New")
    refused(answer)
    for _ in range(3):
        for path in ("/leads", "/leads/1", "/leads?q=Ivan&sort=name", "/products/export"):
            answer = api.get(path)
            if label == "open" or answer.status_code != 503:
                assert answer.status_code == 200
            else:
                refused(answer)
        refused(write(api))
        refused(api.patch("/leads/1", {"comment": "х" * 19_000}))
        table = b"sku,name,price\n" + b"".join(b"s%d,Nut,1\n" % n for n in range(2000))
        refused(api.post("/products/import", data={"file": (io.BytesIO(table), "t.csv")}))
    disk.free()
    assert write(api).status_code == 201
    assert [lead["name"] for lead in api.read("/leads")] == ["New", *names]
    app.tenants.forget_idle()
    whole(disk.path / "data", label)


def test_pages_say_that_they_cannot_be_shown(disk, app):
    olena = Person(app, "closed", OLENA)
    assert olena.get("/").status_code == 200
    app.tenants.forget_idle()
    disk.fill()
    sent = {"name": "New", "phone": "+380671234569"}
    for page in (
        olena.get("/leads"),
        olena.post("/leads", sent),
        Person(app, "closed").get("/login"),
    ):
        assert page.status_code == 503
        assert page.headers["Retry-After"] == "60"
        assert "storage_full" not in page.text
    disk.free()
    assert "Ivan" in olena.sees("/leads")
    assert olena.post("/leads", sent).status_code == 303


def test_changes_that_were_to_be_committed_together_are_all_refused(disk, keys):
    data, key = disk.path / "data", keys["open"]
    lead = {"name": "New", "phone": "+380671234569", "comment": "х" * 19_000}
    requests = [("POST", "/leads", lead | {"name": f"New {n}"}, {}) for n in range(12)]
    with run_server(data, expected="full") as port:
        assert call(port, key, "POST", "/leads", lead, "open")[0] == 201
        answers = ask_together(port, key, data, requests, "open", disk.fill)
        assert {status for status, _, _ in answers} == {503}
        assert all(int(headers["Retry-After"]) > 0 for _, headers, _ in answers)
        disk.free()
        _, said = call(port, key, "GET", "/leads", None, "open")
        assert [record["name"] for record in said["data"]] == ["New", "Ivan"]
        answers = ask_together(port, key, data, requests, "open")
        assert {status for status, _, _ in answers} == {201}
        events = call(port, key, "GET", "/events", None, "open")[1]["data"]
        assert [event["sequence"] for event in events] == [*range(1, len(events) + 1)]
        assert len(events) == 14
    whole(data, "open")


def test_what_is_sent_in_the_background_waits_for_room(disk, keys, hook, caplog, monkeypatch):
    for left in (disk.path / "data" / "tenants").glob("*-wal"):  # to open these makes room
        left.with_name(left.name.removesuffix("-wal")).unlink()
    config = config_for(disk.path / "data", webhook_allow=LOOPBACK)
    app = create_app(config, sends=False)
    api = Api(app, "closed", keys["closed"])
    api.create("/webhooks", url=hook.url, events=["lead.created"])
    api.create("/leads", name="Ivan", phone="+380671234567")
    app.tenants.forget_idle()
    disk.fill()
    for error in sender.RETRY_SECONDS:
        monkeypatch.setitem(sender.RETRY_SECONDS, error, 0.1)
    app.sender = sender.Sender(app.tenants)
    app.sender.start()
    time.sleep(0.3)
    assert not hook.received
    assert not [record for record in caplog.records if record.exc_info]
    disk.free()
    hook.wait_for(1)
    app.sender.close()
    app.tenants.forget_idle()


@pytest.mark.deep
def test_a_server_starts_on_a_full_disk_and_goes_on_once_there_is_room(disk, keys):
    """Without secret.key and counters, which it cannot make, and with temporary files there too."""
    data = disk.path / "data"
    for name in ("secret.key", "counters", "serve.lock"):
        (data / name).unlink(missing_ok=True)
    for label in LABELS:
        (data / "tenants" / f"{label}.lock").unlink()
    disk.fill()
    lead = {"name": "New", "phone": "+380671234569", "comment": "х" * 19_000}
    edge = b"--e\r\nContent-Disposition: form-data; name=file; filename=t.csv\r\n\r\n"
    rows = b"sku,name,price\n" + b"".join(b"s%d,Nut,1\n" % number for number in range(45_000))
    form = edge + rows + b"\r\n--e--\r\n", "multipart/form-data; boundary=e"
    assert len(form[0]) > 500_000  # that many are kept in memory
    with run_server(data, workers=2, expected="full", TMPDIR=str(disk.path)) as port:

        def send(label: str, method: str, path: str, body: Any = None, kind: str = "") -> tuple:
            headers = {"Content_Type": kind} if kind else {}
            answer = ask(port, method, path, body, keys.get(label, ""), label, **headers)
            is_json = "json" in (answer.headers["Content-Type"] or "")
            return answer.status, answer.json if is_json else answer.body

        for label in LABELS:
            for _ in range(3):
                status, body = send(label, "GET", "/api/v1/leads")
                assert status == 200 or (status, body["code"]) == (503, "storage_full")
                for _ in range(40):
                    status, body = send(label, "POST", "/api/v1/leads", lead)
                    if status != 201:
                        break
                assert (status, body["code"]) == (503, "storage_full")
                status, body = send(label, "POST", "/api/v1/products/import", *form)
                assert (status, body["code"]) == (503, "storage_full")
            assert send(label, "GET", "/login")[0] in (200, 503)
        assert send("", "GET", "/readyz") == (
            503,
            {"status": "unavailable", "reason": "storage_full"},
        )
        disk.free()
        for label in LABELS:
            before = len(send(label, "GET", "/api/v1/leads?limit=200")[1]["data"])
            assert send(label, "POST", "/api/v1/leads", lead)[0] == 201
            few = edge + rows[:1000].rpartition(b"\n")[0] + b"\r\n--e--\r\n", form[1]
            assert send(label, "POST", "/api/v1/products/import", *few)[0] == 200
            assert send(label, "GET", "/login")[0] == 200
            after = send(label, "GET", "/api/v1/leads?limit=200")[1]["data"]
            assert len(after) == before + 1
        assert send("", "GET", "/readyz")[0] == 200
    for label in LABELS:
        whole(data, label)


COMMANDS = (
    ("tenant", "create", "newcomer"),
    ("tenant", "plan", "closed", "pro"),
    ("key", "create", "closed", "--name", "robot"),
    ("user", "create", "closed", "--name", "Taras", "--phone", "+380501110002"),
    ("backup", "create", "closed"),
    ("tenant", "clone", "closed", "copy"),
    ("tenant", "export", "closed", "--to", "{disk}/closed.zip"),
    ("products", "import", "closed", "{tmp}/products.csv"),
    ("restore", "closed", "{tmp}/copy.db", "--yes"),
    ("leads", "export", "closed"),
    ("migrate",),
)


def run_command(words: list[str], output: str, errors: str) -> None:
    """Be `python app.py` with these words, its output and errors in files."""
    for number, path in ((1, output), (2, errors)):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
    sys.argv = ["app.py", *words]
    start.main()


@pytest.fixture(scope="module")
def commands():
    with ForkServer(__name__) as server:
        yield server


@pytest.fixture
def ran(commands, disk):
    """ran(*words): how a command ended, as a process of its own: code, output, and what it said of
    an error."""

    def run(*words: str) -> tuple[int, str, str]:
        words = tuple(word.format(disk=disk.path, tmp=disk.path.parent) for word in words)
        output, errors = disk.path.parent / "output", disk.path.parent / "errors"
        code = commands.call(
            "run_command", [*words, "--data", str(disk.path / "data")], output, errors
        )
        lines = errors.read_text("utf-8").splitlines()
        said = [line for line in lines if not line.startswith("data folder: ")]
        return code, output.read_text("utf-8"), "\n".join(said)

    return run


def tree(data: Path) -> set[str]:
    """All files, without what SQLite and locks leave beside."""
    results = (str(path.relative_to(data)) for path in data.rglob("*") if path.is_file())
    return {name for name in results if not re.search(r"(-wal|-shm|\.lock)\Z", name)}


@pytest.mark.deep
def test_commands_on_a_full_disk_end_with_one_line_and_leave_nothing(disk, keys, ran):
    del keys
    data, aside = disk.path / "data", disk.path.parent
    assert ran("backup", "create", "open", "--to", "{tmp}/made")[0] == 0
    next((aside / "made").glob("open-*.db")).rename(aside / "copy.db")
    rows = "".join(f"s{number},Nut,1\n" for number in range(2000))
    (aside / "products.csv").write_text("sku,name,price\n" + rows)
    disk.fill()
    before = tree(data)
    for words in COMMANDS:
        disk.fill()  # who opens a file that was left with its log makes room
        code, said, error = ran(*words)
        assert (code, said) == (1, ""), (words, said, error)
        assert error.startswith("Error: ") and "\n" not in error, (words, error)
        assert re.search("disk is full|No space left on device", error), (words, error)
        assert tree(data) == before, words
    code, said, _ = ran("doctor")
    assert code == 1 and re.search(r"^fault +disk .*the disk is full", said, re.M), said
    assert re.search(r"^fault +closed +it cannot be read now: the disk is full$", said, re.M)
    assert "cannot be used" not in said and "restore" not in said
    disk.free()
    for words in COMMANDS[:4]:
        assert ran(*words)[0] == 0, words
    for label in LABELS:
        whole(data, label)


def test_an_output_that_is_full_is_one_line(disk, keys):
    del keys
    command = [sys.executable, "-W", "error", str(ROOT / "app.py"), "leads", "export", "closed"]
    command += ["--data", str(disk.path / "data")]
    with open("/dev/full", "w") as full:
        result = subprocess.run(
            command, stdout=full, stderr=subprocess.PIPE, text=True, timeout=60, check=False
        )
    assert result.returncode == 1
    assert result.stderr.splitlines()[-1] == "Error: No space left on device"
    assert "Traceback" not in result.stderr and "Exception" not in result.stderr


def test_a_read_only_disk_is_told_and_what_can_be_read_is(disk, keys, ran):
    """SQLite reads a file there whose log was left; it cannot make one."""
    disk.remount("ro")
    try:
        app = create_app(config_for(disk.path / "data"), sends=False)
        for label in ("logged", "closed"):
            api = Api(app, label, keys[label])
            answer = api.get("/leads")
            if label == "logged":
                assert [lead["name"] for lead in answer.json["data"]] == ["Late", "Ivan"]
            else:
                assert (answer.status_code, answer.json["code"]) == (503, "storage_read_only")
            answer = write(api)
            assert (answer.status_code, answer.json["code"]) == (503, "storage_read_only")
        code, _, error = ran("tenant", "create", "newcomer")
        assert code == 1 and error.startswith("Error: ") and "\n" not in error
        app.tenants.forget_idle()
    finally:
        disk.remount("rw")
    for label in ("logged", "closed"):
        assert write(Api(app, label, keys[label])).status_code == 201
    app.tenants.forget_idle()


def test_a_disk_without_room_for_another_file_is_full(disk, app, keys):
    api = Api(app, "closed", keys["closed"])
    used = os.statvfs(disk.path)
    disk.remount(f"nr_inodes={used.f_files - used.f_ffree}")
    answer = write(api)
    assert (answer.status_code, answer.json["code"]) == (503, "storage_full")
    disk.remount("nr_inodes=10000")
    assert write(api).status_code == 201
    assert len(api.read("/leads")) == 2
