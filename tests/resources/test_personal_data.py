"""Personal data: all of it as one JSON, and its erasure, shown by the bytes of the files."""

import io
import json
import re
import threading
from pathlib import Path

import pytest
from click.testing import CliRunner

from crm import cli
from crm.errors import NotFound
from crm.json import dumps
from crm.papers import pdf
from crm.records import erasure
from crm.resources import personal_data
from crm.resources.papers import company
from crm.storage import reading, search_index
from crm.storage.session import row, rows, transaction
from crm.storage.sqlite import connection
from tests.company_papers import REQUISITES
from tests.conftest import Api, key_for
from tests.copies import create_copy
from tests.installations import environ_for
from tests.resources.refusals import conflict

# In every text of the person; no other record has any of them.
MARK = "Zinaida Qvitkova"
PHONE, OTHER_PHONE = "+380671234567", "+380509876543"
EMAIL = "qvitkova@example.com"
SECRETS = ("Qvitkova", "qvitkova", "671234567", "509876543", "zinaida", "Sichovykh", "88776655")


@pytest.fixture(autouse=True)
def plain_deletion(monkeypatch):
    """SQLite leaves deleted bytes in its files, as most builds of it do and Debian's does not."""
    pragmas = (*connection.PRAGMAS, "PRAGMA secure_delete = OFF")
    monkeypatch.setattr(connection, "PRAGMAS", pragmas)


@pytest.fixture
def person(crm, api, clock, monkeypatch):
    """Ids of a person's records in acme, and of some of others; each is indexed at once."""
    monkeypatch.setattr(search_index, "ROWS_AT_ONCE", 1)
    monkeypatch.setattr(pdf, "compile", lambda snapshot, pictures: dumps(snapshot))
    api.create("/webhooks", url="https://erp.example.com/crm")
    text = {"type": "text", "filtered": True, "searched": True}
    api.create("/fields", resource="clients", label="Nick", **text)
    ids = {"client": api.create(
        "/clients", name=MARK, phone=PHONE, email=EMAIL, address="Sichovykh 1", comment=MARK,
        tax_number="88776655", external_id=f"1C {MARK}", tags=[MARK], extra={"who": MARK},
        website="https://qvitkova.example.com", custom={"nick": MARK}, requisites={"bank": MARK},
        contacts=[{"name": f"Son of {MARK}", "phone": OTHER_PHONE, "comment": MARK}],
    )}  # fmt: skip
    ids["lead"] = api.create("/leads", name=MARK, email=EMAIL, comment=MARK)
    ids["deal"] = api.post(
        f"/leads/{ids['lead']}/convert", {"title": f"Kitchen for {MARK}", "amount": 12500}
    ).json["deal_id"]
    ids["other lead"] = api.create("/leads", name="Z. Q.", phone=OTHER_PHONE, company=MARK)
    ids["deleted lead"] = api.create("/leads", name=MARK, phone=PHONE)
    api.delete(f"/leads/{ids['deleted lead']}")
    api.patch(f"/deals/{ids['deal']}", {"comment": MARK, "tags": [MARK], "extra": {"a": MARK}})
    item = {"name": "Table", "price": 100, "comment": f"for {MARK}"}
    api.create(f"/deals/{ids['deal']}/items", **item)
    ids["task"] = api.create(
        "/tasks", title=f"Call {MARK}", deal_id=ids["deal"], description=MARK,
        due_at="2026-03-05T09:00:00Z",
    )  # fmt: skip
    for path in (f"/clients/{ids['client']}", f"/deals/{ids['deal']}"):
        api.create(f"{path}/notes", text=f"{MARK} called")
        text = {"file": (io.BytesIO(MARK.encode()), f"{MARK}.txt")}
        assert api.call("POST", f"{path}/files", data=text).status_code == 201
    api.patch(f"/deals/{ids['deal']}", {"amount": 100})
    ids["offer"] = api.create(f"/deals/{ids['deal']}/papers", kind="offer")
    api.patch(f"/clients/{ids['client']}", {"name": "Zina Qvitkova-Novak"})
    api.patch(f"/clients/{ids['client']}", {"name": MARK})
    headers = {"Idempotency-Key": "k1", "Prefer": "return=representation"}
    api.call("POST", "/tasks", headers, json={"title": f"Again {MARK}", "client_id": ids["client"]})
    file = f"external_id,name,phone\n1,{MARK},0671234567890123\n".encode()
    sent = {"file": (io.BytesIO(file), f"{MARK}.csv")}
    answer = api.call("POST", "/clients/import", data=sent)
    assert answer.status_code == 200, answer.text
    ids["import"] = answer.headers["Location"].rpartition("/")[2]
    ids["stranger"] = api.create("/clients", name="Taras", phone="+380671110001", comment="stays")
    ids["other person"] = api.create("/leads", name="Taras", phone="+380671110001")
    ids["stranger's deal"] = api.create("/deals", title="Shelf", client_id=ids["stranger"])
    clock.tick(61)  # contents that were just added are left to a sweep
    return ids


