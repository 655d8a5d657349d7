"""Exports of any size: little memory, one moment, whole or not at all, and nobody waits for a slow
reader."""

import contextlib
import errno
import http.client
import io
import os
import sqlite3
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from crm import CRMApp, create_app
from crm.resources import tenant
from crm.spreadsheets import exporter
from crm.storage import reading
from crm.storage.reading import MAX_SPOOLED_FILES, snapshot
from crm.storage.session import current_session, execute, transaction
from tests.conftest import Api, key_for
from tests.installations import config_for, environ_for, on_postgres
from tests.server_process import ROOT, find_free_port, run_listening_process
from tests.waiting import wait_for

ROWS = 50_000
MORE_MIB = 30  # that an export of all of them may take; to build it whole takes 60 and more
AT = "'2026-03-02T09:00:00Z'"
NUMBERS = f"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {ROWS})"
TEXT = "'Коментар ' || i || ' про замовлення, яке треба уточнити'"
FILLING = (
    "INSERT INTO lead (name, phone, source, status, currency, comment, created_at, updated_at,"
    f" version) SELECT 'Lead ' || i, '+380671234567', 'api', 'new', 'UAH', {TEXT}, {AT}, {AT}, 1",
    "INSERT INTO deal (title, pipeline_id, stage_id, status, amount_mode, currency, comment,"
    " stage_changed_at, created_at, updated_at, version)"
    f" SELECT 'Deal ' || i, 1, 1, 'open', 'items', 'UAH', {TEXT}, {AT}, {AT}, {AT}, 1",
    "INSERT INTO deal_item (deal_id, name, quantity, price, discount, discount_type, subtotal,"
    " discount_amount, total, position, comment, created_at, updated_at, version)"
    f" SELECT i, 'Item', 1000, 1, 0, 'percent', 1, 0, 1, 1, {TEXT}, {AT}, {AT}, 1",
)
OPEN_TRANSACTIONS = """
    SELECT state, query FROM pg_stat_activity WHERE datname = current_database()
        AND xact_start IS NOT NULL AND pid <> pg_backend_pid()
"""


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A data folder in which acme has 50,000 leads and deals, and a key."""
    folder = tmp_path_factory.mktemp("large")
    crm = create_app(config_for(folder), sends=False)
    tenant.open_tenant(crm.tenants, "acme", plan="business")
    with crm.tenants.session("acme"), transaction():
        for sql in FILLING:
            execute(f"{NUMBERS} {sql} FROM n")
    key = key_for(crm, "acme", "*", user_id=1)
    crm.tenants.forget_idle()
    return folder, key


@pytest.fixture(scope="module")
def server(large) -> Iterator[tuple[int, int]]:
    """A server of that folder: its port, and the process that answers."""
    port = find_free_port()
    words = ["serve", "--data", str(large[0]), "--port", str(port), "--workers", "1"]
    environ = {name: value for name, value in os.environ.items() if not name.startswith("CRM_")}
    called = [sys.executable, "app.py", *words]
    with run_listening_process(
        called, port, cwd=ROOT, env=environ | environ_for(large[0])
    ) as process:
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
        wait_for(lambda: children.read_text() != "", 20)  # it listens before
        yield port, int(children.read_text().split()[0])


def peak_mib(process: int) -> float:
    """The most memory that a process ever had, since reset_peak()."""
    status = Path(f"/proc/{process}/status").read_text()
    (line,) = (line for line in status.splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) / 1024


def reset_peak(process: int) -> None:
    Path(f"/proc/{process}/clear_refs").write_text("5")


def asking(port: int, key: str, path: str, method: str = "GET") -> http.client.HTTPConnection:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    headers = {"Host": "acme.localhost", "Authorization": f"Bearer {key}"}
    connection.request(method, f"/api/v1{path}", headers=headers)
    return connection


@pytest.mark.process
@pytest.mark.parametrize("noun", ["leads", "deals"])
def test_a_server_takes_little_memory_for_a_large_export(large, server, noun):
    port, process = server
    few = asking(port, large[1], f"/{noun}/export?ids=1")
    assert few.getresponse().read().count(b"\r\n") == 2
    few.close()
    reset_peak(process)
    before = peak_mib(process)
    connection = asking(port, large[1], f"/{noun}/export")
    answer = connection.getresponse()
    length, lines = 0, 0
    while block := answer.read(1 << 16):
        length, lines = length + len(block), lines + block.count(b"\n")
    connection.close()
    assert length == int(answer.headers["Content-Length"]) > 4_000_000
    assert lines >= ROWS
    assert peak_mib(process) - before < MORE_MIB


def require_nobody_reads(folder: Path) -> None:
    """Assert that nobody has a transaction open in which acme is read."""
    if on_postgres():
        with psycopg.connect(environ_for(folder)["CRM_DATABASE"]) as connection:
            assert connection.execute(OPEN_TRANSACTIONS).fetchall() == []
        return
    path = folder / "tenants" / "acme.db"
    writer = sqlite3.connect(path, isolation_level=None)
    try:
        writer.execute("UPDATE lead SET comment = 'later' WHERE id = 50000")
        busy, _, _ = writer.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        assert not busy  # nobody reads an older state
        assert path.with_name("acme.db-wal").stat().st_size == 0
    finally:
        writer.close()


@pytest.mark.process
def test_who_reads_slowly_holds_no_connection_to_the_database(large, server):
    port, process = server
    connection = asking(port, large[1], "/leads/export")
    answer = connection.getresponse()
    assert answer.read(1000)
    require_nobody_reads(large[0])
    assert spooled(process) == 1
    assert not [name for name in os.listdir(large[0]) if name.startswith("tmp")]
    connection.close()
    wait_for(lambda: spooled(process) == 0, 20)


def spooled(process: int) -> int:
    """How many files without a name a process has open in the data folder."""
    names = []
    for link in Path(f"/proc/{process}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # closed meanwhile
            names.append(os.readlink(link))
    return sum(name.endswith("(deleted)") and "/large" in name for name in names)


# In one process


@pytest.fixture
def deals(crm: CRMApp, api: Api) -> Api:
    for number in range(60):
        id = api.create("/deals", title=f"Deal {number}")
        api.post(f"/deals/{id}/items", {"name": "Before", "price": 1})
    return api


def test_an_export_is_of_one_moment(crm, deals, monkeypatch):
    """Records, and what belongs to them, are read by several statements."""
    parts, written = exporter._parts, []

    def write_before(*wanted: Any) -> Any:
        def write() -> None:
            deals.patch("/deals/60", {"title": "After"})
            deals.post("/deals/60/items", {"name": "After", "price": 1})
            deals.patch("/deals/1/items/1", {"name": "After"})
            deals.create("/deals", title="After")

        another = threading.Thread(target=write)
        another.start()
        another.join()
        written.append(1)
        return parts(*wanted)

    monkeypatch.setattr(exporter, "_parts", write_before)
    answer = deals.get("/deals/export")
    assert len(written) > 1
    assert answer.status_code == 200
    assert b"After" not in answer.data
    assert answer.data.count(b"Before") == 60
    monkeypatch.undo()
    assert b"After" in deals.get("/deals/export").data


def test_a_failure_in_the_middle_is_an_error_and_no_shorter_file(crm, deals, monkeypatch):
    rows_of, response = exporter._rows, []

    def fail(*wanted: Any) -> Iterator[list[str]]:
        for cells in rows_of(*wanted):
            response.append(cells)
            if len(response) == 40:
                raise RuntimeError("it fails in the middle")
            yield cells

    monkeypatch.setattr(exporter, "_rows", fail)
    answer = deals.get("/deals/export")
    assert answer.status_code == 500
    assert answer.json["code"] == "internal_error"
    assert len(response) == 40
    monkeypatch.undo()
    assert deals.get("/deals/export").status_code == 200  # its connection reads again


def test_an_export_that_the_disk_does_not_take_is_503(crm, deals, monkeypatch):
    class Full(io.BytesIO):
        def write(self, data: Any) -> int:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(reading, "SpooledTemporaryFile", lambda *_, **__: Full())
    answer = deals.get("/deals/export")
    assert (answer.status_code, answer.json["code"]) == (503, "storage_full")


def test_the_body_needs_no_visit_and_is_closed_with_its_answer(crm, api):
    api.create("/leads", name="Олена", phone="+380671234567")
    answer = api.get("/leads/export", buffered=False)
    assert answer.is_streamed
    assert reading.SpooledFile._open
    assert "Олена".encode() in b"".join(answer.response)
    assert int(answer.headers["Content-Length"]) > 0
    answer.close()
    assert not reading.SpooledFile._open


def test_a_tenant_has_so_many_files_waiting_to_be_read(crm, api, ivan):
    unread = [api.get("/leads/export", buffered=False) for _ in range(MAX_SPOOLED_FILES)]
    refused = api.get("/leads/export")
    assert (refused.status_code, refused.json["code"]) == (503, "busy")
    assert "Retry-After" in refused.headers
    assert ivan.get("/leads/export").status_code == 200  # others have theirs
    unread.pop().close()
    assert api.get("/leads/export").status_code == 200
    for answer in unread:
        answer.close()
    assert not reading.SpooledFile._open


def test_a_snapshot_ends_with_its_block_and_nests(crm, api):
    with crm.tenants.session("acme"):
        connection = current_session().connection
        with snapshot(), snapshot():
            assert connection.in_transaction
        assert not connection.in_transaction
        with pytest.raises(ZeroDivisionError), snapshot():
            _ = 1 / 0
        assert not connection.in_transaction
        with transaction(), snapshot():
            execute("UPDATE tenant SET name = 'Renamed'")
        with snapshot():
            assert reading.rows("SELECT name FROM tenant") == [("Renamed",)]
