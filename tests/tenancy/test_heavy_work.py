"""Exports, imports and the reports of one tenant run one at a time, in all processes."""

import threading
import time
from contextlib import ExitStack

import pytest

from crm import activity
from crm.errors import Busy
from crm.storage import heavy_work
from crm.storage.heavy_work import MAX_WAITING
from tests.concurrency import kill_process, run_in_threads, start_python

HOLD = """
import sys
from pathlib import Path
from tests.installations import config_for
from crm.storage.heavy_work import heavy_work
from crm.installation.opening import open_tenants
from crm.installation.tenants import Tenants
tenants = open_tenants(config_for(Path(sys.argv[1])))
with tenants.session("acme"), heavy_work():
    print("held", flush=True)
    sys.stdin.readline()
"""


def test_one_runs_at_a_time(crm):
    running, most = 0, 0
    count = threading.Lock()

    def work(_: int) -> None:
        nonlocal running, most
        with crm.tenants.session("acme"), heavy_work.heavy_work():
            with count:
                running += 1
                most = max(most, running)
            time.sleep(0.01)
            with count:
                running -= 1

    run_in_threads(1 + MAX_WAITING, work)
    assert most == 1


@pytest.mark.process
def test_another_process_holds_it_and_its_death_releases_it(crm):
    other = start_python(HOLD, crm.tenants.config.data)
    try:
        assert other.stdout.readline() == "held\n"
        with crm.tenants.session("acme"):
            with pytest.raises(Busy), heavy_work.heavy_work(wait_seconds=0.05):
                pass
            kill_process(other)
            with heavy_work.heavy_work(wait_seconds=5):
                pass
    finally:
        kill_process(other)


def test_writers_do_not_wait_for_it_and_other_tenants_neither(crm, api, ivan):
    with crm.tenants.session("acme"), heavy_work.heavy_work():
        api.create("/leads", name="Anna", phone="+380501234567")
        assert ivan.get("/products/export").status_code == 200


def test_it_has_a_slot_of_the_process(crm, monkeypatch):
    monkeypatch.setattr(activity.process, "slots", 1)

    def compute(_: int) -> None:
        with activity.computing(wait_seconds=0.05):
            pass

    with crm.tenants.session("acme"), heavy_work.heavy_work(), pytest.raises(Busy):
        run_in_threads(1, compute)
    run_in_threads(1, compute)


def test_only_so_many_wait(crm, monkeypatch):
    monkeypatch.setattr(heavy_work, "WAIT_SECONDS", 30.0)
    waiting = threading.Event()
    refused = threading.Event()

    def work(number: int) -> str:
        if number > MAX_WAITING:  # the last one comes when the others hold or wait
            waiting.wait(20)
        try:
            with ExitStack() as stack:
                stack.enter_context(crm.tenants.session("acme"))
                stack.enter_context(heavy_work.heavy_work())
                lock = crm.tenants.tenant("acme").heavy_work_lock
                while lock._places.acquire(blocking=False) and not refused.is_set():
                    lock._places.release()  # there is one more place
                    time.sleep(0.001)
                waiting.set()
                refused.wait(20)
                return "done"
        except Busy:
            refused.set()
            return "refused"

    assert sorted(run_in_threads(2 + MAX_WAITING, work)) == ["done"] * (1 + MAX_WAITING) + [
        "refused"
    ]


@pytest.mark.parametrize(
    "path", ["/api/v1/products/export", "/api/v1/leads/export", "/products/export", "/reports"]
)
def test_work_that_waits_too_long_gets_busy(crm, api, olena, path, monkeypatch):
    monkeypatch.setattr(heavy_work, "WAIT_SECONDS", 0.05)
    caller = api if path.startswith("/api") else olena
    holding, done = threading.Event(), threading.Event()

    def hold() -> None:
        with crm.tenants.session("acme"), heavy_work.heavy_work():
            holding.set()
            done.wait(20)

    holder = threading.Thread(target=hold)
    holder.start()
    try:
        assert holding.wait(20)
        answer = caller.get(path.removeprefix("/api/v1"))
    finally:
        done.set()
        holder.join()
    assert answer.status_code == 503
    assert answer.headers["Retry-After"] == "1"
    assert caller.get(path.removeprefix("/api/v1")).status_code == 200
