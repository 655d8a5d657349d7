"""Webhooks: where events are sent, and what became of each delivery (spec: Events; D1, D12, D15).

An endpoint gets all 14 kinds of events unless it has a list of them. Its secret is shown once. An
endpoint must not reveal what the maker of its key may not read: a key that sets an address or kinds
needs the right to read every record in their `data`, and in that of the deliveries that still wait
or are sent again, though the endpoint may not want their kinds any more. All receivers get the same
body, of which the signature is made. Sending is the outbox's.
"""

from collections.abc import Iterable
from functools import partial
from typing import Any

from marshmallow import fields as ma

from crm.access import rights
from crm.api.blueprints import Blueprint, Endpoints
from crm.api.envelopes import SECRET, ok_answer
from crm.json import loads
from crm.outbox import deliveries, events, subscriptions
from crm.outbox.subscriptions import Webhook
from crm.records import fields, parameters, queries, verbs
from crm.records.columns import N_
from crm.records.nested import NestedList
from crm.records.schemas import RecordSchema
from crm.records.views import RecordView, declare_views
from crm.storage.dialect import json_rows
from crm.storage.session import transaction

STATUSES = ("pending", "delivered", "failed", "held")
SHOWN_ATTEMPTS = 50  # of a delivery, which may be sent again any number of times


def create(data: dict[str, Any]) -> tuple[int, str]:
    """Add an endpoint, by default for all kinds, and return its id and its secret.

    Raises Invalid, Forbidden, and Conflict `too_many_webhooks`.
    """
    _require_right_to_read(loads(data["events"]) if "events" in data else events.KINDS)
    return subscriptions.create(data)


def update(id: int | str, data: dict[str, Any], expected_version: int | None = None) -> Webhook:
    """Change the sent fields of an endpoint as Webhook.update_fields().

    Raises also Forbidden, NotFound and Stale.
    """
    with transaction():
        webhook = Webhook.find(id, expected_version)
        has_new_url = data.get("url", webhook.url) != webhook.url
        kinds = data.get("events", webhook.events)
        if has_new_url or kinds != webhook.events:
            _require_right_to_read(loads(kinds))
        if has_new_url:
            _require_right_to_read(deliveries.list_pending_kinds(webhook.id))
        webhook.update_fields(data)
        return webhook


def resend(delivery_id: int | str) -> int:
    """Send a delivery once more and return its id. Raises Conflict, Forbidden and NotFound."""
    with transaction():
        _require_right_to_read(deliveries.list_unwanted_kinds(delivery_id))
        return deliveries.resend(delivery_id)


def _require_right_to_read(kinds: Iterable[str]) -> None:
    """Raise Forbidden unless the actor may read all in events of these kinds."""
    rights.require(scope for kind in kinds for scope in events.scopes_of_data(kind).values())


class AttemptSchema(RecordSchema):
    """One try to deliver."""

    at = fields.DateTime(dump_only=True)
    duration_ms = fields.Integer(dump_only=True)
    status_code = fields.Integer(100, 999, dump_only=True, allow_none=True)
    error = fields.Text(
        64, dump_only=True, allow_none=True, about="What went wrong when there is no good answer."
    )
    answer = fields.LongText(dump_only=True, allow_none=True, about="Its first 4 kB.")
    cause = fields.Choice("event", "resend", "recover", "test", dump_only=True)
    user_id = fields.Id(dump_only=True, allow_none=True, about="Who asked for it, if anybody.")
    key_id = fields.Id(dump_only=True, allow_none=True)


ATTEMPT = AttemptSchema.out("AttemptOut")


class DeliverySchema(RecordSchema):
    """An event to be delivered to a webhook, with the attempts made."""

    id = fields.Id(dump_only=True)
    webhook_id = fields.Id(dump_only=True)
    event_id = fields.Text(
        64,
        dump_only=True,
        column="coalesce(test_id, (SELECT id FROM event WHERE sequence = delivery.sequence))",
        example="evt_5f0c2a9be41d7736c8a1f4e2",
    )
    type = fields.Choice(
        *events.KINDS,
        deliveries.TEST_KIND,
        dump_only=True,
        column="coalesce((SELECT type FROM event WHERE sequence = delivery.sequence),"
        f" '{deliveries.TEST_KIND}')",
    )
    sequence = fields.Integer(1, 1 << 53, dump_only=True, allow_none=True, about="Null of a test.")
    status = fields.Choice(
        *STATUSES,
        dump_only=True,
        about="`failed`: after ten attempts; `held`: its endpoint was switched off.",
    )
    next_attempt_at = fields.DateTime(
        dump_only=True,
        allow_none=True,
        column="delivery.due_at",
        about="Null while it waits for an earlier event of the same record.",
    )
    attempts = NestedList(
        ATTEMPT,
        dump_only=True,
        column=json_rows(
            {name: name for name in ATTEMPT.fields},
            "(SELECT * FROM attempt WHERE delivery_id = delivery.id"
            # The inner query takes the latest ones, the outer order is that of the response.
            f" ORDER BY id DESC LIMIT {SHOWN_ATTEMPTS}) AS latest ORDER BY id",
        ),
        about=f"The latest {SHOWN_ATTEMPTS}, the oldest of them first.",
    )
    created_at = fields.DateTime(dump_only=True)
    delivered_at = fields.DateTime(dump_only=True, allow_none=True)


