"""Fields of a tenant's own: their definitions, and values in records, lists and events."""

import pytest

from crm.storage.session import rows
from tests.conftest import Api
from tests.resources.refusals import faults

WOOD = {
    "resource": "leads",
    "key": "wood",
    "label": "Wood",
    "type": "choice",
    "options": [{"key": "oak", "label": "Oak"}, {"key": "ash", "label": "Ash"}],
    "filtered": True,
}
BUDGET = {"resource": "leads", "label": "Budget", "type": "number", "filtered": True}
LEAD = {"name": "Олена", "phone": "+380501112233"}

# A value of each type as it is sent and shown, one that it refuses, and the code of that.
VALUES = {
    "text": ("дуб", "дуб", 5, "invalid_type"),
    "long_text": ("перше\nдруге", "перше\nдруге", ["x"], "invalid_type"),
    "number": ("-12.5", -12.5, "99999999999.99991", "too_large"),
    "money": (99.9, 99.9, 99.999, "too_precise"),
    "date": ("2026-12-01", "2026-12-01", "01.12.2026", "invalid_date"),
    "flag": (True, True, "yes", "invalid_type"),
    "choice": ("oak", "oak", "elm", "invalid_choice"),
    "choices": (["ash", "oak"], ["oak", "ash"], ["elm"], "invalid_choice"),
    "url": ("https://example.com/a", "https://example.com/a", "javascript:0", "invalid_url"),
    "user": ("1", "1", "999", "unknown_id"),
    "client": ("1", "1", "999", "unknown_id"),
}


@pytest.fixture
def wood(api: Api) -> str:
    """A choice of leads, by which their list is filtered."""
    return api.create("/fields", **WOOD)


@pytest.mark.parametrize("type", VALUES)
def test_a_value_of_each_type_is_shown_as_it_was_sent(api, type):
    sent, shown, wrong, code = VALUES[type]
    api.create("/clients", name="Клієнт")
    options = WOOD["options"] if type.startswith("choice") else []
    api.create("/fields", resource="leads", key="x", label="X", type=type, options=options)
    id = api.create("/leads", **LEAD, custom={"x": sent})
    assert api.read(f"/leads/{id}")["custom"] == {"x": shown}
    assert api.read("/leads")[0]["custom"] == {"x": shown}
    assert faults(api.patch(f"/leads/{id}", {"custom": {"x": wrong}})) == [("/custom/x", code)]
    assert api.read(f"/leads/{id}")["custom"] == {"x": shown}


def test_a_record_may_be_sent_back_whose_value_names_a_deleted_one(api):
    clients = [api.create("/clients", name=name) for name in "абв"]
    api.create("/fields", resource="leads", key="x", label="X", type="client")
    id = api.create("/leads", **LEAD, custom={"x": clients[0]})
    for client in clients[:2]:
        api.delete(f"/clients/{client}")
    sent = api.read(f"/leads/{id}") | {"comment": "Back"}
    assert api.patch(f"/leads/{id}", sent).json["custom"] == {"x": clients[0]}
    for wrong, code in ((clients[1], "unknown_id"), ("b", "unknown_id")):
        sent = {"custom": {"x": wrong}}
        assert faults(api.patch(f"/leads/{id}", sent)) == [("/custom/x", code)]
        answer = api.post("/leads/bulk", {"ids": [id], "set": sent, "expect": 1})
        assert faults(answer) == [("/set/custom/x", code)]
    other = {"x": clients[2]}
    assert api.patch(f"/leads/{id}", {"custom": other}).json["custom"] == other


def test_a_change_sends_some_values_and_null_clears_one(api, wood):
    api.create("/fields", **BUDGET)
    id = api.create("/leads", **LEAD, custom={"wood": "oak", "budget": None})
    assert api.patch(f"/leads/{id}", {"custom": {"budget": 5}}).json["custom"] == {
        "wood": "oak",
        "budget": 5,
    }
    assert api.patch(f"/leads/{id}", {"custom": {"wood": None}}).json["custom"] == {"budget": 5}
    assert api.patch(f"/leads/{id}", {"custom": None}).json["custom"] == {}


