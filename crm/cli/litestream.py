"""Continuous copies by Litestream: its configuration."""

from typing import Any
from urllib.parse import urlsplit

import click

from crm.cli.commands import command, subgroup
from crm.cli.deployment import render
from crm.config import Config
from crm.installation.opening import open_tenants
from crm.storage.sqlite.litestream import control_socket, state_folder

SCHEMES = ("file", "s3", "sftp")

litestream_ = subgroup("litestream", "Continuous copies of all tenants by Litestream.")


def _url(_context: Any, _option: Any, text: str) -> str:
    """Callback of an option: the URL of a target. Raises BadParameter."""
    parts = urlsplit(text)
    if parts.scheme not in SCHEMES or bool(parts.netloc) == (parts.scheme == "file"):
        fault = "looks like file:///folder, s3://bucket/folder, sftp://user@host/folder"
    elif parts.password is not None or (parts.scheme == "s3" and parts.username is not None):
        fault = "it must not have a secret: SFTP takes --sftp-key, S3 the environment"
    else:
        return text
    raise click.BadParameter(fault)


@command(litestream_, "config", folder="unused")
@click.option(
    "--to",
    required=True,
    callback=_url,
    metavar="URL",
    help="file:///folder, s3://bucket/folder or sftp://user@host/folder.",
)
@click.option("--sftp-key", metavar="FILE", help="Private key to log in with by SFTP.")
@click.option("--sftp-host-key", metavar="TEXT", help="Like ssh-ed25519 AAAA…")
def litestream_config(
    config: Config, to: str, sftp_key: str | None, sftp_host_key: str | None
) -> None:
    """Print Litestream's configuration for this data folder."""
    parts = urlsplit(to)
    text = render(
        "litestream.yml",
        data=config.data,
        socket=control_socket(config.data),
        tenants=open_tenants(config).files.folder,
        state=state_folder(config.data),
        url=parts._replace(path=f"{parts.path.rstrip('/')}/tenants").geturl(),
        sftp_key=sftp_key,
        sftp_host_key=sftp_host_key,
    )
    click.echo(text, nl=False)