def stored_bytes(crm, request):
    """All bytes of the tenant's file with its log, or of the database's files."""
    assert "erase it again" not in request.getfixturevalue("caplog").text
    if request.config.getoption("--database", default="") != "postgres":
        path = crm.tenants.path("acme")
        return b"".join(file.read_bytes() for file in path.parent.glob("acme.*db*"))
    database = crm.tenants.tenant("acme").database
    with database.connect() as server:
        server.execute(b"CHECKPOINT")
        ((folder,),) = server.read("SHOW data_directory")
        names = server.read(
            "SELECT pg_relation_filepath(pg_class.oid) FROM pg_class JOIN pg_namespace"
            " ON pg_namespace.oid = relnamespace WHERE relkind IN ('r', 'i', 't')"
            " AND (nspname = 't_acme' OR nspname = 'pg_toast') AND relfilenode <> 0"
        )
    return b"".join(Path(folder, name).read_bytes() for (name,) in names)


def found(data):
    """The secrets that the bytes have, also as PostgreSQL and SQLite fold and escape them."""
    return [secret for secret in SECRETS if secret.encode() in data]


def test_personal_data_is_all_of_it_as_one_json(api, person):
    data = api.read(f"/clients/{person['client']}/personal-data")
    assert data["clients"] == [api.read(f"/clients/{person['client']}")]
    assert [lead["id"] for lead in data["leads"]] == [
        person[name] for name in ("lead", "other lead", "deleted lead")
    ]
    assert [deal["id"] for deal in data["deals"]] == [person["deal"]]
    assert len(data["tasks"]) == 2 and len(data["notes"]) == 2
    assert {(file["name"], file["size"]) for file in data["files"]} == {(f"{MARK}.txt", 16)}
    assert [paper["kind"] for paper in data["papers"]] == ["offer"]
    assert {"name": "Zina Qvitkova-Novak"} in [change["after"] for change in data["changes"]]
    assert {"client.created", "lead.converted", "deal.items_changed", "task.created"} <= {
        event["type"] for event in data["events"]
    }
    assert "Taras" not in json.dumps(data) and "Shelf" not in json.dumps(data)
    for text in (MARK, PHONE, OTHER_PHONE, EMAIL):
        assert text in json.dumps(data, ensure_ascii=False)


def test_personal_data_needs_the_right_to_read_all_of_it(crm, api, ivan, person):
    scopes = ["clients:read", "leads:read", "deals:read", "tasks:read", "papers:read"]
    path = f"/clients/{person['client']}/personal-data"
    for missing in scopes:
        key = key_for(crm, "acme", ",".join({*scopes} - {missing}))
        assert Api(crm, "acme", key).get(path).json["scope"] == missing
    assert Api(crm, "acme", key_for(crm, "acme", ",".join(scopes))).get(path).status_code == 200
    assert ivan.get(path).status_code == 404


def test_only_owners_with_the_rights_to_change_all_of_it_erase(crm, api, taras, ivan, person):
    path = f"/clients/{person['client']}/erase"
    refused = taras.post(path)
    assert (refused.status_code, refused.json["code"]) == (403, "owners_only")
    scopes = ["clients:write", "leads:write", "deals:write", "tasks:write"]
    for missing in scopes:
        key = key_for(crm, "acme", ",".join({*scopes} - {missing}))
        assert Api(crm, "acme", key).post(path).json["scope"] == missing
    assert ivan.post(path).status_code == 404
    assert api.read(f"/clients/{person['client']}")["name"] == MARK


