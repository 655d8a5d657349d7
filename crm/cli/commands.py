"""Shared by all commands: the group, the data folder, errors, access to a tenant, options."""

import logging
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import wraps
from pathlib import Path
from typing import Any

import click

from crm import __version__
from crm.config import Config, ConfigError
from crm.errors import (
    CRMError,
    DatabaseUnavailable,
    Invalid,
    NotFound,
    StorageFull,
    TenantUnavailable,
)
from crm.server import ServeError
from crm.tenancy.file_errors import FILE_ERRORS, ServerError, describe, refusal
from crm.tenancy.files import UnknownTenant
from crm.tenancy.installation import open_tenants
from crm.tenancy.tenants import Tenants
from crm.values import InvalidValue, day, moment

tenants_log = logging.getLogger("crm.tenants")


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="crm")
def group() -> None:
    """A lightweight CRM: one process, one SQLite file per tenant."""


def command(parent: click.Group, name: str, prints_folder: bool = True) -> Callable:
    """A decorator: make a function that takes the Config first a command of `parent`.

    The command has the options `--data` and `--config`; an error ends it with one line on stderr.
    """

    def decorate(function: Callable) -> click.Command:
        @wraps(function)
        def run(data: Path | None, config: Path | None, **options: Any) -> None:
            if not tenants_log.hasHandlers():
                # The line on stderr says what is wrong with a tenant; only a server needs a log.
                tenants_log.addHandler(logging.NullHandler())
            try:
                given = {"data": data and data.absolute(), "port": options.pop("port", None)}
                settings = _settings(config, **given)
                if prints_folder:
                    click.echo(f"data folder: {settings.data}", err=True)
                function(settings, **options)
            except DatabaseUnavailable as error:
                raise click.ClickException(error.reason or str(error)) from error
            except (CRMError, ConfigError, ServeError) as error:
                raise click.ClickException(" ".join(str(error).split())) from error
            # Before OSError, of which it is a subclass.
            except BrokenPipeError:
                raise  # click exits quietly when the reader of stdout has closed it
            except OSError as error:
                _discard_output()
                message = error.strerror or "input or output failed"
                if error.filename:
                    message = f"{message}: {error.filename}"
                raise click.ClickException(message) from error
            except FILE_ERRORS as error:
                reason = refusal(error) or "a file cannot be used"
                raise click.ClickException(f"{reason}: {describe(error)}") from error

        decorated = parent.command(name)(run)
        folder = click.Path(path_type=Path, file_okay=False)
        file = click.Path(path_type=Path, dir_okay=False)
        about_file = "Settings file; else CRM_CONFIG, else crm.env in the data folder."
        for option in (
            click.option("--config", type=file, metavar="FILE", help=about_file),
            click.option("--data", type=folder, metavar="DIR", help="Data folder."),
        ):
            decorated = option(decorated)
        return decorated

    return decorate


def _discard_output() -> None:
    """Send what is still buffered for stdout nowhere.

    If stdout cannot be written, Python would fail again while it flushes stdout at its exit.
    """
    try:
        sys.stdout.flush()
    except OSError:
        with open(os.devnull, "w") as nowhere:
            os.dup2(nowhere.fileno(), sys.stdout.fileno())


def _settings(file: Path | None, **overrides: Any) -> Config:
    """Return the settings of an embedding site that runs the command, else those loaded here."""
    site_config = click.get_current_context().find_object(Config)
    if site_config is None or file is not None:
        return Config.load(config=file, **overrides)
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
    tenants = open_tenants(config)
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
            self.add(name, getattr(error, "reason", "") or str(error))

    def add(self, name: str, reason: str) -> None:
        """Note a failure and print it on stderr."""
        self._names.append(name)
        click.echo(f"{name}: {' '.join(reason.split())}", err=True)

    def raise_if_any(self, message: str) -> None:
        """Raise CRMError with the message and the names of all that failed."""
        if self._names:
            raise CRMError(f"{message}: {', '.join(self._names)}")


class Progress:
    """Prints on stderr every ten seconds how far a long command is, as "copied 5 of 20"."""

    INTERVAL_SECONDS = 10.0

    def __init__(self, verb: str, total: int) -> None:
        self._verb, self._total, self._done = verb, total, 0
        self._next_at = time.monotonic() + self.INTERVAL_SECONDS

    def advance(self) -> None:
        """Count one more, and print when it is time."""
        self._done += 1
        if time.monotonic() >= self._next_at:
            click.echo(f"{self._verb} {self._done} of {self._total}", err=True)
            self._next_at = time.monotonic() + self.INTERVAL_SECONDS


def parse_moment(text: str, field: str) -> str:
    """The UTC time of an option: a time with its offset, or a date for its first moment in UTC.

    Raises Invalid naming the field.
    """
    try:
        return moment(text)
    except InvalidValue:
        try:
            return f"{day(text)}T00:00:00Z"
        except InvalidValue as error:
            raise Invalid.field(field, error.code, "is a date or a time with offset") from None


port = click.option(
    "--port",
    type=click.IntRange(1, 65535),
    show_default="CRM_PORT, else 8000",
    help="To listen on.",
)
