"""Copying and restoring tenants' files beside a running server.

A copy is one whole file, checked before it gets its name `<label>-<UTC time>.db`. Restoring builds
the new file, checked and migrated, and then exchanges files under the tenant's writer lock: the
server's processes notice at their next session. The file before is moved to the trash. Ids that it
had given are not given again (D2), and readers of the event feed see a gap where history was undone
(D15).
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
from crm.tenancy import archive, disk, litestream, migrations, trash
from crm.tenancy.backup_run import MAX_COPIES, BackupRun
from crm.tenancy.copies import BadCopy, check_copy, open_copy, require_alone
from crm.tenancy.database import (
    TenantSession,
    begin_session,
    current_session,
    end_session,
    one_row,
    transaction,
)
from crm.tenancy.engines.sqlite import connect
from crm.tenancy.files import Tenant, UnknownTenant
from crm.tenancy.reserved_labels import RESERVED
from crm.tenancy.tenants import Tenants

COUNTED_TABLES = ("lead", "client", "deal", "deal_item", "product", "task", "event")
COUNT_ROWS = "SELECT " + ", ".join(f"(SELECT count(*) FROM {table})" for table in COUNTED_TABLES)


@dataclass(frozen=True, slots=True)
class Restored:
    """What a restore did: where the file before is now, or the archive of the schema before, and
    what `prepare` returned."""

    before: Path | None
    prepared: int


@dataclass(frozen=True, slots=True)
class TestedRestore:
    """Numbers of rows of COUNTED_TABLES in a copy, in the file restored from it, and in the
    tenant's own file if it exists."""

    copy: Sequence[int]
    restored: Sequence[int]
    live: Sequence[int] | None


def folder(tenants: Tenants) -> Path:
    """Return where copies are kept unless another folder is named."""
    return tenants.config.data / "backups"


def create(to: Path, keep: int = MAX_COPIES) -> Path:
    """Copy the current tenant into a folder and return the path of the copy.

    Of its label's copies there the `keep` newest stay. Raises BadCopy when the copy isn't whole
    (the older ones stay then), or errors of SQLite and the disk.
    """
    session = current_session()
    run = BackupRun(to, keep, session.clock, session.source.steady_clock.erasing_now())
    try:
        (copy,) = run.add(session.source) or run.finish()
    finally:
        run.close()
    return copy.path


def restore(tenants: Tenants, copy: Path, label: str, prepare: Callable[[], int]) -> Restored:
    """Replace a tenant by a copy where it lives, or create a tenant from it.

    `prepare` is called in a transaction of the new one before anyone can see it, to stop what must
    not continue, such as due deliveries. Raises Invalid for a label that can't be an address,
    BadCopy, NewerFile, Busy when the file is in use for too long; nothing has changed then.
    """
    # A tenant may have had its label before that was reserved; its copies are named after it.
    is_new = not tenants.exists(label) and not copy.name.startswith((f"{label}-", f"{label}."))
    if not LABEL.match(label) or (label in RESERVED and is_new):
        raise Invalid.field("tenant", "invalid_label", "it cannot be a tenant's label")
    if _is_own(tenants, copy):
        raise BadCopy(f"{copy} is a tenant's own file: restore a copy of it")
    require_alone(copy)
    disk.make_folder(tenants.folder)
    disk.delete_abandoned(tenants.folder, ".restore-*", tenants.steady_clock.erasing_now())
    draft = Tenant(label, tenants.folder / f".restore-{label}-{secrets.token_hex(4)}", tenants)
    try:
        disk.make(draft.path)
        shutil.copyfile(copy, draft.path)
        check_copy(draft.path, str(copy))
        if store := tenants.schema_store(label):
            _migrate(draft.path, label)
            return Restored(*store.replace(draft.path, prepare))
        prepared = _prepare(tenants, draft, prepare)
        return Restored(_exchange(tenants, draft), prepared)
    finally:
        for path in tenants.folder.glob(draft.path.name + "*"):
            path.unlink()


def clone(tenants: Tenants, label: str, new_label: str, prepare: Callable[[], object]) -> None:
    """Create another tenant from a tenant as it is now; nobody sees it before `prepare` is done.

    Raises Invalid, Conflict `label_taken`, UnknownTenant, and what `create` does.
    """
    if not tenants.exists(label):
        raise UnknownTenant
    tenants.require_free(new_label)
    draft = tenants.file_draft(new_label)
    disk.delete_abandoned(tenants.folder, ".new-*", tenants.steady_clock.erasing_now())
    try:
        with tenants.session(label):
            archive.write(draft.path)
        if store := tenants.schema_store(new_label):
            store.create(draft.path, prepare)
            return
        _prepare(tenants, draft, prepare)
        tenants.publish(draft)
    finally:
        tenants.delete_draft(draft)


