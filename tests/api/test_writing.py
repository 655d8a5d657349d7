"""Writing (D4), shown over leads: patches, read-only fields, bodies, ETags, preferences."""

import pytest

from crm.api.blueprints import Blueprint
from tests.concurrency import run_in_threads
from tests.conftest import Api
from tests.raw_wsgi import make_api_caller

each = pytest.mark.parametrize


@pytest.fixture(scope="module")
def crm(module_app):
    bare = Blueprint("bare", "An operation that takes nothing.")

    @bare.operation("POST", "/bare", needs=(), kind="empty", status=204)
    def take_nothing() -> None:
        """Take nothing."""

    module_app.api.register_blueprint(bare)
    return module_app


@pytest.fixture(scope="module")
def call(crm, furnished):
    return make_api_caller(crm, furnished[1]["olena"])


@pytest.fixture
def lead(crm, api):
    """A lead with something in every kind of field."""
    crm.tenants.clock.tick(60)
    id = api.create(
        "/leads", name="Марія", phone="+380671234567", email="maria@example.com", amount=1250.5,
        company="Ромашка", tags=["vip", "Київ"], extra={"floor": 3}, comment="a\nb",
    )  # fmt: skip
    return api.read(f"/leads/{id}")


def path(lead) -> str:
    return f"/leads/{lead['id']}"


def fault(answer) -> tuple[str, str]:
    assert answer.status_code == 422, answer.text
    (error,) = answer.json["errors"]
    return error["pointer"], error["code"]


# Merge patches


def test_null_and_the_empty_text_clear_a_field(api, lead):
    for nothing in (None, "", "  "):
        api.patch(path(lead), {"company": "X", "comment": "Y", "email": "a@b.cd"})
        changed = api.patch(
            path(lead), {"company": nothing, "comment": nothing, "email": nothing}
        ).json
        assert changed["company"] is changed["comment"] is changed["email"] is None, repr(nothing)
    cleared = api.patch(path(lead), {"tags": None, "extra": None, "amount": None}).json
    assert (cleared["tags"], cleared["extra"], cleared["amount"]) == ([], {}, None)


@each("plural", ["leads", "clients", "deals", "products", "tasks"])
def test_of_extra_the_sent_keys_are_changed(api, plural):
    """Other programs' keys stay; null removes one, at any depth (RFC 7396)."""
    required = {"title": "A"} if plural in ("deals", "tasks") else {"name": "A", "email": "a@b.cd"}
    if plural == "products":
        required = {"name": "A", "price": 1}
    erp = {"code": "A", "debt": 5, "tags": [1]}
    id = api.create(f"/{plural}", **required, extra={"shop_id": "7", "erp": erp})
    results = [
        api.call("PATCH", f"/{plural}/{id}", data=sent, content_type="application/json").json[
            "extra"
        ]
        for sent in (
            '{"extra": {"loyalty": "gold"}}',
            '{"extra": {"shop_id": null, "never": null}}',
            '{"extra": {"erp": {"debt": null, "tags": [2], "new": {"a": null, "b": 1.50}}}}',
            '{"extra": {}}',
            '{"extra": {"erp": "text"}}',
        )
    ]
    added = {"shop_id": "7", "erp": erp, "loyalty": "gold"}
    removed = {"erp": erp, "loyalty": "gold"}
    inner = {"erp": {"code": "A", "tags": [2], "new": {"b": 1.5}}, "loyalty": "gold"}
    assert results == [added, removed, inner, inner, {"erp": "text", "loyalty": "gold"}]


def test_the_limits_of_extra_hold_for_the_result(api, lead):
    keys = {f"k{number}": number for number in range(49)}
    assert len(api.patch(path(lead), {"extra": keys}).json["extra"]) == 50
    assert fault(api.patch(path(lead), {"extra": {"one": "more"}})) == ("/extra", "too_many")
    large = {"floor": "x" * 8_000, "k1": "x" * 8_000}
    assert fault(api.patch(path(lead), {"extra": large | {"k2": "x" * 300}}))[1] == "too_large"
    assert api.patch(path(lead), {"extra": {"k1": None, "one": "more"}}).status_code == 200


