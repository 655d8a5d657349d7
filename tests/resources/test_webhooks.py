"""Webhooks: endpoints, their secrets, and what became of each delivery (D1, D4, D12, D15).

Nothing is sent here: a test claims what is due and says what came of it.
"""

import logging
import re
from datetime import datetime

import pytest

from crm.config import LOOPBACK, Allow
from crm.installation.tenants import Tenants
from crm.json import loads
from crm.outbox import deliveries, events
from crm.outbox.call import Outcome
from crm.outbox.subscriptions import Webhook
from crm.storage.session import now, row, rows
from tests.cases import loop_over
from tests.concurrency import run_in_threads
from tests.conftest import Api, key_for
from tests.installations import config_for
from tests.resources.refusals import faults

URL = "https://erp.example.com/crm"
BODY = {"url": URL}
DAY = 86_400
START = "2026-03-02T09:00:00Z"  # where the clock begins
LONG_AGO = {"since": "2026-01-01T00:00:00Z"}
GOOD = Outcome(duration_ms=12, status=204)
BAD = Outcome(duration_ms=34, status=500, answer="oops")
GONE = Outcome(duration_ms=5, status=410, answer="gone")
OFF = (409, "webhook_inactive")
each = pytest.mark.parametrize


class Post:
    """Acme's post: what is due is sent and comes to what the test says."""

    def __init__(self, crm, clock):
        self.crm, self.clock = crm, clock

    def go(self, outcome=GOOD):
        """Send all that is due now; gives the ids of what was sent."""
        sent = []
        with self.crm.tenants.session("acme"):
            while claimed := deliveries.claim_due("tests", 50, 50)[0]:
                for one in claimed:
                    deliveries.record_outcome(one, now(), outcome)
                    sent.append(one.id)
        return sent

    def fail_for(self, days):
        """Fail now and again at the end of so many days."""
        self.go(BAD)
        self.clock.tick(days * DAY)
        self.go(BAD)

    def bodies(self):
        """What would be sent now."""
        with self.crm.tenants.session("acme"):
            return [one.body for one in deliveries.claim_due("tests", 50, 50)[0]]


@pytest.fixture
def post(crm, clock):
    return Post(crm, clock)


@pytest.fixture
def hooked(api):
    """The path of an endpoint at acme that gets everything."""
    return f"/webhooks/{added(api)}"


def added(caller, **fields):
    """The id of a new endpoint."""
    return caller.create("/webhooks", **BODY | fields)


def switched(api, path, active):
    answer = api.patch(path, {"active": active})
    assert answer.status_code == 200, answer.text
    return answer.json


def state(api, path):
    return api.read(path)["state"]


def statuses(api, path):
    """Of the deliveries to an endpoint, the oldest first."""
    return [one["status"] for one in api.read(f"{path}/deliveries")][::-1]


def refusal(answer):
    return answer.status_code, answer.json["code"]


def seconds_until(moment, clock):
    return datetime.fromisoformat(moment).timestamp() - clock.moment


# Endpoints


def test_a_new_endpoint_has_all_its_fields(api):
    answer = api.post("/webhooks", BODY)
    assert (answer.status_code, answer.json["webhook_id"]) == (201, "1")
    assert answer.headers["Location"] == "/api/v1/webhooks/1"
    assert api.read("/webhooks/1") == {
        "id": "1",
        "url": URL,
        "events": list(events.KINDS),
        "description": None,
        "active": True,
        "state": "active",
        "failing_since": None,
        "last_success_at": None,
        "last_failure_at": None,
        "notices": [],
        "created_at": START,
        "updated_at": START,
        "version": 1,
    }
    chosen = added(api, events=["deal.won", "lead.created", "deal.won"])
    assert api.read(f"/webhooks/{chosen}")["events"] == ["lead.created", "deal.won"]


