"""Deliveries: each event on its way to each endpoint, as rows; every attempt is kept (D15).

At least once, in order per endpoint and record: of a record's pending deliveries to an endpoint
only the earliest has a `due_at`, and the next gets its own when that one is delivered or given up.
A claim is a lease in the row: whoever claimed and died is found out, and the delivery goes again.
`due_at` and `leased_until` are times of the steady clock, by which they are compared: a step of the
machine's clock makes nothing due sooner or later.
"""

import math
import random
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from crm.errors import NotFound
from crm.json import dumps
from crm.outbox import events
from crm.outbox.call import Outcome
from crm.outbox.expiry import MAKE_NEXT_DUE
from crm.outbox.subscriptions import Webhook
from crm.tenancy.clocks import steady_before, steady_now, steady_seconds
from crm.tenancy.database import (
    current_session,
    execute,
    notify_after_commit,
    now,
    row,
    rows,
    time_text,
    transaction,
)
from crm.values.ids import integer_id

RETRY_DELAYS_SECONDS = (
    5,
    300,
    1800,
    7200,
    18_000,
    36_000,
    50_400,
    72_000,
    86_400,
)  # seconds between attempts
MAX_JITTER = 0.1  # of the delay at most, upward
MAX_RETRY_AFTER_SECONDS = 86_400  # that a receiver may ask for by Retry-After
MAX_IN_FLIGHT_PER_WEBHOOK = (
    4  # deliveries in flight to a healthy endpoint; to a failing one it is one
)
MAX_IN_FLIGHT_PER_TENANT = 12  # beyond that each endpoint keeps one
LEASE_SECONDS = 60
TEST_KIND = "webhook.test"

EVENT_ID = "coalesce(test_id, (SELECT id FROM event WHERE sequence = delivery.sequence))"
OF_HOOK = "FROM delivery WHERE webhook_id = webhook.id AND"
HAS_PENDING = "SELECT EXISTS (SELECT 1 FROM delivery WHERE status = 'pending')"
COUNT_UNFINISHED = """
    SELECT status, count(*), min(created_at) FROM delivery
    WHERE status IN ('pending', 'held', 'failed') GROUP BY status ORDER BY status
"""
SELECT_WEBHOOK_STATES = f"""
    SELECT id, failing_since IS NOT NULL,
        (SELECT count(*) {OF_HOOK} lease = ?1 AND leased_until >= ?2),
        (SELECT count(*) {OF_HOOK} lease IS NOT NULL AND (lease <> ?1 OR leased_until < ?2)),
        (SELECT min(leased_until) {OF_HOOK} lease = ?1 AND leased_until >= ?2),
        (SELECT min(due_at) {OF_HOOK} status = 'pending' AND due_at IS NOT NULL AND lease IS NULL)
    FROM webhook
"""
FREE_EXPIRED_LEASES = """
    UPDATE delivery SET lease = NULL, leased_until = NULL
    WHERE webhook_id = ? AND lease IS NOT NULL AND (lease <> ? OR leased_until < ?)
"""
CLAIM_DUE = """
    UPDATE delivery SET lease = ?, leased_until = ? WHERE id IN (
        SELECT id FROM delivery WHERE webhook_id = ? AND status = 'pending' AND due_at <= ?
            AND lease IS NULL ORDER BY due_at, id LIMIT ?)
    RETURNING id, sequence, test_id, created_at, cause, user_id, key_id
"""
FROM_DELIVERY_AND_EVENT = """
    FROM delivery JOIN event ON event.sequence = delivery.sequence
        JOIN webhook ON webhook.id = delivery.webhook_id WHERE
"""
# Of what is pending to an endpoint, the first of each record is due and the others wait.
SET_DUE_TIMES = """
    UPDATE delivery SET due_at = CASE WHEN EXISTS (
            SELECT 1 FROM delivery AS earlier WHERE earlier.webhook_id = delivery.webhook_id
                AND earlier.noun = delivery.noun AND earlier.record_id = delivery.record_id
                AND earlier.status = 'pending' AND earlier.sequence < delivery.sequence
        ) THEN NULL ELSE coalesce(due_at, ?) END
    WHERE webhook_id = ? AND status = 'pending' AND lease IS NULL AND sequence IS NOT NULL
"""
FROM_WANTED_EVENTS = """
    FROM event WHERE at >= ?2 AND instr(?3, '"' || type || '"') > 0 AND {} EXISTS (
        SELECT 1 FROM delivery WHERE delivery.sequence = event.sequence AND webhook_id = ?1 {})
"""


