"""A key that may write and not read sees no stored value, whatever it asks for (D1, D12).

The operations and their bodies come from the OpenAPI document; every text and number of the records
they act upon is a marker that no answer may show.
"""

import io
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from crm import CRMApp, create_app
from crm.resources.inbound.calls import InboundCall
from crm.resources.papers import company
from crm.storage.session import transaction
from tests.api_document import DOCUMENT
from tests.cases import loop_over
from tests.company_papers import REQUISITES
from tests.conftest import Api, Clock, key_for, serve_installation
from tests.installations import config_for, copy_installation
from tests.other_resources import bodies_of_others

MARK = "qzvxw"  # in every text, without letters of hexadecimal numbers
NUMBER = "86427.53"  # every price and amount
PHONE, EMAIL, SITE = "+380508642753", f"{MARK}@example.com", f"https://{MARK}.example.com/"
MOMENT, DAY = "2019-08-07T06:05:04Z", "2019-08-07"
MARKED = (MARK, NUMBER, PHONE[-9:], "2019-08-07")
WRITES = ("post", "put", "patch", "delete")
WRITES_ALL = [f"{noun}:write" for noun in ("leads", "clients", "deals", "products", "tasks")]

SCHEMAS = DOCUMENT["components"]["schemas"]
OPERATIONS = {
    operation["operationId"]: (method.upper(), path, operation)
    for path, item in DOCUMENT["paths"].items()
    for method, operation in item.items()
    if method in WRITES
}


def scopes_of(operation: dict[str, Any]) -> list[str]:
    return operation["security"][0]["ApiKey"]


def success_of(operation: dict[str, Any]) -> dict[str, Any]:
    """The schema of the JSON answer with the lowest status below 300; {} without one."""
    status = min(status for status in operation["responses"] if status < "300")
    content = operation["responses"][status].get("content", {})
    return content.get("application/json", {}).get("schema", {})


def short_of(operation: dict[str, Any]) -> dict[str, Any] | None:
    """The short answer, of an operation whose description has one."""
    described = re.search(r"the answer is `(\{.*\})` alone", operation["description"])
    return described and json.loads(described[1].replace("[…]", "[]"))


def gives_a_record(operation: dict[str, Any]) -> bool:
    """Does `Prefer: return=representation` add it?"""
    name = success_of(operation).get("$ref", "").rpartition("/")[2]
    fields = SCHEMAS.get(name, {}).get("properties", {})
    return "201" in operation["responses"] and "data" in fields


SHORT = [name for name, (_, _, operation) in OPERATIONS.items() if short_of(operation)]
PREFERRED = [name for name, (_, _, operation) in OPERATIONS.items() if gives_a_record(operation)]


