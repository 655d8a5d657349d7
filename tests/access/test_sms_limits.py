"""How many SMS may be sent: sliding hours and days, counted with all other limits."""

import os
from typing import Any

import pytest

from crm.access.limits import SmsLimits
from crm.config.readers import SMS_LIMITS
from crm.errors import StorageFull
from crm.limits.counters import Counters
from crm.limits.windows import BUCKET_ROWS, SMS_DAY, SMS_HOUR
from crm.storage.file_errors import cause_of

parametrize = pytest.mark.parametrize
MARIA, PETRO = "+380671234567", "+380501234567"
NOON = 1_772_442_000.0  # when a step of all windows begins
# Until all is forgotten that was counted as a step began: a step longer than the limits say.
HOUR, DAY_SECONDS = (window.step_seconds * window.steps for window in (SMS_HOUR, SMS_DAY))


@pytest.fixture
def path(tmp_path):
    return tmp_path / "counters"


@pytest.fixture
def limited(path):
    """Makes limits anew, with other numbers than those by default; no reserve unless named."""

    def make(**numbers: int) -> SmsLimits:
        path.unlink(missing_ok=True)
        numbers = SMS_LIMITS | {"tenant": 10**6, "reserve": 0} | numbers
        return SmsLimits(Counters(path.parent, lambda: b"a key"), numbers)

    return make


@pytest.fixture
def limits(limited):
    return limited()


def taken(
    limits: SmsLimits,
    count: int,
    moment: float,
    phone: str = "",
    address: str = "",
    tenant: str | None = "acme",
    **more: Any,
) -> int:
    """How many of so many are allowed; each to another phone and for another address, if no
    one is named."""
    return sum(
        limits.count_sms(
            phone or f"+38067{number:07}",
            address or f"10.0.{number >> 8}.{number & 255}",
            moment,
            tenant=tenant,
            **more,
        )
        for number in range(count)
    )


def state(limits: SmsLimits, moment: float = NOON, *tenants: str) -> dict[str, tuple[int, int]]:
    """How much of each budget is used, and how much there is."""
    budgets = limits.list_budgets(moment, tenants)
    return {budget.name: (used, budget.limit) for budget, used, _ in budgets}


# Who asks


def test_a_phone_gets_five_an_hour_and_ten_a_day(limits):
    assert taken(limits, 20, NOON, MARIA) == 5
    assert taken(limits, 20, NOON + HOUR - 1, MARIA) == 0
    assert taken(limits, 20, NOON + HOUR, MARIA) == 5
    assert taken(limits, 20, NOON + 2 * HOUR, MARIA) == 0
    assert taken(limits, 20, NOON + DAY_SECONDS - 1, MARIA) == 0
    assert taken(limits, 20, NOON + DAY_SECONDS, MARIA) == 5
    assert taken(limits, 20, NOON + DAY_SECONDS, PETRO) == 5


def test_an_address_gets_twenty_an_hour(limits):
    assert taken(limits, 30, NOON, address="192.0.2.1") == 20
    assert taken(limits, 30, NOON + HOUR - 1, address="192.0.2.1") == 0
    assert taken(limits, 30, NOON + HOUR, address="192.0.2.1") == 20
    assert taken(limits, 1, NOON + HOUR, "+380990000000", "192.0.2.2") == 1


@parametrize(
    ("one", "other", "same"),
    [
        ("2001:db8:0:1::1", "2001:db8:0:1:ffff::2", True),
        ("2001:db8:0:1::1", "2001:db8:0:2::1", False),
        ("2001:db8::1", "2001:0db8:0000::1", True),
        ("::ffff:192.0.2.1", "::ffff:192.0.2.2", False),
        ("::ffff:192.0.2.1", "192.0.2.1", True),
        ("192.0.2.1", "192.0.2.2", False),
        ("somewhere", "somewhere", True),
        ("somewhere", "elsewhere", False),
    ],
)
def test_the_addresses_of_one_customer_count_as_one(limits, one, other, same):
    assert taken(limits, 20, NOON, address=one) == 20
    assert limits.count_sms(MARIA, other, NOON, tenant="acme") is not same


def test_the_networks_of_a_48_get_sixty_an_hour(limits):
    counts = [taken(limits, 20, NOON, address=f"2001:db8:7:{number}::1") for number in range(4)]
    assert counts == [20, 20, 20, 0]
    assert taken(limits, 20, NOON, address="2001:db8:8::1") == 20
    assert taken(limits, 1, NOON + HOUR, address="2001:db8:7::1") == 1


