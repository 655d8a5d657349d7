"""Litestream beside the server: continuous copies of the tenants' files to another storage.

Litestream is a process of its own. It reads the log of each file, holds a read transaction on it
so that nobody else restarts the log, and makes the checkpoints itself. This module has what it
needs in the data folder: the list of tenants, which is copied like a tenant's file because not
every kind of storage can be listed; its control socket, by which it releases a file that is about
to be deleted or replaced, and reports how far the copies lag behind; and the ids that a
restored file skips so that none is given twice.
"""

import ctypes
import http.client
import logging
import os
import shutil
import socket
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

from crm.errors import Busy
from crm.json import dumps, loads
from crm.storage import disk
from crm.storage.session import execute
from crm.storage.sqlite.connection import Connection
from crm.storage.writer_lock import WriterLock

LABELS_NAME = "labels.db"  # in the data folder, and at the target beside the tenants' files
SKIPPED_IDS = 1_000_000  # of each table: more than are given during the longest lag
STOP_TIMEOUT_SECONDS = 5  # for the last copy before it releases a file
CALL_TIMEOUT_SECONDS = 10.0
# With Litestream beside it, a connection of ours checkpoints only a log that Litestream has
# neglected: SQLite before 3.51.3 can corrupt a file if a connection checkpoints while
# another resets the log, and the writer lock does not exclude Litestream's writes.
CHECKPOINT_LOG_BYTES = 256 << 20
MAX_SOCKET_PATH_BYTES = 107

AT_FDCWD, RENAME_EXCHANGE = -100, 2

log = logging.getLogger("crm")


class NotAnswered(Exception):
    """Litestream does not run, or refuses the request."""


class CopyStatus(NamedTuple):
    """When a file was last known to be whole at the target, in epoch seconds, and its error."""

    synced_at: float | None
    error: str


def state_folder(data: Path) -> Path:
    """Return the folder where Litestream keeps what it has read but not copied yet, by file."""
    return data / "litestream"


def control_socket(data: Path) -> Path:
    """Return the path of the socket by which Litestream takes commands."""
    return data / "litestream.sock"


def is_used(data: Path) -> bool:
    """Whether Litestream has ever run on this data folder."""
    return state_folder(data).is_dir()


def leave_checkpoints(connection: Connection, data: Path) -> None:
    """Leave the checkpoints to Litestream on a connection that writes, if it is used here."""
    if is_used(data):
        (page_bytes,) = connection.execute("PRAGMA page_size").fetchone()
        connection.execute(f"PRAGMA wal_autocheckpoint = {CHECKPOINT_LOG_BYTES // page_bytes}")


# The list of tenants


def record_labels(data: Path, labels: Callable[[], list[str]]) -> None:
    """Write the list of tenants in the data folder.

    A failure is logged: the next call, at the latest when a server starts, writes it again.
    """
    path = data / LABELS_NAME
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
    connection.execute("PRAGMA synchronous = NORMAL")  # a server that starts writes it again
    connection.execute("CREATE TABLE IF NOT EXISTS label (label TEXT PRIMARY KEY) STRICT")
    with suppress(sqlite3.OperationalError):  # it has it already: only older releases' has not
        connection.execute("ALTER TABLE label ADD COLUMN added_at INTEGER NOT NULL DEFAULT 0")
    listed = {label for (label,) in connection.execute("SELECT label FROM label")}
    connection.execute("BEGIN IMMEDIATE")
    added = [(label, int(time.time())) for label in labels - listed]
    removed = [(label,) for label in listed - labels]
    connection.executemany("INSERT INTO label (label, added_at) VALUES (?, ?)", added)
    connection.executemany("DELETE FROM label WHERE label = ?", removed)
    connection.execute("COMMIT")


def labels_in(path: Path) -> dict[str, int]:
    """Read the labels in a list of tenants, in alphabetical order, and when each was added to it.

    In epoch seconds; 0 if an older release added it. Raises FileNotFoundError or SQLite's errors.
    """
    address = f"{path.resolve().as_uri()}?mode=ro"
    path.stat()
    with closing(sqlite3.connect(address, uri=True)) as connection:
        rows = connection.execute("SELECT * FROM label ORDER BY label")
        return {label: max(added_at, default=0) for label, *added_at in rows}