@dataclass(frozen=True, slots=True)
class ClaimedDelivery:
    """A delivery that its claimer is to send now."""

    id: int
    url: str
    secrets: tuple[str, ...]
    event_id: str
    body: bytes
    lease: str
    probes: bool  # its endpoint is failing: this one finds out whether it still does
    cause: str
    user_id: int | None
    key_id: int | None


class WebhookState(NamedTuple):
    """How things are with an endpoint: what is in flight to it, and when more is due."""

    id: int
    failing: int
    flying: int
    abandoned: int
    leased_until: str | None
    due_at: str | None

    @property
    def spare(self) -> int:
        """How many more may be in flight to it."""
        return (1 if self.failing else MAX_IN_FLIGHT_PER_WEBHOOK) - self.flying


def count_unfinished() -> list[tuple[str, int, str]]:
    """What is `failed`, `held` or `pending` at the tenant visited: how many, since when."""
    return rows(COUNT_UNFINISHED)


def find_retrying_webhooks() -> set[int]:
    """The ids of webhooks to which a delivery goes again because an attempt failed."""
    pending = "delivery.webhook_id = webhook.id AND delivery.status = 'pending'"
    failed = "EXISTS (SELECT 1 FROM attempt WHERE attempt.delivery_id = delivery.id)"
    sql = (
        f"SELECT id FROM webhook WHERE EXISTS (SELECT 1 FROM delivery WHERE {pending} AND {failed})"
    )
    return {id for (id,) in rows(sql)}


def claim_due(lease: str, most: int, probes: int) -> tuple[list[ClaimedDelivery], float | None]:
    """Take up to `most` of the deliveries that are due, `probes` of them to failing endpoints.

    `lease` names the claimer; leases of others are those of the dead. Gives them, and the epoch
    seconds when to look again if nothing happens: in the past when more was due than could be
    taken, None when there is nothing to wait for.
    """
    moment = steady_now()
    found = _read_webhook_states(lease, moment)
    if not any(each.abandoned or (each.due_at and each.due_at <= moment) for each in found):
        return [], _next_check_time(found)
    with transaction():
        for each in found:
            if each.abandoned:
                execute(FREE_EXPIRED_LEASES, (each.id, lease, moment))
        claimed: list[ClaimedDelivery] = []
        of_tenant = MAX_IN_FLIGHT_PER_TENANT - sum(each.flying for each in found)
        for each in _read_webhook_states(lease, moment):
            room = min(each.spare, max(of_tenant, 0 if each.flying else 1), most)
            if each.failing:
                room = min(room, probes)
            taken = _claim_for_webhook(lease, each, room) if room > 0 else []
            claimed += taken
            most -= len(taken)
            of_tenant -= len(taken)
            probes -= len(taken) if each.failing else 0
        return claimed, _next_check_time(_read_webhook_states(lease, moment))


def _read_webhook_states(lease: str, moment: str) -> list[WebhookState]:
    return [WebhookState(*found) for found in rows(SELECT_WEBHOOK_STATES, (lease, moment))]


def _next_check_time(standings: list[WebhookState]) -> float | None:
    """When more is due to one that has room; what is in flight rings when it ends, or is freed
    when its lease does."""
    due = [each.due_at for each in standings if each.due_at and each.spare > 0]
    freed = [each.leased_until for each in standings if each.leased_until]
    moments = [_epoch_seconds(text) for text in due] + [_epoch_seconds(text) + 1 for text in freed]
    return min(moments, default=None)