@pytest.fixture(scope="module")
def marked(furnished, tmp_path_factory, no_typst) -> tuple[CRMApp, Path, str, dict[str, str]]:
    """An app, a data folder with one record of each noun, the owner's key, and ids by the names
    that paths and bodies have for them."""
    folder = tmp_path_factory.mktemp("marked") / "data"
    copy_installation(furnished[0], folder)
    app = create_app(config_for(folder), Clock(), sends=False)
    owner = Api(app, "acme", furnished[1]["olena"])
    texts = {"comment": MARK, "source": MARK, "tags": [MARK], "extra": {MARK: MARK}}
    dates = {"created_at": MOMENT}
    reach = {"phone": PHONE, "email": EMAIL}
    ids: dict[str, str] = {}
    ids["product_id"] = owner.create(
        "/products", sku=MARK, name=MARK, price=NUMBER, currency="EUR", unit=MARK, category=MARK,
        description=MARK, external_id=MARK, **dates,
    )  # fmt: skip
    ids["client_id"] = owner.create(
        "/clients", type="company", name=MARK, website=SITE, address=MARK, tax_number=MARK,
        external_id=MARK, contacts=[{"name": MARK, "position": MARK, **reach}],
        **texts, **reach, **dates,
    )  # fmt: skip
    (contact,) = owner.read(f"/clients/{ids['client_id']}")["contacts"]
    ids["contact_id"] = contact["id"]
    ids["lead_id"] = owner.create(
        "/leads", name=MARK, company=MARK, position=MARK, amount=NUMBER, external_id=MARK,
        page_url=SITE, referrer=SITE, utm_source=MARK, **texts, **reach, **dates,
    )  # fmt: skip
    ids["pipeline_id"] = owner.create("/pipelines", name=MARK, stages=[{"name": MARK}])
    ids["stage_id"] = owner.read(f"/pipelines/{ids['pipeline_id']}/stages")[0]["id"]
    ids["deal_id"] = owner.create(
        "/deals", title=MARK, client_id=ids["client_id"], contact_id=ids["contact_id"],
        pipeline_id=ids["pipeline_id"], expected_close_date=DAY, external_id=MARK, **texts, **dates,
    )  # fmt: skip
    item = {"name": MARK, "price": NUMBER, "unit": MARK, "comment": MARK}
    ids["item_id"] = owner.create(f"/deals/{ids['deal_id']}/items", **item)
    ids["task_id"] = owner.create(
        "/tasks", title=MARK, description=MARK, due_at=MOMENT, external_id=MARK, result=MARK,
        deal_id=ids["deal_id"], **dates,
    )  # fmt: skip
    for plural in ("leads", "clients", "deals"):
        noun = plural.removesuffix("s")
        about = f"/{plural}/{ids[f'{noun}_id']}/notes"
        ids[f"note_id of {plural}"] = owner.create(about, text=MARK, **dates)
    for plural in ("leads", "clients", "deals", "products", "tasks"):
        path = f"/{plural}/{ids[f'{noun_of(plural)}_id']}/files"
        sent = owner.call("POST", path, data={"file": (io.BytesIO(b"1"), f"{MARK}.txt")})
        ids[f"file_id of {plural}"] = sent.json["file_id"]
    with app.tenants.session("acme"):
        company.update(requisites=REQUISITES)
    ids["paper_id"] = owner.create(f"/deals/{ids['deal_id']}/papers", kind="invoice")
    ids["link_id"] = owner.create(f"/papers/{ids['paper_id']}/links")
    ids["webhook_id"] = owner.create("/webhooks", url=SITE, description=MARK)
    ids["field_id"] = owner.create(
        "/fields", resource="leads", key="wood", label=MARK, help=MARK, type="text"
    )  # a key is known to who may write the records
    named = {f"{name.removesuffix('_id')}s" for name in ids}
    for plural, body in bodies_of_others(app, named, MARK).items():
        ids[f"{noun_of(plural)}_id"] = owner.create(f"/{plural}", **body)
    with app.tenants.session("acme"), transaction():
        call = {"hook_id": int(ids["inbound_hook_id"]), "state": "failed", "body": MARK}
        ids["inbound_call_id"] = str(InboundCall.add(call).id)
    owner.patch(f"/leads/{ids['lead_id']}", {"position": f"{MARK} {MARK}"})
    owner.create("/leads", name=MARK, email=EMAIL)
    sent = owner.post(f"/webhooks/{ids['webhook_id']}/test")
    ids["delivery_id"] = sent.json["delivery_id"]
    leads = (io.BytesIO(f"name,email\n{MARK},b.{EMAIL}\n".encode()), f"{MARK}.csv")
    imported = owner.call("POST", "/leads/import", data={"file": leads})
    ids["import_id"] = imported.headers["Location"].rpartition("/")[2]
    ids["batch_id"] = owner.read(f"/imports/{ids['import_id']}")["batch_id"]
    app.tenants.forget_idle()
    return app, folder, owner.key, ids


@pytest.fixture
def app(marked, tmp_path) -> Iterator[CRMApp]:
    """The app with those records, fresh for each test."""
    app, folder, _, _ = marked
    copy_installation(folder, tmp_path / "data")
    serve_installation(app, config_for(tmp_path / "data"), Clock())
    yield app
    app.tenants.forget_idle()


@pytest.fixture
def ids(marked) -> dict[str, str]:
    return marked[3]


@pytest.fixture
def owner(app, marked) -> Api:
    return Api(app, "acme", marked[2])


def key_with(app: CRMApp, *scopes: str) -> Api:
    return Api(app, "acme", key_for(app, "acme", ",".join(scopes)))


def noun_of(plural: str) -> str:
    return plural.removesuffix("s").replace("-", "_")


def path_of(path: str, ids: dict[str, str]) -> str:
    plural = path.split("/")[1]
    nouns = {"deliveries": "delivery", "batches": "batch"}
    noun = nouns.get(plural, noun_of(plural))
    own = {"id": ids.get(f"{noun}_id", ""), "noteId": ids.get(f"note_id of {plural}")}
    own["fileId"] = ids.get(f"file_id of {plural}")
    return re.sub(r"{(\w+)}", lambda m: own.get(m[1]) or ids[m[1].replace("Id", "_id")], path)


