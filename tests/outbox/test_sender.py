"""The sender at work: real threads, real HTTP, real processes (D15)."""

import logging
import os
import subprocess
import sys
import threading
import time

import pytest

from crm import create_app
from crm.config import LOOPBACK
from crm.installation.tenants import Tenants
from crm.outbox import call, deliveries
from crm.outbox.sender import Sender
from crm.resources import tenant, webhooks
from crm.resources.leads.record import create as create_lead
from crm.storage import wakeup
from crm.storage.session import one_row, transaction
from crm.storage.wakeup import WakeupPipe
from tests.installations import config_for, environ_for
from tests.server_process import ROOT, is_free, run_server
from tests.waiting import wait_for

pytestmark = pytest.mark.slow

ALLOWED = {"CRM_WEBHOOK_ALLOW": "127.0.0.0/8"}


def endpoint(tenants, label, hook, **data):
    with tenants.session(label):
        return webhooks.create({"url": hook.url, **data})[0]


def lead(tenants, label="acme"):
    with tenants.session(label):
        return create_lead({"name": "Марія", "phone": "+380501234567"})


def open_to_loopback(crm):
    return Tenants(config_for(crm.tenants.config.data, webhook_allow=LOOPBACK))


def settled(tenants, count, label="acme"):
    """Wait until so many deliveries are delivered."""

    def delivered() -> int:
        with tenants.session(label):
            return one_row("SELECT count(*) FROM delivery WHERE status = 'delivered'")[0]

    wait_for(lambda: delivered() >= count, what=lambda: f"{delivered()} of {count} were delivered")


def statuses(tenants, id, label="acme"):
    with tenants.session(label):
        return [log["status"] for log in webhooks.DELIVERY.every("webhook_id = ? ORDER BY id", id)]


def test_what_was_left_by_another_process_goes_when_the_sender_begins(crm, hook, monkeypatch):
    tenants = open_to_loopback(crm)
    endpoint(tenants, "acme", hook)
    endpoint(tenants, "globex", hook)
    lead(tenants)
    lead(tenants, "globex")
    monkeypatch.setattr(deliveries, "LEASE_SECONDS", 1)  # where several nodes send, it must end
    with tenants.session("acme"):
        deliveries.claim_due("one that died", 9, 9)
    sender = Sender(tenants)
    sender.start()
    try:
        received = hook.wait_for(2)
    finally:
        sender.close()
    assert {request.event["tenant"] for request in received} == {"acme", "globex"}


@pytest.mark.process
def test_a_commit_of_another_process_wakes_the_sender(sending, hook):
    endpoint(sending.tenants, "acme", hook, events='["lead.created"]')
    with sending.tenants.session("acme"), transaction():
        tenant.mark_as_trial()
    folder = sending.tenants.config.data
    command = [sys.executable, "app.py", "trigger", "lead.created", "--tenant", "acme"]
    command += ["--data", str(folder)]
    environ = os.environ | environ_for(folder)
    subprocess.run(command, cwd=ROOT, env=environ, check=True, capture_output=True)
    ended = time.time()
    (received,) = hook.wait_for(1)
    assert received.at < ended + 5  # by itself it would look after a minute
    assert received.event["type"] == "lead.created"


def test_of_several_processes_one_sends_and_the_next_takes_over(crm, hook):
    """A lock is held by whoever opened it: two senders of one process are as good as two."""
    first, second = Sender(open_to_loopback(crm)), Sender(open_to_loopback(crm))
    tenants = open_to_loopback(crm)
    endpoint(tenants, "acme", hook)
    first.start()
    lead(tenants)
    hook.wait_for(1)
    second.start()
    for _ in range(5):
        lead(tenants)
    hook.wait_for(6)
    first.close()
    lead(tenants)
    received = hook.wait_for(7)
    second.close()
    assert len({request.event["sequence"] for request in received}) == len(received) == 7


def test_a_tenant_that_is_being_written_delays_no_other(crm, hook):
    tenants = open_to_loopback(crm)
    endpoint(tenants, "acme", hook)
    endpoint(tenants, "globex", hook)
    lead(tenants, "globex")
    writing, written = threading.Event(), threading.Event()

    def write():
        with open_to_loopback(crm).session("globex"), transaction():
            writing.set()
            written.wait(60)

    thread = threading.Thread(target=write)
    thread.start()
    assert writing.wait(30)
    sender = Sender(tenants)
    sender.start()
    for number in range(3):
        lead(tenants)
        assert hook.wait_for(number + 1, 8)[number].event["tenant"] == "acme"
    written.set()
    thread.join()
    assert hook.wait_for(4)[3].event["tenant"] == "globex"
    sender.close()


@pytest.mark.files
def test_a_broken_file_is_told_and_delays_no_other(crm, hook, caplog):
    tenants = open_to_loopback(crm)
    endpoint(tenants, "globex", hook)
    (tenants.files.folder / "aaa.db").write_bytes(b"not a database" * 100)
    lead(tenants, "globex")
    sender = Sender(tenants)
    sender.start()
    try:
        hook.wait_for(1)
    finally:
        sender.close()
    results = [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR]
    (line,) = results
    assert line.startswith("the file of aaa cannot be used")