class RecoverySchema(RecordSchema):
    since = fields.DateTime(required=True, about="Events are kept for 30 days.")


ROTATED = ok_answer("Rotated", webhook_id=ma.String, secret=SECRET)
SENDING = ok_answer("Sending", delivery_id=ma.String)
COUNT = ma.Integer(required=True, metadata={"description": "Deliveries that go (again)."})
WEBHOOK, WEBHOOK_IN, WEBHOOK_PATCH = declare_views(Webhook)
DELIVERY = RecordView(DeliverySchema.out("DeliveryOut"), "delivery", live=False)
RECOVERY_IN = RecoverySchema.body("RecoveryIn")


WEBHOOK_FILTER = queries.filter_of(Webhook, queries.Filter, unsorted=("updated_at",))


class DeliveryFilter(queries.Filter):
    status = parameters.Equals(fields.Choice(*STATUSES))
    sort = parameters.Sort("-id")


DELIVERY_FILTER = DeliveryFilter()

blueprint = Blueprint("webhooks", "Where events are sent, and their deliveries.", N_("Webhooks"))


endpoints = Endpoints(blueprint, "/webhooks", WEBHOOK)
endpoints.list(WEBHOOK_FILTER(), "List the endpoints, the newest first.")
endpoints.create(
    create,
    "Add an endpoint; its secret is in this answer and in no other.",
    example={"url": "https://erp.example.com/crm"},
    secret=True,
    conflicts=True,
)
endpoints.get("Get one endpoint with its health.")
endpoints.change(
    update, "Change the sent fields of an endpoint; `active: true` switches it on again."
)
endpoints.delete(partial(verbs.erase, Webhook), "Delete an endpoint with its deliveries.")


@blueprint.operation("POST", "/webhooks/<id>/rotate", answer=ROTATED, secret=True)
def rotate_webhook_secret(id: str) -> dict[str, str]:
    """Make a new secret; the one before signs too for 24 hours."""
    return {"status": "ok", "webhook_id": str(id), "secret": subscriptions.rotate_secret(id)}


@blueprint.operation("POST", "/webhooks/<id>/test", answer=SENDING, status=202)
def test_webhook(id: str) -> dict[str, str]:
    """Send a `webhook.test`, once."""
    return {"status": "ok", "delivery_id": str(deliveries.send_test(id))}


Endpoints(blueprint, "/webhooks/<id>/deliveries", DELIVERY).list(
    DELIVERY_FILTER,
    "List the deliveries to an endpoint with their attempts, the newest first.",
    where=lambda id: ("webhook_id = ?", (Webhook.find(id).id,)),
    name="list_deliveries",
)


@blueprint.operation(
    "POST",
    "/webhooks/<id>/recover",
    query=queries.DRY_RUN,
    body=RECOVERY_IN,
    example={"since": "2026-03-02T09:00:00Z"},
    answer=ok_answer("Recovery", count=COUNT),
    status=202,
    conflicts=True,
)
def recover_webhook(id: str, query: parameters.Query, data: dict[str, Any]) -> dict[str, Any]:
    """Send all events that the webhook missed since a time; a paused one is switched on."""
    return {"status": "ok", "count": deliveries.recover(id, data["since"], query.dry_run)}


Endpoints(blueprint, "/deliveries", DELIVERY).get("Get one delivery with its attempts.")


@blueprint.operation("POST", "/deliveries/<id>/resend", answer=SENDING, status=202, conflicts=True)
def resend_delivery(id: str) -> dict[str, str]:
    """Send a delivery once more, now and on a new schedule."""
    return {"status": "ok", "delivery_id": str(resend(id))}
