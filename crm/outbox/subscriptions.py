"""Webhooks: the URLs that a tenant's events are sent to, their secrets and their health (D15).

A tenant has up to MAX_WEBHOOKS of them, each with the kinds of events that it wants. A webhook
that answers 410, or that failed for five days without one success, is switched off. Its pending
deliveries are then held until a user recovers them.
"""

from typing import Any

from peewee import TextField

from crm.alerts import alerts
from crm.alerts.kinds import WEBHOOK_PAUSED
from crm.errors import Conflict, Invalid
from crm.json import dumps, loads
from crm.outbox import destinations, events, signature
from crm.records import columns, fields
from crm.records.nested import NestedList, ValueList
from crm.records.record import Record
from crm.records.schemas import RecordSchema
from crm.storage import sweeps
from crm.storage.clocks import erasing_before, steady_before, steady_now
from crm.storage.dialect import json_rows
from crm.storage.session import execute, now, one_row, settings, transaction
from crm.values import InvalidValue

MAX_WEBHOOKS = 10  # of a tenant
MAX_KINDS = 50  # in a body, where one may be repeated
PAUSE_AFTER_SECONDS = 5 * 86_400  # of failures without one success
OLD_SECRET_SECONDS = 24 * 3600  # for which a replaced secret still signs
PAUSED, GONE = "paused", "gone"
NOTICES = {
    PAUSED: "nothing was delivered for five days, so nothing more is sent",
    GONE: "the receiver answered 410 Gone, so nothing more is sent",
}
HOLD_PENDING = (
    "UPDATE delivery SET status = 'held', due_at = NULL, lease = NULL WHERE status = 'pending'"
)


class Kinds(ValueList):
    """Kinds of events, stored in the specification's order, so that equal choices are alike."""

    def read(self, value: Any) -> str:
        return dumps(sorted(loads(super().read(value)), key=[*events.KINDS].index)).decode()


class NoticeSchema(RecordSchema):
    """A notice about a webhook that its owner should read: why it was switched off."""

    at = fields.DateTime(dump_only=True)
    code = fields.Choice(*NOTICES, dump_only=True)
    detail = fields.Text(255, dump_only=True)


class Webhook(Record):
    """One webhook as stored: `events` is a JSON list of kinds, `stopped` is PAUSED or GONE."""

    noun = "webhook"

    url = columns.Text(
        2048, required=True, example="https://erp.example.com/crm", about="https, without fragment."
    )
    events = columns.Text(
        wire=Kinds(
            fields.Choice(*events.KINDS),
            MAX_KINDS,
            default=list(events.KINDS),
            example=["lead.created", "deal.won"],
            about="A key may choose those of which it may read every record in `data`: for"
            " `lead.converted` it needs `leads:read`, `deals:read` and `clients:read`. By default"
            " all.",
        )
    )
    description = columns.Text(255, example="ERP")
    active = columns.Boolean(default=True)
    state = columns.Shown(
        fields.Choice(
            *("active", "failing", "paused", "disabled", "inactive"),
            dump_only=True,
            column="CASE WHEN active = 1 AND failing_since IS NULL THEN 'active'"
            " WHEN active = 1 THEN 'failing' WHEN stopped = 'paused' THEN 'paused'"
            " WHEN stopped = 'gone' THEN 'disabled' ELSE 'inactive' END",
            about="`failing`: since the last attempt; `paused`: after five days of failures; "
            "`disabled`: it answered 410; `inactive`: switched off by hand.",
        )
    )
    stopped = TextField(null=True)
    secret = TextField()
    old_secret = TextField(null=True)
    old_secret_until = TextField(null=True)
    failing_since = columns.DateTime(dump_only=True, allow_none=True)
    last_success_at = columns.DateTime(dump_only=True, allow_none=True)
    last_failure_at = columns.DateTime(dump_only=True, allow_none=True)
    notices = columns.Shown(
        NestedList(
            NoticeSchema.out("NoticeOut"),
            dump_only=True,
            column=json_rows(
                {"at": "at", "code": "code", "detail": "detail"},
                "notice WHERE webhook_id = webhook.id ORDER BY id DESC LIMIT 10",
            ),
            about="The latest ten, newest first.",
        )
    )

    def update_fields(self, data: dict[str, Any]) -> None:
        """Change the given fields. Another address counts as healthy until it fails.

        Switching off holds the pending deliveries; switching on delivers only later events. Call
        it inside a transaction. Raises Invalid if the URL may not be called.
        """
        if data.get("url", self.url) != self.url:
            _require_allowed_url(data["url"])
            data = {**data, "failing_since": None}  # failures of the old URL do not count
        active = data.get("active", self.active)
        if active and not self.active:
            data = {**data, "stopped": None, "failing_since": None}
        elif self.active and not active:
            self._hold_deliveries()
        self.save_changes(data)

    def resume(self) -> None:
        """Switch the webhook on if it was paused; call it inside a transaction.

        Raises Conflict `webhook_inactive` if it is off for another reason.
        """
        if self.stopped == PAUSED:
            self.update_fields({"active": 1})
        self.require_active()

    def require_active(self) -> None:
        """Raise Conflict `webhook_inactive` if the webhook is switched off."""
        if not self.active:
            raise Conflict("this webhook is switched off: set active to true", "webhook_inactive")

    def active_secrets(self) -> tuple[str, ...]:
        """Return the secrets that sign now, the newest first."""
        if self.old_secret and (self.old_secret_until or "") > steady_now():
            return self.secret, self.old_secret
        return (self.secret,)

    def record_success(self, at: str) -> None:
        """Note a successful delivery; call it inside a transaction.

        It does not change the version of the record: users do not edit a webhook's health.
        """
        if self.failing_since or self.last_success_at != at:
            execute(
                "UPDATE webhook SET failing_since = NULL, last_success_at = ? WHERE id = ?",
                (at, self.id),
            )

    def record_failure(self, at: str, status: int | None) -> None:
        """Note a failed delivery, and switch off after 410 or days of failures.

        Call it inside a transaction. `status` is that of the response, if there was one. The time
        of failing is taken from the steady clock: a wrong step of the machine's clock must not
        switch a webhook off, because nothing switches it on again.
        """
        since = self.failing_since or steady_now()
        execute(
            "UPDATE webhook SET failing_since = ?, last_failure_at = ? WHERE id = ?",
            (since, at, self.id),
        )
        if status == 410:
            self._switch_off(GONE)
        elif since <= erasing_before(PAUSE_AFTER_SECONDS):
            self._switch_off(PAUSED)

    def _switch_off(self, reason: str) -> None:
        if self.active:
            self.save_changes({"active": 0, "stopped": reason})
            self._hold_deliveries()
            execute(
                "INSERT INTO notice (webhook_id, at, code, detail) VALUES (?, ?, ?, ?)",
                (self.id, now(), reason, NOTICES[reason]),
            )
            alerts.add(WEBHOOK_PAUSED, self.noun, self.id)

    def _hold_deliveries(self) -> None:
        execute(f"{HOLD_PENDING} AND webhook_id = ? AND sequence IS NOT NULL", (self.id,))