def bodies_of(operation: dict[str, Any], ids: dict[str, str]) -> Iterator[dict[str, Any]]:
    """What is sent, as options of a request: nothing, the example, each reference there is."""
    content = operation.get("requestBody", {}).get("content", {})
    if "multipart/form-data" in content:
        for text in ("id,name\n1,!\n", "sku,name\n!,!\n", "id,name,item_name\n1,!,!\n", "x\n"):
            yield {"data": {"file": (io.BytesIO(text.encode()), "a.csv")}}
        return
    yield {"json": {}}
    if content:
        example = content["application/json"]["example"]
        yield {"json": example}
        schema = content["application/json"]["schema"]
        schema = schema.get("oneOf", [schema])[0]
        known = SCHEMAS[schema["$ref"].rpartition("/")[2]]["properties"]
        references = {name: id for name, id in ids.items() if name in known}
        for name, id in references.items():
            yield {"json": {**example, name: id}}
        yield {"json": references}


def shown_in(answer: Any) -> list[str]:
    """The markers that an answer shows, in its body or its headers."""
    text = answer.text + str(answer.headers)
    return [mark for mark in MARKED if mark in text]


@loop_over("name", OPERATIONS)
def test_a_change_shows_no_stored_value(app, ids, name):
    method, path, operation = OPERATIONS[name]
    # An undo needs the right to write what the batch changed.
    writer = key_with(app, *scopes_of(operation) or WRITES_ALL)
    for number, options in enumerate(bodies_of(operation, ids)):
        ways: list[dict[str, str]] = [{"Prefer": "return=representation"}]
        if method == "POST":  # the second time it is a replay
            ways = [{**ways[0], "Idempotency-Key": f"{number}"}] * 2 if "json" in options else ways
        for headers in ways:
            answer = writer.call(method, path_of(path, ids), headers, **options)
            assert shown_in(answer) == [], answer.text
            assert answer.status_code < 500
            assert "ETag" not in answer.headers
            assert "Preference-Applied" not in answer.headers


def remove(owner: Api, path: str) -> None:
    if owner.post(f"{path}/retire").status_code == 404:  # only fields of one's own are retired
        owner.delete(path)


@loop_over("name", SHORT)
def test_to_a_key_that_may_read_the_same_change_shows_the_record(app, ids, owner, name):
    method, path, operation = OPERATIONS[name]
    (scope,) = scopes_of(operation)
    if path.endswith("/restore"):
        owner.post(f"/deals/{ids['deal_id']}/items", {"product_id": ids["product_id"], "price": 1})
        if "/files/" not in path:
            owner.delete(f"/deals/{ids['deal_id']}")  # else its client stays
        remove(owner, path_of(path, ids).removesuffix("/restore"))
    body = {"json": {"items": [{"id": ids["item_id"]}]} if method == "PUT" else {}}
    more = ["leads:write"] if scope == "inbound:write" else []  # for what a hook makes
    short = key_with(app, scope, *more).call(method, path_of(path, ids), **body)
    assert short.status_code == 200
    assert set(short.json) == set(short_of(operation))
    assert short.json["status"] == "ok"
    (named,) = set(short.json) - {"status"}
    if method == "PUT":
        assert short.json[named] == [ids["item_id"]]
    else:
        of_parts = ids.get(f"{named} of {path.split('/')[1]}")
        assert short.json[named] == ids.get(named, of_parts)
    if path.endswith("/restore"):
        remove(owner, path_of(path, ids).removesuffix("/restore"))
    reader = key_with(app, scope, scope.replace(":write", ":read"), *more)
    assert MARK in reader.call(method, path_of(path, ids), **body).text
    owner.post(f"/deals/{ids['deal_id']}/restore")


def test_every_change_of_one_record_documents_the_short_answer():
    """PATCH, `…/complete`, `…/restore`, replays and the replacement of items show records."""
    changes = [name for name, (method, _, _) in OPERATIONS.items() if method == "PATCH"]
    changes += [name for name in OPERATIONS if name.startswith("restore_")]
    assert sorted(SHORT) == sorted(
        [
            *(*changes, "complete_task", "replace_deal_items", "replay_inbound_call"),
            *("retire_field", "void_paper"),
        ]
    )
    assert len(PREFERRED) > 10


