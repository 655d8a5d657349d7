"""Sellers, and keys for own records, see those alone that are assigned to their user or made by it.

Solomiya is a seller at acme. Taras has a record of each kind there, whose texts carry MARKER: every
operation and every page must answer her as if his records did not exist, and must not show MARKER
anywhere, in lists, counts, searches, exports and choices of forms, nor beside her own records, some
of which refer to his.
"""

import io
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from crm import create_app
from crm.access import rights
from crm.cabinet.rendering import TENANT
from crm.resources import tenant, users
from crm.resources.bulk import work
from crm.storage import own_rows
from crm.storage.dialect import by_id, by_index
from crm.storage.reading import iterate_rows
from crm.storage.session import execute, rows, session_or_none, transaction
from crm.storage.sqlite import connection
from crm.storage.sqlite.connection import FileConnection
from tests.access.test_isolation import body_of, references
from tests.api_document import OPERATIONS
from tests.cabinet.test_roles import PAGES
from tests.cases import loop_over
from tests.conftest import OLENA, TARAS, Api, Clock, key_for, serve_installation
from tests.installations import config_for, copy_installation
from tests.page_client import Person
from tests.tables import read_rows, read_tables
from tests.waiting import wait_for

SELLER = 3
MARKER = "COLLEAGUE"
NOBODY = 987_654_321
PHONE, OTHER_PHONE = "+380671110001", "+380671110002"
FIRST_ID = {  # whose record the first id in a path is, by the path's first part
    "leads": "lead", "clients": "client", "deals": "deal", "tasks": "task", "batches": "batch",
    "imports": "import",
}  # fmt: skip
LIMITED_TABLES = (
    *("lead", "client", "contact", "deal", "deal_item", "task"),
    *("note", "audit_entry"),
)
# By which the plan of a list is chosen.
OF_PLANS = re.compile(
    r"SELECT count\(\*\) FROM \(SELECT id FROM .* LIMIT \?\) AS few\Z"
    r"|SELECT count\(\*\) < \d+ OR count\(CASE WHEN .* FROM \w+ NOT INDEXED WHERE id IN "
    r"|SELECT abs\(\(SELECT (max|min)\(id\) FROM \w+\) - (max|min)\(id\)\) FROM "
    r"|SELECT (max|min)\(\(\+\w+\)\) FROM \w+ WHERE "
    # Values that records share, of which the own ones are then looked up.
    r"|SELECT \S+ FROM \w+ WHERE \S+ > \? (GROUP BY|AND EXISTS) .* LIMIT \?\Z"
)
SECOND_ID = {"itemId": "item", "contactId": "contact", "contact_id": "contact", "item_id": "item"}


