"""Deliveries as rows: who gets what, when, in which order, and what becomes of it (D15)."""

from collections import Counter
from dataclasses import replace
from datetime import datetime

import pytest

from crm.json import loads
from crm.outbox import deliveries, events, subscriptions
from crm.outbox.call import Outcome
from crm.outbox.subscriptions import Webhook
from crm.resources import tasks, tenant, webhooks
from crm.resources.leads.record import create as create_lead
from crm.storage.session import row, rows, transaction

GOOD = Outcome(duration_ms=12, status=204)
BAD = Outcome(duration_ms=12, status=500, answer="oops")
ME = "this sender"
DAY = 86_400


class Acme:
    """Acme's outbox, without a sender: the test claims and says what became of it."""

    def __init__(self, crm, clock):
        self.crm, self.clock = crm, clock

    def endpoint(self, **data):
        with self.crm.tenants.session("acme"):
            return webhooks.create({"url": "https://erp.example/hook", **data})[0]

    def webhook(self, id):
        with self.crm.tenants.session("acme"):
            return webhooks.WEBHOOK.one(id)

    def lead(self, name="Марія"):
        with self.crm.tenants.session("acme"):
            return create_lead({"name": name, "phone": "+380501234567"})

    def task(self, *titles):
        """A task with one event for each title: created, done, done again …"""
        with self.crm.tenants.session("acme"), transaction():
            id = tasks.create({"title": titles[0]})
            for number, _ in enumerate(titles[1:]):
                tasks.update(id, {"status": "done"})
                if number < len(titles) - 2:
                    tasks.update(id, {"status": "open"})
            return id

    def claim(self, most=50, probes=50, lease=ME):
        with self.crm.tenants.session("acme"):
            return deliveries.claim_due(lease, most, probes)

    def take(self, **more):
        return self.claim(**more)[0]

    def record(self, claimed, outcome=GOOD):
        with self.crm.tenants.session("acme"):
            at = subscriptions.now()
            for sent in claimed:
                deliveries.record_outcome(sent, at, outcome)

    def deliver(self, outcome=GOOD):
        """One round: what is due is claimed and recorded so. Gives the sequences."""
        claimed = self.take()
        self.record(claimed, outcome)
        return [sequence(sent) for sent in claimed]

    def log(self, id):
        with self.crm.tenants.session("acme"):
            return webhooks.DELIVERY.every("webhook_id = ? ORDER BY id", id)

    def do(self, verb, *args, **more):
        with self.crm.tenants.session("acme"):
            return verb(*args, **more)


def sequence(claimed):
    return loads(claimed.body)["sequence"]


@pytest.fixture
def acme(crm, clock):
    return Acme(crm, clock)


@pytest.fixture
def webhook_id(acme):
    """The id of an endpoint to which one event is due."""
    id = acme.endpoint()
    acme.lead()
    return id


# Who gets what


def test_without_an_endpoint_nothing_is_written_and_nobody_woken(acme, monkeypatch):
    monkeypatch.setattr(events, "notify_after_commit", lambda: pytest.fail("woken"))
    acme.lead()
    assert acme.do(rows, "SELECT * FROM delivery") == []


# Claims


def test_what_is_claimed_is_not_claimed_twice(acme, webhook_id):
    assert len(acme.take()) == 1
    claimed, again = acme.claim()
    assert claimed == []
    assert again == acme.clock.moment + 60 + 1  # a minute, and the second of the clock's rounding


@pytest.mark.files  # where several nodes send, another sender may be alive
def test_what_a_dead_sender_had_claimed_goes_again_at_once(acme, webhook_id):
    (before,) = acme.take(lease="the dead")
    (again,) = acme.take()
    assert (again.id, again.body) == (before.id, before.body)


def test_what_hangs_in_the_own_process_goes_again_after_a_minute(acme, webhook_id):
    acme.take()
    acme.clock.tick(60)
    assert acme.take() == []
    acme.clock.tick(1)
    assert len(acme.take()) == 1


def test_the_late_failure_of_one_that_was_given_away_changes_no_schedule(acme, webhook_id):
    late = acme.take(lease="the dead")
    acme.clock.tick(61)
    assert acme.take()
    acme.record(late, BAD)
    (log,) = acme.log(webhook_id)
    assert (log["status"], len(log["attempts"])) == ("pending", 1)
    assert acme.do(row, "SELECT tries, lease FROM delivery") == (0, ME)


def test_an_outcome_is_not_noted_at_another_tenants_delivery_of_that_number(acme, webhook_id):
    (sent,) = acme.take()
    acme.record([replace(sent, event_id="evt_of_the_tenant_before")])
    (log,) = acme.log(webhook_id)
    assert (log["status"], log["attempts"]) == ("pending", [])


def test_its_late_success_ends_the_delivery(acme, webhook_id):
    late = acme.take(lease="the dead")
    acme.take()
    acme.record(late)
    assert acme.log(webhook_id)[0]["status"] == "delivered"


