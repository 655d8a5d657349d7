"""Counts in a file: exact for all processes, whoever dies, whatever is in the file."""

import errno
import gc
import logging
import os
import select
import stat

import pytest

from crm.access.limits import TryLimits
from crm.api.request_limits import MAX_FAILED_KEYS, Limiter
from crm.errors import TooMany
from crm.limits import counters as counters_module
from crm.limits.counters import HEADER_BYTES, CounterRow, Counters, layout_of
from crm.limits.windows import FAILED_KEYS, PASSWORDS, REQUESTS, SMS_HOUR, Limit
from tests.concurrency import kill_process, start_python, wait_for_processes
from tests.waiting import wait_for

each = pytest.mark.parametrize
START = 1_772_442_000
COUNTERS = """
import os, select, signal, sys
from pathlib import Path
sys.path.insert(0, ".")
folder = sys.argv[1]
from tests.concurrency import run_in_threads
from crm.api.request_limits import MAX_FAILED_KEYS, Limiter
from crm.limits.counters import Counters, CounterRow
limiter = Limiter(Counters(Path(folder), lambda: b"a key"))
START = 1_772_442_000
signal.alarm(60)  # when a lock is never given back
"""


# Several processes

KEEP_LOCKED = """
for _ in range(40):
    limiter.count_request("acme", 60, START)
def read(*_):
    (Path(folder) / "counters").read_bytes()  # a POSIX lock would end with its descriptor
    print("locked", flush=True)
    sys.stdin.read()
CounterRow.read = read
limiter.count_request("acme", 60, START)
"""


WAIT = """
print("begun", flush=True)
print(limiter.count_request("acme", 60, START).remaining)
"""


@pytest.mark.process
def test_others_wait_for_a_lock_until_its_process_is_killed(tmp_path):
    keeper = start_python(COUNTERS + KEEP_LOCKED, tmp_path)
    assert keeper.stdout.readline() == "locked\n"
    waiter = start_python(COUNTERS + WAIT, tmp_path)
    assert waiter.stdout.readline() == "begun\n"
    assert not select.select([waiter.stdout], [], [], 0.5)[0]
    kill_process(keeper)
    assert wait_for_processes(waiter) == ["19\n"]


COUNT = """
print("begun", flush=True)
run_in_threads(4, lambda _: [limiter.count_request("acme", 10**9, START) for _ in range(10**9)])
"""


@pytest.mark.process
@each("kills", [1, pytest.param(9, marks=pytest.mark.deep)])
def test_what_a_killed_process_leaves_can_be_counted_on(tmp_path, limiter, kills):
    for _ in range(kills):
        counting = start_python(COUNTERS + COUNT, tmp_path)
        assert counting.stdout.readline() == "begun\n"
        before = limiter.get_count("acme", START)
        wait_for(lambda before=before: limiter.get_count("acme", START) >= before + 1000)
        kill_process(counting)
        used = limiter.get_count("acme", START)
        assert used >= before + 1000
        turn = limiter.count_request("acme", used + 2, START)
        assert (turn.allowed, turn.remaining) == (True, 1)


FORK = """
limiter.count_request("acme", 60, START)
pipe, write = os.pipe()
read = CounterRow.read
def read_and_fork(*arguments):
    CounterRow.read = read
    if not os.fork():
        signal.alarm(60)
        os.write(write, b"%d" % limiter.count_request("acme", 60, START).remaining)
        os._exit(0)
    print(not select.select([pipe], [], [], 0.5)[0])
    return read(*arguments)
CounterRow.read = read_and_fork
limiter.count_request("acme", 60, START)
os.wait()
print(os.read(pipe, 10).decode(), limiter.get_count("acme", START))
"""


@pytest.mark.process
def test_a_forked_process_has_locks_of_its_own(tmp_path):
    assert wait_for_processes(start_python(COUNTERS + FORK, tmp_path)) == ["True\n57 3\n"]


def test_a_restart_gives_no_new_window(tmp_path, limiter):
    for _ in range(60):
        limiter.count_request("acme", 60, START)
    restarted = Limiter(Counters(tmp_path, lambda: b"a key"))
    assert not restarted.count_request("acme", 60, START + 59).allowed
    assert restarted.count_request("acme", 60, START + 60).allowed


# Many names


def test_every_tenant_has_its_row(limiter):
    labels = [f"tenant-{number}" for number in range(3000)]
    for turn in range(2):
        left = {limiter.count_request(label, 60, START).remaining for label in labels}
        assert left == {59 - turn}


@pytest.mark.deep
@pytest.mark.slow
def test_a_hundred_thousand_addresses_reset_no_count_that_matters(limiter):
    for _ in range(MAX_FAILED_KEYS + 1):
        limiter.count_failed_key("192.0.2.1", START)
        limiter.count_request("acme", 60, START)
    for number in range(100_000):
        limiter.count_failed_key(f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}", START)
    assert limiter.count_failed_key("192.0.2.1", START)
    assert limiter.get_count("acme", START) == MAX_FAILED_KEYS + 1


def test_rows_of_windows_that_are_over_go_first(counters, limiter):
    for number in range(6_000):
        for _ in range(3):
            limiter.count_failed_key(f"10.0.{number >> 8}.{number & 255}", START)
    for number in range(2000):  # as many as fit, each of them once
        limiter.count_failed_key(f"10.1.{number >> 8}.{number & 255}", START + 60)
    names = [f"10.1.{number >> 8}.{number & 255}" for number in range(2000)]
    assert set(counters.read([Limit(FAILED_KEYS, name, 0) for name in names], START + 60)) == {1}


