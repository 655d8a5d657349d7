"""Nothing that is sent, kept or told grows without a bound: numbers, pages, events, lists, faults.

Each bound is tried from both sides; where it is a bound of an answer, what is read by pages is
whole all the same.
"""

import json
import random
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from crm import create_app
from crm.config import PLANS, Config, ConfigError
from crm.errors import MAX_FAULTS, Invalid
from crm.json import dumps, loads
from crm.outbox import events
from crm.records import nested, pagination
from crm.records.nested import MAX_ITEMS_BYTES, MAX_PARTS_BYTES
from crm.records.parameters import MAX_VALUES
from crm.storage.session import execute, row, rows, transaction
from tests.cases import loop_over
from tests.conftest import Api, key_for
from tests.csv_helpers import load
from tests.memory import peak_bytes
from tests.resources.refusals import faults

PHONE = "+380671234567"
NAMES_BYTES = 1000  # of the fields' names of one record, and what is around it


# Numbers


def a_number(dice: random.Random) -> str:
    """A number as JSON may spell it, in the range of a double."""
    whole = dice.choice(("0", str(dice.randrange(1, 10)), str(dice.randrange(1, 10**30))))
    digits = dice.choice((0, 0, 1, 3, 20, 200))
    fraction = "." + "".join(dice.choices("0123456789", k=digits)) if digits else ""
    power = dice.choice(("", "", f"{dice.choice('eE')}{dice.choice(('', '+', '-'))}"))
    power = power and power + dice.choice(("0", "00", "")) + str(dice.randrange(270))
    return dice.choice(("", "-")) + whole + fraction + power


def test_a_number_is_written_about_as_short_as_it_came_and_stays_equal():
    dice = random.Random(20)
    for _ in range(3000):
        sent = a_number(dice)
        written = dumps(loads(sent)).decode()
        assert Decimal(written) == Decimal(sent)
        assert len(written) <= len(sent) + 4, sent  # 1e-6 is 0.000001
        json.loads(written)


def test_a_body_of_large_numbers_is_no_larger_in_any_answer(api):
    body = dumps({"name": "Bomb", "phone": PHONE, "n": [Decimal("1e307")] * 2300})
    assert len(body) < 14_000
    id = api.post("/leads", data=body, content_type="application/json").json["lead_id"]
    with api.crm.tenants.session(api.label):
        (stored,) = row("SELECT extra FROM lead")
    assert len(stored) < len(body)
    assert len(api.get(f"/leads/{id}").data) < len(body) + 1500
    assert len(api.get("/leads").data) < len(body) + 1500
    assert len(api.get("/events").data) < len(body) + 2000
    assert len(api.get("/leads/export").data) < len(body) + 1500
    assert api.read(f"/leads/{id}")["extra"]["n"] == [1e307] * 2300


# Pages


@pytest.fixture
def mixed(crm, api, monkeypatch) -> Api:
    """Forty leads of 300 bytes to 30 kB, among which many share what they are sorted by, and pages
    that hold about two of the largest."""
    monkeypatch.setattr(pagination, "MAX_PAGE_BYTES", 60_000)
    dice = random.Random(3)
    for number in range(40):
        comment = "ї" * dice.choice((1, 1, 100, 1000, 5000, 14_000))
        api.create("/leads", name=f"Lead {number % 3}", phone=PHONE, comment=comment)
    return api


def pages(api: Api, path: str) -> Iterator[Any]:
    """The answers of all pages, by their `Link`."""
    while path:
        answer = api.get(path)
        assert answer.status_code == 200, answer.text
        yield answer
        link = answer.headers.get("Link")
        assert bool(link) == bool(answer.json["meta"]["next_cursor"])
        path = link and link.partition(">")[0].partition("/api/v1")[2]


