"""Fields of a tenant's own: what becomes of their values when a field or a record goes."""

from io import BytesIO

import pytest

from crm.access import api_keys
from crm.records import many_records
from crm.resources.bulk import work
from crm.resources.custom_fields import adoption, values
from crm.resources.products.record import Product
from crm.spreadsheets import find_resource, saved_mappings
from crm.spreadsheets.options import ImportOptions
from crm.storage import chunks, sweeps
from crm.storage.session import execute, rows, transaction
from tests.conftest import Api, key_for
from tests.resources.refusals import conflict, faults
from tests.resources.test_custom_fields import BUDGET, LEAD, WOOD
from tests.waiting import wait_for

DAY = 86_400


@pytest.fixture
def wood(api: Api) -> str:
    """A choice of leads, by which their list is filtered and searched."""
    return api.create("/fields", **WOOD, searched=True)


def undo(api: Api, batch_id: str) -> dict:
    return api.post(f"/batches/{batch_id}/undo").json


# Deletion


def test_a_field_is_deleted_once_it_is_retired_and_its_batch_takes_that_back(api, wood):
    lead = api.create("/leads", **LEAD, custom={"wood": "oak"})
    api.create("/leads", **LEAD)
    assert conflict(api.delete(f"/fields/{wood}")) == "field_in_use"
    api.post(f"/fields/{wood}/retire")
    assert api.read("/leads?q=oak") == []
    assert api.delete(f"/fields/{wood}?dry_run=true").json["count"] == 1
    assert api.get(f"/fields/{wood}").status_code == 200
    batch = api.delete(f"/fields/{wood}").json["batch_id"]
    for method in ("GET", "DELETE"):
        assert api.call(method, f"/fields/{wood}").status_code == 404
    assert api.read("/fields") == []
    assert api.post("/fields", WOOD).json["code"] == "duplicate_key"
    shown = api.read(f"/batches/{batch}")
    assert (shown["kind"], shown["note"], shown["deleted"]) == ("field", "Wood", 1)
    assert api.post(f"/batches/{batch}/undo?dry_run=true").json["reversed"] == 1
    assert undo(api, batch)["reversed"] == 1
    assert api.read(f"/fields/{wood}")["retired_at"]
    api.post(f"/fields/{wood}/restore")
    assert [one["id"] for one in api.read("/leads?custom.wood=oak&q=oak")] == [lead]


def test_what_names_a_field_is_told(crm, api, wood):
    api.create("/fields", resource="clients", key="wood", label="Wood", type="text")
    views = ({"custom.wood": "oak"}, {"has_custom.wood": "true"}, {"status": "new"})
    for number, query in enumerate(views):
        api.create("/views", resource="leads", name=f"View {number}", query=query)
    with crm.tenants.session("acme"):
        options = ImportOptions(mapping={"a": "phone", "b": "custom.wood"})
        saved_mappings.save(find_resource("leads"), ["a", "b"], "Ash", options)
        api_keys.create("Site", "leads:create", 1, form_fields='["custom.wood"]')
    used_by = api.delete(f"/fields/{wood}").json["used_by"]
    assert sorted((one["what"], one["name"]) for one in used_by) == [
        ("api_key", "Site"),
        ("column_mapping", "Ash"),
        ("saved_view", "View 0"),
        ("saved_view", "View 1"),
    ]


def test_after_thirty_days_the_values_are_removed_and_the_key_is_free(
    crm, api, wood, clock, monkeypatch
):
    monkeypatch.setattr(values, "CHUNK_RECORDS", 2)
    monkeypatch.setattr(chunks, "CHUNK_SECONDS", 0)
    api.create("/fields", resource="leads", key="size", label="Size", type="text")
    values_of = {"size": "L"}, {"size": "L", "wood": "oak"}, {"wood": "ash"}, {"wood": "oak"}
    for custom in values_of:
        last = api.create("/leads", **LEAD, custom=custom)
    api.delete(f"/leads/{last}")
    shown = api.read("/leads")
    api.post(f"/fields/{wood}/retire")
    api.delete(f"/fields/{wood}")
    with crm.tenants.session("acme"):
        clock.tick(29 * DAY)
        sweeps.run()
        assert len(rows("SELECT 1 FROM custom_text")) == 3
        clock.tick(2 * DAY)
        runs = 1
        while not sweeps.run():
            runs += 1
        assert runs >= 3
        stored = rows("SELECT custom FROM lead ORDER BY id")
        assert stored[:3] == [('{"size":"L"}',), ('{"size":"L"}',), (None,)]
        assert rows("SELECT key FROM custom_field") == [("size",)]
        assert rows("SELECT 1 FROM custom_text") == []
    custom = [one.pop("custom") for one in shown]
    assert custom == [{"wood": "ash"}, {"size": "L", "wood": "oak"}, {"size": "L"}]
    now_shown = api.read("/leads")
    assert [one.pop("custom") for one in now_shown] == [{}, {"size": "L"}, {"size": "L"}]
    assert (now_shown, api.events()) == (shown, [])  # those of the leads are gone by now
    api.create("/fields", **{**WOOD, "type": "text", "options": []})
    assert api.read("/leads?has_custom.wood=true") == []


