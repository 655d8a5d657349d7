"""Integrations, Webhooks (D15): where events are sent, how each address does, what became of each
delivery, and sending again what was missed."""

from shlex import quote
from typing import Any

from flask import request
from werkzeug.wrappers import Response

from crm.cabinet import user_choices
from crm.cabinet.forms import Form, take
from crm.cabinet.languages import gettext
from crm.cabinet.rendering import again, confirm, onward, told
from crm.cabinet.settings import labels
from crm.cabinet.settings.sections import beside, pages, show
from crm.errors import Invalid, NotFound
from crm.outbox import deliveries, events, signature
from crm.outbox.subscriptions import Webhook
from crm.records import pagination
from crm.records.views import Body, Payload
from crm.resources import webhooks
from crm.resources.webhooks import (
    DELIVERY,
    DELIVERY_FILTER,
    RECOVERY_IN,
    WEBHOOK,
    WEBHOOK_IN,
    WEBHOOK_PATCH,
)
from crm.tenancy.database import current_session, transaction

PATH = "/settings/webhooks"
FIELDS = ("url", "description")


@pages.get(PATH)
def list_webhooks(form: Form | None = None) -> Response:
    return show(
        "webhooks.html",
        webhooks=_with_health(WEBHOOK.every("1 ORDER BY id DESC")),
        form=form or Form({"events": [*events.KINDS]}),
        kinds=labels.kinds(),
    )


@pages.post(PATH)
@again(lambda form: list_webhooks(form))
def add_webhook() -> Response:
    id, secret = webhooks.create(_taken(WEBHOOK_IN, FIELDS))
    return show("webhook_secret.html", id=id, secret=secret, is_new=True)


@pages.get(f"{PATH}/<id>")
def show_webhook(
    id: str,
    form: Form | None = None,
    refused: Form | None = None,
    recovery: Form | None = None,
    missed: int | None = None,
) -> Response:
    """`missed`: how many deliveries the recovery that is asked about would send."""
    ((webhook, health),) = _with_health([WEBHOOK.one(id)])
    query = DELIVERY_FILTER.read(request.args)
    of_webhook = (int(webhook["id"]),)
    order = DELIVERY_FILTER.fields["sort"]
    return show(
        "webhook.html",
        webhook=webhook,
        health=health,
        page=pagination.page(DELIVERY, query, order, "webhook_id = ?", of_webhook),
        form=form or beside(webhook, refused),
        recovery=recovery or Form(),
        missed=missed,
        kinds=labels.kinds(),
        statuses=labels.statuses(),
        notices=labels.notices(),
        errors=labels.errors(),
    )


@pages.post(f"{PATH}/<id>")
@again(lambda form, id: show_webhook(id, form))
def change_webhook(id: str) -> Response:
    data = _taken(WEBHOOK_PATCH, (*FIELDS, "active"))
    with transaction():
        Webhook.find(id).change(data)
    told(gettext("Saved."))
    return onward(f"{PATH}/{id}")


@pages.post(f"{PATH}/<id>/rotate")
def rotate_secret(id: str) -> Response:
    with transaction():
        secret = Webhook.find(id).rotate_secret()
        confirm(
            gettext("Create a new secret?"),
            gettext("Create a new secret"),
            f"{PATH}/{id}",
            gettext(
                "The current secret is replaced and stays valid for 24 hours beside the new one."
            ),
        )
    return show("webhook_secret.html", id=id, secret=secret, is_new=False)


@pages.post(f"{PATH}/<id>/test")
def test_webhook(id: str) -> Response:
    delivery = deliveries.send_test(id)
    told(gettext("The test is being sent. Reload the page to see the result."), "info")
    return onward(f"{PATH}/{id}/deliveries/{delivery}")


