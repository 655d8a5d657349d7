"""Moving a tenant between a file and a database, or between two databases.

A move suspends the tenant: `crm.move` has its source and target, and the source has another name,
so that whoever has it open finds it gone and looks into the directory. It is copied and compared,
and the directory names the target: that one commit decides. Then the target gets its name and the
source goes to the trash.

A mover that dies leaves the tenant suspended, and no request changes that. The same command ends
the move: it takes back one that is not decided, which leaves the source whole, and begins again; it
finishes one that is. The mover's lock is of the transaction that decides, so a mover that lost its
lock decides nothing.
"""

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from crm.copies.schema_store import SchemaStore
from crm.copies.tenant_store import FileStore
from crm.errors import Busy, Conflict, CRMError, UnknownTenant
from crm.installation.tenants import Tenants
from crm.storage.file_errors import FILE_ERRORS, ServerError
from crm.storage.postgres import schema
from crm.storage.postgres.connections import Connection, Database
from crm.storage.postgres.directory import Directory
from crm.storage.sqlite import archive
from crm.storage.sqlite.archive_file import check_copy

TO_FILES, TO_ANY_DATABASE = "files", "postgres"
UNDER_WAY = """
    SELECT source, target, database FROM crm.move JOIN crm.directory USING (label) WHERE label = $1
"""
LOCK_TIMEOUT = "2s"  # in which the server notices that a mover was killed

log = logging.getLogger("crm.tenants")

Store = FileStore | SchemaStore


class Moved(NamedTuple):
    """What a move did: the rows compared, the seconds in which nobody could use the tenant, and
    where the old one is. No rows: a move that was interrupted was finished, or taken back, which
    leaves no old one."""

    place: str
    rows: int | None
    seconds: float
    before: Path | None


def move(tenants: Tenants, label: str, to: str) -> Moved:
    """Move a tenant to "files", to "postgres" (the first database with room), or to a database of
    CRM_DATABASE by its name.

    Keys, sessions, deliveries and numbers go on. Meanwhile requests get TenantMoving. A move that
    was interrupted is ended first. Raises UnknownTenant, Conflict when it is there already or the
    place is taken, NotEqual, Busy; nothing has changed then.
    """
    with _lock(tenants, label) as lock:
        if not tenants.exists(label):
            raise UnknownTenant
        ended = _end(tenants, label)
        source = _store(tenants, label, directory_of(tenants).find_database(label))
        if ended and _is_named(source, to):
            return Moved(source.description, None, 0.0, ended[1])
        target = _target(tenants, label, to, source)
        with tenants.session(label, sweeps_expired=False) as session:
            session.connection.execute("SELECT id FROM tenant").fetchall()  # brings it up to date
        target.require_free()
        started_at = time.monotonic()
        rows = _copy_and_switch(tenants, label, lock, source, target)
    try:
        with _lock(tenants, label):
            ended = _end(tenants, label)
    except (CRMError, OSError, *FILE_ERRORS) as error:
        raise CRMError(
            f"the move of {label} to {target.description} is not finished: {error}; the same"
            " command finishes it"
        ) from error
    if ended is None:  # by another mover, in between
        return Moved(target.description, rows, 0.0, None)
    return Moved(target.description, rows, ended[0] - started_at, ended[1])


def _copy_and_switch(
    tenants: Tenants, label: str, lock: Connection, source: Store, target: Store
) -> int:
    """Suspend the tenant, copy and compare it, and change the directory in the lock's transaction.

    If that fails, the move is taken back. Returns the number of rows compared.
    """
    copy = tenants.config.data / f".move-{label}"
    copy.unlink(missing_ok=True)
    try:
        _suspend(tenants, label, source, target)
        archived = source.archive_hidden(copy)
        check_copy(archived)
        target.load_hidden(archived)
        digests, numbers = source.hidden_contents()
        copied, copied_numbers = target.hidden_contents()
        rows = archive.require_equal(digests, copied)
        _require_equal_numbers(numbers, copied_numbers)
        sql = "UPDATE crm.directory SET database = $2 WHERE label = $1"
        lock.run(sql, (label, directory_of(tenants).name_of(target.database)))
        return rows
    except BaseException:
        try:
            lock.run("SELECT 1")  # without the lock another may be ending the move
            _end(tenants, label)
        except (CRMError, OSError, *FILE_ERRORS) as error:
            log.error("%s stays suspended, until the same command is given: %s", label, error)
        raise
    finally:
        copy.unlink(missing_ok=True)


