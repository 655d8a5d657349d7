"""The event feed (spec: Events; D12, D15)."""

import itertools
import json

import pytest
from jsonschema import Draft202012Validator
from referencing import Registry, Resource
from referencing.jsonschema import DRAFT202012

from crm.json import dumps
from crm.outbox import events
from crm.storage.reading import iterate_rows
from crm.storage.session import current_session
from tests.api.test_specification import PROOFS
from tests.conftest import Api, key_for

MARIA = {"name": "Марія", "phone": "+380671234567"}
PHONE = {"phone": "+380671234567"}


def feed(caller, query=""):
    """(the events, next_after) of a request that must succeed."""
    answer = caller.get(f"/events?{query}")
    assert answer.status_code == 200, answer.text
    assert set(answer.json) == {"data", "meta"}
    assert set(answer.json["meta"]) == {"next_after"}
    return answer.json["data"], answer.json["meta"]["next_after"]


def sequences(caller, query=""):
    return [event["sequence"] for event in feed(caller, query)[0]]


@pytest.fixture
def three(api):
    """Three events: a lead's, a task's, a lead's."""
    api.create("/leads", **MARIA)
    api.create("/tasks", title="Call")
    api.create("/leads", **MARIA)


@pytest.fixture
def leads_only(crm):
    return Api(crm, "acme", key_for(crm, "acme", "leads:read"))


def test_rows_are_the_bodies_that_are_told(crm, api, three):
    with crm.tenants.session("acme"):
        bodies, _ = events.list_bodies_after(0, list(events.KINDS), 10)
    assert api.get("/events").data == b'{"data":[%s],"meta":{"next_after":3}}' % b",".join(bodies)
    assert api.events() == feed(api)[0]
    # It is read on from where one was.
    assert sequences(api) == [1, 2, 3]
    assert sequences(api, "after=1") == [2, 3]
    assert feed(api, "after=3") == ([], 3)
    api.create("/tasks", title="Meet")
    assert sequences(api, "after=3") == [4]


def test_rows_the_key_may_not_read_are_left_out_and_passed(leads_only, api, three):
    assert sequences(leads_only) == [1, 3]
    api.create("/tasks", title="Meet")
    assert feed(leads_only, "after=3") == ([], 4)
    assert feed(leads_only, "after=1&limit=1") == (feed(api, "after=2&limit=1")[0], 3)


@pytest.mark.parametrize(
    ("kind", "scope"),
    [
        ("deal.items_changed", "deals:read"),
        ("product.imported", "products:read"),
    ],
)
def test_a_kind_needs_the_right_to_read_its_noun(crm, kind, scope):
    others = {f"{noun}s:read" for noun in ("lead", "deal", "client", "product", "task")} - {scope}
    lacking = Api(crm, "acme", key_for(crm, "acme", ",".join(others)))
    for query in (f"type={kind}", f"type=lead.created&type=task.created&type={kind}"):
        answer = lacking.get(f"/events?{query}")
        assert (answer.status_code, answer.json["code"]) == (403, "missing_scope")
    assert lacking.get(f"/events?type={kind}").json["scope"] == scope
    assert lacking.get("/events").status_code == 200
    holding = Api(crm, "acme", key_for(crm, "acme", scope))
    assert holding.get(f"/events?type={kind}").status_code == 200


def test_a_key_that_reads_no_noun_reads_no_events(crm, form):
    no_reader = Api(crm, "acme", key_for(crm, "acme", "leads:write,users:read,webhooks:read"))
    for caller in (form, no_reader):
        answer = caller.get("/events")
        assert (answer.status_code, answer.json["code"]) == (403, "missing_scope")
        assert "leads:read" in answer.json["detail"]


def test_kinds_that_are_asked_for_are_read_on_in_one_order(api):
    for number in range(12):
        nouns = ("/tasks", {"title": "Call"}) if number % 3 else ("/leads", MARIA)
        api.create(nouns[0], **nouns[1])
        api.create("/clients", name=f"C{number}")
    all_events = feed(api, "limit=100")[0]
    for kinds in (["lead.created"], ["task.created", "lead.created"], ["lead.created"] * 2):
        expected = [event for event in all_events if event["type"] in kinds]
        query, read, after = "&".join(f"type={kind}" for kind in kinds), [], 0
        while page := feed(api, f"{query}&limit=3&after={after}"):
            read, after = read + page[0], page[1]
            if not page[0]:
                break
        assert read == expected and len(read) > 3