def is_listed(data: Path, labels: list[str]) -> bool:
    """Whether the list has exactly these labels, which are in alphabetical order."""
    try:
        return list(labels_in(data / LABELS_NAME)) == labels
    except (OSError, sqlite3.Error):
        return False


# What a restored file needs


def skip_ids() -> None:
    """Let the ids and the `sequence` of the current tenant continue beyond all that it may have
    given since its copy was made; inside a transaction."""
    execute("UPDATE sqlite_sequence SET seq = seq + ?", (SKIPPED_IDS,))
    execute(
        "INSERT INTO sqlite_sequence (name, seq) SELECT name, ? FROM sqlite_schema"
        " WHERE type = 'table' AND sql LIKE '%AUTOINCREMENT%'"
        " AND name NOT IN (SELECT name FROM sqlite_sequence)",
        (SKIPPED_IDS,),
    )


# Files that are deleted or replaced


@contextmanager
def released(data: Path, path: Path) -> Iterator[None]:
    """Let Litestream copy a file to its end and release it, for a `with` block.

    Litestream notices by itself that the file was deleted or replaced; if the block fails, it goes
    on with the file as it is.
    """
    command = {"path": str(path), "timeout": STOP_TIMEOUT_SECONDS}
    if not is_used(data):
        yield
        return
    with suppress(NotAnswered):  # it does not run, or does not know the file yet
        _call(data, "POST", "/stop", command)
    try:
        yield
    except BaseException:
        with suppress(NotAnswered):
            _call(data, "POST", "/start", command)
        raise


def replace(data: Path, new: Path, path: Path) -> None:
    """Replace a file by another in one step, so that Litestream notices.

    Litestream watches files by inotify. A file that is merely renamed onto the name would be taken
    for the one before, and mixed with it at the target: the name must be seen to disappear.
    """
    if is_used(data) and path.exists():
        try:
            _exchange(new, path)
            return
        except OSError as error:
            log.warning("restart Litestream, it still copies the file before: %s", error.strerror)
    os.replace(new, path)


def _exchange(first: Path, second: Path) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    try:
        rename = libc.renameat2
    except AttributeError:
        raise OSError(None, "this system cannot exchange two files") from None
    names = os.fsencode(second), os.fsencode(first)
    if rename(AT_FDCWD, names[0], AT_FDCWD, names[1], RENAME_EXCHANGE):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def delete_state(data: Path, path: Path) -> None:
    """Delete what Litestream keeps here of a deleted tenant; its copies are the operator's."""
    shutil.rmtree(state_folder(data) / f"{path.name}-litestream", ignore_errors=True)


# How far the copies lag behind


def copy_statuses(data: Path) -> dict[str, CopyStatus]:
    """Ask Litestream how each file is copied, by file name. Raises NotAnswered."""
    errors = {
        database["path"]: database.get("error", "")
        for database in _call(data, "GET", "/debug/sync-status")["databases"]
    }
    statuses = {}
    for database in _call(data, "GET", "/list")["databases"]:
        path, last_sync_at = database["path"], database.get("last_sync_at")
        error = errors.get(path, "")
        if database["status"] != "replicating":
            error = error or f"it is {database['status']}: restart Litestream"
        synced_at = datetime.fromisoformat(last_sync_at).timestamp() if last_sync_at else None
        statuses[Path(path).name] = CopyStatus(synced_at, error)
    return statuses


class _ControlConnection(http.client.HTTPConnection):
    """HTTP over a Unix socket."""

    def __init__(self, path: Path):
        super().__init__("localhost", timeout=CALL_TIMEOUT_SECONDS)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(self._path))


def _call(data: Path, method: str, address: str, body: dict[str, Any] | None = None) -> Any:
    try:
        with closing(_ControlConnection(control_socket(data))) as connection:
            connection.request(method, address, dumps(body) if body else None)
            response = connection.getresponse()
            content = loads(response.read())
    except (OSError, http.client.HTTPException, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
        raise NotAnswered(f"Litestream does not answer: {reason}") from error
    if response.status != 200:
        raise NotAnswered(f"Litestream refuses: {content.get('error')}")
    return content
