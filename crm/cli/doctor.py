"""`doctor`: is everything in order, and if not, what to do; beside a running server or without.

One line for each finding: `ok`, `warning` or `fault`, what, and a sentence. It ends with 1 if there
is a fault. Nothing is changed, and nobody is asked but the public address and its names.
"""

import os
import platform
import time
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import click

from crm import server
from crm.access.sms_limits import SmsLimits
from crm.cli import network_checks
from crm.cli.commands import command, group
from crm.config import Config, file
from crm.errors import CRMError
from crm.messages import Undelivered, mail, sms
from crm.outbox import deliveries, events
from crm.resources import tenant
from crm.tenancy import backup, integrity
from crm.tenancy.copies import list_copies
from crm.tenancy.file_errors import FILE_ERRORS, describe
from crm.tenancy.quota import MEGABYTE, storage
from crm.tenancy.sms_log import SmsLog
from crm.tenancy.tenants import FRONT, Tenants
from crm.timed_checks import (
    CHECK_TIMEOUT_SECONDS,
    FAULT,
    OK,
    WARNING,
    CheckResult,
    LevelAndDetail,
    run_check,
)
from crm.values import InvalidValue, email, phone

FULL_SECONDS = 600.0  # for one tenant's file, read to the end
OLD_SECONDS = 86_400  # that a delivery may wait
NEARLY_FULL = 0.9  # of a plan's storage
AHEAD_SECONDS = 60  # that a row may be ahead of the clock
YEARS = range(2025, 2100)
TEST = "A test of the CRM: it can send."


@command(group, "doctor")
@click.option("--full", is_flag=True, help="Read every file to its end, with its indexes.")
@click.option(
    "--from",
    "within",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Where the copies are; by default in the data folder.",
)
@click.option(
    "--send-test", "to", metavar="PHONE|EMAIL", help="Send an SMS or an e-mail there, now."
)
def doctor(config: Config, full: bool, within: Path | None, to: str | None) -> None:
    """Look whether the installation is in order; 1 if there is a fault."""
    levels: Counter[str] = Counter()
    for each in findings(config, full, within, to):
        levels[each.level] += 1
        click.echo(f"{each.level:<8} {each.check:<12} {each.detail}")
    if levels[FAULT]:
        raise SystemExit(1)


def findings(
    config: Config, full: bool = False, within: Path | None = None, to: str | None = None
) -> Iterator[CheckResult]:
    """All that is found, in reading order."""
    tenants = Tenants(config)
    yield from run_check("settings", partial(_settings, config))
    yield from run_check("python", lambda: [(OK, platform.python_version())])
    yield from run_check("sqlite", integrity.engine)
    strangers = integrity.owner(tenants)
    if strangers is not None:
        advice = f"it belongs to {strangers}: run the doctor as {strangers} (sudo -u {strangers})"
        yield CheckResult(FAULT, "folder", advice)
        return
    yield from run_check("folder", partial(integrity.folder, tenants))
    yield from run_check("secret key", partial(integrity.key, tenants))
    yield from run_check("disk", partial(integrity.disk, tenants))
    yield from run_check("clock", partial(_clock, tenants))
    yield from _tenants(tenants, full)
    yield from run_check("sms", partial(_sms, tenants))
    yield from run_check("backups", partial(integrity.copies, tenants, within))
    yield from run_check("litestream", partial(integrity.continuous_copies, tenants))
    yield from run_check("names", partial(network_checks.names, config))
    yield from run_check("public url", partial(network_checks.address, config))
    yield from run_check("server", partial(_server, config))
    yield from run_check("proxy", partial(_proxy, tenants))
    if to is not None:
        yield from run_check("send test", partial(_sent, config, to), 2 * CHECK_TIMEOUT_SECONDS)


def _settings(config: Config) -> Iterator[LevelAndDetail]:
    own = config.data / file.NAME
    if config.file is None:
        yield OK, "no file of settings is read"
    elif config.file.stat().st_mode & 0o077 and _holds_secrets(config):
        yield WARNING, f"{config.file} has secrets that others may read: chmod 600 {config.file}"
    else:
        yield OK, f"{config.file} is read"
    if config.file != own and file.exists(own):
        yield WARNING, f"{own} is not read: {config.file} is named instead"
    for env, way in (("CRM_SMS", config.sms == "console"), ("CRM_MAIL", config.mail is None)):
        if way:
            yield WARNING, f"{env}=console prints codes and links where the service's output goes"
    unlimited = [name for name, number in config.plans.items() if not number]
    if unlimited:
        yield OK, f"without a limit: {', '.join(unlimited)}"


def _holds_secrets(config: Config) -> bool:
    return any(each.hidden and each.source == str(config.file) for each in config.describe())


def _clock(tenants: Tenants) -> Iterator[LevelAndDetail]:
    now = datetime.fromtimestamp(tenants.clock(), UTC)
    sane = now.year in YEARS
    told = f"{now:%Y-%m-%dT%H:%M:%SZ}"
    yield (OK, told) if sane else (FAULT, f"it is {told} here: set the clock")
    if tenants.steady.is_doubted():
        yield (
            WARNING,
            "it is ahead of the time that has passed while this machine ran: if it is right,"
            " what is kept for a while is erased again after a day of running",
        )


