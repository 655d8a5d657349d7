"""Idempotency-Key (D4): the same request twice is one change and one answer, for 24 hours."""

import pytest

from crm.storage.session import execute, row, transaction
from tests.concurrency import run_in_threads
from tests.conftest import TARAS, Api, key_for
from tests.raw_wsgi import make_api_caller

BODY = {"name": "Марія", "phone": "+380671234567"}
DAY = 24 * 3600


@pytest.fixture
def api(module_app):
    with module_app.tenants.session("acme"), transaction():
        execute("DELETE FROM lead")
        execute("DELETE FROM idempotency_response")
        execute("DELETE FROM event")
    module_app.tenants.clock.tick(60)
    return Api(module_app, "acme", key_for(module_app, "acme", "*"))


@pytest.fixture
def clock(module_app):
    return module_app.tenants.clock


def send(api, key: str = "once", body=BODY, path: str = "/leads", **headers):
    return api.post(path, body, headers={"Idempotency-Key": key, **headers})


def leads(api) -> int:
    return len(api.read("/leads"))


def test_the_same_request_twice_is_one_lead_and_one_answer(api):
    first, second, third = send(api), send(api), send(api)
    assert first.status_code == second.status_code == third.status_code == 201
    assert first.data == second.data == third.data
    for name in ("Location", "Content-Type", "Content-Length"):
        assert first.headers[name] == second.headers[name]
    assert "Idempotency-Replayed" not in first.headers
    assert second.headers["Idempotency-Replayed"] == "true"
    assert second.headers["X-Request-Id"] != first.headers["X-Request-Id"]
    # A replay counts against the limit.
    left = [int(answer.headers["X-RateLimit-Remaining"]) for answer in (first, second, third)]
    assert left == [left[0], left[0] - 1, left[0] - 2]
    assert (leads(api), api.kinds()) == (1, ["lead.created"])


def test_a_replayed_representation_is_the_first_one(api):
    first = send(api, Prefer="return=representation")
    api.patch(f"/leads/{first.json['lead_id']}", {"name": "Changed"})
    again = send(api)
    assert again.json == first.json and again.json["data"]["name"] == "Марія"
    assert again.headers["Preference-Applied"] == "return=representation"


def test_another_body_with_the_same_key_is_refused(api):
    send(api)
    for other in ({**BODY, "name": "Other"}, {**BODY, "comment": "x"}, {}, []):
        answer = send(api, body=other)
        if not other:  # refused for itself
            assert answer.status_code == 422
            continue
        assert answer.status_code == 422
        assert answer.json["code"] == "idempotency_key_reused"
        assert answer.json["errors"][0]["header"] == "Idempotency-Key"
    assert leads(api) == 1
    assert send(api).headers["Idempotency-Replayed"] == "true"


def test_it_lasts_for_24_hours(api, clock):
    first = send(api)
    clock.tick(DAY - 1)
    assert send(api).json == first.json
    clock.tick(1)
    later = send(api)
    assert later.json != first.json and "Idempotency-Replayed" not in later.headers
    assert send(api).json == later.json
    clock.tick(1)
    assert send(api, body={**BODY, "name": "Other"}).status_code == 422


def test_of_16_at_once_one_makes_the_lead_and_all_tell_of_it(module_app, api):
    key = api.key
    answers = run_in_threads(16, lambda _: send(Api(module_app, "acme", key)))
    assert {answer.status_code for answer in answers} == {201}
    assert len({answer.data for answer in answers}) == 1
    replayed = [answer.headers.get("Idempotency-Replayed") for answer in answers]
    assert sorted(replayed, key=str) == [None] + ["true"] * 15
    assert (leads(api), api.kinds()) == (1, ["lead.created"])


def test_the_key_is_that_of_an_api_key_a_tenant_and_a_path(module_app, api, furnished):
    first = send(api)
    for other in (key_for(module_app, "acme", "*"), key_for(module_app, "acme", "*", TARAS)):
        answer = send(Api(module_app, "acme", other))
        assert answer.status_code == 201 and answer.json != first.json
    assert leads(api) == 3
    ivan = Api(module_app, "globex", furnished[1]["ivan"])
    before = len(ivan.read("/leads"))
    assert "Idempotency-Replayed" not in send(ivan).headers
    assert len(ivan.read("/leads")) == before + 1
    answer = send(api, path="/clients", body={"name": "Марія"})
    assert answer.status_code == 201
    assert "Idempotency-Replayed" not in answer.headers


def test_other_methods_take_no_notice_of_it(api):
    id = send(api).json["lead_id"]
    headers = {"Idempotency-Key": "once"}
    for name in ("A", "B"):
        assert api.patch(f"/leads/{id}", {"name": name}, headers=headers).json["name"] == name
    assert api.get(f"/leads/{id}", headers={"Idempotency-Key": "a b"}).status_code == 200
    assert [api.delete(f"/leads/{id}", headers=headers).status_code for _ in range(2)] == [204, 404]


@pytest.mark.parametrize("key", ["", " ", "a b", "a\tb", "\xe9", "a" * 256, "\x7f", "\x00"])
def test_a_key_is_1_to_255_visible_ascii_characters(module_app, api, key):
    call = make_api_caller(module_app, api.key)
    answer = call(
        "POST", headers={"Idempotency-Key": key}, body=b'{"name": "a", "email": "a@b.cd"}'
    )
    assert answer.status == 422
    assert answer.json["errors"] == [
        {
            "header": "Idempotency-Key",
            "code": "invalid_header",
            "detail": "1 to 255 visible ASCII characters",
        }
    ]
    assert leads(api) == 0


def test_refusals_are_not_kept(api):
    assert send(api, body={"name": "Марія"}).status_code == 422
    assert send(api, body={"name": ""}).status_code == 422
    assert send(api).status_code == 201
    assert send(api).headers["Idempotency-Replayed"] == "true"


def test_a_key_without_the_right_replays_nothing(module_app, api):
    """The right is asked before: an answer must not outlive it."""
    assert send(api).status_code == 201
    with module_app.tenants.session("acme"), transaction():
        execute("UPDATE api_key SET scopes = 'leads:read' WHERE id = (SELECT max(id) FROM api_key)")
    assert send(api).status_code == 403


def test_change_and_answer_are_kept_together_or_neither(module_app, api, monkeypatch):
    """Each way to fail, before and after the lead is written, leaves no lead, event or answer."""

    def fail(*_: object) -> None:
        raise RuntimeError

    for target, name in (
        ("crm.outbox.events", "emit"),
        ("crm.api.idempotency", "store_response"),
        ("crm.api.operations", "build_response"),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(f"{target}.{name}", fail)
            assert send(api).status_code == 500
        with module_app.tenants.session("acme"):
            counts = row(
                "SELECT (SELECT count(*) FROM lead), (SELECT count(*) FROM event),"
                " (SELECT count(*) FROM idempotency_response)"
            )
        assert counts == (0, 0, 0), name
    assert send(api).status_code == 201
