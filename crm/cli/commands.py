"""Shared by all commands: groups, the data folder, errors, access to a tenant, options, lists."""

import logging
import os
import shlex
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from functools import wraps
from operator import itemgetter
from pathlib import Path
from typing import Any, Literal

import click

from crm import __version__
from crm.config import ENVIRONMENT, Config, ConfigError
from crm.config.removed import describe_removed
from crm.copies import integrity
from crm.errors import (
    Conflict,
    CRMError,
    DatabaseUnavailable,
    Invalid,
    NotFound,
    StorageFull,
    TenantUnavailable,
    UnknownTenant,
    operator_text,
)
from crm.installation.tenants import Tenants
from crm.json import dumps
from crm.server import AlreadyServed, ServeError, find_running
from crm.storage.file_errors import FILE_ERRORS, ServerError, describe, refusal

PROGRESS_INTERVAL_SECONDS = 10.0
FOLDER = click.Path(path_type=Path, file_okay=False)
FILE = click.Path(path_type=Path, dir_okay=False)
PORT = click.IntRange(1, 65535)
data_option = click.option(
    "--data", type=FOLDER, show_default="CRM_DATA, else data", help="Data folder."
)
config_option = click.option(
    "--config", type=FILE, help="Settings file; else CRM_CONFIG, else crm.env in the data folder."
)
port = click.option("--port", type=PORT, show_default="CRM_PORT, else 8000", help="To listen on.")
copies_option = click.option(
    "--from", "within", type=FOLDER, help="Folder of copies, else <data>/backups."
)
as_json = click.option("--json", "as_json", is_flag=True, help="As JSON, for programs.")
tenants_log = logging.getLogger("crm.tenants")
EXAMPLES = dict(
    line.split(": ", 1)
    for line in Path(__file__).with_name("examples.txt").read_text("utf-8").splitlines()
)


class CommandGroup(click.Group):
    """A group of commands. One that is gone ends with exit status 1 and what to do instead."""

    group_class = type  # its groups are of this class too

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """See click. Raises ClickException."""
        name = cmd_name if self is group else f"{self.name} {cmd_name}"
        removed = describe_removed(name)
        if removed and not ctx.resilient_parsing:  # shell completion reports no errors
            raise click.ClickException(removed)
        return super().get_command(ctx, cmd_name)


@click.group(
    cls=CommandGroup,
    context_settings={"help_option_names": ["-h", "--help"], "show_default": True},
    epilog="Guides: crm/docs, and /guides/ at every address of a running server.",
)
@click.version_option(__version__, prog_name="crm")
def group() -> None:
    """A lightweight CRM: one process, one SQLite file per tenant."""


def subgroup(name: str, about: str) -> click.Group:
    """Add a group of commands."""
    return group.group(name, help=about)(lambda: None)


def command(
    parent: click.Group,
    name: str,
    *arguments: str,
    folder: Literal["required", "may be new", "unused"] = "required",
    prints_folder: bool = True,
) -> Callable:
    """A decorator: make a function that takes the Config first a command of `parent`.

    The command has the `arguments` (`[name]`: it may be left out), those of the function's own
    decorators, and the options `--data` and `--config`. An error ends it with one line on stderr,
    and what the function returns is printed. `folder` is what it needs of the data folder: one that
    is not there is refused where it is required, and another user's is refused to root unless it is
    not used.
    """

    def decorate(function: Callable) -> click.Command:
        @wraps(function)
        def run(data: Path | None, config: Path | None, **options: Any) -> None:
            if not tenants_log.hasHandlers():
                # The line on stderr says what is wrong with a tenant; only a server needs a log.
                tenants_log.addHandler(logging.NullHandler())
            try:
                given: dict[str, Any] = {"data": data and data.absolute()}
                if "port" in options:
                    given["port"] = options.pop("port")
                settings = _settings(config, **given)
                if prints_folder:
                    click.echo(f"data folder: {settings.data}", err=True)
                    for warning in settings.warnings:
                        click.echo(f"warning: {warning}", err=True)
                if folder == "required" and not (settings.database or settings.data.exists()):
                    source = settings.origins.get("CRM_DATA", ("", "default"))[1]
                    raise WrongUsage(f"there is no data folder {settings.data}, from the {source}")
                if folder != "unused" and settings.data.exists():
                    _require_owner(settings, settings.data.stat().st_uid, os.geteuid())
                if (text := function(settings, **options)) is not None:
                    click.echo(text)
            except AlreadyServed as error:  # as was asked for
                click.echo(error, err=True)
            except (CRMError, ConfigError, ServeError) as error:
                raise click.ClickException(operator_text(error)) from error
            # Before OSError, of which it is a subclass.
            except BrokenPipeError:
                raise  # click exits quietly when the reader of stdout has closed it
            except OSError as error:
                try:
                    sys.stdout.flush()
                except OSError:
                    sys.stdout = None  # Python would fail again at its exit
                message = describe(error) or "input or output failed"
                raise click.ClickException(message) from error
            except FILE_ERRORS as error:
                reason = refusal(error) or "a file cannot be used"
                raise click.ClickException(f"{reason}: {describe(error)}") from error

        for argument in reversed(arguments):
            click.argument(argument.strip("[]"), required=not argument.startswith("["))(run)
        path = name if parent is group else f"{parent.name} {name}"
        example, _, guide = EXAMPLES.get(path, "").rpartition("  ")
        decorated = parent.command(
            name,
            short_help=" ".join((function.__doc__ or "").split("\n\n")[0].split()),
            epilog=f"\b\nExample: crm {example}\nGuide:   crm/docs/{guide}",
        )(run)
        return data_option(config_option(decorated))

    return decorate


