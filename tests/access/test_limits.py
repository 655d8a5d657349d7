"""Requests per minute (spec: Limits; D13): one exact counter per tenant, told in every answer."""

import pytest

from crm import create_app
from crm.access.limits import TryLimits
from crm.access.rights import ASSISTANT
from crm.api.request_limits import MAX_FAILED_KEYS
from crm.config import Config
from crm.errors import TooMany
from crm.limits.windows import PASSWORDS
from crm.resources import tenant
from tests.conftest import Api, key_for
from tests.installations import copy_installation, environ_for
from tests.raw_wsgi import send_request

parametrize = pytest.mark.parametrize
LIMIT_HEADERS = {
    "X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset", "RateLimit-Policy",
    "RateLimit",
}  # fmt: skip
START = 1_772_442_000  # the clock of the tests: a whole minute


def on_plan(crm, plan: str) -> None:
    with crm.tenants.session("acme"):
        tenant.change_plan(plan)


def limits_of(answer) -> dict[str, str]:
    return {name: answer.headers[name] for name in LIMIT_HEADERS if name in answer.headers}


# The counter


def test_the_headers_tell_the_limit_what_is_left_and_when_the_minute_ends(crm, api):
    """That each plan gets exactly its number: tests/api/test_specification.py."""
    on_plan(crm, "start")
    for left in (59, 58):
        assert limits_of(api.get("/users/me")) == {
            "X-RateLimit-Limit": "60",
            "X-RateLimit-Remaining": str(left),
            "X-RateLimit-Reset": str(START + 60),
            "RateLimit-Policy": '"minute";q=60;w=60',
            "RateLimit": f'"minute";r={left};t=60',
        }


def test_over_the_limit_is_429_and_does_not_count_until_the_window_ends(crm, api, clock):
    on_plan(crm, "start")
    clock.tick(22.7)
    for _ in range(100):
        api.get("/users/me")
    answer = api.post("/leads", {"name": "a", "phone": "+380671234567"})
    assert answer.status_code == 429
    assert answer.json["code"] == "rate_limited"
    assert answer.headers["Retry-After"] == "38"
    assert answer.headers["RateLimit"] == '"minute";r=0;t=38'
    clock.tick(37)
    assert api.get("/leads").status_code == 429
    clock.tick(1)
    answer = api.get("/leads")
    assert (answer.status_code, answer.json["data"]) == (200, [])
    assert answer.headers["X-RateLimit-Remaining"] == "59"


def test_all_keys_of_a_tenant_share_one_counter_and_tenants_none(crm, api, taras, reader, ivan):
    on_plan(crm, "start")
    left = [
        who.get("/users/me").headers["X-RateLimit-Remaining"] for who in (api, taras, reader, api)
    ]
    assert left == ["59", "58", "57", "56"]
    assert ivan.get("/users/me").headers["X-RateLimit-Remaining"] == "4999"


# Plans


def test_a_smaller_plan_holds_at_once_and_leaves_nothing_below_zero(crm, api):
    for _ in range(70):
        api.get("/users/me")
    on_plan(crm, "start")
    answer = api.get("/users/me")
    assert answer.status_code == 429
    assert answer.headers["X-RateLimit-Remaining"] == "0"


def test_the_operator_may_change_a_plans_number_and_zero_is_no_limit(furnished, tmp_path, clock):
    copy_installation(furnished[0], tmp_path / "data")
    data = tmp_path / "data"
    config = Config.load({"CRM_PLANS": "business=0, start=2", **environ_for(data)}, data=data)
    crm = create_app(config, clock, sends=False)
    for name in ("olena", "form"):
        api = Api(crm, "acme", furnished[1][name])
        answers = [api.get("/users/me") for _ in range(80)]
        assert {answer.status_code for answer in answers} == {200}
        assert not any(map(limits_of, answers))
    on_plan(crm, "start")
    api = Api(crm, "acme", furnished[1]["olena"])
    assert [api.get("/users/me").status_code for _ in range(3)] == [200, 200, 429]
    crm.tenants.forget_idle()


# Website forms


def test_integrations_may_take_all_of_the_window(crm, api, form):
    on_plan(crm, "start")
    assert [api.get("/users/me").status_code for _ in range(61)] == [200] * 60 + [429]
    assert form.get("/users/me").status_code == 429


def test_assistants_together_have_half_of_the_window_besides_that_of_forms(crm, api, form):
    on_plan(crm, "start")
    keys = [key_for(crm, "acme", "leads:read", preset=ASSISTANT) for _ in range(2)]
    both = [Api(crm, "acme", key) for key in keys]
    seen = [who.get("/users/me") for _ in range(20) for who in both]
    assert [answer.status_code for answer in seen] == [200] * 30 + [429] * 10
    assert seen[29].headers["X-RateLimit-Remaining"] == "0"
    assert [form.get("/users/me").status_code for _ in range(31)] == [200] * 30 + [429]
    assert api.get("/users/me").status_code == 429


# What counts and what doesn't


