"""Exports, imports and the reports of one tenant run one at a time, in all processes."""

import threading
import time

import pytest

from crm import activity
from crm.errors import Busy
from crm.storage import heavy_work
from crm.storage.heavy_work import MAX_WAITING
from tests.concurrency import holding, kill_process, run_in_threads, start_python

HOLD = """
import sys
from pathlib import Path
from tests.installations import config_for
from crm.storage.heavy_work import heavy_work
from crm.installation.tenants import Tenants
tenants = Tenants(config_for(Path(sys.argv[1])))
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
            with heavy_work.heavy_work(wait_seconds=30):
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


def test_only_so_many_wait(crm):
    places = crm.tenants.tenant("acme").heavy_work_lock._places
    for _ in range(1 + MAX_WAITING):  # one holds it, the others wait
        assert places.acquire(blocking=False)
    with crm.tenants.session("acme"), pytest.raises(Busy), heavy_work.heavy_work(3600):
        pass
    places.release()
    with crm.tenants.session("acme"), heavy_work.heavy_work():
        pass


@pytest.mark.parametrize("path", ["/api/v1/products/export", "/reports"])
def test_work_that_waits_too_long_gets_busy(crm, api, olena, path, monkeypatch):
    monkeypatch.setattr(heavy_work, "WAIT_SECONDS", 0.05)
    caller = api if path.startswith("/api") else olena
    with holding(crm.tenants, "acme", heavy_work.heavy_work):
        answer = caller.get(path.removeprefix("/api/v1"))
    assert answer.status_code == 503
    assert answer.headers["Retry-After"] == "1"
    assert caller.get(path.removeprefix("/api/v1")).status_code == 200