@parametrize("addresses", [["192.0.2.1"], ["2001:db8::1", "2001:db8:0:2::1", "2001:db8:0:3::1"]])
def test_from_one_network_a_phone_gets_half_of_its_sms(limits, addresses):
    def ask(moment: float) -> int:
        return sum(taken(limits, 5, moment, MARIA, address) for address in addresses)

    assert ask(NOON) == 3
    assert taken(limits, 5, NOON, MARIA, "203.0.113.9") == 2  # its owner
    assert ask(NOON + HOUR) == 2  # five of a day
    assert ask(NOON + DAY_SECONDS - 1) == 0
    assert taken(limits, 5, NOON + HOUR, MARIA, "203.0.113.9") == 3


def test_a_known_browser_has_a_count_of_its_own(limits):
    assert taken(limits, 20, NOON, MARIA) == 5
    assert taken(limits, 100, NOON, address="192.0.2.1") == 20
    assert taken(limits, 20, NOON, MARIA, "192.0.2.1", browser="7") == 5
    assert taken(limits, 20, NOON, MARIA, "192.0.2.1", browser="8") == 5
    assert taken(limits, 20, NOON, MARIA, "192.0.2.1", tenant="globex", browser="7") == 5
    assert taken(limits, 20, NOON + HOUR, MARIA, "192.0.2.1", browser="7") == 5
    assert taken(limits, 20, NOON + 2 * HOUR, MARIA, "192.0.2.1", browser="7") == 0
    assert taken(limits, 20, NOON + 2 * HOUR, PETRO, "192.0.2.1") == 3  # nor does it fill others


def test_what_was_refused_does_not_count(limited):
    limits = limited(day=30)
    assert taken(limits, 100, NOON, MARIA) == 5
    assert taken(limits, 100, NOON, address="192.0.2.1") == 20
    assert taken(limits, 100, NOON + HOUR, MARIA, "192.0.2.1") == 3
    assert taken(limits, 100, NOON + HOUR, MARIA) == 2
    assert taken(limits, 15, NOON + HOUR, address="192.0.2.1") == 0  # the thirty are sent


# Budgets


@parametrize(
    ("numbers", "tenant", "sent"),
    [
        ({"day": 7}, "acme", 7),
        ({"tenant": 7}, "acme", 7),
        ({"signup": 7}, "acme", 40),
        ({"signup": 7}, None, 7),
        ({"signup": 20, "day": 7}, None, 7),
        ({"day": 10, "reserve": 3}, None, 7),
        ({"day": 10, "reserve": 3, "reserve_tenant": 2}, "acme", 9),
        ({"day": 10, "reserve": 3}, "acme", 10),
        ({"day": 10, "reserve": 3, "tenant": 8}, "acme", 8),
    ],
)
def test_each_budget_is_of_a_day(limited, numbers, tenant, sent):
    limits = limited(**{"day": 40, "signup": 20} | numbers)
    assert taken(limits, 50, NOON, tenant=tenant) == sent
    assert taken(limits, 20, NOON + DAY_SECONDS - 1, tenant=tenant) == 0
    assert taken(limits, 50, NOON + DAY_SECONDS, tenant=tenant) == sent


def test_a_phone_that_nobody_has_uses_up_no_budget(limited):
    limits = limited(day=40, tenant=30, signup=10)
    assert taken(limits, 50, NOON, known=False) == 50
    assert set(used for used, _ in state(limits, NOON, "acme").values()) == {0}
    assert taken(limits, 50, NOON, tenant="acme") == 30
    assert taken(limits, 50, NOON, tenant=None) == 10


def test_a_phone_that_nobody_has_is_told_what_anybody_is(limited):
    """Whatever was asked before, by the same steps."""
    results = []
    for known in (True, False):
        limits = limited(day=40, tenant=30)
        asked = [
            taken(limits, 10, NOON, MARIA, known=known),
            taken(limits, 10, NOON, PETRO, "192.0.2.1", known=known),
            taken(limits, 100, NOON, address="192.0.2.2", known=known),
        ]
        taken(limits, 100, NOON + HOUR, tenant="acme", known=True)
        results.append((asked, taken(limits, 10, NOON + HOUR, PETRO, "192.0.2.9", known=known)))
    assert results[0] == results[1] == ([5, 3, 20], 0)


def test_tenants_and_sign_up_do_not_use_up_each_others_budgets(limited):
    limits = limited(day=100, signup=20, tenant=10)
    sent = [taken(limits, 30, NOON + number * HOUR, tenant=label)
            for number, label in enumerate(["acme", "globex", None, "third"])]  # fmt: skip
    assert sent == [10, 10, 20, 10]
    assert state(limits, NOON + 3 * HOUR, "acme", "new") == {
        "all tenants and sign-up": (50, 100),
        "the reserve": (0, 0),
        "sign-up": (20, 20),
        "tenant acme": (10, 10),
        "tenant new": (0, 10),
    }