def test_a_patch_changes_what_is_sent(api, hooked, clock):
    before = api.read(hooked)
    clock.tick(60)
    sent = {"url": "https://shop.example.com/", "events": ["deal.won"], "description": " ERP "}
    changed = api.patch(hooked, sent)
    assert changed.status_code == 200
    assert changed.json == before | sent | {
        "description": "ERP", "updated_at": "2026-03-02T09:01:00Z", "version": 2,
    }  # fmt: skip
    assert changed.json == api.read(hooked)
    for nothing in (None, ""):
        api.patch(hooked, {"description": "ERP"})
        assert api.patch(hooked, {"description": nothing}).json["description"] is None


@loop_over(
    ("sent", "pointer", "code"),
    [
        ({"url": None}, "/url", "null"),
        ({"url": "https://a.example/" + "x" * 2048}, "/url", "too_long"),
        ({"events": []}, "/events", "out_of_range"),
        ({"events": ["lead.deleted"]}, "/events", "invalid_choice"),
        ({"events": "lead.created"}, "/events", "invalid_type"),
        ({"active": 1}, "/active", "invalid_type"),
        ({"secret": "whsec_mine"}, "/secret", "unknown_field"),
    ],
)
def test_what_does_not_fit_is_refused(api, hooked, sent, pointer, code):
    before = api.read("/webhooks")
    assert faults(api.post("/webhooks", BODY | sent)) == [(pointer, code)]
    assert faults(api.patch(hooked, sent)) == [(pointer, code)]
    assert api.read("/webhooks") == before


def test_of_many_at_once_ten_are_added(crm, api):
    answers = run_in_threads(14, lambda _: Api(crm, "acme", api.key).post("/webhooks", BODY))
    assert sorted(answer.status_code for answer in answers) == [201] * 10 + [409] * 4


# Addresses


def test_any_other_address_is_refused(api, hooked):
    """All that are forbidden, and what is allowed: tests/outbox/test_destinations.py."""
    for url in ("http://erp.example.com/crm", "https://10.0.0.1/", "https://erp.example.com:x/"):
        ((pointer, code),) = faults(api.post("/webhooks", {"url": url}))
        assert (pointer, code in ("invalid_url", "forbidden_address")) == ("/url", True), url
        assert faults(api.patch(hooked, {"url": url})) == [(pointer, code)]
    assert [one["url"] for one in api.read("/webhooks")] == [URL]


@pytest.fixture
def allow(crm, clock):
    """Serve acme as an operator does who allows these hosts and networks."""

    def become(allowed):
        crm.tenants.forget_idle()
        crm.tenants = Tenants(config_for(crm.tenants.config.data, webhook_allow=allowed), clock)

    return become


def test_an_address_that_is_not_allowed_any_more_stays_until_it_is_changed(api, allow):
    allow(LOOPBACK)
    path = f"/webhooks/{added(api, url='http://127.0.0.1:9000/')}"
    allow(Allow())
    same = {"url": "http://127.0.0.1:9000/", "description": "ERP"}
    assert api.patch(path, same).status_code == 200
    assert api.patch(path, {"url": "http://127.0.0.1:9001/"}).status_code == 422


# The secret


def test_rotation_gives_a_new_secret_and_the_one_before_signs_for_24_hours(crm, api, clock):
    first = api.post("/webhooks", BODY).json["secret"]
    answer = api.post("/webhooks/1/rotate").json
    second = answer["secret"]
    assert answer == {"status": "ok", "webhook_id": "1", "secret": second}

    def signing():
        with crm.tenants.session("acme"):
            return Webhook.find(1).active_secrets()

    assert signing() == (second, first)
    clock.tick(DAY - 1)
    assert signing() == (second, first)
    clock.tick(1)
    assert signing() == (second,)
    third = api.post("/webhooks/1/rotate").json["secret"]
    fourth = api.post("/webhooks/1/rotate").json["secret"]
    assert signing() == (fourth, third)