def test_one_that_cannot_be_recorded_goes_again(sending, hook, monkeypatch, caplog):
    record, failed = deliveries.record_outcome, threading.Event()

    def fails_once(*args):
        if not failed.is_set():
            failed.set()
            raise RuntimeError("it fails")
        record(*args)

    monkeypatch.setattr(deliveries, "record_outcome", fails_once)
    monkeypatch.setattr(deliveries, "LEASE_SECONDS", 1)
    endpoint(sending.tenants, "acme", hook)
    lead(sending.tenants)
    hook.wait_for(1)
    assert failed.wait(30)
    assert [request.event["sequence"] for request in hook.wait_for(2)] == [1, 1]
    settled(sending.tenants, 1)
    assert "was interrupted" in caplog.text


def test_nothing_is_claimed_after_the_stop_and_what_is_in_flight_ends(crm, hook):
    tenants = open_to_loopback(crm)
    id = endpoint(tenants, "acme", hook)
    goes_on = threading.Event()
    hook.answer = lambda _: goes_on.wait(30) and 204
    sender = Sender(tenants)
    sender.start()
    lead(tenants)
    hook.wait_for(1)
    sender.stop()
    lead(tenants)
    threading.Timer(0.3, goes_on.set).start()
    sender.close()
    assert statuses(tenants, id) == ["delivered", "pending"]
    assert len(hook.received) == 1


def test_no_tenant_is_looked_at_after_the_sender_is_closed(crm, monkeypatch):
    begun, goes_on = threading.Event(), threading.Event()
    monkeypatch.setattr(Sender, "_has_work", lambda *_: begun.set() or goes_on.wait(30))
    sender = Sender(crm.tenants)
    sender.start()
    assert begun.wait(30)
    threading.Timer(0.3, goes_on.set).start()
    sender.close()
    assert not [thread for thread in threading.enumerate() if thread.name == "scan"]


@pytest.mark.process
def test_a_fork_starts_a_sender_of_its_own(crm):
    sender = Sender(crm.tenants)
    assert not sender.started
    lease = sender.lease
    sender.start()
    assert sender.started
    assert sender.lease != lease, "processes that were forked would take each other for alive"
    child = os.fork()
    if not child:
        os._exit(int(sender.started))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    sender.close()


def test_an_app_begins_to_send_with_its_first_request(crm, hook, furnished):
    tenants = open_to_loopback(crm)
    endpoint(tenants, "acme", hook)
    lead(tenants)
    app = create_app(tenants.config)
    assert not app.sender.started
    app.test_client().get("/api/v1/users/me", headers={"Host": "acme.localhost"})
    hook.wait_for(1)
    app.sender.close()


@pytest.mark.process
def test_the_server_sends_without_a_request_and_ends_when_what_is_in_flight_has_ended(crm, hook):
    tenants = open_to_loopback(crm)
    id = endpoint(tenants, "acme", hook)
    goes_on = threading.Event()
    hook.answer = lambda _: goes_on.wait(30) and 204
    with run_server(tenants.config.data, **ALLOWED) as port:
        for _ in range(6):
            lead(tenants)
        hook.wait_for(4)

        def go_on_once_stopped() -> None:
            wait_for(lambda: is_free(port), 60)
            goes_on.set()

        stopping = threading.Thread(target=go_on_once_stopped)
        stopping.start()
        begun = time.monotonic()
    assert time.monotonic() - begun < call.CALL_TIMEOUT_SECONDS
    stopping.join()
    assert sorted(statuses(tenants, id)) == ["delivered"] * 4 + ["pending"] * 2


# The wake-up pipe


def test_every_notification_arrives_and_many_of_one_tenant_as_one(tmp_path):
    pipe = WakeupPipe(tmp_path)
    with pipe.listening() as listener:
        for label in ("acme", "globex", "acme"):
            pipe.notify(label)
        assert listener.wait(1) == ({"acme", "globex"}, False)
        assert listener.wait(0.01) == (set(), False)


def test_a_full_pipe_says_that_notifications_may_be_lost_and_holds_nobody_up(tmp_path):
    pipe = WakeupPipe(tmp_path)
    with pipe.listening() as listener:
        begun = time.monotonic()
        for number in range(8000):
            pipe.notify(f"tenant-{number}")
        assert time.monotonic() - begun < 20
        labels, lost = listener.wait(1)
        assert lost
        assert "tenant-7999" not in labels
        pipe.notify("acme")
        heard, lost = listener.wait(1)
        assert "acme" in heard
        assert not lost


def test_lost_notifications_make_the_sender_look_at_everybody(sending, hook, monkeypatch):
    endpoint(sending.tenants, "globex", hook)
    monkeypatch.setattr(wakeup, "LOSS_PART", 0)
    with open_to_loopback(sending).session("globex") as session:
        session.source.wakeup_pipe = WakeupPipe(sending.tenants.config.data / "elsewhere")
        create_lead({"name": "Марія", "phone": "+380501234567"})
    sending.tenants.wakeup_pipe.notify("acme")
    hook.wait_for(1)