class Office:
    """Acme with Solomiya's records and those of Taras: the ids of both, by kind."""

    def __init__(self, crm: Any, olena: str):
        self.crm = crm
        with crm.tenants.session("acme"):
            assert users.create({"name": "Solomiya", "role": "seller"}).id == SELLER
        self.olena = Api(crm, "acme", olena)
        self.taras = Api(crm, "acme", key_for(crm, "acme", "*", TARAS))
        self.seller = Api(crm, "acme", key_for(crm, "acme", "*", SELLER))
        self.theirs = self._fill(self.taras, MARKER, OTHER_PHONE)
        # Her deal and her task are about his client and his lead.
        self.own = self._fill(self.seller, "Mine", PHONE)
        shared = self.taras.create("/clients", name="Shared", comment=MARKER, phone=OTHER_PHONE)
        self.shared_client, self.of_shared = (
            shared,
            self.taras.create(
                "/deals", title="Hers now", client_id=shared, assigned_to=str(SELLER)
            ),
        )
        self.taras.create("/tasks", title="Call", lead_id=self.theirs["lead"], assigned_to="3")

    @staticmethod
    def _fill(api: Api, text: str, phone: str) -> dict[str, str]:
        about = {"comment": text, "source": f"{text} fair", "tags": [f"{text} tag"]}
        contact = {"name": f"{text} person", "phone": phone}
        person = {**about, "email": "same@acme.example"}  # by which duplicates are found
        client = {"name": f"{text} client", "contacts": [contact], **person}
        ids = {"client": api.create("/clients", **client)}
        ids["contact"] = api.read(f"/clients/{ids['client']}")["contacts"][0]["id"]
        ids["lead"] = api.create("/leads", name=f"{text} lead", phone=phone, **person)
        if text == MARKER:  # a lead is unassigned by default
            api.patch(f"/leads/{ids['lead']}", {"assigned_to": str(TARAS)})
        deal = {"title": f"{text} deal", "client_id": ids["client"], "amount": 77777, **about}
        ids["deal"] = api.create("/deals", **deal)
        ids["item"] = api.create(f"/deals/{ids['deal']}/items", name=f"{text} item", price=1)
        soon = "2026-03-02T10:00:00Z"
        ids["task"] = api.create("/tasks", title=f"{text} task", due_at=soon, deal_id=ids["deal"])
        for noun in ("lead", "client", "deal"):
            ids[f"{noun} note"] = api.create(f"/{noun}s/{ids[noun]}/notes", text=f"{text} note")
            ids[f"gone {noun}"] = gone = api.create(
                f"/{noun}s", **{"title" if noun == "deal" else "name": f"{text} gone"},
                **({"phone": phone} if noun == "lead" else {}),
            )  # fmt: skip
            api.patch(f"/{noun}s/{gone}", {"assigned_to": api.read("/users/me")["id"]})
            assert api.delete(f"/{noun}s/{gone}").status_code == 204
        ids["gone task"] = api.create("/tasks", title=f"{text} gone")
        assert api.delete(f"/tasks/{ids['gone task']}").status_code == 204
        won = {"status": "lost", "lost_reason": f"{text} reason"}
        assert api.patch(f"/deals/{ids['deal']}", won).status_code == 200
        assert api.patch(f"/deals/{ids['deal']}", {"status": "open"}).status_code == 200
        sent = {"ids": [ids["task"]], "set": {"description": text}, "expect": 1}
        ids["batch"] = api.post("/tasks/bulk", sent).json["batch_id"]
        if text == MARKER:
            file = (io.BytesIO(b"name,phone\nCOLLEAGUE two,+380671110003\nCOLLEAGUE,x\n"), "a.csv")
            sent = api.call("POST", "/leads/import", data={"file": file})
            ids["import"] = sent.headers["Location"].rpartition("/")[2]
            with api.crm.tenants.session("acme"), transaction():  # nobody is whose it is
                execute("UPDATE lead SET assigned_to = ? WHERE assigned_to IS NULL", (TARAS,))
        return ids

    def ids_for(self, path: str, whose: dict[str, str] | None) -> str | None:
        """The path with somebody's ids in it, or nobody's; None if nobody owns such records."""
        first = FIRST_ID.get(path.split("/")[1])
        names = re.findall(r"[{<](?:\w+:)?(\w+)[}>]", path)
        if first is None or not names:
            return None
        prefix = "gone " if "restore" in path else ""
        ids = [(whose or {}).get(f"{prefix}{first}", str(NOBODY))]
        for name in names[1:]:
            part = f"{first} note" if name.lower().startswith("note") else SECOND_ID.get(name, "")
            ids.append((whose or {}).get(part, str(NOBODY)))
        for id in ids:
            path = re.sub(r"[{<](?:\w+:)?\w+[}>]", id, path, count=1)
        return path


@pytest.fixture(scope="module")
def filled(furnished, tmp_path_factory) -> tuple[Office, Path]:
    """The office with an app of its own, and its data folder, to be copied for each test."""
    data = copy_installation(furnished[0], tmp_path_factory.mktemp("office") / "data")
    office = Office(create_app(config_for(data), Clock(), sends=False), furnished[1]["olena"])
    office.crm.tenants.forget_idle()
    return office, data


@pytest.fixture
def office(filled, tmp_path) -> Iterator[Office]:
    office, data = filled
    copy_installation(data, tmp_path / "data")
    serve_installation(office.crm, config_for(tmp_path / "data"), Clock())
    yield office
    office.crm.tenants.forget_idle()


def records_of(crm: Any) -> dict[str, list[dict[str, Any]]]:
    """What Taras has, as it is stored."""
    tables = read_tables(crm.tenants, "acme")
    return {name: [row for row in tables[name] if MARKER in str(row)] for name in LIMITED_TABLES}