@loop_over("name", PREFERRED)
def test_prefer_shows_the_record_to_a_key_that_may_read_it(app, ids, name):
    method, path, operation = OPERATIONS[name]
    (scope,) = scopes_of(operation)
    content = operation["requestBody"]["content"]
    example = dict(content.get("application/json", {"example": {}})["example"])
    example.pop("sku", None)  # there can be only one
    example.pop("key", None)
    resource = scope.partition(":")[0]
    nouns = ("leads", "clients", "deals", "products", "tasks", "pipelines")
    sees_events = [f"{noun}:read" for noun in nouns]
    headers = {"Prefer": "return=representation"}
    for scopes, shows in ([scope], False), ([scope, f"{resource}:read"], True):
        if resource in ("views", "fields"):  # a name is that of one
            example |= {"name": scopes[-1]} if resource == "views" else {"label": scopes[-1]}
        more = {"webhooks": sees_events, "inbound": ["leads:write"]}.get(resource, [])
        file = {"data": {"file": (io.BytesIO(b"1"), "a.txt")}}
        options = file if "multipart/form-data" in content else {"json": example}
        answer = key_with(app, *scopes, *more).call(method, path_of(path, ids), headers, **options)
        assert answer.status_code == 201, answer.text
        assert ("data" in answer.json) is shows
        assert ("Preference-Applied" in answer.headers) is shows


# Oracles: an answer that depends on whether a guess is right


def test_if_match_needs_the_right_to_read(app, ids, owner):
    path = f"/leads/{ids['lead_id']}"
    right = {"If-Match": owner.get(path).headers["ETag"]}
    wrong = {"If-Match": '"0"'}
    writer = key_with(app, "leads:write")
    for method in ("PATCH", "DELETE"):
        answers = [writer.call(method, path, headers, json={}) for headers in (right, wrong)]
        assert [answer.status_code for answer in answers] == [403, 403]
        assert answers[0].json["scope"] == "leads:read"
    assert writer.patch(path, {}, headers={"If-Match": "*"}).status_code == 200
    assert owner.patch(path, {}, headers=right).status_code == 200
    assert owner.patch(path, {}, headers=wrong).status_code == 412


@loop_over("plural", ["leads", "clients", "deals", "products", "tasks", "webhooks"])
def test_read_only_fields_are_compared_for_readers_alone(app, ids, owner, plural):
    path = f"/{plural}/{ids[plural.removesuffix('s') + '_id']}"
    record = owner.read(path)
    writer = key_with(app, f"{plural}:write")
    properties = SCHEMAS[f"{plural.removesuffix('s').capitalize()}Patch"]["properties"]
    for name in record.keys() - properties.keys() - {"id"}:
        for value in (record[name], "a guess", None):
            answer = writer.patch(path, {name: value})
            assert answer.status_code == 422, name
            assert [fault["code"] for fault in answer.json["errors"]] == ["read_only"]
        assert owner.patch(path, {name: record[name]}).status_code == 200
    assert writer.patch(path, {"id": record["id"]}).status_code == 200
    assert writer.patch(path, {"id": "999"}).status_code == 422


def test_read_only_fields_of_parts_are_compared_for_readers_alone(app, ids, owner):
    client, deal = f"/clients/{ids['client_id']}", f"/deals/{ids['deal_id']}"
    (contact,) = owner.read(client)["contacts"]
    (item,) = owner.read(f"{deal}/items")
    writer = key_with(app, "clients:write", "deals:write")
    for version in (1, 2):
        entry = {"id": contact["id"], "version": version}
        assert writer.patch(client, {"contacts": [entry]}).status_code == 422
        line = {"id": item["id"], "version": version}
        assert writer.put(f"{deal}/items", {"items": [line]}).status_code == 422
    assert owner.patch(client, {"contacts": [contact]}).status_code == 200
    assert owner.put(f"{deal}/items", {"items": [item]}).status_code == 200
    for amount in (NUMBER, "1.00"):  # the total of the items, too
        answer = writer.patch(deal, {"amount": amount, "amount_mode": "items"})
        assert answer.json["code"] == "validation_failed"
    assert writer.patch(deal, {"amount_mode": "items"}).status_code == 200
    assert owner.patch(deal, {"amount": NUMBER, "amount_mode": "items"}).status_code == 200


# Refusals