@loop_over("limit", [7, 200])
@loop_over("sort", ["id", "name", "updated_at"])
@loop_over("sign", ["", "-"])
def test_pages_bounded_in_bytes_lose_and_repeat_nothing(mixed, sort, sign, limit):
    order = f"{sign}{sort}"
    result, sizes = [], []
    for answer in pages(mixed, f"/leads?sort={order}&limit={limit}&total=true"):
        assert 1 <= len(answer.json["data"]) <= limit
        assert answer.json["meta"]["total"] == 40
        result += answer.json["data"]
        sizes.append(len(answer.data))
        assert len(answer.data) <= pagination.MAX_PAGE_BYTES + NAMES_BYTES * len(
            answer.json["data"]
        )
    ids = [lead["id"] for lead in result]
    assert len(ids) == 40 == len(set(ids))
    keys = [(lead[sort] if sort != "id" else "", int(lead["id"])) for lead in result]
    assert keys == sorted(keys, reverse=bool(sign))
    if limit > 7:
        assert len(sizes) > 3  # it was the bytes that ended pages


def test_a_record_larger_than_a_page_is_told_alone(mixed, monkeypatch):
    monkeypatch.setattr(pagination, "MAX_PAGE_BYTES", 100)
    answers = list(pages(mixed, "/leads"))
    assert [len(answer.json["data"]) for answer in answers] == [1] * 40


def test_every_other_list_is_bounded_too(crm, api, monkeypatch):
    long = "ї" * 9000
    client = api.create("/clients", name="Client", contacts=[{"name": "A", "comment": long}] * 12)
    for number in range(12):
        api.patch(f"/clients/{client}", {"comment": f"{number}{long}"})
        api.create(f"/clients/{client}/notes", text=f"{number}{long}")
    deal = api.create("/deals", title="Deal", client_id=client)
    for _ in range(4):
        lines = [{"name": "x", "price": 1, "comment": long}] * 3
        assert api.post(f"/deals/{deal}/items", {"items": lines}).status_code == 201
    for _ in range(3):
        api.create("/clients", name="More", contacts=[{"name": "B", "comment": long}] * 12)
    monkeypatch.setattr(pagination, "MAX_PAGE_BYTES", 50_000)
    monkeypatch.setattr(events, "MAX_FEED_BYTES", 50_000)
    for path, count in {
        f"/clients/{client}/changes": 12,
        f"/clients/{client}/notes": 12,
        f"/clients/{client}/contacts": 12,
        f"/deals/{deal}/items": 12,
        "/clients?expand=contacts": 4,
    }.items():
        answers = list(pages(api, f"{path}{'&' if '?' in path else '?'}limit=200"))
        ids = [record["id"] for answer in answers for record in answer.json["data"]]
        assert len(ids) == count == len(set(ids)), path
        assert len(answers) > 3, path


def test_the_feed_is_bounded_and_goes_on_behind_what_it_told(crm, api, monkeypatch):
    dice = random.Random(5)
    for number in range(40):
        api.create("/leads", name="x", phone=PHONE, comment="ї" * dice.choice((1, 2000, 12_000)))
        if number % 4 == 0:
            api.create("/products", name="x", price=1)
    every = api.events()
    monkeypatch.setattr(events, "MAX_FEED_BYTES", 50_000)
    for kinds in ("", "&type=lead.created"):
        result, after, answers = [], 0, 0
        while True:
            answer = api.get(f"/events?after={after}&limit=200{kinds}")
            bodies = answer.json["data"]
            assert len(answer.data) <= 50_000 + 200 or len(bodies) == 1
            result += [event["sequence"] for event in bodies]
            after = answer.json["meta"]["next_after"]
            answers += 1
            if not bodies:
                break
        wanted = "lead" if kinds else ""
        sequences = [e["sequence"] for e in every if e["type"].startswith(wanted)]
        assert result == sequences
        assert answers > 5


def test_a_page_of_the_longest_texts_takes_little_memory(crm, api):
    with crm.tenants.session("acme"), transaction():
        execute(
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 200)"
            " INSERT INTO lead (name, phone, source, status, currency, comment, created_at,"
            " updated_at, version) SELECT 'x', ?, 'api', 'new', 'UAH', ?,"
            " '2026-03-02T09:00:00Z', '2026-03-02T09:00:00Z', 1 FROM n",
            (PHONE, "\U0001f4a3" * 20_000),
        )
    api.get("/leads?limit=1")
    answers = []
    most = peak_bytes(lambda: answers.append(api.get("/leads?limit=200")))
    (answer,) = answers
    assert 45 <= len(answer.json["data"]) < 60
    assert len(answer.data) <= pagination.MAX_PAGE_BYTES + 60 * NAMES_BYTES
    assert most < 6 * pagination.MAX_PAGE_BYTES  # all at once would be 16 times as much


