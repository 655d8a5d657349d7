"""Deliveries: one row for each event and webhook that wants it; every attempt is stored (D15).

Each is sent at least once, in order per webhook and record: of a record's pending deliveries to a
webhook only the earliest has a `due_at`; the next one gets it when that one was delivered or has
failed for good. A sender claims deliveries by a lease in the row, which expires if it dies.
`due_at` and `leased_until` are times of the steady clock, so a step of the machine's clock makes
nothing due sooner or later.

Where several nodes send a tenant's deliveries, all of them count what the others have in flight,
and only the end of a lease frees it. Claiming is a transaction, which is one at a time per tenant,
so it needs no SKIP LOCKED: a second sender sees what the first has claimed.
"""

import math
import random
from collections.abc import Callable
from dataclasses import dataclass

from crm.errors import NotFound
from crm.json import dumps, integer_id
from crm.outbox import events, in_flight
from crm.outbox.call import Outcome
from crm.outbox.subscriptions import Webhook
from crm.records.retention import delete_after
from crm.storage.clocks import steady_before, steady_now, steady_seconds
from crm.storage.session import (
    current_session,
    execute,
    insert,
    notify_after_commit,
    now,
    one_row,
    row,
    rows,
    time_text,
    transaction,
)

RETRY_DELAYS_SECONDS = (5, 300, 1800, 7200, 18_000, 36_000, 50_400, 72_000, 86_400)
MAX_JITTER = 0.1  # the part of a delay that chance may add to it
MAX_RETRY_AFTER_SECONDS = 86_400  # of a receiver's Retry-After
MAX_IN_FLIGHT_PER_TENANT = 12  # above it, each webhook has at most 1
LEASE_SECONDS = 60
TEST_KIND = "webhook.test"

EVENT_ID = "coalesce(test_id, (SELECT id FROM event WHERE sequence = delivery.sequence))"
ANY_PENDING = "EXISTS (SELECT 1 FROM delivery WHERE status = 'pending')"
COUNT_UNFINISHED = """
    SELECT status, count(*), min(created_at) FROM delivery
    WHERE status IN ('pending', 'held', 'failed') GROUP BY status ORDER BY status
"""
CLAIM_DUE = """
    UPDATE delivery SET lease = ?, leased_until = ? WHERE id IN (
        SELECT id FROM delivery WHERE webhook_id = ? AND status = 'pending' AND due_at <= ?
            AND lease IS NULL ORDER BY due_at, id LIMIT ?)
    RETURNING id, sequence, test_id, created_at, cause, user_id, key_id
"""
OF_EVENTS = """
    FROM delivery JOIN event ON event.sequence = delivery.sequence
        JOIN webhook ON webhook.id = delivery.webhook_id WHERE
"""
# Makes the first pending delivery of each record to a webhook due; the others wait for it.
SET_DUE_TIMES = """
    UPDATE delivery SET due_at = CASE WHEN EXISTS (
            SELECT 1 FROM delivery AS earlier WHERE earlier.webhook_id = delivery.webhook_id
                AND earlier.noun = delivery.noun AND earlier.record_id = delivery.record_id
                AND earlier.status = 'pending' AND earlier.sequence < delivery.sequence
        ) THEN NULL ELSE coalesce(due_at, ?) END
    WHERE webhook_id = ? AND status = 'pending' AND lease IS NULL AND sequence IS NOT NULL
"""
FROM_SUBSCRIBED_EVENTS = """
    FROM event WHERE at >= ? AND instr(?, '"' || type || '"') > 0 AND {} EXISTS (
        SELECT 1 FROM delivery WHERE delivery.sequence = event.sequence AND webhook_id = ? {})
"""


@dataclass(frozen=True, slots=True)
class ClaimedDelivery:
    """A delivery that its claimer must send now."""

    id: int
    url: str
    secrets: tuple[str, ...]
    event_id: str
    body: bytes
    lease: str
    probes: bool  # the webhook is failing: this delivery shows whether it still does
    cause: str
    user_id: int | None
    key_id: int | None


def count_unfinished() -> list[tuple[str, int, str]]:
    """Return (status, count, created_at of the oldest) of failed, held and pending deliveries."""
    return rows(COUNT_UNFINISHED)


