"""How many SMS may be sent: sliding hours and days, kept in one file of the data folder."""

import os
import stat
import sys
from collections import Counter
from typing import Any

import pytest

from crm.access.sms_limits import HOUR, SmsLimits
from crm.config import SMS_LIMITS
from crm.errors import StorageFull
from crm.tenancy import sms_log
from crm.tenancy.sms_log import DAY_SECONDS, HEADER, RECORD, RESERVE, SmsLog
from tests.concurrency import kill_process, run_in_threads, start_python, wait_for_processes

parametrize = pytest.mark.parametrize
MARIA, PETRO = "+380671234567", "+380501234567"
NOON = 1_772_442_000.0


@pytest.fixture
def path(tmp_path):
    return tmp_path / "sms.log"


@pytest.fixture
def limited(path):
    """Makes limits anew, with other numbers than those by default; no reserve unless named."""

    def make(**numbers: int) -> SmsLimits:
        path.unlink(missing_ok=True)
        numbers = SMS_LIMITS | {"tenant": 10**6, "reserve": 0} | numbers
        return SmsLimits(SmsLog(path.parent, lambda: b"a key"), numbers)

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
    found = limits.list_budgets(moment, tenants)
    return {budget.name: (used, budget.limit) for budget, used, _ in found}


# Who asks


def test_a_phone_gets_five_an_hour_and_ten_a_day(limits):
    assert taken(limits, 20, NOON, MARIA) == 5
    assert taken(limits, 20, NOON + HOUR - 1, MARIA) == 0
    assert taken(limits, 20, NOON + HOUR, MARIA) == 5
    assert taken(limits, 20, NOON + 2 * HOUR, MARIA) == 0
    assert taken(limits, 20, NOON + DAY_SECONDS - 1, MARIA) == 0
    assert taken(limits, 20, NOON + DAY_SECONDS, MARIA) == 5
    assert taken(limits, 20, NOON + DAY_SECONDS, PETRO) == 5


def test_hours_and_days_slide(limits):
    allowed = [
        limits.count_sms(MARIA, str(number), NOON + 600 * number, tenant="acme")
        for number in range(8)
    ]
    assert allowed == [True] * 5 + [False] + [True] * 2


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


@pytest.mark.slow
@parametrize(
    ("numbers", "tenant", "sent"),
    [
        ({}, "acme", 1000),
        ({"day": 7}, "acme", 7),
        ({"tenant": 7}, "acme", 7),
        ({"signup": 7}, "acme", 1000),
        ({}, None, 200),
        ({"signup": 7}, None, 7),
        ({"signup": 20, "day": 7}, None, 7),
        ({"day": 10, "reserve": 3}, None, 7),
        ({"day": 10, "reserve": 3, "reserve_tenant": 2}, "acme", 9),
        ({"day": 10, "reserve": 3}, "acme", 10),
        ({"day": 10, "reserve": 3, "tenant": 8}, "acme", 8),
    ],
)
def test_each_budget_is_of_a_day(limited, numbers, tenant, sent):
    limits = limited(**numbers)
    assert taken(limits, 1100, NOON, tenant=tenant) == sent
    assert taken(limits, 20, NOON + DAY_SECONDS - 1, tenant=tenant) == 0
    assert taken(limits, 1100, NOON + DAY_SECONDS, tenant=tenant) == sent


@pytest.mark.slow
def test_a_phone_that_nobody_has_uses_up_no_budget(limited):
    limits = limited(day=40, tenant=30, signup=10)
    assert taken(limits, 1000, NOON, known=False) == 1000
    assert set(used for used, _ in state(limits, NOON, "acme").values()) == {0}
    assert taken(limits, 1000, NOON, tenant="acme") == 30
    assert taken(limits, 1000, NOON, tenant=None) == 10


def test_a_phone_that_nobody_has_is_told_what_anybody_is(limited):
    """Whatever was asked before, by the same steps."""
    found = []
    for known in (True, False):
        limits = limited(day=40, tenant=30)
        asked = [
            taken(limits, 10, NOON, MARIA, known=known),
            taken(limits, 10, NOON, PETRO, "192.0.2.1", known=known),
            taken(limits, 100, NOON, address="192.0.2.2", known=known),
        ]
        taken(limits, 100, NOON + HOUR, tenant="acme", known=True)
        found.append((asked, taken(limits, 10, NOON + HOUR, PETRO, "192.0.2.9", known=known)))
    assert found[0] == found[1] == ([5, 3, 20], 0)


