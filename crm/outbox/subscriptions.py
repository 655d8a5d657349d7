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

MAX_WEBHOOKS = 10  # of a tenant
PATIENCE_SECONDS = 5 * 86_400  # of failures without one success
ROTATION_SECONDS = 24 * 3600  # for which the secret before still signs
PAUSED, GONE = "paused", "gone"
NOTICES = {
    PAUSED: "nothing was delivered for five days, so nothing more is sent",
    GONE: "the receiver answered 410 Gone, so nothing more is sent",
}

WANTED = "active = 1 AND instr(events, ?) > 0"
ADDRESS = f"""
    INSERT INTO delivery
        (webhook_id, sequence, noun, record_id, status, due_at, cause, created_at)
    SELECT id, ?1, ?2, ?3, 'pending', CASE WHEN EXISTS (
        SELECT 1 FROM delivery WHERE webhook_id = webhook.id AND noun = ?2 AND record_id = ?3
            AND status = 'pending') THEN NULL ELSE ?4 END, 'event', ?5
    FROM webhook WHERE {WANTED}
"""


def address(sequence: int, kind: str, noun: str, record_id: int) -> None:
    """Have the event delivered to every endpoint that wants its kind; in its transaction."""
    wanted = f'"{kind}"'
    # Most tenants have none, and to look costs a fifth of an INSERT that finds none.
    if row(f"SELECT 1 FROM webhook WHERE {WANTED}", (wanted,)):
        execute(ADDRESS, (sequence, noun, record_id, steady_now(), now(), wanted))
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

    def update_fields(self, data: dict[str, Any]) -> None:
        """Change the sent fields by the rules of update(); inside a transaction."""
        if data.get("url", self.url) != self.url:
            _is_allowed(data["url"])
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
            self.update_fields({"active": 1})
        self.require_active()

    def require_active(self) -> None:
        """Raise Conflict `webhook_inactive` if it is switched off."""
        if not self.active:
            raise Conflict("this webhook is switched off: set active to true", "webhook_inactive")

    def secrets(self) -> tuple[str, ...]:
        """What signs now, the newest first."""
        if self.old_secret and self.old_secret_until > steady_now():
            return self.secret, self.old_secret
        return (self.secret,)

    def succeeded(self, at: str) -> None:
        """It took a delivery; inside a transaction. Health is not a version of the record."""
        if self.failing_since or self.last_success_at != at:
            execute(
                "UPDATE webhook SET failing_since = NULL, last_success_at = ? WHERE id = ?",
                (at, self.id),
            )

    def failed(self, at: str, status: int | None) -> None:
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
        elif since <= erasing_before(PATIENCE_SECONDS):
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
    """Add an endpoint and return its id and its secret, which is shown this once.

    `data` has url, events (a JSON list of kinds), and perhaps active and description.
    Raises Invalid, or Conflict `too_many_webhooks`.
    """
    _is_allowed(data["url"])
    secret = signature.new_secret()
    with transaction():
        if row("SELECT count(*) FROM webhook") >= (MAX_WEBHOOKS,):
            raise Conflict(f"a tenant has at most {MAX_WEBHOOKS} webhooks", "too_many_webhooks")
        return Webhook.add({"active": 1, **data, "secret": secret}).id, secret


def update(id: int | str, data: dict[str, Any], expected_version: int | None = None) -> Webhook:
    """Change the sent fields of an endpoint. Another address counts as healthy until it fails.

    Switched off, it holds what was to be sent; switched on, it gets what happens from then on.
    Raises Invalid, NotFound and Stale.
    """
    with transaction():
        webhook = Webhook.find(id, expected_version)
        webhook.update_fields(data)
        return webhook


def delete(id: int | str, expected_version: int | None = None) -> Webhook:
    """Delete an endpoint with its deliveries for good. Raises NotFound and Stale."""
    with transaction():
        webhook = Webhook.find(id, expected_version)
        webhook.erase()
        return webhook


def rotate(id: int | str) -> str:
    """Make a new secret, shown this once; the old one signs too for 24 hours. Raises NotFound."""
    with transaction():
        webhook = Webhook.find(id)
        secret = signature.new_secret()
        until = steady_before(-ROTATION_SECONDS)
        webhook.put({"secret": secret, "old_secret": webhook.secret, "old_secret_until": until})
        return secret


def hold_all() -> int:
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
    hold_all()
    for (id,) in rows("SELECT id FROM webhook WHERE active = 1"):
        update(id, {"active": 0})


def _is_allowed(url: str) -> None:
    try:
        destinations.parse(url, settings().webhook_allow)
    except InvalidValue as unfit:
        raise Invalid.field("url", unfit.code, unfit.detail) from None