def test_every_answer_to_a_known_key_carries_the_limit(crm, api, reader):
    calls = [
        (200, api.get("/users/me")),
        (201, api.post("/leads", {"name": "a", "phone": "+380671234567"})),
        (204, api.delete("/leads/1")),
        (400, api.get("/leads?cursor=x")),
        (403, reader.delete("/leads/1")),
        (404, api.get("/leads/77")),
        (404, api.get("/nothing/here")),
        (405, api.put("/leads")),
        (415, api.call("POST", "/leads", data=b"x", headers={"Content-Type": "text/plain"})),
        (422, api.post("/leads", {})),
        (422, api.get("/leads?what=1")),
        (200, api.call("HEAD", "/users/me")),
        (200, api.call("OPTIONS", "/leads")),
    ]
    for number, (status, answer) in enumerate(calls):
        assert answer.status_code == status
        assert set(limits_of(answer)) == LIMIT_HEADERS, status
        assert answer.headers["X-RateLimit-Remaining"] == str(4999 - number), status


def test_an_unknown_key_is_told_nothing_and_takes_nothing(crm, api):
    assert not limits_of(send_request(crm, headers={"Authorization": "Bearer x"}))
    assert api.get("/users/me").headers["X-RateLimit-Remaining"] == "4999"


# Bad keys


def test_an_address_has_30_bad_keys_a_minute_and_good_ones_pass(crm, api, clock):
    def bad(address: str = "10.0.0.1"):
        headers = {"Authorization": "Bearer crm_wrong"}
        return send_request(crm, headers=headers, REMOTE_ADDR=address)

    assert [bad().status for _ in range(MAX_FAILED_KEYS + 2)] == [401] * 30 + [429] * 2
    clock.tick(22)
    over = bad()
    assert over.json["code"] == "rate_limited"
    assert over.headers["Retry-After"] == "38"
    assert not limits_of(over)
    good = send_request(crm, headers={"Authorization": f"Bearer {api.key}"}, REMOTE_ADDR="10.0.0.1")
    assert good.status == 200
    assert bad("10.0.0.2").status == 401
    assert send_request(crm, path="/api/v1/docs", REMOTE_ADDR="10.0.0.1").status == 200
    clock.tick(60)
    assert bad().status == 401


def test_bad_keys_are_counted_over_all_tenants_of_an_address(crm):
    hosts = ("acme.localhost", "globex.localhost")
    seen = [send_request(crm, host=hosts[number % 2]).status for number in range(32)]
    assert seen == [401] * 30 + [429] * 2


def test_the_addresses_of_one_customer_count_as_one_and_bad_keys_of_a_48_together(limiter):
    """Else one customer with a /48 has 65 536 times the tries."""
    seen = [limiter.count_failed_key(f"2001:db8:0:1::{number:x}", START) for number in range(31)]
    assert seen[:30] == [0] * 30 and 0 < seen[30] <= 60
    assert not limiter.count_failed_key("2001:db8:0:2::1", START)
    results = [
        limiter.count_failed_key(f"2001:db8:7:{number:x}::1", START) for number in range(301)
    ]
    assert results == [0] * 300 + [60]
    assert limiter.count_failed_key("2001:db8:7:ffff::1", START)
    assert not limiter.count_failed_key("2001:db8:8::1", START)
    assert not limiter.count_failed_key("2001:db8:7:ffff::1", START + 60)


# The clock


@parametrize("seconds", [1, 60, 40 * 86_400])
def test_a_clock_that_is_set_back_gives_no_new_window(limiter, seconds):
    assert [limiter.count_request("acme", 60, START).allowed for _ in range(61)] == [True] * 60 + [
        False
    ]
    again = [limiter.count_request("acme", 60, START - seconds) for _ in range(3)]
    assert [turn.allowed for turn in again] == [False] * 3
    assert again[0].seconds_left <= 120  # nor does it keep anybody out for long
    assert limiter.count_request("acme", 60, START - seconds + again[0].seconds_left).allowed


# Tries of passwords and letters


def tried(tries: TryLimits, moment: float = START, **names: str) -> int:
    """In how many seconds it may be tried again; 0 when it was let through."""
    try:
        tries.count_try(moment, **names)
    except TooMany as refused:
        return refused.retry_after
    return 0


def test_each_name_has_its_own_count(counters):
    tries = TryLimits(counters, PASSWORDS, account=2, network=4)
    begin = START - START % 900
    assert [tried(tries, begin, account="a", network="x") for _ in range(3)] == [0, 0, 900]
    assert tried(tries, begin, account="b", network="x") == 0
    assert tried(tries, begin, account="a", network="y") == 900
    assert tried(tries, begin, account="b", network="x") == 0
    assert tried(tries, begin + 30.5, account="c", network="x") == 870
    assert tried(tries, begin, account="c", network="y") == 0


def test_a_refused_try_does_not_count(counters):
    tries = TryLimits(counters, PASSWORDS, account=1, network=3)
    for _ in range(9):
        tried(tries, account="a", network="x")
    assert tried(tries, account="b", network="x") == 0


def test_what_was_right_is_forgotten(counters):
    tries = TryLimits(counters, PASSWORDS, account=1, network=2)
    tried(tries, account="a", network="x")
    tries.reset(account="a")
    tries.reset(account="nobody")
    assert tried(tries, account="a", network="x") == 0
    assert tried(tries, account="b", network="x") > 0
