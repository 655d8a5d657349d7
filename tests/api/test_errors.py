"""Errors (spec: Errors; D14): one body for every 4xx and 5xx, and nothing of the inside."""

import json
import logging
import sqlite3

import pytest

from crm import errors
from crm.api.problems import STATUS
from crm.storage import session
from tests.concurrency import writing
from tests.conftest import Api
from tests.raw_wsgi import make_api_caller, send_request

each = pytest.mark.parametrize
MEMBERS = ["type", "title", "status", "detail", "instance", "code", "request_id"]


def coded(error: sqlite3.Error, code: int) -> sqlite3.Error:
    """As SQLite raises it: errors are told apart by their codes."""
    error.sqlite_errorcode = code
    return error


RAISED = {
    "boom": RuntimeError("the secret inside"),
    "sql": coded(
        sqlite3.OperationalError("no such table: the secret inside"), sqlite3.SQLITE_ERROR
    ),
    "conflict": errors.Conflict("it is so", "so", deals=["1", "2"]),
}


@pytest.fixture(scope="module")
def crm(module_app):
    """The app with a view for everything that a rule may raise."""

    def fail(name: str):
        raise RAISED[name]

    module_app.add_url_rule("/api/v1/raise/<name>", "fail", fail)
    return module_app


@pytest.fixture(scope="module")
def call(crm, furnished):
    return make_api_caller(crm, furnished[1]["olena"])


def check(answer, status: int, code: str) -> dict:
    """The answer is a problem, whole and in its order."""
    assert answer.status == status, answer.body
    assert answer.headers["Content-Type"] == "application/problem+json"
    body = answer.json
    assert list(body)[:7] == MEMBERS
    assert body["type"] == "about:blank"
    assert body["status"] == status
    assert body["code"] == code
    assert body["request_id"] == answer.headers["X-Request-Id"]
    assert body["title"] and body["detail"] and body["instance"].startswith("/api/v1/")
    assert not body["detail"].endswith(".")
    assert body["detail"][0].islower() or body["detail"].startswith("Idempotency-Key")
    assert len(answer.headers.getlist("X-Request-Id")) == 1
    text = answer.body.decode()
    for inside in ("Traceback", "secret inside", "sqlite", 'File "', ".py", "SELECT", "werkzeug"):
        assert inside not in text
    return body


# One body


def test_400_for_what_cannot_be_read(call):
    body = check(call("POST", body=b"{"), 400, "malformed_body")
    assert set(body) == set(MEMBERS)
    check(call(query="cursor=x"), 400, "invalid_cursor")
    check(call(query="q=\xff"), 400, "malformed_query")
    check(call("POST", body=b'{"a"', CONTENT_LENGTH="100"), 400, "bad_request")


def test_401_without_a_key_and_403_without_a_scope_which_is_named(crm, furnished):
    answer = send_request(crm)
    check(answer, 401, "invalid_key")
    assert answer.headers["WWW-Authenticate"] == "Bearer"
    body = check(make_api_caller(crm, furnished[1]["form"])(), 403, "missing_scope")
    assert body["scope"] == "leads:read"


def test_404_is_the_same_for_absent_malformed_and_another_tenants(crm, api, furnished):
    theirs = Api(crm, "globex", furnished[1]["ivan"]).create(
        "/leads", name="b", phone="+380671234567"
    )
    paths = ["77", "x", "0", "-1", "1.0", "01", "9" * 30, "%00", "1%2f", "NaN", "٣"]
    seen = set()
    for id in [*paths, str(int(theirs) + 100)]:
        for method in ("GET", "PATCH", "DELETE"):
            answer = api.call(
                method, f"/leads/{id}", headers={"X-Request-Id": "x"},
                json={"name": "c"} if method == "PATCH" else None,
            )  # fmt: skip
            assert answer.status_code == 404, (method, id)
            seen.add(json.dumps({**answer.json, "instance": ""}))
    assert len(seen) == 1


@each("path", ["", "/", "/nothing", "/leads/1/nothing", "/leads/1/2/3", "/../leads", "//"])
def test_404_for_a_path_that_is_none(call, path):
    check(call("GET", path or "/"), 404, "not_found")


@each(
    ("path", "methods", "allowed"),
    [
        ("/leads", ("PUT", "PATCH", "DELETE", "TRACE", "NONSENSE"), "GET, HEAD, OPTIONS, POST"),
        ("/leads/1", ("PUT", "POST"), "DELETE, GET, HEAD, OPTIONS, PATCH"),
        ("/users/me", ("PUT", "POST", "PATCH", "DELETE"), "GET, HEAD, OPTIONS"),
    ],
)
def test_405_says_what_is_allowed(call, path, methods, allowed):
    for method in methods:
        answer = call(method, path, body=b"{}" if method == "PUT" else b"")
        check(answer, 405, "method_not_allowed")
        assert answer.headers["Allow"] == allowed


def test_409_carries_what_it_names(call):
    body = check(call(path="/raise/conflict"), 409, "so")
    assert (body["detail"], body["deals"]) == ("it is so", ["1", "2"])