def test_a_dry_run_counts_and_changes_nothing(api, crm, person):
    before = api.read(f"/clients/{person['client']}/personal-data")
    answer = api.post(f"/clients/{person['client']}/erase?dry_run=true").json
    assert api.read(f"/clients/{person['client']}/personal-data") == before
    erased = answer["erased"]
    assert (erased["clients"], erased["leads"], erased["deals"], erased["tasks"]) == (1, 3, 1, 2)
    assert (erased["contacts"], erased["notes"], erased["imports"]) == (1, 2, 1)
    assert (erased["files"], erased["offers"], erased["kept_papers"]) == (2, 1, 0)
    assert erased["responses"] == 1 and erased["changes"] > 2 and erased["events"] > 6
    path = f"/clients/{person['client']}/erase"
    headers = {"Idempotency-Key": "k2"}  # whose answer is stored in the same transaction
    assert api.call("POST", f"{path}?dry_run=true", headers).json == answer
    assert api.read(f"/clients/{person['client']}")["name"] == MARK
    assert api.post(f"{path}?dry_run=false").json == answer


def test_erasing_leaves_deals_under_a_neutral_name_and_nothing_of_the_person(
    crm, api, person, request
):
    deal, task = api.read(f"/deals/{person['deal']}"), api.read(f"/tasks/{person['task']}")
    others = [
        api.read(f"/clients/{person['stranger']}"),
        api.read(f"/leads/{person['other person']}"),
    ]
    assert found(stored_bytes(crm, request))
    assert max(count_segments(crm), default=2) > 1
    assert api.post(f"/clients/{person['client']}/erase").status_code == 200
    name = f"Erased client {person['client']}"
    after = api.read(f"/deals/{person['deal']}")
    assert (after["title"], after["client_name"]) == (f"Deal {person['deal']}", name)
    for field in ("amount", "stage_id", "status", "created_at", "client_id", "assigned_to"):
        assert after[field] == deal[field]
    client = api.read(f"/clients/{person['client']}")
    assert (client["name"], client["phone"], client["contacts"], client["tags"]) == (
        name,
        None,
        [],
        [],
    )
    kept = api.read(f"/tasks/{person['task']}")
    assert (kept["title"], kept["due_at"]) == (f"Task {person['task']}", task["due_at"])
    assert [lead["name"] for lead in api.read("/leads")] == ["Taras"]
    assert api.read("/trash") == [] and api.read("/clients?q=qvitkova") == []
    assert api.post(f"/leads/{person['lead']}/restore").status_code == 404
    assert others[0] == api.read(f"/clients/{person['stranger']}")
    assert MARK not in json.dumps(api.events())
    assert api.events()[-1]["data"]["client"]["name"] == name
    imported = api.read(f"/imports/{person['import']}")
    assert (imported["file_name"], imported["errors"]) == (None, [])
    assert found(stored_bytes(crm, request)) == []
    with crm.tenants.session("acme"):
        assert row("SELECT count(*) FROM event") > (9,)  # their rows and numbers stay
    assert max(count_segments(crm), default=1) <= 1


def count_segments(crm):
    """Of the search indexes of a file: an older one has the pieces of texts that were deleted."""
    if crm.tenants.tenant("acme").engine_name != "sqlite":
        return []
    with crm.tenants.session("acme"):
        tables = [f"{table}_search_idx" for table in ("client", "lead", "deal", "task")]
        return [row(f"SELECT count(DISTINCT segid) FROM {table}")[0] for table in tables]


