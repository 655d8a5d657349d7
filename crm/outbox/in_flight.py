"""What is in flight to each webhook of a tenant, and when more is due (D15)."""

from datetime import datetime
from typing import NamedTuple

from crm.alerts import sending
from crm.records import background
from crm.storage.session import current_session, execute, rows

MAX_PER_WEBHOOK = 4  # to a healthy webhook; to a failing one it is 1

# Parameters: the time now, and, where one sender runs at a time, the name of its leases, else NULL.
# A lease ends with its time; one by another name has ended too, since its sender is dead.
ENDED = "(lease IS NOT NULL AND (leased_until < ? OR lease <> coalesce(?, lease)))"
VALID = "(leased_until >= ? AND lease = coalesce(?, lease))"
OF_WEBHOOK = "FROM delivery WHERE webhook_id = webhook.id AND"
WEBHOOK_STATES = f"""
    SELECT id, failing_since IS NOT NULL,
        (SELECT count(*) {OF_WEBHOOK} {VALID}),
        (SELECT count(*) {OF_WEBHOOK} {ENDED}),
        (SELECT min(leased_until) {OF_WEBHOOK} {VALID}),
        (SELECT min(due_at) {OF_WEBHOOK} status = 'pending' AND due_at IS NOT NULL
            AND lease IS NULL)
    FROM webhook WHERE (SELECT suspended_at FROM tenant) IS NULL ORDER BY id
"""


class WebhookState(NamedTuple):
    """What is in flight to a webhook, and when more is due; a row of WEBHOOK_STATES."""

    id: int
    failing: int  # 1 or 0
    in_flight: int  # claimed by senders that may be at work
    ended_leases: int  # of senders that died or could not record an outcome
    leased_until: str | None  # the earliest end of a lease in flight
    due_at: str | None  # the earliest of the unclaimed deliveries

    @property
    def free_slots(self) -> int:
        """How many more deliveries may be in flight to it."""
        return (1 if self.failing else MAX_PER_WEBHOOK) - self.in_flight


def read_states(lease: str, moment: str) -> list[WebhookState]:
    """Return the state of each webhook, as the sender whose leases have this name sees it.

    Those of a suspended tenant wait: there are none then.
    """
    return [WebhookState(*values) for values in rows(WEBHOOK_STATES, _params(lease, moment) * 3)]


def free_ended_leases(lease: str, moment: str) -> None:
    """Let deliveries be claimed again whose lease has ended; call it inside a transaction."""
    sql = f"UPDATE delivery SET lease = NULL, leased_until = NULL WHERE {ENDED}"
    execute(sql, _params(lease, moment))


def _params(lease: str, moment: str) -> tuple[str, str | None]:
    return moment, lease if current_session().source.has_one_sender else None


def next_check_time(states: list[WebhookState]) -> float | None:
    """Return when a webhook with free slots has more due, or when a lease expires.

    That of a batch (records/background.py) and of an alert count too, so that the sender goes on
    with it. In epoch seconds; None if there is nothing to wait for. The end of a delivery in flight
    needs no time here: it wakes the sender.
    """
    due = [state.due_at for state in states if state.due_at and state.free_slots > 0]
    expiring = [state.leased_until for state in states if state.leased_until]
    times = [_epoch_seconds(text) for text in due]
    times += [_epoch_seconds(text) + 1 for text in expiring]
    if alert_due := sending.next_due():
        times.append(_epoch_seconds(alert_due))
    if (batch_due := background.next_due()) is not None:
        times.append(_epoch_seconds(batch_due) + 1 if batch_due else 0.0)
    return min(times, default=None)


def _epoch_seconds(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()