@pytest.mark.files
def test_events_of_a_kind_are_found_by_an_index_of_kinds(crm, api, three, monkeypatch):
    def explained(sql, params):
        steps = current_session().connection.execute(f"EXPLAIN QUERY PLAN {sql}", params)
        plans.append([step[3] for step in steps])
        return iterate_rows(sql, params)

    plans = []
    monkeypatch.setattr(events, "iterate_rows", explained)
    assert sequences(api, "type=task.created&type=deal.won") == [2]
    of_kinds = [step for step in plans[0] if "USING INDEX event_type (type=? AND" in step]
    assert len(of_kinds) == 2 and not [step for step in plans[0] if step.startswith("SCAN event")]
    assert sequences(api) == [1, 2, 3]
    assert plans[1] == ["SEARCH event USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)"]


def test_what_does_not_fit_is_refused(api):
    for query in ("type=lead.deleted", "after=first", "after=9999999999999999999", "cursor=abc"):
        answer = api.get(f"/events?{query}")
        assert answer.status_code == 422
        assert answer.json["errors"][0]["parameter"] == query.partition("=")[0]


def test_every_event_fits_the_schema_of_its_kind_and_no_other(crm, api):
    """Also to a key that may not read the other records in `data`, and after an erasure."""
    document = json.loads(dumps(crm.api.document("")))
    schemas = document["components"]["schemas"]
    registry = Registry().with_resource("urn:crm", Resource(document, DRAFT202012))

    def fitting(event):
        return [
            kind
            for kind, place in schemas["Event"]["discriminator"]["mapping"].items()
            if Draft202012Validator({"$ref": f"urn:crm{place}"}, registry=registry).is_valid(event)
        ]

    for kind in events.KINDS:
        PROOFS[kind](api)
    api.post(f"/clients/{api.create('/clients', **MARIA)}/erase")
    feeds = [feed(Api(crm, "acme", key_for(crm, "acme", f"{noun}s:read")), "limit=200")[0]
             for noun in ("lead", "deal", "client", "product", "task")]  # fmt: skip
    all_events = feed(api, "limit=200")[0]
    assert {event["type"] for event in all_events} == set(events.KINDS)
    assert any(list(event["data"].get("client", {})) == ["id"] for event in all_events)
    assert [*map(len, all_events)] == [7] * len(all_events)
    for event in itertools.chain(all_events, *feeds):
        assert fitting(event) == [event["type"]], event


@pytest.mark.parametrize("kind", events.KINDS)
def test_records_that_the_key_may_not_read_are_left_out_of_data(crm, api, kind):
    """Each set of scopes that shows the event at all shows the records of these scopes alone."""
    PROOFS[kind](api)
    whole = next(event for event in api.events()[::-1] if event["type"] == kind)
    scopes = events.scopes_of_data(kind)
    own, *others = dict.fromkeys(scopes.values())
    for number in range(len(others) + 1):
        for chosen in itertools.combinations(others, number):
            caller = Api(crm, "acme", key_for(crm, "acme", ",".join((own, *chosen))))
            event = feed(caller, f"type={kind}")[0][-1]
            readable = {name for name, scope in scopes.items() if scope in (own, *chosen)}
            assert event == {**whole, "data": {name: whole["data"][name] for name in readable}}


def test_every_record_in_data_needs_the_scope_that_its_own_page_needs(crm):
    """Of the scopes of `data` none is weaker than that of GET one of the record."""
    paths = {name: f"/{name}s/999" for name in ("lead", "deal", "client", "product", "task")}
    paths |= {"from_stage": "/pipelines", "to_stage": "/pipelines", "items": "/deals/999/items"}
    paths["import"] = "/products"
    caller = Api(crm, "acme", key_for(crm, "acme", "webhooks:read"))
    for kind in events.KINDS:
        for name, scope in events.scopes_of_data(kind).items():
            assert caller.get(paths[name]).json["scope"] == scope, (kind, name)


def test_a_guessed_phone_does_not_show_whose_it_is(crm, api):
    """A key converts leads and reads their events; the client of the phone is another's record."""
    client = api.create("/clients", name="Марія Коваль", tax_number="1234567890", **PHONE)
    caller = Api(crm, "acme", key_for(crm, "acme", "leads:read,leads:write,deals:write"))
    lead = caller.create("/leads", name="?", **PHONE)
    answer = caller.post(f"/leads/{lead}/convert")
    assert answer.json["client_id"] == client  # an id alone
    texts = [answer.text, caller.get("/events").text, caller.get(f"/leads/{lead}").text]
    texts.append(caller.get(f"/leads/{lead}?expand=possible_duplicates").text)
    texts.append(caller.get(f"/leads/{lead}/changes").text)
    again = caller.create("/leads", name="?", **PHONE)
    prefer = {"Prefer": "return=representation"}
    texts.append(caller.post("/deals", {"lead_id": again}, headers=prefer).text)
    for text in texts:
        assert "Коваль" not in text
        assert "1234567890" not in text
