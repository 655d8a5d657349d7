"""Merging clients and leads: what moves, what is refused, and that its undo puts all back."""

import io
import itertools
import random

import pytest

from crm.resources import merging, users
from crm.storage import session
from tests.conftest import Api, key_for
from tests.resources.refusals import conflict, faults
from tests.tables import read_tables

PHONE, OTHER = "+380671110001", "+380671110002"


@pytest.fixture
def pair(crm, api):
    """Two clients of one person, the second with all that may refer to it: (into, from, ids)."""
    into = api.create(
        "/clients", name="Марія", phone=PHONE, tags=["опт"], comment="своя",
        contacts=[{"name": "Петро", "phone": OTHER}],
    )  # fmt: skip
    other = api.create(
        "/clients", name="Марія Коваль", phone=PHONE, email="m@example.com", tags=["vip", "Опт"],
        external_id="1C-7", contacts=[{"name": "Ольга"}, {"name": "Павло"}],
    )  # fmt: skip
    (first, second) = api.read(f"/clients/{other}")["contacts"]
    ids = {"contact": first["id"], "second": second["id"]}
    ids["deal"] = api.create("/deals", title="Кухня", client_id=other, contact_id=second["id"])
    ids["own deal"] = api.create("/deals", title="Шафа", client_id=into)
    ids["task"] = api.create("/tasks", title="Дзвінок", client_id=other)
    ids["lead"] = api.create("/leads", name="Марія", phone=PHONE)
    api.post(f"/leads/{ids['lead']}/convert", {"client_id": other, "title": "Ліжко"})
    api.create(f"/clients/{other}/notes", text="Дзвонила")
    file = {"file": (io.BytesIO(b"1"), "Замір.pdf")}
    ids["file"] = api.call("POST", f"/clients/{other}/files", data=file).json["file_id"]
    api.patch(f"/clients/{other}", {"address": "Київ"})
    return into, other, ids


def batch_of(answer):
    assert answer.status_code == 200, answer.text
    return answer.json["batch_id"]


def content(crm):
    """All records but what any change of one changes: versions, times, and what only grows."""
    tables = read_tables(crm.tenants, "acme")
    counters = ("row_changes", "search_progress", "sqlite_sequence")
    grows = ("event", "batch", "batch_record", "api_key", "audit_entry", *counters)
    for name in [name for name in tables if name in grows or "_search" in name]:
        tables.pop(name)
    for rows in tables.values():
        for row in rows:
            for column in ("version", "updated_at"):
                row.pop(column, None)
    return tables


def test_what_refers_to_the_other_client_moves(crm, api, pair):
    into, other, ids = pair
    before = len(api.events())
    answer = api.post(f"/clients/{into}/merge", {"from_id": other})
    assert answer.json == {
        "status": "ok",
        "batch_id": batch_of(answer),
        "moved": {
            "deals": 2, "leads": 1, "tasks": 1, "notes": 1, "files": 1, "changes": 1,
            "contacts": 2,
        },
    }  # fmt: skip
    client = api.read(f"/clients/{into}")
    assert (client["name"], client["phone"], client["email"]) == ("Марія", PHONE, "m@example.com")
    assert (client["external_id"], client["comment"]) == ("1C-7", "своя")
    assert sorted(client["tags"]) == ["vip", "опт"]
    names = {contact["name"]: contact["is_primary"] for contact in client["contacts"]}
    assert names == {"Петро": True, "Ольга": False, "Павло": False}
    deal = api.read(f"/deals/{ids['deal']}")
    assert (deal["client_id"], deal["client_name"]) == (into, "Марія")
    assert deal["contact_id"] == ids["second"]
    assert api.read(f"/tasks/{ids['task']}")["client_id"] == into
    assert api.read(f"/leads/{ids['lead']}")["client_id"] == into
    assert [note["text"] for note in api.read(f"/clients/{into}/notes")] == ["Дзвонила"]
    assert [file["id"] for file in api.read(f"/clients/{into}/files")] == [ids["file"]]
    assert {"address": "Київ"} in [one["after"] for one in api.read(f"/clients/{into}/changes")]
    assert api.get(f"/clients/{other}").status_code == 404
    assert [client["id"] for client in api.read("/clients?tag=vip")] == [into]
    assert [client["id"] for client in api.read("/clients?q=Павло")] == [into]
    (event,) = api.events()[before:]
    assert event["type"] == "client.updated" and event["data"]["client"] == client
    assert [contact["name"] for contact in event["previous"]["contacts"]] == ["Петро"]