@pages.post(f"{PATH}/<id>/delete")
def delete_webhook(id: str) -> Response:
    with transaction():
        webhook = Webhook.find(id)
        webhook.erase()
        confirm(
            gettext("Delete the webhook to %(url)s?", url=webhook.url),
            gettext("Delete"),
            f"{PATH}/{id}",
            gettext("Its secret and the log of its deliveries are deleted too."),
        )
    told(gettext("Webhook deleted"))
    return onward(PATH)


@pages.post(f"{PATH}/<id>/recover")
@again(lambda form, id: show_webhook(id, recovery=form))
def recover_webhook(id: str) -> Response:
    """Counts first; sends when that count was seen."""
    since = take(RECOVERY_IN, request.form, ("since",))["since"]
    counts = "go" not in request.form
    missed = deliveries.recover(id, since, dry_run=counts)
    if counts:
        return show_webhook(id, recovery=Form(request.form), missed=missed)
    told(gettext("Deliveries being sent: %(count)s", count=missed))
    return onward(f"{PATH}/{id}")


@pages.get(f"{PATH}/<id>/deliveries/<delivery_id>")
def show_delivery(id: str, delivery_id: str, refused: Form | None = None) -> Response:
    webhook, delivery = Webhook.find(id), _delivery(id, delivery_id)
    event_id, body = deliveries.load_body(delivery["id"])
    return show(
        "delivery.html",
        webhook=WEBHOOK.one(id),
        delivery=delivery,
        form=beside({}, refused),
        body=body.decode(),
        curl=as_curl(webhook, event_id, body),
        people=user_choices.everyone(),
        kinds=labels.kinds(),
        statuses=labels.statuses(),
        errors=labels.errors(),
        causes=labels.causes(),
    )


@pages.post(f"{PATH}/<id>/deliveries/<delivery_id>/resend")
@again(lambda form, id, delivery_id: show_delivery(id, delivery_id, form))
def resend_delivery(id: str, delivery_id: str) -> Response:
    deliveries.resend(_delivery(id, delivery_id)["id"])
    told(gettext("The delivery is being sent. Reload the page to see the result."), "info")
    return onward(f"{PATH}/{id}/deliveries/{delivery_id}")


def _with_health(found: list[dict[str, Any]]) -> list[tuple[dict[str, Any], tuple[str, str]]]:
    """Each webhook, and how it does: (words, kind of badge).

    It is green only while nothing that was sent last failed. Switched on again after failures it is
    `active` to the API, whose `failing` tells of what happened since.
    """
    states, retrying = labels.states(), deliveries.find_retrying_webhooks()
    shown = []
    for webhook in found:
        state = webhook["state"]
        if state == "active":
            last_failure, last_success = webhook["last_failure_at"], webhook["last_success_at"]
            if last_failure and last_failure > (last_success or ""):
                state = "failed"
            elif int(webhook["id"]) in retrying:
                state = "retrying"
            elif not last_success:
                state = "unused"
        shown.append((webhook, states[state]))
    return shown


def as_curl(webhook: Webhook, event_id: str, body: bytes) -> str:
    """The delivery as a line for a shell, signed for now: receivers take it for five minutes."""
    moment = int(current_session().clock())
    signed = signature.make_headers(webhook.active_secrets(), event_id, moment, body)
    headers = {"content-type": "application/json", **signed}
    parts = [
        f"curl -i {quote(webhook.url)}",
        *(f"-H {quote(f'{name}: {value}')}" for name, value in headers.items()),
        f"--data-raw {quote(body.decode())}",
    ]
    return " \\\n  ".join(parts)


def _delivery(webhook_id: str, id: str) -> dict[str, Any]:
    """The delivery as it is shown; raises NotFound, also for another webhook's."""
    found = DELIVERY.one(id)
    if found["webhook_id"] != webhook_id:
        raise NotFound
    return found


def _taken(schema: Body, names: tuple[str, ...]) -> Payload:
    kinds: list[Any] = request.form.getlist("events")
    if not kinds:
        raise Invalid.field("events", "required", "choose at least one kind of event")
    return take(schema, request.form, names, events=kinds)