def told(answer: Any, path: str, own_path: str) -> tuple[int, str]:
    """The status and the body without what names the request itself."""
    text = re.sub(r'"(request_id|instance)":"[^"]*"', "", answer.text)
    for id in {*re.findall(r"\d+", own_path)} - {*re.findall(r"\d+", path)}:
        text = re.sub(rf"\b{id}\b", "ID", text)
    return answer.status_code, text


def test_no_operation_tells_a_seller_of_a_colleagues_records(office):
    before, seen = records_of(office.crm), 0
    assert len(before["lead"]) > 2 and len(before["audit_entry"]) > 2
    for name, operation in OPERATIONS.items():
        method, _, path = name.partition(" ")
        for in_transaction in (False, True) if method == "POST" else (False,):
            answers = []
            for number, whose in enumerate((None, office.theirs)):
                filled = office.ids_for(path, whose)
                if filled is None:
                    break
                headers = {"Idempotency-Key": f"{seen}-{number}"} if in_transaction else {}
                answer = office.seller.call(method, filled, headers=headers, **body_of(operation))
                assert MARKER not in answer.text, name
                answers.append(told(answer, path, filled))
            if answers:
                seen += 1
                assert answers[0] == answers[1], name
                assert answers[0][0] in (403, 404), name
    assert seen > 60
    assert records_of(office.crm) == before


def test_no_list_export_or_search_shows_a_seller_a_colleagues_record(office):
    """Of her own records, and of all that has no id in its path."""
    for name, operation in OPERATIONS.items():
        method, _, path = name.partition(" ")
        if method != "GET":
            continue
        filled = office.ids_for(path, office.own) if "{" in path else path
        if filled is None or "{" in filled:
            continue
        parameters = [parameter["name"] for parameter in operation.get("parameters", ())]
        queries = [""]
        if "q" in parameters:
            queries += ["?q=" + MARKER, "?total=true" if "total" in parameters else ""]
        if "include_deleted" in parameters:
            queries.append("?include_deleted=true&updated_since=2020-01-01T00:00:00Z")
        if "expand" in parameters:
            choices = next(p for p in operation["parameters"] if p["name"] == "expand")
            queries += [f"?expand={one}" for one in choices["schema"]["items"]["enum"]]
        if "ids" in parameters:
            kind = FIRST_ID.get(path.split("/")[1], "")
            queries += [f"?ids={office.theirs[kind]}"] if kind else []
        for query in queries:
            # As our server has it: then an export is written in a session of its own.
            chunked = {"wsgi.input_terminated": True}
            answer = office.seller.get(filled + query, environ_overrides=chunked)
            assert answer.status_code in (200, 403, 404), (filled + query, answer.text)
            assert MARKER not in answer.text, filled + query
            if "ids=" in query:
                assert not answer.json["data"] if answer.is_json else answer.text.count("\n") == 1
    deal = office.seller.read(f"/deals/{office.of_shared}")
    assert (deal["client_id"], deal["client_name"]) == (office.shared_client, "Shared")
    assert office.seller.get(f"/clients/{office.shared_client}").status_code == 404


def test_a_colleagues_id_in_a_body_is_as_unknown_as_nobodys(office):
    before = records_of(office.crm)
    tried = 0
    fields = {"client_id": "client", "contact_id": "contact", "lead_id": "lead", "deal_id": "deal"}
    for name, field in sorted({*references(), ("POST /clients/{id}/merge", "from_id")}):
        kind = fields.get(field, "client" if field == "from_id" else "")
        method, _, path = name.partition(" ")
        filled = office.ids_for(path, office.own) if "{" in path else path
        if not kind or filled is None or name == "POST /leads":
            continue
        example = body_of(OPERATIONS[name])["json"]
        answers = []
        for id in (str(NOBODY), office.theirs[kind]):
            answer = office.seller.call(method, filled, json={**example, field: id})
            answers.append((answer.status_code, told(answer, filled, id)[1]))
        assert answers[0] == answers[1], (name, field)
        assert answers[0][0] == 422, (name, answers)
        tried += 1
    for plural, kind in FIRST_ID.items():
        if plural in ("batches", "imports"):
            continue
        for chosen in ({"ids": [office.theirs[kind]]}, {"where": {"ids": office.theirs[kind]}}):
            for headers in (
                {},
                {"Idempotency-Key": f"{plural}{len(chosen)}{[*chosen]}".replace(" ", "")},
            ):
                sent = {**chosen, "action": "delete", "expect": 0}
                answer = office.seller.post(f"/{plural}/bulk", sent, headers=headers)
                assert (answer.json["count"], answer.json["changed"]) == (0, 0), answer.text
    assert tried > 8
    assert records_of(office.crm) == before