def test_the_undo_of_a_merge_puts_all_back(crm, api, pair):
    into, other, _ = pair
    before = content(crm)
    batch = batch_of(
        api.post(f"/clients/{into}/merge", {"from_id": other, "fields": {"name": "from"}})
    )
    assert api.read(f"/clients/{into}")["name"] == "Марія Коваль"
    assert content(crm) != before
    undone = api.post(f"/batches/{batch}/undo")
    assert undone.status_code == 200 and undone.json["kept"] == 0, undone.text
    assert content(crm) == before
    assert [one["after"] for one in api.read(f"/clients/{other}/changes")][-1] == {
        "address": "Київ"
    }
    assert api.post(f"/batches/{batch}/undo").json["code"] == "already_undone"


def test_what_changed_after_the_merge_stays_with_the_one_that_stayed(crm, api, pair):
    into, other, ids = pair
    batch = batch_of(api.post(f"/clients/{into}/merge", {"from_id": other}))
    api.patch(f"/deals/{ids['deal']}", {"client_id": api.create("/clients", name="Інша")})
    api.patch(f"/clients/{into}", {"comment": "нове"})
    undone = api.post(f"/batches/{batch}/undo").json
    assert (undone["reversed"], undone["kept"]) == (0, 2)  # its external_id is the other's now
    assert api.read(f"/clients/{into}")["comment"] == "нове"
    assert api.read(f"/tasks/{ids['task']}")["client_id"] == into
    assert api.get(f"/clients/{other}").status_code == 404


def test_a_dry_run_counts_and_changes_nothing(crm, api, pair):
    into, other, _ = pair
    before = content(crm)
    count = len(api.events())
    answer = api.post(f"/clients/{into}/merge", {"from_id": other, "dry_run": True}).json
    assert answer["batch_id"] is None and answer["moved"]["deals"] == 2
    assert content(crm) == before and len(api.events()) == count
    assert api.read("/batches") == []
    headers = {"Idempotency-Key": "k1"}  # whose answer is stored in the same transaction
    sent = {"from_id": other, "dry_run": True}
    assert api.call("POST", f"/clients/{into}/merge", headers, json=sent).json == answer
    assert api.read("/batches") == [] and len(api.events()) == count
    assert len(api.read("/clients")) == 2


def test_what_does_not_fit_is_refused_and_nothing_changes(crm, api, ivan, pair, monkeypatch):
    into, other, _ = pair
    path = f"/clients/{into}/merge"
    api.patch(f"/clients/{into}", {"external_id": "1C-8"})
    before = content(crm)

    def refused(status, code, **sent):
        answer = api.post(path, {"from_id": other, **sent})
        assert (answer.status_code, answer.json.get("code")) == (status, code), answer.text
        assert content(crm) == before
        return answer.json

    refused(409, "unlike_external_ids")
    for sent, code in (
        ({"from_id": into}, "same_record"),
        ({"from_id": "99"}, "unknown_id"),
        ({"fields": {"contacts": "from"}}, "invalid_choice"),
        ({"fields": {"name": "x"}}, "invalid_choice"),
    ):
        errors = refused(422, "validation_failed", **sent)["errors"]
        assert errors[0]["code"] == code
    settings = crm.tenants.config
    monkeypatch.setitem(settings.contacts, "business", 2)
    errors = refused(422, "validation_failed", fields={"external_id": "from"})["errors"]
    assert errors[0]["code"] == "too_many"
    assert ivan.post(path, {"from_id": other}).status_code == 404
    reader = Api(crm, "acme", key_for(crm, "acme", "clients:read,leads:write"))
    assert reader.post(path, {"from_id": other}).json["scope"] == "clients:write"
    monkeypatch.setitem(settings.contacts, "business", 200)
    batch_of(api.post(path, {"from_id": other, "fields": {"external_id": "from"}}))
    assert api.read(f"/clients/{into}")["external_id"] == "1C-7"


