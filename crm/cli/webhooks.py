"""For those who write a receiver of webhooks: events as files or by a change in a tenant for trying
out, and a receiver to try them with."""

import os
import signal
import time
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import click

from crm import create_app
from crm.api.envelopes import EXAMPLE_SECRET
from crm.cli.commands import PORT, command, group, read_time, subgroup, tenant_session
from crm.config import Config
from crm.demo import samples
from crm.embedding.resources import resources_of
from crm.outbox import events, signature
from crm.outbox.listener import WebhookListener
from crm.resources import tenant as tenants_rules

webhook = subgroup("webhook", "A receiver of webhooks for development.")


def check_secrets(_context: Any, _option: Any, secrets: tuple[str, ...]) -> tuple[str, ...]:
    """The secrets of an option, each of which can sign. Raises BadParameter."""
    # Signing something is the check: it decodes every secret.
    with suppress(ValueError):
        signature.make_headers(secrets, "id", 0, b"")
        if all(secret.removeprefix(signature.PREFIX) for secret in secrets):
            return secrets
    raise click.BadParameter("a secret looks like whsec_… and is shown once")


secret_option = partial(
    click.option, "--secret", "secrets", multiple=True, callback=check_secrets, metavar="whsec_…"
)


# Not made by command(): it needs no data folder.
@webhook.command("listen")
@click.option("--port", required=True, type=PORT, help="To listen on.")
@secret_option(help="Secret to check signatures with; repeatable.")
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
        reason = os.strerror(error.errno or 0)
        raise click.ClickException(f"cannot listen on port {port}: {reason}") from error
    for number in (signal.SIGINT, signal.SIGTERM):  # a shell has `… &` ignore the first
        signal.signal(number, signal.default_int_handler)
    with suppress(KeyboardInterrupt), listener:
        click.echo(f"listening on {listener.address}")
        while True:
            click.echo(listener.next_text())


@command(group, "samples", folder="unused", prints_folder=False)
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path, file_okay=False))
@secret_option(
    default=[EXAMPLE_SECRET],
    show_default="that of the documentation",
    help="Secret to sign with; repeatable.",
)
@click.option("--clock", help="When it all happens; by default now.")
def samples_(config: Config, folder: Path, secrets: tuple[str, ...], clock: str | None) -> str:
    """Write a signed delivery of each kind of event into DIR: the body, and its headers.

    With the same clock and secret the files are the same each time. No tenant is used.
    """
    moment = read_time(clock, "clock") if clock else time.time()
    paths = samples.write_samples(folder, secrets, moment)
    return f"{len(paths)} bodies and their headers: {folder}"


@command(group, "trigger")
@click.argument("kind", type=click.Choice(list(events.KINDS)))
@click.option("--tenant", required=True, help="Of the demo, or a clone.")
def trigger(config: Config, kind: str, tenant: str) -> str:
    """Make an event of KIND by a real change with new records, and print its body.

    It is delivered to the tenant's webhooks as any other. Only tenants of the demo and copies made
    by `tenant clone` are changed.
    """
    resources = resources_of(create_app(config, sends=False))
    with tenant_session(config, tenant):
        tenants_rules.require_trial()
        sequence = samples.make_event(kind, resources)
        return events.load_event_body(sequence)[1].decode()
