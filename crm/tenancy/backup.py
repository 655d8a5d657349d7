"""Copies of tenants' files and the way back, beside a running server.

A copy is one whole file, checked before it gets its name `<label>-<UTC time>.db`. Restoring builds
the file that will be, checked and migrated, and then changes files under the tenant's writer lock:
whoever serves the tenant notices on its next visit. The file that stood there is kept in `trash`.
Numbers that it had given are not given again (D2), and followers of the events see a gap where
history was undone (D15).
"""

import os
import secrets
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from crm.config import LABEL
from crm.errors import Invalid, NotFound
from crm.tenancy import disk, litestream, migrations, trash
from crm.tenancy.backup_run import KEEP, Run, copy_pages
from crm.tenancy.copies import BadCopy, check, open_copy, require_alone
from crm.tenancy.database import (
    TenantSession,
    begin_session,
    connect,
    current_session,
    end_session_of_thread,
    row,
    transaction,
)
from crm.tenancy.files import Tenant, UnknownTenant
from crm.tenancy.labels import RESERVED
from crm.tenancy.tenants import Tenants

COUNTED = ("lead", "client", "deal", "deal_item", "product", "task", "event")
COUNTS = "SELECT " + ", ".join(f"(SELECT count(*) FROM {table})" for table in COUNTED)


@dataclass(frozen=True, slots=True)
class Restored:
    """What a restore did: where the file before is kept, if there was one, and what `settle`
    said."""

    before: Path | None
    settled: int


@dataclass(frozen=True, slots=True)
class Drilled:
    """Rows of the COUNTED tables: in a copy, in the file restored from it, and, if the tenant is
    there, in its own."""

    copy: Sequence[int]
    restored: Sequence[int]
    live: Sequence[int] | None


def folder(tenants: Tenants) -> Path:
    """Where copies are kept unless another place is named."""
    return tenants.config.data / "backups"


def create(to: Path, keep: int = KEEP) -> Path:
    """Copy the tenant visited into a folder; gives the copy's path.

    Of its label's copies there the `keep` newest stay. Raises BadCopy when the copy isn't whole
    (the older ones stay then), or what SQLite and the disk say.
    """
    here = current_session()
    run = Run(to, keep, here.clock, here.keeper.steady.for_erasing())
    try:
        (made,) = run.add(here.keeper) or run.finish()
    finally:
        run.close()
    return made.path


def write(to: Path) -> None:
    """Copy the tenant visited to a path where nothing is: whole, checked, on the disk, and its
    owner's only. Raises what `create` does."""
    copy_pages(current_session().connection, to)
    check(to)
    disk.sync(to)


def restore(tenants: Tenants, copy: Path, label: str, settle: Callable[[], int]) -> Restored:
    """Put a copy in a tenant's place, or make a tenant of it.

    `settle` changes what must not go on as it stood, in a transaction of the file before anybody
    can see it. Raises Invalid for a label that can't be an address, BadCopy, NewerFile, Busy when
    readers or writers don't make way; nothing has changed then.
    """
    # A tenant may have had its label before that was reserved; its copies are named after it.
    is_new = not tenants.exists(label) and not copy.name.startswith((f"{label}-", f"{label}."))
    if not LABEL.match(label) or (label in RESERVED and is_new):
        raise Invalid.field("tenant", "invalid_label", "it cannot be a tenant's label")
    if _is_own(tenants, copy):
        raise BadCopy(f"{copy} is a tenant's own file: restore a copy of it")
    require_alone(copy)
    disk.make_folder(tenants.folder)
    disk.forget_abandoned(tenants.folder, ".restore-*", tenants.steady.for_erasing())
    unseen = Tenant(label, tenants.folder / f".restore-{label}-{secrets.token_hex(4)}", tenants)
    try:
        disk.make(unseen.path)
        shutil.copyfile(copy, unseen.path)
        check(unseen.path, str(copy))
        settled = _build(tenants, unseen, settle)
        return Restored(_swap(tenants, unseen), settled)
    finally:
        for path in tenants.folder.glob(unseen.path.name + "*"):
            path.unlink()