def test_the_merged_id_leads_to_the_record_that_stays(api, pair):
    into, other, _ = pair
    gone = api.create("/clients", name="Зайвий")
    assert api.delete(f"/clients/{gone}").status_code == 204
    batch_id = batch_of(api.post(f"/clients/{into}/merge", {"from_id": other}))
    for call in (api.get, api.patch, api.delete):
        answer = call(f"/clients/{other}")
        assert (answer.status_code, answer.json["merged_into"]) == (404, into)
    assert api.get(f"/clients/{other}/notes").json["merged_into"] == into
    for id in (gone, "99", "x"):
        assert "merged_into" not in api.get(f"/clients/{id}").json
    listed = api.read("/clients?include_deleted=true&updated_since=2026-01-01T00:00:00Z")
    assert {one["id"]: one.get("merged_into") for one in listed if "deleted_at" in one} == {
        other: into,
        gone: None,
    }
    trash = {one["id"]: one["merged_into"] for one in api.read("/trash?resource=clients")}
    assert trash == {other: into, gone: None}
    # A deletion after the undo is no merge.
    assert api.post(f"/batches/{batch_id}/undo").status_code == 200
    assert api.get(f"/clients/{other}").status_code == 200
    assert api.delete(f"/clients/{other}").status_code in (204, 409)


def test_extra_of_both_is_kept_or_the_merge_is_refused(api):
    into = api.create("/leads", name="Олена", phone=PHONE, extra={"a": 1, "b": 2})
    other = api.create("/leads", name="О.", phone=PHONE, extra={"b": 3, "c": 4})
    batch_of(api.post(f"/leads/{into}/merge", {"from_id": other}))
    assert api.read(f"/leads/{into}")["extra"] == {"a": 1, "b": 2, "c": 4}
    large = api.create("/leads", name="О.", phone=PHONE, extra={f"k{n}": n for n in range(50)})
    answer = api.post(f"/leads/{into}/merge", {"from_id": large})
    assert faults(answer) == [("/fields/extra", "too_many")]
    chosen = {"from_id": large, "fields": {"extra": "into"}}
    batch_of(api.post(f"/leads/{into}/merge", chosen))
    assert len(api.read(f"/leads/{into}")["extra"]) == 3


def test_leads_are_merged_too_and_emit_nothing(crm, api):
    into = api.create("/leads", name="Марія", phone=PHONE, tags=["a"])
    other = api.create(
        "/leads", name="М.", email="m@example.com", amount=5, currency="EUR", tags=["b"]
    )
    task = api.create("/tasks", title="Дзвінок", lead_id=other)
    api.create(f"/leads/{other}/notes", text="Дзвонила")
    before, count = content(crm), len(api.events())
    batch = batch_of(api.post(f"/leads/{into}/merge", {"from_id": other}))
    lead = api.read(f"/leads/{into}")
    assert (lead["email"], lead["amount"], lead["currency"]) == ("m@example.com", 5, "EUR")
    assert sorted(lead["tags"]) == ["a", "b"]
    assert api.read(f"/tasks/{task}")["lead_id"] == into
    assert len(api.events()) == count
    assert api.post(f"/batches/{batch}/undo").json["kept"] == 0
    assert content(crm) == before


def test_a_lead_that_became_a_client_stays(api, olena):
    into = api.create("/leads", name="Марія", phone=PHONE)
    other = api.create("/leads", name="М.", phone=PHONE)
    assert f"/leads/{into}/merge/{other}" in olena.sees(f"/leads/{into}")
    api.post(f"/leads/{other}/convert")
    assert f"/leads/{into}/merge/{other}" not in olena.sees(f"/leads/{into}")
    refused = api.post(f"/leads/{into}/merge", {"from_id": other})
    assert conflict(refused) == "lead_already_converted"
    assert f"/leads/{other}/merge/{into}" in olena.sees(f"/leads/{other}")
    batch_of(api.post(f"/leads/{other}/merge", {"from_id": into}))
    assert api.read(f"/leads/{other}")["status"] == "converted"