def _epoch_seconds(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def _claim_for_webhook(lease: str, standing: WebhookState, most: int) -> list[ClaimedDelivery]:
    until = steady_before(-LEASE_SECONDS)
    found = execute(CLAIM_DUE, (lease, until, standing.id, steady_now(), most)).fetchall()
    if not found:
        return []
    to = Webhook.find(standing.id)
    taken = []
    for id, sequence, test_id, created_at, *caused in sorted(found):
        event_id, body = _load_body(sequence, test_id, to.id, created_at)
        about = (lease, bool(standing.failing), *caused)
        taken.append(ClaimedDelivery(id, to.url, to.active_secrets(), event_id, body, *about))
    return taken


def load_body(id: int | str) -> tuple[str, bytes]:
    """The event id and the body of a delivery. Raises NotFound."""
    found = row(
        "SELECT sequence, test_id, webhook_id, created_at FROM delivery WHERE id = ?",
        (integer_id(id),),
    )
    if found is None:
        raise NotFound
    return _load_body(*found)


def _load_body(sequence: int | None, test_id: str, webhook_id: int, at: str) -> tuple[str, bytes]:
    if sequence is None:
        return test_id, _make_test_body(test_id, webhook_id, at)
    return events.load_event_body(sequence)


def _make_test_body(id: str, webhook_id: int, at: str) -> bytes:
    return dumps(
        {
            "id": id,
            "type": TEST_KIND,
            "timestamp": at,
            "tenant": current_session().label,
            "sequence": 0,
            "data": {"webhook": {"id": str(webhook_id)}},
            "previous": {},
        }
    )


def list_pending_kinds(webhook_id: int) -> list[str]:
    """The kinds of the events that wait to be sent to an endpoint."""
    pending = "delivery.webhook_id = ? AND delivery.status = 'pending'"
    return [
        kind
        for (kind,) in rows(
            f"SELECT DISTINCT type {FROM_DELIVERY_AND_EVENT} {pending}", (webhook_id,)
        )
    ]


def list_unwanted_kinds(id: int | str) -> list[str]:
    """The kind of a delivery's event if its endpoint does not want it any more, in a list."""
    unwanted = "delivery.id = ? AND instr(webhook.events, '\"' || type || '\"') = 0"
    return [
        kind
        for (kind,) in rows(f"SELECT type {FROM_DELIVERY_AND_EVENT} {unwanted}", (integer_id(id),))
    ]


def record_outcome(sent: ClaimedDelivery, at: str, outcome: Outcome) -> None:
    """Keep what became of a delivery sent at that time, and when it is tried again, if ever."""
    with transaction():
        found = row(
            "SELECT webhook_id, sequence, noun, record_id, status, tries, lease FROM delivery"
            f" WHERE id = ? AND {EVENT_ID} = ?",
            (sent.id, sent.event_id),
        )
        if found is None:
            return  # its endpoint was deleted meanwhile, or its tenant, whose label is another's
        webhook_id, sequence, noun, record_id, status, tries, lease = found
        _insert_attempt(sent, at, outcome)
        tries += 1
        if outcome.ok or sequence is None:
            _finish(sent.id, "delivered" if outcome.ok else "failed", tries)
        elif status == "pending" and lease == sent.lease:
            if tries > len(RETRY_DELAYS_SECONDS):
                _finish(sent.id, "failed", tries)
            else:
                _schedule_retry(sent.id, tries, outcome)
        if sequence is None:
            return  # a test tells nothing of the endpoint's health
        if status == "pending":
            execute(MAKE_NEXT_DUE, (steady_now(), webhook_id, noun, record_id))
        to = Webhook.find(webhook_id)
        if outcome.ok:
            to.record_success(at)
        else:
            to.record_failure(at, outcome.status)


def _insert_attempt(sent: ClaimedDelivery, at: str, outcome: Outcome) -> None:
    execute(
        "INSERT INTO attempt (delivery_id, at, duration_ms, status_code, error, answer, cause,"
        " user_id, key_id) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            sent.id,
            at,
            outcome.duration_ms,
            outcome.status,
            outcome.error,
            outcome.answer,
            sent.cause,
            sent.user_id,
            sent.key_id,
        ),
    )


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
    """Send a test to the endpoint, once, also to one that is switched off; gives its delivery."""
    with transaction():
        moment, here = now(), current_session()
        to = Webhook.find(webhook_id)
        id = execute(
            "INSERT INTO delivery (webhook_id, test_id, status, due_at, cause, user_id, key_id,"
            " created_at) VALUES (?, ?, 'pending', ?, 'test', ?, ?, ?)",
            (to.id, events.new_event_id(), steady_now(), here.user_id, here.key_id, moment),
        ).lastrowid
        notify_after_commit()
        return id


