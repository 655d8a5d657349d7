"""The commands serve, demo and openapi."""

import os
import shlex
import sys
import time
from contextlib import suppress
from dataclasses import replace
from itertools import takewhile

import click

from crm import create_app, demo, log
from crm.api.operations import PREFIX
from crm.cabinet import languages
from crm.cli.commands import command, group, port, read_time, warnings_at_start
from crm.config import LOOPBACK, Config
from crm.errors import CRMError, DatabaseUnavailable
from crm.installation.tenants import Tenants
from crm.json import dumps
from crm.server import serve


def default_workers() -> int:
    """The number of worker processes: one for each core, at most 4."""
    has_affinity = hasattr(os, "sched_getaffinity")
    cores = len(os.sched_getaffinity(0)) if has_affinity else os.cpu_count() or 1
    return min(4, cores)


@command(group, "serve", folder="may be new", prints_folder=False)
@click.option("--host", default="127.0.0.1", help="Address to listen on.")
@port
@click.option(
    "--workers",
    default=default_workers,
    show_default="one for each core, at most 4",
    type=click.IntRange(1, 64),
    help="Number of processes.",
)
@click.option(
    "--threads",
    default=4,
    type=click.IntRange(2, 256),
    help="Slow requests of a process at a time.",
)
@click.option(
    "--log",
    "log_format",
    type=click.Choice(["plain", "json"]),
    show_default="plain on a terminal, else json",
    help="Format of the log on stderr.",
)
def serve_(config: Config, host: str, workers: int, threads: int, log_format: str | None) -> None:
    """Serve the API and the workspace."""

    def announce() -> None:
        log.log.info("listening on http://%s:%s", host, config.port)
        url = config.url_of(config.tenant or "<label>")
        log.log.info("workspace: %s/", url)
        log.log.info("API: %s%s, documentation: %s%s/docs", url, PREFIX, url, PREFIX)

    plain = sys.stderr.isatty() if log_format is None else log_format == "plain"
    log.set_up(config.log == "requests", plain)
    log.log.info("data folder: %s", config.data)
    tenants = Tenants(config)
    try:
        tenants.check_database()
    except CRMError as error:  # if it is away, or full, it may come back
        if isinstance(error, DatabaseUnavailable) and error.is_final:
            raise
    with suppress(DatabaseUnavailable):  # it may come back
        for warning in warnings_at_start(tenants):
            log.log.warning(warning)
    tenants.forget_idle()  # before processes are forked
    languages.load_default()
    app = create_app(config)  # here, so that the processes share its memory
    _ = app.routes  # which the first request of each would make
    serve(
        app.start,
        config.data,
        host,
        config.port,
        workers=workers,
        threads=threads,
        databases=config.max_idle_connections,
        behind_proxy=config.trusted_proxies > 0,
        passes_writers=not config.database,
        announce=announce,
    )


@command(group, "demo", folder="may be new", prints_folder=False)
@port
@click.option("--open", "opens", is_flag=True, help="Open the browser too.")
@click.option("--clock", help="When the service starts, such as 2026-03-02T09:00Z; by default now.")
def demo_(config: Config, opens: bool, clock: str | None) -> None:
    """Fill a new data folder with two example tenants and serve them.

    Folders filled with the same --clock have the same records and events. The time goes on from
    there, in the signatures of webhooks too: receivers with another clock refuse them.
    """
    moment = read_time(clock, "clock") if clock else None
    shift = moment - time.time() if moment else 0.0

    def shown_time() -> float:
        return time.time() + shift

    def announce() -> None:
        # Only the process that holds the folder's lock prepares it: that revokes the previous key.
        program = shlex.join(takewhile(lambda word: word != "demo", sys.orig_argv))
        url, text = demo.prepare(Tenants(config, shown_time), program, moment)
        click.echo(text)  # its first line is the address to open
        click.echo(f"data folder: {config.data}", err=True)
        if opens:
            click.launch(url)

    demo_config = replace(config, webhook_allow=config.webhook_allow | LOOPBACK)
    app = create_app(demo_config, shown_time, shows_codes=True)
    serve(app.start, config.data, port=config.port, announce=announce)


@command(group, "openapi", folder="unused")
def openapi(config: Config) -> None:
    """Print the OpenAPI document."""
    click.echo(dumps(create_app(config).api.document("")))