def test_erasing_the_client_that_stayed_erases_the_merged_one_too(crm, api, pair):
    into, other, _ = pair
    batch_of(api.post(f"/clients/{into}/merge", {"from_id": other}))
    assert api.post(f"/clients/{into}/erase").json["erased"]["clients"] == 2
    assert "Коваль" not in str(read_tables(crm.tenants, "acme"))


# Duplicates


def test_duplicates_are_groups_with_one_phone_email_or_tax_number(api, ivan):
    one = api.create("/clients", name="A", phone=PHONE, email="M@example.com", tax_number="77")
    two = api.create(
        "/clients", name="B", tax_number="77", contacts=[{"name": "P", "phone": PHONE}]
    )
    three = api.create("/clients", name="C", email="m@EXAMPLE.com")
    gone = api.create("/clients", name="D", phone=PHONE)
    api.delete(f"/clients/{gone}")
    ivan.create("/clients", name="I", phone=PHONE)
    a, b, c = (
        {"resource": "client", "id": id, "name": name}
        for id, name in ((one, "A"), (two, "B"), (three, "C"))
    )
    assert (
        api.read("/duplicates?resource=clients")
        == api.read("/duplicates")
        == [
            {"field": "email", "value": "m@example.com", "records": [a, c]},
            {"field": "phone", "value": PHONE, "records": [a, b]},
            {"field": "tax_number", "value": "77", "records": [a, b]},
        ]
    )
    assert api.walk("/duplicates?limit=1") == api.read("/duplicates")
    lead = api.create("/leads", name="L", phone=OTHER)
    other = api.create("/leads", name="M", phone=OTHER)
    (group,) = api.read("/duplicates?resource=leads")
    assert [record["id"] for record in group["records"]] == [lead, other]


def groups_of(api, nouns):
    """The groups that GET /duplicates shall list, from all live records that a caller reads."""
    groups = {}
    for listed in reversed(api.walk(f"/{nouns}")):
        record = api.read(f"/{nouns}/{listed['id']}")  # with its contacts
        contacts = record.get("contacts", [])
        for field in ("email", "phone", "tax_number"):
            values = {one.get(field) and one[field].lower() for one in (record, *contacts)}
            for value in values - {None}:
                groups.setdefault((field, value), []).append(record["id"])
    return {group: ids for group, ids in sorted(groups.items()) if len(ids) > 1}


@pytest.mark.parametrize("nouns", ["clients", "leads"])
def test_duplicates_are_those_of_all_live_records_page_by_page(crm, api, nouns):
    with crm.tenants.session("acme"):
        seller = users.create({"name": "Solomiya", "role": "seller"}).id
    dice = random.Random(7)
    for number in range(60):
        record = {"name": f"N{number}", "assigned_to": str(seller if number % 3 else 1)}
        phone, email = (f"+3806700000{dice.randrange(8):02}" for _ in "ab")
        record |= {"phone": phone, "email": f"{'Aa'[number % 2]}{email[-1]}@example.com"}
        if nouns == "clients":
            contact = {"phone": f"+3806700000{dice.randrange(12):02}", "email": "b@example.com"}
            contacts = [{"name": "P", **contact}]
            record |= {"tax_number": str(dice.randrange(30)), "contacts": contacts}
        id = api.create(f"/{nouns}", **record)
        if number % 4 == 0:
            api.delete(f"/{nouns}/{id}")
    for id in [record["id"] for record in api.walk(f"/{nouns}") if record["phone"][-1] == "3"]:
        api.delete(f"/{nouns}/{id}")  # no live one has the phone, several deleted ones do
    for caller in (api, Api(crm, "acme", key_for(crm, "acme", "*", seller))):
        expected = groups_of(caller, nouns)
        assert len(expected) > 5
        for limit in (2, 100):
            listed = caller.walk(f"/duplicates?resource={nouns}&limit={limit}")
            assert {
                (group["field"], group["value"]): [record["id"] for record in group["records"]]
                for group in listed
            } == expected
            assert [(group["field"], group["value"]) for group in listed] == [*expected]