def tenant_command(parent: click.Group, name: str, *arguments: str) -> Callable:
    """A decorator: make a function that is to be called in a session of TENANT a command.

    It takes the other `arguments`, and its options. What it returns is printed after the tenant is
    closed: the reader of stdout may be slow.
    """

    def decorate(function: Callable) -> click.Command:
        @wraps(function)
        def run(config: Config, tenant: str, **options: Any) -> Any:
            with tenant_session(config, tenant):
                return function(**options)

        return command(parent, name, "tenant", *arguments)(run)

    return decorate


class WrongUsage(click.ClickException):
    """A command that cannot be meant so: one line, and the exit status 2."""

    exit_code = 2


def _require_owner(config: Config, owner: int, user: int) -> None:
    """Refuse root (`user` 0) the folder of another user, whose service could not use new files.

    Reading makes files too: SQLite's -wal and -shm. The error has the command line to copy.
    """
    if user or owner == user:
        return
    names = [env for env, (_, source) in config.origins.items() if source == ENVIRONMENT]
    environment = [f"--preserve-env={','.join(names)}"] if names else []
    name = integrity.user_name(owner)
    line = shlex.join(["sudo", *environment, "-u", name, *sys.orig_argv])
    raise Conflict(f"{config.data} belongs to {name}, run this as that user: {line}")


def require_served(config: Config, label: str) -> None:
    """Raise Conflict for a tenant that has no address, because CRM_TENANT names another one."""
    if config.tenant not in (None, label):
        raise Conflict(f"CRM_TENANT is {config.tenant}: {label} would have no address; unset it")


def warnings_at_start(tenants: Tenants) -> Iterator[str]:
    """What is wrong with the settings, though a server can start with them."""
    config = tenants.config
    yield from config.warnings
    if config.tenant and not tenants.exists(config.tenant):
        yield f"CRM_TENANT is {config.tenant}, and there is no such tenant: tenant create"


def _settings(file: Path | None, **overrides: Any) -> Config:
    """Return the settings of an embedding site that runs the command, else those loaded here.

    For a command without the option `--port` the default is that of a server that runs.
    """
    site_config = click.get_current_context().find_object(Config)
    if site_config is None or file is not None:
        settings = Config.load(config=file, **overrides)
        with suppress(OSError):  # of another user's folder
            if "port" not in overrides and (running := find_running(settings.data)):
                port = running.port or settings.port
                return Config.load(config=file, defaults={"port": port}, **overrides)
        return settings
    return replace(
        site_config, **{name: value for name, value in overrides.items() if value is not None}
    )


@contextmanager
def tenant_session(config: Config, label: str) -> Iterator[None]:
    """Open the tenant for its verbs. Raises NotFound and CRMError with the label in the message."""
    with tenant_file(config, label) as tenants, tenants.session(label):
        yield