# Events


@pytest.mark.slow
def test_the_contacts_of_a_client_are_bounded_together(crm, api, monkeypatch):
    monkeypatch.setattr(nested, "MAX_PARTS_BYTES", MAX_PARTS_BYTES // 4)
    long = "\U0001f4a3" * 20_000
    id = api.create("/clients", name="x", contacts=[{"name": "A", "comment": long}] * 2)
    made = 2
    while (answer := api.post(f"/clients/{id}/contacts", {"name": "A", "comment": long})) and (
        answer.status_code == 201
    ):
        made += 1
        assert made < 10
    assert faults(answer) == [("", "too_large")]  # the body is one contact
    assert made == 6
    largest = max(len(json.dumps(event, ensure_ascii=False).encode()) for event in api.events())
    assert largest < MAX_PARTS_BYTES
    assert api.patch(f"/clients/{id}", {"name": "y"}).status_code == 200
    assert api.delete(f"/clients/{id}/contacts/1").status_code == 204
    assert len(api.read(f"/clients/{id}")["contacts"]) == made - 1


def test_the_items_of_a_deal_are_bounded_together(crm, api, monkeypatch):
    monkeypatch.setattr(nested, "MAX_ITEMS_BYTES", MAX_ITEMS_BYTES // 8)
    id = api.create("/deals", title="x")
    line = {"name": "n", "price": 1, "comment": "\U0001f4a3" * 20_000}
    for _ in range(3):
        assert api.post(f"/deals/{id}/items", {"items": [line] * 4}).status_code == 201
    assert faults(api.post(f"/deals/{id}/items", {"items": [line] * 4})) == [
        ("/items", "too_large")
    ]
    assert api.read(f"/deals/{id}")["items_count"] == 12
    assert api.patch(f"/deals/{id}/items/1", {"comment": None}).status_code == 200
    with crm.tenants.session("acme"):
        header = "external_id,title,item_name,item_price,item_comment\n"
        rows_of = "".join(f"D-1,D,{n},1,{line['comment']}\n" for n in range(14))
        result = load("deals", header + rows_of)
        assert (result.created, result.rejected) == (0, 1)
        assert result.errors[0]["code"] == "too_large"


def test_the_attempts_shown_of_a_delivery_are_the_latest(crm, api):
    hook = api.create("/webhooks", url="https://erp.example.com/crm")
    id = api.post(f"/webhooks/{hook}/test").json["delivery_id"]
    with crm.tenants.session("acme"), transaction():
        for number in range(70):
            execute(
                "INSERT INTO attempt (delivery_id, at, duration_ms, error, cause)"
                " VALUES (?, '2026-03-02T09:00:00Z', ?, 'timeout', 'resend')",
                (id, number),
            )
    shown = [attempt["duration_ms"] for attempt in api.read(f"/deliveries/{id}")["attempts"]]
    assert shown == list(range(20, 70))


# Contacts and tags


def contacts(count: int) -> list[dict[str, str]]:
    return [{"name": f"Contact {number}"} for number in range(count)]


def test_a_client_has_as_many_contacts_as_its_plan_allows(crm, api):
    id = api.create("/clients", name="x", contacts=contacts(200))
    refused = api.post("/clients", {"name": "x", "contacts": contacts(201)})
    assert faults(refused) == [("/contacts", "too_many")]
    assert "at most 200 contacts of a client in the plan business" in refused.text
    for answer, pointer in (
        (api.post(f"/clients/{id}/contacts", {"name": "One more"}), ""),
        (api.patch(f"/clients/{id}", {"contacts": contacts(201)}), "/contacts"),
    ):
        assert faults(answer) == [(pointer, "too_many")]
        assert "at most 200" in answer.text
    beyond_any_plan = api.patch(f"/clients/{id}", {"contacts": contacts(20_000)})
    assert faults(beyond_any_plan) == [("/contacts", "too_many")]
    assert api.patch(f"/clients/{id}", {"contacts": contacts(200)}).status_code == 200


def test_a_client_with_more_from_before_can_be_read_and_changed(crm, api):
    id = api.create("/clients", name="x")
    with crm.tenants.session("acme"), transaction():
        execute(
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 500)"
            " INSERT INTO contact (client_id, name, is_primary, created_at, updated_at, version)"
            " SELECT ?, 'c' || i, 0, '2026-03-02T09:00:00Z', '2026-03-02T09:00:00Z', 1 FROM n",
            (id,),
        )
    known = api.read(f"/clients/{id}")["contacts"]
    assert len(known) == 500
    assert api.patch(f"/clients/{id}", {"name": "y"}).status_code == 200
    assert api.patch(f"/clients/{id}/contacts/7", {"name": "z"}).status_code == 200
    assert (
        api.patch(f"/clients/{id}", {"contacts": [{"id": c["id"]} for c in known]}).status_code
        == 200
    )
    assert faults(api.post(f"/clients/{id}/contacts", {"name": "More"}))
    assert api.delete(f"/clients/{id}/contacts/7").status_code == 204
    assert len(api.read(f"/clients/{id}")["contacts"]) == 499


def test_the_setting_is_a_number_for_all_plans_or_for_some():
    default = dict.fromkeys(PLANS, 200)
    for text, plans in (
        ("", default),
        ("50", dict.fromkeys(PLANS, 50)),
        ("business=1000, start=1", default | {"start": 1, "business": 1000}),
    ):
        assert Config.load({"CRM_CONTACTS": text}).contacts == plans
    message = "CRM_CONTACTS.*: it (is a number from 1 to 1000|looks like)"
    for text in ("0", "1001", "many", "gold=5", "start="):
        with pytest.raises(ConfigError, match=message):
            Config.load({"CRM_CONTACTS": text})


def test_tags_are_unique_in_any_case_and_at_most_fifty(crm, api):
    tags = [f"Tag {number}" for number in range(50)]
    id = api.create("/clients", name="x", tags=["VIP", "vip", "ВІП", "віп"])
    assert api.read(f"/clients/{id}")["tags"] == ["VIP", "ВІП"]
    person = {"name": "x", "phone": PHONE}
    for path, body in (("/clients", person), ("/leads", person), ("/deals", {"title": "x"})):
        assert api.post(path, {**body, "tags": tags}).status_code == 201
        answer = api.post(path, {**body, "tags": [*tags, "one more"]})
        if path == "/leads":  # a form must not lose a lead: what doesn't fit is in `extra`
            assert answer.status_code == 201
        else:
            assert faults(answer) == [("/tags", "too_many")]
    with crm.tenants.session("acme"):
        cell = '"' + ",".join([*tags, "one more"]) + '"'
        result = load("clients", f"name,tags\nx,{cell}\n")
        assert (result.created, result.errors[0]["code"]) == (0, "too_many")
        assert load("clients", 'name,tags\nTwice,"vip,VIP,new"\n').created == 1
        assert rows("SELECT tags FROM client WHERE name = 'Twice'") == [('["vip","new"]',)]


def test_the_origins_of_a_forms_key_are_bounded(crm):
    origins = [f"https://shop{number}.example.ua" for number in range(50)]
    assert key_for(crm, "acme", "leads:create", origins=",".join([*origins, *origins]))
    for wrong in (",".join([*origins, "https://one.more"]), "https://" + "x" * 255):
        with pytest.raises(Invalid):
            key_for(crm, "acme", "leads:create", origins=wrong)


# Faults


def test_faults_stop_at_twenty(crm, api):
    id = api.create("/clients", name="x")
    deal = api.create("/deals", title="x")
    wrong = [{"phone": "?", "email": "?", "odd": 1}] * 150
    for answer in (
        api.post("/clients", {"name": "x", "contacts": wrong}),
        api.patch(f"/clients/{id}", {"contacts": [{"id": str(n)} for n in range(900, 1100)]}),
        api.patch(f"/clients/{id}", {"contacts": [{"name": "x", "version": 9}] * 200}),
        api.post("/clients", {f"odd{n}": n for n in range(5000)}),
        api.post("/clients", {"name": "x", "contacts": [{f"o{n}": 1 for n in range(5000)}]}),
        api.post(f"/deals/{deal}/items", {"items": [{}] * 100}),
        api.post(f"/deals/{deal}/items", {"items": [], **{f"odd{n}": n for n in range(5000)}}),
        api.put(f"/deals/{deal}/items", {"items": [{"id": "999"}] * 1000}),
        api.post("/pipelines", {"name": "x", "stages": [{"name": None}] * 100}),
        api.get("/leads?" + "&".join(f"odd{n}=1" for n in range(500))),
    ):
        assert len(faults(answer)) == MAX_FAULTS == 20, answer.text[:500]


# Filters


def test_repeated_filter_values_count_once(crm, api):
    api.create("/leads", name="x", phone=PHONE, source="a")
    api.create("/leads", name="y", phone=PHONE, source="b")
    queries = []
    for query in ("source=a&source=b", "&".join(["source=a"] * 60 + ["source=b"] * 60)):
        answer = api.get(f"/leads?{query}&limit=1")
        queries.append(answer.json)
    assert queries[0] == queries[1]  # the cursor too
    spelled = "phone=067+123+45+67&phone=%2B380671234567&phone=0671234567"
    assert len(api.read(f"/leads?{spelled}")) == 2


def test_at_most_fifty_different_values(api):
    fits = "&".join(f"source=s{n}" for n in range(MAX_VALUES))
    assert api.get(f"/leads?{fits}").status_code == 200
    assert faults(api.get(f"/leads?{fits}&source=one-more")) == [("source", "repeated")]
    tags = "&".join(f"tag=t{n}" for n in range(51))
    assert faults(api.get(f"/clients?{tags}")) == [("tag", "repeated")]
    ids = ",".join(map(str, range(1, 201)))
    assert api.get(f"/leads?ids={ids}&limit=200").status_code == 200
    assert faults(api.get(f"/leads?ids={ids},201")) == [("ids", "too_many")]


# The document


def unbounded(document: dict[str, Any]) -> set[str]:
    """Where in what may be sent a list or a text has no bound."""
    results = set()

    def look(node: dict[str, Any], where: str, inside: tuple[str, ...] = ()) -> None:
        if "$ref" in node:
            name = node["$ref"].rpartition("/")[2]
            if name not in inside:
                look(document["components"]["schemas"][name], name, (*inside, name))
            return
        kinds = node.get("type", [])
        kinds = [kinds] if isinstance(kinds, str) else kinds
        if "array" in kinds and "maxItems" not in node:
            results.add(f"{where}: list")
        has_bound = {"maxLength", "enum", "format"} & node.keys() or (
            node.get("pattern", "").endswith("$") and not set("*+") & set(node["pattern"])
        )
        if "string" in kinds and not has_bound and node.get("contentMediaType") is None:
            results.add(f"{where}: text")
        for name, inner in node.get("properties", {}).items():
            look(inner, f"{where}.{name}", inside)
        for name in ("items", "oneOf", "anyOf", "allOf"):
            inner = node.get(name, [])
            for entry in inner if isinstance(inner, list) else [inner]:
                look(entry, where, inside)

    for path, item in document["paths"].items():
        for method, operation in item.items():
            if not isinstance(operation, dict):
                continue
            for content in operation.get("requestBody", {}).get("content", {}).values():
                look(content["schema"], f"{method} {path}")
            for parameter in operation.get("parameters", []):
                schema = parameter.get("schema", {})
                if schema.get("type") == "array" and "maxItems" not in schema:
                    results.add(f"{method} {path} {parameter['name']}: list")
    return results


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    crm = create_app(Config(data=Path("unused")), sends=False)
    return json.loads(dumps(crm.api.document("")))


def test_every_list_and_text_that_may_be_sent_has_a_bound_in_the_document(document):
    assert unbounded(document) == set()