@pytest.mark.files
@pytest.mark.parametrize("nouns", ["clients", "leads"])
def test_values_that_records_share_are_read_from_indexes_alone(crm, api, monkeypatch, nouns):
    def explained(sql, params, of_all):
        plans.append([step[3] for step in session.rows(f"EXPLAIN QUERY PLAN {sql}", params)])
        return session.rows(sql, params)

    plans = []
    monkeypatch.setattr(merging, "remembered_rows", explained)
    assert api.read(f"/duplicates?resource={nouns}") == []
    assert len(plans) == {"clients": 7, "leads": 2}[nouns]
    for step in itertools.chain(*plans):
        assert "COVERING INDEX" in step or step.startswith("CORRELATED"), step


def test_duplicates_need_the_right_to_read_the_resource(crm, api):
    key = Api(crm, "acme", key_for(crm, "acme", "leads:read,clients:write"))
    assert key.get("/duplicates?resource=leads").status_code == 200
    assert key.get("/duplicates?resource=clients").json["scope"] == "clients:read"
    assert key.get("/duplicates").status_code == 200  # of leads
    writer = Api(crm, "acme", key_for(crm, "acme", "clients:write,leads:write"))
    assert writer.get("/duplicates").status_code == 403
    assert api.get("/duplicates?resource=deals").status_code == 422


# The page


def test_the_page_shows_both_side_by_side_and_merges(api, olena, viewer, pair):
    into, other, _ = pair
    api.create("/fields", resource="clients", key="size", label="Розмір", type="text")
    api.patch(f"/clients/{other}", {"custom": {"size": "L"}})
    path = f"/clients/{into}/merge/{other}"
    assert path in olena.sees(f"/clients/{into}") and path not in viewer.sees(f"/clients/{into}")
    page = olena.sees(path)
    assert (
        'name="name" value="into" checked' in page and 'name="email" value="from" checked' in page
    )
    assert "угоди: 2, ліди: 1, завдання: 1, контакти: 2, нотатки: 1" in page
    assert viewer.get(path).status_code == 403
    assert viewer.post(path, {}).status_code == 403
    assert len(api.read("/clients")) == 2
    sent = {"name": "from", "custom.size": "into", "tags": ""}
    assert olena.sends(path, sent) == f"/clients/{into}"
    (batch,) = api.read("/batches")
    undo = f"/clients/batches/{batch['id']}/undo"
    assert f'action="{undo}"' in olena.sees(f"/clients/{into}")
    client = api.read(f"/clients/{into}")
    assert (client["name"], sorted(client["tags"])) == ("Марія Коваль", ["vip", "опт"])
    assert client["custom"] == {}
    assert olena.get(path).status_code == 404
    olena.sends(undo)
    assert {client["name"] for client in api.read("/clients")} == {"Марія", "Марія Коваль"}


# A crash


def test_a_field_may_be_given_a_value_of_its_own(crm, api, pair):
    into, other, _ = pair
    before = content(crm)
    path = f"/clients/{into}/merge"

    def merge(**fields):
        return api.post(path, {"from_id": other, "fields": fields})

    for name, choice, code in (
        ("phone", {"value": "12"}, "invalid_phone"),
        ("assigned_to", {"value": "99"}, "unknown_id"),
        ("name", {"value": None}, "null"),
        ("contacts", {"value": []}, "invalid_choice"),
        ("name", {"values": "A"}, "invalid_choice"),
    ):
        refused = merge(external_id="from", **{name: choice})
        (fault,) = refused.json["errors"]
        assert (refused.status_code, fault["pointer"], fault["code"]) == (
            422, f"/fields/{name}", code
        )  # fmt: skip
    phone = {"value": "067 111 22 33"}
    batch = batch_of(merge(phone=phone, external_id={"value": "1C-9"}, tags={"value": ["новий"]}))
    client = api.read(f"/clients/{into}")
    assert (client["phone"], client["external_id"]) == ("+380671112233", "1C-9")
    assert (client["name"], client["tags"]) == ("Марія", ["новий"])
    assert api.post(f"/batches/{batch}/undo").json["kept"] == 0
    assert content(crm) == before
