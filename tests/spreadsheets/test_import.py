"""Imports and exports: what all resources share, leads and tasks (D4, D5, D9, D10, D15, D17)."""

from collections.abc import Iterator
from typing import Any

import pytest

from crm import demo
from crm.errors import Invalid, TooLarge
from crm.installation.tenants import Tenants
from crm.outbox import events
from crm.resources import tasks, tenant, users
from crm.resources.clients import record as clients
from crm.resources.deals import items
from crm.resources.deals import record as deals
from crm.resources.leads import record as leads
from crm.resources.leads.record import LEAD, Lead
from crm.resources.products import record as products
from crm.resources.tasks import TASK
from crm.spreadsheets import all_resources, find_resource, read_file
from crm.spreadsheets.references import source_tenant
from crm.storage.session import rows, transaction
from tests.conftest import OLENA, TARAS, Api, key_for
from tests.csv_helpers import (
    HOSTILE,
    all_files,
    contents,
    counts,
    errors,
    everybody,
    exported,
    load,
    said,
    send,
)
from tests.installations import config_for, on_postgres
from tests.tables import SEQUENCES, read_tables

NAMES = [resource.plural for resource in all_resources()]
NOUNS = [plural for plural in NAMES if plural != "products"]
LEADS = find_resource("leads")
PEOPLE = """external_id,name,phone,email,status,assigned_to,amount,tags,created_at
L-1,Марія Коваль,067 123 45 67,,qualified,olena@acme.example,"1 250,50","опт, vip",2024-03-01
L-2,Богдан,,bohdan@example.com,new,Taras,,,2024-03-02T10:00:00+02:00
L-3,Ігор,0671234569,,unqualified,+380501110002,7,,
"""


def lead(external_id: str) -> dict[str, Any]:
    return LEAD.one(Lead.first("external_id = ?", external_id).id)


def everything(crm: Any, label: str = "acme") -> list[list[tuple]]:
    """Every row of a tenant that an import could write."""
    tables = ("lead", "client", "contact", "deal", "deal_item", "task", "event", "audit_entry")
    more = ("import_run", "stage_move")
    with crm.tenants.session(label):
        results = [rows(f"SELECT * FROM {table}") for table in (*tables, *more)]
    return [*results, read_tables(crm.tenants, label).get(SEQUENCES, [])]


# New and known records


def test_new_rows_make_leads_in_stored_form(acme):
    assert counts(load("leads", PEOPLE)) == (3, 0, 0, 0)
    maria = lead("L-1")
    assert (maria["name"], maria["phone"]) == ("Марія Коваль", "+380671234567")
    assert (maria["status"], maria["assigned_to"]) == ("qualified", str(OLENA))
    assert (maria["amount"], maria["currency"], maria["tags"]) == (1250.5, "UAH", ["опт", "vip"])
    assert (maria["created_at"], maria["version"]) == ("2024-02-29T22:00:00Z", 1)
    assert lead("L-2")["created_at"] == "2024-03-02T08:00:00Z"
    assert lead("L-2")["assigned_to"] == lead("L-3")["assigned_to"] == str(TARAS)
    assert lead("L-3")["created_at"] == "2026-03-02T09:00:00Z"


def test_an_empty_cell_of_a_new_record_is_empty_and_a_missing_column_by_default(acme):
    load("leads", "external_id,name,phone,source\nA,Марія,0671234567,\n")
    load("leads", "external_id,name,phone\nB,Марія,0671234567\n")
    assert (lead("A")["source"], lead("B")["source"]) == (None, "api")
    acme.user_id = OLENA
    load("tasks", "external_id,title,assigned_to,priority\nA,Дзвінок,,\n")
    load("tasks", "external_id,title\nB,Дзвінок\n")
    nobodys, hers = TASK.every("TRUE ORDER BY id")
    assert (nobodys["assigned_to"], nobodys["priority"]) == (None, "normal")
    assert hers["assigned_to"] == str(OLENA)


def test_a_known_external_id_or_id_changes_what_the_file_has(acme, clock):
    load("leads", PEOPLE)
    clock.tick(60)
    before = lead("L-3")
    text = "external_id,name,status,comment\nL-1,,in_progress,Передзвонити\nL-2,Богдан,,\n"
    assert counts(load("leads", text)) == (0, 1, 1, 0)
    maria = lead("L-1")
    assert (maria["name"], maria["status"], maria["version"]) == ("Марія Коваль", "in_progress", 2)
    assert (maria["comment"], maria["updated_at"]) == ("Передзвонити", "2026-03-02T09:01:00Z")
    assert counts(load("leads", "id,company\n3,ТОВ Ромашка\n")) == (0, 1, 0, 0)
    assert lead("L-3") == {
        **before,
        "company": "ТОВ Ромашка",
        "version": 2,
        "updated_at": "2026-03-02T09:01:00Z",
    }


