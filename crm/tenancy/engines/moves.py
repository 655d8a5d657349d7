"""Moving a tenant between a file and a database, or between two databases.

The tenant is read-only while it is copied and compared. Then its old place is hidden, the directory
is changed, and the new place gets the label: three commits, between which nobody sees the tenant.
The table `crm.move` says what is under way, and the mover holds a lock. Whoever does not find a
tenant looks there. If the mover is dead, the move is undone, unless the new place had its label:
the old one is whole until then, and nobody can have written to the new one.
"""

import logging
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from crm.errors import Busy, Conflict, CRMError
from crm.tenancy import archive
from crm.tenancy.copies import check_copy
from crm.tenancy.engines import schema
from crm.tenancy.engines.places import FilePlace, Place, SchemaPlace
from crm.tenancy.engines.schema_tenants import SchemaTenants
from crm.tenancy.file_errors import FILE_ERRORS
from crm.tenancy.files import UnknownTenant

TO_FILES, TO_ANY_DATABASE = "files", "postgres"
MOVE_LOCK = 7275  # with the label: held by who moves a tenant

log = logging.getLogger("crm.tenants")


class Moved(NamedTuple):
    """What a move did: the rows compared, the seconds in which nobody could write, and where the
    old one is. No rows: all but the last was done by a process that died."""

    place: str
    rows: int | None
    seconds: float
    before: Path


def move(tenants: SchemaTenants, label: str, to: str) -> Moved:
    """Move a tenant to "files", to "postgres" (the first database with room), or to a database of
    CRM_DATABASE by its name.

    Keys, sessions, deliveries and numbers go on. A session that waits to write for longer than 10 s
    gets Busy. Raises UnknownTenant, Conflict when it is there already or the place is taken,
    NotEqual, Busy; nothing has changed then.
    """
    if not tenants.exists(label):
        raise UnknownTenant
    with _lock(tenants, label):
        before = _end_move(tenants, label)  # of a process that died
        source = _place_of(tenants, label)
        if before and _is_named(source, to):
            return Moved(source.description, None, 0.0, before)
        target = _target(tenants, label, to, source)
        with tenants.session(label, sweeps_expired=False) as session:
            session.connection.execute("SELECT id FROM tenant").fetchall()  # brings it up to date
        target.require_free()
        try:
            rows, seconds = _copy_and_switch(tenants, label, source, target)
        except BaseException:
            try:
                _end_move(tenants, label)
            except (CRMError, OSError, *FILE_ERRORS) as error:
                log.error("the move of %s is undone when it is opened: %s", label, error)
            raise
        try:
            before = source.discard()
        except (CRMError, OSError, *FILE_ERRORS) as error:
            raise CRMError(
                f"{label} is in {target.description} now, but what it was before cannot be put"
                f" into the trash: {error}; the same command tries that again"
            ) from error
        _forget(tenants, label)
    tenants.forget(label)
    tenants.wakeup_pipe.notify(label)
    if isinstance(target, SchemaPlace):
        tenants.notify_nodes(label)
    return Moved(target.description, rows, seconds, before)


def _copy_and_switch(
    tenants: SchemaTenants, label: str, source: Place, target: Place
) -> tuple[int, float]:
    draft = None
    prefix = f".move-{label}-"
    try:
        with (
            tempfile.TemporaryDirectory(prefix=prefix, dir=tenants.config.data) as folder,
            source.locked() as hold,
        ):
            started_at = time.monotonic()
            copy = Path(folder) / "archive"
            source.write(copy)
            check_copy(copy)
            draft = target.load(copy)
            rows = archive.require_equal(source.digests(), target.digests(draft))
            _require_equal_numbers(source.numbers(), target.numbers(draft))
            with schema.writing(tenants.directory) as directory:
                directory.run(
                    "INSERT INTO crm.move (label, source, target) VALUES ($1, $2, $3)",
                    (label, source.name, target.name),
                )
            source.hide(hold)
        _point(tenants, label, target)
        target.publish(draft)
        return rows, time.monotonic() - started_at
    finally:
        if draft is not None:
            tenants.delete_draft(draft)