def clone(tenants: Tenants, label: str, new: str, settle: Callable[[], object]) -> None:
    """Make another tenant of a tenant as it is now; nobody sees it before `settle` is done.

    Raises Invalid, Conflict `label_taken`, UnknownTenant, and what `create` does.
    """
    if not tenants.exists(label):
        raise UnknownTenant
    unseen = tenants.unseen(new)
    disk.forget_abandoned(tenants.folder, ".new-*", tenants.steady.for_erasing())
    try:
        with tenants.session(label):
            write(unseen.path)
        _build(tenants, unseen, settle)
        tenants.reveal(unseen)
    finally:
        tenants.forget_unseen(unseen)


@contextmanager
def visiting_copy(tenants: Tenants, copy: Path, label: str) -> Iterator[None]:
    """Be at a whole copy as if it were the tenant, to read."""
    connection = connect(copy, writes=False)
    try:
        token = begin_session(
            TenantSession(label, connection, Tenant(label, copy, tenants), tenants.clock)
        )
        try:
            yield
        finally:
            end_session_of_thread(token)
    finally:
        connection.close()


def drill(tenants: Tenants, copy: Path, label: str, settle: Callable[[], int]) -> Drilled:
    """Restore a copy into a folder of its own, and count. Raises what `restore` does."""
    with tempfile.TemporaryDirectory(prefix="crm-drill-") as apart:
        elsewhere = Tenants(replace(tenants.config, data=Path(apart)), tenants.clock)
        try:
            restore(elsewhere, copy, label, settle)
            with elsewhere.session(label):
                restored = row(COUNTS)
        finally:
            elsewhere.forget_idle()
    with closing(open_copy(copy)) as source:
        counted = source.execute(COUNTS).fetchone()
    live = None
    with suppress(NotFound), tenants.session(label):
        live = row(COUNTS)
    return Drilled(counted, restored, live)


def _build(tenants: Tenants, unseen: Tenant, settle: Callable[[], Any]) -> Any:
    connection = connect(unseen.path)
    try:
        connection.execute("PRAGMA journal_mode = WAL")
        migrations.migrate(connection, unseen.label)
        token = begin_session(TenantSession(unseen.label, connection, unseen, tenants.clock))
        try:
            with transaction():
                return settle()
        finally:
            end_session_of_thread(token)
    finally:
        connection.close()
        tenants.pool.forget(unseen)


def _swap(tenants: Tenants, unseen: Tenant) -> Path | None:
    path, data = tenants.path(unseen.label), tenants.config.data
    with litestream.released(data, path), Tenant(unseen.label, path, tenants).lock():
        before = trash.place(tenants, unseen.label, "before") if path.exists() else None
        in_place = False
        try:
            numbers = None
            if before:
                numbers = trash.fold(path, before)
                os.link(path, before)
                disk.sync(before.parent)
            _go_on_from(unseen.path, numbers or {})
            require_alone(unseen.path)
            disk.sync(unseen.path)
            with disk.renaming(path):
                # An empty log goes last: connections still open to it must find that their file
                # is gone, not that their log is. Any other would damage the new file.
                if numbers is None:
                    disk.drop_logs(path)
                litestream.replace(data, unseen.path, path)
                in_place = True
                disk.drop_logs(path)
        except BaseException:
            if before and not in_place:
                for second_name in (before, Path(f"{before}-wal")):
                    second_name.unlink(missing_ok=True)
            raise
        disk.sync(path.parent)
    tenants.record_labels()
    return before


def _is_own(tenants: Tenants, path: Path) -> bool:
    """Is it the file of a tenant, or a second name of one, as a killed restore leaves it?"""
    if path.resolve().parent == tenants.folder.resolve():
        return True
    return path.stat().st_nlink > 1 and any(
        path.samefile(tenants.path(label)) for label in tenants.labels()
    )


def _go_on_from(path: Path, numbers: dict[str, int]) -> None:
    with closing(connect(path)) as connection:
        own = dict(connection.execute("SELECT name, seq FROM sqlite_sequence").fetchall())
        later = [(name, max(number, own.get(name, 0))) for name, number in numbers.items()]
        connection.execute("BEGIN IMMEDIATE")
        connection.executemany("DELETE FROM sqlite_sequence WHERE name = ?", [n[:1] for n in later])
        connection.executemany("INSERT INTO sqlite_sequence (name, seq) VALUES (?, ?)", later)
        connection.execute("COMMIT")
