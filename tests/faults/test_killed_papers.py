"""kill -9 while papers are made: numbers have no gap, none is given twice, and each paper that was
answered is there with the whole of what it shows."""

import http.client
import json
import signal
import threading
import time
from collections import Counter
from pathlib import Path

import pytest

from crm.access import api_keys
from crm.installation.tenants import Tenants
from crm.resources import tenant
from crm.resources.deals import record as deals
from crm.resources.papers import company
from crm.resources.papers import record as papers
from crm.storage.session import rows
from tests.company_papers import REQUISITES, pdf_without_typst
from tests.concurrency import ForkServer
from tests.faults.killing import die_at_commit, killed
from tests.http_calls import ask
from tests.installations import config_for
from tests.waiting import wait_for

pytestmark = [pytest.mark.process, pytest.mark.slow]

THREADS, KILLS, GROWTH = 8, 3, 6  # answers between two kills at least
PATIENCE_SECONDS = 60
KINDS = ("invoice", "offer")


def be_killed(data: str, deal_id: str, number: int, when: str) -> None:
    """Make a paper in a process that is killed at its n-th commit of the tenant's rows."""
    with Tenants(config_for(Path(data))).session("acme") as session, pdf_without_typst():
        die_at_commit(session, number, when)
        papers.create(deal_id, {"kind": "invoice"})


@pytest.fixture
def deal(tmp_path: Path) -> tuple[int, str]:
    """The id of a deal of acme, in a data folder that is `tmp_path`, and a key."""
    tenants = Tenants(config_for(tmp_path))
    tenant.open_tenant(tenants, "acme", plan="business", owner={"name": "Олена"})
    with tenants.session("acme"):
        company.update(requisites=REQUISITES)
        id = deals.create(deals.DEAL_IN.parse({"title": "Крісла", "amount": "1250.50"}))
        key = api_keys.create("tests", "*", 1)[1]
    tenants.forget_idle()
    return id, key


def stored(data: Path) -> list[tuple[str, int, str, str | None]]:
    """(kind, sequence, snapshot, sha256) of all papers; what has a PDF has its content."""
    tenants = Tenants(config_for(data))
    with tenants.session("acme") as session:
        found = rows("SELECT kind, sequence, snapshot, sha256 FROM paper ORDER BY kind, sequence")
        for _, sequence, snapshot, sha256 in found:
            assert json.loads(snapshot)["number"].startswith(f"{sequence}/")
            assert sha256 is None or session.source.contents.size(sha256) > 0
    tenants.forget_idle()
    return found


def test_a_number_is_given_with_its_paper_or_not_at_all(tmp_path: Path, deal: tuple) -> None:
    """Killed before the first commit there is none; after it, one that gets its PDF later."""
    sequences = []
    with ForkServer(__name__) as server:
        for number, when in ((1, "before"), (1, "after"), (2, "before"), (2, "after")):
            assert server.call("be_killed", tmp_path, deal[0], number, when) == -signal.SIGKILL
            made = stored(tmp_path)
            sequences.append([sequence for _, sequence, _, _ in made])
    assert sequences == [[], [1], [1, 2], [1, 2, 3]]
    assert [sha256 is not None for *_, sha256 in made] == [False, False, True]


def test_numbers_have_no_gap_when_a_server_is_killed_again_and_again(
    tmp_path: Path, deal: tuple
) -> None:
    """Two processes give them to eight threads; half of the requests are refused."""
    id, key = deal
    answered: Counter[tuple[str, str]] = Counter()
    lock = threading.Lock()

    def make(port: int, number: int, over: threading.Event) -> None:
        kind = KINDS[number % 2]
        while not over.is_set():
            try:
                body = {"kind": kind if time.monotonic_ns() % 2 else "nonsense"}
                headers = {"Prefer": "return=representation"}
                answer = ask(port, "POST", f"/api/v1/deals/{id}/papers", body, key, **headers)
            except (OSError, http.client.HTTPException):
                return  # it was killed
            if answer.status == 201:
                with lock:
                    answered[kind, answer.json["data"]["number"]] += 1

    for _ in range(KILLS):
        over = threading.Event()
        with killed(tmp_path, 2, CRM_PLANS="business=0") as port:
            arguments = ((port, number, over) for number in range(THREADS))
            threads = [threading.Thread(target=make, args=one, daemon=True) for one in arguments]
            for thread in threads:
                thread.start()
            growth = answered.total() + GROWTH
            wait_for(lambda most=growth: answered.total() >= most, PATIENCE_SECONDS)
        over.set()
        for thread in threads:
            thread.join(30)
        made = stored(tmp_path)
        for kind in KINDS:
            sequences = [sequence for one, sequence, _, _ in made if one == kind]
            assert sequences == list(range(1, len(sequences) + 1))
        numbers = {(kind, json.loads(snapshot)["number"]) for kind, _, snapshot, _ in made}
        assert answered.keys() <= numbers and set(answered.values()) == {1}