def _suspend(tenants: Tenants, label: str, source: Store, target: Store) -> None:
    names = map(directory_of(tenants).name_of, (source.database, target.database))
    with schema.writing(directory_of(tenants).main) as directory:
        sql = "INSERT INTO crm.move (label, source, target) VALUES ($1, $2, $3)"
        directory.run(sql, (label, *names))
    source.hide()


def _require_equal_numbers(expected: dict[str, int], actual: dict[str, int]) -> None:
    for table in {*expected, *actual}:
        if expected.get(table, 0) != actual.get(table, 0):
            raise archive.NotEqual(f"the next number of {table} would not be the same")


def _end(tenants: Tenants, label: str) -> tuple[float, Path | None] | None:
    """Finish a move that the directory has decided, or take back another; None if there is none.

    Returns when the tenant could be used again, in monotonic seconds, and where the old one is. The
    caller holds the lock. Each step may be repeated.
    """
    directory = directory_of(tenants)
    rows = schema.read(directory.main, UNDER_WAY, (label,))
    if not rows:
        return None
    source, target, decided = (_store_named(tenants, label, name) for name in rows[0])
    decided.publish_hidden()
    tenants.forget(label)
    if not directory.is_at(rows[0][2], label):
        raise CRMError(f"{label} is not in {decided.description}, and stays suspended")
    published_at = time.monotonic()
    before = None
    if decided.database is target.database:
        before = source.discard_hidden()
    else:
        target.delete_hidden()
    with schema.writing(directory.main) as connection:
        connection.run("DELETE FROM crm.move WHERE label = $1", (label,))
    tenants.wakeup_pipe.notify(label)
    if decided.database:
        tenants.notify_nodes(label)
    return published_at, before


@contextmanager
def _lock(tenants: Tenants, label: str) -> Iterator[Connection]:
    """Be the only one who moves the tenant, in a transaction for a `with` block. Raises Busy."""
    with schema.writing(directory_of(tenants).main) as connection:
        connection.run(
            "SELECT set_config('idle_in_transaction_session_timeout', '0', true),"
            " set_config('lock_timeout', $1, true)",
            (LOCK_TIMEOUT,),
        )
        try:
            sql = "SELECT pg_advisory_xact_lock(hashtextextended($1, $2))"
            connection.run(sql, (label, schema.MOVE_LOCK))
        except ServerError as error:
            raise (
                Busy(f"{label} is being moved") if error.sqlstate == "55P03" else error
            ) from error
        yield connection


def directory_of(tenants: Tenants) -> Directory:
    """Return the directory of an installation; without CRM_DATABASE there are no other places."""
    assert tenants.postgres is not None, "CRM_DATABASE is not set"
    return tenants.postgres.directory


def _store(tenants: Tenants, label: str, database: Database | None) -> Store:
    return SchemaStore(tenants, label, database) if database else FileStore(tenants, label)


def _store_named(tenants: Tenants, label: str, name: str) -> Store:
    directory = directory_of(tenants)
    is_file = name == directory.file_place
    return _store(tenants, label, None if is_file else directory.database_named(name))


def _is_named(store: Store, to: str) -> bool:
    """Whether the command's word for a place means that of this store."""
    return to in (TO_ANY_DATABASE, store.database.name) if store.database else to == TO_FILES


def _target(tenants: Tenants, label: str, to: str, source: Store) -> Store:
    directory = directory_of(tenants)
    named = {database.name: database for database in directory.databases}
    if _is_named(source, to):
        raise Conflict(f"{label} is in {source.description} already")
    if to == TO_FILES:
        return FileStore(tenants, label)
    if to == TO_ANY_DATABASE:
        return SchemaStore(tenants, label, directory.choose_database())
    if to not in named:
        raise Conflict(f"there is no {to}: files, postgres, or one of {', '.join(named)}")
    return SchemaStore(tenants, label, directory.prepared(named[to]))