def test_rows_without_a_key_make_records_each_time(acme):
    text = "name,phone\nМарія,0671234567\nМарія,0671234567\n"
    assert counts(load("leads", text)) == (2, 0, 0, 0)
    assert counts(load("leads", text)) == (2, 0, 0, 0)


def test_an_unknown_id_is_rejected(acme, api):
    id = api.create("/leads", name="Марія", phone="0671234567")
    api.delete(f"/leads/{id}")
    text = f"id,name,phone\n9,Марія,0671234567\nabc,Марія,0671234567\n{id},Марія,0671234567\n"
    result = load("leads", text)
    codes = ((2, "unknown_id"), (3, "unknown_id"), (4, "in_trash"))
    assert errors(result) == [(line, "id", code) for line, code in codes]
    assert result.errors[0]["message"] == "id: there is no lead 9"


def test_an_id_and_the_external_id_of_another_record_are_a_contradiction(acme):
    load("leads", PEOPLE)
    result = load("leads", "id,external_id,name\n1,L-2,Хтось\n")
    assert errors(result) == [(2, "external_id", "contradiction")]
    api_made = load("leads", "name,phone\nОксана,0671234567\n")
    assert api_made.created == 1
    assert counts(load("leads", "id,external_id\n4,L-4\n")) == (0, 1, 0, 0)
    assert lead("L-4")["name"] == "Оксана"


def test_of_a_key_twice_the_later_row_is_rejected(acme):
    load("leads", PEOPLE)
    text = "id,external_id,name,phone\n,N,a,0671234567\n,N,b,0671234567\n1,,c,\n1,,d,\n,L-1,e,\n"
    result = load("leads", text)
    assert errors(result) == [
        (3, "external_id", "duplicate_in_file"),
        (5, "id", "duplicate_in_file"),
        (6, "external_id", "duplicate_in_file"),
    ]
    assert "line 4" in result.errors[2]["message"]
    assert (lead("N")["name"], lead("L-1")["name"]) == ("a", "c")


# Bad rows


@pytest.mark.parametrize(
    ("cells", "column", "code"),
    [
        (",0671234567,,,,,", "name", "required"),
        ("Марія,,,,,,", "phone", "phone_or_email"),
        ("Марія,12,,,,,", "phone", "invalid_phone"),
        ("Марія,0671234567,,sold,,,", "status", "invalid_choice"),
        ("Марія,0671234567,,converted,,,", "deal_id", "required"),
        ("Марія,0671234567,,,1.001,,", "amount", "too_precise"),
        ("Марія,0671234567,,,,Хтось,", "assigned_to", "not_found"),
        ("Марія,0671234567,,,,,вчора", "created_at", "invalid_date"),
        ("Марія,0671234567,,,,,2026-03-03", "created_at", "in_the_future"),
        ('Марія,0671234567,"a" b,,,,', None, "bad_quotes"),
    ],
)
def test_a_bad_row_is_told_and_stops_no_other(acme, cells, column, code):
    header = "name,phone,email,status,amount,assigned_to,created_at,deal_id,extra"
    result = load("leads", f"{header}\nДобра,0671234567\n{cells}\nДобра,0671234568\n")
    assert counts(result) == (2, 0, 0, 1)
    assert (3, column, code) in errors(result)
    assert {line for line, _, _ in errors(result)} == {3}
    assert [record.name for record in Lead.every("TRUE")] == ["Добра", "Добра"]


def test_a_rejected_record_leaves_nothing_behind(acme, api):
    tables = ["lead", "event", "audit_entry", *([] if on_postgres() else ["lead_search"])]
    load("leads", PEOPLE)
    before = [rows(f"SELECT * FROM {table}") for table in tables]
    text = "external_id,name,phone,email\nL-1,Інша,нікуди,\nL-9,Марія,,\n"
    assert load("leads", text).rejected == 2
    assert before == [rows(f"SELECT * FROM {table}") for table in tables]
    assert [event["sequence"] for event in api.events()] == [1, 2, 3]