def test_a_claim_tells_when_the_next_is_due(acme, webhook_id):
    acme.deliver(BAD)
    claimed, again = acme.claim()
    assert claimed == []
    assert acme.clock.moment + 5 <= again <= acme.clock.moment + 7
    acme.clock.tick(10)
    acme.deliver()
    assert acme.claim() == ([], None)


def test_more_that_is_due_than_can_be_taken_is_told_as_a_time_past(acme):
    acme.endpoint()
    for _ in range(3):
        acme.lead()
    claimed, again = acme.claim(most=2)
    assert len(claimed) == 2
    assert again <= acme.clock.moment


def test_what_a_suspended_tenant_has_waits_until_it_is_resumed(acme, webhook_id, monkeypatch):
    acme.do(tenant.suspend)
    assert acme.claim() == ([], None)  # and nobody looks again
    resumed = []
    monkeypatch.setattr(tenant, "notify_after_commit", lambda: resumed.append(1))
    acme.do(tenant.resume)
    assert resumed and len(acme.take()) == 1


# How many at once


def test_four_are_in_flight_to_a_healthy_endpoint(acme):
    acme.endpoint()
    for _ in range(6):
        acme.lead()
    first = acme.take()
    assert len(first) == 4
    assert acme.claim()[1] > acme.clock.moment  # those in flight ring when they end
    acme.record(first[:1])
    assert len(acme.take()) == 1


def test_to_a_failing_endpoint_it_is_one_at_a_time_until_it_takes_one(acme):
    id = acme.endpoint()
    for _ in range(6):
        acme.lead()
    first = acme.take()
    acme.record(first, BAD)
    assert acme.webhook(id)["state"] == "failing"
    (probe,) = acme.take()
    assert probe.probes
    assert acme.take() == []
    acme.record([probe])
    assert acme.webhook(id)["state"] == "active"
    acme.clock.tick(10)
    assert len(acme.take()) == 4


def test_probes_are_claimed_only_while_there_is_room_for_probes(acme):
    acme.endpoint()
    healthy = acme.endpoint(url="https://shop.example/hook")
    for _ in range(2):
        acme.lead()
    for sent in acme.take():
        acme.record([sent], GOOD if "shop" in sent.url else BAD)
    acme.lead()
    claimed, again = acme.claim(probes=0)
    assert [sent.url for sent in claimed] == [acme.webhook(healthy)["url"]]
    assert again <= acme.clock.moment


def test_a_tenant_has_twelve_in_flight_but_each_endpoint_at_least_one(acme):
    for number in range(6):
        acme.endpoint(url=f"https://erp{number}.example/hook")
    for _ in range(5):
        acme.lead()
    urls = Counter(sent.url for sent in acme.take())
    assert sorted(urls.values()) == [1, 1, 1, 4, 4, 4]


# The schedule


def test_ten_attempts_at_once_and_after_the_delays_of_the_decision(acme, webhook_id):
    delays = [5, 5 * 60, 30 * 60, 2 * 3600, 5 * 3600, 10 * 3600, 14 * 3600, 20 * 3600, DAY]
    for delay in delays:
        assert acme.deliver(BAD) == [1]
        (log,) = acme.log(webhook_id)
        due = datetime.fromisoformat(log["next_attempt_at"]).timestamp() - acme.clock.moment
        assert delay <= due <= delay * 1.1 + 1
        acme.clock.tick(due - 1)
        assert acme.take() == []
        acme.clock.tick(1)
    assert acme.deliver(BAD) == [1]
    (log,) = acme.log(webhook_id)
    assert (log["status"], log["next_attempt_at"]) == ("failed", None)
    assert len(log["attempts"]) == 10
    assert acme.claim() == ([], None)


@pytest.mark.parametrize(
    ("asked", "least", "most"),
    [(None, 5, 7), (0, 5, 7), (3, 5, 7), (600, 600, 601), (10 * DAY, DAY, DAY + 1)],
)
def test_retry_after_only_lengthens_and_up_to_a_day(acme, webhook_id, asked, least, most):
    acme.deliver(Outcome(duration_ms=1, status=503, retry_after=asked))
    due = acme.log(webhook_id)[0]["next_attempt_at"]
    assert least <= datetime.fromisoformat(due).timestamp() - acme.clock.moment <= most


# Order


def test_three_changes_of_one_record_arrive_in_order_while_the_first_fails(acme):
    acme.endpoint()
    acme.task("Дзвінок", "done", "done")
    assert acme.deliver(BAD) == [1]
    assert acme.deliver() == []
    acme.clock.tick(7)
    assert [acme.deliver() for _ in range(4)] == [[1], [2], [3], []]


def test_other_records_do_not_wait(acme):
    acme.endpoint()
    acme.task("Дзвінок", "done")
    acme.task("Лист")
    assert acme.deliver(BAD) == [1, 3]
    assert acme.deliver() == []


def test_other_endpoints_do_not_wait(acme):
    acme.endpoint()
    acme.endpoint(url="https://shop.example/hook")
    acme.task("Дзвінок", "done")
    first = acme.take()
    acme.record([sent for sent in first if "erp" in sent.url], BAD)
    acme.record([sent for sent in first if "shop" in sent.url])
    assert acme.deliver() == [2]


