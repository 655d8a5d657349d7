"""Integrations, Webhooks (D15): where events are sent, how each address does, what became of each
delivery, and sending again what was missed."""

import json
from contextlib import nullcontext
from functools import partial
from shlex import quote
from typing import Any

from flask import request
from werkzeug.wrappers import Response

from crm.cabinet import edits
from crm.cabinet.forms import Form, load_form
from crm.cabinet.languages import gettext
from crm.cabinet.rendering import confirmed, see_other
from crm.cabinet.settings import identity
from crm.cabinet.settings.sections import pages, show
from crm.errors import Invalid, NotFound
from crm.outbox import deliveries, events, signature, subscriptions
from crm.outbox.subscriptions import Webhook
from crm.records import pagination
from crm.records.schemas import Body, Payload
from crm.resources import webhooks
from crm.storage.session import current_session

PATH = "/settings/webhooks"
FIELDS = ("url", "description")
EDITED = (*FIELDS, "events", "active")


@pages.get(PATH)
def list_webhooks(form: Form | None = None) -> Response:
    return show(
        "webhooks.html",
        webhooks=_with_health(webhooks.WEBHOOK.every("TRUE ORDER BY id DESC")),
        form=form or Form({"events": [*events.KINDS]}),
    )


@pages.post(PATH, page=list_webhooks, once=True)
def add_webhook() -> Response:
    # No redirect: this response is the only one that has the secret.
    data = _load_webhook_form(webhooks.WEBHOOK_IN, FIELDS)
    with identity.proven_change():
        id, secret = webhooks.create(data)
    return show("webhook_secret.html", id=id, secret=secret, is_new=True)


@pages.get(f"{PATH}/<id>")
def show_webhook(
    id: str, form: Form | None = None, recovery: Form | None = None, missed: int | None = None
) -> Response:
    """Show a webhook. `missed`: how many deliveries the recovery to be confirmed would send."""
    (webhook,) = _with_health([webhooks.WEBHOOK.one(id)])
    query = webhooks.DELIVERY_FILTER.read(request.args)
    of_webhook = (int(webhook["id"]),)
    order = webhooks.DELIVERY_FILTER.fields["sort"]
    return show(
        "webhook.html",
        webhook=webhook,
        page=pagination.page(webhooks.DELIVERY, query, order, "webhook_id = ?", of_webhook),
        form=form or edits.open_form(webhook, EDITED),
        recovery=recovery or Form(),
        missed=missed,
    )


@pages.post(f"{PATH}/<id>", page=show_webhook)
def change_webhook(id: str) -> Response:
    data = _load_webhook_form(webhooks.WEBHOOK_PATCH, (*FIELDS, "active"))
    is_moved = data["url"] != Webhook.find(id).url
    with identity.proven_change() if is_moved else nullcontext():
        edits.save(webhooks.WEBHOOK, id, data, partial(webhooks.update, id))
    return see_other(f"{PATH}/{id}")


@pages.post(f"{PATH}/<id>/rotate")
def rotate_secret(id: str) -> Response:
    with confirmed(
        gettext("Create a new secret?"),
        gettext("Create a new secret"),
        f"{PATH}/{id}",
        gettext("The current secret is replaced and stays valid for 24 hours beside the new one."),
    ):
        secret = subscriptions.rotate_secret(id)
    return show("webhook_secret.html", id=id, secret=secret, is_new=False)


@pages.post(f"{PATH}/<id>/test")
def test_webhook(id: str) -> Response:
    delivery = deliveries.send_test(id)
    return see_other(
        f"{PATH}/{id}/deliveries/{delivery}",
        gettext("The test is being sent. Reload the page to see the result."),
        "info",
    )


@pages.post(f"{PATH}/<id>/delete")
def delete_webhook(id: str) -> Response:
    with confirmed(
        gettext("Delete the webhook to %(url)s?", url=Webhook.find(id).url),
        gettext("Delete"),
        f"{PATH}/{id}",
        gettext("Its secret and the log of its deliveries are deleted too."),
    ):
        subscriptions.delete(id)
    return see_other(PATH, gettext("Webhook deleted"))


@pages.post(f"{PATH}/<id>/recover", page=show_webhook, form_name="recovery")
def recover_webhook(id: str) -> Response:
    """Show how many deliveries would be sent; send them when the user has confirmed that."""
    since = load_form(webhooks.RECOVERY_IN, ("since",))["since"]
    counts = "go" not in request.form
    missed = deliveries.recover(id, since, dry_run=counts)
    if counts:
        return show_webhook(id, recovery=Form(request.form), missed=missed)
    return see_other(f"{PATH}/{id}", gettext("Deliveries being sent: %(count)s", count=missed))


@pages.get(f"{PATH}/<id>/deliveries/<delivery_id>")
def show_delivery(id: str, delivery_id: str, form: Form | None = None) -> Response:
    webhook, delivery = Webhook.find(id), _delivery(id, delivery_id)
    event_id, body = deliveries.load_body(delivery["id"])
    return show(
        "delivery.html",
        webhook=webhooks.WEBHOOK.one(id),
        delivery=delivery,
        form=form or Form(),
        body=json.dumps(json.loads(body), indent=2, ensure_ascii=False),
        curl=as_curl(webhook, event_id, body),
    )


@pages.post(f"{PATH}/<id>/deliveries/<delivery_id>/resend", page=show_delivery)
def resend_delivery(id: str, delivery_id: str) -> Response:
    deliveries.resend(_delivery(id, delivery_id)["id"])
    return see_other(
        f"{PATH}/{id}/deliveries/{delivery_id}",
        gettext("The delivery is being sent. Reload the page to see the result."),
        "info",
    )


def _with_health(webhooks: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Add to each webhook its `health`: its state, or how its last attempts ended.

    It is good only if the last attempt succeeded. A webhook that was switched on again after
    failures is `active` in the API, where `failing` is only about attempts since then.
    """
    retrying = deliveries.find_retrying_webhooks()
    for webhook in webhooks:
        health = webhook["state"]
        if health == "active":
            last_failure, last_success = webhook["last_failure_at"], webhook["last_success_at"]
            if last_failure and last_failure > (last_success or ""):
                health = "failed"
            elif int(webhook["id"]) in retrying:
                health = "retrying"
            elif not last_success:
                health = "unused"
        webhook["health"] = health
    return webhooks


def as_curl(webhook: Webhook, event_id: str, body: bytes) -> str:
    """Return the delivery as a curl command, signed now: receivers accept it for five minutes."""
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
    delivery = webhooks.DELIVERY.one(id)
    if delivery["webhook_id"] != webhook_id:
        raise NotFound
    return delivery


def _load_webhook_form(schema: Body, names: tuple[str, ...]) -> Payload:
    kinds: list[Any] = request.form.getlist("events")
    if not kinds:
        raise Invalid.field("events", "required", "choose at least one kind of event")
    return load_form(schema, names, events=kinds)