def test_a_record_that_is_sent_back_keeps_the_nulls_of_its_extra(api):
    id = api.create("/leads", name="A", email="a@b.cd", extra={"a": None, "b": {"c": None}})
    lead = api.read(f"/leads/{id}")
    assert api.patch(path(lead), lead).json == lead


@each("name", ["name", "status", "currency"])
def test_a_required_field_cannot_be_cleared(api, lead, name):
    assert fault(api.patch(path(lead), {name: None})) == (f"/{name}", "null")
    assert api.read(path(lead)) == lead


def test_the_rule_is_checked_on_the_record_that_would_result(api, lead):
    assert api.patch(path(lead), {"phone": None}).status_code == 200
    answer = api.patch(path(lead), {"email": None})
    assert answer.status_code == 422
    assert {error["code"] for error in answer.json["errors"]} == {"phone_or_email"}
    assert api.patch(path(lead), {"email": None, "phone": "0501112233"}).status_code == 200


@each("sent", [{}, {"name": "Марія"}, {"phone": "067 123-45-67"}, {"tags": ["vip", "Київ"]},
               {"amount": "1250.50"}, {"extra": {"floor": 3}}, {"comment": "a\r\nb"}])  # fmt: skip
def test_a_patch_that_changes_nothing_is_no_change(crm, api, lead, sent):
    events = len(api.events())
    crm.tenants.clock.tick(5)
    answer = api.patch(path(lead), sent)
    assert answer.status_code == 200
    assert answer.json == lead
    assert len(api.events()) == events


# Fields that are not to be written


@each("name", ["nickname", "Name", "name ", "", "id_", "deleted_at", "search_text", "__class__"])
def test_an_unknown_field_is_refused(api, lead, name):
    assert fault(api.patch(path(lead), {name: "x"})) == (f"/{name}", "unknown_field")


def test_no_resource_takes_what_it_does_not_know(crm, api):
    """Every registered body except a new lead's, which keeps it."""
    seen = []
    for rule in crm.url_map.iter_rules():
        operation = crm.api.operations.get(rule.endpoint)
        if operation is None or (operation.body is None and "POST" not in rule.methods):
            continue
        if operation.upload is not None or rule.endpoint == "leads.create_lead":
            continue
        (method,) = rule.methods - {"OPTIONS", "HEAD"}
        target = rule.rule.removeprefix("/api/v1")
        for name in rule.arguments:
            target = target.replace(f"<{name}>", "1")
        answer = api.call(method, target, json={"surely_unknown": 1})
        assert answer.status_code == 422, (method, rule.rule, answer.text)
        assert {"pointer": "/surely_unknown", "code": "unknown_field"}.items() <= answer.json[
            "errors"
        ][-1].items() or "/surely_unknown" in answer.text, (method, rule.rule)
        seen.append(rule.rule)
    assert "/api/v1/leads/<id>" in seen


# Bodies


@each("kind", ["application/json", "application/merge-patch+json", "APPLICATION/JSON",
               "application/json; charset=utf-8",
               "application/json;charset=\"UTF-8\""])  # fmt: skip
def test_kinds_of_bodies_that_are_read(call, lead, kind):
    answer = call("PATCH", path(lead), {"Content-Type": kind}, b'{"name": "\xd0\x9e"}')
    assert (answer.status, answer.json["name"]) == (200, "О")


def test_no_body_needs_no_kind_and_counts_as_empty(call, api, lead):
    for headers in ({}, {"Content-Type": "text/plain"}, {"Content-Length": "0"}):
        assert call("PATCH", path(lead), headers).status == 200
        assert call("POST", "/leads", headers).status == 422
    assert api.read(path(lead)) == lead