def test_deals_that_are_in_the_way_are_named_to_who_may_read_deals(app, ids):
    for path, scope, code, are_named in (
        (f"/clients/{ids['client_id']}", "clients:write", "client_has_open_deals", True),
        (f"/pipelines/{ids['pipeline_id']}", "pipelines:write", "pipeline_in_use", False),
    ):
        for scopes, shows in ([scope], False), ([scope, "deals:read"], True):
            answer = key_with(app, *scopes).delete(path)
            assert (answer.status_code, answer.json["code"]) == (409, code)
            assert ("deals" in answer.json) is shows
            assert (MARK in answer.text) is (shows and are_named)


def test_refusals_of_an_item_do_not_quote_its_product(app, ids):
    writer = key_with(app, "deals:write")
    items = f"/deals/{ids['deal_id']}/items"
    refused = writer.post(items, {"product_id": ids["product_id"]})
    assert refused.json["errors"][0]["code"] == "currency_mismatch"
    assert "EUR" not in refused.text
    refused = writer.patch(
        f"{items}/{ids['item_id']}", {"discount": 999_999, "discount_type": "amount"}
    )
    assert refused.json["errors"][0]["code"] == "too_large"
    assert shown_in(refused) == []


def test_possible_duplicates_are_of_nouns_that_the_key_may_read(app, ids):
    path = f"/leads/{ids['lead_id']}?expand=possible_duplicates"
    for scopes in (["leads:read"], ["leads:read", "clients:read"]):
        possible_duplicates = key_with(app, *scopes).read(path)["possible_duplicates"]
        assert {f"{entry['resource']}s:read" for entry in possible_duplicates} == set(scopes)


# Imports


@loop_over("plural", ["leads", "deals", "products"])
def test_an_import_tells_counts_and_its_report_needs_the_right_to_read(app, plural):
    csv = f"sku,name,price\n{MARK},,x\n" if plural == "products" else "id,external_id\n1,?\n"
    file = (io.BytesIO(csv.encode()), "a.csv")
    writer = key_with(app, f"{plural}:write")
    answer = writer.call("POST", f"/{plural}/import", data={"file": file})
    assert answer.json == {"status": "ok", "created": 0, "updated": 0, "skipped": 1}
    report = answer.headers["Location"].partition("/api/v1")[2]
    for path in (report, f"{report}/errors.csv"):
        assert writer.get(path).json["code"] == "missing_scope"
    response = key_with(app, f"{plural}:read").get(report)
    assert response.json["rejected"] == 1
    assert response.json["errors"]


def test_a_report_quotes_no_other_nouns_record(app, ids, owner):
    """Whoever imported it: it is read by keys that may read deals and nothing else."""
    csv = f"id,item_sku,item_name,item_discount\n{ids['deal_id']},{MARK},,\n"
    file = (io.BytesIO(csv.encode()), "a.csv")
    answer = owner.call("POST", "/deals/import", data={"file": file})
    assert answer.json["skipped"] == 1
    reader = key_with(app, "deals:read")
    (error,) = reader.read(answer.headers["Location"].partition("/api/v1")[2])["errors"]
    assert error["code"] == "currency_mismatch"
    assert "EUR" not in error["message"]


# Webhooks


def test_events_are_sent_again_or_elsewhere_only_by_who_may_read_them(app, ids, owner):
    webhook, other = f"/webhooks/{ids['webhook_id']}", {"url": "https://other.example.com/"}
    owner.create("/deals", title="!")
    (sent,) = [d for d in owner.read(f"{webhook}/deliveries") if d["type"] == "deal.created"]
    resend = f"/deliveries/{sent['id']}/resend"
    writer = key_with(app, "webhooks:write", "leads:read")
    assert writer.post(resend).status_code == 202  # the endpoint wants it where it is
    assert writer.patch(webhook, {"events": ["lead.created"]}).status_code == 200
    for refused in (writer.post(resend), writer.patch(webhook, other)):
        assert (refused.status_code, refused.json["scope"]) == (403, "deals:read")
    assert owner.post(resend).status_code == 202
    assert owner.patch(webhook, other).status_code == 200


# Python


def test_a_site_that_embeds_the_crm_keeps_getting_records(app, ids):
    from crm.embedding.resources import resources_of

    resources = resources_of(app)
    with app.tenants.session("acme"):
        assert resources["leads"].update(ids["lead_id"], comment="!")["name"] == MARK
        assert resources["tasks"].complete(ids["task_id"])["title"] == MARK
        assert resources["leads"].create(name="!", phone="0501112233")["phone"] == "+380501112233"
