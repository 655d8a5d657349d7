"""Counts that several processes share: exact for all, whoever dies, whatever is in the file."""

import errno
import http.client
import logging
import os
import select
import stat
import sys
import threading

import pytest

from crm.access.limits import MAX_FAILED_KEYS, MAX_FORM_REQUESTS, Limiter, TryLimits
from crm.errors import TooMany
from crm.tenancy import counters as counters_module
from crm.tenancy.counters import FILE_BYTES, PASSWORDS, REQUESTS, Counters
from tests.concurrency import kill_process, run_in_threads, start_python, wait_for_processes
from tests.installations import copy_installation, environ_for
from tests.server_process import ROOT, find_free_port, run_listening_process

each = pytest.mark.parametrize
START = 1_772_442_000
COUNTERS = """
import fcntl, os, select, signal, sys
from pathlib import Path
sys.path.insert(0, ".")
folder, locks, *more = sys.argv[1:]
if locks == "flock":
    del fcntl.F_OFD_SETLKW  # as on macOS
from tests.concurrency import run_in_threads
from crm.access.limits import Limiter, TryLimits
from crm.errors import TooMany
from crm.tenancy.counters import PASSWORDS, REQUESTS, Counters
counters = Counters(Path(folder), lambda: b"a key")
limiter = Limiter(counters)
START = 1_772_442_000
signal.alarm(60)  # when a lock is never given back
"""
TAKE = """
tries = TryLimits(counters, PASSWORDS, 900, account=700, network=800)
def fits(number):
    try:
        tries.count_try(START, account="a", network="x" if number % 2 else "y")
    except TooMany:
        return False
    return True
KINDS = {
    "requests": lambda number: limiter.count_request("acme", 20_000, START).allowed,
    "forms": lambda number: limiter.count_request("acme", 20_000, START, form=True).allowed,
    "failed": lambda number: not limiter.count_failed_key("192.0.2.1", START),
    "visitors": lambda number: not limiter.count_form_request("acme", "192.0.2.1", START),
    "tries": fits,
}
what = KINDS[more[0]]
sys.setswitchinterval(1e-5)
what(0)
print("ready", flush=True)
sys.stdin.readline()
print(sum(run_in_threads(8, lambda _: sum(map(what, range(2000))))))
"""


# Several processes


@pytest.mark.process
@each(
    ("what", "limit", "locks"),
    [
        ("requests", 20_000, "ofd"),
        ("requests", 20_000, "flock"),
        ("forms", 10_000, "ofd"),
        ("failed", MAX_FAILED_KEYS, "ofd"),
        ("visitors", MAX_FORM_REQUESTS, "ofd"),
        ("tries", 700, "ofd"),
    ],
)
def test_two_processes_of_8_threads_get_exactly_the_limit(tmp_path, what, limit, locks):
    both = [start_python(COUNTERS + TAKE, tmp_path, locks, what) for _ in range(2)]
    for one in both:
        assert one.stdout.readline() == "ready\n"
    for one in both:
        print(file=one.stdin, flush=True)
    first, second = map(int, wait_for_processes(*both))
    tried = 2  # before they were let go, both within the limit
    assert first + second + tried == limit


KEEP_LOCKED = """
requests = counters.tables[REQUESTS]
for _ in range(40):
    limiter.count_request("acme", 60, START)
with requests.lock("acme"):
    print("locked", flush=True)
    sys.stdin.read()
"""


WAIT = """
print("begun", flush=True)
print(limiter.count_request("acme", 60, START).remaining)
"""


@pytest.mark.process
@each("locks", ["ofd", "flock"])
def test_others_wait_for_a_lock_until_its_process_is_killed(tmp_path, locks):
    keeper = start_python(COUNTERS + KEEP_LOCKED, tmp_path, locks)
    assert keeper.stdout.readline() == "locked\n"
    waiter = start_python(COUNTERS + WAIT, tmp_path, locks)
    assert waiter.stdout.readline() == "begun\n"
    assert not select.select([waiter.stdout], [], [], 0.5)[0]
    kill_process(keeper)
    assert wait_for_processes(waiter) == ["19\n"]


COUNT = """
print("begun", flush=True)
run_in_threads(4, lambda _: [limiter.count_request("acme", 10**9, START) for _ in range(10**9)])
"""


@pytest.mark.process
def test_what_a_killed_process_leaves_can_be_counted_on(tmp_path, limiter):
    for _ in range(3):
        counting = start_python(COUNTERS + COUNT, tmp_path, "ofd")
        assert counting.stdout.readline() == "begun\n"
        before = limiter.get_count("acme", START)
        while limiter.get_count("acme", START) < before + 1000:
            pass
        kill_process(counting)
        used = limiter.get_count("acme", START)
        assert used >= before + 1000
        turn = limiter.count_request("acme", used + 2, START)
        assert (turn.allowed, turn.remaining) == (True, 1)


