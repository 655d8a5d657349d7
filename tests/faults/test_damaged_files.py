"""A tenant's file that is damaged, cut, or may not be read: its requests get 503, others go on."""

import logging
import os
import random
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from crm.storage import unavailable
from crm.storage.sqlite import tenant as tenant_file
from tests.conftest import OLENA
from tests.page_client import Person

pytestmark = pytest.mark.files

PAGE = 4096


def no_database(path: Path) -> None:
    path.write_bytes(b"not a database " * 1000)


def empty(path: Path) -> None:
    path.write_bytes(b"")


def cut(path: Path) -> None:
    """As a copy that was not whole."""
    os.truncate(path, path.stat().st_size // 2 // PAGE * PAGE)


def cut_within_a_page(path: Path) -> None:
    os.truncate(path, 3 * PAGE + 100)


def header(path: Path) -> None:
    with path.open("r+b") as file:
        file.write(bytes(100))


def middle(path: Path) -> None:
    """All pages but the first are of another file."""
    with path.open("r+b") as file:
        file.seek(PAGE)
        file.write(b"\xff" * (path.stat().st_size - PAGE))


DAMAGES = (no_database, empty, cut, cut_within_a_page, header, middle)


def lines_of(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [one.getMessage() for one in caplog.records if one.levelno >= logging.WARNING
            and one.name != "crm.requests"]  # fmt: skip


@pytest.mark.parametrize(
    ("damage", "is_open"),
    # Who has it open knows its header, and needs it no more.
    [(each, is_open) for each in DAMAGES for is_open in (False, True)
     if not (each is header and is_open)],
)  # fmt: skip
def test_its_requests_get_503_with_one_line_and_others_go_on(
    crm, api, ivan, damage, is_open, caplog, monkeypatch
):
    lead = api.create("/leads", name="Ivan", phone="+380671234567")
    olena = Person(crm, "acme", OLENA)
    olena.sees("/leads")
    path = crm.tenants.path("acme")
    crm.tenants.forget_idle()
    whole = path.read_bytes()
    if is_open:
        api.read("/leads")
    damage(path)
    paths = ("/leads", "/clients", "/deals", "/tasks", "/products", "/pipelines", f"/leads/{lead}")
    paths += ("/users", "/events", "/webhooks", "/leads?q=Ivan", "/products/export")
    answers = [api.get(one) for one in paths]  # what SQLite has in memory may be answered yet
    assert {answer.status_code for answer in answers} <= {200, 503}, [a.text for a in answers]
    answers = [answer for answer in answers if answer.status_code == 503]
    assert answers
    opened = []
    monkeypatch.setattr(tenant_file, "connect", lambda *_: opened.append(_))
    answers += [api.get("/leads"), api.post("/leads", {"name": "a", "email": "a@a.example"})]
    for answer in answers:
        assert answer.json["code"] == "tenant_unavailable"
        assert int(answer.headers["Retry-After"]) > 0
    page = olena.get("/leads")
    assert page.status_code == 503
    assert "acme.db" not in page.text and "tenant_unavailable" not in page.text
    assert not opened, "it is set aside: no request opens it again"
    monkeypatch.undo()
    assert ivan.get("/leads").status_code == 200
    assert ivan.create("/leads", name="Olha", phone="+380671234568")
    (line,) = lines_of(caplog)
    assert line.startswith("the file of acme cannot be used, its requests get 503")
    assert not [record for record in caplog.records if record.exc_info]
    path.write_bytes(whole)
    for left in ("-wal", "-shm"):
        Path(f"{path}{left}").unlink(missing_ok=True)
    assert [one["name"] for one in api.read("/leads")] == ["Ivan"]
    assert api.post("/leads", {"name": "b", "email": "b@a.example"}).status_code == 201


def test_whatever_bytes_change_nobody_gets_a_500(crm, api):
    """Values may be others than before: that is for a check, which the doctor makes. So is a name
    in the schema, or the brackets of a JSON text, which these bytes leave alone."""
    for number in range(30):
        api.create("/leads", name=f"Ivan {number}", phone="+380671234567", comment="х" * 500)
    path = crm.tenants.path("acme")
    crm.tenants.forget_idle()
    whole, chance = path.read_bytes(), random.Random(12)
    seen = set()
    for _ in range(40):
        raw = bytearray(whole)
        for _ in range(chance.choice((1, 20, 400))):
            raw[chance.randrange(100, len(raw))] = chance.randrange(256)
        path.write_bytes(raw)
        for one in ("/leads?limit=200", "/leads?q=Ivan", "/events", "/users", "/pipelines"):
            answer = api.get(one)
            seen.add(answer.status_code)
            if answer.status_code == 500:
                raise AssertionError(answer.text)
        api.post("/leads", {"name": "a", "email": "a@a.example"})
        crm.tenants.forget_idle()
        for left in ("-wal", "-shm"):
            Path(f"{path}{left}").unlink(missing_ok=True)
    assert {200, 503} <= seen


class Nobody:
    """Another user than root, who may read everything, for a moment."""

    def __enter__(self) -> None:
        if not os.geteuid():
            os.setegid(65534)
            os.seteuid(65534)

    def __exit__(self, *_: Any) -> None:
        if not os.getuid():
            os.seteuid(0)
            os.setegid(0)


@pytest.fixture
def reachable(crm, tmp_path, request):
    """The data folder, which another user than root owns and reaches."""
    data = crm.tenants.config.data
    if not os.geteuid():
        above = [tmp_path, *tmp_path.parents[:3]]
        modes = [(item, item.stat().st_mode) for item in above]
        for item, mode in modes:
            item.chmod(mode | 0o055)
        request.addfinalizer(lambda: [item.chmod(mode) for item, mode in modes])
        subprocess.run(["chown", "-R", "65534:65534", str(data)], check=True)
    return data


@pytest.mark.process
@pytest.mark.parametrize("name", ["acme.db", "acme.lock"])
def test_lost_rights_are_503_until_they_are_given_back(crm, api, ivan, reachable, name, caplog):
    with Nobody():
        api.create("/leads", name="Ivan", phone="+380671234567")
        ivan.read("/leads")
        crm.tenants.forget_idle()
    path = reachable / "tenants" / name
    before = path.stat().st_mode
    path.chmod(0)
    with Nobody():
        answers = [api.post("/leads", {"name": "a", "email": "a@a.example"}) for _ in range(3)]
        assert [(one.status_code, one.json["code"]) for one in answers] == [
            (503, "tenant_unavailable")
        ] * 3
        assert ivan.get("/leads").status_code == 200
        (line,) = lines_of(caplog)
        assert line.startswith("the file of acme cannot be used")
    assert not [record for record in caplog.records if record.exc_info]
    path.chmod(before)
    with Nobody():
        assert api.get("/leads").status_code == 200
        assert api.post("/leads", {"name": "b", "email": "b@a.example"}).status_code == 201
        crm.tenants.forget_idle()


def test_a_line_comes_once_a_minute_and_cause(crm, api, ivan, caplog, monkeypatch):
    crm.tenants.forget_idle()
    path = crm.tenants.path("acme")
    no_database(path)
    now = [time.monotonic()]
    monkeypatch.setattr(unavailable.time, "monotonic", lambda: now[0])
    note = crm.tenants.config.data / "unavailable" / "acme"
    for lines in (1, 2, 3):
        for _ in range(5):
            assert api.get("/leads").status_code == 503
        assert len(lines_of(caplog)) == lines
        now[0] += 61
        os.utime(note, (0, 0))
    no_database(crm.tenants.path("globex"))
    for _ in range(3):
        ivan.get("/leads")
    assert len(lines_of(caplog)) == 4