def _tenants(tenants: Tenants, full: bool) -> Iterator[CheckResult]:
    """A line for each tenant that has something, and one for all the others."""
    fine = 0
    try:
        every = integrity.labels(tenants)
    except OSError as error:
        yield CheckResult(FAULT, "tenants", f"they cannot be listed: {error.strerror}")
        return
    seconds = FULL_SECONDS if full else CHECK_TIMEOUT_SECONDS
    for label in every:
        name = "base host" if label == FRONT else label
        found = list(run_check(name, partial(_tenant, tenants, label, full), seconds))
        yield from found
        fine += not found
    yield CheckResult(OK, "tenants", f"{fine} of {len(every)} files are whole and up to date")
    tenants.forget_idle()


def _tenant(tenants: Tenants, label: str, full: bool) -> Iterator[LevelAndDetail]:
    try:
        seen = integrity.look(tenants, label, full, partial(_inside, label))
    except (CRMError, OSError, *FILE_ERRORS) as error:
        path = tenants.path(label)
        yield FAULT, f"its file cannot be used: {describe(error.__cause__ or error)}: {path}"
        yield FAULT, _advice(tenants, label)
        return
    for text in seen.faults:
        yield FAULT, f"its file is damaged: {text}: {tenants.path(label)}"
    if seen.faults:
        yield FAULT, _advice(tenants, label)
    level, told = integrity.state(seen.version)
    if level != OK:
        yield level, told
    if seen.said is None:
        return
    suspended, stuck, newest, storage = seen.said
    now = tenants.clock()
    if storage.quota and storage.used >= storage.quota * NEARLY_FULL:
        used, quota = (bytes // MEGABYTE for bytes in storage)
        yield WARNING, f"it uses {used} of the {quota} MB that its plan may take (CRM_STORAGE)"
    if suspended:
        yield OK, "it is suspended"
    if newest and _age(newest, now) < -AHEAD_SECONDS:
        yield FAULT, f"its newest event is of {newest}: the clock of this machine is behind"
    for status, count, oldest in stuck:
        late = status != "pending" or _age(oldest, now) > OLD_SECONDS
        text = f"{count} deliveries are {status}, the oldest of {oldest}"
        yield (WARNING if late else OK), text


def _advice(tenants: Tenants, label: str) -> str:
    """What helps where a tenant's file cannot be used."""
    path = tenants.path(label)
    if not os.access(path, os.R_OK | os.W_OK):
        return f"give its rights back: chown {integrity.user()} {path} && chmod 600 {path}"
    if label == FRONT:
        return f"it has nothing but codes and links of the last day: mv {path} elsewhere"
    copies = list_copies(backup.folder(tenants)).get(label)
    if copies:
        return f"restore its newest copy: restore {copies[-1]} --tenant {label}"
    return f"no copy of it is in {backup.folder(tenants)}: restore FILE --tenant {label}"


def _inside(label: str) -> tuple[Any, ...]:
    suspended = None if label == FRONT else tenant.about()["suspended_at"]
    return suspended, deliveries.count_unfinished(), events.find_latest_event_time(), storage()


def _age(moment: str, now: float) -> float:
    return now - datetime.fromisoformat(moment).timestamp()


def _sms(tenants: Tenants) -> Iterator[LevelAndDetail]:
    """The budgets of SMS: the shared ones, and those of tenants that are nearly used up."""
    sms_log = SmsLog(tenants.config.data, tenants.secret_key)
    limits = SmsLimits(sms_log, tenants.config.sms_limits)
    fine = []
    for budget, used, nearly_used_up in limits.list_budgets(tenants.clock(), tenants.labels()):
        text = f"{used} of {budget.limit} in 24 hours are used by {budget.name}"
        if nearly_used_up:
            yield WARNING, f"{text}: see CRM_SMS_LIMITS"
        elif not budget.tenant:
            fine.append(text)
    if fine:
        yield OK, ", ".join(fine)


def _server(config: Config) -> Iterator[LevelAndDetail]:
    process = server.find_running(config.data)
    if process:
        yield OK, f"it runs (pid {process})"
    else:
        yield WARNING, "none runs here: what the proxies do is not looked at"


def _proxy(tenants: Tenants) -> Iterator[LevelAndDetail]:
    if server.find_running(tenants.config.data):
        yield from network_checks.front_door(tenants)


def _sent(config: Config, to: str) -> Iterator[LevelAndDetail]:
    began = time.monotonic()
    try:
        if "@" in to:
            way = "console" if config.mail is None else config.mail.host
            mail.create_mail_sender(config).send(email(to) or "", "CRM: a test", TEST)
        else:
            way = config.sms
            sms.create_sms_sender(config).send(phone(to) or "", TEST)
    except InvalidValue as unfit:
        yield FAULT, f"PHONE|EMAIL {unfit.detail}"
    except Undelivered as refused:
        yield FAULT, f"{way}: {refused.reason}"
    else:
        yield OK, f"{way} took it in {time.monotonic() - began:.1f} s"