def test_tenants_and_sign_up_do_not_use_up_each_others_budgets(limited):
    limits = limited(tenant=100)
    sent = [taken(limits, 300, NOON + number * HOUR, tenant=label)
            for number, label in enumerate(["acme", "globex", None, "third"])]  # fmt: skip
    assert sent == [100, 100, 200, 100]
    assert state(limits, NOON + 3 * HOUR, "acme", "new") == {
        "all tenants and sign-up": (500, 1000),
        "the reserve": (0, 0),
        "sign-up": (200, 200),
        "tenant acme": (100, 100),
        "tenant new": (0, 100),
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
        found, begun = caplog.messages[begun:], len(caplog.messages)
        return found

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


@parametrize(("most", "sent"), [(1000, 20 * 5), (30, 30)])
def test_of_many_at_once_exactly_the_limit_is_let_through(limited, most, sent):
    def twenty_phones(number: int) -> int:
        return taken(limits, 20, NOON, address=f"192.0.2.{number}")

    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for _ in range(3):
            limits = limited(day=most)
            assert sum(run_in_threads(16, twenty_phones)) == sent
    finally:
        sys.setswitchinterval(usual)


# The file


def test_only_the_owner_may_read_it_and_it_names_nobody(path, limits):
    assert limits.count_sms(MARIA, "192.0.2.1", NOON, tenant="acme")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    raw = path.read_bytes()
    assert not [name for name in (MARIA, "192.0.2.1", "acme") if name.encode() in raw]


def test_another_key_makes_other_digests(path, limits):
    other = SmsLimits(SmsLog(path.parent, lambda: b"another key"))
    for each_ in (limits, other):
        each_.count_sms(MARIA, "192.0.2.1", NOON, tenant="acme")
    first, second = RECORD.iter_unpack(path.read_bytes()[len(HEADER) :])
    assert first[:2] == second[:2] and not {*first[2:]} & {*second[2:]}


def test_a_restart_gives_no_more(path, limits):
    assert taken(limits, 20, NOON, MARIA) == 5
    assert taken(SmsLimits(SmsLog(path.parent, lambda: b"a key")), 20, NOON + 1, MARIA) == 0


def test_the_file_is_bounded_by_a_days_sms(path, limited):
    limits = limited(day=50)
    for day in range(3):
        for number in range(200):
            at = NOON + day * DAY_SECONDS + number
            limits.count_sms(f"{day}-{number}", f"{day}.{number}", at, tenant="acme")
        assert path.stat().st_size == 52 * RECORD.size  # with the warning


def test_asking_for_phones_that_nobody_has_makes_the_file_no_longer(path, limits, monkeypatch):
    monkeypatch.setattr(sms_log, "MAX_UNSENT", 50)
    assert taken(limits, 30, NOON) == 30
    for turn in range(200):
        assert taken(limits, 1, NOON + turn, f"a{turn}", f"b{turn}", known=False)
    assert path.stat().st_size == (1 + 30 + 50) * RECORD.size
    assert state(limits, NOON + 200)["all tenants and sign-up"] == (30, 1000)
    assert taken(limits, 9, NOON + 200, "a199", "b199", known=False) == 2  # the latest are kept
    assert taken(limits, 9, NOON + 200, "a149", "b149", known=False) == 3


def test_reading_the_state_changes_nothing(path, limits):
    assert state(limits)["sign-up"] == (0, 200) and not path.exists()
    taken(limits, 7, NOON)
    raw = path.read_bytes()
    assert state(limits, NOON - DAY_SECONDS, "acme")["tenant acme"] == (7, 10**6)
    assert state(limits, NOON + DAY_SECONDS, "acme")["tenant acme"] == (0, 10**6)
    assert path.read_bytes() == raw
    path.write_bytes(b"x")
    assert state(limits)["sign-up"] == (0, 200) and path.read_bytes() == b"x"


@parametrize("raw", [b"", b"x", b"x" * 4096, HEADER[:-1], HEADER + b"\xff" * (RECORD.size - 1)])
def test_a_damaged_file_is_made_anew(path, limits, raw):
    path.write_bytes(raw)
    assert taken(limits, 20, NOON, MARIA) == 5
    assert len(path.read_bytes()) == 6 * RECORD.size


@parametrize("moment", [float("nan"), float("inf"), NOON + 40 * DAY_SECONDS])
def test_a_moment_to_come_counts_as_now(path, limits, moment):
    assert taken(limits, 5, NOON, MARIA) == 5
    raw = path.read_bytes()
    rows = [(moment, *row[1:]) for row in RECORD.iter_unpack(raw[len(HEADER) :])]
    path.write_bytes(HEADER + b"".join(RECORD.pack(*row) for row in rows))
    assert taken(limits, 5, NOON, MARIA) == 0
    assert taken(limits, 5, NOON + HOUR - 1, MARIA) == 0
    assert taken(limits, 5, NOON + HOUR, MARIA) == 5


def test_on_a_full_disk_no_sms_is_sent(path, limits):
    os.symlink("/dev/full", path)
    with pytest.raises(StorageFull):
        limits.count_sms(MARIA, "192.0.2.1", NOON, tenant="acme")


# Several processes

TAKE = """
import sys
from pathlib import Path
from tests.concurrency import run_in_threads
from crm.access.sms_limits import SmsLimits
from crm.config import SMS_LIMITS
from crm.tenancy.sms_log import SmsLog
folder, number = sys.argv[1:]
numbers = SMS_LIMITS | {"day": 300, "reserve": 100, "reserve_tenant": 30, "signup": 50}
limits = SmsLimits(SmsLog(Path(folder), lambda: b"a key"), numbers)
sys.stdin.readline()
def take(thread):
    label = [None, "a", "b", "c"][thread % 4]
    names = [f"{number}-{thread}-{turn}" for turn in range(40)]
    sent = sum(limits.count_sms(name, name, 1_772_442_000.0, tenant=label) for name in names)
    asked = sum(limits.count_sms(f"x{name}", "n", 1_772_442_000.0, tenant=label, known=False)
                for name in names)
    return label, sent, asked
for label, sent, asked in run_in_threads(8, take):
    print(label, sent, asked)
"""


@pytest.mark.process
def test_two_processes_of_8_threads_get_exactly_the_limit(path, limited):
    limits = limited(day=300, reserve=100, signup=50, tenant=100)
    both = [start_python(TAKE, path.parent, number) for number in (1, 2)]
    for each_ in both:
        print(file=each_.stdin, flush=True)
    written = wait_for_processes(*both)
    sent: Counter[str] = Counter()
    asked = 0
    for line in "".join(written).splitlines():
        label, count, unsent = line.split()
        sent[label] += int(count)
        asked += int(unsent)
    assert asked <= 20  # of one network; fewer where the budgets were used up before
    found = state(limits, NOON, "a", "b", "c")
    assert found["all tenants and sign-up"] == (200, 200)
    assert found["sign-up"] == (sent["None"], 50) and sent["None"] <= 50
    tenants = {label: found[f"tenant {label}"][0] for label in "abc"}
    assert tenants == {label: sent[label] for label in "abc"}
    assert found["the reserve"][0] == sum(sent.values()) - 200
    records = SmsLog(path.parent, lambda: b"a key").read(NOON)
    parts = {label: records.count(DAY_SECONDS, [RESERVE], tenant=label) for label in "abc"}
    assert all(sent[label] == 100 or parts[label] == 30 for label in "abc")
    assert max(sent.values()) <= 100 and max(parts.values()) <= 30


EVERYBODY = """
import sys
from pathlib import Path
from tests.concurrency import run_in_threads
from crm.access.sms_limits import SmsLimits
from crm.config import SMS_LIMITS
from crm.tenancy.sms_log import SmsLog
folder, number = sys.argv[1:]
limits = SmsLimits(SmsLog(Path(folder), lambda: b"a key"), SMS_LIMITS | {"tenant": 200})
sys.stdin.readline()
def take(thread):
    names = [f"{number}-{thread}-{turn}" for turn in range(30)]
    return sum(limits.count_sms(name, name, 1_772_442_000.0, tenant="acme") for name in names)
print(sum(run_in_threads(8, take)))
"""


@pytest.mark.process
def test_two_processes_warn_of_a_budget_once(path):
    both = [start_python(f"import logging; logging.basicConfig(stream=sys.stdout){EVERYBODY}"
                    .replace("import logging", "import logging, sys"), path.parent, number)
            for number in (1, 2)]  # fmt: skip
    for each_ in both:
        print(file=each_.stdin, flush=True)
    lines = "".join(wait_for_processes(*both)).splitlines()
    assert [line for line in lines if line.startswith("WARNING")] == [
        "WARNING:crm:160 of 200 SMS in 24 hours are used by tenant acme (CRM_SMS_LIMITS)"
    ]
    assert sum(int(line) for line in lines if line.isdigit()) == 200


KEEP_LOCKED = """
import sys
from pathlib import Path
from crm.tenancy.sms_log import GENERAL, SmsLog
with SmsLog(Path(sys.argv[1]), lambda: b"a key").locked(1_772_442_000.0) as sent:
    sent.add(GENERAL, recipient="phone/+380671234567", network="a", network48="a")
    print("locked", flush=True)
    sys.stdin.read()
"""


@pytest.mark.process
def test_a_killed_process_keeps_no_lock(path, limits):
    keeper = start_python(KEEP_LOCKED, path.parent)
    assert keeper.stdout.readline() == "locked\n"
    kill_process(keeper)
    assert taken(limits, 20, NOON, MARIA) == 4
