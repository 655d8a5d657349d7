"""Checks of the data folder and of each tenant's file, and the doctor's token for a server.

The checks change nothing: no file is migrated, and none is opened that belongs to another user.
A check yields pairs of a level (OK, WARNING, FAULT) and a sentence.
"""

import os
import secrets
import shutil
import sqlite3
import stat
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from hmac import compare_digest
from pathlib import Path
from pwd import getpwuid
from typing import Any, NamedTuple

from crm.tenancy import backup, litestream, migrations, readiness
from crm.tenancy.copies import list_copies, made_at
from crm.tenancy.database import TenantSession, begin_session, end_session
from crm.tenancy.disk import stamp
from crm.tenancy.secret_key import KEY_BYTES
from crm.tenancy.tenants import BASE_HOST_FILE, Tenants
from crm.timed_checks import FAULT, OK, WARNING, LevelAndDetail

MIB = 1 << 20
MIN_FREE_BYTES = 64 * MIB
MAX_NAMES = 3  # of files in one sentence
MAX_COPY_AGE_SECONDS = 48 * 3600  # of a tenant's newest copy, where copies are made each night
MAX_LAG_SECONDS = 60  # of Litestream's copies; two seconds are usual
TOKEN_SECONDS = 60  # for which the doctor's token is valid
# The first release of SQLite without the fault that the writer lock prevents.
FIXED_SQLITE = (3, 51, 3)
REQUIRED_STATEMENTS = (  # the features of SQLite that are used, each tried
    "CREATE TABLE a (id INTEGER PRIMARY KEY, b TEXT) STRICT",
    "CREATE VIRTUAL TABLE c USING fts5 (b, content = 'a', content_rowid = 'id',"
    " tokenize = 'trigram case_sensitive 1', detail = none, columnsize = 0)",
    "INSERT INTO a (b) VALUES ('d') RETURNING id",
    "SELECT json_group_array(value) FROM json_each('[1]')",
)


class FileCheck(NamedTuple):
    """A tenant's file: its version, the faults found, and what the caller's function returned."""

    version: int
    faults: list[str]
    result: Any


def owner(tenants: Tenants) -> str | None:
    """Return the user who owns the data folder, or None if that is this process's user."""
    try:
        uid = os.stat(tenants.config.data).st_uid
    except FileNotFoundError:
        return None
    return None if uid == os.geteuid() else _user_name(uid)


def user() -> str:
    """Return the user that this process runs as."""
    return _user_name(os.geteuid())


def check_folder(tenants: Tenants) -> Iterator[LevelAndDetail]:
    """Check that the data folder can be written, who owns its files, and who may read them."""
    data = tenants.config.data
    if not data.exists():
        yield WARNING, f"{data} is not there yet; `serve` makes it"
        return
    readiness.write_test_file(tenants)
    yield OK, f"{data} can be written"
    files = [(path, path.lstat()) for path in _files(data)]
    top = data.stat()
    other_owners = [path for path, status in files if status.st_uid != top.st_uid]
    if other_owners:
        yield FAULT, f"not {_user_name(top.st_uid)}'s as the folder is: {_list_names(other_owners)}"
    if not top.st_mode & 0o077:
        yield OK, "nobody else may look into it"
        return
    readable = [
        path for path, status in files if status.st_mode & 0o066 and stat.S_ISREG(status.st_mode)
    ]
    if readable:
        yield WARNING, f"others may read {_list_names(readable)}: chmod 700 {data}"
    elif top.st_mode & 0o007:
        yield WARNING, f"others may look into it, but read no file: chmod 700 {data}"
    else:
        yield OK, "its group may look into it, but read no file"


def check_key(tenants: Tenants) -> Iterator[LevelAndDetail]:
    """Check the key that signs the forms of pages."""
    path = tenants.config.data / "secret.key"
    try:
        status = path.stat()
    except FileNotFoundError:
        if tenants.config.database:
            yield OK, "it is in the first database, for all machines"
        else:
            yield OK, "secret.key is not made yet; the first form makes it"
        return
    if status.st_size != KEY_BYTES:
        yield FAULT, "secret.key is damaged: the server makes it anew when it is started again"
    elif status.st_mode & 0o077:
        yield FAULT, f"others may read secret.key: chmod 600 {path}"
    else:
        yield OK, "secret.key is there, for its owner alone"


