"""Tenants' files of earlier releases: brought up to date, whole, and with the answers they gave.

On PostgreSQL they are restored into a schema, which then gives the same answers.
"""

import csv
import io
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from crm import CRMApp
from crm.config import LOOPBACK
from crm.copies import backup
from crm.installation.tenants import Tenants
from crm.outbox import events
from crm.outbox.sender import Sender
from crm.resources.clients.record import Client
from crm.resources.deals.record import Deal
from crm.resources.leads.record import Lead
from crm.resources.products.record import Product
from crm.resources.tasks import Task
from crm.storage.session import rows
from crm.storage.sqlite import migrations
from crm.values import folding
from tests import releases
from tests.copies import query
from tests.full_tenant import LABEL, Caller, Clock, missing_values
from tests.installations import config_for, on_postgres
from tests.webhook_receiver import WebhookReceiver

RENAMED_TABLES = {  # by step 6
    "price_import": "import_run",
    "answer": "idempotency_response",
    "change": "audit_entry",
    "code": "sms_code",
    "link": "one_time_link",
}
pytestmark = pytest.mark.slow

VERSIONS = sorted(path.name.removesuffix(".db.gz") for path in releases.FOLDER.glob("*.db.gz"))
CHECK = "VALUES ('integrity-check', 1)"  # of a search index against its table
FOR_PEOPLE = {"detail", "title"}  # of a problem, beside its stable code
RENAMED_COLUMNS = {"folded": "search_text", "mark": "instance_id"}  # since step 6


class Frozen(NamedTuple):
    """A data folder where a frozen file is the tenant's, not yet seen by this code."""

    app: CRMApp
    caller: Caller
    file: Path
    expected: dict[str, Any]
    version: int

    @property
    def live(self) -> Path:
        return self.app.tenants.path(LABEL)


@pytest.fixture(params=VERSIONS)
def frozen(request: pytest.FixtureRequest, crm: CRMApp, tmp_path: Path) -> Iterator[Frozen]:
    file, data = tmp_path / "frozen.db", tmp_path / "thawed"
    expected = releases.unpack(request.param, file)
    crm.tenants.forget_idle()
    config = config_for(data, webhook_allow=LOOPBACK)
    crm.tenants = Tenants(config, Clock(expected["asked_at"]))
    if on_postgres():
        data.mkdir()
        backup.restore(crm.tenants, file, LABEL, lambda: 0)
    else:
        releases.install(file, data)
    (version,) = query(file, "PRAGMA user_version")[0]
    yield Frozen(crm, Caller(crm, expected["key"]), file, expected, version)


class Table(NamedTuple):
    """A CSV file by the names of its columns."""

    rows: list[dict[str, str]]


RENAMED_HEADERS = {"ids_of": "source_tenant"}  # of files, since the first frozen release


def as_table(answer: dict[str, Any]) -> dict[str, Any]:
    """An answer with its CSV body as a Table: a column that is new changes nothing."""
    body = answer["body"]
    if not isinstance(body, str) or answer["status"] != 200:
        return answer
    delimiter = ";" if body.startswith("\ufeff") else ","
    reader = csv.DictReader(io.StringIO(body.lstrip("\ufeff"), newline=""), delimiter=delimiter)
    rows = [{RENAMED_HEADERS.get(n, n): cell for n, cell in row.items()} for row in reader]
    return {**answer, "body": Table(rows)}


def tables(path: Path) -> list[str]:
    result = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT GLOB '*_search_*'"
    return sorted(name for (name,) in query(path, result))


def content(path: Path) -> dict[str, list[tuple]]:
    return {name: query(path, f"SELECT * FROM {name} ORDER BY 1") for name in tables(path)}


def sorted_rows(table: str, columns: list[str]) -> str:
    return f"SELECT {', '.join(columns)} FROM {table} ORDER BY {', '.join(columns)}"


def differences(then: Any, now: Any, where: str = "") -> list[str]:
    """List what was in the response then and is not now; new fields are no difference (D16)."""
    if isinstance(then, dict) and isinstance(now, dict):
        return [
            text
            for name, value in then.items()
            for text in (
                differences(value, now[name], f"{where}/{name}")
                if name in now
                else [f"{where}/{name} is missing"]
            )
        ]
    if isinstance(then, Table) and isinstance(now, Table):
        return differences(then.rows, now.rows, where)
    if isinstance(then, list) and isinstance(now, list) and len(then) == len(now):
        pairs = enumerate(zip(then, now, strict=True))
        return [text for at, pair in pairs for text in differences(*pair, f"{where}/{at}")]
    # 1 and 1.0 are one number; True and 1 are not
    same = then == now and isinstance(then, bool) == isinstance(now, bool)
    return [] if same else [f"{where}: {then!r} became {now!r}"]