def test_no_page_tells_a_seller_of_a_colleagues_records(office):
    seller, before, seen = Person(office.crm, user_id=SELLER), records_of(office.crm), 0
    fields = {
        "name": "x", "title": "x", "text": "x", "phone": "+380671110009", "status": "open",
        "from_id": office.theirs["client"], "ids": office.theirs["deal"], "sure": "1",
    }  # fmt: skip
    for name, view in PAGES.items():
        method, _, path = name.partition(" ")
        if TENANT not in view.at or view.role is None or "<name>" in path:
            continue
        if seen % 20 == 0:  # a session may have so many pages a minute
            seller = Person(office.crm, user_id=SELLER)
        path = re.sub(r"<any\(([^,)]*).*?>", r"\1", path)
        statuses = []
        for whose in (None if method == "POST" else office.own, office.theirs):
            filled = office.ids_for(path, whose) if "<" in path else path
            if filled is None or "<" in filled:
                continue
            if method == "GET":
                query = {"q": MARKER, "status": MARKER} if filled == "/search" else None
                page = seller.get(filled, query_string=query)
            else:
                page = seller.post(filled, fields)
            assert page.status_code < 500, (name, page.text)
            if filled != "/search":  # which repeats what was looked for
                assert MARKER not in page.text, (name, filled)
            statuses.append(page.status_code)
        if "<" in path and len(statuses) > 1:
            seen += 1
            assert method == "GET" or statuses[0] == statuses[1], name
            refusals = (403, 404) if method == "GET" else (403, 404, 422, 303)
            assert statuses[1] in refusals, (name, statuses)
    assert seen > 40
    assert records_of(office.crm) == before
    for path in ("/", "/leads", "/clients", "/deals", "/deals?view=list", "/tasks", "/reports",
                 "/leads?tab=all", "/deals?tab=all", "/clients?q=co", "/search?q=mine",
                 "/trash", "/deals/new", "/leads/export", "/clients/export",
                 "/nowhere"):  # fmt: skip
        assert MARKER not in seller.get(path).text, path
    assert "Mine deal" in seller.sees("/deals")
    for path in ("/leads/import", "/settings/users"):
        assert seller.get(path).status_code == 403, path
    assert '/leads/import"' not in seller.sees("/leads")


@pytest.mark.files
def test_every_table_of_records_and_their_parts_is_limited(crm):
    """Found by their columns, so that a new one is declared or named here."""
    sql = (
        "SELECT tables.name, columns.name FROM sqlite_master AS tables,"
        " pragma_table_info(tables.name) AS columns WHERE tables.type = 'table'"
    )
    columns: dict[str, set[str]] = {}
    for table, column in read_rows(crm.tenants, "acme", sql):
        columns.setdefault(table, set()).add(column)
    records = {table for table, names in columns.items() if "assigned_to" in names}
    owners = {f"{record}_id" for record in records}
    parts = {
        table
        for table, names in columns.items()
        if table not in records and (owners & names or {"noun", "record_id"} <= names)
    }
    limited = {table for table, _ in own_rows._list_conditions(False)}
    # Read together with their record or batch, or not at all in such a session.
    others = {
        *("lead_tag", "client_tag", "deal_tag", "batch_record", "event", "delivery"),
        "alert",  # by a condition of its own, since it is sent outside of the user's session
    }
    # By what they name otherwise: a batch its records, a link its paper.
    indirect = {"batch", "import_run", "proposal", "paper_link"}
    assert records | parts == (limited - indirect) | others


QUERIES = (
    "SELECT id FROM {0}",
    'SELECT id FROM "{0}"',
    "SELECT id FROM {1}",
    "SELECT x.id FROM {0} AS x",
    "SELECT id FROM(SELECT * FROM {0})AS x",
    "WITH x AS (SELECT * FROM {0}) SELECT id FROM x",
    "WITH RECURSIVE x (id) AS (SELECT max(id) FROM {0} UNION ALL SELECT"
    " (SELECT max(id) FROM {0} WHERE {0}.id < x.id) FROM x WHERE x.id IS NOT NULL)"
    " SELECT id FROM x WHERE id IS NOT NULL",
    "SELECT {0}.id FROM pipeline, {0} UNION SELECT id FROM {0}",
    "SELECT id FROM {0} NOT INDEXED WHERE id > 0",
    "SELECT {0}.id FROM {0} INDEXED BY {0}_created_at WHERE {0}.created_at > ''",
)


