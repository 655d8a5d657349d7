"""Webhooks of a tenant, their deliveries, and a receiver to try them with."""

import errno
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import click

from crm.cli.commands import at, command, group, moment_of
from crm.cli.tables import as_json, field, print_rows
from crm.config import Config
from crm.errors import NotFound
from crm.outbox import deliveries, events, signature
from crm.outbox.listener import WebhookListener
from crm.resources.webhooks import DELIVERY, WEBHOOK


@group.group("webhook")
def webhook() -> None:
    """Webhooks of a tenant, and a receiver for a laptop."""


@command(webhook, "list")
@click.argument("tenant")
@as_json
def webhook_list(config: Config, tenant: str, as_json: bool) -> None:
    """List the webhooks of TENANT."""
    with at(config, tenant):
        rows = list(WEBHOOK.every("1 ORDER BY id"))
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
    """Have a test sent to the webhook ID of TENANT, once, and print its delivery."""
    with at(config, tenant), _named("webhook", id):
        click.echo(deliveries.send_test(id))


@command(webhook, "deliveries")
@click.argument("tenant")
@click.argument("id")
@click.option("--limit", default=20, show_default=True, type=click.IntRange(1, 200))
@as_json
def webhook_deliveries(config: Config, tenant: str, id: str, limit: int, as_json: bool) -> None:
    """List the latest deliveries to the webhook ID of TENANT, the newest first."""
    with at(config, tenant), _named("webhook", id):
        of = WEBHOOK.one(id)["id"]
        found = "webhook_id = ? ORDER BY delivery.id DESC LIMIT ?"
        rows = list(DELIVERY.every(found, of, limit))
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
    """Have the DELIVERY of TENANT sent once more, now and on a new schedule."""
    with at(config, tenant), _named("delivery", delivery):
        deliveries.resend(delivery)


@command(webhook, "recover")
@click.argument("tenant")
@click.argument("id")
@click.option("--since", required=True, help="A date, or a time with its offset.")
@click.option("--dry-run", is_flag=True, help="Count what would be sent; send nothing.")
def webhook_recover(config: Config, tenant: str, id: str, since: str, dry_run: bool) -> None:
    """Have all sent that the webhook ID of TENANT missed, and print how many.

    A paused webhook goes on.
    """
    moment = moment_of(since, "since")
    with at(config, tenant), _named("webhook", id):
        click.echo(deliveries.recover(id, moment, dry_run))


def _some_secrets(_context: Any, _option: Any, secrets: tuple[str, ...]) -> tuple[str, ...]:
    try:
        signature.make_headers(secrets, "id", 0, b"")
        good = all(secret.removeprefix(signature.PREFIX) for secret in secrets)
    except ValueError:
        good = False
    if not good:
        raise click.BadParameter("a secret looks like whsec_… and is shown once")
    return secrets


# It needs no data folder, so it is outside of the frame.
@webhook.command("listen")
@click.option("--port", required=True, type=click.IntRange(1, 65535), help="To listen on.")
@click.option(
    "--secret",
    "secrets",
    multiple=True,
    callback=_some_secrets,
    metavar="whsec_…",
    help="To check signatures by; may be given again.",
)
@click.option(
    "--status",
    default=204,
    show_default=True,
    type=click.IntRange(200, 599),
    help="To answer; a bad signature is answered with 400.",
)
def webhook_listen(port: int, secrets: tuple[str, ...], status: int) -> None:
    """Show the deliveries that reach this machine, until Ctrl-C."""
    try:
        here = WebhookListener(port, secrets, status)
    except OSError as error:
        raise click.ClickException(_why_not(port, error)) from error
    for stop in (signal.SIGINT, signal.SIGTERM):  # a shell has `… &` ignore the first
        signal.signal(stop, signal.default_int_handler)
    with suppress(KeyboardInterrupt), here:
        click.echo(f"listening on {here.address}")
        while True:
            click.echo(here.next_text())


def _why_not(port: int, error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return f"port {port} is in use"
    return f"cannot listen on port {port}: {error.strerror}"


@contextmanager
def _named(noun: str, id: str) -> Iterator[None]:
    """Say what it is that isn't there."""
    try:
        yield
    except NotFound:
        raise NotFound(f"there is no {noun} {id}") from None


def _answer(attempt: dict[str, Any]) -> Any:
    return attempt["error"] or attempt["status_code"]
