"""Copying and restoring tenants beside a running server.

A copy is one whole file, checked before it gets its name `<label>-<UTC time>.db`. Restoring builds
a new file or schema, checked and migrated, which then replaces the tenant's under its writer lock:
the server's processes notice at their next session. What was there before is in the trash. Ids that
it had given are not given again (D2), and readers of the event feed see a gap where history was
undone (D15).
"""

import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

from crm.config import LABEL
from crm.copies import stores
from crm.copies.tenant_store import Restored
from crm.errors import Invalid, NotFound, UnknownTenant
from crm.installation.tenants import RESERVED, Tenants
from crm.storage import disk, upgrades
from crm.storage.contents import list_missing
from crm.storage.engine import BASE_HOST_FILE
from crm.storage.session import TenantSession, write_archive
from crm.storage.sqlite import archive, migrations
from crm.storage.sqlite.archive_file import check_copy, open_copy, require_alone
from crm.storage.sqlite.connection import connect
from crm.storage.sqlite.file_contents import contents_path, fill_archive
from crm.storage.sqlite.tenant import Tenant

COUNTED_TABLES = (
    *("lead", "client", "deal", "deal_item", "product", "task", "event", "file", "paper"),
    "file_content",
)
COUNT_ROWS = "SELECT " + ", ".join(
    f"(SELECT count(*) FROM {table})" for table in COUNTED_TABLES[:-1]
)


def folder(tenants: Tenants) -> Path:
    """Return where copies are kept unless another folder is named."""
    return tenants.config.data / "backups"


def restore(
    tenants: Tenants,
    copy: Path,
    label: str,
    prepare: Callable[[], Any],
    place: str | None = None,
    skip_ids: bool = False,
) -> Restored:
    """Replace a tenant by a copy where it lives, or create a tenant from it.

    `prepare` is called in a transaction of the new one before anyone can see it, to stop what must
    not continue, such as due deliveries. `place`, one of stores.PLACES, is where the tenant is to
    live from now on. One that this installation has is moved there: see stores.move(). `skip_ids`:
    leave out a million ids of each table, which may have been given since the copy was made; a
    tenant that is moved has given none.

    Raises Invalid for a label that can't be an address, BadCopy, NewerFile, Conflict, Busy when the
    file is in use for too long; nothing has changed then.
    """
    # A tenant may have had its label before that was reserved; its copies are named after it.
    is_new = not tenants.exists(label) and not copy.name.startswith((f"{label}-", f"{label}."))
    is_label = LABEL.match(label) or label == BASE_HOST_FILE
    if not is_label or (label in RESERVED and is_new):
        raise Invalid.field("tenant", "invalid_label", "it cannot be a tenant's label")
    with _aside(tenants, label) as draft:
        _migrated(copy, draft, label)
        if place is not None and tenants.exists(label):
            return Restored(stores.move(tenants, label, draft, place), None)
        if skip_ids:
            with closing(connect(draft)) as file:
                archive.skip_numbers(file)
        if place is None:
            return stores.find_store(tenants, label).replace(draft, prepare)
        return stores.store_in(tenants, label, place).replace(draft, prepare)


def find_copy_before_upgrade(tenants: Tenants, within: Path, label: str) -> Path | None:
    """Find the copy to restore of a tenant whose upgrade is to be undone, in a folder of upgrades.

    Returns None for a tenant that this release reads as it is. Raises NotFound if a newer release
    has upgraded or created it and there is no copy that this one reads.
    """
    known = len(migrations.STEPS)
    if (version := tenants.tenant(label).version()) <= known:
        return None
    if copy := upgrades.find_copy(within, label, known):
        return copy
    raise NotFound(
        f"it has version {version}, and {within} has no copy of a version up to {known}, which this"
        " release reads: it was created after the upgrade"
    )


def clone(tenants: Tenants, label: str, new_label: str, prepare: Callable[[], object]) -> None:
    """Create another tenant from a tenant as it is now; nobody sees it before `prepare` is done.

    Raises Invalid, Conflict `label_taken`, UnknownTenant, and what `create` does.
    """
    if not tenants.exists(label):
        raise UnknownTenant
    tenants.require_free(new_label)
    with _aside(tenants, new_label) as draft:
        with tenants.session(label):
            write_archive(draft)
        stores.find_store(tenants, new_label).create(draft, prepare)


@contextmanager
def copy_session(tenants: Tenants, copy: Path, label: str) -> Iterator[None]:
    """Open a session that reads a whole copy as if it were the tenant."""
    source = Tenant(label, copy, tenants)
    with (
        closing(connect(copy, writes=False)) as connection,
        TenantSession(label, connection, source, tenants.clock),
    ):
        yield


def test_restore(
    tenants: Tenants, copy: Path, label: str, prepare: Callable[[], int]
) -> tuple[Sequence[int], Sequence[int]]:
    """Restore a copy aside: for a file in a temporary folder, else in a draft of a schema.

    Returns the numbers of rows of COUNTED_TABLES in the copy, and in what was restored from it.
    Raises what `restore` does.
    """
    with tempfile.TemporaryDirectory(prefix="crm-test-restore-") as folder:
        draft = _migrated(copy, Path(folder) / "copy", label)
        restored = stores.find_store(tenants, label).test(draft, prepare, COUNT_ROWS)
    with closing(open_copy(copy)) as source:
        return tuple(_count(source, table) for table in COUNTED_TABLES), restored


def _count(copy: Any, table: str) -> int:
    """Count the rows of a table of a copy, which may be older than the table; of contents the
    complete ones."""
    if table not in {known.name for known in archive.tables(copy)}:
        return 0
    column = "sha256" if table == "file_content" else "*"
    return copy.execute(f"SELECT count({column}) FROM {table}").fetchone()[0]


@contextmanager
def _aside(tenants: Tenants, label: str) -> Iterator[Path]:
    """Give a path for a new file of a tenant in a `with` block, which no session opens."""
    draft = tenants.files.draft(label)
    disk.delete_abandoned(tenants.files.folder, ".new-*", tenants.steady_clock.erasing_now())
    try:
        yield draft.path
    finally:
        tenants.files.delete_draft(draft)


def _migrated(copy: Path, to: Path, label: str) -> Path:
    """Copy a copy to a path where nothing is, check it and bring it up to date; returns the path.

    A copy that Litestream has made, or that is of a damaged file, has its contents beside it.
    Raises BadCopy, NewerFile.
    """
    require_alone(copy)
    disk.make(to)
    shutil.copyfile(copy, to)
    check_copy(to, str(copy))
    with closing(connect(to)) as connection:
        connection.execute("PRAGMA journal_mode = DELETE")  # it is read without a log
        migrations.migrate(connection, label)
    if (beside := contents_path(copy)).exists():
        require_alone(beside)
        with closing(open_copy(beside)) as source:
            fill_archive(to, source)
    return to


def count_missing(copy: Path) -> int:
    """Return how many contents the rows of a copy name that are neither in it nor beside it."""
    with ExitStack() as stack:
        paths = [path for path in (copy, contents_path(copy)) if path.exists()]
        files = [stack.enter_context(closing(open_copy(path))) for path in paths]
        is_older = not any(table.name == "file_content" for table in archive.tables(files[0]))
        return 0 if is_older else len(list_missing(files[0], files))