def test_a_secret_is_shown_when_it_is_made_and_nowhere_else(crm, api, post, caplog):
    caplog.set_level(logging.DEBUG)
    made = api.post("/webhooks", BODY, headers={"Prefer": "return=representation"})
    assert made.json["data"] == api.read("/webhooks/1")
    secrets = [made.json.pop("secret"), api.post("/webhooks/1/rotate").json["secret"]]
    api.create("/tasks", title="Call")
    post.go(BAD)
    path = "/webhooks/1"
    answers = [
        *(api.get(one) for one in ("/webhooks", path, f"{path}/deliveries", "/deliveries/1")),
        *(api.get(one) for one in ("/events", "/users/me")),
        api.patch(path, {"description": "ERP"}),
        api.patch(path, api.read(path)),
        api.post(f"{path}/test"),
        api.post(f"{path}/recover", LONG_AGO),
        api.post("/deliveries/1/resend"),
        api.post("/webhooks", BODY | {"url": "http://x"}),
    ]
    texts = [str(made.json["data"]), *(answer.text for answer in answers)]
    texts += [body.decode() for body in post.bodies()]
    assert len(texts) == 14
    assert not [text for text in texts if "secret" in text]
    tables = ("idempotency_response", "event", "audit_entry", "delivery", "attempt", "notice")
    with crm.tenants.session("acme"):
        kept = [caplog.text, *(str(rows(f"SELECT * FROM {table}")) for table in tables)]
    assert not [secret for secret in secrets for text in texts + kept if secret in text]


@each("path", ["/webhooks", "/webhooks/1/rotate"])
@each("prefer", [{}, {"Prefer": "return=representation"}])
def test_the_same_request_twice_is_one_secret_that_is_told_once(crm, api, hooked, path, prefer):
    body = BODY if path == "/webhooks" else None
    headers = {"Idempotency-Key": "once", **prefer}
    before = len(api.read("/webhooks"))
    first, second, third = (api.post(path, body, headers=headers) for _ in range(3))
    secret = first.json["secret"]
    assert first.status_code == second.status_code == third.status_code
    for replay in (second, third):
        assert replay.headers["Idempotency-Replayed"] == "true"
        assert replay.headers.get("Location") == first.headers.get("Location")
        assert replay.json == {
            name: value for name, value in first.json.items() if name != "secret"
        }
        assert "secret" not in replay.text
    assert len(api.read("/webhooks")) == before + (path == "/webhooks")
    with crm.tenants.session("acme"):
        assert Webhook.find(first.json["webhook_id"]).active_secrets()[0] == secret
        assert [body for (body,) in rows("SELECT body FROM idempotency_response")] == [second.data]
        assert not any(
            secret in str(result) for result in rows("SELECT * FROM idempotency_response")
        )


# Rights


def caller_with(crm, *scopes):
    return Api(crm, "acme", key_for(crm, "acme", ",".join(scopes)))


READING = tuple(
    f"{noun}:read" for noun in ("leads", "clients", "deals", "products", "tasks", "pipelines")
)


def test_to_write_webhooks_is_no_right_to_have_kinds_told(crm, api):
    """Of any record in `data`: a key without the right to read it can't have it sent anywhere."""
    for lacking in READING:
        caller = caller_with(crm, "webhooks:write", *set(READING) - {lacking})
        kinds = [kind for kind in events.KINDS if lacking in events.scopes_of_data(kind).values()]
        others = [kind for kind in events.KINDS if kind not in kinds]
        for chosen in ({}, {"events": kinds[-1:]}, {"events": [others[0], kinds[0]]}):
            answer = caller.post("/webhooks", BODY | chosen)
            assert refusal(answer) == (403, "missing_scope")
            assert answer.json["scope"] == lacking
            assert lacking in answer.json["detail"]
        path = f"/webhooks/{added(caller, events=others)}"
        assert caller.patch(path, {"events": kinds[:1]}).json["scope"] == lacking
        assert caller.patch(path, {"events": others[:1]}).status_code == 200
        assert api.read(path)["events"] == others[:1]
        api.delete(path)


def test_another_address_needs_the_right_to_what_is_told_there(crm, api, hooked):
    caller = caller_with(crm, "webhooks:write", "leads:read")
    answer = caller.patch(hooked, {"url": "https://mine.example.com/"})
    assert refusal(answer) == (403, "missing_scope")
    assert answer.json["scope"] == "deals:read"
    assert api.read(hooked)["url"] == URL
    both = {"url": "https://mine.example.com/", "events": ["lead.created"]}
    assert caller.patch(hooked, both).status_code == 200
    caller = caller_with(crm, "webhooks:write")  # what tells nothing new needs no right to read
    for sent in ({"description": "ERP"}, {"active": False}, {"active": True}, {}):
        assert caller.patch(hooked, sent).status_code == 200
    assert caller.post(f"{hooked}/rotate").status_code == 200


