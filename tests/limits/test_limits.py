"""Limits of what several processes count: exact for all, in windows that slide."""

import random

import pytest

from crm.api.request_limits import MAX_FAILED_KEYS, MAX_FORM_REQUESTS
from crm.limits.counters import Counters
from crm.limits.windows import PAGES, PASSWORDS, REQUESTS, SMS_HOUR, Limit, Window
from tests.concurrency import run_in_threads, start_python, wait_for_processes

NOW = 1_772_442_000.0
EXACT = """
import sys
from pathlib import Path
sys.path.insert(0, ".")
folder, name = sys.argv[1:]
from tests.concurrency import run_in_threads
from crm.access.limits import SmsLimits, TryLimits
from crm.api.request_limits import Limiter
from crm.config.readers import SMS_LIMITS
from crm.errors import TooMany
from crm.limits.counters import Counters
from crm.limits.windows import PASSWORDS
counters = Counters(Path(folder), lambda: b"the same key")
limiter = Limiter(counters)
tries = TryLimits(counters, PASSWORDS, account=140, network=160)
sms = SmsLimits(counters, SMS_LIMITS | {"day": 100, "reserve": 20, "tenant": 70})
NOW = 1_772_442_000.0
def fits(number):
    try:
        tries.count_try(NOW, account="a", network="x" if number % 2 else "y")
    except TooMany:
        return False
    return True
KINDS = {
    "requests": lambda number: limiter.count_request("acme", 600, NOW).allowed,
    "forms": lambda number: limiter.count_request("forms", 600, NOW, group="forms").allowed,
    "failed": lambda number: not limiter.count_failed_key("192.0.2.1", NOW),
    "visitors": lambda number: not limiter.count_form_request("acme", "192.0.2.1", NOW),
    "tries": fits,
    "sms": lambda number: sms.count_sms(f"{name} {number}", f"{name} {number}", NOW,
                                        tenant="ab"[number % 2]),
}
sys.setswitchinterval(1e-5)
print("ready", flush=True)
for what in sys.stdin:
    count = KINDS[what.strip()]
    print(sum(run_in_threads(8, lambda _: sum(map(count, range(100))))), flush=True)
"""


LIMITS = {
    "requests": 600,
    "forms": 300,
    "failed": MAX_FAILED_KEYS,
    "visitors": MAX_FORM_REQUESTS,
    "tries": 140,
    "sms": 100,
}


@pytest.mark.process
def test_two_processes_of_8_threads_get_exactly_the_limit(tmp_path):
    both = [start_python(EXACT, tmp_path, name) for name in "ab"]
    for one in both:
        assert one.stdout.readline() == "ready\n"
    counted = {}
    for what in LIMITS:
        for one in both:
            print(what, file=one.stdin, flush=True)
        counted[what] = sum(int(one.stdout.readline()) for one in both)
    assert counted == LIMITS
    wait_for_processes(*both)


def test_several_limits_count_all_or_none(counters):
    one, two = Limit(PASSWORDS, "one", 2), Limit(REQUESTS, "two", 3)
    assert counters.take([one, two], NOW)[:2] == (True, [1, 1])
    assert counters.take([one], NOW)[:2] == (True, [2])
    assert counters.take([two, one], NOW)[:2] == (False, [1, 2])
    assert counters.read([one, two, Limit(PASSWORDS, "three", 0)], NOW) == [2, 1, 0]


def test_a_limit_may_decide_without_being_counted(counters):
    one, other = Limit(REQUESTS, "one", 1), Limit(REQUESTS, "other", 9)
    assert counters.take([one._replace(adds=False), other], NOW)[:2] == (True, [0, 1])
    assert counters.take([one, other], NOW)[:2] == (True, [1, 2])
    assert counters.take([one._replace(adds=False), other], NOW)[:2] == (False, [1, 2])


def test_names_of_two_windows_are_two(counters):
    counters.take([Limit(PAGES, "acme", 9)], NOW)
    assert counters.read([Limit(REQUESTS, "acme", 0), Limit(PAGES, "acme", 0)], NOW) == [0, 1]


def test_reset_tells_how_many_were_counted(counters):
    limits = [Limit(PASSWORDS, name, 9) for name in "abc"]
    counters.take(limits[:2], NOW)
    assert counters.reset(limits) == 2
    assert counters.read(limits, NOW) == [0, 0, 0]
    assert counters.reset(limits) == 0


def test_32_threads_that_count_in_other_orders_do_not_wait_for_ever(counters):
    limits = [Limit(REQUESTS, str(number), 10**6) for number in range(20)]

    def take(seed: int) -> None:
        chance = random.Random(seed)
        for _ in range(30):
            counters.take(chance.sample(limits, 10), NOW)

    run_in_threads(32, take)
    assert sum(counters.read(limits, NOW)) == 32 * 30 * 10


def test_a_window_slides_and_never_counts_too_much(tmp_path):
    window, taken = Window("sliding", 60, steps=4), []
    counters = Counters(tmp_path, lambda: b"a key", [window])
    for moment in range(int(NOW) + 50, int(NOW) + 610, 7):  # the first are near the end of a step
        if counters.take([Limit(window, "a", 3)], moment).allowed:
            taken.append(moment)
    assert len(taken) >= 3 * (560 // (window.seconds + window.step_seconds))
    for first, fourth in zip(taken, taken[3:], strict=False):
        assert fourth - first >= window.seconds


def test_a_clock_that_was_set_back_forgets_in_time(counters):
    """What was counted later is of now, also where nothing more is allowed."""
    for window, name in ((REQUESTS, "a"), (SMS_HOUR, "b")):
        limit = Limit(window, name, 5)
        for turn in range(5):
            assert counters.take([limit], NOW + 10**7 + turn).allowed
        assert not counters.take([limit], NOW).allowed
        assert not counters.take([limit], NOW + window.step_seconds * window.steps - 1).allowed
        assert counters.take([limit], NOW + window.step_seconds * window.steps).allowed
