"""Events for those who write a receiver: as files, or by a change in a tenant for trying out."""

import time
from pathlib import Path

import click

from crm import create_app
from crm.api.envelopes import EXAMPLE_SECRET
from crm.cli.commands import command, group, read_clock, tenant_session
from crm.cli.webhooks import check_secrets
from crm.config import Config
from crm.demo import samples
from crm.embedding.resources import resources_of
from crm.outbox import events
from crm.resources import tenant as tenants_rules


@command(group, "samples", folder="unused", prints_folder=False)
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path, file_okay=False))
@click.option(
    "--secret",
    "secrets",
    multiple=True,
    default=[EXAMPLE_SECRET],
    show_default="that of the documentation",
    callback=check_secrets,
    metavar="whsec_…",
    help="Secret to sign with; repeatable.",
)
@click.option("--clock", help="When it all happens; by default now.")
def samples_(config: Config, folder: Path, secrets: tuple[str, ...], clock: str | None) -> str:
    """Write a signed delivery of each kind of event into DIR: the body, and its headers.

    With the same clock and secret the files are the same each time. No tenant is used.
    """
    moment = read_clock(clock) if clock else time.time()
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