FORK = """
requests = counters.tables[REQUESTS]
limiter.count_request("acme", 60, START)
read, write = os.pipe()
with requests.lock("acme"):
    child = os.fork()
    if not child:
        signal.alarm(60)
        os.write(write, b"%d" % limiter.count_request("acme", 60, START).remaining)
        os._exit(0)
    waited = not select.select([read], [], [], 0.5)[0]
os.waitpid(child, 0)
print(waited, os.read(read, 10).decode(), limiter.get_count("acme", START))
"""


@pytest.mark.process
@each("locks", ["ofd", "flock"])
def test_a_forked_process_has_locks_of_its_own(tmp_path, locks):
    assert wait_for_processes(start_python(COUNTERS + FORK, tmp_path, locks)) == ["True 58 2\n"]


@pytest.mark.process
def test_other_descriptors_of_the_file_do_not_end_a_lock(tmp_path, limiter):
    """As they would with POSIX locks."""
    keeper = start_python(
        COUNTERS
        + """
with counters.tables[REQUESTS].lock("acme"):
    (counters._path).read_bytes()
    print("locked", flush=True)
    sys.stdin.read()
""",
        tmp_path,
        "ofd",
    )
    assert keeper.stdout.readline() == "locked\n"
    taken = threading.Thread(target=limiter.count_request, args=("acme", 60, START))
    taken.start()
    taken.join(0.5)
    waited = taken.is_alive()
    kill_process(keeper)
    taken.join()
    assert waited


def test_a_restart_gives_no_new_window(tmp_path, limiter):
    for _ in range(60):
        limiter.count_request("acme", 60, START)
    restarted = Limiter(Counters(tmp_path, lambda: b"a key"))
    assert not restarted.count_request("acme", 60, START + 59).allowed
    assert restarted.count_request("acme", 60, START + 60).allowed


# Many names


def test_every_tenant_has_its_row(limiter):
    labels = [f"tenant-{number}" for number in range(6000)]
    for turn in range(3):
        left = {limiter.count_request(label, 60, START).remaining for label in labels}
        assert left == {59 - turn}


@pytest.mark.slow
def test_a_hundred_thousand_addresses_reset_no_count_that_matters(limiter):
    for _ in range(MAX_FAILED_KEYS + 1):
        limiter.count_failed_key("192.0.2.1", START)
        limiter.count_request("acme", 60, START)
    for number in range(100_000):
        limiter.count_failed_key(f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}", START)
    assert limiter.count_failed_key("192.0.2.1", START)
    assert limiter.get_count("acme", START) == MAX_FAILED_KEYS + 1


def test_rows_of_windows_that_are_over_go_first(limiter):
    for number in range(20_000):
        for _ in range(3):
            limiter.count_failed_key(f"10.0.{number >> 8}.{number & 255}", START)
    for number in range(2000):  # as many as fit, each of them once
        limiter.count_failed_key(f"10.1.{number >> 8}.{number & 255}", START + 60)
    seen = [
        limiter._failed_keys.add(f"10.1.{number >> 8}.{number & 255}", 60, START + 60)[0]
        for number in range(2000)
    ]
    assert set(seen) == {2}


def test_a_name_that_counts_nothing_takes_no_row(counters):
    tries = TryLimits(counters, PASSWORDS, 900, account=1)
    for number in range(10_000):
        tries.count_try(START, account=str(number))
    full = counters.storage.memory[:]
    for number in range(10_000):
        tries.reset(account=f"other {number}")
    assert counters.storage.memory[:] == full


def test_the_memory_of_names_is_bounded(counters, limiter, monkeypatch):
    monkeypatch.setattr(counters_module, "MAX_CACHED_NAMES", 100)
    for number in range(1000):
        limiter.count_request(f"tenant-{number}", 60, START)
    assert len(counters.tables[REQUESTS]._cache) <= 100
    assert limiter.get_count("tenant-0", START) == 1


# The file


def test_no_file_is_touched_before_something_is_counted(tmp_path, limiter):
    assert list(tmp_path.iterdir()) == []
    limiter.count_request("acme", 60, START)
    assert [path.name for path in tmp_path.iterdir()] == ["counters"]


def test_only_the_owner_may_read_it_and_it_names_nobody(tmp_path, counters, limiter):
    limiter.count_failed_key("192.0.2.1", START)
    limiter.count_form_request("acme", "192.0.2.1", START)
    TryLimits(counters, PASSWORDS, 900, account=10).count_try(START, account="acme/+380671234567")
    path = tmp_path / "counters"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    raw = path.read_bytes()
    assert not [name for name in (b"acme", b"192.0.2.1", b"+380671234567") if name in raw]
    with_another_key = Limiter(Counters(tmp_path, lambda: b"another key"))
    assert with_another_key.get_count("acme", START) == 0