def test_a_sweep_goes_on_with_what_a_process_has_left_pending(crm, api, wood):
    lead = api.create("/leads", **LEAD, custom={"wood": "oak"})
    with crm.tenants.session("acme"):
        with transaction():
            execute("DELETE FROM custom_text")
            execute("UPDATE custom_field SET pending_from = 0")
        sweeps.run()
        assert rows("SELECT record_id, value FROM custom_text") == [(int(lead), "oak")]


# Adoption

EXTRA = [
    # type, what extra has, the value, or the code of what does not fit
    ("text", "дуб", "дуб"),
    ("text", 5, "invalid_type"),
    ("number", "1 250,50", 1250.5),
    ("number", 7, 7),
    ("number", "багато", "invalid_number"),
    ("date", "01.12.2026", "2026-12-01"),
    ("flag", "так", True),
    ("flag", False, False),
    ("choice", "Oak", "oak"),
    ("choice", "elm", "invalid_choice"),
    ("choices", "oak, ash", ["oak", "ash"]),
    ("url", "https://example.com/", "https://example.com/"),
    ("user", "1", "1"),
    ("user", "999", "unknown_id"),
]


@pytest.mark.parametrize(("type", "value", "becomes"), EXTRA)
def test_a_value_of_extra_that_fits_becomes_the_fields(api, type, value, becomes):
    lead = api.create("/leads", **LEAD, extra={"Порода_1": value, "other": 1})
    options = WOOD["options"] if type.startswith("choice") else []
    id = api.create("/fields", resource="leads", key="x", label="X", type=type, options=options)
    sent = {"from_extra": "Порода_1"}
    tried = api.post(f"/fields/{id}/adopt", {**sent, "dry_run": True}).json
    answer = api.post(f"/fields/{id}/adopt", sent).json
    unfit = [{"id": lead, "value": value, "code": becomes}]
    fits = answer["changed"] == 1
    assert answer["unfit"] == tried["unfit"] == ([] if fits else unfit)
    shown = api.read(f"/leads/{lead}")
    assert (shown["custom"], shown["extra"]) == (
        ({"x": becomes}, {"other": 1}) if fits else ({}, {"Порода_1": value, "other": 1})
    )
    assert tried["count"] == 1 and tried["refused"] == int(not fits)


def test_a_value_of_the_field_stays_and_the_undo_puts_extra_back(api, wood):
    full = api.create("/leads", **LEAD, custom={"wood": "ash"}, extra={"w": "oak"})
    lead = api.create("/leads", **LEAD, extra={"w": "Oak"})
    api.create("/leads", **LEAD, extra={"other": {"w": 1}, "W": 1})
    before = [(one["custom"], one["extra"]) for one in api.read("/leads")]
    answer = api.post(f"/fields/{wood}/adopt", {"from_extra": "w"}).json
    assert [(one["id"], one["code"]) for one in answer["unfit"]] == [(full, "has_value")]
    assert [one["id"] for one in api.read("/leads?custom.wood=oak")] == [lead]
    assert undo(api, answer["batch_id"])["reversed"] == 1
    assert [(one["custom"], one["extra"]) for one in api.read("/leads")] == before
    assert api.read("/leads?custom.wood=oak") == []


def test_many_values_are_moved_in_the_background(api, wood, monkeypatch):
    monkeypatch.setattr(work, "MAX_IDS", 2)
    for value in ("oak", "elm", "ash"):
        api.create("/leads", **LEAD, extra={"w": value})
    answer = api.post(f"/fields/{wood}/adopt", {"from_extra": "w"})
    assert answer.status_code == 202
    path = f"/batches/{answer.json['batch_id']}"
    wait_for(lambda: api.read(path)["state"] == "done", 30)
    batch = api.read(path)
    assert (batch["updated"], batch["note"]) == (2, "adopt; refused: invalid_choice 1")


def test_what_did_not_fit_a_field_when_it_came_is_moved_when_it_does(crm, api, wood):
    lead = api.create("/leads", **LEAD, custom={"wood": "elm", "size": 3}, extra={"a": 1})
    options = [*WOOD["options"], {"key": "elm", "label": "Elm"}]
    api.patch(f"/fields/{wood}", {"options": options})
    with crm.tenants.session("acme"):
        listed = adoption.list_extra_keys("leads")
        assert {one["key"] for one in listed} == {"a", "custom.wood", "custom.size"}
    api.post(f"/fields/{wood}/adopt", {"from_extra": "custom.wood"})
    shown = api.read(f"/leads/{lead}")
    assert (shown["custom"], shown["extra"]) == ({"wood": "elm"}, {"a": 1, "custom": {"size": 3}})
    size = api.create("/fields", **{**BUDGET, "key": "size"})
    api.post(f"/fields/{size}/adopt", {"from_extra": "custom.size"})
    assert api.read(f"/leads/{lead}")["extra"] == {"a": 1}