def resend(id: int | str) -> int:
    """Send a delivery once more, now and on a new schedule; gives its id.

    One that waits for an earlier event of its record keeps its place in the line, and one that is
    in flight counts as sent again. Raises NotFound, or Conflict `webhook_inactive`.
    """
    with transaction():
        found = row(
            "SELECT id, webhook_id, sequence, noun, record_id, status, due_at FROM delivery"
            " WHERE id = ?",
            (integer_id(id),),
        )
        if found is None:
            raise NotFound
        id, webhook_id, sequence, noun, record_id, status, due_at = found
        if sequence is not None:
            Webhook.find(webhook_id).require_active()
        here = current_session()
        waits = status == "pending" and due_at is None
        execute(
            "UPDATE delivery SET status = 'pending', tries = 0, due_at = ?, cause = 'resend',"
            " user_id = ?, key_id = ? WHERE id = ?",
            (None if waits else steady_now(), here.user_id, here.key_id, id),
        )
        if sequence is not None:
            of_record = (steady_now(), webhook_id, noun, record_id)
            execute(f"{SET_DUE_TIMES} AND noun = ? AND record_id = ?", of_record)
        notify_after_commit()
        return id


def recover(webhook_id: int | str, since: str, dry_run: bool = False) -> int:
    """Send now every event since that time that the endpoint wants and never got; gives how many.

    A paused endpoint goes on, and what waits for its next attempt begins a new schedule. Raises
    NotFound, or Conflict `webhook_inactive`.
    """
    with transaction():
        to = Webhook.find(webhook_id)
        if not dry_run:
            to.resume()
        wanted = (to.id, since, to.events)
        delivered = "AND status = 'delivered'"
        (count,) = row("SELECT count(*)" + FROM_WANTED_EVENTS.format("NOT", delivered), wanted)
        if dry_run or not count:
            return count
        here, moment = current_session(), now()
        again = "SELECT sequence" + FROM_WANTED_EVENTS.format(
            "", "AND status <> 'delivered' AND lease IS NULL"
        )
        execute(
            "UPDATE delivery SET status = 'pending', tries = 0, due_at = NULL, cause = 'recover',"
            f" user_id = ?4, key_id = ?5 WHERE webhook_id = ?1 AND sequence IN ({again})",
            (*wanted, here.user_id, here.key_id),
        )
        execute(
            "INSERT INTO delivery (webhook_id, sequence, noun, record_id, status, cause, user_id,"
            " key_id, created_at) SELECT ?1, sequence, noun, record_id, 'pending', 'recover', ?4,"
            " ?5, ?6" + FROM_WANTED_EVENTS.format("NOT", ""),
            (*wanted, here.user_id, here.key_id, moment),
        )
        execute(SET_DUE_TIMES, (steady_now(), to.id))
        notify_after_commit()
        return count
