"""Integrations, Webhooks (D15): where events are sent, how each address does, what became of each
delivery, and sending again what was missed."""

import json
from contextlib import nullcontext
from functools import partial
from typing import Any

from flask import request
from werkzeug.wrappers import Response

from crm.cabinet import edits
from crm.cabinet.forms import Form, load_form
from crm.cabinet.languages import gettext, ngettext
from crm.cabinet.rendering import confirmed, see_other
from crm.cabinet.settings import identity
from crm.cabinet.settings.sections import pages, show
from crm.errors import Invalid
from crm.outbox import deliveries, events, subscriptions
from crm.records import pagination, verbs
from crm.records.schemas import Body, Payload
from crm.resources import webhooks

PATH = "/settings/webhooks"
FIELDS = ("url", "description")
EDITED = (*FIELDS, "events", "active")


@pages.get(PATH)
def list_webhooks(form: Form | None = None) -> Response:
    return show(
        "webhooks.html",
        webhooks=webhooks.WEBHOOK.every("TRUE ORDER BY id DESC"),
        health_of=health_of,
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
def show_webhook(id: str, form: Form | None = None, recovery: Form | None = None) -> Response:
    webhook = webhooks.WEBHOOK.one(id)
    query = webhooks.DELIVERY_FILTER.read(request.args)
    of_webhook = (int(webhook["id"]),)
    order = webhooks.DELIVERY_FILTER.fields["sort"]
    return show(
        "webhook.html",
        webhook=webhook,
        health_of=health_of,
        page=pagination.page(webhooks.DELIVERY, query, order, "webhook_id = ?", of_webhook),
        form=form or edits.open_form(webhook, EDITED),
        recovery=recovery or Form(),
    )


@pages.post(f"{PATH}/<id>", page=show_webhook)
def change_webhook(id: str) -> Response:
    data = _load_webhook_form(webhooks.WEBHOOK_PATCH, (*FIELDS, "active"))
    is_moved = data["url"] != subscriptions.Webhook.find(id).url
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
    return _see_delivery(id, deliveries.send_test(id))


@pages.post(f"{PATH}/<id>/delete")
def delete_webhook(id: str) -> Response:
    with confirmed(
        gettext("Delete the webhook to %(url)s?", url=subscriptions.Webhook.find(id).url),
        gettext("Delete"),
        f"{PATH}/{id}",
        gettext("Its secret and the log of its deliveries are deleted too."),
    ):
        verbs.erase(subscriptions.Webhook, id)
    return see_other(PATH, gettext("Webhook deleted"))


@pages.post(f"{PATH}/<id>/recover", page=show_webhook, form_name="recovery")
def recover_webhook(id: str) -> Response:
    since = load_form(webhooks.RECOVERY_IN, ("since",))["since"]
    missed = deliveries.recover(id, since, dry_run=True)
    question = ngettext("%(num)d delivery was missed.", "%(num)d deliveries were missed.", missed)
    with confirmed(question, gettext("Send now"), f"{PATH}/{id}"):
        deliveries.recover(id, since)
    return see_other(f"{PATH}/{id}", gettext("Deliveries being sent: %(count)s", count=missed))


@pages.get(f"{PATH}/<id>/deliveries/<delivery_id>")
def show_delivery(id: str, delivery_id: str, form: Form | None = None) -> Response:
    delivery = webhooks.DELIVERY.one(delivery_id)
    _, body = deliveries.load_body(delivery["id"])
    return show(
        "delivery.html",
        webhook=webhooks.WEBHOOK.one(delivery["webhook_id"]),
        delivery=delivery,
        form=form or Form(),
        body=json.dumps(json.loads(body), indent=2, ensure_ascii=False),
    )


@pages.post(f"{PATH}/<id>/deliveries/<delivery_id>/resend", page=show_delivery)
def resend_delivery(id: str, delivery_id: str) -> Response:
    deliveries.resend(delivery_id)
    return _see_delivery(id, delivery_id)


def _see_delivery(webhook_id: str, id: int | str) -> Response:
    text = gettext("The delivery is being sent. Reload the page to see the result.")
    return see_other(f"{PATH}/{webhook_id}/deliveries/{id}", text, "info")


def health_of(webhook: dict[str, Any]) -> str:
    """The state of a webhook; of an active one also if its last attempt failed, or none was made.

    A webhook that was switched on again after failures is `active` in the API, where `failing` is
    only about attempts since then.
    """
    failure, success = webhook["last_failure_at"] or "", webhook["last_success_at"] or ""
    if webhook["state"] == "active" and failure >= success:
        return "failed" if failure else "unused"
    return webhook["state"]


def _load_webhook_form(schema: Body, names: tuple[str, ...]) -> Payload:
    kinds: list[Any] = request.form.getlist("events")
    if not kinds:
        raise Invalid.field("events", "required", "choose at least one kind of event")
    return load_form(schema, names, events=kinds)
