"""The commands of the installation: serve, demo, openapi."""

import os
import shlex
import sys
from dataclasses import replace
from itertools import takewhile

import click

from crm import CRMApp, create_app, demo, log
from crm.api.operations import PREFIX
from crm.cli import browser
from crm.cli.commands import command, group, port
from crm.config import LOOPBACK, Config
from crm.json import dumps
from crm.server import serve
from crm.tenancy.tenants import Tenants


def default_workers() -> int:
    """Processes for the cores that this one may use: one up to two cores, else half, at most 4."""
    has_affinity = hasattr(os, "sched_getaffinity")
    cores = len(os.sched_getaffinity(0)) if has_affinity else os.cpu_count() or 1
    return min(4, max(1, cores // 2))


@command(group, "serve", says_folder=False)
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@port
@click.option(
    "--workers",
    default=default_workers,
    show_default="1 up to two cores, else half of the cores, at most 4",
    type=click.IntRange(1, 64),
    help="Processes that serve.",
)
@click.option(
    "--threads",
    default=4,
    show_default=True,
    type=click.IntRange(2, 256),
    help="Slow requests of a process at a time that keep no other waiting.",
)
def serve_(config: Config, host: str, workers: int, threads: int) -> None:
    """Serve the API and the workspace."""

    def announce() -> None:
        log.log.info("listening on http://%s:%s", host, config.port)
        for line in served(config):
            log.log.info(line)

    log.set_up(config.log == "requests")
    log.log.info("data folder: %s", config.data)
    if config.data.exists():
        Tenants(config).record_labels()
    serve(
        lambda: _app(config),
        config.data,
        host,
        config.port,
        workers=workers,
        threads=threads,
        databases=config.open_files,
        behind_proxy=config.trusted_proxies > 0,
        announce=announce,
    )


@command(group, "demo")
@port
@click.option(
    "--open/--no-open",
    "opens",
    default=None,
    help="Open the browser, or don't ask; without either a terminal is asked.",
)
def demo_(config: Config, opens: bool | None) -> None:
    """Fill a fresh data folder with two believable tenants and serve them."""

    def announce() -> None:
        # Only who has the folder may furnish it: it ends the key of the start before.
        program = shlex.join(takewhile(lambda word: word != "demo", sys.orig_argv))
        furnished = demo.furnish(Tenants(config), program)
        click.echo(furnished.text)
        if opens or (opens is None and browser.can_ask()):
            browser.open_beside(furnished.url, asks=not opens)

    watched = replace(config, webhook_allow=config.webhook_allow | LOOPBACK)
    serve(lambda: _app(watched, shows_codes=True), config.data, port=config.port, announce=announce)


def served(config: Config) -> tuple[str, str]:
    """What a server of these settings offers, and where."""
    base = config.url_of(config.tenant or "<label>")
    of = "" if config.tenant else " of each tenant"
    return (
        f"workspace{of}: {base}/",
        f"API{of}: {base}{PREFIX}, documentation: {base}{PREFIX}/docs",
    )


def _app(config: Config, shows_codes: bool = False) -> CRMApp:
    app = create_app(config, shows_codes=shows_codes)
    app.sender.start()  # what waited for this start goes out before anybody asks for anything
    return app


@command(group, "openapi")
def openapi(config: Config) -> None:
    """Print the OpenAPI document."""
    click.echo(dumps(create_app(config).api.document("")))