def _require_equal_numbers(expected: dict[str, int], actual: dict[str, int]) -> None:
    for table in {*expected, *actual}:
        if expected.get(table, 0) != actual.get(table, 0):
            raise archive.NotEqual(f"the next number of {table} would not be the same")


def _point(tenants: SchemaTenants, label: str, place: Place) -> None:
    """Let the directory name another place."""
    with schema.writing(tenants.directory) as directory:
        schema.lock_directory(directory)
        if not directory.run("SELECT 1 FROM crm.move WHERE label = $1 FOR UPDATE", (label,)):
            raise Busy  # this process lost its lock, and another has undone the move
        place.enter(directory)


def resolve(tenants: SchemaTenants, label: str) -> bool:
    """End the move of a tenant that is not found, if its mover is dead.

    Returns whether there was one: then the tenant is to be looked for again. Raises Busy while it
    is being moved.
    """
    if not _journal(tenants, label):
        return False
    with _lock(tenants, label):
        _end_move(tenants, label)
    return True


def _end_move(tenants: SchemaTenants, label: str) -> Path | None:
    """Undo or finish the move that is under way, if there is one; the caller holds its lock.

    Returns where the old one is if the move is finished.
    """
    before = None
    for source_name, target_name in _journal(tenants, label):
        source = _place(tenants, label, source_name)
        target = _place(tenants, label, target_name)
        if source.is_hidden() and target.is_published():
            before = source.discard()
            log.warning("%s was moved by a process that died: %s", label, before)
        elif source.is_hidden():
            log.warning("%s is back where it was: a process that moved it died", label)
            _point(tenants, label, source)
            source.unhide()
        _forget(tenants, label)
    return before


def _journal(tenants: SchemaTenants, label: str) -> list[tuple[Any, ...]]:
    sql = "SELECT source, target FROM crm.move WHERE label = $1"
    return schema.read(tenants.directory, sql, (label,))


def _forget(tenants: SchemaTenants, label: str) -> None:
    with schema.writing(tenants.directory) as directory:
        directory.run("DELETE FROM crm.move WHERE label = $1", (label,))


@contextmanager
def _lock(tenants: SchemaTenants, label: str) -> Iterator[None]:
    """Be the only one who moves the tenant, in a `with` block. Raises Busy."""
    with schema.writing(tenants.directory) as connection:
        connection.run("SELECT set_config('idle_in_transaction_session_timeout', '0', true)")
        ((is_mine,),) = connection.run(
            "SELECT pg_try_advisory_xact_lock(hashtextextended($1, $2))", (label, MOVE_LOCK)
        )
        if not is_mine:
            raise Busy("the tenant is being moved")
        yield


def _place(tenants: SchemaTenants, label: str, name: str) -> Place:
    if name == FilePlace.name:
        return FilePlace(tenants, label)
    return SchemaPlace(tenants, label, tenants.database_named(name))


def _place_of(tenants: SchemaTenants, label: str) -> Place:
    database = tenants.find_database(label)
    if database is None:
        return FilePlace(tenants, label)
    return SchemaPlace(tenants, label, database)


def _is_named(place: Place, to: str) -> bool:
    """Whether the command's word for a place means this one."""
    if isinstance(place, SchemaPlace):
        return to in (TO_ANY_DATABASE, place.database.name)
    return to == TO_FILES


def _target(tenants: SchemaTenants, label: str, to: str, source: Place) -> Place:
    names = [database.name for database in tenants.databases]
    target: Place
    if _is_named(source, to):
        raise Conflict(f"{label} is in {source.description} already")
    if to == TO_FILES:
        target = FilePlace(tenants, label)
    elif to == TO_ANY_DATABASE:
        target = SchemaPlace(tenants, label, tenants.choose_database())
    elif to in names:
        database = tenants.prepared(tenants.databases[names.index(to)])
        target = SchemaPlace(tenants, label, database)
    else:
        raise Conflict(f"there is no {to}: files, postgres, or one of {', '.join(names)}")
    return target
