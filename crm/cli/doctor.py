"""`doctor`: checks the installation and advises what to do, whether a server runs or not.

It prints one line for each finding: `ok`, `warning` or `fault`, the part that was checked, and a
sentence. It exits with 1 if there is a fault. It changes nothing, and sends nothing but DNS queries
and requests to the public URL.
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
from crm.errors import CRMError, DatabaseUnavailable
from crm.messages import Undelivered, mail, sms
from crm.outbox import deliveries, events
from crm.resources import tenant
from crm.tenancy import backup, integrity
from crm.tenancy.copies import list_copies
from crm.tenancy.file_errors import FILE_ERRORS, describe
from crm.tenancy.files import UnknownTenant
from crm.tenancy.installation import open_tenants
from crm.tenancy.quota import MEGABYTE, storage
from crm.tenancy.tenants import BASE_HOST_FILE, Tenants
from crm.timed_checks import (
    CHECK_TIMEOUT_SECONDS,
    FAULT,
    OK,
    WARNING,
    CheckResult,
    LevelAndDetail,
    operator_text,
    run_check,
)
from crm.values import InvalidValue, email, phone

FULL_CHECK_SECONDS = 600.0  # for one tenant's file, read to the end
OLD_DELIVERY_SECONDS = 86_400
NEARLY_FULL_SHARE = 0.9  # of a plan's storage
CLOCK_TOLERANCE_SECONDS = 60  # that an event may be ahead of the clock
PLAUSIBLE_YEARS = range(2025, 2100)
TEST_MESSAGE = "A test of the CRM: it can send."


@command(group, "doctor")
@click.option("--full", is_flag=True, help="Read every file to its end, with its indexes.")
@click.option(
    "--from",
    "within",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Folder of the copies, else <data>/backups.",
)
@click.option(
    "--send-test", "to", metavar="PHONE|EMAIL", help="Send an SMS or an e-mail to this address now."
)
def doctor(config: Config, full: bool, within: Path | None, to: str | None) -> None:
    """Check the installation; exits with 1 if there is a fault."""
    levels: Counter[str] = Counter()
    for finding in findings(config, full, within, to):
        levels[finding.level] += 1
        click.echo(f"{finding.level:<8} {finding.check:<12} {finding.detail}")
    if levels[FAULT]:
        raise SystemExit(1)


def findings(
    config: Config, full: bool = False, within: Path | None = None, to: str | None = None
) -> Iterator[CheckResult]:
    """All findings. full: read every file to its end; to: address for a test message."""
    tenants = open_tenants(config)
    yield from run_check("settings", partial(_settings, config))
    yield from run_check("python", lambda: [(OK, platform.python_version())])
    # From the installation outwards: what is inside first, then the network and the server.
    yield from run_check("sqlite", integrity.check_sqlite)
    for name, check in tenants.database_checks():
        yield from run_check(name, check)
    # Checks of the folder create files, which the service's user could then not open.
    other_user = integrity.owner(tenants)
    if other_user is not None:
        advice = f"it belongs to {other_user}: run the doctor as that user (sudo -u {other_user})"
        yield CheckResult(FAULT, "folder", advice)
        return
    yield from run_check("folder", partial(integrity.check_folder, tenants))
    yield from run_check("secret key", partial(integrity.check_key, tenants))
    yield from run_check("disk", partial(integrity.check_disk, tenants))
    yield from run_check("clock", partial(_clock, tenants))
    yield from _tenants(tenants, full)
    yield from run_check("limits", partial(_limits, config))
    yield from run_check("sms", partial(_sms, tenants))
    yield from run_check("backups", partial(integrity.check_copies, tenants, within))
    yield from run_check("litestream", partial(integrity.check_litestream, tenants))
    yield from run_check("names", partial(network_checks.names, config))
    yield from run_check("public url", partial(network_checks.public_url, config))
    yield from run_check("server", partial(_server, config))
    yield from run_check("proxy", partial(_proxy, tenants))
    if to is not None:
        yield from run_check(
            "send test", partial(_send_test, config, to), 2 * CHECK_TIMEOUT_SECONDS
        )


def _settings(config: Config) -> Iterator[LevelAndDetail]:
    default_file = config.data / file.NAME
    if config.file is None:
        yield OK, "there is no settings file"
    elif config.file.stat().st_mode & 0o077 and _holds_secrets(config):
        yield WARNING, f"{config.file} has secrets that others may read: chmod 600 {config.file}"
    else:
        yield OK, f"read from {config.file}"
    if config.file != default_file and file.exists(default_file):
        yield WARNING, f"{default_file} is not read: {config.file} is used instead"
    uses_console = {"CRM_SMS": config.sms == "console", "CRM_MAIL": config.mail is None}
    for env in (env for env, is_console in uses_console.items() if is_console):
        yield WARNING, f"{env}=console prints codes and links to the service's output"
    unlimited = [name for name, number in config.plans.items() if not number]
    if unlimited:
        yield OK, f"plans without a rate limit: {', '.join(unlimited)}"


def _holds_secrets(config: Config) -> bool:
    return any(
        setting.hidden and setting.source == str(config.file) for setting in config.describe()
    )


def _clock(tenants: Tenants) -> Iterator[LevelAndDetail]:
    now = datetime.fromtimestamp(tenants.clock(), UTC)
    text = f"{now:%Y-%m-%dT%H:%M:%SZ}"
    if now.year in PLAUSIBLE_YEARS:
        yield OK, text
    else:
        yield FAULT, f"this machine's clock says {text}: set it"
    if tenants.steady_clock.is_doubted():
        yield (
            WARNING,
            "it jumped ahead of the time that this machine has been running: if it is right,"
            " expired data is erased again after a day of running",
        )


def _tenants(tenants: Tenants, full: bool) -> Iterator[CheckResult]:
    """The findings of each tenant, and one that counts the tenants without any."""
    count = 0
    try:
        labels = integrity.labels_to_check(tenants)
    except (CRMError, OSError) as error:
        reason = error.strerror if isinstance(error, OSError) else operator_text(error)
        yield CheckResult(FAULT, "tenants", f"they cannot be listed: {reason}")
        return
    seconds = FULL_CHECK_SECONDS if full else CHECK_TIMEOUT_SECONDS
    for label in labels:
        name = "base host" if label == BASE_HOST_FILE else label
        of_tenant = list(run_check(name, partial(_tenant, tenants, label, full), seconds))
        yield from of_tenant
        count += not of_tenant
    kind = "tenants" if tenants.config.database else "files"
    yield CheckResult(OK, "tenants", f"{count} of {len(labels)} {kind} are whole and up to date")
    tenants.forget_idle()


def _tenant(tenants: Tenants, label: str, full: bool) -> Iterator[LevelAndDetail]:
    try:
        state = integrity.check_file(tenants, label, full, partial(_inside, label))
    except DatabaseUnavailable as error:
        yield FAULT, error.reason
        return
    except (CRMError, OSError, *FILE_ERRORS) as error:
        kind, place = _kind_and_place(tenants, label)
        is_gone = isinstance(error, UnknownTenant)
        text = "it is not there" if is_gone else describe(error.__cause__ or error)
        yield FAULT, f"its {kind} cannot be used: {text}: {place}"
        yield FAULT, _advice(tenants, label)
        return
    for text in state.faults:
        kind, place = _kind_and_place(tenants, label)
        yield FAULT, f"its {kind} is damaged: {text}: {place}"
    if state.faults:
        yield FAULT, _advice(tenants, label)
    level, text = integrity.check_version(state.version)
    if level != OK:
        yield level, text
    if state.result is None:
        return
    suspended, stuck, newest, storage = state.result
    now = tenants.clock()
    if storage.quota and storage.used >= storage.quota * NEARLY_FULL_SHARE:
        used, quota = (bytes // MEGABYTE for bytes in storage)
        yield WARNING, f"it uses {used} of the {quota} MB of its plan (CRM_STORAGE)"
    if suspended:
        yield OK, "it is suspended"
    if newest and _age(newest, now) < -CLOCK_TOLERANCE_SECONDS:
        yield FAULT, f"its newest event is of {newest}: this machine's clock is behind"
    for status, count, oldest in stuck:
        is_late = status != "pending" or _age(oldest, now) > OLD_DELIVERY_SECONDS
        text = f"{count} deliveries are {status}, the oldest of {oldest}"
        yield (WARNING if is_late else OK), text


def _kind_and_place(tenants: Tenants, label: str) -> tuple[str, str]:
    kind = "file" if tenants.lives_in_file(label) else "schema"
    return kind, tenants.place(label)


def _advice(tenants: Tenants, label: str) -> str:
    """What the operator can do about a tenant's file or schema that cannot be used."""
    path = tenants.path(label)
    is_file = tenants.lives_in_file(label)
    if is_file and not os.access(path, os.R_OK | os.W_OK):
        return f"give the service access: chown {integrity.user()} {path} && chmod 600 {path}"
    if label == BASE_HOST_FILE:
        about = "it only has codes and links of the last day"
        return f"{about}: move {path} to another folder" if is_file else f"{about}: drop it"
    copies = list_copies(backup.folder(tenants)).get(label)
    if copies:
        return f"restore its newest copy: restore {copies[-1]} --tenant {label}"
    return f"there is no copy in {backup.folder(tenants)}: restore FILE --tenant {label}"