def test_invoices_are_kept_and_named_while_offers_and_files_go(crm, api, person):
    """Also their PDF; links to all of them end. The numbers have no gap afterwards."""
    with crm.tenants.session("acme"):
        company.update(requisites=REQUISITES)
    invoice = api.create(f"/deals/{person['deal']}/papers", kind="invoice")
    link = api.create(f"/papers/{invoice}/links")
    before = api.read(f"/papers/{invoice}")
    (file,) = api.read(f"/deals/{person['deal']}/files")
    erased = api.post(f"/clients/{person['client']}/erase").json["erased"]
    assert (erased["files"], erased["offers"], erased["kept_papers"]) == (2, 1, 1)
    assert api.read(f"/papers/{invoice}") == before
    assert MARK.encode() in api.get(f"/papers/{invoice}.pdf").data
    (ended,) = api.read(f"/papers/{invoice}/links")
    assert ended["id"] == link and ended["ended_at"]
    offer = api.read(f"/papers/{person['offer']}")
    assert (offer["number"], offer["client_name"], offer["snapshot"]) == ("1/2026", None, {})
    assert api.get(f"/papers/{person['offer']}.pdf").status_code == 404
    assert api.get(f"/files/{file['id']}").status_code == 404
    assert api.read(f"/clients/{person['client']}")["requisites"] == {}
    with crm.tenants.session("acme") as session, pytest.raises(NotFound):
        session.source.contents.size(file["sha256"])


def test_a_lead_that_never_became_a_client_is_erased_alone(crm, api, person, request):
    lead = api.create("/leads", name="Oryna Lysenkova", phone="+380991112233", comment="Oryna")
    api.create(f"/leads/{lead}/notes", text="Oryna called")
    assert conflict(api.post(f"/leads/{person['lead']}/erase")) == "lead_already_converted"
    assert api.post(f"/leads/{lead}/erase").json["erased"]["leads"] == 1
    assert api.get(f"/leads/{lead}").status_code == 404
    assert api.post(f"/leads/{lead}/erase").status_code == 404
    data = stored_bytes(crm, request)
    assert b"Lysenkova" not in data and b"lysenkova" not in data and b"991112233" not in data
    assert api.read(f"/clients/{person['client']}")["name"] == MARK


def test_a_restore_of_an_older_copy_erases_again(crm, api, clock, person, tmp_path, request):
    mentioning = api.create("/tasks", title=f"Ask {MARK}")
    with crm.tenants.session("acme"):
        copy = create_copy(tmp_path)
    api.post(f"/clients/{person['client']}/erase")
    crm.tenants.forget_idle()
    folder = crm.tenants.config.data
    done = CliRunner().invoke(
        cli.group,
        ["restore", "acme", str(copy), "--yes", "--data", str(folder)],
        env=environ_for(folder),
    )
    assert done.exit_code == 0, done.output
    assert api.read(f"/clients/{person['client']}")["name"] == f"Erased client {person['client']}"
    assert api.read(f"/clients/{person['stranger']}")["comment"] == "stays"
    assert api.read(f"/tasks/{mentioning}")["title"] == "Ask [erased]"
    clock.tick(400 * 86_400)  # what the restore has just stored is erased by the next sweep
    with crm.tenants.session("acme") as session:
        session.source.contents.erase_unused()
    assert found(stored_bytes(crm, request)) == []
    ledger = b"".join(path.read_bytes() for path in (crm.tenants.config.data / "erased").iterdir())
    assert b"client " in ledger and not found(ledger)


def test_the_ledger_of_a_tenant_erases_nothing_of_another(crm, ivan, api, person):
    other = ivan.create("/clients", name="Ivan's client")
    assert other == person["client"]
    api.post(f"/clients/{person['client']}/erase")
    with crm.tenants.session("globex"), transaction():
        personal_data.replay()
    assert ivan.read(f"/clients/{other}")["name"] == "Ivan's client"


# Free texts of others