def claim_due(
    lease: str,
    max_deliveries: int,
    max_probes: int,
    is_stopped: Callable[[], bool] = lambda: False,
) -> tuple[list[ClaimedDelivery], float | None]:
    """Claim up to `max_deliveries` that are due, `max_probes` of them to failing webhooks.

    `lease` is the random name of the sender, which claims nothing once `is_stopped`. The second
    value is the time in epoch seconds to call this again if nothing else happens: in the past if
    more was due than could be claimed, None if there is nothing to wait for.
    """
    moment, source = steady_now(), current_session().source
    states = in_flight.read_states(lease, moment)
    next_check = in_flight.next_check_time(states)
    is_due = any(
        state.ended_leases or (state.due_at and state.due_at <= moment) for state in states
    )
    if not is_due and source.is_due_noted(next_check):
        return [], next_check
    with transaction():
        if is_stopped():  # perhaps while this waited for its turn to write
            return [], next_check
        if any(state.ended_leases for state in states):
            in_flight.free_ended_leases(lease, moment)
        states = in_flight.read_states(lease, moment)
        claimed: list[ClaimedDelivery] = []
        tenant_slots = MAX_IN_FLIGHT_PER_TENANT - sum(state.in_flight for state in states)
        for state in states:
            minimum = 0 if state.in_flight else 1  # no webhook waits for the others of its tenant
            slots = min(state.free_slots, max(tenant_slots, minimum), max_deliveries)
            if state.failing:
                slots = min(slots, max_probes)
            batch = _claim_for_webhook(lease, state, slots) if slots > 0 else []
            claimed += batch
            max_deliveries -= len(batch)
            tenant_slots -= len(batch)
            max_probes -= len(batch) if state.failing else 0
        next_check = in_flight.next_check_time(in_flight.read_states(lease, moment))
        source.note_due(next_check)
        return claimed, next_check


def _claim_for_webhook(
    lease: str, state: in_flight.WebhookState, max_deliveries: int
) -> list[ClaimedDelivery]:
    params = (lease, steady_before(-LEASE_SECONDS), state.id, steady_now(), max_deliveries)
    claimed_rows = execute(CLAIM_DUE, params).fetchall()
    if not claimed_rows:
        return []
    webhook = Webhook.find(state.id)
    secrets, probes = webhook.active_secrets(), bool(state.failing)
    deliveries = []
    for id, sequence, test_id, created_at, *cause in sorted(claimed_rows):
        event_id, body = _load_body(sequence, test_id, state.id, created_at)
        deliveries.append(
            ClaimedDelivery(id, webhook.url, secrets, event_id, body, lease, probes, *cause)
        )
    return deliveries


def load_body(id: int | str) -> tuple[str, bytes]:
    """Return the event id and the body of a delivery. Raises NotFound."""
    delivery = row(
        "SELECT sequence, test_id, webhook_id, created_at FROM delivery WHERE id = ?",
        (integer_id(id),),
    )
    if delivery is None:
        raise NotFound
    return _load_body(*delivery)


def _load_body(
    sequence: int | None, test_id: str, webhook_id: int, created_at: str
) -> tuple[str, bytes]:
    if sequence is not None:
        return events.load_event_body(sequence)
    data = dumps({"webhook": {"id": str(webhook_id)}}).decode()
    return test_id, events.encode_event(0, test_id, TEST_KIND, created_at, data, "{}")


def list_pending_kinds(webhook_id: int) -> list[str]:
    """Return the kinds of the events that wait to be sent to a webhook."""
    pending = "delivery.webhook_id = ? AND delivery.status = 'pending'"
    return [kind for (kind,) in rows(f"SELECT DISTINCT type {OF_EVENTS} {pending}", (webhook_id,))]


def list_unwanted_kinds(id: int | str) -> list[str]:
    """Return the kind of a delivery's event in a list, if its webhook no longer wants that kind."""
    unwanted = "delivery.id = ? AND instr(webhook.events, '\"' || type || '\"') = 0"
    return [kind for (kind,) in rows(f"SELECT type {OF_EVENTS} {unwanted}", (integer_id(id),))]


def record_outcome(claimed: ClaimedDelivery, at: str, outcome: Outcome) -> None:
    """Store the outcome of an attempt at the time `at`, and schedule the next one if it failed.

    The webhook's health changes with it. Does nothing if the delivery no longer exists.
    """
    with transaction():
        delivery = row(
            "SELECT webhook_id, sequence, noun, record_id, status, tries, lease FROM delivery"
            f" WHERE id = ? AND {EVENT_ID} = ?",
            (claimed.id, claimed.event_id),
        )
        if delivery is None:
            return  # the webhook was deleted, or the tenant, and another one has its label
        webhook_id, sequence, noun, record_id, status, tries, lease = delivery
        result = outcome.duration_ms, outcome.status, outcome.error, outcome.answer
        execute(
            "INSERT INTO attempt (delivery_id, at, duration_ms, status_code, error, answer, cause,"
            " user_id, key_id) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (claimed.id, at, *result, claimed.cause, claimed.user_id, claimed.key_id),
        )
        tries += 1
        if outcome.ok or sequence is None:
            _finish(claimed.id, "delivered" if outcome.ok else "failed", tries)
        elif status == "pending" and lease == claimed.lease:
            if tries > len(RETRY_DELAYS_SECONDS):
                _finish(claimed.id, "failed", tries)
            else:
                _schedule_retry(claimed.id, tries, outcome)
        if sequence is None:
            return  # a test event does not count for the webhook's health
        if status == "pending":
            execute(events.MAKE_NEXT_DUE, (steady_now(), webhook_id, noun, record_id))
        webhook = Webhook.find(webhook_id)
        if outcome.ok:
            webhook.record_success(at)
        else:
            webhook.record_failure(at, outcome.status)


