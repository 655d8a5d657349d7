"""Slow requests of some tenants leave the others their turn: real servers, processes and locks."""

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from crm import CRMApp, activity, create_app
from crm.activity import MAX_WAITING_FOR_SLOT, computing, process, waiting
from crm.errors import Busy
from crm.server.limits import SlowRequests
from tests.concurrency import kill_process, start_python
from tests.database_cases import UNLIMITED, open_tenant
from tests.http_calls import ask
from tests.installations import config_for
from tests.server_process import run_server
from tests.waiting import wait_for

THREADS = 4  # of `serve`, unless --threads says otherwise
BUSY_LABELS = [f"busy{number}" for number in range(THREADS)]
IMPORTED_ROWS = 20_000
HOLD_WRITER_LOCKS = """
import contextlib, sys
from pathlib import Path
from tests.installations import config_for
from crm.storage.session import transaction
from crm.installation.tenants import Tenants
data, *labels = sys.argv[1:]
tenants = Tenants(config_for(Path(data)))
with contextlib.ExitStack() as stack:
    for label in labels:
        stack.enter_context(tenants.tenant(label).lock())
    print("held", flush=True)
    sys.stdin.readline()
"""

Call = Callable[..., int]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("busy") / "data"


@pytest.fixture(scope="module")
def call(data: Path) -> Iterator[Call]:
    """call(method, label, path, body) gives the status of a request to a server of one process.

    Its tenants are those that will be busy, and acme.
    """
    crm: CRMApp = create_app(config_for(data, plans=UNLIMITED), sends=False)
    keys = {label: open_tenant(crm, label) for label in (*BUSY_LABELS, "acme")}
    crm.tenants.forget_idle()
    with run_server(data, CRM_PLANS="business=0") as port:

        def call(method: str, label: str, path: str, body: Any = None, kind: str = "") -> int:
            headers = {"Content_Type": kind} if kind else {}
            return ask(port, method, path, body, keys[label], label, **headers).status

        for label in keys:
            assert call("GET", label, "/api/v1/leads") == 200
        yield call


class Others:
    """Requests in threads; a `with` block begins with all of them under way."""

    def __init__(self, requests: list[Callable[[], int]]):
        self.statuses: list[int] = []
        self._threads = [
            threading.Thread(target=self._run, args=(request,)) for request in requests
        ]

    def _run(self, request: Callable[[], int]) -> None:
        self.statuses.append(request())

    @property
    def are_running(self) -> bool:
        return any(thread.is_alive() for thread in self._threads)

    def __enter__(self) -> "Others":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        for thread in self._threads:
            thread.join()


def slowest(request: Callable[[], int], others: Others, count: int) -> float:
    """Seconds of the slowest of `count` requests while the others run."""
    seconds = 0.0
    for _ in range(count):
        if not others.are_running:
            break
        began = time.monotonic()
        assert request() == 200
        seconds = max(seconds, time.monotonic() - began)
        time.sleep(0.02)
    return seconds


@pytest.mark.process
@pytest.mark.slow
def test_tenants_that_import_leave_slots_to_others(call: Call) -> None:
    rows = "".join(f"S-{n},Стіл {n},{n % 900}.50\n" for n in range(IMPORTED_ROWS))
    part = 'Content-Disposition: form-data; name="file"; filename="a.csv"'
    file = f"--x\r\n{part}\r\n\r\nsku,name,price\n{rows}\r\n--x--\r\n".encode()
    kind = "multipart/form-data; boundary=x"
    path = "/api/v1/products/import"
    imports = [lambda label=label: call("POST", label, path, file, kind) for label in BUSY_LABELS]
    began = time.monotonic()
    with Others(imports) as others:
        time.sleep(0.3)
        seconds = slowest(lambda: call("GET", "acme", "/api/v1/leads"), others, 10_000)
    assert others.statuses == [200] * THREADS  # those that waited for a slot had it in time
    assert seconds < (time.monotonic() - began) / 3


@pytest.mark.process
@pytest.mark.slow
@pytest.mark.files
def test_what_waits_for_a_lock_takes_no_slot(call: Call, data: Path) -> None:
    holder = start_python(HOLD_WRITER_LOCKS, data, *BUSY_LABELS)
    lead = {"name": "Марія", "phone": "+380671234567"}
    creates = [
        lambda label=label: call("POST", label, "/api/v1/leads", lead) for label in BUSY_LABELS
    ]
    try:
        assert holder.stdout.readline() == "held\n"
        with Others(creates) as others:
            time.sleep(0.3)
            assert slowest(lambda: call("POST", "acme", "/api/v1/leads", lead) - 1, others, 20) < 5
            assert others.are_running and others.statuses == []
            kill_process(holder)
    finally:
        kill_process(holder)
    assert others.statuses == [201] * THREADS