def test_mentions_in_free_texts_of_others_are_listed_and_erased(crm, api, person, request):
    stranger, deal = person["stranger"], person["stranger's deal"]
    ids = {
        "lead": api.create("/leads", name="Ivan", email="i@example.com", comment=f"From {EMAIL}."),
        "task": api.create("/tasks", title="Call +38 (067) 123-45-67 today", result="Zinaida"),
    }
    api.patch(f"/clients/{stranger}", {"extra": {"via": [MARK.upper()], "n": 380671234567.5}})
    contact = api.create(f"/clients/{stranger}/contacts", name="Petro", comment=f"knows {MARK}")
    item = api.create(f"/deals/{deal}/items", name=f"Shelf as {MARK} has", price=10, quantity=2)
    note = api.create(f"/deals/{deal}/notes", text="Zinaida\nQvitkova, 067 123 4567")
    untouched = api.create("/tasks", title="Zinaida Qvitkovach", description="30671234567")
    api.patch(f"/tasks/{untouched}", {"result": "Call\nZinaida\nQvitkova!"})
    api.patch(f"/tasks/{untouched}", {"result": None})
    path = f"/clients/{person['client']}/erase"
    dry = api.post(f"{path}?dry_run=true").json
    expected = [
        ("clients", stranger),
        ("deals", deal),
        ("leads", ids["lead"]),
        ("tasks", ids["task"]),
    ]
    listed = [(one["resource"], one["id"]) for one in dry["mentions"]]
    assert [one for one in listed if one[1] != person["deal"]] == expected
    assert api.read(f"/leads/{ids['lead']}")["comment"] == f"From {EMAIL}."
    assert api.post(path).json == dry
    assert api.read(f"/leads/{ids['lead']}")["comment"] == "From [erased]."
    task = api.read(f"/tasks/{ids['task']}")
    assert (task["title"], task["result"]) == ("Call [erased] today", "Zinaida")
    client = api.read(f"/clients/{stranger}")
    assert client["extra"] == {"via": ["[erased]"], "n": 380671234567.5}
    assert (client["name"], client["phone"]) == ("Taras", "+380671110001")
    assert {c["name"]: c["comment"] for c in client["contacts"]} == {"Petro": "knows [erased]"}
    (line,) = api.read(f"/deals/{deal}/items")
    assert (line["id"], line["name"], line["total"]) == (item, "Shelf as [erased] has", 20)
    (text,) = api.read(f"/deals/{deal}/notes")
    assert (text["id"], text["text"]) == (note, "[erased], [erased]")
    assert api.read(f"/tasks/{untouched}")["title"] == "Zinaida Qvitkovach"
    assert contact and [task["id"] for task in api.read("/tasks?q=erased")] == [ids["task"]]
    history = json.dumps([api.read(f"/tasks/{untouched}/changes"), api.events()])
    assert r"Call\n[erased]!" in history and MARK not in history.replace(f"{MARK}ch", "")
    stored = stored_bytes(crm, request).replace(f"{MARK}ch".encode(), b"")
    assert MARK.encode() not in stored


