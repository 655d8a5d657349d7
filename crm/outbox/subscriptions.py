"""Webhooks: the addresses that a tenant's events are sent to, their secrets and health (D15).

The address of the specification is one of up to ten, each with its choice of kinds. An endpoint
that answers 410, or that failed for five days without one success, is switched off; what was to be
sent to it is then held until somebody asks to recover it.
"""

from typing import Any

from peewee import IntegerField, TextField

from crm.errors import Conflict, Invalid
from crm.outbox import destinations, signature
from crm.records.record import Record
from crm.tenancy.clocks import erasing_before, steady_before, steady_now
from crm.tenancy.database import execute, notify_after_commit, now, row, rows, settings, transaction
from crm.values import InvalidValue

MAX_WEBHOOKS = 10  # endpoints of a tenant
PAUSE_AFTER_SECONDS = 5 * 86_400  # of failures without one success
OLD_SECRET_SECONDS = 24 * 3600  # for which the secret before still signs
PAUSED, GONE = "paused", "gone"
NOTICES = {
    PAUSED: "nothing was delivered for five days, so nothing more is sent",
    GONE: "the receiver answered 410 Gone, so nothing more is sent",
}

IS_SUBSCRIBED = "active = 1 AND instr(events, ?) > 0"
INSERT_DELIVERIES = f"""
    INSERT INTO delivery
        (webhook_id, sequence, noun, record_id, status, due_at, cause, created_at)
    SELECT id, ?1, ?2, ?3, 'pending', CASE WHEN EXISTS (
        SELECT 1 FROM delivery WHERE webhook_id = webhook.id AND noun = ?2 AND record_id = ?3
            AND status = 'pending') THEN NULL ELSE ?4 END, 'event', ?5
    FROM webhook WHERE {IS_SUBSCRIBED}
"""


def enqueue_deliveries(sequence: int, kind: str, noun: str, record_id: int) -> None:
    """Have the event delivered to every endpoint that wants its kind; in its transaction."""
    wanted = f'"{kind}"'
    # Most tenants have none, and to look costs a fifth of an INSERT that finds none.
    if row(f"SELECT 1 FROM webhook WHERE {IS_SUBSCRIBED}", (wanted,)):
        execute(INSERT_DELIVERIES, (sequence, noun, record_id, steady_now(), now(), wanted))
        notify_after_commit()


class Webhook(Record):
    """One endpoint, in stored form: `events` is a JSON list of kinds."""

    noun = "webhook"

    url = TextField()
    events = TextField()
    description = TextField(null=True)
    active = IntegerField(default=1)
    stopped = TextField(null=True)
    secret = TextField()
    old_secret = TextField(null=True)
    old_secret_until = TextField(null=True)
    failing_since = TextField(null=True)
    last_success_at = TextField(null=True)
    last_failure_at = TextField(null=True)

    def change(self, data: dict[str, Any]) -> None:
        """Change the sent fields; inside a transaction. Another address is healthy until it fails.

        Switched off, it holds what was to be sent; switched on, it gets what happens from then on.
        Raises Invalid.
        """
        if data.get("url", self.url) != self.url:
            _require_allowed_url(data["url"])
            data = {**data, "failing_since": None}
        active = data.get("active", self.active)
        if active and not self.active:
            data = {**data, "stopped": None, "failing_since": None}
        elif self.active and not active:
            self._hold()
        self.put(data)

    def resume(self) -> None:
        """Switch it on again if it was paused; inside a transaction.

        Raises Conflict `webhook_inactive` when it is off for another reason.
        """
        if self.stopped == PAUSED:
            self.change({"active": 1})
        self.require_active()

    def require_active(self) -> None:
        """Raise Conflict `webhook_inactive` if it is switched off."""
        if not self.active:
            raise Conflict("this webhook is switched off: set active to true", "webhook_inactive")

    def rotate_secret(self) -> str:
        """A new secret, shown this once; the one before signs too for 24 hours."""
        with transaction():
            secret = signature.new_secret()
            until = steady_before(-OLD_SECRET_SECONDS)
            self.put({"secret": secret, "old_secret": self.secret, "old_secret_until": until})
            return secret

    def active_secrets(self) -> tuple[str, ...]:
        """What signs now, the newest first."""
        if self.old_secret and self.old_secret_until > steady_now():
            return self.secret, self.old_secret
        return (self.secret,)

    def record_success(self, at: str) -> None:
        """It took a delivery; inside a transaction. Health is not a version of the record."""
        if self.failing_since or self.last_success_at != at:
            execute(
                "UPDATE webhook SET failing_since = NULL, last_success_at = ? WHERE id = ?",
                (at, self.id),
            )

    def record_failure(self, at: str, status: int | None) -> None:
        """It did not take a delivery; inside a transaction.

        How long it has failed is told by clocks that a step of the machine's does not move: to
        pause an endpoint is not undone by itself.
        """
        since = self.failing_since or steady_now()
        execute(
            "UPDATE webhook SET failing_since = ?, last_failure_at = ? WHERE id = ?",
            (since, at, self.id),
        )
        if status == 410:
            self._stop(GONE)
        elif since <= erasing_before(PAUSE_AFTER_SECONDS):
            self._stop(PAUSED)

    def _stop(self, why: str) -> None:
        if self.active:
            self.put({"active": 0, "stopped": why})
            self._hold()
            execute(
                "INSERT INTO notice (webhook_id, at, code, detail) VALUES (?, ?, ?, ?)",
                (self.id, now(), why, NOTICES[why]),
            )

    def _hold(self) -> None:
        execute(
            "UPDATE delivery SET status = 'held', due_at = NULL, lease = NULL"
            " WHERE webhook_id = ? AND status = 'pending' AND sequence IS NOT NULL",
            (self.id,),
        )


def create(data: dict[str, Any]) -> tuple[int, str]:
    """Add an endpoint and give its id and its secret, which is shown this once.

    `data` has url, events (a JSON list of kinds), and perhaps active and description.
    Raises Invalid, or Conflict `too_many_webhooks`.
    """
    _require_allowed_url(data["url"])
    secret = signature.new_secret()
    with transaction():
        if row("SELECT count(*) FROM webhook") >= (MAX_WEBHOOKS,):
            raise Conflict(f"a tenant has at most {MAX_WEBHOOKS} webhooks", "too_many_webhooks")
        return Webhook.add({"active": 1, **data, "secret": secret}).id, secret


def hold_all_deliveries() -> int:
    """Send nothing of what waits until somebody asks to recover it; inside a transaction. Gives
    how many deliveries that are.

    For a file out of a copy: what waited when it was made may have been sent since.
    """
    return execute(
        "UPDATE delivery SET status = 'held', due_at = NULL, lease = NULL WHERE status = 'pending'"
    ).rowcount


def switch_all_off() -> None:
    """Send nothing more to any endpoint, nor what waits; inside a transaction.

    For a copy that goes on beside the tenant it is of: its receivers are that one's.
    """
    hold_all_deliveries()
    for (id,) in rows("SELECT id FROM webhook WHERE active = 1"):
        Webhook.find(id).change({"active": 0})


def _require_allowed_url(url: str) -> None:
    try:
        destinations.parse_destination(url, settings().webhook_allow)
    except InvalidValue as unfit:
        raise Invalid.field("url", unfit.code, unfit.detail) from None
