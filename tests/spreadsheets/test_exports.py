"""Exports of any size: little memory, one moment, and nobody waits for a slow reader.

A server that sends chunks begins before the last row is read, and breaks off if an error comes
then; others send the whole file or an error.
"""

import errno
import io
import os
import sqlite3
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from crm import CRMApp
from crm.spreadsheets import exporter
from crm.storage import reading
from crm.storage.reading import MAX_SPOOLED_FILES, snapshot
from crm.storage.session import current_session, execute, rows, transaction
from tests.conftest import Api
from tests.csv_helpers import workbook_rows
from tests.memory import peak_bytes
from tests.waiting import TIMEOUT_SECONDS, wait_for

ROWS = 5000
MORE_BYTES = 3_000_000  # that an export of all of them may take; read at once 7 MB and more
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

CHUNKED = {"environ_overrides": {"wsgi.input_terminated": True}}  # as our server has it


@pytest.fixture
def large(crm: CRMApp) -> None:
    """acme has many leads and deals."""
    with crm.tenants.session("acme"), transaction():
        for sql in FILLING:
            execute(f"{NUMBERS} {sql} FROM n")


@pytest.mark.parametrize("noun, how", [("leads", {}), ("deals", CHUNKED)])
def test_a_large_export_takes_little_memory(api, large, noun, how):
    api.get(f"/{noun}/export?ids=1", **how)
    lines = []

    def export() -> None:
        with api.get(f"/{noun}/export", buffered=False, **how) as answer:
            lines.append(sum(block.count(b"\r\n") for block in answer.response))

    assert peak_bytes(export) < MORE_BYTES
    assert lines == [ROWS + 1]


def is_written() -> bool:
    """Whether no thread writes a file."""
    return all(thread.name != "spool" for thread in threading.enumerate())


@pytest.mark.files
def test_who_reads_slowly_does_not_hold_the_database(crm, api, large):
    answer = api.get("/leads/export", buffered=False, **CHUNKED)
    assert next(iter(answer.response)) and reading.SpooledFile._open
    wait_for(is_written)
    api.patch("/leads/1", {"comment": "later"})
    with sqlite3.connect(crm.tenants.config.data / "tenants" / "acme.db") as writer:
        busy, _, _ = writer.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    writer.close()
    assert not busy  # nobody reads an older state
    answer.close()
    assert not reading.SpooledFile._open


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


@pytest.fixture
def go(monkeypatch) -> threading.Event:
    """Exports pause after each record until it is set."""
    go, rows_of = threading.Event(), exporter._rows

    def pause(*wanted: Any) -> Iterator[Any]:
        for cells in rows_of(*wanted):
            yield cells
            assert go.wait(TIMEOUT_SECONDS)

    monkeypatch.setattr(exporter, "_rows", pause)
    return go


def test_an_export_of_few_records_reads_no_others(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    statements: list[str] = []

    def note(sql: str, params: Any = ()) -> Any:
        statements.append(sql)
        return reading.batches(sql, params)

    monkeypatch.setattr(exporter, "batches", note)
    assert api.get("/leads/export?created_until=2020-01-01T00:00:00Z").status_code == 200
    of_few = "FROM lead NOT INDEXED WHERE deleted_at IS NULL AND id IN (SELECT id FROM lead"
    assert of_few in statements[0]


@pytest.mark.parametrize("query", ["", "?format=xlsx"])
def test_an_export_begins_before_its_rows_and_is_of_one_moment(deals, go, query):
    with deals.get(f"/deals/export{query}", buffered=False, **CHUNKED) as answer:
        assert answer.status_code == 200
        assert "Content-Length" not in answer.headers
        parts = iter(answer.response)
        data = next(parts)
        deals.patch("/deals/60", {"title": "After"})
        deals.post("/deals/60/items", {"name": "After", "price": 1})
        deals.delete("/deals/59")
        go.set()
        data += b"".join(parts)
    assert not reading.SpooledFile._open
    text = str(workbook_rows(data)) if query else data.decode()
    assert (text.count("Deal "), text.count("Before")) == (60, 60)
    assert "After" not in text


def test_an_error_after_the_first_part_is_raised_to_the_server(deals, go, monkeypatch):
    def fail(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with deals.get("/deals/export", buffered=False, **CHUNKED) as answer:
        parts = iter(answer.response)
        assert next(parts)
        monkeypatch.setattr(reading.SpooledFile, "write", fail)
        go.set()
        with pytest.raises(OSError, match="space"):
            list(parts)
    monkeypatch.undo()
    assert deals.get("/deals/export", **CHUNKED).data.count(b"\r\n") == 61


@pytest.mark.parametrize("protocol", ["HTTP/1.0", "HTTP/1.1"])
def test_what_has_no_chunks_gets_the_whole_file(deals, monkeypatch, protocol):
    monkeypatch.setattr(reading, "FIRST_BLOCK_SECONDS", 0)
    environ: dict[str, Any] = {"SERVER_PROTOCOL": protocol}
    if protocol == "HTTP/1.0":
        environ["wsgi.input_terminated"] = True
    answer = deals.get("/deals/export", environ_overrides=environ)
    assert answer.content_length == len(answer.data)


@pytest.mark.files
def test_who_leaves_ends_the_export(crm, deals, go):
    deals.get("/deals/export", buffered=False, **CHUNKED).close()
    assert not reading.SpooledFile._open
    go.set()
    wait_for(is_written)
    with crm.tenants.session("acme"):
        assert not current_session().connection.in_transaction
    assert deals.get("/deals/export", **CHUNKED).status_code == 200


def test_a_failure_in_the_middle_is_an_error_and_no_shorter_file(crm, deals, monkeypatch):
    rows_of, response = exporter._rows, []

    def fail(*wanted: Any) -> Iterator[list[str]]:
        for cells in rows_of(*wanted):
            response.append(cells)
            if len(response) == 40:
                raise RuntimeError("it fails in the middle")
            yield cells

    monkeypatch.setattr(exporter, "_rows", fail)
    monkeypatch.setattr(reading, "FIRST_BLOCK_SECONDS", TIMEOUT_SECONDS)
    answer = deals.get("/deals/export", **CHUNKED)
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
    answer = deals.get("/deals/export", **CHUNKED)
    assert (answer.status_code, answer.json["code"]) == (503, "storage_full")


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
            assert rows("SELECT name FROM tenant") == [("Renamed",)]
