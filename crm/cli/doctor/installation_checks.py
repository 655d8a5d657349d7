"""Checks of an installation and its tenants, from the inside outwards; network_checks.py has those
around it."""

import os
import shutil
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import NamedTuple

from crm import server
from crm.access.limits import SmsLimits
from crm.cli.commands import warnings_at_start
from crm.cli.deployment import SECRETS_FILE
from crm.config import Config
from crm.copies import backup, integrity
from crm.errors import CRMError, DatabaseUnavailable, StorageFull, UnknownTenant, operator_text
from crm.installation import readiness
from crm.installation.tenants import Tenants
from crm.outbox import deliveries, events
from crm.resources import former_phones
from crm.storage.disk import stamp
from crm.storage.engine import BASE_HOST_FILE
from crm.storage.file_errors import FILE_ERRORS, describe, refusal
from crm.storage.quota import MEGABYTE, measure_storage
from crm.storage.session import current_session
from crm.storage.sqlite import litestream, migrations, requirements
from crm.storage.sqlite.archive_file import UNMARKED, has_mark, list_copies, made_at
from crm.timed_checks import (
    CHECK_TIMEOUT_SECONDS,
    FAULT,
    OK,
    WARNING,
    CheckList,
    CheckResult,
    LevelAndDetail,
    list_names,
    run_check,
)

MIN_FREE_BYTES = 64 * MEGABYTE
MAX_COPY_AGE_SECONDS = 48 * 3600  # of a tenant's newest copy, where copies are made each night
MAX_LAG_SECONDS = 60  # of Litestream's copies; two seconds are usual
FULL_CHECK_SECONDS = 600.0  # for one tenant's file, read to the end
OLD_DELIVERY_SECONDS = 86_400
NEARLY_FULL_SHARE = 0.9  # of a plan's storage
EVENT_CLOCK_TOLERANCE_SECONDS = 60  # that an event may be ahead of the clock
MAX_IDS = 50  # of one finding

check = CheckList()


class DoctorRun(NamedTuple):
    """One run of the doctor: the installation, and the options of the command.

    `full`: read every file to its end. `copies`: the folder of copies, None for that of `backup
    create`. `send_to`: the phone or e-mail address for a test message.
    """

    tenants: Tenants
    full: bool = False
    copies: Path | None = None
    send_to: str | None = None

    @property
    def config(self) -> Config:
        """The settings of the installation."""
        return self.tenants.config


@check("settings")
def check_settings(run: DoctorRun) -> Iterator[LevelAndDetail]:
    """Where the settings come from, and what a server would warn of."""
    config = run.config
    if SECRETS_FILE.exists() and not server.find_running(config.data):
        yield WARNING, f"{SECRETS_FILE} is not read: the doctor has it from a running service"
    sources = {setting.source for setting in config.describe() if setting.hidden}
    if config.file is None:
        yield OK, "there is no settings file"
    elif config.file.stat().st_mode & 0o077 and str(config.file) in sources:
        yield WARNING, f"{config.file} has secrets that others may read: chmod 600 {config.file}"
    else:
        yield OK, f"read from {config.file}"
    for env, sender in (("CRM_SMS", config.sms), ("CRM_MAIL", config.mail or "console")):
        if sender == "console":
            yield WARNING, f"{env}=console prints codes and links to the service's output"
    yield from ((WARNING, text) for text in warnings_at_start(run.tenants))


@check("sqlite")
def check_sqlite(_: DoctorRun) -> Iterator[LevelAndDetail]:
    """The version of SQLite, and whether it has the required features."""
    return requirements.check_sqlite()


@check()
def check_database(run: DoctorRun) -> Iterator[CheckResult]:
    """The database of CRM_DATABASE and the directory, each with a time limit of its own."""
    for name, function in run.tenants.postgres.checks() if run.tenants.postgres else ():
        yield from run_check(name, function)


@check("folder")
def check_folder(run: DoctorRun) -> Iterator[LevelAndDetail]:
    """Whether the data folder can be written, who owns its files, and who may read them."""
    data = run.config.data
    if not data.exists():
        yield WARNING, f"{data} is not there yet; `serve` makes it"
        return
    readiness.write_test_file(run.tenants)
    yield OK, f"{data} can be written"
    top, files = data.stat(), integrity.list_files(data)
    if other_owners := [path for path in files if path.lstat().st_uid != top.st_uid]:
        user = integrity.user_name(top.st_uid)
        yield FAULT, f"not {user}'s as the folder is: {list_names(other_owners)}"
    if top.st_mode & 0o077:
        yield WARNING, f"others may look into it: chmod 700 {data}"