@loop_over("table", ["lead", "client", "deal", "task"])
def test_whatever_a_query_looks_like_it_reads_own_rows(office, table):
    own = f"SELECT id FROM {table} WHERE {SELLER} IN (assigned_to, created_by) ORDER BY id"
    with office.crm.tenants.session("acme") as session:
        expected = rows(own)
        assert rows(f"SELECT count(*) FROM {table}") > [(len(expected),)]
        session.user_id = SELLER
        rights.limit_to_own_records()
        for query in QUERIES:
            sql = query.format(table, table.upper())
            assert sorted(rows(sql)) == expected, sql
            with iterate_rows(sql) as streamed:
                assert sorted(streamed) == expected, sql


@pytest.mark.files
def test_an_index_that_a_query_names_is_used_for_own_rows_too(office):
    with office.crm.tenants.session("acme") as session:
        session.user_id = SELLER
        rights.limit_to_own_records()
        for source, step in (
            (by_index("lead", "lead_name"), "SCAN main.lead USING INDEX lead_name"),
            (by_id("lead"), "SCAN main.lead"),
        ):
            sql, params = session.limited(f"SELECT name FROM {source} WHERE +lead.id > ?", (0,))
            plan = session.connection.execute(f"EXPLAIN QUERY PLAN {sql}", params)
            assert [text for *_, text in plan] == [step]


@pytest.mark.files
def test_every_statement_of_a_sellers_session_goes_through_the_clause(office, monkeypatch):
    """What the API and the pages execute before and after their transactions."""
    others, limited = [], []
    clause = own_rows.limit("", (), SELLER, unassigned=False, schema="main.")[0].rstrip()

    class Watched(FileConnection):
        """A connection that notes what a limited session executes."""

        def execute(self, sql, *params):
            session = session_or_none()
            if session and session.own_user_id is not None and not session.in_transaction:
                (limited if sql.startswith(clause) else others).append(sql)
            return super().execute(sql, *params)

    office.crm.tenants.forget_idle()
    monkeypatch.setattr(connection, "FileConnection", Watched)
    test_no_list_export_or_search_shows_a_seller_a_colleagues_record(office)
    seller = Person(office.crm, user_id=SELLER)
    for path in ("/", "/leads", "/deals", "/tasks", "/clients", "/search?q=mine", "/reports"):
        seller.sees(path)
    office.crm.tenants.forget_idle()
    assert len(limited) > 200
    # The one statement that is not: name and phone of the clients of own deals and tasks.
    others = [
        sql for sql in others if not sql.startswith("SELECT client.id, client.name, coalesce")
    ]
    other_kinds = {"plan" if OF_PLANS.match(sql) else sql.split()[0] for sql in others}
    assert other_kinds <= {"plan", "PRAGMA", "BEGIN", "COMMIT", "ROLLBACK"}


def test_a_seller_sees_whom_to_call_about_an_own_deal_or_task_and_no_more(office):
    seller, deal = Person(office.crm, user_id=SELLER), f"/deals/{office.of_shared}"
    of_deal = office.taras.create("/tasks", title="A", deal_id=office.of_shared, assigned_to="3")
    of_client = office.taras.create(
        "/tasks", title="B", client_id=office.shared_client, assigned_to="3"
    )
    for path in (deal, "/tasks", f"/tasks/{of_deal}", f"/tasks/{of_client}"):
        page = seller.sees(path)
        assert "Shared" in page and f'href="tel:{OTHER_PHONE}"' in page, path
        assert MARKER not in page and f"/clients/{office.shared_client}" not in page
    assert f'href="/deals/{office.of_shared}">Shared</a>' in seller.sees("/tasks")
    seller.sees(f"/clients/{office.shared_client}", 404)
    office.taras.patch(deal, {"assigned_to": str(TARAS)})
    office.taras.patch(f"/tasks/{of_client}", {"assigned_to": str(TARAS)})
    page = seller.sees(f"/tasks/{of_deal}")
    assert "Shared" not in page and OTHER_PHONE not in page