def test_an_unknown_key_is_refused_with_the_nearest_known_one(api, wood):
    id = api.create("/leads", **LEAD)
    answer = api.patch(f"/leads/{id}", {"custom": {"wod": "oak"}})
    assert faults(answer) == [("/custom/wod", "unknown_field")]
    assert "is it wood?" in answer.json["errors"][0]["detail"]


def test_a_new_lead_keeps_what_does_not_fit_in_extra(api, wood):
    id = api.create("/leads", **LEAD, custom={"wood": "elm", "size": 3}, extra={"a": 1})
    lead = api.read(f"/leads/{id}")
    assert (lead["custom"], lead["extra"]) == ({}, {"a": 1, "custom": {"wood": "elm", "size": 3}})
    id = api.create("/leads", **LEAD, custom={"wood": "oak", "size": 3})
    lead = api.read(f"/leads/{id}")
    assert (lead["custom"], lead["extra"]) == ({"wood": "oak"}, {"custom": {"size": 3}})


def test_events_and_the_audit_trail_have_the_values(api, wood):
    api.create("/fields", **{**WOOD, "resource": "deals"})
    id = api.create("/deals", title="Стіл", custom={"wood": "oak"})
    (created,) = api.events()
    assert created["data"]["deal"]["custom"] == api.read(f"/deals/{id}")["custom"]
    api.patch(f"/deals/{id}", {"custom": {"wood": "ash"}})
    entry = api.read(f"/deals/{id}/changes")[0]
    assert (entry["before"], entry["after"]) == (
        {"custom": {"wood": "oak"}},
        {"custom": {"wood": "ash"}},
    )


# Lists


def test_lists_are_filtered_by_values_ranges_and_their_presence(api, wood):
    api.create("/fields", **BUDGET)
    for wood_key, budget in (("oak", 100), ("ash", 250.5), ("oak", None), (None, 7)):
        values = {"wood": wood_key, "budget": budget}
        api.create("/leads", **LEAD, custom=values)

    def ids(query: str) -> list[int]:
        return [int(lead["id"]) for lead in api.read(f"/leads?{query}")]

    assert ids("custom.wood=oak") == [3, 1]
    assert ids("custom.wood=oak&custom.wood=ash") == [3, 2, 1]
    assert ids("custom.budget_from=100&custom.budget_to=250") == [1]
    assert ids("custom.budget_from=100") == [2, 1]
    assert ids("has_custom.budget=false") == [3]
    assert ids("custom.wood=oak&has_custom.budget=true") == [1]
    assert ids("custom.wood=oak&custom.budget_from=1") == [1]
    assert api.get("/leads?custom.wood=oak&total=true").json["meta"]["total"] == 2
    assert ids("sort=-custom.budget") == [2, 1, 4, 3]
    assert ids("sort=custom.budget") == [4, 1, 2, 3]
    assert ids("sort=custom.budget&custom.wood=oak") == [1, 3]
    assert ids("sort=-custom.budget&custom.budget_to=200") == [1, 4]
    assert ids("sort=custom.budget&custom.budget_from=50&custom.budget_to=300") == [1, 2]
    assert ids("sort=custom.budget&has_custom.budget=false") == [3]
    for sort in ("custom.budget", "-custom.budget"):
        for filter in ("", "&has_custom.budget=true", "&custom.budget_from=7", "&status=new"):
            query = f"/leads?sort={sort}{filter}"
            walked = [lead["id"] for lead in api.walk(f"{query}&limit=1")]
            assert walked == [lead["id"] for lead in api.read(query)]


def test_a_filter_says_how_a_field_becomes_one(api, crm):
    id = api.create("/fields", **{**BUDGET, "filtered": False})
    answer = api.get("/leads?custom.budget=5")
    assert faults(answer) == [("custom.budget", "unknown_parameter")]
    assert f"/fields/{id}" in answer.json["errors"][0]["detail"]
    lead = api.create("/leads", **LEAD, custom={"budget": 5})
    assert api.patch(f"/fields/{id}", {"filtered": True}).status_code == 200
    assert [one["id"] for one in api.read("/leads?custom.budget=5")] == [lead]
    api.patch(f"/fields/{id}", {"filtered": False})
    with_rows = "SELECT count(*) FROM custom_number"
    with crm.tenants.session("acme"):
        assert rows(with_rows) == [(0,)]


