"""Backups of tenants: create, list, verify and restore them; migration to this release."""

from functools import partial
from pathlib import Path
from typing import Any

import click

from crm.access import links
from crm.cli.commands import (
    FOLDER,
    Failures,
    as_json,
    command,
    copies_option,
    group,
    list_command,
    naming_tenant,
    show_progress,
    subgroup,
    tenant_file,
)
from crm.config import Config
from crm.copies import backup as copying
from crm.copies import stores
from crm.copies.backup_run import MAX_COPIES, BackupRun, NewCopy
from crm.errors import CRMError, NotFound
from crm.installation.tenants import Tenants
from crm.json import dumps
from crm.outbox.subscriptions import hold_all_deliveries
from crm.resources import personal_data, tenant
from crm.storage.engine import BASE_HOST_FILE
from crm.storage.file_errors import FILE_ERRORS
from crm.storage.sqlite import litestream, migrations
from crm.storage.sqlite.archive_file import UNMARKED, check_copy, has_mark, list_copies

COPY = click.Path(path_type=Path, exists=True, dir_okay=False)


backup = subgroup("backup", "Backups of tenants, while the server may be running.")


@command(backup, "create", "[tenant]")
@click.option("--to", type=FOLDER, help="Folder for copies, else <data>/backups.")
@click.option("--keep", default=MAX_COPIES, type=click.IntRange(1), help="Copies of each to keep.")
def backup_create(config: Config, tenant: str | None, to: Path | None, keep: int) -> None:
    """Copy TENANT, by default all tenants: path and bytes of each copy."""
    tenants, failures = Tenants(config), Failures()
    into = to or copying.folder(tenants)
    if tenant and not tenants.exists(tenant):
        raise NotFound(f"there is no tenant {tenant}")
    labels = [tenant] if tenant else tenants.labels()
    # By erasing_now(), a clock that jumped ahead cannot make unfinished files of another run look
    # abandoned.
    run = BackupRun(into, keep, tenants.clock, tenants.steady_clock.erasing_now())
    try:
        for label in show_progress("copied", labels):
            with failures.collect(label), tenant_file(config, label) as opened:
                _print(run.add(opened.tenant(label)))
        _print(run.finish())
    finally:
        run.close()
    failures.raise_if_any("these tenants could not be copied")


def _print(copies: list[NewCopy]) -> None:
    for copy in copies:
        click.echo(f"{copy.path}\t{copy.path.stat().st_size}")


@command(backup, "list")
@copies_option
@list_command("tenant bytes file")
def backup_list(config: Config, within: Path | None) -> list[dict[str, Any]]:
    """List the copies, the oldest of each tenant first."""
    copies = list_copies(within or copying.folder(Tenants(config)))
    return [
        {"tenant": label, "file": str(path), "bytes": path.stat().st_size}
        for label, paths in copies.items()
        for path in paths
    ]


@command(backup, "verify", folder="unused")
@click.argument("files", nargs=-1, type=COPY, metavar="[FILE]...")
@copies_option
@as_json
def backup_verify(
    config: Config, files: tuple[Path, ...], within: Path | None, as_json: bool
) -> None:
    """Read each FILE, or all copies of a folder, to the end: path, version of the data, bytes.

    One that lacks the mark of a whole copy fails: its last changes may be missing.
    """
    if bool(files) == bool(within):
        raise click.UsageError("either files or --from")
    if within:
        files = tuple(path for paths in _copies(within).values() for path in paths)
    failures, rows = Failures(), []
    for file in files:
        row: dict[str, Any] = {"file": str(file), "version": None, "bytes": file.stat().st_size}
        rows.append(row)
        with failures.collect(str(file)):
            row["version"] = check_copy(file)
            if not as_json:
                click.echo(f"{file}\tversion {row['version']}\t{row['bytes']}")
            if not has_mark(file):
                failures.add(str(file), UNMARKED)
            if missing := copying.count_missing(file):
                failures.add(str(file), f"{missing} contents of files or papers are not in it")
    if as_json:
        click.echo(dumps(rows))
    failures.raise_if_any("these copies are damaged, or may not be whole")