@contextmanager
def copy_session(tenants: Tenants, copy: Path, label: str) -> Iterator[None]:
    """Open a session that reads a whole copy as if it were the tenant."""
    connection = connect(copy, writes=False)
    try:
        token = begin_session(
            TenantSession(label, connection, Tenant(label, copy, tenants), tenants.clock)
        )
        try:
            yield
        finally:
            end_session(token)
    finally:
        connection.close()


def test_restore(
    tenants: Tenants, copy: Path, label: str, prepare: Callable[[], int]
) -> TestedRestore:
    """Restore a copy aside, and count rows: of a tenant in a file into a temporary folder, of
    another into a draft of a schema. Raises what `restore` does."""
    with tempfile.TemporaryDirectory(prefix="crm-test-restore-") as folder:
        if store := tenants.schema_store(label):
            draft = Path(folder) / "copy"
            disk.make(draft)
            shutil.copyfile(copy, draft)
            check_copy(draft, str(copy))
            _migrate(draft, label)
            restored = store.test(draft, prepare, COUNT_ROWS)
        else:
            config = replace(tenants.config, data=Path(folder), database=())
            elsewhere = Tenants(config, tenants.clock)
            try:
                restore(elsewhere, copy, label, prepare)
                with elsewhere.session(label):
                    restored = one_row(COUNT_ROWS)
            finally:
                elsewhere.forget_idle()
    with closing(open_copy(copy)) as source:
        copied = source.execute(COUNT_ROWS).fetchone()
    live = None
    with suppress(NotFound), tenants.session(label):
        live = one_row(COUNT_ROWS)
    return TestedRestore(copied, restored, live)


def _migrate(path: Path, name: str) -> None:
    """Migrate a copy that nobody else uses."""
    with closing(connect(path)) as connection:
        connection.execute("PRAGMA journal_mode = DELETE")  # it is read without a log
        migrations.migrate(connection, name)


def _prepare(tenants: Tenants, draft: Tenant, prepare: Callable[[], Any]) -> Any:
    """Migrate a file that nobody sees yet, and return what `prepare` gives in a session of it."""
    connection = connect(draft.path)
    try:
        connection.execute("PRAGMA journal_mode = WAL")
        migrations.migrate(connection, draft.label)
        token = begin_session(TenantSession(draft.label, connection, draft, tenants.clock))
        try:
            with transaction():
                return prepare()
        finally:
            end_session(token)
    finally:
        connection.close()
        tenants.pool.forget(draft)


def _exchange(tenants: Tenants, draft: Tenant) -> Path | None:
    """Replace the tenant's file by the draft's; return where the file before is now."""
    path, data = tenants.path(draft.label), tenants.config.data
    with litestream.released(data, path), Tenant(draft.label, path, tenants).lock():
        before = trash.new_path(tenants, draft.label, "before") if path.exists() else None
        is_replaced = False
        try:
            numbers = None
            if before:
                numbers = trash.checkpoint(path, before)
                os.link(path, before)
                disk.sync(before.parent)
            _continue_numbers(draft.path, numbers or {})
            require_alone(draft.path)
            disk.sync(draft.path)
            with disk.renaming(path):
                # An empty log goes last: connections still open to it must find that their file
                # is gone, not that their log is. Any other would damage the new file.
                if numbers is None:
                    disk.delete_logs(path)
                litestream.replace(data, draft.path, path)
                is_replaced = True
                disk.delete_logs(path)
        except BaseException:
            if before and not is_replaced:
                for second_name in (before, Path(f"{before}-wal")):
                    second_name.unlink(missing_ok=True)
            raise
        disk.sync(path.parent)
    tenants.record_labels()
    return before


def _is_own(tenants: Tenants, path: Path) -> bool:
    """Whether it is a tenant's file, or a second name of one, as a killed restore leaves it."""
    if path.resolve().parent == tenants.folder.resolve():
        return True
    return path.stat().st_nlink > 1 and any(
        path.samefile(tenants.path(label)) for label in tenants.labels()
    )


def _continue_numbers(path: Path, numbers: dict[str, int]) -> None:
    """Make new ids of a file continue after the last ones used, by table."""
    with closing(connect(path)) as connection:
        file_numbers = dict(connection.execute("SELECT name, seq FROM sqlite_sequence").fetchall())
        last = [(name, max(number, file_numbers.get(name, 0))) for name, number in numbers.items()]
        connection.execute("BEGIN IMMEDIATE")
        names = [(name,) for name, _ in last]
        connection.executemany("DELETE FROM sqlite_sequence WHERE name = ?", names)
        connection.executemany("INSERT INTO sqlite_sequence (name, seq) VALUES (?, ?)", last)
        connection.execute("COMMIT")
