"""How many SMS may be sent: sliding hours and days, kept in one file of the data folder."""

import os
import stat
import sys

import pytest
from crowd import crowd, end, finish, process

from crm.access.sms_limits import HOUR, SmsLimits
from crm.errors import StorageFull
from crm.tenancy.sms_log import DAY, HEADER, RECORD, SmsLog

each = pytest.mark.parametrize
MARIA, PETRO = "+380671234567", "+380501234567"
NOON = 1_772_442_000.0


@pytest.fixture
def path(tmp_path):
    return tmp_path / "sms.log"


@pytest.fixture
def limited(path):
    """Makes limits anew, of so many SMS a day."""

    def make(most_a_day: int = 1000) -> SmsLimits:
        path.unlink(missing_ok=True)
        return SmsLimits(SmsLog(path.parent, lambda: b"a key"), most_a_day)

    return make


@pytest.fixture
def limits(limited):
    return limited()


def taken(limits: SmsLimits, count: int, moment: float, phone: str = "", address: str = "") -> int:
    """How many of so many are allowed; each to another phone and for another address, if no
    one is named."""
    return sum(
        limits.take(phone or f"+38067{number:07}", address or f"10.0.{number >> 8}.{number & 255}",
                    moment)
        for number in range(count)
    )  # fmt: skip


def test_a_phone_gets_five_an_hour_and_ten_a_day(limits):
    assert taken(limits, 20, NOON, MARIA) == 5
    assert taken(limits, 20, NOON + HOUR - 1, MARIA) == 0
    assert taken(limits, 20, NOON + HOUR, MARIA) == 5
    assert taken(limits, 20, NOON + 2 * HOUR, MARIA) == 0
    assert taken(limits, 20, NOON + DAY - 1, MARIA) == 0
    assert taken(limits, 20, NOON + DAY, MARIA) == 5
    assert taken(limits, 20, NOON + DAY, PETRO) == 5


def test_hours_and_days_slide(limits):
    allowed = [limits.take(MARIA, "a", NOON + 600 * number) for number in range(8)]
    assert allowed == [True] * 5 + [False] + [True] * 2


def test_an_address_gets_twenty_an_hour(limits):
    assert taken(limits, 30, NOON, address="192.0.2.1") == 20
    assert taken(limits, 30, NOON + HOUR - 1, address="192.0.2.1") == 0
    assert taken(limits, 30, NOON + HOUR, address="192.0.2.1") == 20
    assert taken(limits, 1, NOON + HOUR, "+380990000000", "192.0.2.2") == 1


@each(
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
    assert limits.take(MARIA, other, NOON) is not same


def test_the_installation_sends_a_thousand_a_day_unless_told_otherwise(limited):
    assert taken(limited(), 1100, NOON) == 1000
    limits = limited(7)
    assert taken(limits, 20, NOON) == 7
    assert taken(limits, 20, NOON + DAY - 1) == 0
    assert taken(limits, 20, NOON + DAY) == 7
    assert taken(limited(0), 5, NOON) == 0


def test_what_was_refused_does_not_count(limited):
    limits = limited(30)
    assert taken(limits, 100, NOON, MARIA) == 5
    assert taken(limits, 100, NOON, address="192.0.2.1") == 20
    assert taken(limits, 100, NOON + HOUR, MARIA, "192.0.2.1") == 5
    assert taken(limits, 15, NOON + HOUR, address="192.0.2.1") == 0  # the thirty are sent


@each(("most", "sent"), [(1000, 20 * 5), (30, 30)])
def test_of_many_at_once_exactly_the_limit_is_let_through(limited, most, sent):
    def twenty_phones(number: int) -> int:
        return taken(limits, 20, NOON, address=f"192.0.2.{number}")

    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for _ in range(3):
            limits = limited(most)
            assert sum(crowd(16, twenty_phones)) == sent
    finally:
        sys.setswitchinterval(usual)


# The file


def test_only_the_owner_may_read_it_and_it_names_nobody(path, limits):
    assert limits.take(MARIA, "192.0.2.1", NOON)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    raw = path.read_bytes()
    assert MARIA.encode() not in raw and b"192.0.2.1" not in raw


def test_another_key_makes_other_digests(path, limits):
    limits.take(MARIA, "192.0.2.1", NOON)
    SmsLimits(SmsLog(path.parent, lambda: b"another key")).take(MARIA, "192.0.2.1", NOON)
    first, second = RECORD.iter_unpack(path.read_bytes()[len(HEADER) :])
    assert first[0] == second[0] and not {*first[1:]} & {*second[1:]}


def test_a_restart_gives_no_more(path, limits):
    assert taken(limits, 20, NOON, MARIA) == 5
    assert taken(SmsLimits(SmsLog(path.parent, lambda: b"a key")), 20, NOON + 1, MARIA) == 0


def test_the_file_is_bounded_by_a_days_sms(path, limited):
    limits = limited(50)
    for day in range(3):
        for number in range(200):
            limits.take(f"{day}-{number}", f"{day}.{number}", NOON + day * DAY + number)
        assert path.stat().st_size == 51 * RECORD.size


@each("raw", [b"", b"x", b"x" * 4096, HEADER[:-1], HEADER + b"\xff" * (RECORD.size - 1)])
def test_a_damaged_file_is_made_anew(path, limits, raw):
    path.write_bytes(raw)
    assert taken(limits, 20, NOON, MARIA) == 5
    assert len(path.read_bytes()) == 6 * RECORD.size


@each("moment", [float("nan"), float("inf"), NOON + 40 * DAY])
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
        limits.take(MARIA, "192.0.2.1", NOON)


# Several processes

TAKE = """
import sys
from pathlib import Path
sys.path.insert(0, "tests")
from crowd import crowd
from crm.access.sms_limits import SmsLimits
from crm.tenancy.sms_log import SmsLog
folder, number = sys.argv[1:]
limits = SmsLimits(SmsLog(Path(folder), lambda: b"a key"), 300)
sys.stdin.readline()
def take(thread):
    names = [f"{number}-{thread}-{turn}" for turn in range(40)]
    return sum(limits.take(name, name, 1_772_442_000.0) for name in names)
print(sum(crowd(8, take)))
"""


def test_two_processes_of_8_threads_get_exactly_the_limit(path):
    both = [process(TAKE, path.parent, number) for number in (1, 2)]
    for each_ in both:
        print(file=each_.stdin, flush=True)
    assert sum(map(int, finish(*both))) == 300


KEEP_LOCKED = """
import sys
from pathlib import Path
from crm.tenancy.sms_log import SmsLog
with SmsLog(Path(sys.argv[1]), lambda: b"a key").locked(1_772_442_000.0) as sent:
    sent.add("+380671234567", "192.0.2.1")
    print("locked", flush=True)
    sys.stdin.read()
"""


def test_a_killed_process_keeps_no_lock(path, limits):
    keeper = process(KEEP_LOCKED, path.parent)
    assert keeper.stdout.readline() == "locked\n"
    end(keeper)
    assert taken(limits, 20, NOON, MARIA) == 4
