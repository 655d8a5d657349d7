"""Is the data folder in order, and each tenant's file? And the doctor's pass to a running server.

Nothing is changed: no file is migrated, and none is opened that belongs to somebody else.
"""

import os
import secrets
import shutil
import sqlite3
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from hmac import compare_digest
from pathlib import Path
from pwd import getpwuid
from typing import Any, NamedTuple

from crm.tenancy import backup, litestream, migrations, readiness
from crm.tenancy.copies import list_copies, made_at
from crm.tenancy.database import TenantSession, begin_session, end_session_of_thread
from crm.tenancy.disk import stamp
from crm.tenancy.tenants import FRONT, Tenants
from crm.timed_checks import FAULT, OK, WARNING, LevelAndDetail

MIB = 1 << 20
LEAST_FREE = 64 * MIB
SHOWN = 3  # names of files in one sentence
COPY_SECONDS = 48 * 3600  # a tenant's newest copy is not older, where copies are made each night
LAG_SECONDS = 60  # that Litestream's copies may lag behind; two are usual
PASS_SECONDS = 60
WAL_RESET = (3, 51, 3)  # from there on SQLite has no fault that the writer lock is for
NEEDED = (  # what the code asks of SQLite, each tried
    "CREATE TABLE a (id INTEGER PRIMARY KEY, b TEXT) STRICT",
    "CREATE VIRTUAL TABLE c USING fts5 (b, content = 'a', content_rowid = 'id',"
    " tokenize = 'trigram case_sensitive 1', detail = none, columnsize = 0)",
    "INSERT INTO a (b) VALUES ('d') RETURNING id",
    "SELECT json_group_array(value) FROM json_each('[1]')",
)


class Seen(NamedTuple):
    """A tenant's file: its version, what its check found wrong, and what `ask` gave inside."""

    version: int
    faults: list[str]
    said: Any


def owner(tenants: Tenants) -> str | None:
    """Whose the data folder is, if it is not this process's user."""
    try:
        found = os.stat(tenants.config.data).st_uid
    except FileNotFoundError:
        return None
    return None if found == os.geteuid() else _name(found)


def user() -> str:
    """Whom this process runs as."""
    return _name(os.geteuid())


def folder(tenants: Tenants) -> Iterator[LevelAndDetail]:
    """Can it be written? Whose are its files, and who may read them?"""
    data = tenants.config.data
    if not data.exists():
        yield WARNING, f"{data} is not there yet; `serve` makes it"
        return
    readiness.write(tenants)
    yield OK, f"{data} can be written"
    found = [(path, path.lstat()) for path in _files(data)]
    top = data.stat()
    strange = [path for path, at in found if at.st_uid != top.st_uid]
    if strange:
        yield FAULT, f"not {_name(top.st_uid)}'s as the folder is: {_some(strange)}"
    if not top.st_mode & 0o077:
        yield OK, "nobody else may look into it"
        return
    open_to = [path for path, at in found if at.st_mode & 0o066 and stat.S_ISREG(at.st_mode)]
    if open_to:
        yield WARNING, f"others may read {_some(open_to)}: chmod 700 {data}"
    elif top.st_mode & 0o007:
        yield WARNING, f"others may look into it, but read no file: chmod 700 {data}"
    else:
        yield OK, "its group may look into it, but read no file"


def key(tenants: Tenants) -> Iterator[LevelAndDetail]:
    """The key that signs the forms of pages."""
    path = tenants.config.data / "secret.key"
    try:
        found = path.stat()
    except FileNotFoundError:
        yield OK, "secret.key is not made yet; the first form makes it"
        return
    if found.st_size != 32:
        yield FAULT, "secret.key is damaged: the server makes it anew when it is started again"
    elif found.st_mode & 0o077:
        yield FAULT, f"others may read secret.key: chmod 600 {path}"
    else:
        yield OK, "secret.key is there, for its owner alone"


def disk(tenants: Tenants) -> Iterator[LevelAndDetail]:
    """Is there room to go on, to restore the largest tenant, to copy all of them?"""
    place = tenants.config.data
    while not place.exists():
        place = place.parent
    free, room = shutil.disk_usage(place).free, os.statvfs(place)
    sizes = [tenants.path(label).stat().st_size for label in tenants.labels()]
    largest, whole = max(sizes, default=0), sum(sizes)
    text = f"{free // MIB} MiB free, the tenants have {-(-whole // MIB)} MiB"
    if room.f_files and not room.f_favail:
        yield FAULT, "the disk has no room for another file (inodes)"
    if free < LEAST_FREE:
        yield FAULT, f"{text}: the disk is full, or soon will be"
    elif free < 2 * largest + LEAST_FREE:
        yield WARNING, f"{text}: too little to restore the largest"
    elif free < whole + LEAST_FREE:
        yield WARNING, f"{text}: too little for a copy of all"
    else:
        yield OK, text


def engine() -> Iterator[LevelAndDetail]:
    """SQLite: has it what is needed, and its known faults."""
    version = sqlite3.sqlite_version
    with closing(sqlite3.connect(":memory:")) as tried:
        for text in NEEDED:
            try:
                tried.execute(text).fetchall()
            except sqlite3.Error as error:
                yield FAULT, f"SQLite {version} lacks what is needed: {error}"
                return
    safe = "writes, checkpoints and closes of a file queue for one lock"
    if sqlite3.sqlite_version_info < WAL_RESET:
        yield OK, f"SQLite {version}, whose fault before 3.51.3 is kept away: {safe}"
    else:
        yield OK, f"SQLite {version}"


