"""Pages of batches and of imports that run in the background."""

import io

import pytest

from crm.records import background
from crm.resources.leads import record as leads
from crm.spreadsheets import find_resource
from crm.storage.session import one_row, rows, transaction
from tests.csv_helpers import load
from tests.page_client import Person
from tests.tables import read_rows
from tests.waiting import wait_for

LEADS = "name,phone\n" + "".join(f"Лід {n},06712345{n:02}\n" for n in range(9))


def start_import(person: Person) -> str:
    """Send a file through all steps; the path of the report."""
    sent = person.post("/leads/import", {"file": (io.BytesIO(LEADS.encode()), "ліди.csv")})
    return person.post(sent.location, {"dialect": "plain"}).location


@pytest.fixture
def large(monkeypatch):
    monkeypatch.setattr(find_resource("leads"), "max_rows", 5, raising=False)


def test_a_large_import_shows_how_far_it_is_and_can_be_stopped(crm, olena, large, monkeypatch):
    monkeypatch.setattr(background, "look_after", lambda *_: None)  # it waits for its turn
    report = start_import(olena)
    page = olena.get(report)
    assert page.headers["Refresh"] == "2"
    assert '<progress id="progress"' in page.text and "0 із 9 записів" in page.text
    stopped = olena.post(f"{report}/cancel")
    page = olena.get(stopped.location)
    assert "Refresh" not in page.headers and "Імпорт зупинено" in page.text
    assert olena.post(f"{report}/cancel").status_code == 303  # it has ended already
    assert read_rows(crm.tenants, "acme", "SELECT state FROM import_run") == [("cancelled",)]


def test_the_page_of_a_batch_shows_what_its_undo_would_do_and_undoes_it(crm, olena, manager):
    with crm.tenants.session("acme") as session:
        session.user_id = 1
        load("leads", LEADS, file_name="ліди.csv")
        with transaction():
            leads.Lead.find(2).save_changes({"comment": "інше"})
    listed = olena.get("/leads/batches").text
    assert "Імпорт: ліди.csv" in listed and 'href="/leads/batches/1"' in listed
    page = olena.get("/leads/batches/1").text
    assert (
        "<dt>Буде скасовано</dt><dd>8</dd>" in page and "<dt>Лишиться як є</dt><dd>1</dd>" in page
    )
    assert 'href="/leads/2">Лід 1</a>: відтоді змінено' in page
    assert "може той, хто їх зробив, або власник" in manager.get("/leads/batches/1").text
    assert manager.post("/leads/batches/1/undo").status_code == 403
    done = olena.post("/leads/batches/1/undo")
    page = olena.get(done.location).text
    assert "Скасовано змін: 8" in page and "<dt>Лишилося як є</dt><dd>1</dd>" in page
    assert "lead,2,changed" in olena.get("/leads/batches/1/kept.csv").text
    assert olena.get("/clients/batches/1").status_code == 404
    assert "Це вже скасовано" in olena.post("/leads/batches/1/undo").text
    with crm.tenants.session("acme"):
        assert one_row("SELECT count(*) FROM lead WHERE deleted_at IS NULL") == (1,)


def test_a_long_undo_goes_on_in_the_background_and_its_page_shows_how_far(crm, olena, monkeypatch):
    from crm.cabinet.spreadsheets import batches

    monkeypatch.setattr(batches, "MAX_UNDONE_AT_ONCE", 5)
    with crm.tenants.session("acme") as session:
        session.user_id = 1
        load("leads", LEADS)
    look_after = background.look_after
    monkeypatch.setattr(background, "look_after", lambda *_: None)  # it waits for its turn
    page = olena.get(olena.post("/leads/batches/1/undo").location)
    assert page.headers["Refresh"] == "2" and "Сторінку можна закрити" in page.text
    monkeypatch.setattr(background, "look_after", look_after)
    olena.get("/leads/batches/1")  # whoever asks about it, has it go on
    with crm.tenants.session("acme"):
        wait_for(lambda: rows("SELECT state, reversed FROM batch") == [("undone", 9)])
    page = olena.get("/leads/batches/1")
    assert "Refresh" not in page.headers and "Скасовано" in page.text