def test_who_fills_a_field_may_write_its_records(crm, api, wood):
    key = Api(crm, "acme", key_for(crm, "acme", "fields:read,fields:write"))
    answer = key.post(f"/fields/{wood}/adopt", {"from_extra": "w", "dry_run": True})
    assert answer.status_code == 403


def test_the_keys_of_extra_are_listed_with_samples(crm, api):
    for value in ("дуб", "дуб", 5, "x" * 100, "ясен"):
        api.create("/leads", **LEAD, extra={"Порода": value, **({"b": [1]} if value == 5 else {})})
    with crm.tenants.session("acme"):
        assert adoption.list_extra_keys("leads") == [
            {"key": "Порода", "count": 5, "samples": ["ясен", "x" * 60, "5"]},
            {"key": "b", "count": 1, "samples": ["[1]"]},
        ]


# Merges, conversions, erasures


def test_a_merge_takes_values_of_both_and_what_names_the_client_follows(crm, api):
    for key in ("a", "b", "c", "d"):
        api.create("/fields", resource="clients", key=key, label=key, type="text", filtered=True)
    for resource in ("tasks", "clients"):
        api.create("/fields", resource=resource, key="friend", label="Friend", type="client")
    own, others = {"a": "own", "b": "own"}, {"b": "other", "c": "other", "d": "other"}
    into, other = (api.create("/clients", name="М", custom=one) for one in (own, others))
    task = api.create("/tasks", title="Т", custom={"friend": other})
    friend = api.create("/clients", name="Інша", custom={"friend": other, "a": "x"})
    before = [api.read(f"/clients/{id}")["custom"] for id in (into, other, friend)]
    sent = {"from_id": other, "fields": {"custom.e": "from"}}
    assert faults(api.post(f"/clients/{into}/merge", sent)) == [
        ("/fields/custom.e", "invalid_choice")
    ]
    sent["fields"] = {"custom.a": "from", "custom.b": "from", "custom.d": {"value": 5}}
    assert faults(api.post(f"/clients/{into}/merge", sent)) == [
        ("/fields/custom/d", "invalid_type")
    ]
    sent["fields"]["custom.d"] = {"value": "new"}
    batch = api.post(f"/clients/{into}/merge", sent).json["batch_id"]
    merged = {"b": "other", "c": "other", "d": "new"}
    assert api.read(f"/clients/{into}")["custom"] == merged
    assert api.read("/clients?custom.b=other")[0]["id"] == into
    assert api.read("/clients?custom.a=own") == []
    assert api.read(f"/tasks/{task}")["custom"] == {"friend": into}
    assert api.read(f"/clients/{friend}")["custom"] == {"friend": into, "a": "x"}
    assert undo(api, batch)["kept"] == 0
    assert [api.read(f"/clients/{id}")["custom"] for id in (into, other, friend)] == before
    assert api.read(f"/tasks/{task}")["custom"] == {"friend": other}
    with crm.tenants.session("acme"):
        assert rows("SELECT DISTINCT value FROM custom_number") == [(int(other),)]


def test_values_of_a_lead_go_to_the_deal_else_to_the_client(api, wood):
    api.create("/fields", resource="leads", key="size", label="Size", type="number")
    api.create("/fields", resource="leads", key="own", label="Own", type="text")
    api.create("/fields", resource="leads", key="unlike", label="Unlike", type="text")
    for resource in ("deals", "clients"):
        api.create("/fields", **{**WOOD, "resource": resource, "options": [WOOD["options"][0]]})
        api.create("/fields", resource=resource, key="unlike", label="Unlike", type="number")
    api.create("/fields", resource="clients", key="size", label="Size", type="number")

    def converted(**custom):
        id = api.create("/leads", **LEAD, custom={"own": "x", "unlike": "x", **custom})
        answer = api.post(f"/leads/{id}/convert").json
        paths = (f"/deals/{answer['deal_id']}", f"/clients/{answer['client_id']}")
        return [api.read(path)["custom"] for path in paths]

    assert converted(wood="oak", size=5) == [{"wood": "oak"}, {"size": 5}]
    assert converted(wood="ash", size=7) == [{}, {"size": 5}]


