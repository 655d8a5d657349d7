"""What all commands share: the group, the data folder, errors, a tenant, options."""

import logging
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
from crm.errors import CRMError, Invalid, NotFound, StorageFull, TenantUnavailable
from crm.server import ServeError
from crm.tenancy.file_errors import FILE_ERRORS, describe, refusal
from crm.tenancy.files import UnknownTenant
from crm.tenancy.tenants import Tenants
from crm.values import InvalidValue, day, moment

tenants_log = logging.getLogger("crm.tenants")


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="crm")
def group() -> None:
    """A lightweight CRM: one process, one SQLite file per tenant."""


def command(parent: click.Group, name: str, says_folder: bool = True) -> Callable:
    """A command with `--data` and `--config`, whose function gets the Config first; errors become
    one line."""

    def decorate(function: Callable) -> click.Command:
        @wraps(function)
        def run(data: Path | None, config: Path | None, **options: Any) -> None:
            if not tenants_log.hasHandlers():
                # What a command finds wrong with a tenant is its one line; a server has a log.
                tenants_log.addHandler(logging.NullHandler())
            try:
                given = {"data": data and data.absolute(), "port": options.pop("port", None)}
                settings = _settings(config, **given)
                if says_folder:
                    click.echo(f"data folder: {settings.data}", err=True)
                function(settings, **options)
            except (CRMError, ConfigError, ServeError) as error:
                raise click.ClickException(" ".join(str(error).split())) from error
            except BrokenPipeError:
                raise  # click ends quietly when nobody reads on
            except OSError as error:
                told = (error.strerror or "input or output failed", error.filename)
                raise click.ClickException(": ".join(str(part) for part in told if part)) from error
            except FILE_ERRORS as error:
                told = (refusal(error) or "a file cannot be used", describe(error))
                raise click.ClickException(": ".join(map(str, told))) from error

        found = parent.command(name)(run)
        folder = click.Path(path_type=Path, file_okay=False)
        file = click.Path(path_type=Path, dir_okay=False)
        told = "File of settings; else CRM_CONFIG, else crm.env in the data folder."
        for option in (
            click.option("--config", type=file, metavar="FILE", help=told),
            click.option("--data", type=folder, metavar="DIR", help="Data folder."),
        ):
            found = option(found)
        return found

    return decorate


def _settings(file: Path | None, **given: Any) -> Config:
    """Those of the site that embeds the CRM and has its commands, else the environment's."""
    known = click.get_current_context().find_object(Config)
    if known is None or file is not None:
        return Config.load(config=file, **given)
    return replace(known, **{name: value for name, value in given.items() if value is not None})


@contextmanager
def at(config: Config, label: str) -> Iterator[None]:
    """A visit to one tenant; what is wrong with the tenant is told with its label."""
    with whole(config, label) as tenants, tenants.session(label):
        yield


@contextmanager
def whole(config: Config, label: str) -> Iterator[Tenants]:
    """For what is done with a tenant as a whole; what is wrong with it is told with its label."""
    tenants = Tenants(config)
    try:
        yield tenants
    except UnknownTenant:
        raise NotFound(f"there is no tenant {label}") from None
    except (TenantUnavailable, *FILE_ERRORS) as error:
        why = describe(error.__cause__ or error)
        raise CRMError(f"the file of {label} cannot be used: {why}; see `doctor`") from error
    finally:
        tenants.forget_idle()


class Failures:
    """What went wrong with one does not stop the others, and is the command's end all the same.

    A full disk stops all: the others would meet it too.
    """

    def __init__(self) -> None:
        self._of: list[str] = []

    @contextmanager
    def of(self, name: str) -> Iterator[None]:
        try:
            yield
        except (CRMError, OSError, *FILE_ERRORS) as error:
            full = error if isinstance(error, StorageFull) else refusal(error)
            if isinstance(full, StorageFull):
                raise StorageFull(f"{name}: {full}") from error
            self.add(name, str(error))

    def add(self, name: str, why: str) -> None:
        self._of.append(name)
        click.echo(f"{name}: {' '.join(why.split())}", err=True)

    def tell(self, what: str) -> None:
        if self._of:
            raise CRMError(f"{what}: {', '.join(self._of)}")


class Progress:
    """Tells on stderr every ten seconds how far a long command is."""

    EVERY_SECONDS = 10.0

    def __init__(self, done: str, count: int) -> None:
        """`done` is what is said of the ones done, as `copied`."""
        self._done, self._count, self._number = done, count, 0
        self._tell_at = time.monotonic() + self.EVERY_SECONDS

    def advance(self) -> None:
        self._number += 1
        if time.monotonic() >= self._tell_at:
            click.echo(f"{self._done} {self._number} of {self._count}", err=True)
            self._tell_at = time.monotonic() + self.EVERY_SECONDS


def moment_of(text: str, field: str) -> str:
    """The moment that an option tells: a time with its offset, or the start of a day in UTC."""
    try:
        return moment(text)
    except InvalidValue:
        try:
            return f"{day(text)}T00:00:00Z"
        except InvalidValue as unfit:
            raise Invalid.field(field, unfit.code, "is a date or a time with offset") from None


port = click.option(
    "--port",
    type=click.IntRange(1, 65535),
    show_default="CRM_PORT, else 8000",
    help="To listen on.",
)