def test_a_person_is_found_in_all_rows_that_a_look_at_each_finds(crm, api, person, monkeypatch):
    monkeypatch.setattr(reading, "BATCH_ROWS", 3)
    for number in range(20):
        text = (MARK.upper(), "Zinaida\tQvitkova", "067 123\n45 67", "Zinaida", EMAIL.title())
        others = {"title": "Shelf", "description": text[number // 2 % 5]} if number % 2 else {}
        api.create("/tasks", **{"title": f"Shelf {number}", **others})
    with crm.tenants.session("acme"):
        who = personal_data._person(personal_data.find_records("client", int(person["client"])))
        expected = {}
        for texts in erasure._texts:
            expected[texts.table] = [
                key
                for key, values in map(texts.split, rows(texts.select))
                if texts.is_named is not erasure.has_mention
                and texts.is_named(who, values)
                or texts.is_named is erasure.has_mention
                and any(
                    who.is_mentioned_in(re.sub(r"\\[nrt]", " ", value))
                    for value in values
                    if isinstance(value, str)
                )
            ]
        keys = erasure.find(who).keys
    assert keys == expected
    assert len(keys["task"]) > 8 and len(keys["event"]) > 8 and keys["note"]


# The page


def meanwhile(monkeypatch, write):
    """Let others write while an erasure looks through all texts, which takes seconds."""
    find = erasure.find

    def find_and_write(person):
        found = find(person)
        thread = threading.Thread(target=write)
        thread.start()
        thread.join(5)
        assert not thread.is_alive()  # it did not wait for the erasure
        return found

    monkeypatch.setattr(erasure, "find", find_and_write)


def test_what_others_write_during_an_erasure_is_looked_through_too(api, person, monkeypatch):
    other = api.create("/leads", name="Somebody", phone="+380991110000")

    def write():
        api.create(f"/leads/{other}/notes", text=f"asks about {MARK}")
        api.patch(f"/leads/{other}", {"comment": f"{MARK} knows her"})

    meanwhile(monkeypatch, write)
    answer = api.post(f"/clients/{person['client']}/erase")
    assert {"resource": "leads", "id": other} in answer.json["mentions"]
    (note,) = api.read(f"/leads/{other}/notes")
    assert note["text"] == "asks about [erased]"
    assert api.read(f"/leads/{other}")["comment"] == "[erased] knows her"
    assert MARK not in api.get(f"/leads/{other}/changes").text


def test_a_person_who_is_changed_during_an_erasure_is_not_erased_by_half(api, person, monkeypatch):
    client = f"/clients/{person['client']}"
    meanwhile(monkeypatch, lambda: api.patch(client, {"phone": "+380671239999"}))
    answer = api.post(f"{client}/erase")
    assert (answer.status_code, answer.json["code"]) == (503, "busy")
    assert api.read(client)["name"] == MARK


def test_an_owner_is_asked_before_the_page_erases(crm, api, olena, manager, person):
    task = api.create("/tasks", title=f"Ask {MARK}")
    path = f"/clients/{person['client']}"
    card = olena.sees(path)
    assert f'action="{path}/erase"' in card and f"{path}/personal-data" in card
    assert f"{path}/erase" not in manager.sees(path)
    assert manager.post(f"{path}/erase", {"sure": "1"}).status_code == 403
    assert json.loads(olena.get(f"{path}/personal-data").data)["clients"][0]["name"] == MARK
    question = olena.post(f"{path}/erase", {}).text
    assert "Угоди: 1, ліди: 3, завдання: 2, контакти: 1, нотатки: 2" in question
    assert f"/tasks/{task}" in question
    assert api.read(path)["name"] == MARK and not (crm.tenants.config.data / "erased").exists()
    assert olena.confirms(f"{path}/erase") == path
    assert api.read(path)["name"] == f"Erased client {person['client']}"


MENTIONS = (
    ("Іван Ґудзь", "до ІВАН  ґУДЗЬ дзвонити"),
    ("Ismail Weiß", "İSMAIL\nWeiß"),
    ("Ismail Weiß", "ismail WEIẞ"),
    ("kate kelvin", "\u212aate kelvin"),
    ("sam (kate) x", "\u017fAM  (KATE)\tX"),
    ("sam \u03c3\u03c2", "\u017fam \u03a3\u03a3"),
    ("Mail@Example.com", "to mail@EXAMPLE.com."),
    ("+380671234567", "call (067) 123-45-67"),
    ("+380671234567", "+38 067.123 45\n67"),
    ("+48221234567", "48 22 123 45 67"),
)


@pytest.mark.parametrize(("identity", "text"), MENTIONS)
def test_the_quick_look_passes_over_no_mention(identity, text):
    person = erasure.Person({}, [], [identity, "+380509876543", "Somebody Else"])
    assert person.is_mentioned_in(text)
    stored = dumps({"text": text}).decode()  # with line ends as JSON has them
    assert person.patterns_in(text) and person.patterns_in(stored)
    for other in ("Іван Коваль", "067 123 45 6", '{"at": "2026-03-05T09:00:00Z"}', ""):
        assert not person.patterns_in(other)


def test_nothing_to_look_for_is_in_no_text():
    assert not erasure.Person({}, [], ["Olena"]).patterns_in("Olena")


@pytest.mark.files
def test_personal_data_is_read_by_indexes(crm, api, person):
    executed = []
    with crm.tenants.session("acme") as session:
        session.connection.set_trace_callback(executed.append)
        personal_data.collect(personal_data.find_records("client", int(person["client"])))
        session.connection.set_trace_callback(None)
        large = re.compile(r"(SEARCH|SCAN) (event|note|audit_entry|lead|task|deal|contact)\b")
        for sql in filter(re.compile(r"\s*SELECT").match, executed):
            for step in rows(f"EXPLAIN QUERY PLAN {sql}"):
                assert not (found := large.match(step[3])) or found[1] == "SEARCH", (sql, step)