def test_limits_are_100_000_rows_and_50_mib():
    assert not read_file(b"name\n" + b"A\n" * 10_000, LEADS).is_large
    assert read_file(b"name\n" + b"A\n" * 10_001, LEADS).is_large
    assert read_file(b"name\nA".ljust((10 << 20) + 1), LEADS).is_large
    with pytest.raises(Invalid) as refused:
        read_file(b"name\n" + b"A\n" * 100_001, LEADS)
    assert refused.value.code == "too_many_rows"
    with pytest.raises(TooLarge):
        read_file(b"name\n".ljust((50 << 20) + 1), LEADS)


@pytest.mark.parametrize(
    ("cell", "tags"),
    [
        ("опт,vip|a; b", ["опт", "vip", "a", "b"]),
        (" опт ,, VIP ,vip", ["опт", "VIP"]),
        ('"24"" монітор", "a,b"', ['24" монітор', "a,b"]),
        (",", []),
    ],
)
def test_tags_stand_in_one_cell(acme, cell, tags):
    quoted = cell.replace('"', '""')
    load("leads", f'name,phone,tags\nМарія,0671234567,"{quoted}"\n')
    assert LEAD.every("TRUE")[0]["tags"] == tags


# Events, the trail, the report


def test_each_record_fires_the_events_of_any_other_interface(api, acme):
    send(api, "leads", PEOPLE)
    assert api.kinds() == ["lead.created"] * 3
    response = api.events()[0]["data"]["lead"]
    assert (response["external_id"], response["created_by"]) == ("L-1", str(OLENA))
    send(api, "leads", "external_id,status\nL-1,in_progress\n")
    (change,) = api.read("/leads/1/changes")
    assert (change["before"], change["after"]) == (
        {"status": "qualified"},
        {"status": "in_progress"},
    )
    assert change["key"]["name"] == "tests"
    text = "external_id,title,status,created_at\nT-1,Дзвінок,done,2024-03-05\nT-2,Лист,open,\n"
    send(api, "tasks", text)
    send(api, "tasks", "external_id,status\nT-2,done\n")
    tasks = ["task.created", "task.completed", "task.created", "task.completed"]
    assert api.kinds()[3:] == tasks


def test_a_dry_run_counts_and_writes_nothing(api, crm):
    send(api, "leads", PEOPLE)
    before = everything(crm)
    text = "external_id,name,phone,status\nL-1,,,new\nL-2,Богдан,,\nN,Нова,0671234567,\nM,,,\n"
    answer = send(api, "leads", text, "?dry_run=true")
    assert said(answer) == (1, 1, 2)
    assert "Location" not in answer.headers
    assert everything(crm) == before
    assert send(api, "leads", text, "?dry_run=false").json == answer.json


def test_an_import_is_all_or_nothing(crm, acme, monkeypatch):
    before = everything(crm)
    emitted = []

    def fail(*told: Any) -> None:
        emitted.append(told)
        if len(emitted) == 3:
            raise RuntimeError("no event can be written")

    monkeypatch.setattr(events, "emit", fail)
    with pytest.raises(RuntimeError):
        load("leads", PEOPLE)
    assert everything(crm) == before


# Who may


def test_a_report_needs_the_right_to_read_its_noun(api, crm, reader, form):
    """Keys that may only write it: tests/api/test_write_only_keys.py."""
    send(api, "leads", "external_id\nA\n")
    stranger = Api(crm, "acme", key_for(crm, "acme", "tasks:read"))
    for path in ("/imports/1", "/imports/1/errors.csv"):
        assert reader.get(path).status_code == 200
        for refused in (stranger, form):
            answer = refused.get(path)
            assert (answer.status_code, answer.json["code"]) == (403, "missing_scope")
    assert stranger.get("/imports/9").status_code == 404