def test_its_blocks_are_written_when_it_is_made(tmp_path, limiter):
    """Else the first count on a disk that is full meanwhile would end the process (SIGBUS)."""
    limiter.count_request("acme", 60, START)
    found = (tmp_path / "counters").stat()
    assert found.st_size == FILE_BYTES and found.st_blocks * 512 >= FILE_BYTES


@each(
    "raw",
    [b"", b"x", b"x" * FILE_BYTES, os.urandom(FILE_BYTES + 5), b"\xff" * FILE_BYTES],
    ids=["empty", "short", "text", "random", "ones"],  # the same in every process of pytest-xdist
)
def test_a_damaged_file_is_made_anew(tmp_path, limiter, raw):
    (tmp_path / "counters").write_bytes(raw)
    assert limiter.count_request("acme", 60, START).remaining == 59
    assert Limiter(Counters(tmp_path, lambda: b"a key")).get_count("acme", START) == 1


@each("window", [0, START // 60 - 1, START // 60 + 1, 2**32 - 1])
def test_rows_of_nobody_are_in_nobodys_way(tmp_path, limiter, window):
    limiter.count_request("acme", 60, START)
    with (tmp_path / "counters").open("r+b") as file:
        file.seek(counters_module.BUCKET_BYTES)
        row = counters_module.SLOT.pack(os.urandom(16), window, 5, 5)
        file.write(row * ((FILE_BYTES - counters_module.BUCKET_BYTES) // len(row)))
    assert [limiter.count_request("acme", 60, START).allowed for _ in range(61)] == [True] * 60 + [
        False
    ]


def test_on_a_full_disk_requests_are_counted_in_memory(tmp_path, caplog, monkeypatch):
    os.symlink("/dev/full", tmp_path / "counters")
    counters = Counters(tmp_path, lambda: b"a key")
    limiter = Limiter(counters)
    tries = TryLimits(counters, PASSWORDS, 900, account=1)
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
    monkeypatch.setattr(counters, "_retry_at", 0.0)
    assert limiter.count_request("acme", 60, START).remaining == 59
    assert Limiter(Counters(tmp_path, lambda: b"a key")).get_count("acme", START) == 1


def test_without_a_key_requests_are_counted_in_memory(tmp_path, caplog):
    def unreadable() -> bytes:
        raise PermissionError(errno.EACCES, "Permission denied")

    limiter = Limiter(Counters(tmp_path, unreadable))
    assert [limiter.count_request("acme", 1, START).allowed for _ in range(2)] == [True, False]
    assert len(caplog.messages) == 1 and list(tmp_path.iterdir()) == []


# Served


@pytest.mark.process
def test_two_processes_of_gunicorn_give_a_tenant_exactly_its_plan(furnished, tmp_path):
    """Any WSGI server's: the counts come with the application."""
    copy_installation(furnished[0], tmp_path / "data")
    port = find_free_port()
    command = [sys.executable, "-m", "gunicorn", "--no-control-socket", "--workers", "2"]
    command += ["--threads", "4", "-b", f"127.0.0.1:{port}", "app:app"]
    settings = {"CRM_DATA": str(tmp_path / "data"), "CRM_PLANS": "business=100"}
    settings |= environ_for(tmp_path / "data")
    environ = {name: value for name, value in os.environ.items() if not name.startswith("CRM_")}
    headers = {"Host": "acme.localhost", "Authorization": f"Bearer {furnished[1]['olena']}"}

    def ask(_: int) -> list[tuple[int, str, str]]:
        found = []
        for _ in range(30):
            line = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
            line.request("GET", "/api/v1/users/me", headers=headers)
            answer = line.getresponse()
            left, ends = (answer.headers[f"X-RateLimit-{name}"] for name in ("Remaining", "Reset"))
            found.append((answer.status, left, ends))
            line.close()
        return found

    with run_listening_process(command, port, cwd=ROOT, env=environ | settings):
        answers = [answer for some in run_in_threads(8, ask) for answer in some]
    windows = {end for _, _, end in answers}
    assert len(windows) <= 2  # a minute may turn
    for window in windows:
        good = [int(left) for status, left, end in answers if (status, end) == (200, window)]
        assert sorted(good, reverse=True) == list(range(99, 99 - len(good), -1))
    refused = [(int(left), end) for status, left, end in answers if status == 429]
    assert refused and {left for left, _ in refused} == {0}