def test_an_erasure_takes_values_and_mentions_in_those_of_others(crm, api):
    for resource in ("clients", "leads"):
        api.create(
            "/fields", resource=resource, key="note", label="Note", type="text", filtered=True
        )
    api.create("/fields", resource="leads", key="friend", label="Friend", type="client")
    person = api.create("/clients", name="Zina Qvitkova", custom={"note": "secret"})
    custom = {"note": "from Zina Qvitkova", "friend": person}
    other = api.create("/leads", **LEAD, custom=custom)
    api.post(f"/fields/{api.read('/fields?resource=clients')[0]['id']}/retire")
    shown = api.read(f"/clients/{person}/personal-data")
    assert shown["clients"][0]["custom"] == {"note": "secret"}  # although it is hidden
    assert api.post(f"/clients/{person}/erase").status_code == 200
    assert api.read(f"/clients/{person}")["custom"] == {}
    assert api.read(f"/leads/{other}")["custom"] == {"note": "from [erased]", "friend": person}
    with crm.tenants.session("acme"):
        assert rows("SELECT value FROM custom_text") == [("from [erased]",)]
        assert not rows("SELECT 1 FROM event WHERE data LIKE '%Qvitkova%'")


# Many records at once


def test_bulk_changes_trash_and_undo_keep_values_and_what_finds_them(crm, api, wood):
    ids = [api.create("/leads", **LEAD, custom={"wood": wood}) for wood in ("oak", "ash", "oak")]

    def found(**expected: list[str]) -> None:
        for wood, of_wood in expected.items():
            assert [one["id"] for one in api.read(f"/leads?custom.wood={wood}")] == of_wood
            assert [one["id"] for one in api.read(f"/leads?q={wood}")] == of_wood

    sent = {"where": {"custom.wood": "oak"}, "set": {"custom": {"wood": "ash"}}, "expect": 2}
    batch = api.post("/leads/bulk", sent).json["batch_id"]
    found(oak=[], ash=ids[::-1])
    assert undo(api, batch)["reversed"] == 2
    found(oak=[ids[2], ids[0]], ash=[ids[1]])
    api.delete(f"/leads/{ids[0]}")
    found(oak=[ids[2]])
    api.post(f"/leads/{ids[0]}/restore")
    found(oak=[ids[2], ids[0]])


def test_an_undo_puts_back_no_value_of_a_field_that_is_gone(crm, api, wood, clock):
    api.create("/fields", **BUDGET)
    lead = api.create("/leads", **LEAD, custom={"wood": "oak", "budget": 1})
    api.post(f"/fields/{wood}/retire")
    api.delete(f"/fields/{wood}")
    clock.tick(20 * DAY)
    sent = {"ids": [lead], "set": {"custom": {"budget": 2}}, "expect": 1}
    batch = api.post("/leads/bulk", sent).json["batch_id"]
    clock.tick(15 * DAY)
    with crm.tenants.session("acme"):
        while not sweeps.run():
            pass
        assert rows("SELECT custom FROM lead") == [('{"budget":2}',)]
    assert undo(api, batch)["reversed"] == 1
    with crm.tenants.session("acme"):
        assert rows("SELECT custom FROM lead") == [('{"budget":1}',)]


def test_many_products_at_once_are_found_by_their_values(crm, api):
    text = {"resource": "products", "type": "text", "filtered": True, "searched": True}
    for key in ("wood", "size"):
        api.create("/fields", key=key, label=key, **text)
    new = [
        {"name": name, "sku": name, "price": 0, "currency": "UAH", "custom": custom}
        for name, custom in (("A", '{"wood":"oak"}'), ("B", None), ("C", '{"size":"L"}'))
    ]
    with crm.tenants.session("acme"), transaction():
        many_records.add_all(Product, new)
        stored = [Product.first("id = ?", id).__data__ for id in (1, 2, 3)]
        changed = [{"custom": '{"wood":"ash"}'}, {"custom": '{"wood":"ash"}'}, {"name": "D"}]
        many_records.save_all(Product, [*map(many_records.Change, stored, changed)])
        assert rows("SELECT record_id, value FROM custom_text ORDER BY 1") == [
            (1, "ash"), (2, "ash"), (3, "L"),
        ]  # fmt: skip
    assert [one["name"] for one in api.read("/products?q=ash")] == ["A", "B"]
    assert [one["name"] for one in api.read("/products?q=l")] == ["D"]
    assert api.read("/products?q=oak") == []


def test_a_renamed_product_is_still_found_by_its_values(api):
    api.create("/fields", resource="products", key="wood", label="W", type="text", searched=True)
    api.create("/products", name="Стіл", sku="A", price=1, custom={"wood": "oak"}, external_id="X9")
    file = {"file": (BytesIO("sku,name\nA,Стілець\n".encode()), "a.csv")}
    assert api.call("POST", "/products/import", data=file).status_code == 200
    for q in ("oak", "X9", "стілець"):
        assert [one["sku"] for one in api.read(f"/products?q={q}")] == ["A"], q
