"""Large files: in several transactions, resumed, cancelled and undone."""

import csv
import io
import threading
import time
from typing import Any

import pytest

from crm.errors import Conflict, StorageQuota
from crm.outbox.sender import Sender
from crm.records import background, batches
from crm.records.background import LeaseLost
from crm.records.batches import Batch
from crm.resources.batches import undo
from crm.resources.leads import record as leads
from crm.resources.products import csv_columns
from crm.spreadsheets import find_resource, import_file, import_run, importer, read_file
from crm.spreadsheets.import_run import IMPORT_RUN, ImportRun
from crm.spreadsheets.options import ImportOptions
from crm.spreadsheets.reader import ParsedFile
from crm.storage import chunks
from crm.storage.session import one_row, rows, transaction
from crm.storage.wakeup import WakeupPipe
from tests.conftest import OLENA, TARAS, Api, key_for
from tests.csv_helpers import all_files, load, send
from tests.resources.refusals import refusal
from tests.resources.test_undo import FILES, fill
from tests.waiting import wait_for

HEADER = "external_id,name,phone,tags\n"
LEADS = HEADER + "".join(f"L-{n},Лід {n},06712345{n:02},опт\n" for n in range(30))
NO_NAME = HEADER + "".join(
    f"L-{n},{'' if n % 3 == 0 else 'Лід'},06712345{n:02},\n" for n in range(30)
)


@pytest.fixture(autouse=True)
def small_limits(monkeypatch):
    """Files of more than five rows are large, and each record has a transaction of its own."""
    for plural in FILES:
        monkeypatch.setattr(find_resource(plural), "max_rows", 5, raising=False)
    monkeypatch.setattr(chunks, "CHUNK_SECONDS", 0)
    monkeypatch.setattr(background, "RETRY_SECONDS", 0.05)


@pytest.fixture
def acme(crm):
    with crm.tenants.session("acme") as session:
        session.user_id = OLENA
        yield session


def parse(plural: str, text: str, **options: Any) -> Any:
    return read_file(text.encode(), find_resource(plural), **options)


def ended(api: Api, location: str) -> dict[str, Any]:
    """The report of an import once it has ended."""
    reports: list[dict[str, Any]] = []

    def has_ended() -> bool:
        reports.append(api.read(location.partition("/api/v1")[2]))
        return reports[-1]["status"] != "running"

    wait_for(has_ended)
    return reports[-1]


def start(api: Api, plural: str, text: str) -> str:
    answer = send(api, plural, text)
    assert answer.status_code == 202, answer.text
    id = answer.json["import_id"]
    assert answer.json == {"status": "running", "import_id": id}
    assert answer.headers["Location"] == f"http://{api.label}.localhost:8000/api/v1/imports/{id}"
    return answer.headers["Location"]


def test_a_large_file_is_answered_at_once_and_imported_in_the_background(api, ivan):
    location = start(api, "leads", NO_NAME)
    assert ivan.get(location.partition("/api/v1")[2]).status_code == 404
    report = ended(api, location)
    assert (report["status"], report["position"], report["total"]) == ("done", 30, 30)
    assert (report["created"], report["updated"], report["rejected"]) == (20, 0, 10)
    assert [error["line"] for error in report["errors"]] == [*range(2, 32, 3)]
    repair = api.get(f"{location.partition('/api/v1')[2]}/errors.csv").text
    lines = list(csv.DictReader(io.StringIO(repair)))
    assert [line["external_id"] for line in lines] == [f"L-{n}" for n in range(0, 30, 3)]
    assert lines[0]["error"] == "name: a new lead needs it"
    assert len(api.read("/leads")) == 20 and api.kinds() == ["lead.created"] * 20
    batch = api.read(f"/batches/{report['batch_id']}")
    assert (batch["state"], batch["created"], batch["user_id"]) == ("done", 20, str(OLENA))
    with api.crm.tenants.session("acme"):
        assert not rows("SELECT * FROM import_part")
        assert rows("SELECT lease_until FROM batch") == [(None,)]


@pytest.mark.parametrize("plural", FILES)
def test_chunks_do_what_one_transaction_does(acme, crm, plural, monkeypatch):
    fill()
    text = FILES[plural].replace("Taras", "")  # who works at acme alone
    with crm.tenants.session("globex"):
        fill()
        with monkeypatch.context() as patched:
            patched.setattr(ParsedFile, "is_large", False)
            at_once = import_file(parse(plural, text))
        expected = {name: data.replace(b"globex", b"acme") for name, data in all_files().items()}
    before = all_files()
    result = import_file(parse(plural, text))
    counts = ("created", "updated", "unchanged", "rejected", "errors")
    assert [getattr(result, name) for name in counts] == [getattr(at_once, name) for name in counts]

    def comparable(files: dict[str, bytes]) -> list[list[str]]:
        texts = [
            data.decode().replace("olena@acme.example", "").replace("Ivan", "")
            for data in files.values()
        ]
        return [[line.rpartition(",")[0] for line in text.split("\r\n")] for text in texts]

    assert comparable(all_files()) == comparable(expected)
    undo.undo(result.batch_id)
    assert all_files() == before