def test_a_delivery_given_up_lets_the_next_of_its_record_go(acme):
    id = acme.endpoint()
    acme.task("Дзвінок", "done")
    for delay in (*deliveries.RETRY_DELAYS_SECONDS, 0):
        assert acme.deliver(BAD) == [1]
        acme.clock.tick(delay * 1.1 + 1)
    assert acme.deliver() == [2]
    assert [log["status"] for log in acme.log(id)] == ["failed", "delivered"]


# Health


def test_five_days_of_failures_pause_it_and_a_minute_less_does_not(acme, webhook_id):
    acme.deliver(BAD)
    acme.clock.tick(5 * DAY - 60)
    acme.deliver(BAD)
    assert acme.webhook(webhook_id)["state"] == "failing"
    acme.clock.tick(400)
    acme.deliver(BAD)
    assert acme.webhook(webhook_id)["state"] == "paused"


def test_one_success_in_between_begins_the_five_days_anew(acme, webhook_id):
    acme.deliver(BAD)
    acme.clock.tick(4 * DAY)
    acme.deliver()
    acme.lead()
    acme.deliver(BAD)
    acme.clock.tick(4 * DAY)
    acme.deliver(BAD)
    assert acme.webhook(webhook_id)["state"] == "failing"


def test_an_endpoint_deleted_while_one_is_in_flight_is_no_error(acme, webhook_id):
    claimed = acme.take()
    with acme.crm.tenants.session("acme"), transaction():
        Webhook.find(webhook_id).erase()
    acme.record(claimed)
    assert acme.do(rows, "SELECT * FROM delivery UNION ALL SELECT * FROM delivery") == []
    assert acme.do(rows, "SELECT * FROM attempt") == []


def test_switched_off_while_one_is_in_flight_that_one_may_still_arrive(acme):
    id = acme.endpoint()
    acme.task("Дзвінок", "done")
    claimed = acme.take()
    with acme.crm.tenants.session("acme"), transaction():
        webhooks.update(id, {"active": 0})
    acme.record(claimed)
    assert [log["status"] for log in acme.log(id)] == ["delivered", "held"]
    assert acme.claim() == ([], None)


# On request


def test_a_resent_delivery_is_the_same_bytes_on_a_new_schedule(acme, webhook_id):
    first = acme.take()
    acme.record(first)
    acme.do(deliveries.resend, first[0].id)
    (again,) = acme.take()
    assert again.body == first[0].body
    acme.record([again], BAD)
    (log,) = acme.log(webhook_id)
    assert [attempt["cause"] for attempt in log["attempts"]] == ["event", "resend"]
    assert log["status"] == "pending"


def test_an_earlier_event_that_is_resent_goes_before_the_later_ones_that_wait(acme):
    id = acme.endpoint()
    acme.task("Дзвінок", "done", "done")
    assert acme.deliver() == [1]
    assert acme.deliver(BAD) == [2]
    acme.do(deliveries.resend, acme.log(id)[0]["id"])
    acme.clock.tick(10)
    assert [acme.deliver() for _ in range(4)] == [[1], [2], [3], []]


def test_one_that_waits_for_an_earlier_event_keeps_its_place_when_it_is_resent(acme):
    id = acme.endpoint()
    acme.task("Дзвінок", "done")
    assert acme.deliver(BAD) == [1]
    acme.do(deliveries.resend, acme.log(id)[1]["id"])
    assert acme.deliver() == []
    acme.clock.tick(10)
    assert [acme.deliver() for _ in range(2)] == [[1], [2]]


def test_recovery_begins_at_its_time_and_keeps_to_the_kinds(acme):
    id = acme.endpoint(events='["task.created"]', active=0)
    acme.task("раніше", "done")
    acme.clock.tick(60)
    since = acme.do(subscriptions.now)
    acme.task("пізніше", "done")
    acme.lead()
    with acme.crm.tenants.session("acme"), transaction():
        webhooks.update(id, {"active": 1})
    assert acme.do(deliveries.recover, id, since) == 1
    assert acme.deliver() == [3]


def test_410_holds_the_rest_and_recovery_keeps_the_order_of_each_record(acme):
    id = acme.endpoint()
    acme.task("Дзвінок", "done", "done")
    acme.task("Лист", "done")
    acme.deliver(Outcome(duration_ms=1, status=410))
    assert [log["status"] for log in acme.log(id)] == ["held"] * 5
    assert acme.claim() == ([], None)
    with acme.crm.tenants.session("acme"), transaction():
        webhooks.update(id, {"active": 1})
    assert acme.do(deliveries.recover, id, "2026-03-01T00:00:00Z") == 5
    assert [acme.deliver() for _ in range(4)] == [[1, 4], [2, 5], [3], []]


def test_recovery_hurries_what_waits_for_its_next_attempt(acme, webhook_id):
    for delay in (6, 331, 1981):
        acme.deliver(BAD)
        acme.clock.tick(delay)
    acme.deliver(BAD)
    assert acme.take() == []
    assert acme.do(deliveries.recover, webhook_id, "2026-03-01T00:00:00Z") == 1
    assert acme.deliver() == [1]