# Each frozen file


def test_a_release_is_frozen() -> None:
    assert "0.1.0a3" in VERSIONS


@pytest.mark.files
def test_it_is_whole_afterwards_and_so_are_its_search_indexes(frozen: Frozen) -> None:
    with frozen.app.tenants.session(LABEL):
        pass
    frozen.app.tenants.forget_idle()
    assert query(frozen.live, "PRAGMA integrity_check") == [("ok",)]
    assert query(frozen.live, "PRAGMA foreign_key_check") == []
    searched = [name for name in tables(frozen.live) if name.endswith("_search")]
    assert len(searched) >= 5
    for name in searched:
        query(frozen.live, f"INSERT INTO {name} ({name}, rank) {CHECK}")
    query(frozen.live, "UPDATE lead SET search_text = 'інше' WHERE id = 1")
    with pytest.raises(sqlite3.DatabaseError, match="malformed"):
        query(
            frozen.live, "INSERT INTO lead_search (lead_search, rank) VALUES ('integrity-check', 1)"
        )


@pytest.mark.files
def test_nothing_that_it_had_is_lost_or_changed(frozen: Frozen) -> None:
    """Also what no answer shows: sessions, links, passwords, rights of keys, numbers given."""
    with frozen.app.tenants.session(LABEL):
        pass
    wrong = []
    for table in tables(frozen.file):
        if table.endswith("_search"):
            continue
        columns = query(frozen.file, f"PRAGMA table_info({table})")
        names = [name for _, name, *_ in columns if name not in ("folded", "search_text")]
        new_names = [RENAMED_COLUMNS.get(name, name) for name in names]
        before = query(frozen.file, sorted_rows(table, names))
        if table == "sqlite_sequence":
            before = sorted((RENAMED_TABLES.get(name, name), number) for name, number in before)
        after = query(frozen.live, sorted_rows(RENAMED_TABLES.get(table, table), new_names))
        if before != after:
            wrong.append(table)
    assert not wrong


@pytest.mark.files
def test_it_is_searched_as_what_is_entered_now(frozen: Frozen) -> None:
    records = (Client, Deal, Lead, Product, Task)
    with frozen.app.tenants.session(LABEL):
        for record in [one for model in records for one in model.every("TRUE")]:
            words = folding.fold(*record.search_texts()).split()
            assert sorted(words) == sorted(record.search_text.split())
            deleted = f"SELECT 1 FROM {record.noun} WHERE deleted_at > '' AND search_text > ''"
            assert rows(deleted) == []
    for table in ("user", "lead", "client", "contact", "product"):
        named = query(frozen.live, f"SELECT name, sort_key FROM {table}")
        assert named and named == [(name, folding.sort_key(name)) for name, _ in named]
    tagged = "SELECT tag FROM lead_tag UNION ALL SELECT tag FROM client_tag"
    tags = [tag for (tag,) in query(frozen.live, f"{tagged} UNION ALL SELECT tag FROM deal_tag")]
    assert tags and tags == [folding.fold(tag) for tag in tags]


