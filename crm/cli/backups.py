"""Copies of tenants, the way back, and the proof that there is one."""

from pathlib import Path

import click

from crm.access import links
from crm.cli.commands import Failures, Progress, command, group, whole
from crm.cli.tables import as_json, field, print_rows
from crm.config import Config
from crm.errors import CRMError, NotFound
from crm.outbox.subscriptions import hold_all_deliveries
from crm.tenancy import backup as copying
from crm.tenancy.backup_run import KEEP, Made, Run
from crm.tenancy.copies import check, list_copies
from crm.tenancy.file_errors import FILE_ERRORS
from crm.tenancy.tenants import Tenants

FOLDER = click.Path(path_type=Path, file_okay=False)
COPY = click.Path(path_type=Path, exists=True, dir_okay=False)
whence = click.option(
    "--from", "within", type=FOLDER, metavar="DIR", help="Folder of the copies, else <data>/backups"
)


@group.group("backup")
def backup() -> None:
    """Copies of tenants, made and tried beside a running server."""


@command(backup, "create")
@click.option("--tenant", metavar="LABEL", help="Only this one.")
@click.option("--all", "every", is_flag=True, help="All tenants (the default).")
@click.option("--to", type=FOLDER, metavar="DIR", help="Folder for them, else <data>/backups.")
@click.option(
    "--keep",
    default=KEEP,
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
    tenants, failures = Tenants(config), Failures()
    into = to or copying.folder(tenants)
    if tenant and not tenants.exists(tenant):
        raise NotFound(f"there is no tenant {tenant}")
    labels = [tenant] if tenant else tenants.labels()
    run = Run(into, keep, tenants.clock, tenants.steady.for_erasing())
    progress, linked = Progress("copied", len(labels)), 0
    try:
        for label in labels:
            with failures.of(label), whole(config, label) as home:
                linked += _tell(run.add(home.tenant(label)))
            progress.advance()
        linked += _tell(run.finish())
    finally:
        run.close()
    if linked:
        click.echo(f"not changed since their last copy: {linked} of {len(labels)}", err=True)
    failures.tell("no copy was made of")


def _tell(made: list[Made]) -> int:
    """Print the copies; gives how many are links."""
    for _, path, _ in made:
        click.echo(f"{path}\t{path.stat().st_size}")
    return sum(each.is_link for each in made)


@command(backup, "list")
@whence
@as_json
def backup_list(config: Config, within: Path | None, as_json: bool) -> None:
    """List the copies, the oldest of each tenant first."""
    rows = []
    for label, paths in list_copies(within or copying.folder(Tenants(config))).items():
        rows += [
            {"tenant": label, "file": str(path), "bytes": path.stat().st_size} for path in paths
        ]
    print_rows(rows, as_json, tenant=field("tenant"), bytes=field("bytes"), file=field("file"))


@command(backup, "verify")
@click.argument("files", nargs=-1, type=COPY, metavar="[FILE]...")
@whence
def backup_verify(config: Config, files: tuple[Path, ...], within: Path | None) -> None:
    """Read each FILE, or all copies of a folder, to the end: path, version of the data, bytes."""
    if bool(files) == bool(within):
        raise click.UsageError("either files or --from")
    if within:
        files = tuple(path for found in _copies(within).values() for path in found)
    failures = Failures()
    for file in files:
        with failures.of(str(file)):
            version = check(file)
            click.echo(f"{file}\tversion {version}\t{file.stat().st_size}")
    failures.tell("no good copies are")


@command(backup, "drill")
@whence
def backup_drill(config: Config, within: Path | None) -> None:
    """Restore the newest copy of each tenant aside and count: does it hold what it should?

    Rows of the copy, of what was restored from it, and of the tenant as it is now, which may be
    ahead of its copy.
    """
    tenants, failures = Tenants(config), Failures()
    found = _copies(within or copying.folder(tenants))
    click.echo("tenant\ttable\tcopy\trestored\tnow\t")
    for label, paths in found.items():
        with failures.of(label):
            try:
                _count(label, paths[-1], tenants, failures)
            finally:
                tenants.forget_idle()
    for label in tenants.labels():
        if label not in found:
            click.echo(f"{label}: has no copy", err=True)
    failures.tell("the copies do not hold what they should")


def _count(label: str, copy: Path, tenants: Tenants, failures: Failures) -> None:
    result = copying.drill(tenants, copy, label, hold_all_deliveries)
    live = result.live or ["-"] * len(copying.COUNTED)
    for table, *counts in zip(copying.COUNTED, result.copy, result.restored, live, strict=True):
        copied, restored, now = counts
        told = "same"
        if restored != copied:
            told = "DIFFERS"
            failures.add(label, f"{table}: {copied} in the copy, {restored} restored")
        elif now != copied:
            told = "no such tenant" if now == "-" else f"{now - copied:+} since"
        click.echo("\t".join(map(str, (label, table, *counts, told))))


@command(group, "restore")
@click.argument("file", type=COPY)
@click.option("--tenant", required=True, metavar="LABEL", help="Its place; it may be a new one.")
@click.option("--yes", is_flag=True, help="Don't ask.")
def restore(config: Config, file: Path, tenant: str, yes: bool) -> None:
    """Put the copy FILE in a tenant's place, beside a running server.

    The file that stood there is kept in <data>/trash. Webhooks get nothing of what waited in the
    copy until `webhook recover`.
    """
    tenants = Tenants(config)
    if tenants.exists(tenant) and not yes:
        asked = f"Put {file.name} in the place of {tenant}, which goes to the trash?"
        click.confirm(asked, abort=True, err=True)
    try:
        done = copying.restore(tenants, file, tenant, _settle)
    except FILE_ERRORS as error:
        raise CRMError(f"{file} cannot be restored: {error}") from error
    finally:
        tenants.forget_idle()
    click.echo(f"{tenant} is restored from {file}")
    if done.before:
        click.echo(f"what it was before: {done.before}")
    if done.settled:
        click.echo(f"held deliveries: {done.settled}; `webhook recover` sends what is missing")


def _settle() -> int:
    """What must not go on as it stood in a copy; gives how many deliveries are held.

    A link that was ended since the copy was made must not be good again.
    """
    links.end_all()
    return hold_all_deliveries()


def _copies(within: Path) -> dict[str, list[Path]]:
    found = list_copies(within)
    if not found:
        raise NotFound(f"there are no copies in {within}")
    return found