@command(backup, "test-restore")
@copies_option
def backup_test_restore(config: Config, within: Path | None) -> None:
    """Restore the newest copy of each tenant aside, and compare the number of rows."""
    tenants, failures = Tenants(config), Failures()
    copies = _copies(within or copying.folder(tenants))
    click.echo("tenant\ttable\tcopy\trestored")
    for label, paths in copies.items():
        with failures.collect(label):
            try:
                _compare(label, paths[-1], tenants, failures)
            finally:
                tenants.forget_idle()
    failures.raise_if_any("these copies cannot be restored completely")


def _compare(label: str, copy: Path, tenants: Tenants, failures: Failures) -> None:
    """Restore a copy aside and print a line for each table that is counted."""
    counts = copying.test_restore(tenants, copy, label, hold_all_deliveries)
    if not has_mark(copy):
        failures.add(label, f"{copy}: {UNMARKED}")
    for table, copied, restored in zip(copying.COUNTED_TABLES, *counts, strict=True):
        click.echo(f"{label}\t{table}\t{copied}\t{restored}")
        if restored != copied:
            failures.add(label, f"{table}: {copied} in the copy, {restored} restored")


@command(group, "restore", "[tenant]", folder="may be new")
@click.argument("file", type=COPY, required=False)
@click.option("--all", "every", is_flag=True, help="All tenants, from the folder of --from.")
@click.option("--from", "within", type=FOLDER, help="Folder of copies, for --all.")
@click.option("--to", type=click.Choice(stores.PLACES), help="Where it is to live from now on.")
@click.option(
    "--skip-ids", is_flag=True, help="Leave out a million ids, given since the copy perhaps."
)
@click.option("--yes", is_flag=True, help="Don't ask.")
def restore(
    config: Config,
    tenant: str | None,
    file: Path | None,
    every: bool,
    within: Path | None,
    to: str | None,
    skip_ids: bool,
    yes: bool,
) -> None:
    """Restore TENANT, which may be new, from the copy FILE; the server may be running.

    The tenant's file from before is kept in <data>/trash. Deliveries that were waiting in the copy
    are held: Settings, Webhooks sends them, or `POST /webhooks/{id}/recover`.

    With --to a tenant moves between files and PostgreSQL, or comes from another machine: suspend it
    before the copy is made. Then nothing is held, and it goes on at `tenant resume`.

    With --all: each tenant from its newest copy in a folder of `backup create`. With the folder
    <data>/upgrades, after a return to an older release: those tenants that it cannot read, from
    their copies of before the upgrade.
    """
    tenants = Tenants(config)
    if every and within and not (file or tenant):
        if not yes:
            question = f"Replace tenants by their copies in {within}? Files of now go to the trash."
            click.confirm(question, abort=True, err=True)
        _restore_all(tenants, within, to, skip_ids)
    elif file and tenant and not (every or within):
        _warn_if_unmarked(file)
        if tenants.exists(tenant) and not yes:
            question = f"Replace {tenant} by {file.name}? Its file of now goes to the trash."
            click.confirm(question, abort=True, err=True)
        _restore(tenants, tenant, file, to, skip_ids)
    else:
        raise click.UsageError("either TENANT and FILE, or --all --from DIR")


def _restore_all(tenants: Tenants, within: Path, to: str | None, skip_ids: bool) -> None:
    """Restore tenants from a folder of backups or of upgrades; one that fails stops no other."""
    copies, failures = list_copies(within), Failures()
    if not copies and not any(within.glob("*/*-v*.db")):
        raise NotFound(f"there are no copies in {within}")
    for label in copies or [BASE_HOST_FILE] * tenants.has_base_host() + tenants.labels():
        with failures.collect(label), naming_tenant(label):
            paths = copies.get(label)
            copy = paths[-1] if paths else copying.find_copy_before_upgrade(tenants, within, label)
            if copy is None:
                click.echo(f"{label}: not changed, this release can read it")
            else:
                _warn_if_unmarked(copy)
                _restore(tenants, label, copy, to, skip_ids)
    failures.raise_if_any("these could not be restored")


