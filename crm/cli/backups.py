"""Backups of tenants: create, list, verify and restore them."""

from collections.abc import Sequence
from pathlib import Path

import click

from crm.access import links
from crm.cli.commands import Failures, Progress, command, group, tenant_file
from crm.cli.tables import as_json, field, print_rows
from crm.config import Config
from crm.errors import CRMError, NotFound
from crm.outbox.subscriptions import hold_all_deliveries
from crm.tenancy import backup as copying
from crm.tenancy.backup_run import MAX_COPIES, BackupRun, NewCopy
from crm.tenancy.copies import check_copy, list_copies
from crm.tenancy.file_errors import FILE_ERRORS
from crm.tenancy.installation import open_tenants
from crm.tenancy.tenants import Tenants

FOLDER = click.Path(path_type=Path, file_okay=False)
COPY = click.Path(path_type=Path, exists=True, dir_okay=False)
folder_option = click.option(
    "--from", "within", type=FOLDER, metavar="DIR", help="Folder of the copies, else <data>/backups"
)


@group.group("backup")
def backup() -> None:
    """Backups of tenants, while the server may be running."""


@command(backup, "create")
@click.option("--tenant", metavar="LABEL", help="Only this tenant.")
@click.option("--all", "every", is_flag=True, help="All tenants (the default).")
@click.option("--to", type=FOLDER, metavar="DIR", help="Folder for copies, else <data>/backups.")
@click.option(
    "--keep",
    default=MAX_COPIES,
    show_default=True,
    type=click.IntRange(1),
    help="How many of a tenant's copies to keep in that folder.",
)
def backup_create(
    config: Config, tenant: str | None, every: bool, to: Path | None, keep: int
) -> None:
    """Copy tenants: path and bytes of each copy."""
    if tenant and every:
        raise click.UsageError("either --tenant or --all")
    tenants, failures = open_tenants(config), Failures()
    into = to or copying.folder(tenants)
    if tenant and not tenants.exists(tenant):
        raise NotFound(f"there is no tenant {tenant}")
    labels = [tenant] if tenant else tenants.labels()
    # By erasing_now(), a clock that jumped ahead cannot make unfinished files of another run look
    # abandoned.
    run = BackupRun(into, keep, tenants.clock, tenants.steady_clock.erasing_now())
    progress, linked = Progress("copied", len(labels)), 0
    try:
        for label in labels:
            with failures.collect(label), tenant_file(config, label) as opened:
                linked += _print(run.add(opened.tenant(label)))
            progress.advance()
        linked += _print(run.finish())
    finally:
        run.close()
    if linked:
        click.echo(f"not changed since their last copy: {linked} of {len(labels)}", err=True)
    failures.raise_if_any("these tenants could not be copied")


def _print(copies: list[NewCopy]) -> int:
    """Print the copies, and return how many are hard links to an older copy."""
    for _, path, _ in copies:
        click.echo(f"{path}\t{path.stat().st_size}")
    return sum(copy.is_link for copy in copies)


@command(backup, "list")
@folder_option
@as_json
def backup_list(config: Config, within: Path | None, as_json: bool) -> None:
    """List the copies, the oldest of each tenant first."""
    rows = []
    for label, paths in list_copies(within or copying.folder(open_tenants(config))).items():
        rows += [
            {"tenant": label, "file": str(path), "bytes": path.stat().st_size} for path in paths
        ]
    print_rows(rows, as_json, tenant=field("tenant"), bytes=field("bytes"), file=field("file"))


@command(backup, "verify")
@click.argument("files", nargs=-1, type=COPY, metavar="[FILE]...")
@folder_option
def backup_verify(config: Config, files: tuple[Path, ...], within: Path | None) -> None:
    """Read each FILE, or all copies of a folder, to the end: path, version of the data, bytes."""
    if bool(files) == bool(within):
        raise click.UsageError("either files or --from")
    if within:
        files = tuple(path for paths in _copies(within).values() for path in paths)
    failures = Failures()
    for file in files:
        with failures.collect(str(file)):
            version = check_copy(file)
            click.echo(f"{file}\tversion {version}\t{file.stat().st_size}")
    failures.raise_if_any("these copies are damaged")


@command(backup, "test-restore")
@folder_option
def backup_test_restore(config: Config, within: Path | None) -> None:
    """Restore the newest copy of each tenant aside, and compare the number of rows.

    Prints the rows of the copy, of what was restored from it, and of the tenant as it is now, which
    may have changed since the copy.
    """
    tenants, failures = open_tenants(config), Failures()
    copies = _copies(within or copying.folder(tenants))
    click.echo("tenant\ttable\tcopy\trestored\tnow\t")
    for label, paths in copies.items():
        with failures.collect(label):
            try:
                _compare(label, paths[-1], tenants, failures)
            finally:
                tenants.forget_idle()
    for label in tenants.labels():
        if label not in copies:
            click.echo(f"{label}: has no copy", err=True)
    failures.raise_if_any("these copies cannot be restored completely")


def _compare(label: str, copy: Path, tenants: Tenants, failures: Failures) -> None:
    """Restore a copy aside and print a line for each table that is counted."""
    result = copying.test_restore(tenants, copy, label, hold_all_deliveries)
    live_counts: Sequence[int | None] = result.live or [None] * len(copying.COUNTED_TABLES)
    counts = zip(copying.COUNTED_TABLES, result.copy, result.restored, live_counts, strict=True)
    for table, copied, restored, live in counts:
        state = "same"
        if restored != copied:
            state = "DIFFERS"
            failures.add(label, f"{table}: {copied} in the copy, {restored} restored")
        elif live is None:
            state = "no such tenant"
        elif live != copied:
            state = f"{live - copied:+} since"
        cells = (label, table, copied, restored, "-" if live is None else live, state)
        click.echo("\t".join(map(str, cells)))


@command(group, "restore")
@click.argument("file", type=COPY)
@click.option("--tenant", required=True, metavar="LABEL", help="May be a new one.")
@click.option("--yes", is_flag=True, help="Don't ask.")
def restore(config: Config, file: Path, tenant: str, yes: bool) -> None:
    """Restore a tenant from the copy FILE, while the server may be running.

    The tenant's file from before is kept in <data>/trash. Deliveries that were waiting in the copy
    are held: `webhook recover` sends them.
    """
    tenants = open_tenants(config)
    if tenants.exists(tenant) and not yes:
        question = f"Replace {tenant} by {file.name}? Its file of now goes to the trash."
        click.confirm(question, abort=True, err=True)
    try:
        restored = copying.restore(tenants, file, tenant, _disarm)
    except FILE_ERRORS as error:
        raise CRMError(f"{file} cannot be restored: {error}") from error
    finally:
        tenants.forget_idle()
    click.echo(f"{tenant} is restored from {file}")
    if restored.before:
        click.echo(f"its file from before: {restored.before}")
    if restored.prepared:
        click.echo(f"held deliveries: {restored.prepared}; `webhook recover` sends what is missing")


def _disarm() -> int:
    """End links and hold deliveries of a restored copy; gives the number of deliveries held.

    A link that was used or ended since the copy was made must not work again.
    """
    links.end_all()
    return hold_all_deliveries()


def _copies(within: Path) -> dict[str, list[Path]]:
    copies = list_copies(within)
    if not copies:
        raise NotFound(f"there are no copies in {within}")
    return copies
