"""The commands of the installation: serve, demo, openapi."""

import shlex
import sys
from dataclasses import replace
from itertools import takewhile

import click

from crm import CRMApp, create_app, demo, log
from crm.cli.frame import command, group, port
from crm.config import LOOPBACK, Config
from crm.json import dumps
from crm.server import serve
from crm.tenancy.tenants import Tenants


@command(group, "serve", says_folder=False)
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@port
@click.option("--threads", default=4, show_default=True, type=click.IntRange(1, 256))
def serve_(config: Config, host: str, threads: int) -> None:
    """Serve the API: one worker process with threads."""

    def announce() -> None:
        log.log.info("listening on http://%s:%s", host, config.port)

    log.begin(config.log == "requests")
    log.log.info("data folder: %s", config.data)
    serve(lambda: _app(config), config.data, host, config.port, threads, announce)


@command(group, "demo")
@port
def demo_(config: Config) -> None:
    """Fill a fresh data folder with two believable tenants and serve them."""

    def announce() -> None:
        # Only who has the folder may furnish it: it ends the key of the start before.
        program = shlex.join(takewhile(lambda word: word != "demo", sys.orig_argv))
        click.echo(demo.furnish(Tenants(config), program))

    watched = replace(config, webhook_allow=config.webhook_allow | LOOPBACK)
    serve(lambda: _app(watched, shows_codes=True), config.data, port=config.port, announce=announce)


def _app(config: Config, shows_codes: bool = False) -> CRMApp:
    app = create_app(config, shows_codes=shows_codes)
    app.sender.start()  # what waited for this start goes out before anybody asks for anything
    return app


@command(group, "openapi")
def openapi(config: Config) -> None:
    """Print the OpenAPI document."""
    click.echo(dumps(create_app(config).api.document("")))