def _warn_if_unmarked(file: Path) -> None:
    if not has_mark(file):
        click.echo(f"warning: {file}: {UNMARKED}", err=True)


def _restore(tenants: Tenants, label: str, file: Path, to: str | None, skip_ids: bool) -> None:
    """Restore a tenant and print what was done. Raises CRMError."""
    try:
        restored = copying.restore(tenants, file, label, partial(_disarm, to), to, skip_ids)
    except FILE_ERRORS as error:
        raise CRMError(f"{file} cannot be restored: {error}") from error
    finally:
        tenants.forget_idle()
    click.echo(f"{label} is restored from {file}")
    if restored.before:
        click.echo(f"its file from before: {restored.before}")
    is_replaced = restored.before and to is None and tenants.lives_in_file(label)
    if is_replaced and litestream.is_used(tenants.config.data):
        click.echo("Litestream copies it once it is restarted: sudo systemctl restart litestream")
    if restored.prepared is None:
        click.echo(f"it is suspended: `tenant resume {label}` lets it go on")
    elif restored.prepared:
        click.echo(f"held deliveries: {restored.prepared}; Settings, Webhooks sends missed events")


def _disarm(to: str | None) -> int | None:
    """End links and hold deliveries of a restored copy; gives the number of deliveries held.

    A link that was used or ended since the copy was made must not work again. None for a suspended
    tenant that is moved here: nothing has gone on since its copy was made.
    """
    personal_data.replay()
    if to and tenant.about()["suspended_at"]:
        return None
    links.end_all()
    return hold_all_deliveries()


def _copies(within: Path) -> dict[str, list[Path]]:
    copies = list_copies(within)
    if not copies:
        raise NotFound(f"there are no copies in {within}")
    return copies


@command(group, "migrate")
@click.option("--dry-run", is_flag=True, help="List the tenants that need it; change nothing.")
@as_json
def migrate(config: Config, dry_run: bool, as_json: bool) -> None:
    """Migrate all tenants to this release; files are copied to <data>/upgrades first.

    A tenant that fails keeps its version and does not stop the others. A schema in PostgreSQL takes
    each step in a transaction, whether servers run or not.
    """
    tenants, failures = Tenants(config), Failures()
    labels = [BASE_HOST_FILE] * tenants.has_base_host() + tenants.labels()
    rows, count, latest = [], 0, len(migrations.STEPS)
    for label in show_progress("checked" if dry_run else "migrated", labels):
        name = _name(tenants, label)
        with failures.collect(name), naming_tenant(label):
            tenant = tenants.tenant(label)
            was = tenant.version() if dry_run else tenant.migrate()
            if was > latest:
                kind = "file" if tenants.lives_in_file(label) else "schema"
                raise migrations.newer(name, was, kind)
            is_old = was < latest
            count += is_old
            version, other = (was, f" of {latest}") if dry_run else (latest, f", was {was}")
            rows.append({"tenant": name, "version": version, "was": was})
            if not as_json and (is_old or not dry_run):
                click.echo(f"{name}: version {version}{other if is_old else ''}")
    tenants.forget_idle()
    if as_json:
        click.echo(dumps(rows))
    click.echo(f"{count} of {len(labels)} {'to migrate' if dry_run else 'migrated'}", err=True)
    failures.raise_if_any("these cannot be read" if dry_run else "these could not be migrated")


def _name(tenants: Tenants, label: str) -> str:
    if label != BASE_HOST_FILE:
        return label
    return tenants.path(label).name if tenants.lives_in_file(label) else "base host"
