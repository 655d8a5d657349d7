"""Litestream beside the server: continuous copies of the tenants' files to another place.

Litestream is a process of its own. It reads the log of each file, holds a read transaction on it
so that nobody else restarts the log, and makes the checkpoints itself. What it needs of the data
folder is here: the list of tenants, which is copied like a tenant's file because not every kind of
storage can be listed; its control socket, by which it lets go of a file that is about to be deleted
or replaced, and tells how far the copies lag behind; and the numbers that a restored file does not
give a second time.
"""

import ctypes
import http.client
import logging
import os
import shutil
import socket
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

from crm.errors import Busy
from crm.json import dumps, loads
from crm.tenancy import disk
from crm.tenancy.database import Connection, execute
from crm.tenancy.writer_lock import WriterLock

LABELS = "labels.db"  # in the data folder, and at the target beside the tenants' files
SKIPPED_NUMBERS = 1_000_000  # of each table: more than a server gives in the longest lag
STOP_SECONDS = 5  # for the last copy before it lets go of a file
CALL_SECONDS = 10.0
# With Litestream beside it, a connection of ours checkpoints only a log that Litestream has
# neglected: SQLite before 3.51.3 can corrupt a file if a connection checkpoints while
# another resets the log, and the writer lock does not exclude Litestream's writes.
CHECKPOINT_LOG_BYTES = 256 << 20
MAX_SOCKET_PATH_BYTES = 107

AT_FDCWD, RENAME_EXCHANGE = -100, 2

log = logging.getLogger("crm")


class NotAnswered(Exception):
    """Litestream does not run, or refuses what it is asked."""


class Copied(NamedTuple):
    """How a file is copied: when it was last known to be whole at the target, and what fails."""

    at: float | None
    error: str


def state_folder(data: Path) -> Path:
    """Where Litestream keeps what it has read but not copied yet, by file."""
    return data / "litestream"


def control_socket(data: Path) -> Path:
    return data / "litestream.sock"


def is_used(data: Path) -> bool:
    """Has Litestream ever run on this data folder?"""
    return state_folder(data).is_dir()


def leave_checkpoints(connection: Connection, data: Path) -> None:
    """Leave the checkpoints to Litestream on a connection that writes, if it is used here."""
    if is_used(data):
        (page_bytes,) = connection.execute("PRAGMA page_size").fetchone()
        connection.execute(f"PRAGMA wal_autocheckpoint = {CHECKPOINT_LOG_BYTES // page_bytes}")


# The list of tenants


def record_labels(data: Path, labels: Callable[[], list[str]]) -> None:
    """Write down in the data folder which tenants there are.

    A failure is logged: the next call, at the latest that of the next start, mends it.
    """
    path = data / LABELS
    try:
        with WriterLock(path.with_suffix(".lock"))():
            with suppress(FileExistsError):
                disk.make(path)
            with closing(sqlite3.connect(path, isolation_level=None)) as connection:
                _write_labels(connection, set(labels()))
    except (OSError, sqlite3.Error, Busy) as error:
        log.warning("the list of tenants for continuous copies was not written: %s", error)


def _write_labels(connection: sqlite3.Connection, labels: set[str]) -> None:
    connection.execute("PRAGMA busy_timeout = 10000")
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = NORMAL")  # whoever starts a server writes it anew
    connection.execute("CREATE TABLE IF NOT EXISTS label (label TEXT PRIMARY KEY) STRICT")
    listed = {label for (label,) in connection.execute("SELECT label FROM label")}
    connection.execute("BEGIN IMMEDIATE")
    added, gone = [(each,) for each in labels - listed], [(each,) for each in listed - labels]
    connection.executemany("INSERT INTO label (label) VALUES (?)", added)
    connection.executemany("DELETE FROM label WHERE label = ?", gone)
    connection.execute("COMMIT")


def labels_in(path: Path) -> list[str]:
    """The labels in a list of tenants. Raises FileNotFoundError, or what SQLite says."""
    address = f"{path.resolve().as_uri()}?mode=ro"
    path.stat()
    with closing(sqlite3.connect(address, uri=True)) as connection:
        return [label for (label,) in connection.execute("SELECT label FROM label ORDER BY label")]


