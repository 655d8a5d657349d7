"""Webhooks of a tenant, their deliveries, and a receiver to try them with."""

import errno
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import click

from crm.cli.commands import command, group, parse_moment, tenant_session
from crm.cli.tables import as_json, field, print_rows
from crm.config import Config
from crm.errors import NotFound
from crm.outbox import deliveries, events, signature
from crm.outbox.listener import WebhookListener
from crm.resources.webhooks import DELIVERY, WEBHOOK


@group.group("webhook")
def webhook() -> None:
    """Webhooks of a tenant, and a receiver for development."""


@command(webhook, "list")
@click.argument("tenant")
@as_json
def webhook_list(config: Config, tenant: str, as_json: bool) -> None:
    """List the webhooks of TENANT."""
    with tenant_session(config, tenant):
        rows = list(WEBHOOK.every("TRUE ORDER BY id"))
    print_rows(
        rows,
        as_json,
        id=field("id"),
        state=field("state"),
        url=field("url"),
        events=lambda row: "all kinds" if len(row["events"]) == len(events.KINDS)
        else ",".join(row["events"]),
        last_success=lambda row: row["last_success_at"] or "never",
    )  # fmt: skip


@command(webhook, "test")
@click.argument("tenant")
@click.argument("id")
def webhook_test(config: Config, tenant: str, id: str) -> None:
    """Send a test event to the webhook ID of TENANT, once, and print the delivery's id."""
    with tenant_session(config, tenant), _named("webhook", id):
        click.echo(deliveries.send_test(id))


@command(webhook, "deliveries")
@click.argument("tenant")
@click.argument("id")
@click.option("--limit", default=20, show_default=True, type=click.IntRange(1, 200))
@as_json
def webhook_deliveries(config: Config, tenant: str, id: str, limit: int, as_json: bool) -> None:
    """List the latest deliveries to the webhook ID of TENANT, the newest first."""
    with tenant_session(config, tenant), _named("webhook", id):
        webhook_id = WEBHOOK.one(id)["id"]
        condition = "webhook_id = ? ORDER BY delivery.id DESC LIMIT ?"
        rows = list(DELIVERY.every(condition, webhook_id, limit))
    print_rows(
        rows,
        as_json,
        id=field("id"),
        status=field("status"),
        type=field("type"),
        sequence=field("sequence"),
        attempts=lambda row: len(row["attempts"]),
        answer=lambda row: row["attempts"] and _answer(row["attempts"][-1]) or None,
        next_attempt=field("next_attempt_at"),
    )


@command(webhook, "resend")
@click.argument("tenant")
@click.argument("delivery")
def webhook_resend(config: Config, tenant: str, delivery: str) -> None:
    """Send the DELIVERY of TENANT once more, now and on a new schedule."""
    with tenant_session(config, tenant), _named("delivery", delivery):
        deliveries.resend(delivery)


@command(webhook, "recover")
@click.argument("tenant")
@click.argument("id")
@click.option("--since", required=True, help="A date, or a time with its offset.")
@click.option("--dry-run", is_flag=True, help="Count what would be sent; send nothing.")
def webhook_recover(config: Config, tenant: str, id: str, since: str, dry_run: bool) -> None:
    """Send all events that the webhook ID of TENANT missed, and print how many.

    A paused webhook is resumed.
    """
    moment = parse_moment(since, "since")
    with tenant_session(config, tenant), _named("webhook", id):
        click.echo(deliveries.recover(id, moment, dry_run))


def _check_secrets(_context: Any, _option: Any, secrets: tuple[str, ...]) -> tuple[str, ...]:
    # Signing something is the check: it decodes every secret.
    try:
        signature.make_headers(secrets, "id", 0, b"")
        is_valid = all(secret.removeprefix(signature.PREFIX) for secret in secrets)
    except ValueError:
        is_valid = False
    if not is_valid:
        raise click.BadParameter("a secret looks like whsec_… and is shown once")
    return secrets


# Not made by command(): it needs no data folder.
@webhook.command("listen")
@click.option("--port", required=True, type=click.IntRange(1, 65535), help="To listen on.")
@click.option(
    "--secret",
    "secrets",
    multiple=True,
    callback=_check_secrets,
    metavar="whsec_…",
    help="Secret to check signatures with; repeatable.",
)
@click.option(
    "--status",
    default=204,
    show_default=True,
    type=click.IntRange(200, 599),
    help="Status to answer with; 400 for a bad signature.",
)
def webhook_listen(port: int, secrets: tuple[str, ...], status: int) -> None:
    """Print the deliveries that arrive at this machine, until Ctrl-C."""
    try:
        listener = WebhookListener(port, secrets, status)
    except OSError as error:
        raise click.ClickException(_listen_error(port, error)) from error
    for number in (signal.SIGINT, signal.SIGTERM):  # a shell has `… &` ignore the first
        signal.signal(number, signal.default_int_handler)
    with suppress(KeyboardInterrupt), listener:
        click.echo(f"listening on {listener.address}")
        while True:
            click.echo(listener.next_text())


def _listen_error(port: int, error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return f"port {port} is in use"
    return f"cannot listen on port {port}: {error.strerror}"


@contextmanager
def _named(noun: str, id: str) -> Iterator[None]:
    """Name the record in a NotFound of the block."""
    try:
        yield
    except NotFound:
        raise NotFound(f"there is no {noun} {id}") from None


def _answer(attempt: dict[str, Any]) -> Any:
    return attempt["error"] or attempt["status_code"]