# Health


def test_it_is_failing_from_the_last_attempt_and_active_again_after_a_success(
    api, hooked, post, clock
):
    api.create("/tasks", title="Call")
    post.go(BAD)
    shown = api.read(hooked)
    assert (shown["state"], shown["active"]) == ("failing", True)
    assert shown["failing_since"] == shown["last_failure_at"] == START
    clock.tick(10)
    post.go(BAD)
    shown = api.read(hooked)
    assert (shown["failing_since"], shown["last_failure_at"]) == (START, "2026-03-02T09:00:10Z")
    clock.tick(590)
    post.go()
    shown = api.read(hooked)
    assert (shown["state"], shown["failing_since"]) == ("active", None)
    assert shown["last_success_at"] == "2026-03-02T09:10:00Z"
    assert shown["last_failure_at"] == "2026-03-02T09:00:10Z"
    assert (shown["notices"], shown["version"], shown["updated_at"]) == ([], 1, START)
    api.create("/tasks", title="Meet")
    post.go(BAD)
    assert api.patch(hooked, {"url": URL}).json["state"] == "failing"
    # Another address is healthy until it fails.
    assert api.patch(hooked, {"url": "https://new.example/"}).json["state"] == "active"


def test_one_added_or_switched_off_by_hand_is_inactive(api, hooked):
    assert state(api, f"/webhooks/{added(api, active=False)}") == "inactive"
    shown = switched(api, hooked, False)
    assert (shown["state"], shown["notices"]) == ("inactive", [])
    api.create("/tasks", title="Call")
    assert api.read("/webhooks/1/deliveries") == api.read("/webhooks/2/deliveries") == []


def test_switched_on_it_gets_what_happens_from_then_on(api, hooked, post):
    api.create("/tasks", title="Call")
    switched(api, hooked, False)
    api.create("/tasks", title="Meet")
    assert switched(api, hooked, True)["state"] == "active"
    api.create("/tasks", title="Mail")
    post.go()
    assert statuses(api, hooked) == ["held", "delivered"]
    assert [one["sequence"] for one in api.read(f"{hooked}/deliveries")] == [3, 1]


# A test


def test_a_test_is_sent_once_whatever_comes_of_it(api, hooked, post, clock):
    answer = api.post(f"{hooked}/test")
    assert answer.status_code == 202
    assert answer.json == {"status": "ok", "delivery_id": "1"}
    (pending,) = api.read(f"{hooked}/deliveries")
    assert (pending["type"], pending["sequence"]) == ("webhook.test", None)
    assert (pending["status"], pending["next_attempt_at"]) == ("pending", START)
    assert post.go(BAD) == [1]
    shown = api.read("/deliveries/1")
    assert (shown["status"], shown["next_attempt_at"]) == ("failed", None)
    (attempt,) = shown["attempts"]
    assert (attempt["cause"], attempt["user_id"], attempt["status_code"]) == ("test", "1", 500)
    clock.tick(2 * DAY)
    assert post.go() == []
    assert api.post(f"{hooked}/test").json["delivery_id"] == "2"
    assert post.go() == [2]
    assert statuses(api, hooked) == ["failed", "delivered"]


def test_its_body_is_shaped_as_every_events_and_is_in_no_feed(api, hooked, post):
    api.post(f"{hooked}/test")
    (body,) = post.bodies()
    (shown,) = api.read(f"{hooked}/deliveries")
    assert re.fullmatch(r"evt_[0-9a-f]{24}", shown["event_id"])
    assert body.decode() == (
        f'{{"id":"{shown["event_id"]}","type":"webhook.test","timestamp":"{START}",'
        '"tenant":"acme","sequence":0,"data":{"webhook":{"id":"1"}},"previous":{}}'
    )
    assert api.events() == []
    api.create("/tasks", title="Call")
    (event,) = api.events()
    assert list(event) == list(loads(body))


