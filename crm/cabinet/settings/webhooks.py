"""Integrations, Webhooks (D15): where events are sent, how each address does, what became of each
delivery, and sending again what was missed."""

from functools import partial
from shlex import quote
from typing import Any

from flask import request
from werkzeug.wrappers import Response

from crm.cabinet import edits, user_choices
from crm.cabinet.forms import Form, load_form
from crm.cabinet.languages import gettext
from crm.cabinet.rendering import confirmed, flash, rerender_on_error, see_other
from crm.cabinet.settings import labels
from crm.cabinet.settings.sections import pages, show, with_refusal
from crm.errors import Invalid, NotFound
from crm.outbox import deliveries, events, signature, subscriptions
from crm.outbox.subscriptions import Webhook
from crm.records import pagination
from crm.records.schemas import Body, Payload
from crm.resources import webhooks
from crm.resources.webhooks import (
    DELIVERY,
    DELIVERY_FILTER,
    RECOVERY_IN,
    WEBHOOK,
    WEBHOOK_IN,
    WEBHOOK_PATCH,
)
from crm.tenancy.database import current_session

PATH = "/settings/webhooks"
FIELDS = ("url", "description")
EDITED = (*FIELDS, "events", "active")


@pages.get(PATH)
def list_webhooks(form: Form | None = None) -> Response:
    return show(
        "webhooks.html",
        webhooks=_with_health(WEBHOOK.every("TRUE ORDER BY id DESC")),
        form=form or Form({"events": [*events.KINDS]}),
        kinds=labels.kinds(),
    )


@pages.post(PATH)
@rerender_on_error(lambda form: list_webhooks(form))
def add_webhook() -> Response:
    # No redirect: this response is the only one that has the secret.
    id, secret = webhooks.create(_load_webhook_form(WEBHOOK_IN, FIELDS))
    return show("webhook_secret.html", id=id, secret=secret, is_new=True)


@pages.get(f"{PATH}/<id>")
def show_webhook(
    id: str,
    form: Form | None = None,
    refused: Form | None = None,
    recovery: Form | None = None,
    missed: int | None = None,
) -> Response:
    """Show a webhook. `missed`: how many deliveries the recovery to be confirmed would send."""
    ((webhook, health),) = _with_health([WEBHOOK.one(id)])
    query = DELIVERY_FILTER.read(request.args)
    of_webhook = (int(webhook["id"]),)
    order = DELIVERY_FILTER.fields["sort"]
    return show(
        "webhook.html",
        webhook=webhook,
        health=health,
        page=pagination.page(DELIVERY, query, order, "webhook_id = ?", of_webhook),
        form=form or with_refusal(edits.with_digests(webhook, EDITED), refused),
        recovery=recovery or Form(),
        missed=missed,
        kinds=labels.kinds(),
        statuses=labels.statuses(),
        notices=labels.notices(),
        errors=labels.errors(),
    )


@pages.post(f"{PATH}/<id>")
@rerender_on_error(lambda form, id: show_webhook(id, form))
def change_webhook(id: str) -> Response:
    data = _load_webhook_form(WEBHOOK_PATCH, (*FIELDS, "active"))
    edits.flash_saved(edits.save(WEBHOOK, id, data, partial(webhooks.update, id)))
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
    flash(gettext("The test is being sent. Reload the page to see the result."), "info")
    return see_other(f"{PATH}/{id}/deliveries/{delivery}")


@pages.post(f"{PATH}/<id>/delete")
def delete_webhook(id: str) -> Response:
    with confirmed(
        gettext("Delete the webhook to %(url)s?", url=Webhook.find(id).url),
        gettext("Delete"),
        f"{PATH}/{id}",
        gettext("Its secret and the log of its deliveries are deleted too."),
    ):
        subscriptions.delete(id)
    flash(gettext("Webhook deleted"))
    return see_other(PATH)


@pages.post(f"{PATH}/<id>/recover")
@rerender_on_error(lambda form, id: show_webhook(id, recovery=form))
def recover_webhook(id: str) -> Response:
    """Show how many deliveries would be sent; send them when the user has confirmed that."""
    since = load_form(RECOVERY_IN, request.form, ("since",))["since"]
    counts = "go" not in request.form
    missed = deliveries.recover(id, since, dry_run=counts)
    if counts:
        return show_webhook(id, recovery=Form(request.form), missed=missed)
    flash(gettext("Deliveries being sent: %(count)s", count=missed))
    return see_other(f"{PATH}/{id}")


@pages.get(f"{PATH}/<id>/deliveries/<delivery_id>")
def show_delivery(id: str, delivery_id: str, refused: Form | None = None) -> Response:
    webhook, delivery = Webhook.find(id), _delivery(id, delivery_id)
    event_id, body = deliveries.load_body(delivery["id"])
    return show(
        "delivery.html",
        webhook=WEBHOOK.one(id),
        delivery=delivery,
        form=with_refusal({}, refused),
        body=body.decode(),
        curl=as_curl(webhook, event_id, body),
        people=user_choices.everyone(),
        kinds=labels.kinds(),
        statuses=labels.statuses(),
        errors=labels.errors(),
        causes=labels.causes(),
    )


@pages.post(f"{PATH}/<id>/deliveries/<delivery_id>/resend")
@rerender_on_error(lambda form, id, delivery_id: show_delivery(id, delivery_id, form))
def resend_delivery(id: str, delivery_id: str) -> Response:
    deliveries.resend(_delivery(id, delivery_id)["id"])
    flash(gettext("The delivery is being sent. Reload the page to see the result."), "info")
    return see_other(f"{PATH}/{id}/deliveries/{delivery_id}")


def _with_health(views: list[dict[str, Any]]) -> list[tuple[dict[str, Any], tuple[str, str]]]:
    """Return each webhook with its health: (text, kind of badge).

    The badge is green only if the last attempt succeeded. A webhook that was switched on again
    after failures is `active` in the API, where `failing` is only about attempts since then.
    """
    states, retrying = labels.states(), deliveries.find_retrying_webhooks()
    with_health = []
    for webhook in views:
        state = webhook["state"]
        if state == "active":
            last_failure, last_success = webhook["last_failure_at"], webhook["last_success_at"]
            if last_failure and last_failure > (last_success or ""):
                state = "failed"
            elif int(webhook["id"]) in retrying:
                state = "retrying"
            elif not last_success:
                state = "unused"
        with_health.append((webhook, states[state]))
    return with_health


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
    delivery = DELIVERY.one(id)
    if delivery["webhook_id"] != webhook_id:
        raise NotFound
    return delivery


def _load_webhook_form(schema: Body, names: tuple[str, ...]) -> Payload:
    kinds: list[Any] = request.form.getlist("events")
    if not kinds:
        raise Invalid.field("events", "required", "choose at least one kind of event")
    return load_form(schema, request.form, names, events=kinds)