def test_products_have_one_event_at_the_end(acme, api, monkeypatch):
    monkeypatch.setattr(csv_columns, "CHUNK_ROWS", 4)
    text = "sku,name,price\n" + "".join(f"S-{n},Товар,{n}\n" for n in range(10)) + "S-1,Двічі,1\n"
    result = import_file(parse("products", text))
    assert (result.created, result.rejected) == (10, 1)
    (event,) = api.events()
    counts = {"created": 10, "updated": 0, "skipped": 1}
    assert event["data"]["import"] == {"id": str(result.import_id), **counts}
    assert undo.undo(result.batch_id)[:2] == (10, 0)


def work_until_killed(text: str, steps: int, **options: Any) -> tuple[int, int, str]:
    """Begin an import whose process ends after so many records: (its id, its batch, the lease)."""
    run, _ = import_run.start(parse("leads", text, **options), "ліди.csv")
    batch_id, lease = background.claim()
    step = import_run._prepare(Batch.find(batch_id))
    for _ in range(steps):
        with transaction(), batches.recording(Batch.find(batch_id)):
            assert step(Batch.find(batch_id), lambda: False)
    return run.id, batch_id, lease


def test_an_import_goes_on_where_another_process_has_left_it(acme, clock):
    id, batch_id, lease = work_until_killed(NO_NAME, 7)
    assert (ImportRun.find(id).position, ImportRun.find(id).created) == (7, 4)
    assert background.claim() is None  # its lease has not ended
    clock.tick(background.LEASE_SECONDS + 1)
    claimed = background.claim()
    # The first process was only slow: it finds that it has lost the lease.
    with pytest.raises(LeaseLost):
        background.resume(batch_id, lease)
    assert ImportRun.find(id).position == 7
    background.resume(*claimed)
    report = IMPORT_RUN.one(id)
    assert (report["status"], report["created"], report["rejected"]) == ("done", 20, 10)
    assert one_row("SELECT count(*) FROM lead") == (20,)
    assert len(report["errors"]) == 10
    assert ImportRun.find(id).rejects.count(b"\r\n") == 11
    assert background.claim() is None


def test_fields_that_an_import_adds_are_there_for_who_goes_on_with_it(acme, clock, api):
    mapping = {name: name for name in ("external_id", "name", "phone")}
    options = ImportOptions(mapping | {"tags": {"new_field": {"key": "kind", "type": "text"}}})
    id, batch_id, _ = work_until_killed(LEADS, 7, options=options)
    clock.tick(background.LEASE_SECONDS + 1)
    background.resume(*background.claim())
    assert ImportRun.find(id).created == 30
    assert {lead["custom"]["kind"] for lead in api.read("/leads")} == {"опт"}
    assert undo.undo(batch_id)[:2] == (31, 0)
    assert one_row("SELECT count(*) FROM custom_field WHERE deleted_at IS NULL") == (0,)


def test_an_import_acts_for_who_has_sent_it(crm, api, taras):
    report = ended(taras, start(taras, "leads", LEADS))
    assert report["user_id"] == str(TARAS)
    assert {lead["created_by"] for lead in api.read("/leads")} == {str(TARAS)}
    refused = Api(crm, "acme", key_for(crm, "acme", "leads:write"))
    assert refused.get("/imports/1").status_code == 403


def test_a_cancelled_import_keeps_what_it_has_done_and_is_undone(acme, clock, api, reader):
    id, batch_id, lease = work_until_killed(LEADS, 3)
    assert reader.post(f"/imports/{id}/cancel").status_code == 403
    assert refusal(undo.undo, batch_id) == "batch_running"
    answer = api.post(f"/imports/{id}/cancel")
    assert answer.json == {"status": "cancelled", "batch_id": str(batch_id)}
    assert api.post(f"/imports/{id}/cancel").json["code"] == "not_running"
    with pytest.raises(LeaseLost):
        background.resume(batch_id, lease)
    assert not rows("SELECT * FROM import_part")
    assert (Batch.find(batch_id).state, Batch.find(batch_id).created) == ("cancelled", 3)
    assert undo.undo(batch_id)[:2] == (3, 0)


def test_a_refusal_of_the_whole_tenant_ends_the_import(acme, crm, monkeypatch):
    create, count = leads.Lead.add, iter(range(99))

    def refuse(values: Any) -> Any:
        if next(count) == 4:
            raise StorageQuota
        return create(values)

    monkeypatch.setattr(leads.Lead, "add", refuse)
    id = import_run.start(parse("leads", LEADS), None)[0].id
    background.look_after(crm.tenants, "acme")
    wait_for(lambda: ImportRun.find(id).state != "running")
    run = ImportRun.find(id)
    assert (run.state, run.position, run.created) == ("failed", 4, 4)
    assert '"code":"storage_quota"' in run.errors
    assert undo.undo(run.batch_id)[:2] == (4, 0)