def create(data: dict[str, Any]) -> tuple[int, str]:
    """Add a webhook and return its id and its secret, which is never shown again.

    `data` has `url` and optionally `events` (a JSON list of kinds), `active` and `description`.
    Raises Invalid, or Conflict `too_many_webhooks`.
    """
    _require_allowed_url(data["url"])
    secret = signature.new_secret()
    with transaction():
        if one_row("SELECT count(*) FROM webhook")[0] >= MAX_WEBHOOKS:
            raise Conflict(f"a tenant has at most {MAX_WEBHOOKS} webhooks", "too_many_webhooks")
        return Webhook.add({**data, "secret": secret}).id, secret


def rotate_secret(id: int | str) -> str:
    """Replace the secret and return the new one, which is never shown again. Raises NotFound.

    The old secret also signs for OLD_SECRET_SECONDS, so that receivers can be changed in time.
    """
    with transaction():
        webhook = Webhook.find(id)
        secret = signature.new_secret()
        until = steady_before(-OLD_SECRET_SECONDS)
        old = {"old_secret": webhook.secret, "old_secret_until": until}
        webhook.save_changes({"secret": secret, **old})
        return secret


def hold_all_deliveries() -> int:
    """Hold all pending deliveries until a user recovers them, and return how many they are.

    Call it inside a transaction. For a database restored from a copy: its pending deliveries may
    have been sent after the copy was made. Neither are alerts sent that are due already.
    """
    alerts.cancel_messages()
    return execute(HOLD_PENDING).rowcount


def switch_all_off() -> None:
    """Switch all webhooks off and hold all pending deliveries; call it inside a transaction.

    For a copy of a tenant beside the original, whose receivers must not get events of both.
    """
    hold_all_deliveries()
    for webhook in Webhook.every("active = 1 ORDER BY id"):
        webhook.update_fields({"active": 0})


@sweeps.register
def delete_old_secrets(_: int) -> int:
    """Delete rotated secrets whose time of grace is over."""
    execute(
        "UPDATE webhook SET old_secret = NULL, old_secret_until = NULL WHERE old_secret_until < ?",
        (erasing_before(0),),
    )
    return 0


def _require_allowed_url(url: str) -> None:
    try:
        destinations.parse_destination(url, settings().webhook_allow)
    except InvalidValue as error:
        raise Invalid.field("url", error.code, error.detail) from None
