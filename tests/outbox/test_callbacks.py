"""Callbacks of a program that embeds the CRM: after the commit, in order, isolated."""

import contextvars
import logging
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from flask import current_app, has_request_context

from crm import CRM
from crm.copies import stores
from crm.errors import NotFound
from crm.outbox import events
from crm.storage.session import after_commit, current_session, savepoint
from tests.embedding.test_embedding import copied
from tests.installations import environ_for, settings_for
from tests.sites import plain

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("shared_wiring")]

ROOT = Path(__file__).resolve().parents[2]
MARIIA = {"name": "Марія", "phone": "067 123 45 67"}


@pytest.fixture
def crm(furnished, tmp_path) -> Iterator[CRM]:
    result = CRM(**settings_for(copied(furnished, tmp_path / "crm")), sends=False)
    yield result
    assert result.callbacks.wait(30)
    result.app.tenants.forget_idle()


def wait_for_callbacks(crm: CRM) -> bool:
    return crm.callbacks.wait(30)


def kinds(received: list[dict[str, Any]]) -> list[str]:
    return [event["type"] for event in received]


# Which


def test_it_is_called_with_the_body_of_the_webhook(crm):
    received: list[dict[str, Any]] = []
    crm.on("lead.created")(received.append)
    with crm.tenant("acme"):
        crm.leads.create(**MARIIA, amount=12.5)
        crm.deals.create(title="A")
        assert wait_for_callbacks(crm)
        assert received == [crm.events.list(type="lead.created")["data"][0]]
    assert received[0]["tenant"] == "acme" and received[0]["data"]["lead"]["name"] == "Марія"


def test_a_callback_may_want_several_kinds_or_all(crm):
    some: list[dict[str, Any]] = []
    every: list[dict[str, Any]] = []
    crm.on("deal.won", "deal.lost", "deal.won")(some.append)
    crm.on("*")(every.append)
    with crm.tenant("acme"):
        crm.deals.create(title="A", status="won")
        crm.deals.create(title="B", status="lost")
    assert wait_for_callbacks(crm)
    assert kinds(some) == ["deal.won", "deal.lost"]
    assert kinds(every) == ["deal.created", "deal.won", "deal.created", "deal.lost"]


@pytest.mark.parametrize("wrong", [("deal.wonn",), ("lead.created", "leads"), ("",), ()])
def test_an_unknown_kind_is_refused_with_the_14(crm, wrong):
    with pytest.raises(ValueError) as refused:
        crm.on(*wrong)
    assert all(kind in str(refused.value) for kind in events.KINDS)


def test_an_async_function_is_refused(crm):
    async def never(event: dict[str, Any]) -> None: ...

    with pytest.raises(TypeError, match="a plain function"):
        crm.on("lead.created")(never)


# When


def test_it_hears_of_it_after_the_commit(crm):
    committed, before = threading.Event(), []
    crm.on("lead.created")(lambda event: before.append(committed.is_set()))
    with crm.tenant("acme"):
        with crm.transaction():
            crm.leads.create(**MARIIA)
            after_commit(committed.set)  # comes after the event's own
            time.sleep(0.05)
            assert before == []
        assert wait_for_callbacks(crm)
    assert len(before) == 1


def test_a_savepoint_that_is_rolled_back_calls_nothing(crm, caplog):
    """peewee calls after_commit for it too, and its number is given again."""
    received: list[dict[str, Any]] = []
    crm.on("*")(received.append)
    with crm.tenant("acme"):
        with crm.transaction():
            crm.leads.create(name="Перша", email="a@a.example")
            with pytest.raises(ZeroDivisionError), savepoint():
                crm.leads.create(name="Ніхто", email="b@a.example")
                crm.leads.create(name="Ніхто", email="c@a.example")
                _ = 1 / 0
            crm.leads.create(name="Друга", email="d@a.example")
        with crm.transaction(), pytest.raises(ZeroDivisionError), savepoint():
            crm.leads.create(name="Ніхто", email="e@a.example")
            _ = 1 / 0
        assert wait_for_callbacks(crm)
    assert [event["data"]["lead"]["name"] for event in received] == ["Перша", "Друга"]
    assert [event["sequence"] for event in received] == [1, 2]
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