def test_an_interrupted_command_has_failed_and_is_undone(acme, monkeypatch):
    def interrupt(done: int, total: int) -> None:
        if done > 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        import_file(parse("leads", LEADS), progress=interrupt)
    run = ImportRun.find(1)
    assert run.state == "failed" and '"code":"unexpected"' in run.errors
    assert undo.undo(run.batch_id)[:2] == (3, 0)


def test_an_import_whose_process_died_is_undone_after_its_lease(acme, clock):
    id, batch_id, _ = work_until_killed(LEADS, 3)
    assert refusal(undo.undo, batch_id) == "batch_running"
    clock.tick(background.LEASE_SECONDS + 1)
    assert undo.undo(batch_id)[:2] == (3, 0)
    assert ImportRun.find(id).state == "cancelled" and not rows("SELECT * FROM import_part")


@pytest.mark.slow  # its sender's threads end after the test
def test_an_import_whose_process_died_goes_on_without_being_asked_for(acme, crm, clock):
    """A sender that starts finds it, and goes on with it when its lease ends."""
    id, _, _ = work_until_killed(LEADS, 3)
    sender = Sender(crm.tenants)
    sender.start()
    try:
        acme.source.wake_sender()
        wait_for(lambda: sender._next_checks)
        assert ImportRun.find(id).state == "running"
        clock.tick(background.LEASE_SECONDS + 2)
        sender.tenants.wakeup_pipe.notify("")  # whose clock does not tick by itself
        wait_for(lambda: ImportRun.find(id).state == "done")
        assert ImportRun.find(id).created == 30
    finally:
        sender.close()


def test_the_start_of_an_import_is_told_to_the_sender(api, monkeypatch):
    woken: list[str] = []
    monkeypatch.setattr(WakeupPipe, "notify", lambda self, label: bool(woken.append(label)))
    ended(api, start(api, "products", "sku,name,price\n" + "A,Б,1\n" * 6))
    assert "acme" in woken


def test_too_many_imports_at_a_time_are_refused(acme, monkeypatch):
    monkeypatch.setattr(background, "MAX_RUNNING", 2)
    for _ in range(2):
        import_run.start(parse("leads", LEADS), None)
    with pytest.raises(Conflict):
        import_run.start(parse("leads", LEADS), None)


def test_others_write_between_the_transactions(acme, crm, monkeypatch):
    """Each pause is long enough that a waiting writer gets its turn."""
    monkeypatch.setattr(chunks, "CHUNK_SECONDS", 0.02)
    waits = []

    def write() -> None:
        while not done:
            with crm.tenants.session("acme"):
                began = time.monotonic()
                leads.create({"name": "Інша", "phone": "+380671234567"})
                waits.append(time.monotonic() - began)
            time.sleep(0.01)

    done: list[bool] = []
    thread = threading.Thread(target=write)
    thread.start()
    try:
        text = HEADER + "".join(f"M-{n},Лід,0671234567,\n" for n in range(600))
        result = import_file(parse("leads", text))
    finally:
        done.append(True)
        thread.join()
    assert result.created == 600 and len(waits) > 2


# Dry runs


def test_a_dry_run_tries_the_first_records_and_looks_for_the_keys_of_others(acme, monkeypatch):
    monkeypatch.setattr(importer, "MAX_TRIED", 10)
    load("leads", "".join(LEADS.splitlines(keepends=True)[:16]))
    stored = ("SELECT * FROM lead", "SELECT * FROM event", "SELECT max(id) FROM batch")
    before = list(map(rows, stored))
    tried = import_file(parse("leads", LEADS), dry_run=True)
    # Of the first ten nothing differs; of the others only the keys are compared.
    assert (tried.unchanged, tried.updated, tried.created, tried.rejected) == (10, 5, 15, 0)
    tried = import_file(parse("leads", NO_NAME), dry_run=True)
    assert (tried.created + tried.updated + tried.unchanged + tried.rejected) == 30
    assert before == list(map(rows, stored))


def test_a_dry_run_knows_e_mails_in_any_case(acme, monkeypatch):
    monkeypatch.setattr(importer, "MAX_TRIED", 0)
    load("leads", "name,email\nОлена,Olena@Acme.example\n")
    text = "name,email\nОлена,oleNA@acme.example\nТарас,taras@acme.example\n"
    tried = import_file(parse("leads", text, options=ImportOptions(key="email")), dry_run=True)
    assert (tried.updated, tried.created) == (1, 1)