NOTICES = {
    "inactive": [],
    "paused": [("paused", "nothing was delivered for five days, so nothing more is sent")],
    "disabled": [("gone", "the receiver answered 410 Gone, so nothing more is sent")],
}


@each("how", NOTICES)
def test_one_that_is_off_says_why_and_gets_tests_alone_until_it_is_on(api, hooked, post, how):
    api.create("/tasks", title="Call")
    off(api, hooked, post, how)
    shown = api.read(hooked)
    assert shown["active"] is False
    assert [(one["code"], one["detail"]) for one in shown["notices"]] == NOTICES[how]
    assert {one["at"] for one in shown["notices"]} <= {shown["last_failure_at"]}
    api.create("/tasks", title="Meet")
    assert (post.go(), statuses(api, hooked)) == ([], ["held"])
    assert api.post(f"{hooked}/test").status_code == 202
    assert post.go() == [2]
    assert api.post("/deliveries/2/resend").status_code == 202  # a test is also sent once more
    assert post.go() == [2]
    assert (state(api, hooked), statuses(api, hooked)) == (how, ["held", "delivered"])
    if how != "paused":  # which a recovery switches on itself
        assert refusal(api.post(f"{hooked}/recover", LONG_AGO)) == OFF
    assert switched(api, hooked, False)["state"] == how  # nothing has changed
    shown = switched(api, hooked, True)
    assert (shown["state"], shown["failing_since"]) == ("active", None)
    assert statuses(api, hooked) == ["held", "delivered"]
    assert recover(api, hooked) == 2
    assert post.go() == [1, 3]


def off(api, path, post, how):
    """Bring an endpoint with something to send into a state in which it is off."""
    if how == "inactive":
        switched(api, path, False)
    elif how == "paused":
        post.fail_for(days=5)
    else:
        post.go(GONE)
    assert state(api, path) == how


# The log


def test_a_delivery_is_shown_with_all_that_helps_to_understand_it(crm, api, hooked, post, clock):
    api.create("/tasks", title="Call")
    (event,) = api.events()
    delivery = {
        "id": "1",
        "webhook_id": "1",
        "event_id": event["id"],
        "type": "task.created",
        "sequence": 1,
        "status": "pending",
        "next_attempt_at": START,
        "attempts": [],
        "created_at": START,
        "delivered_at": None,
    }
    assert api.read(f"{hooked}/deliveries") == [delivery]
    post.go(BAD)
    shown = api.read("/deliveries/1")
    assert 5 <= seconds_until(shown["next_attempt_at"], clock) <= 6
    first = {
        "at": START,
        "duration_ms": 34,
        "status_code": 500,
        "error": None,
        "answer": "oops",
        "cause": "event",
        "user_id": None,
        "key_id": None,
    }
    assert shown == delivery | {"next_attempt_at": shown["next_attempt_at"], "attempts": [first]}
    clock.tick(400)
    post.go(Outcome(duration_ms=15_000, error="timeout"))
    clock.tick(400)
    post.go(Outcome(duration_ms=3, status=200, answer="Дякую"))
    shown = api.read("/deliveries/1")
    at, outcomes = "2026-03-02T09:13:20Z", [(None, "timeout", None), (200, None, "Дякую")]
    results = [(one["status_code"], one["error"], one["answer"]) for one in shown["attempts"]]
    assert results == [(500, None, "oops"), *outcomes]
    done = {"status": "delivered", "next_attempt_at": None, "delivered_at": at}
    assert shown == delivery | done | {"attempts": shown["attempts"]}
    assert api.read(f"{hooked}/deliveries") == [shown]


def test_deliveries_are_filtered_by_status(api, hooked, post, clock):
    api.create("/tasks", title="Call")
    post.go()
    api.post(f"{hooked}/test")
    post.go(BAD)
    api.create("/tasks", title="Meet")
    switched(api, hooked, False)
    switched(api, hooked, True)
    api.create("/tasks", title="Mail")
    assert statuses(api, hooked) == ["delivered", "failed", "held", "pending"]
    for number, status in enumerate(statuses(api, hooked), 1):
        data = api.read(f"{hooked}/deliveries?status={status}")
        assert [one["id"] for one in data] == [str(number)]