def test_an_export_tells_of_other_nouns_what_the_key_may_read_of_them(api, crm):
    person = {"name": "Таємна Особа", "phone": "0671234567"}
    client = api.create("/clients", name="Ромашка", external_id="C-9", contacts=[person])
    ids = {"client_id": client, "contact_id": api.read(f"/clients/{client}")["contacts"][0]["id"]}
    deal = api.create("/deals", title="Столи", external_id="D-9", assigned_to=OLENA, **ids)
    lead = api.create("/leads", name="Марія", phone="0671234568", assigned_to=TARAS)
    api.post(f"/leads/{lead}/convert", {"deal_id": deal})
    api.create("/tasks", title="Дзвінок", assigned_to=TARAS, client_id=client, deal_id=deal)
    hidden = ("olena@acme", "38050", "C-9", "D-9", "Таємна")
    own = {"leads": (), "clients": ("C-9", "Таємна"), "deals": ("D-9",), "tasks": ()}
    for noun in NOUNS:
        alone = Api(crm, "acme", key_for(crm, "acme", f"{noun}:read"))
        text = alone.get(f"/{noun}/export").text
        assert [item for item in hidden if item in text] == [*own[noun]], noun
        writer = Api(crm, "acme", key_for(crm, "acme", f"{noun}:write,deals:write"))
        assert said(send(writer, noun, text))[:2] == (0, 0), noun
    (record,) = exported(Api(crm, "acme", key_for(crm, "acme", "deals:read")), "deals")
    assert (record["assigned_to"], record["client_id"], record["contact_id"]) == (
        str(OLENA),
        *ids.values(),
    )
    both = Api(crm, "acme", key_for(crm, "acme", "deals:read,users:read,clients:read"))
    (record,) = exported(both, "deals")
    assert (record["assigned_to"], record["contact"]) == ("olena@acme.example", "Таємна Особа")
    assert record["client_external_id"] == "C-9"


def test_to_convert_by_a_file_needs_the_right_to_write_deals(api, crm):
    api.create("/deals", title="Столи", external_id="D-1", client_id=None)
    writer = Api(crm, "acme", key_for(crm, "acme", "leads:write"))
    text = "name,phone,status,deal_external_id\nМарія,0671234567,converted,D-1\n"
    answer = send(writer, "leads", text)
    assert (answer.status_code, answer.json["scope"]) == (403, "deals:write")
    assert send(writer, "leads", text.replace("converted,D-1", "new,")).json["created"] == 1
    assert send(api, "leads", text).json["created"] == 1


def test_another_tenant_sees_nothing_of_it(api, ivan):
    send(api, "leads", PEOPLE)
    send(ivan, "leads", "external_id,name,phone\nL-1,Ivan's,0671234567\n")
    assert [result["name"] for result in ivan.read("/leads")] == ["Ivan's"]
    assert [result["name"] for result in api.read("/leads?external_id=L-1")] == ["Марія Коваль"]
    assert [line["name"] for line in exported(ivan, "leads")] == ["Ivan's"]
    assert ivan.get("/imports/2").status_code == 404
    assert send(ivan, "leads", "id,name\n2,Хтось\n").json["skipped"] == 1


# Converted leads


def test_a_converted_lead_moves_in_with_its_deal_whatever_became_of_it(api):
    client = api.create("/clients", name="ТОВ Ромашка")
    dates = {"created_at": "2024-01-05T00:00:00Z", "closed_at": "2024-02-01T00:00:00Z"}
    deal = api.create("/deals", external_id="D-1", client_id=client, status="won", **dates)
    text = (
        "external_id,name,phone,status,deal_external_id,converted_at,created_at\n"
        "L-1,Марія,0671234567,converted,D-1,2024-01-05,2024-01-01\n"
        "L-2,Ігор,0671234568,converted,D-1,2024-01-06,2024-01-02\n"
    )
    assert send(api, "leads", text).json["created"] == 2
    maria, igor = sorted(api.read("/leads"), key=lambda found: found["id"])
    assert (maria["status"], maria["deal_id"], maria["client_id"]) == ("converted", deal, client)
    assert maria["converted_at"] == "2024-01-04T22:00:00Z"
    assert igor["deal_id"] == deal
    after = api.read(f"/deals/{deal}")
    assert (after["lead_id"], after["status"]) == (maria["id"], "won")
    assert after["closed_at"] == dates["closed_at"]
    assert api.kinds()[3:] == ["lead.created", "lead.converted"] * 2
    assert said(send(api, "leads", text)) == (0, 0, 2)
    changed = send(api, "leads", "external_id,status\nL-1,new\n")
    assert changed.json["skipped"] == 1
    (error,) = api.read("/imports/3")["errors"]
    assert (error["column"], error["code"]) == ("status", "lead_already_converted")


def test_a_deal_goes_only_with_a_converted_lead_and_stays_its(api):
    for number in (1, 2):
        api.create("/deals", title="Столи", external_id=f"D-{number}")
    text = "external_id,name,phone,status,deal_external_id\nL-1,Марія,0671234567,{},{}\n"
    for status, deal, column, code in (
        ("new", "D-1", "deal_id", "not_converted"),
        ("converted", "D-9", "deal_external_id", "not_found"),
        ("converted", "D-1", None, None),
        ("converted", "D-2", "deal_id", "read_only"),
    ):
        location = send(api, "leads", text.format(status, deal)).headers["Location"]
        result = api.read(location.partition("/api/v1")[2])["errors"]
        assert [(e["column"], e["code"]) for e in result] == ([(column, code)] if code else [])
    assert api.kinds().count("lead.converted") == 1