def test_a_number_that_another_process_gives_again_is_not_taken_for_ours(crm):
    """Its own callbacks are for that process to call."""
    other = CRM(**settings_for(crm.config.data), sends=False)
    received: list[str] = []
    gate = threading.Event()

    @crm.on("lead.created")
    def note(event: dict[str, Any]) -> None:
        gate.wait(30)
        received.append(event["data"]["lead"]["name"])

    with crm.tenant("acme"):
        crm.leads.create(name="Перша", email="a@a.example")
        with crm.transaction(), pytest.raises(ZeroDivisionError), savepoint():
            crm.leads.create(name="Ніхто", email="b@a.example")
            _ = 1 / 0
    with other.tenant("acme"):
        other.leads.create(name="Чужа", email="c@a.example")
    gate.set()
    assert wait_for_callbacks(crm)
    assert received == ["Перша"]
    other.app.tenants.forget_idle()


def test_a_tenants_events_come_in_the_order_of_their_commits(crm):
    received: dict[str, list[int]] = {"acme": [], "globex": []}

    @crm.on("*")
    def note(event: dict[str, Any]) -> None:
        received[event["tenant"]].append(event["sequence"])

    def work(label: str, number: int) -> None:
        with crm.tenant(label):
            for item in range(5):
                crm.leads.create(name="a", email=f"{number}.{item}@a.example")

    threads = [
        threading.Thread(target=work, args=(label, number))
        for number in range(6)
        for label in received
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert wait_for_callbacks(crm)
    assert received == {"acme": [*range(1, 31)], "globex": [*range(1, 31)]}


# Where


def test_it_visits_the_tenant_and_knows_nothing_of_the_request(furnished, tmp_path):
    site = plain(tmp_path)
    crm = CRM(site, url_prefix="/crm", tenant="acme", sends=False,
              **settings_for(copied(furnished, tmp_path / "d")))  # fmt: skip
    mine = contextvars.ContextVar("mine", default="nothing")
    seen: list[Any] = []

    @crm.on("lead.created")
    def follow_up(event: dict[str, Any]) -> None:
        lead = event["data"]["lead"]
        crm.tasks.create(title=f"Зателефонувати: {lead['name']}", lead_id=lead["id"])
        contexts = has_request_context(), current_app._get_current_object(), mine.get()
        seen.append(
            (
                current_session().label,
                current_session().user_id,
                *contexts,
                threading.current_thread(),
            )
        )

    @site.post("/ask")
    def ask() -> str:
        mine.set("the request's")
        with crm.tenant("acme", user=1):
            crm.leads.create(**MARIIA)
        return "asked"

    assert site.test_client().post("/ask").text == "asked"
    assert wait_for_callbacks(crm)
    ((label, user, request, app, own, thread),) = seen
    assert (label, user, request, app, own) == ("acme", None, False, site, "nothing")
    assert thread.daemon and thread is not threading.main_thread()
    with crm.tenant("acme"):
        (task,) = crm.tasks.list().records
    assert (task["title"], task["created_at"][:2]) == ("Зателефонувати: Марія", "20")
    crm.app.tenants.forget_idle()


def test_an_error_is_logged_without_data_and_stops_nobody(crm, caplog):
    received: list[dict[str, Any]] = []

    @crm.on("lead.created")
    def fails(event: dict[str, Any]) -> None:
        raise LookupError(event["data"]["lead"]["phone"])

    @crm.on("lead.created")
    def leaves(event: dict[str, Any]) -> None:
        sys.exit(event["data"]["lead"]["name"])

    crm.on("lead.created")(received.append)
    with crm.tenant("acme"):
        for _ in range(2):
            crm.leads.create(**MARIIA)
    assert wait_for_callbacks(crm)
    assert len(received) == 2
    named = (
        f"failed for lead.created {received[0]['id']} of acme: LookupError in fails, test_callbacks"
    )
    assert named in caplog.text and "fails" in caplog.text and "SystemExit in leaves" in caplog.text
    assert "380671234567" not in caplog.text and "Марія" not in caplog.text


def test_a_callback_cannot_spoil_the_event_for_the_next(crm):
    received: list[dict[str, Any]] = []
    crm.on("lead.created")(lambda event: event.clear())
    crm.on("lead.created")(received.append)
    with crm.tenant("acme"):
        crm.leads.create(**MARIIA)
    assert wait_for_callbacks(crm)
    assert received[0]["type"] == "lead.created"


@pytest.mark.files
def test_a_tenant_that_is_gone_meanwhile_is_passed_over(crm, caplog):
    received: list[dict[str, Any]] = []
    gate = threading.Event()

    @crm.on("lead.created")
    def note(event: dict[str, Any]) -> None:
        gate.wait(30)
        received.append(event)

    with crm.tenant("acme"):
        crm.leads.create(**MARIIA)
    with crm.tenant("globex"):
        crm.leads.create(**MARIIA)
    stores.delete(crm.app.tenants, "globex")
    with crm.tenant("acme"):
        crm.leads.create(**MARIIA)
    gate.set()
    assert wait_for_callbacks(crm)
    assert [event["tenant"] for event in received] == ["acme", "acme"]
    assert "of globex cannot be passed to callbacks: UnknownTenant" in caplog.text
    with pytest.raises(NotFound), crm.tenant("globex"):
        raise AssertionError


# The process


EXITING = """
import sys, time
from crm import CRM
crm = CRM(data="d", sends=False)
@crm.on("lead.created")
def slow(event):
    time.sleep(0.1)
    print(event["sequence"], flush=True)
with crm.tenant("acme"):
    for number in range(3):
        crm.leads.create(name="a", email=f"{number}@a.example")
"""


@pytest.mark.process
def test_what_is_queued_at_the_end_is_told(furnished, tmp_path):
    copied(furnished, tmp_path / "d")
    ran = run(EXITING, tmp_path)
    assert (ran.stdout, ran.stderr, ran.returncode) == ("1\n2\n3\n", "", 0)


@pytest.mark.process
def test_a_callback_that_hangs_holds_up_the_end_for_seconds_only(furnished, tmp_path):
    copied(furnished, tmp_path / "d")
    script = EXITING.replace("time.sleep(0.1)", "time.sleep(600)")
    short = "from crm.outbox import callbacks; callbacks.EXIT_TIMEOUT_SECONDS = 0.5\n"
    assert run(short + script, tmp_path).returncode == 0  # or it is killed after 60 seconds


FORKING = """
import os
from crm import CRM
crm = CRM(data="d", sends=False)
@crm.on("lead.created")
def received(event):
    print("parent" if os.getpid() == parent else "child", event["sequence"], flush=True)
parent = os.getpid()
def create(number):
    with crm.tenant("acme"):
        crm.leads.create(name="a", email=f"{number}@a.example")
create(1)
assert crm.callbacks.wait(5)
child = os.fork()
if not child:
    create(2)
    assert crm.callbacks.wait(5)
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
create(3)
assert crm.callbacks.wait(5)
"""


@pytest.mark.process
def test_after_a_fork_each_process_tells_what_it_has_written(furnished, tmp_path):
    copied(furnished, tmp_path / "d")
    ran = run(FORKING, tmp_path)
    assert (ran.stdout, ran.returncode) == ("parent 1\nchild 2\nparent 3\n", 0), ran.stderr


def run(script: str, folder: Path) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, "-c", script],
        cwd=folder, capture_output=True, text=True, timeout=60,
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(ROOT), "LANG": "C.UTF-8"}
        | environ_for(folder / "d"),
    )  # fmt: skip