def test_the_search_finds_values_of_searched_fields(api, wood):
    lead = api.create("/leads", **LEAD, custom={"wood": "oak"})
    assert api.read("/leads?q=oak") == []
    api.patch(f"/fields/{wood}", {"searched": True})
    assert [one["id"] for one in api.read("/leads?q=oak")] == [lead]
    options = [{"key": "oak", "label": "Дуб"}, *WOOD["options"][1:]]
    api.patch(f"/fields/{wood}", {"options": options})
    assert [one["id"] for one in api.read("/leads?q=дуб")] == [lead]


# Definitions


def test_a_field_is_hidden_and_shown_again_with_its_values(api, wood):
    lead = api.create("/leads", **LEAD, custom={"wood": "oak"})
    assert api.post(f"/fields/{wood}/retire").json["retired_at"]
    assert api.read(f"/leads/{lead}")["custom"] == {} == api.read("/leads")[0]["custom"]
    answer = api.patch(f"/leads/{lead}", {"custom": {"wood": "ash"}})
    assert faults(answer) == [("/custom/wood", "unknown_field")]
    assert api.get("/leads?custom.wood=oak").status_code == 422
    assert api.patch(f"/leads/{lead}", {"custom": None}).status_code == 200
    assert api.post("/fields", WOOD).json["code"] == "duplicate_key"
    assert api.post(f"/fields/{wood}/restore").json["retired_at"] is None
    assert api.read("/leads?custom.wood=oak")[0]["custom"] == {"wood": "oak"}


def test_key_and_type_never_change_and_options_are_only_archived(api, wood):
    for change in ({"key": "tree"}, {"type": "text"}, {"resource": "deals"}):
        (pointer,) = change
        assert faults(api.patch(f"/fields/{wood}", change)) == [(f"/{pointer}", "read_only")]
    removed = api.patch(f"/fields/{wood}", {"options": WOOD["options"][:1]})
    assert faults(removed) == [("/options", "option_in_use")]
    twice = api.patch(f"/fields/{wood}", {"options": [*WOOD["options"], WOOD["options"][0]]})
    assert faults(twice) == [("/options", "repeated")]
    assert faults(api.patch(f"/fields/{wood}", {"label": " "})) == [("/label", "required")]


def test_a_resource_has_fifty_fields_and_ten_filters(api):
    text = {"resource": "tasks", "type": "text"}
    for number in range(50):
        api.create("/fields", **text, label=f"Field {number}", filtered=number < 10)
    assert api.post("/fields", {**text, "label": "x"}).json["code"] == "too_many_fields"
    last = api.read("/fields?resource=tasks&limit=200")[-1]["id"]
    assert api.patch(f"/fields/{last}", {"filtered": True}).json["code"] == "too_many_fields"
    api.create("/fields", resource="deals", label="x", type="text", filtered=True)
    assert [one["key"] for one in api.read("/fields?resource=tasks")][:2] == ["field_0", "field_1"]


@pytest.mark.parametrize("keys", [("size", "size_to"), ("size_from", "size")])
def test_a_range_and_a_field_are_never_one_parameter(api, keys):
    api.create("/fields", **{**BUDGET, "key": keys[0]})
    answer = api.post("/fields", {**BUDGET, "key": keys[1]})
    assert (answer.status_code, answer.json["code"]) == (409, "duplicate_key")
    api.create("/fields", **{**BUDGET, "resource": "deals", "key": keys[1]})


def test_fields_of_another_tenant_are_unknown(api, ivan, wood):
    assert ivan.read("/fields") == []
    lead = ivan.create("/leads", **LEAD, custom={"wood": "oak"})
    assert ivan.read(f"/leads/{lead}")["custom"] == {}
    assert ivan.get("/leads?custom.wood=oak").status_code == 422


# Bad input