# Tasks


def test_tasks_find_what_they_belong_to_and_keep_their_dates(api, clock):
    client = api.create("/clients", name="ТОВ Ромашка", external_id="C-1")
    deal = api.create("/deals", title="Столи", external_id="D-1")
    lead_id = api.create("/leads", name="Марія", phone="0671234567")
    text = (
        "external_id,title,type,status,priority,assigned_to,due_at,client_external_id,"
        "deal_id,lead_id,result,completed_at,created_at\n"
        f"T-1,Дзвінок,call,Done,high,2,2024-03-05,C-1,{deal},{lead_id},Так,2024-03-04,2024-03-01\n"
    )
    assert send(api, "tasks", text).json["created"] == 1
    (task,) = api.read("/tasks")
    assert (task["client_id"], task["deal_id"], task["lead_id"]) == (client, deal, lead_id)
    assert (task["status"], task["type"], task["priority"]) == ("done", "call", "high")
    assert (task["assigned_to"], task["result"]) == (str(TARAS), "Так")
    assert (task["due_at"], task["completed_at"], task["created_at"]) == (
        "2024-03-05T21:59:59Z",  # the end of the day in Kyiv
        "2024-03-03T22:00:00Z",
        "2024-02-29T22:00:00Z",
    )
    assert send(api, "tasks", text).json["updated"] == 0


def test_nothing_was_done_before_it_began(api):
    text = (
        "title,status,completed_at,created_at\nA,done,2024-03-04,2024-03-05\nB,done,2024-03-04,\n"
    )
    assert said(send(api, "tasks", text)) == (0, 0, 2)
    api.create("/deals", title="Столи", external_id="D-1")
    text = "name,phone,status,deal_external_id,converted_at,created_at\nA,0671234567,converted,D-1,"
    assert said(send(api, "leads", f"{text}2024-03-04,2024-03-05\n")) == (0, 0, 1)
    response = [api.read(f"/imports/{id}")["errors"] for id in (1, 2)]
    assert [(e["line"], e["column"], e["code"]) for result in response for e in result] == [
        (2, "completed_at", "before_created_at"),
        (3, "completed_at", "before_created_at"),
        (2, "converted_at", "before_created_at"),
    ]


def test_a_task_without_what_it_belongs_to_is_rejected(api):
    one = api.create("/clients", name="ТОВ Ромашка", external_id="C-1")
    api.create("/clients", name="ТОВ Липа", external_id="C-2")
    text = (
        "title,client_id,client_external_id,lead_id,deal_external_id,completed_at\n"
        "a,,C-9,,,\nb,,,7,,\nc,,,,D-9,\n"
        f"d,{one},C-2,,,\ne,{one},C-1,,,2030-01-01\n,{one},,,,\nf,{one},C-1,,,\n"
    )
    assert said(send(api, "tasks", text)) == (1, 0, 6)
    results = [(e["line"], e["column"], e["code"]) for e in api.read("/imports/1")["errors"]]
    assert results == [
        (2, "client_external_id", "not_found"),
        (3, "lead_id", "not_found"),
        (4, "deal_external_id", "not_found"),
        (5, "client_external_id", "contradiction"),
        (6, "completed_at", "in_the_future"),
        (7, "title", "required"),
    ]


# Exporting


def test_an_export_is_a_file_to_save_with_all_columns(api, acme):
    send(api, "leads", PEOPLE)
    answer = api.get("/leads/export")
    assert answer.headers["Content-Type"] == "text/csv; charset=utf-8"
    assert answer.headers["Content-Disposition"] == 'attachment; filename="leads.csv"'
    line = exported(api, "leads")[0]
    assert set(line) == set(LEADS.column_names)
    cells = line["phone"], line["assigned_to"], line["amount"], line["tags"], line["source_tenant"]
    user = "olena@acme.example"
    assert cells == ("+380671234567", user, "1250.50", "опт,vip", source_tenant())