@pytest.mark.files
def test_a_step_that_fails_at_its_end_leaves_the_file_as_it_was(
    frozen: Frozen, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Search indexes too, which a step may drop and create again."""
    before = content(frozen.file)
    for number, (name, statements) in enumerate(migrations.STEPS):
        if number < frozen.version:
            continue
        broken = (name, [*statements, "CREATE NONSENSE"])
        with monkeypatch.context() as patch, closing(sqlite3.connect(frozen.file)) as file:
            file.isolation_level = None
            patch.setattr(migrations, "STEPS", [*migrations.STEPS[:number], broken])
            with pytest.raises(sqlite3.OperationalError, match="NONSENSE"):
                migrations.migrate(file, LABEL)
            assert migrations.version(file) == number
        if number == frozen.version:
            assert content(frozen.file) == before
        with monkeypatch.context() as patch, closing(sqlite3.connect(frozen.file)) as file:
            file.isolation_level = None
            patch.setattr(migrations, "STEPS", migrations.STEPS[: number + 1])
            assert migrations.migrate(file, LABEL) == 1
            for table in ("lead", "client", "deal", "product", "task"):
                file.execute(f"INSERT INTO {table}_search ({table}_search, rank) {CHECK}")


@pytest.mark.files
def test_its_schema_is_that_of_a_new_file(frozen: Frozen) -> None:
    frozen.app.tenants.create("new")
    with frozen.app.tenants.session(LABEL):
        pass

    def schema(path: Path) -> list[tuple]:
        sql = "SELECT type, name, tbl_name, sql FROM sqlite_schema ORDER BY type, name"
        return [(*names, re.sub(r"\s+", " ", text or "")) for *names, text in query(path, sql)]

    assert schema(frozen.live) == schema(frozen.app.tenants.path("new"))


def test_every_response_is_still_given(frozen: Frozen) -> None:
    wrong = []
    assert len(frozen.expected["answers"]) > 300
    for path, then in frozen.expected["answers"].items():
        then, now = as_table(then), as_table(releases.response_to(frozen.caller, path))
        if then["status"] >= 400:
            for body in (then["body"], *then["body"].get("errors", ())):
                for name in FOR_PEOPLE & body.keys():
                    del body[name]
        if path == "/leads?sort=name":  # in the order of the alphabet since step 6
            for body in (then["body"], now["body"]):
                body["data"].sort(key=lambda record: record["id"])
                del body["meta"]["next_cursor"]
        wrong += differences(then, now, path)
    assert not wrong, "\n".join(wrong[:50])


def test_it_is_written_to_as_ever(frozen: Frozen) -> None:
    last = frozen.caller.do("GET", "/events?after=0&limit=200")["data"][-1]["sequence"]
    for noun, (sent, changed) in {
        "leads": ({"name": "Новий", "phone": "0507776655"}, {"status": "qualified"}),
        "clients": ({"name": "Новий", "contacts": [{"name": "Хтось"}]}, {"tags": ["опт"]}),
        "products": ({"name": "Новий", "price": 1.5, "sku": "NEW"}, {"price": 2}),
        "deals": ({"title": "Нова", "client_id": "1"}, {"stage_id": "2"}),
        "tasks": ({"title": "Нове", "deal_id": "4"}, {"status": "done"}),
        "pipelines": ({"name": "Нова"}, {"position": 1}),
        "webhooks": ({"url": "https://new.example.com/"}, {"active": False}),
    }.items():
        id = frozen.caller.add(f"/{noun}", **sent)
        version = frozen.caller.do("GET", f"/{noun}/{id}")["version"]
        assert frozen.caller.do("PATCH", f"/{noun}/{id}", changed)["version"] > version
        assert frozen.caller.do("PATCH", f"/{noun}/1", changed)["id"] == "1"
    frozen.caller.do("POST", "/deals/4/items", {"product_id": "6", "quantity": 2})
    frozen.caller.do("POST", "/leads/1/convert")
    assert frozen.caller.do("GET", "/leads?q=новий")["data"][0]["name"] == "Новий"
    new_events = frozen.caller.do("GET", f"/events?after={last}&limit=200")["data"]
    sequences = [event["sequence"] for event in new_events]
    assert sequences == list(range(last + 1, last + 1 + len(new_events)))
    types = {event["type"] for event in new_events}
    assert types >= {"lead.created", "lead.converted", "deal.created"}


def test_its_webhooks_continue(frozen: Frozen, hook: WebhookReceiver) -> None:
    """What waited in it arrives, and so does what happens next."""
    waiting = frozen.caller.do("GET", "/webhooks/1/deliveries?status=pending")["data"]
    assert waiting
    frozen.caller.do("PATCH", "/webhooks/1", {"url": hook.url})
    sender = Sender(frozen.app.tenants)
    sender.start()
    try:
        hook.wait_for(len(waiting))
        frozen.caller.add("/tasks", title="Після оновлення")
        hook.wait_for(len(waiting) + 1)
    finally:
        sender.close()
    assert hook.received[-1].event["data"]["task"]["title"] == "Після оновлення"


# Freezing a release


def test_a_frozen_release_has_all_that_the_schema_can_hold_and_every_operation(
    tmp_path: Path, no_typst: None
):
    """What is not there is named: a new table, column or status has its place in full_tenant.py."""
    file = tmp_path / "made.db"
    key, asked_at = releases.build(tmp_path / "data", file)
    responses = releases.request_all(file, key, asked_at, tmp_path / "asked")
    refused = [path for path, response in responses.items() if response["status"] != 200]
    assert set(refused) <= {*releases.MORE, "/imports/1/errors.csv"}
    pages = [responses[path]["body"]["data"] for path in ("/events", "/events?after=50&limit=200")]
    assert {event["type"] for page in pages for event in page} == set(events.KINDS)
    with closing(sqlite3.connect(file)) as changed:
        assert not missing_values(changed)
        changed.execute("CREATE TABLE later (id INTEGER) STRICT")
        changed.execute("UPDATE task SET type = NULL WHERE type = 'email'")
        changed.execute("UPDATE lead SET company = NULL")
        changed.execute("DELETE FROM event WHERE type = 'deal.lost'")
        assert missing_values(changed) == [
            "later: a row",
            "lead.company: a row where it is NOT NULL",
            "task.type: a row where it is 'email'",
            "event: deal.lost",
        ]