def test_a_name_that_counts_nothing_takes_no_row(tmp_path, counters):
    tries = TryLimits(counters, PASSWORDS, account=1)
    for number in range(5_000):
        tries.count_try(START, account=str(number))
    full = (tmp_path / "counters").read_bytes()
    for number in range(5_000):
        tries.reset(account=f"other {number}")
        counters.take([Limit(PASSWORDS, f"third {number}", 9, adds=False)], START)
    assert (tmp_path / "counters").read_bytes() == full


def test_the_memory_of_names_is_bounded(tmp_path, monkeypatch):
    monkeypatch.setattr(counters_module, "MAX_CACHED_NAMES", 100)
    before = sum(isinstance(each_, CounterRow) for each_ in gc.get_objects())
    limiter = Limiter(Counters(tmp_path, lambda: b"a key"))
    for number in range(1000):
        limiter.count_request(f"tenant-{number}", 60, START)
    assert 0 < sum(isinstance(each_, CounterRow) for each_ in gc.get_objects()) - before <= 100
    assert limiter.get_count("tenant-0", START) == 1


# The file


def test_no_file_is_touched_before_something_is_counted(tmp_path, limiter):
    assert list(tmp_path.iterdir()) == []
    limiter.count_request("acme", 60, START)
    assert [path.name for path in tmp_path.iterdir()] == ["counters"]


def test_only_the_owner_may_read_it_and_it_names_nobody(tmp_path, counters, limiter):
    limiter.count_failed_key("192.0.2.1", START)
    limiter.count_form_request("acme", "192.0.2.1", START)
    TryLimits(counters, PASSWORDS, account=10).count_try(START, account="acme/+380671234567")
    path = tmp_path / "counters"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    raw = path.read_bytes()
    assert not [name for name in (b"acme", b"192.0.2.1", b"+380671234567") if name in raw]
    with_another_key = Limiter(Counters(tmp_path, lambda: b"another key"))
    assert with_another_key.get_count("acme", START) == 0


def test_its_blocks_are_written_when_it_is_made(tmp_path, counters, limiter):
    """Else the first count on a disk that is full meanwhile would end the process (SIGBUS)."""
    limiter.count_request("acme", 60, START)
    result = (tmp_path / "counters").stat()
    assert result.st_size == counters.size and result.st_blocks * 512 >= counters.size


@each(
    "raw",
    [b"", b"x", b"crm counters, layout 2\n" + b"x" * 10**6, os.urandom(10**7), b"\xff" * 10**7],
    ids=["empty", "short", "former", "random", "ones"],  # the same in each process of xdist
)
def test_a_damaged_file_is_made_anew(tmp_path, counters, limiter, raw):
    assert counters.size < 10**7
    (tmp_path / "counters").write_bytes(raw)
    assert limiter.count_request("acme", 60, START).remaining == 59
    assert Limiter(Counters(tmp_path, lambda: b"a key")).get_count("acme", START) == 1


@each("window", [0, START // 60 - 1, START // 60 + 1, 2**32 - 1])
def test_rows_of_nobody_are_in_nobodys_way(tmp_path, limiter, window):
    limiter.count_request("acme", 60, START)
    with (tmp_path / "counters").open("r+b") as file:
        file.seek(HEADER_BYTES)  # the first rows are those of requests
        row = layout_of(1).pack(os.urandom(16), window, 5)
        file.write(row * (REQUESTS.buckets * counters_module.BUCKET_ROWS))
    assert [limiter.count_request("acme", 60, START).allowed for _ in range(61)] == [True] * 60 + [
        False
    ]


def test_on_a_full_disk_requests_are_counted_in_memory(tmp_path, caplog):
    os.symlink("/dev/full", tmp_path / "counters")
    uptime = [0.0]
    counters = Counters(tmp_path, lambda: b"a key", monotonic=lambda: uptime[0])
    limiter = Limiter(counters)
    tries = TryLimits(counters, PASSWORDS, account=1)
    with caplog.at_level(logging.WARNING):
        turns = [limiter.count_request("acme", 60, START).allowed for _ in range(61)]
        tries.count_try(START, account="a")
        with pytest.raises(TooMany):
            tries.count_try(START, account="a")
    assert turns == [True] * 60 + [False]
    (line,) = caplog.messages
    assert line.endswith(f": {os.strerror(errno.ENOSPC)}")
    (tmp_path / "counters").unlink()
    assert not limiter.count_request("acme", 60, START).allowed
    uptime[0] += counters_module.RETRY_SECONDS
    assert limiter.count_request("acme", 60, START).remaining == 59
    assert Limiter(Counters(tmp_path, lambda: b"a key")).get_count("acme", START) == 1


def test_what_costs_money_is_not_counted_in_memory(tmp_path):
    os.symlink("/dev/full", tmp_path / "counters")
    counters = Counters(tmp_path, lambda: b"a key")
    counters.take([Limit(REQUESTS, "a", 1)], START)
    with pytest.raises(OSError, match=os.strerror(errno.ENOSPC)):
        counters.take([Limit(REQUESTS, "b", 1), Limit(SMS_HOUR, "a", 1)], START)
    assert counters.read([Limit(REQUESTS, "b", 1)], START) == [0]
    (tmp_path / "counters").unlink()
    assert counters.take([Limit(SMS_HOUR, "a", 1)], START).allowed