class Request:
    """A slow request as SlowRequests sees one."""

    def __init__(self, host: str, reads: bool = True, is_waiting: bool = False):
        self.kind, self.is_waiting, self.is_apart = (host, reads), is_waiting, False


def full(*requests: Request) -> SlowRequests:
    slow = SlowRequests(THREADS, lambda: None)
    for request in requests:
        assert slow.leave_room_for(request)
        slow.add(request)
    return slow


def test_the_last_slot_is_for_hosts_that_have_none() -> None:
    slow = full(Request("a"), Request("a"), Request("b"))
    assert not slow.leave_room_for(Request("b"))
    assert not slow.leave_room_for(Request("b", reads=False))
    assert slow.leave_room_for(Request("c"))


def test_of_one_host_half_may_read_and_one_may_write() -> None:
    slow = full(Request("a"), Request("a"))
    assert not slow.leave_room_for(Request("a"))
    slow = full(Request("a", reads=False))
    assert not slow.leave_room_for(Request("a", reads=False))
    assert slow.leave_room_for(Request("a")) and slow.leave_room_for(Request("b", reads=False))


def test_a_change_that_is_apart_lets_another_of_its_host_run() -> None:
    activity.thread.request = upload = Request("a", reads=False)
    slow = full(upload)
    try:
        with activity.apart():
            assert slow.may_have_room and slow.leave_room_for(Request("a", reads=False))
    finally:
        activity.thread.request = None
    assert not slow.leave_room_for(Request("a", reads=False))


def test_health_checks_run_beside_full_slots_but_not_without_bound() -> None:
    slow = full(*map(Request, "abcd"))
    assert not slow.leave_room_for(Request("e"))
    for _ in range(THREADS):
        check = Request("/readyz")
        assert slow.leave_room_for(check)
        slow.add(check)
    assert not slow.leave_room_for(Request("/readyz"))
    assert slow.leave_room_for(Request("/livez"))


def test_requests_that_wait_take_slots_once_they_are_too_many_threads() -> None:
    slow = full(*(Request(f"w{number}", is_waiting=True) for number in range(8 * THREADS)))
    for number in range(THREADS):
        slow.add(Request(f"x{number}", is_waiting=True))
        assert slow.leave_room_for(Request("a")) is (number < THREADS - 1)


def test_a_request_that_begins_to_wait_has_the_queue_looked_at() -> None:
    woken = []
    slow = SlowRequests(THREADS, lambda: woken.append(True))
    activity.thread.request = request = Request("a")
    try:
        with waiting():
            assert request.is_waiting and slow.may_have_room and woken == [True]
            with waiting():
                assert woken == [True]
            assert request.is_waiting
        assert not request.is_waiting and activity.thread.request is request
    finally:
        activity.thread.request = None


def can_compute(wait_seconds: float = 0.05) -> bool:
    """Whether another thread has a slot for heavy work in time."""
    had = []

    def compute() -> None:
        with contextlib.suppress(Busy), computing(wait_seconds):
            had.append(True)

    thread = threading.Thread(target=compute)
    thread.start()
    thread.join()
    return bool(had)


def test_heavy_work_has_half_of_the_slots_and_frees_its_own_while_it_waits() -> None:
    SlowRequests(2, lambda: None)
    assert process.slots == 1 and can_compute()
    with computing():
        assert not can_compute()
        with computing():  # joins
            assert not can_compute()
        assert not can_compute()
        with waiting():
            assert can_compute()
        assert not can_compute()
    assert can_compute()


def test_only_so_many_wait_for_a_slot() -> None:
    SlowRequests(2, lambda: None)
    with computing():
        others = Others([lambda: can_compute(60)] * MAX_WAITING_FOR_SLOT)
        with others:
            wait_for(lambda: process.waiting >= MAX_WAITING_FOR_SLOT)
            began = time.monotonic()
            assert not can_compute(60)
            assert time.monotonic() - began < 30
            with waiting():  # others go on, one by one
                wait_for(lambda: not others.are_running)
    assert others.statuses == [True] * MAX_WAITING_FOR_SLOT