def test_sellers_see_leads_of_nobody_if_the_owner_allows(office):
    lead = office.olena.create("/leads", name="Of nobody", phone="0671112233")
    seen = f"/leads/{lead}"
    assert office.seller.get(seen).status_code == 404
    assert office.seller.read("/leads?assigned_to=none&q=nobody") == []
    with office.crm.tenants.session("acme"):
        tenant.update(sellers_see_unassigned=True)
    assert office.seller.read(seen)["name"] == "Of nobody"
    assert [one["id"] for one in office.seller.read("/leads?assigned_to=none&q=nobody")] == [lead]
    assert office.seller.get(f"/leads/{office.theirs['lead']}").status_code == 404
    taken = office.seller.patch(seen, {"assigned_to": str(SELLER)})
    assert taken.json["assigned_to"] == str(SELLER)
    client = office.olena.create("/clients", name="Client of nobody")
    assert office.seller.get(f"/clients/{client}").status_code == 404


def test_a_record_that_is_handed_over_is_shown_once_and_stays_whole(office):
    of_taras = office.taras.create(
        "/clients", name="Дубова", contacts=[{"name": "Явір"}], assigned_to=str(SELLER)
    )
    path = f"/clients/{of_taras}"
    answer = office.seller.patch(path, {"assigned_to": str(TARAS), "comment": "Taras knows them"})
    assert (answer.status_code, answer.json["assigned_to"]) == (200, str(TARAS))
    assert office.seller.get(path).status_code == 404
    assert [one["id"] for one in office.taras.read("/clients?q=явір")] == [of_taras]  # its contact
    deal = office.taras.create("/deals", title="To give back", assigned_to=str(SELLER))
    seller = Person(office.crm, user_id=SELLER)
    seller.sees(f"/deals/{deal}")
    path = seller.sends(f"/deals/{deal}/edit", {"title": "Given", "assigned_to": str(TARAS)})
    assert path.endswith("/deals")
    assert "Тепер цей запис у колеги" in seller.sees("/deals")
    assert office.taras.read(f"/deals/{deal}")["title"] == "Given"


def test_rules_and_events_of_a_sellers_change_know_all_records(office):
    client = office.own["client"]
    theirs = office.taras.create("/deals", client_id=client, title="Of Taras", amount=5)
    assert office.seller.read(f"/clients/{client}")["deals_open"] == 1
    assert office.seller.patch(f"/clients/{client}", {"name": "Renamed"}).json["deals_open"] == 1
    assert office.taras.read(f"/deals/{theirs}")["client_name"] == "Renamed"
    event = office.olena.events()[-1]
    assert (event["type"], event["data"]["client"]["deals_open"]) == ("client.updated", 2)
    office.seller.delete(f"/deals/{office.own['deal']}")
    refused = office.seller.delete(f"/clients/{client}")
    assert refused.json["code"] == "client_has_open_deals"
    assert "Of Taras" not in refused.text and theirs not in str(refused.json.get("deals"))
    office.taras.patch(f"/leads/{office.theirs['lead']}", {"external_id": "L-1"})
    clash = office.seller.patch(f"/leads/{office.own['lead']}", {"external_id": "L-1"})
    assert clash.json["code"] == "duplicate_external_id"
    assert "id" not in clash.json and MARKER not in clash.text


def test_a_conversion_of_a_seller_finds_own_clients_alone(office):
    same = {"name": "Walk-in", "phone": OTHER_PHONE}  # that of a contact of Taras's client
    lead = office.seller.create("/leads", **same)
    converted = office.seller.post(f"/leads/{lead}/convert")
    assert converted.status_code == 201
    assert converted.json["client_id"] not in (office.theirs["client"], office.shared_client)
    mine = office.seller.create("/leads", name="Known", phone=PHONE)
    converted = office.seller.post(f"/leads/{mine}/convert")
    assert converted.json["client_id"] == office.own["client"]


@loop_over("dry_run", [True, False])
def test_a_merge_of_a_seller_counts_own_records_alone(office, dry_run):
    into, other = (office.seller.create("/clients", name="Hers") for _ in range(2))
    for api in (office.seller, office.taras, office.taras):
        api.create("/deals", client_id=other)
    office.seller.create(f"/clients/{other}/notes", text="Called")
    sent = {"from_id": other, "dry_run": dry_run}
    answer = office.seller.post(f"/clients/{into}/merge", sent)
    moved = {name: count for name, count in answer.json["moved"].items() if count}
    assert moved == {"deals": 1, "notes": 1}
    of_client = office.olena.read(f"/deals?client_id={other if dry_run else into}")
    assert len(of_client) == 3