def labels(tenants: Tenants) -> list[str]:
    """The files to look at: all tenants', and the base host's if there is one."""
    front = [FRONT] if tenants.path(FRONT).is_file() else []
    return [*tenants.labels(), *front]


def look(tenants: Tenants, label: str, full: bool, ask: Callable[[], Any]) -> Seen:
    """Open a tenant's file as it is and read through it; `ask` runs inside if it is up to date.

    `full` compares the indexes with their tables too. Raises what SQLite says, Busy, UnknownTenant.
    """
    tenant = tenants.tenant(label)
    connection = tenant.connect(writes=False)
    try:
        version = migrations.version(connection)
        check = "integrity_check" if full else "quick_check"
        faults = [text for (text,) in connection.execute(f"PRAGMA {check}(3)").fetchall()]
        said = None
        if version == len(migrations.STEPS):
            token = begin_session(TenantSession(label, connection, tenant, tenants.clock))
            try:
                said = ask()
            finally:
                end_session_of_thread(token)
        return Seen(version, [] if faults == ["ok"] else faults, said)
    finally:
        tenant.close(connection, 5)


def state(version: int) -> LevelAndDetail:
    """What a file's version means for it."""
    newest = len(migrations.STEPS)
    if version > newest:
        return FAULT, f"version {version} is of a newer release, this one knows {newest}"
    if version == 0:
        return FAULT, "its file is empty: restore a copy, or remove it"
    if version < newest:
        return WARNING, f"version {version} of {newest}: run migrate"
    return OK, f"version {version}"


def copies(tenants: Tenants, within: Path | None) -> Iterator[LevelAndDetail]:
    """Has each tenant a copy that is not old?"""
    place = within or backup.folder(tenants)
    found = list_copies(place)
    latest = stamp(tenants.clock() - COPY_SECONDS)
    every = tenants.labels()
    if not every:
        return
    none = [label for label in every if label not in found]
    old = [label for label in every if label in found and made_at(found[label][-1]) < latest]
    if none:
        yield WARNING, f"no copy in {place} of {_some(none)}: backup create"
    if old:
        yield WARNING, f"the newest copy is older than two days of {_some(old)}"
    if not none and not old:
        yield OK, f"{len(every)} tenants, each has a copy of the last two days in {place}"


def continuous_copies(tenants: Tenants) -> Iterator[LevelAndDetail]:
    """Does Litestream, where it is used, copy every tenant's file, and how far does it lag?"""
    data = tenants.config.data
    if not litestream.is_used(data):
        return
    try:
        found = litestream.copied(data)
    except litestream.NotAnswered as error:
        folder = litestream.state_folder(data)
        yield FAULT, f"{error}: nothing is copied, start it; if it is given up, remove {folder}"
        return
    every, now = tenants.labels(), tenants.clock()
    lags: dict[str, float] = {}
    for name in (*(f"{label}.db" for label in every), litestream.LABELS):
        at, error = found.get(name, (None, ""))
        if error:
            yield FAULT, f"{name} is not copied: {error}"
        elif at is None:
            yield FAULT, f"{name} is not copied yet"
        else:
            lags[name] = now - at
    late = {name: lag for name, lag in lags.items() if lag > LAG_SECONDS}
    if late:
        yield FAULT, f"the copies lag by {max(late.values()):.0f} s: {_some(sorted(late))}"
    else:
        yield OK, f"{len(lags)} files, the copies lag by {max(lags.values(), default=0):.1f} s"
    if not litestream.is_listed(data, every):
        yield WARNING, f"{litestream.LABELS} does not list the tenants: restart the server"


@contextmanager
def visiting_pass(tenants: Tenants) -> Iterator[str]:
    """A token by which a running server knows that who asks may write in the data folder."""
    path, token = _pass(tenants), secrets.token_urlsafe(32)
    path.unlink(missing_ok=True)
    try:
        file = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600)
        with open(file, "wb") as opened:
            opened.write(token.encode())
        yield token
    finally:
        path.unlink(missing_ok=True)


def is_pass(tenants: Tenants, sent: str) -> bool:
    """Is it the token of a doctor who waits for the answer? It is good once."""
    path = _pass(tenants)
    try:
        kept, made = path.read_bytes(), path.stat().st_mtime
    except OSError:
        return False
    if not compare_digest(kept, sent.encode("utf-8", "replace")) or not kept:
        return False
    path.unlink(missing_ok=True)
    return abs(time.time() - made) < PASS_SECONDS


def _pass(tenants: Tenants) -> Path:
    return tenants.config.data / ".doctor"


def _files(data: Path) -> Iterator[Path]:
    for place in (data, data / "tenants", data / "backups", data / "trash", data / "uploads"):
        with suppress(FileNotFoundError):
            yield from sorted(path for path in place.iterdir() if not path.is_dir())


def _some(names: list[Any]) -> str:
    shown = [each.name if isinstance(each, Path) else each for each in names[:SHOWN]]
    more = len(names) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more else "")


def _name(uid: int) -> str:
    try:
        return getpwuid(uid).pw_name
    except KeyError:
        return f"user {uid}"