@check("disk")
def check_disk(run: DoctorRun) -> Iterator[LevelAndDetail]:
    """Whether there is room to go on, and to copy all tenants."""
    folder, tenants = readiness.existing_folder(run.config.data), run.tenants
    free = shutil.disk_usage(folder).free
    total = sum(tenants.path(label).stat().st_size for label in tenants.files.labels())
    text = f"{free // MEGABYTE} MiB free, the tenants have {-(-total // MEGABYTE)} MiB"
    if free < MIN_FREE_BYTES:
        yield FAULT, f"{text}: the disk is full, or soon will be"
    elif free < total + MIN_FREE_BYTES:
        yield WARNING, f"{text}: too little for a copy of all"
    else:
        yield OK, text


@check("clock")
def check_clock(run: DoctorRun) -> Iterator[LevelAndDetail]:
    """What the machine's clock says, and whether it has jumped."""
    yield OK, f"{datetime.fromtimestamp(run.tenants.clock(), UTC):%Y-%m-%dT%H:%M:%SZ}"
    if run.tenants.steady_clock.is_doubted():
        effect = "if it is right, expired data is erased again after a day of running"
        yield WARNING, f"it jumped ahead of the time that this machine has been running: {effect}"


@check()
def check_tenants(run: DoctorRun) -> Iterator[CheckResult]:
    """Each tenant, with a time limit of its own, and how many are without a finding."""
    tenants, full, count = run.tenants, run.full, 0
    try:
        labels = tenants.labels() + [BASE_HOST_FILE] * tenants.has_base_host()
    except (CRMError, OSError) as error:
        reason = error.strerror if isinstance(error, OSError) else operator_text(error)
        yield CheckResult(FAULT, "tenants", f"they cannot be listed: {reason}")
        return
    seconds = FULL_CHECK_SECONDS if full else CHECK_TIMEOUT_SECONDS
    for label in labels:
        name = "base host" if label == BASE_HOST_FILE else label
        results = list(run_check(name, partial(_check_tenant, tenants, label, full), seconds))
        yield from results
        count += not results
    kind = "tenants" if tenants.config.database else "files"
    yield CheckResult(OK, "tenants", f"{count} of {len(labels)} {kind} are whole and up to date")
    tenants.forget_idle()


@check("sms")
def check_sms(run: DoctorRun) -> Iterator[LevelAndDetail]:
    """The SMS limits: the shared ones, and those of tenants that are nearly used up."""
    tenants, usage = run.tenants, []
    limits = SmsLimits(tenants.counters, run.config.sms_limits)
    for budget, used, nearly_used_up in limits.list_budgets(tenants.clock(), tenants.labels()):
        text = f"{used} of {budget.limit} in 24 hours are used by {budget.name}"
        if nearly_used_up:
            yield WARNING, f"{text}: see CRM_SMS_LIMITS"
        elif not budget.tenant:
            usage.append(text)
    if usage:
        yield OK, ", ".join(usage)


@check("backups")
def check_copies(run: DoctorRun) -> Iterator[LevelAndDetail]:
    """Whether each tenant has a recent and whole copy."""
    folder, labels = run.copies or backup.folder(run.tenants), run.tenants.labels()
    copies, oldest = list_copies(folder), stamp(run.tenants.clock() - MAX_COPY_AGE_SECONDS)
    missing = [label for label in labels if label not in copies]
    newest = {label: copies[label][-1] for label in labels if label in copies}
    outdated = [label for label, copy in newest.items() if made_at(copy) < oldest]
    unmarked = [label for label, copy in newest.items() if not has_mark(copy)]
    if missing:
        yield WARNING, f"no copy in {folder} of {list_names(missing)}: backup create"
    if outdated:
        yield WARNING, f"the newest copy is older than two days of {list_names(outdated)}"
    if unmarked:
        yield WARNING, f"the newest copy may not be whole of {list_names(unmarked)}: {UNMARKED}"
    if labels and not missing and not outdated and not unmarked:
        yield OK, f"{len(labels)} tenants, each has a copy of the last two days in {folder}"