def test_an_operation_without_a_body_takes_none(call):
    assert call("POST", "/bare").status == call("POST", "/bare", body=b"{}").status == 204
    for body, status in ((b'{"x": 1}', 422), (b"[]", 422), (b"{", 400)):
        assert call("POST", "/bare", body=body).status == status
    assert call("POST", "/bare", {"Content-Type": "text/plain"}, b"{}").status == 415
    assert call("POST", "/bare", body=b" " * ((1 << 20) + 1)).status == 413


def test_a_delete_needs_no_body_and_takes_no_notice_of_one(call, api, lead):
    answer = call("DELETE", path(lead), body=b"whatever")
    assert (answer.status, answer.body) == (204, b"")
    assert "Content-Type" not in answer.headers
    assert call("DELETE", path(lead)).status == 404
    assert call("GET", path(lead)).status == 404


def test_exact_numbers_stay_exact(call, api, lead):
    for sent, shown in (
        ("1250.10", b"1250.1"), ("9999999999999.99", b"9999999999999.99"), ("0", b"0"),
        ('"0.01"', b"0.01"), ("1e3", b"1000"), ("12.5e-1", b"1.25"), ("-0", b"0"), ("-0.0", b"0"),
    ):  # fmt: skip
        answer = call("PATCH", path(lead), body=b'{"amount": %s}' % sent.encode())
        assert answer.status == 200, sent
        assert b'"amount":' + shown + b"," in answer.body, sent


# ETags


def test_what_is_known_is_not_sent_again(api, lead):
    etag = api.get(path(lead)).headers["ETag"]
    for known in (etag, f"W/{etag}", f'"x", {etag}', "*"):
        for method in ("GET", "HEAD"):
            answer = api.call(method, path(lead), headers={"If-None-Match": known})
            assert (answer.status_code, answer.data) == (304, b""), known
            assert answer.headers["ETag"] == etag
            assert "Content-Type" not in answer.headers
            assert answer.headers["X-RateLimit-Remaining"]
    for other in ('"x"', etag[:-2] + '"', ""):
        assert api.get(path(lead), headers={"If-None-Match": other}).status_code == 200
    api.patch(path(lead), {"name": "Олена"})
    assert api.get(path(lead), headers={"If-None-Match": etag}).status_code == 200
    assert api.get("/leads/777777", headers={"If-None-Match": "*"}).status_code == 404


@each("method", ["PATCH", "DELETE"])
def test_if_match_guards_a_change(api, lead, method):
    etag = api.get(path(lead)).headers["ETag"]
    body = {"name": "Олена"} if method == "PATCH" else None
    for other in ('"x"', "x", f"W/{etag}", '""'):
        answer = api.call(method, path(lead), headers={"If-Match": other}, json=body)
        assert (answer.status_code, answer.json["code"]) == (412, "precondition_failed"), other
    assert api.read(path(lead)) == lead
    answer = api.call(method, path(lead), headers={"If-Match": f'"x", {etag}'}, json=body)
    assert answer.status_code in (200, 204)
    answer = api.call(method, path(lead), headers={"If-Match": etag}, json=body)
    assert answer.status_code == (412 if method == "PATCH" else 404)


def test_if_match_is_optional_and_may_be_anything_that_exists(api, lead):
    assert api.patch(path(lead), {"name": "A"}).status_code == 200
    assert api.patch(path(lead), {"name": "B"}, headers={"If-Match": "*"}).status_code == 200
    assert api.patch("/leads/7777", {"name": "B"}, headers={"If-Match": "*"}).status_code == 404
    assert api.delete(path(lead), headers={"If-Match": "*"}).status_code == 204


def test_of_many_with_the_same_etag_one_changes_the_lead(crm, api, lead):
    etag = api.get(path(lead)).headers["ETag"]

    def change(number: int) -> int:
        mine = Api(crm, "acme", api.key)
        body = {"name": f"L{number}"}
        return mine.patch(path(lead), body, headers={"If-Match": etag}).status_code

    assert sorted(run_in_threads(12, change)) == [200] + [412] * 11
    assert api.read(path(lead))["version"] == lead["version"] + 1