def test_the_reserve_is_for_known_users_of_every_tenant(limited):
    limits = limited(day=100, reserve=20, reserve_tenant=4, tenant=50)
    assert taken(limits, 90, NOON, tenant="a") == 50
    assert taken(limits, 90, NOON, tenant="b", address="") == 34  # 30 and 4 of the reserve
    assert taken(limits, 90, NOON + HOUR, tenant=None) == 0
    others = [taken(limits, 90, NOON + (2 + number) * HOUR, tenant=label)
              for number, label in enumerate("cdefgh")]  # fmt: skip
    assert others == [4, 4, 4, 4, 0, 0]


def test_a_known_browser_gets_the_reserve_when_its_tenants_budget_is_used_up(limited):
    limits = limited(tenant=10, reserve=20, reserve_tenant=4)
    assert taken(limits, 50, NOON) == 10
    assert taken(limits, 50, NOON + HOUR, MARIA) == 0
    assert taken(limits, 50, NOON + HOUR, MARIA, browser="7") == 4
    assert taken(limits, 50, NOON + HOUR, tenant="globex") == 10


def test_the_operator_is_warned_once_a_day_when_four_fifths_are_used(limited, caplog):
    limits = limited(day=20, reserve=5, signup=4, tenant=10, reserve_tenant=100)
    begun = len(caplog.messages)

    def warned() -> list[str]:
        nonlocal begun
        result, begun = caplog.messages[begun:], len(caplog.messages)
        return result

    taken(limits, 7, NOON)
    assert warned() == []
    taken(limits, 5, NOON, known=False)
    assert warned() == []
    taken(limits, 1, NOON, MARIA)
    assert warned() == ["8 of 10 SMS in 24 hours are used by tenant acme (CRM_SMS_LIMITS)"]
    taken(limits, 9, NOON + 1, PETRO)
    assert warned() == []
    taken(limits, 4, NOON + 1, tenant=None)
    assert warned() == [
        "12 of 15 SMS in 24 hours are used by all tenants and sign-up (CRM_SMS_LIMITS)",
        "4 of 4 SMS in 24 hours are used by sign-up (CRM_SMS_LIMITS)",
    ]
    taken(limits, 9, NOON + HOUR, tenant="globex")
    assert warned() == [
        "4 of 5 SMS in 24 hours are used by the reserve (CRM_SMS_LIMITS)",
    ]
    taken(limits, 9, NOON + DAY_SECONDS + 1)
    (line,) = warned()
    assert line.startswith("8 of 10")
    assert not [line for line in caplog.text.splitlines() if "+380" in line or "10.0." in line]


# The file


@pytest.mark.deep
@pytest.mark.slow
def test_many_unknown_phones_do_not_show_which_phone_is_known(path, limited):
    """More than there are rows for: what was counted less is forgotten, budgets forget nothing."""
    answers = []
    for known in (True, False):
        limits, seen = limited(), []
        assert taken(limits, 9, NOON, MARIA, known=known) == 5
        assert taken(limits, 2, NOON, PETRO, known=known) == 2
        size = path.stat().st_size
        for turn in range(SMS_HOUR.buckets * BUCKET_ROWS):
            assert taken(limits, 1, NOON, f"a{turn}", f"b{turn}", known=False)
        seen.append(taken(limits, 9, NOON, MARIA, known=known))
        seen.append(taken(limits, 9, NOON, PETRO, known=known))
        seen += [taken(limits, 9, NOON, f"a{turn}", known=False) for turn in range(20)]
        answers.append(seen)
        used, _ = state(limits, NOON)["all tenants and sign-up"]
        assert used == (7 + sum(seen[:2]) if known else 0)
        assert path.stat().st_size == size
    assert answers[0] == answers[1]
    assert answers[0][0] == 0  # what was counted most is kept
    assert 5 in answers[0]  # the first requests of some phones were forgotten


def test_reading_the_state_changes_nothing(path, limits):
    assert state(limits)["sign-up"] == (0, 200) and not path.exists()
    taken(limits, 7, NOON)
    raw = path.read_bytes()
    assert state(limits, NOON - DAY_SECONDS, "acme")["tenant acme"] == (7, 10**6)
    assert state(limits, NOON + DAY_SECONDS, "acme")["tenant acme"] == (0, 10**6)
    assert path.read_bytes() == raw
    path.write_bytes(b"x")
    other = SmsLimits(Counters(path.parent, lambda: b"a key"))
    assert state(other)["sign-up"] == (0, 200) and path.read_bytes() == b"x"


def test_on_a_full_disk_no_sms_is_sent(path, limits):
    os.symlink("/dev/full", path)
    with pytest.raises(OSError) as raised:
        limits.count_sms(MARIA, "192.0.2.1", NOON, tenant="acme")
    assert cause_of(raised.value) is StorageFull  # what a page answers