def check_disk(tenants: Tenants) -> Iterator[LevelAndDetail]:
    """Check that there is room to go on, to restore the largest tenant, and to copy all."""
    folder = tenants.config.data
    while not folder.exists():
        folder = folder.parent
    free, file_system = shutil.disk_usage(folder).free, os.statvfs(folder)
    sizes = [tenants.path(label).stat().st_size for label in tenants.file_labels()]
    largest, total = max(sizes, default=0), sum(sizes)
    text = f"{free // MIB} MiB free, the tenants have {-(-total // MIB)} MiB"
    if file_system.f_files and not file_system.f_favail:
        yield FAULT, "the disk has no room for another file (inodes)"
    if free < MIN_FREE_BYTES:
        yield FAULT, f"{text}: the disk is full, or soon will be"
    elif free < 2 * largest + MIN_FREE_BYTES:
        yield WARNING, f"{text}: too little to restore the largest"
    elif free < total + MIN_FREE_BYTES:
        yield WARNING, f"{text}: too little for a copy of all"
    else:
        yield OK, text


def check_sqlite() -> Iterator[LevelAndDetail]:
    """Check that SQLite has the required features."""
    version = sqlite3.sqlite_version
    with closing(sqlite3.connect(":memory:")) as connection:
        for statement in REQUIRED_STATEMENTS:
            try:
                connection.execute(statement).fetchall()
            except sqlite3.Error as error:
                yield FAULT, f"SQLite {version} lacks what is needed: {error}"
                return
    safe = "writes, checkpoints and closes of a file queue for one lock"
    if sqlite3.sqlite_version_info < FIXED_SQLITE:
        yield OK, f"SQLite {version}, whose fault before 3.51.3 is kept away: {safe}"
    else:
        yield OK, f"SQLite {version}"


def labels_to_check(tenants: Tenants) -> list[str]:
    """List the labels to check: all tenants', and the base host's if there is one."""
    base_host = [BASE_HOST_FILE] if tenants.has_base_host() else []
    return [*tenants.labels(), *base_host]


def check_file(
    tenants: Tenants, label: str, full: bool, in_session: Callable[[], Any]
) -> FileCheck:
    """Read through a tenant's file as it is; of a schema, look whether everything is there.

    `full`: compare the indexes with their tables too, and read every row of a schema. `in_session`
    is called in a session of the tenant if the file is up to date. Raises SQLite's errors, Busy,
    UnknownTenant.
    """
    if not tenants.lives_in_file(label):
        return _check_schema(tenants, label, full, in_session)
    tenant = tenants.file_tenant(label)
    connection = tenant.connect(writes=False)
    try:
        version = migrations.version(connection)
        pragma = "integrity_check" if full else "quick_check"
        faults = [text for (text,) in connection.execute(f"PRAGMA {pragma}(3)").fetchall()]
        result = None
        if version == len(migrations.STEPS):
            token = begin_session(TenantSession(label, connection, tenant, tenants.clock))
            try:
                result = in_session()
            finally:
                end_session(token)
        return FileCheck(version, [] if faults == ["ok"] else faults, result)
    finally:
        tenant.close(connection, 5)


def _check_schema(
    tenants: Tenants, label: str, full: bool, in_session: Callable[[], Any]
) -> FileCheck:
    version, faults = tenants.check_schema(label, full)
    result = None
    if version == len(migrations.STEPS) and not faults:
        with tenants.session(label, sweeps_expired=False):
            result = in_session()
    return FileCheck(version, faults, result)


def check_version(version: int) -> LevelAndDetail:
    """Return the finding for a file of this version."""
    newest = len(migrations.STEPS)
    if version > newest:
        return FAULT, f"version {version} is of a newer release, this one knows {newest}"
    if version == 0:
        return FAULT, "its file is empty: restore a copy, or remove it"
    if version < newest:
        return WARNING, f"version {version} of {newest}: run migrate"
    return OK, f"version {version}"