@check("litestream")
def check_litestream(run: DoctorRun) -> Iterator[LevelAndDetail]:
    """Whether Litestream, where it is used, copies every file, and how far the copies lag."""
    data = run.config.data
    if not litestream.is_used(data):
        return
    try:
        statuses = litestream.copy_statuses(data)
    except litestream.NotAnswered as error:
        folder = litestream.state_folder(data)
        yield FAULT, f"{error}: nothing is copied, start it; if it is given up, remove {folder}"
        return
    labels, now = run.tenants.files.labels(), run.tenants.clock()
    lags: dict[str, float] = {}
    for name in [path.name for label in labels for path in run.tenants.files.databases(label)]:
        synced_at, problem = statuses.get(name, (None, ""))
        if problem:
            yield FAULT, f"{name} is not copied: {problem}: restart Litestream"
        elif synced_at is None:
            yield FAULT, f"{name} is not copied yet: if it stays so, restart Litestream"
        else:
            lags[name] = now - synced_at
    longest = max(lags.values(), default=0)
    if late := sorted(name for name, lag in lags.items() if lag > MAX_LAG_SECONDS):
        yield FAULT, f"the copies lag by {longest:.0f} s: {list_names(late)}"
    else:
        yield OK, f"{len(lags)} files, the copies lag by {longest:.1f} s"


def _check_tenant(tenants: Tenants, label: str, full: bool) -> Iterator[LevelAndDetail]:
    version = newest = len(migrations.STEPS)
    findings: list[LevelAndDetail] = []
    try:
        version, damages = tenants.tenant(label).check(full)
        faults = [f"is damaged: {text}" for text in damages]
        if version == newest and not faults:
            with tenants.session(label, sweeps_expired=False):
                findings = list(_check_content(tenants, label))
    except DatabaseUnavailable as error:
        yield FAULT, error.reason
        return
    except (CRMError, OSError, *FILE_ERRORS) as error:
        if isinstance(error, StorageFull) or isinstance(refusal(error), StorageFull):
            yield FAULT, "it cannot be read now: the disk is full"
            return
        is_gone = isinstance(error, UnknownTenant)
        text = "it is not there" if is_gone else describe(error.__cause__ or error)
        faults = [f"cannot be used: {text}"]
    if faults:
        is_file, place = tenants.lives_in_file(label), tenants.tenant(label).place
        for text in faults:
            yield FAULT, f"its {'file' if is_file else 'schema'} {text}: {place}"
        yield FAULT, _advice(tenants, label, is_file)
    if version > newest:
        yield FAULT, f"version {version} is of a newer release, this one knows {newest}"
    elif version == 0:
        yield FAULT, "its file is empty: restore a copy, or remove it"
    elif version < newest:
        yield WARNING, f"version {version} of {newest}: run migrate"
    yield from findings


def _check_content(tenants: Tenants, label: str) -> Iterator[LevelAndDetail]:
    """Yield what is found in the current session of a tenant."""
    now, space = tenants.clock(), measure_storage()
    if space.quota and space.used >= space.quota * NEARLY_FULL_SHARE:
        used, quota = (bytes // MEGABYTE for bytes in space)
        yield WARNING, f"it uses {used} of the {quota} MB of its plan (CRM_STORAGE)"
    if missing := current_session().source.contents.list_missing():
        text = f"{len(missing)} contents of its files or papers are missing: restore a copy"
        yield FAULT, f"{text}; SHA-256 {list_names(missing)}"
    newest = events.find_latest_event_time()
    if newest and _age(newest, now) < -EVENT_CLOCK_TOLERANCE_SECONDS:
        yield FAULT, f"its newest event is of {newest}: this machine's clock is behind"
    for status, count, oldest in deliveries.count_unfinished():
        is_late = status != "pending" or _age(oldest, now) > OLD_DELIVERY_SECONDS
        text = f"{count} deliveries are {status}, the oldest of {oldest}"
        yield (WARNING if is_late else OK), text
    for name, ids in former_phones.list_ids().items():
        if ids:
            about = f"{name} whose phone has too few or too many digits: {len(ids)}"
            yield WARNING, f"{about}, ids {str(ids[:MAX_IDS])[1:-1]}"


def _advice(tenants: Tenants, label: str, is_file: bool) -> str:
    """What the operator can do about a tenant's file or schema that cannot be used."""
    path = tenants.path(label)
    if is_file and not os.access(path, os.R_OK | os.W_OK):
        user = integrity.user_name(os.geteuid())
        return f"give the service access: chown {user} {path} && chmod 600 {path}"
    if label == BASE_HOST_FILE:
        about = "it only has codes and links of the last day"
        return f"{about}: move {path} to another folder" if is_file else f"{about}: drop it"
    copies = list_copies(backup.folder(tenants)).get(label)
    if copies:
        return f"restore its newest copy: restore {label} {copies[-1]}"
    return f"there is no copy in {backup.folder(tenants)}: restore {label} FILE"


def _age(moment: str, now: float) -> float:
    return now - datetime.fromisoformat(moment).timestamp()