def _finish(id: int, status: str, tries: int) -> None:
    delivered_at = now() if status == "delivered" else None
    execute(
        "UPDATE delivery SET status = ?, tries = ?, due_at = NULL, lease = NULL,"
        " leased_until = NULL, delivered_at = coalesce(?, delivered_at) WHERE id = ?",
        (status, tries, delivered_at, id),
    )


def _schedule_retry(id: int, tries: int, outcome: Outcome) -> None:
    delay = RETRY_DELAYS_SECONDS[tries - 1] * (1 + MAX_JITTER * random.random())
    delay = max(delay, min(outcome.retry_after or 0, MAX_RETRY_AFTER_SECONDS))
    execute(
        "UPDATE delivery SET tries = ?, due_at = ?, lease = NULL, leased_until = NULL WHERE id = ?",
        (tries, time_text(math.ceil(steady_seconds() + delay)), id),
    )


def send_test(webhook_id: int | str) -> int:
    """Send a test event to the webhook, once, even if it is switched off.

    Returns the id of the delivery. Raises NotFound.
    """
    with transaction():
        moment, session = now(), current_session()
        webhook = Webhook.find(webhook_id)
        test_id = events.new_event_id()
        id = insert(
            "INSERT INTO delivery (webhook_id, test_id, status, due_at, cause, user_id, key_id,"
            " created_at) VALUES (?, ?, 'pending', ?, 'test', ?, ?, ?)",
            (webhook.id, test_id, steady_now(), session.user_id, session.key_id, moment),
        )
        notify_after_commit()
        return id


def resend(id: int | str) -> int:
    """Send a delivery once more, now, with all its retries; return its id as an integer.

    A delivery that waits for an earlier event of its record still waits. One that is in flight is
    not sent twice. Raises NotFound, or Conflict `webhook_inactive`.
    """
    with transaction():
        delivery = row(
            "SELECT id, webhook_id, sequence, noun, record_id, status, due_at FROM delivery"
            " WHERE id = ?",
            (integer_id(id),),
        )
        if delivery is None:
            raise NotFound
        delivery_id, webhook_id, sequence, noun, record_id, status, due_at = delivery
        if sequence is not None:
            Webhook.find(webhook_id).require_active()
        session = current_session()
        waits = status == "pending" and due_at is None
        execute(
            "UPDATE delivery SET status = 'pending', tries = 0, due_at = ?, cause = 'resend',"
            " user_id = ?, key_id = ? WHERE id = ?",
            (None if waits else steady_now(), session.user_id, session.key_id, delivery_id),
        )
        if sequence is not None:
            params = (steady_now(), webhook_id, noun, record_id)
            execute(f"{SET_DUE_TIMES} AND noun = ? AND record_id = ?", params)
        notify_after_commit()
        return delivery_id


def recover(webhook_id: int | str, since: str, dry_run: bool = False) -> int:
    """Send all events since `since` that the webhook wants and did not get; return their number.

    A paused webhook is switched on, and pending deliveries begin with all their retries. With
    `dry_run` the events are only counted. Raises NotFound, or Conflict `webhook_inactive`.
    """
    with transaction():
        webhook = Webhook.find(webhook_id)
        if not dry_run:
            webhook.resume()
        params = (since, webhook.events, webhook.id)
        delivered = "AND status = 'delivered'"
        (count,) = one_row(
            "SELECT count(*)" + FROM_SUBSCRIBED_EVENTS.format("NOT", delivered), params
        )
        if dry_run or not count:
            return count
        session, moment = current_session(), now()
        undelivered = "AND status <> 'delivered' AND lease IS NULL"
        sequences = "SELECT sequence" + FROM_SUBSCRIBED_EVENTS.format("", undelivered)
        execute(
            "UPDATE delivery SET status = 'pending', tries = 0, due_at = NULL, cause = 'recover',"
            f" user_id = ?, key_id = ? WHERE webhook_id = ? AND sequence IN ({sequences})",
            (session.user_id, session.key_id, webhook.id, *params),
        )
        execute(
            "INSERT INTO delivery (webhook_id, sequence, noun, record_id, status, cause, user_id,"
            " key_id, created_at) SELECT ?, sequence, noun, record_id, 'pending', 'recover', ?,"
            f" ?, ? {FROM_SUBSCRIBED_EVENTS.format('NOT', '')} ORDER BY sequence",
            (webhook.id, session.user_id, session.key_id, moment, *params),
        )
        execute(SET_DUE_TIMES, (steady_now(), webhook.id))
        notify_after_commit()
        return count


# Of test events, which belong to no event.
delete_after("delivery", "created_at", condition="sequence IS NULL")