def check_copies(tenants: Tenants, within: Path | None) -> Iterator[LevelAndDetail]:
    """Check that each tenant has a recent copy in a folder, by default that of `backup create`."""
    folder = within or backup.folder(tenants)
    copies = list_copies(folder)
    oldest = stamp(tenants.clock() - MAX_COPY_AGE_SECONDS)
    labels = tenants.labels()
    if not labels:
        return
    missing = [label for label in labels if label not in copies]
    outdated = [
        label for label in labels if label in copies and made_at(copies[label][-1]) < oldest
    ]
    if missing:
        yield WARNING, f"no copy in {folder} of {_list_names(missing)}: backup create"
    if outdated:
        yield WARNING, f"the newest copy is older than two days of {_list_names(outdated)}"
    if not missing and not outdated:
        yield OK, f"{len(labels)} tenants, each has a copy of the last two days in {folder}"


def check_litestream(tenants: Tenants) -> Iterator[LevelAndDetail]:
    """Check that Litestream, where it is used, copies every file, and how far the copies lag."""
    data = tenants.config.data
    if not litestream.is_used(data):
        return
    try:
        statuses = litestream.copy_statuses(data)
    except litestream.NotAnswered as error:
        folder = litestream.state_folder(data)
        yield FAULT, f"{error}: nothing is copied, start it; if it is given up, remove {folder}"
        return
    labels, now = tenants.file_labels(), tenants.clock()
    lags: dict[str, float] = {}
    for name in (*(f"{label}.db" for label in labels), litestream.LABELS_NAME):
        synced_at, problem = statuses.get(name, (None, ""))
        if problem:
            yield FAULT, f"{name} is not copied: {problem}"
        elif synced_at is None:
            yield FAULT, f"{name} is not copied yet"
        else:
            lags[name] = now - synced_at
    late = {name: lag for name, lag in lags.items() if lag > MAX_LAG_SECONDS}
    if late:
        yield FAULT, f"the copies lag by {max(late.values()):.0f} s: {_list_names(sorted(late))}"
    else:
        yield OK, f"{len(lags)} files, the copies lag by {max(lags.values(), default=0):.1f} s"
    if not litestream.is_listed(data, labels):
        yield WARNING, f"{litestream.LABELS_NAME} does not list the tenants: restart the server"


@contextmanager
def doctor_token(tenants: Tenants) -> Iterator[str]:
    """Write a token into the data folder for a `with` block.

    A client that sends it proves to a running server that it may write there; it is valid once.
    """
    path, token = _token_path(tenants), secrets.token_urlsafe(32)
    path.unlink(missing_ok=True)
    try:
        descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600)
        with open(descriptor, "wb") as file:
            file.write(token.encode())
        yield token
    finally:
        path.unlink(missing_ok=True)


def is_doctor_token(tenants: Tenants, sent: str) -> bool:
    """Whether a server was sent the token of a doctor that runs now; it is valid once."""
    path = _token_path(tenants)
    try:
        token, written_at = path.read_bytes(), path.stat().st_mtime
    except OSError:
        return False
    if not compare_digest(token, sent.encode("utf-8", "replace")) or not token:
        return False
    path.unlink(missing_ok=True)
    return abs(time.time() - written_at) < TOKEN_SECONDS


def _token_path(tenants: Tenants) -> Path:
    return tenants.config.data / ".doctor"


def _files(data: Path) -> Iterator[Path]:
    for folder in (data, data / "tenants", data / "backups", data / "trash", data / "uploads"):
        with suppress(FileNotFoundError):
            yield from sorted(path for path in folder.iterdir() if not path.is_dir())


def _list_names(names: Sequence[str | Path]) -> str:
    first = [name.name if isinstance(name, Path) else name for name in names[:MAX_NAMES]]
    more = len(names) - len(first)
    return ", ".join(first) + (f" and {more} more" if more else "")


def _user_name(uid: int) -> str:
    try:
        return getpwuid(uid).pw_name
    except KeyError:
        return f"user {uid}"