def is_listed(data: Path, labels: list[str]) -> bool:
    """Does the list name these tenants, in alphabetical order?"""
    try:
        return labels_in(data / LABELS) == labels
    except (OSError, sqlite3.Error):
        return False


# What a restored file needs


def skip_numbers() -> None:
    """Let the ids and the `sequence` of the file visited go on beyond all that it may have given
    since its copy was made; inside a transaction."""
    execute("UPDATE sqlite_sequence SET seq = seq + ?", (SKIPPED_NUMBERS,))
    execute(
        "INSERT INTO sqlite_sequence (name, seq) SELECT name, ? FROM sqlite_schema"
        " WHERE type = 'table' AND sql LIKE '%AUTOINCREMENT%'"
        " AND name NOT IN (SELECT name FROM sqlite_sequence)",
        (SKIPPED_NUMBERS,),
    )


# Files that change places


@contextmanager
def released(data: Path, path: Path) -> Iterator[None]:
    """Litestream has copied a file to its end and let go of it in here.

    After the file was deleted or replaced, Litestream learns of it by itself; where that fails,
    it goes on with the file as it is.
    """
    order = {"path": str(path), "timeout": STOP_SECONDS}
    if not is_used(data):
        yield
        return
    with suppress(NotAnswered):  # it does not run, or does not know the file yet
        _call(data, "POST", "/stop", order)
    try:
        yield
    except BaseException:
        with suppress(NotAnswered):
            _call(data, "POST", "/start", order)
        raise


def replace(data: Path, new: Path, path: Path) -> None:
    """Give a file the name of another, in one step; Litestream takes it for another file then.

    Litestream learns of files by inotify. A file that is merely renamed onto the name would be
    taken for the one before, and mixed with it at the target: the name must be seen to go.
    """
    if is_used(data) and path.exists():
        try:
            _exchange(new, path)
            return
        except OSError as error:
            log.warning("restart Litestream, it still copies the file before: %s", error.strerror)
    os.replace(new, path)


def _exchange(one: Path, other: Path) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    try:
        rename = libc.renameat2
    except AttributeError:
        raise OSError(None, "this system cannot exchange two files") from None
    names = os.fsencode(other), os.fsencode(one)
    if rename(AT_FDCWD, names[0], AT_FDCWD, names[1], RENAME_EXCHANGE):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def forget(data: Path, path: Path) -> None:
    """Let go what Litestream keeps here of a deleted tenant. Its copies are for the operator."""
    shutil.rmtree(state_folder(data) / f"{path.name}-litestream", ignore_errors=True)


# How far the copies lag behind


def copied(data: Path) -> dict[str, Copied]:
    """How each file is copied, by its name. Raises NotAnswered."""
    errors = {
        each["path"]: each.get("error", "")
        for each in _call(data, "GET", "/debug/sync-status")["databases"]
    }
    found = {}
    for each in _call(data, "GET", "/list")["databases"]:
        path, at = each["path"], each.get("last_sync_at")
        error = errors.get(path, "")
        if each["status"] != "replicating":
            error = error or f"it is {each['status']}: restart Litestream"
        found[Path(path).name] = Copied(at and datetime.fromisoformat(at).timestamp(), error)
    return found


class _Control(http.client.HTTPConnection):
    """HTTP over a Unix socket."""

    def __init__(self, path: Path):
        super().__init__("localhost", timeout=CALL_SECONDS)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(self._path))


def _call(data: Path, method: str, address: str, body: dict[str, Any] | None = None) -> Any:
    try:
        with closing(_Control(control_socket(data))) as control:
            control.request(method, address, dumps(body) if body else None)
            answer = control.getresponse()
            said = loads(answer.read())
    except (OSError, http.client.HTTPException, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error) or type(error).__name__
        raise NotAnswered(f"Litestream does not answer: {why}") from error
    if answer.status != 200:
        raise NotAnswered(f"Litestream refuses: {said.get('error')}")
    return said