def test_a_deleted_endpoint_goes_with_its_deliveries(crm, api, hooked, post):
    kept = f"/webhooks/{added(api)}"
    api.create("/tasks", title="Call")
    api.post(f"{hooked}/test")
    post.go(GONE)
    with crm.tenants.session("acme"):
        assert row("SELECT count(*) FROM notice")[0] == 2
    assert api.delete(hooked).status_code == 204
    assert api.delete(hooked).status_code == 404
    for path in (hooked, f"{hooked}/deliveries", "/deliveries/1", "/deliveries/3"):
        assert api.get(path).status_code == 404
    assert api.post("/deliveries/1/resend").status_code == 404
    assert [one["webhook_id"] for one in api.read(f"{kept}/deliveries")] == ["2"]
    with crm.tenants.session("acme"):
        for table in ("webhook", "delivery", "attempt", "notice"):
            assert row(f"SELECT count(*) FROM {table}") == (1,), table
    assert len(api.events()) == 1


# Sent once more


@each("before", ["delivered", "held"])
def test_any_delivery_is_resent_at_once_on_a_new_schedule(api, taras, hooked, post, clock, before):
    api.create("/tasks", title="Call")
    if before == "delivered":
        post.go()
    else:
        switched(api, hooked, False)
        switched(api, hooked, True)
    assert statuses(api, hooked) == [before]
    tried = len(api.read("/deliveries/1")["attempts"])
    answer = taras.post("/deliveries/1/resend")
    assert (answer.status_code, answer.json) == (202, {"status": "ok", "delivery_id": "1"})
    assert statuses(api, hooked) == ["pending"]
    assert seconds_until(api.read("/deliveries/1")["next_attempt_at"], clock) == 0
    assert post.go(BAD) == [1]
    shown = api.read("/deliveries/1")
    assert 5 <= seconds_until(shown["next_attempt_at"], clock) <= 7
    assert len(shown["attempts"]) == tried + 1
    asked = shown["attempts"][-1]
    assert (asked["cause"], asked["user_id"]) == ("resend", "2")
    assert asked["key_id"] == taras.read("/users/me")["key"]["id"]
    clock.tick(60)
    post.go()
    assert statuses(api, hooked) == ["delivered"]


# Recovered


def recover(api, path, since=LONG_AGO["since"], query=""):
    answer = api.post(f"{path}/recover{query}", {"since": since})
    assert answer.status_code == 202, answer.text
    assert set(answer.json) == {"status", "count"}
    assert answer.json["status"] == "ok"
    return answer.json["count"]


def everything(crm):
    with crm.tenants.session("acme"):
        return [rows(f"SELECT * FROM {table}") for table in ("webhook", "delivery", "attempt")]


def test_what_was_missed_is_sent_and_what_was_delivered_is_not(crm, api, taras, hooked, post):
    """Of two events that were missed one was held, and one never planned."""
    api.create("/tasks", title="delivered")
    post.go()
    api.create("/tasks", title="held")
    post.fail_for(days=5)
    api.create("/tasks", title="while it was off")
    assert state(api, hooked) == "paused"
    before = everything(crm)
    assert [recover(api, hooked, query="?dry_run=true") for _ in range(2)] == [2, 2]
    assert everything(crm) == before
    assert recover(taras, hooked, query="?dry_run=false") == 2
    shown = api.read(hooked)
    assert (shown["state"], shown["failing_since"]) == ("active", None)
    assert statuses(api, hooked) == ["delivered", "pending", "pending"]
    assert post.go() == [2, 3]
    log = api.read(f"{hooked}/deliveries")[::-1]
    assert [one["sequence"] for one in log] == [1, 2, 3]
    assert [len(one["attempts"]) for one in log] == [1, 3, 1]
    for one in log[1:]:
        assert (one["attempts"][-1]["cause"], one["attempts"][-1]["user_id"]) == ("recover", "2")
    assert recover(api, hooked) == 0
    assert post.go() == []
