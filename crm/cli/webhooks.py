"""A receiver to try webhooks with."""

import errno
import signal
from contextlib import suppress
from typing import Any

import click

from crm.cli.commands import PORT, subgroup
from crm.outbox import signature
from crm.outbox.listener import WebhookListener

webhook = subgroup("webhook", "A receiver of webhooks for development.")


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