def test_413_for_more_than_a_mebibyte(call):
    limit = 1 << 20

    def sized(size: int) -> bytes:
        return b'{"name":"' + b"x" * (size - 11) + b'"}'

    assert call("POST", body=sized(limit)).status == 422
    assert call("POST", body=sized(limit), chunked=True).status == 422
    for size in (limit + 1, limit + 2, 3 * limit):
        check(call("POST", body=sized(size)), 413, "too_large")
        check(call("POST", body=sized(size), chunked=True), 413, "too_large")
        check(call("PATCH", "/leads/1", body=sized(size), chunked=True), 413, "too_large")
    check(call("POST", body=b"{}", CONTENT_LENGTH="9" * 25), 413, "too_large")


def test_415_for_another_kind_of_body(call):
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data",
                 "text/json", "application/problem+json", "application", "", "\xff"):  # fmt: skip
        for method, path in (("POST", "/leads"), ("PATCH", "/leads/1")):
            check(call(method, path, {"Content-Type": kind}, b"{}"), 415, "unsupported_media_type")


def test_422_points_into_the_body(call):
    body = check(call("POST", body=b'{"name": 5, "email": "x"}'), 422, "validation_failed")
    assert body["errors"][0]["pointer"] == "/name"
    assert set(body["errors"][0]) == {"pointer", "code", "detail"}
    assert body["detail"].startswith("name: ")
    for sent in (b"[]", b"null", b"1", b'"x"', b"true"):
        body = check(call("POST", body=sent), 422, "validation_failed")
        assert body["errors"] == [
            {"pointer": "", "code": "invalid_type", "detail": "the body must be a JSON object"}
        ]


def test_422_names_every_wrong_value_at_once(api, call):
    id = api.create("/leads", name="a", phone="+380671234567")
    sent = b'{"name": null, "email": "x", "status": "y", "a/b~c": 1, "version": 9}'
    body = check(call("PATCH", f"/leads/{id}", body=sent), 422, "validation_failed")
    assert {(error["pointer"], error["code"]) for error in body["errors"]} == {
        ("/name", "null"),
        ("/email", "invalid_email"),
        ("/status", "invalid_choice"),
        ("/a~1b~0c", "unknown_field"),
    }


def test_503_when_the_writers_turn_does_not_come(crm, call, monkeypatch):
    monkeypatch.setattr(session, "MAX_LOCK_WAIT_SECONDS", 0.02)
    with writing(crm.tenants, "acme"):
        answer = call("POST", body=b'{"name": "a", "phone": "+380671234567"}')
    check(answer, 503, "busy")
    assert answer.headers["Retry-After"]


@each("name", ["boom", "sql"])
def test_500_without_its_inside(call, name, caplog):
    with caplog.at_level(logging.ERROR, "crm"):
        answer = call(path=f"/raise/{name}", headers={"X-Request-Id": f"id-{name}"})
    body = check(answer, 500, "internal_error")
    assert set(body) == set(MEMBERS)
    assert answer.headers["X-RateLimit-Limit"] == "5000"
    (record,) = caplog.records  # the operator sees all of it
    assert f"id-{name}" in record.getMessage() and record.exc_info


def test_every_kind_of_error_has_its_status():
    for kind in errors.CRMError.__subclasses__():
        known = [STATUS[item] for item in kind.__mro__ if item in STATUS]
        assert known, kind
    assert sorted(set(STATUS.values())) == [
        400, 401, 403, 404, 409, 410, 412, 413, 415, 422, 429, 503, 507,
    ]  # fmt: skip


# Request ids, HEAD, OPTIONS


SANE_IDS = ("a", "0a3f7c1e-58b2-4a0e-9a5e-0c9d1f3f7b11", "A" * 128)
STRANGE_IDS = (
    *("", " ", "-", "a b", "<script>", 'a"b', "a" * 129, "\xe9", "a\tb", "a,b", "x" * 60_000),
)


def test_a_sane_request_id_is_echoed_and_a_strange_one_replaced(call):
    for id in (*SANE_IDS, *STRANGE_IDS):
        answer = call(path="/leads/77", headers={"X-Request-Id": id})
        request_id = answer.headers["X-Request-Id"]
        assert request_id == answer.json["request_id"]
        assert (request_id == id) is (id in SANE_IDS), id
        assert request_id.isalnum() or id in SANE_IDS


def test_head_is_get_without_a_body(api, call):
    id = api.create("/leads", name="a", phone="+380671234567")
    for path in ("/leads", f"/leads/{id}", "/leads/77", "/nothing", "/users/me", "/docs"):
        response, answer = call("GET", path), call("HEAD", path)
        assert answer.body == b""
        assert answer.status == response.status, path
        for name in ("Content-Type", "Content-Length", "ETag"):
            assert answer.headers.get(name) == response.headers.get(name), (path, name)


def test_options_without_a_preflight_says_what_is_allowed(call):
    answer = call("OPTIONS", "/leads")
    assert answer.status == 200 and answer.body == b""
    assert sorted(answer.headers["Allow"].split(", ")) == ["GET", "HEAD", "OPTIONS", "POST"]
    check(call("OPTIONS", "/nothing"), 404, "not_found")


def test_nothing_is_html(crm, api):
    for rule in crm.url_map.iter_rules():
        if rule.rule.startswith("/api/") and "docs" not in rule.rule:
            path = rule.rule.replace("<", "").replace(">", "").removeprefix("/api/v1")
            for method in ("GET", "TRACE"):
                answer = api.call(method, path)
                assert answer.mimetype != "text/html" or not answer.data, (method, path)