def _inside(label: str) -> tuple[Any, ...]:
    suspended = None if label == BASE_HOST_FILE else tenant.about()["suspended_at"]
    return suspended, deliveries.count_unfinished(), events.find_latest_event_time(), storage()


def _age(moment: str, now: float) -> float:
    return now - datetime.fromisoformat(moment).timestamp()


def _limits(config: Config) -> Iterator[LevelAndDetail]:
    """The Redis of CRM_LIMITS. Without one there is nothing to check."""
    if config.limits is not None:
        from crm.tenancy.redis_check import check_redis

        yield from check_redis(config.limits)


def _sms(tenants: Tenants) -> Iterator[LevelAndDetail]:
    """The SMS limits: the shared ones, and those of tenants that are nearly used up."""
    limits = SmsLimits(tenants.sms_log, tenants.config.sms_limits)
    usage = []
    for budget, used, nearly_used_up in limits.list_budgets(tenants.clock(), tenants.labels()):
        text = f"{used} of {budget.limit} in 24 hours are used by {budget.name}"
        if nearly_used_up:
            yield WARNING, f"{text}: see CRM_SMS_LIMITS"
        elif not budget.tenant:
            usage.append(text)
    if usage:
        yield OK, ", ".join(usage)


def _server(config: Config) -> Iterator[LevelAndDetail]:
    process = server.find_running(config.data)
    if process:
        yield OK, f"it runs (pid {process})"
    else:
        yield WARNING, "no server is running: the proxies are not checked"


def _proxy(tenants: Tenants) -> Iterator[LevelAndDetail]:
    if server.find_running(tenants.config.data):
        yield from network_checks.proxies(tenants)


def _send_test(config: Config, to: str) -> Iterator[LevelAndDetail]:
    started_at = time.monotonic()
    try:
        if "@" in to:
            provider = "console" if config.mail is None else config.mail.host
            mail.create_mail_sender(config).send(email(to) or "", "CRM: a test", TEST_MESSAGE)
        else:
            provider = config.sms
            sms.create_sms_sender(config).send(phone(to) or "", TEST_MESSAGE)
    except InvalidValue as error:
        yield FAULT, f"PHONE|EMAIL {error.detail}"
    except Undelivered as refused:
        yield FAULT, f"{provider}: {refused.reason}"
    else:
        yield OK, f"{provider} accepted it in {time.monotonic() - started_at:.1f} s"