NEW = {"resource": "leads", "label": "X", "type": "text"}
CHOICE = {**NEW, "type": "choice"}
OAK = {"key": "oak", "label": "Oak"}
BAD_DEFINITIONS = [
    ({**CHOICE, "options": [OAK, {**OAK, "label": "Ash"}]}, "/options", "repeated"),
    ({**CHOICE, "options": [OAK, {"key": "ash", "label": "oak"}]}, "/options", "repeated"),
    ({**CHOICE, "options": []}, "/options", "required"),
    ({**CHOICE, "options": [{"key": "oak"}]}, "/options", "required"),
    ({**CHOICE, "options": [{"label": "Oak", "color": "x"}]}, "/options", "invalid_type"),
    ({**CHOICE, "options": [{"key": "a b", "label": "Oak"}]}, "/options", "invalid_key"),
    ({**CHOICE, "options": [{"key": ["a"], "label": "Oak"}]}, "/options", "invalid_key"),
    ({**CHOICE, "options": [{"label": f"{n}"} for n in range(101)]}, "/options", "too_many"),
    ({**CHOICE, "options": {"oak": "Oak"}}, "/options", "invalid_type"),
    ({**NEW, "options": [OAK]}, "/options", "invalid_type"),
    ({**NEW, "label": " \t"}, "/label", "required"),
    ({**NEW, "label": "!"}, "/key", "required"),
    ({**NEW, "label": "x" * 256}, "/label", "too_long"),
    ({**NEW, "key": "1wood"}, "/key", "invalid_key"),
    ({**NEW, "key": "Wood"}, "/key", "invalid_key"),
    ({**NEW, "key": "a" * 33}, "/key", "too_long"),
    ({**NEW, "type": "blob"}, "/type", "invalid_choice"),
    ({**NEW, "resource": "users"}, "/resource", "invalid_choice"),
    ({**NEW, "type": "long_text", "filtered": True}, "/filtered", "invalid_type"),
    ({**NEW, "position": 0}, "/position", "out_of_range"),
]


@pytest.mark.parametrize(("sent", "pointer", "code"), BAD_DEFINITIONS)
def test_a_wrong_definition_is_refused_by_name(api, sent, pointer, code):
    assert faults(api.post("/fields", sent)) == [(pointer, code)]
    assert api.read("/fields") == []


BAD_VALUES = [
    ("number", "-100000000000", "too_small"),
    ("number", 1.00001, "too_precise"),
    ("number", "1e999", "too_large"),
    ("number", True, "invalid_number"),
    ("money", -1, "too_small"),
    ("date", "2026-02-30", "invalid_date"),
    ("flag", 1, "invalid_type"),
    ("choice", ["oak"], "invalid_choice"),
    ("choices", "oak", "invalid_type"),
    ("choices", [["oak"]], "invalid_choice"),
    ("text", "x" * 256, "too_long"),
    ("url", "ftp://example.com", "invalid_url"),
    ("user", "x", "unknown_id"),
    ("client", "5", "unknown_id"),  # there is one at another tenant
]


@pytest.mark.parametrize(("type", "value", "code"), BAD_VALUES)
def test_a_wrong_value_is_refused_at_its_key(api, ivan, type, value, code):
    for number in range(5 if type == "client" else 0):
        ivan.create("/clients", name=f"{number}")
    options = WOOD["options"] if type.startswith("choice") else []
    api.create("/fields", resource="deals", key="x", label="X", type=type, options=options)
    refused = api.post("/deals", {"title": "Стіл", "custom": {"x": value}})
    assert faults(refused) == [("/custom/x", code)]
    assert faults(api.post("/deals", {"title": "Стіл", "custom": [value]}))[0][0] == "/custom"


@pytest.mark.parametrize(
    ("query", "detail"),
    [
        ("custom.wod=oak", "is it wood?"),
        ("custom.wood=elm", "must be one of oak, ash"),
        ("custom.wood_from=oak", "has no range"),
        ("custom.note=x", "search by `q`"),
        ("custom.plain=x", '{"filtered": true}'),
        ("sort=custom.wood", "numbers, amounts and dates"),
        ("sort=custom.none", "numbers, amounts and dates"),
        ("has_custom.wood=maybe", "must be true or false"),
        ("custom.wood=oak&sort=custom.wood,id", "numbers, amounts and dates"),
        ("custom.=1", "no such field"),
    ],
)
def test_a_wrong_filter_says_what_is_there(api, wood, query, detail):
    api.create("/fields", **{**NEW, "type": "long_text", "key": "note"})
    api.create("/fields", **{**NEW, "key": "plain"})
    refused = api.get(f"/leads?{query}")
    assert refused.status_code == 422
    assert detail in refused.json["errors"][0]["detail"]