def test_an_export_takes_the_filters_of_the_list_and_has_no_deleted_rows(api):
    send(api, "leads", PEOPLE)
    for query, result in (
        ("", ["L-1", "L-2", "L-3"]),
        ("?sort=-id", ["L-3", "L-2", "L-1"]),
        ("?status=new&status=qualified", ["L-1", "L-2"]),
        ("?q=коваль", ["L-1"]),
        ("?created_since=2024-03-02T00:00:00Z", ["L-2", "L-3"]),
    ):
        names = [line["external_id"] for line in exported(api, "leads", query)]
        assert names == result, query
    api.delete("/leads/2")
    assert [line["external_id"] for line in exported(api, "leads")] == ["L-1", "L-3"]


# There and back


@pytest.fixture(scope="module")
def demo_tenants(tmp_path_factory) -> Iterator[Tenants]:
    """The two businesses of the demo, to whom hostile texts and gaps were added."""
    tenants = Tenants(config_for(tmp_path_factory.mktemp("demo")))
    demo.prepare(tenants)
    with tenants.session("acme") as here:
        here.user_id = OLENA
        for number, text in enumerate(HOSTILE):
            add_hostile(number, text)
    yield tenants
    tenants.forget_idle()


def add_hostile(number: int, text: str) -> None:
    long = f"{text}\n\n {text}\n{text}"
    tags = [text, "a,b", 'c"d', f"{text},"]
    kept = {"tags": tags, "comment": long, "extra": {text: long, "n": number}}
    contacts = [
        {"name": text, "comment": long},
        {"name": text, "phone": "+380671234567", "is_primary": number % 2 == 1},
    ]
    with transaction():
        named = {"name": text, "address": long, "external_id": f"{text} {number}"}
        client = clients.create(clients.CLIENT_IN.parse({**kept, **named, "contacts": contacts}))
        reached = {"name": text, "phone": "+380671234567", "source": None, "utm_source": text}
        leads.create(leads.LEAD_IN.parse({**kept, **reached}))
        sold = {"title": text, "client_id": client, "assigned_to": None}
        deal = deals.Deal.find(deals.create(deals.DEAL_IN.parse({**kept, **sold})))
        line = {"name": text, "price": "1.0001", "quantity": "1.5", "unit": text[:9]}
        more = {"discount": "12.5", "comment": long}
        if number % 4:
            lines = [items.ITEM_ENTRY.parse({**line, **more}) for _ in range(number % 4)]
            items.create_all(deal.id, lines)
        if number % 5 == 0:
            deals.update(deal.id, {"amount": 990_000})
        about = {"title": text, "description": long, "result": long, "assigned_to": None}
        belongs = {"client_id": client, "deal_id": deal.id, "status": "done"}
        tasks.create(tasks.TASK_IN.parse({**about, **belongs}))
        priced = {"sku": f"{text}-{number}", "name": text, "price": f"{number}.{number:04}"}
        products.create(products.PRODUCT_IN.parse({**priced, "unit": text, "description": long}))


@pytest.mark.parametrize("excel", [False, True], ids=["plain", "excel"])
def test_what_was_exported_changes_nothing_when_imported(demo_tenants, excel):
    with demo_tenants.session("acme"):
        before = contents()
        for noun, data in zip(NAMES, all_files(excel).values(), strict=True):
            result = load(noun, data, excel)
            assert (result.created, result.updated, result.errors) == (0, 0, [])
            assert result.unchanged > 10
        assert contents() == before


def test_what_was_exported_makes_the_same_records_elsewhere(demo_tenants):
    tenant.open_tenant(demo_tenants, "copy", language="uk")
    with demo_tenants.session("acme"):
        files, people, wanted = all_files(), everybody(), contents()
    with demo_tenants.session("copy"):
        for person in people:
            users.create(person)
        # Others are here already, under the ids that the file has.
        load("clients", "name\nСвій\n")
        load("leads", "name,phone\nСвоя,0671234567\n")
        own = {noun: len(results) for noun, results in contents().items()}
        for noun, data in zip(NAMES, files.values(), strict=True):
            result = load(noun, data)
            assert (result.updated, result.skipped, result.errors) == (0, 0, [])
        results = contents()
        assert results["clients"][0]["name"] == "Свій"
        assert results["leads"][0]["name"] == "Своя"
        shift = {f"{noun[:-1]}_id": count for noun, count in own.items()}
        for noun, records in wanted.items():
            moved = [
                {
                    n: v - shift.get(n, 0) if n in shift and v is not None else v
                    for n, v in r.items()
                }
                for r in results[noun][own[noun] :]
            ]
            assert moved == records
        again = {
            noun: counts(load(noun, data)) for noun, data in zip(NAMES, files.values(), strict=True)
        }
        assert {results[:2] for results in again.values()} == {(0, 0)}