@contextmanager
def tenant_file(config: Config, label: str) -> Iterator[Tenants]:
    """The Tenants, for an operation on the tenant's file as a whole.

    Raises NotFound and CRMError with the label in the message.
    """
    tenants = Tenants(config)
    try:
        with naming_tenant(label):
            yield tenants
    finally:
        tenants.forget_idle()


@contextmanager
def naming_tenant(label: str) -> Iterator[None]:
    """Raise the errors of a tenant's file or schema as NotFound or CRMError with its label."""
    try:
        yield
    except UnknownTenant:
        raise NotFound(f"there is no tenant {label}") from None
    except DatabaseUnavailable:
        raise  # with a reason that says more than the label
    except (TenantUnavailable, *FILE_ERRORS) as error:
        reason = describe(error.__cause__ or error)
        whose = "schema" if isinstance(error.__cause__ or error, ServerError) else "file"
        raise CRMError(f"the {whose} of {label} cannot be used: {reason}; see `doctor`") from error


class Failures:
    """Collects the failures of a command that works on many files.

    One failure does not stop the others, but makes the command fail at its end. Only a full disk
    stops it at once: the others would fail too.
    """

    def __init__(self) -> None:
        self._names: list[str] = []

    @contextmanager
    def collect(self, name: str) -> Iterator[None]:
        """Note an error of the block under this name. Raises StorageFull."""
        try:
            yield
        except (CRMError, OSError, *FILE_ERRORS) as error:
            full = error if isinstance(error, StorageFull) else refusal(error)
            if isinstance(full, StorageFull):
                raise StorageFull(f"{name}: {full}") from error
            self.add(name, operator_text(error))

    def add(self, name: str, reason: str) -> None:
        """Note a failure and print it on stderr."""
        self._names.append(name)
        click.echo(f"{name}: {reason}", err=True)

    def raise_if_any(self, message: str) -> None:
        """Raise CRMError with the message and the names of all that failed."""
        if self._names:
            raise CRMError(f"{message}: {', '.join(self._names)}")


def show_progress(verb: str, labels: Sequence[str]) -> Iterator[str]:
    """Yield the labels, and print on stderr now and then how many are done: "copied 5 of 20"."""
    printed_at = time.monotonic()
    for done, label in enumerate(labels, 1):
        yield label
        if time.monotonic() >= printed_at + PROGRESS_INTERVAL_SECONDS:
            click.echo(f"{verb} {done} of {len(labels)}", err=True)
            printed_at = time.monotonic()


def read_time(text: str, option: str) -> float:
    """The Unix time of a time with its offset, or of a date's first moment in UTC.

    Raises Invalid naming the option.
    """
    with suppress(ValueError):
        moment = datetime.fromisoformat(text)
        if moment.tzinfo or len(text) == len("2026-03-02"):
            return moment.replace(tzinfo=moment.tzinfo or UTC).timestamp()
    detail = "is a date, or a time with its offset, such as 2026-03-02T09:00Z"
    raise Invalid.field(option, "invalid_time", detail)


def list_command(columns: str, **texts: Callable[[Mapping[str, Any]], Any]) -> Callable:
    """A decorator: give a function that returns rows the option `--json`; it returns their text.

    `columns` are names with spaces between. A column prints the field of its name, or what its
    function of `texts` returns for a row. None and the empty string are printed as `-`. JSON has
    all fields of the rows, without headings.
    """
    names = columns.split()
    functions = [texts.get(name) or itemgetter(name) for name in names]

    def format_rows(rows: Iterable[Mapping[str, Any]]) -> str:
        lines = [[name.replace("_", " ").upper() for name in names]]
        for row in rows:
            cells = (function(row) for function in functions)
            lines.append(["-" if cell in (None, "") else str(cell) for cell in cells])
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        padded = (
            [cell.ljust(width) for cell, width in zip(line, widths, strict=True)] for line in lines
        )
        return "\n".join("  ".join(cells).rstrip() for cells in padded)

    def decorate(function: Callable) -> Callable:
        @as_json
        @wraps(function)
        def run(*args: Any, as_json: bool, **options: Any) -> Any:
            rows = function(*args, **options)
            return dumps(list(rows)) if as_json else format_rows(rows)

        return run

    return decorate
