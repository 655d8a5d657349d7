"""Webhooks of a tenant, their deliveries, and a receiver to try them with."""

import errno
import signal
from contextlib import suppress
from typing import Any

import click

from crm.cli.commands import PORT, list_command, parse_moment, subgroup, tenant_command
from crm.outbox import deliveries, events, signature
from crm.outbox.listener import WebhookListener
from crm.resources import webhooks
from crm.resources.webhooks import DELIVERY, WEBHOOK, WEBHOOK_IN

webhook = subgroup("webhook", "Webhooks of a tenant, and a receiver for development.")


@tenant_command(webhook, "create", "url")
@click.option("--events", metavar="KIND,…", help="Such as lead.created,deal.won; by default all.")
def webhook_create(url: str, events: str | None) -> str:
    """Send the events of TENANT to URL. The webhook's secret is the last line, shown once."""
    data = {"url": url} | ({"events": events.split(",")} if events else {})
    id, secret = webhooks.create(WEBHOOK_IN.parse(data))
    click.echo(f"webhook {id}; store its secret now: it is not shown again", err=True)
    return secret


@tenant_command(webhook, "list")
@list_command(
    "id state url events last_success",
    events=lambda row: (
        "all kinds" if len(row["events"]) == len(events.KINDS) else ",".join(row["events"])
    ),
    last_success=lambda row: row["last_success_at"] or "never",
)
def webhook_list() -> list[Any]:
    """List the webhooks of TENANT."""
    return list(WEBHOOK.every("TRUE ORDER BY id"))


@tenant_command(webhook, "test", "id")
def webhook_test(id: str) -> int:
    """Send a test event to the webhook ID of TENANT, once, and print the delivery's id."""
    return deliveries.send_test(id)


@tenant_command(webhook, "deliveries", "id")
@click.option("--limit", default=20, type=click.IntRange(1, 200))
@list_command(
    "id status type sequence attempts answer next_attempt",
    attempts=lambda row: len(row["attempts"]),
    answer=lambda row: row["attempts"] and _answer(row["attempts"][-1]) or None,
    next_attempt=lambda row: row["next_attempt_at"],
)
def webhook_deliveries(id: str, limit: int) -> list[Any]:
    """List the latest deliveries to the webhook ID of TENANT, the newest first."""
    webhook_id = WEBHOOK.one(id)["id"]
    condition = "webhook_id = ? ORDER BY delivery.id DESC LIMIT ?"
    return list(DELIVERY.every(condition, webhook_id, limit))


@tenant_command(webhook, "resend", "delivery")
def webhook_resend(delivery: str) -> None:
    """Send the DELIVERY of TENANT once more, now and on a new schedule."""
    deliveries.resend(delivery)


@tenant_command(webhook, "recover", "id")
@click.option("--since", required=True, help="A date, or a time with its offset.")
@click.option("--dry-run", is_flag=True, help="Count what would be sent; send nothing.")
def webhook_recover(id: str, since: str, dry_run: bool) -> int:
    """Send all events that the webhook ID of TENANT missed, and print how many.

    A paused webhook is resumed.
    """
    return deliveries.recover(id, parse_moment(since, "since"), dry_run)


def check_secrets(_context: Any, _option: Any, secrets: tuple[str, ...]) -> tuple[str, ...]:
    """The secrets of an option, each of which can sign. Raises BadParameter."""
    # Signing something is the check: it decodes every secret.
    with suppress(ValueError):
        signature.make_headers(secrets, "id", 0, b"")
        if all(secret.removeprefix(signature.PREFIX) for secret in secrets):
            return secrets
    raise click.BadParameter("a secret looks like whsec_… and is shown once")


# Not made by command(): it needs no data folder.
@webhook.command("listen")
@click.option("--port", required=True, type=PORT, help="To listen on.")
@click.option(
    "--secret",
    "secrets",
    multiple=True,
    callback=check_secrets,
    metavar="whsec_…",
    help="Secret to check signatures with; repeatable.",
)
@click.option(
    "--status",
    default=204,
    type=click.IntRange(200, 599),
    help="To answer with; 400 for a bad signature.",
)
def webhook_listen(port: int, secrets: tuple[str, ...], status: int) -> None:
    """Print the deliveries that arrive at this machine, until Ctrl-C."""
    try:
        listener = WebhookListener(port, secrets, status)
    except OSError as error:
        in_use, reason = error.errno == errno.EADDRINUSE, error.strerror
        text = f"port {port} is in use" if in_use else f"cannot listen on port {port}: {reason}"
        raise click.ClickException(text) from error
    for number in (signal.SIGINT, signal.SIGTERM):  # a shell has `… &` ignore the first
        signal.signal(number, signal.default_int_handler)
    with suppress(KeyboardInterrupt), listener:
        click.echo(f"listening on {listener.address}")
        while True:
            click.echo(listener.next_text())


def _answer(attempt: dict[str, Any]) -> Any:
    return attempt["error"] or attempt["status_code"]