def test_a_key_for_own_records_sees_those_of_its_user_and_no_settings(office):
    own = Api(office.crm, "acme", key_for(office.crm, "acme", "*", TARAS, own=True))
    assert own.read("/users/me")["key"]["own"] is True
    assert {lead["id"] for lead in own.read("/leads")} == {
        str(id) for (id,) in read_rows(
            office.crm.tenants, "acme",
            "SELECT id FROM lead WHERE (assigned_to = 2 OR created_by = 2) AND deleted_at IS NULL",
        )
    }  # fmt: skip
    assert own.get(f"/deals/{office.own['deal']}").status_code == 404
    assert own.get("/webhooks").status_code == 403
    for path in ("/events", f"/clients/{office.theirs['client']}/personal-data"):
        answer = own.get(path)
        assert (answer.status_code, answer.json["code"]) == (403, "own_records_only"), path
    for path in ("/leads/import", "/leads/import?dry_run=true"):
        file = (io.BytesIO(b"name,phone\nX,+380671110003\n"), "a.csv")
        assert own.call("POST", path, data={"file": file}).status_code == 403, path
    assert own.post("/pipelines", {"name": "X"}).status_code == 403
    narrow = Api(office.crm, "acme", key_for(office.crm, "acme", "deals:read", TARAS, own=True))
    assert narrow.get("/leads").status_code == 403
    assert rights.ALL_SCOPES not in own.read("/users/me")["key"]["scopes"]


def test_the_owner_gives_the_role_the_leads_of_nobody_and_keys_in_the_settings(crm):
    olena = Person(crm, user_id=OLENA)
    taras = {"name": "Taras", "phone": "+380501110002", "role": "seller"}
    olena.sends(f"/settings/users/{TARAS}", taras)
    assert "Продавець" in olena.sees("/settings/users")
    company = {"name": "Acme", "currency": "UAH", "time_zone": "Europe/Kyiv"}
    for box, checked in (({"sellers_see_unassigned": "1"}, True), ({}, False)):
        olena.sends("/settings/company", {**company, **box})
        page = olena.sees("/settings/company")
        checkbox = re.search(r'<input[^>]*name="sellers_see_unassigned"[^>]*>', page)
        assert ("checked" in checkbox[0]) == checked
        with crm.tenants.session("acme"):
            assert tenant.about()["sellers_see_unassigned"] == checked
    fields = {"name": "mine", "scopes": "deals:read", "own": "1"}
    page = olena.post("/settings/api-keys", fields).text
    key = re.search(r"crm_[0-9A-Za-z]{46}", page)[0]
    assert Api(crm, "acme", key).read("/users/me")["key"]["own"] is True
    assert "Лише власні записи" in olena.sees("/settings/api-keys")


def test_totals_are_remembered_for_each_apart_and_a_change_of_role_counts_at_once(office):
    count = "/deals?limit=1&total=true"
    totals = []
    for api in (office.olena, office.seller, office.olena, office.seller):
        totals.append(api.get(count).json["meta"]["total"])
    assert totals == [3, 2, 3, 2]
    with office.crm.tenants.session("acme"):
        users.update(SELLER, {"role": "manager"})
    assert office.seller.get(count).json["meta"]["total"] == 3
    assert office.seller.get("/events").status_code == 200


def test_a_batch_of_a_seller_goes_on_as_the_sellers_own(office, monkeypatch):
    """In the background, too, where another process may go on with it."""
    monkeypatch.setattr(work, "MAX_IDS", 1)
    before = records_of(office.crm)
    matching = office.seller.get("/tasks?total=true&limit=1").json["meta"]["total"]
    sent = {"where": {}, "set": {"priority": "high"}, "expect": matching}
    started = office.seller.post("/tasks/bulk", sent)
    assert (matching, started.status_code) == (2, 202)
    path = f"/batches/{started.json['batch_id']}"
    wait_for(lambda: office.seller.read(path)["state"] == "done")
    assert office.seller.read(path)["updated"] == matching
    assert records_of(office.crm) == before
    assert office.taras.get(path).status_code == 200  # who sees all
