"""Litestream beside the server: continuous copies of the tenants' files to another storage.

Litestream is a process of its own. It reads the log of each file, holds a read transaction on it
so that nobody else restarts the log, and makes the checkpoints itself. By its control socket it
stops copying a file, and reports how far the copies lag behind.
"""

import http.client
import shutil
import socket
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import Any

from crm.json import dumps, loads
from crm.storage.sqlite.connection import FileConnection

STOP_TIMEOUT_SECONDS = 5  # for the last copy before it closes a file
CALL_TIMEOUT_SECONDS = 10.0
# With Litestream beside it, a connection of ours checkpoints only a log that Litestream has
# neglected: SQLite before 3.51.3 can corrupt a file if a connection checkpoints while
# another resets the log, and the writer lock does not exclude Litestream's writes.
CHECKPOINT_LOG_BYTES = 256 << 20


class NotAnswered(Exception):
    """Litestream does not run, or refuses the request."""


def state_folder(data: Path) -> Path:
    """Return the folder where Litestream keeps what it has read but not copied yet, by file."""
    return data / "litestream"


def control_socket(data: Path) -> Path:
    """Return the path of the socket by which Litestream takes commands."""
    return data / "litestream.sock"


def is_used(data: Path) -> bool:
    """Whether Litestream has ever run on this data folder."""
    return state_folder(data).is_dir()


def leave_checkpoints(connection: FileConnection, data: Path) -> None:
    """Leave the checkpoints to Litestream on a connection that writes, if it is used here."""
    if is_used(data):
        (page_bytes,) = connection.execute("PRAGMA page_size").fetchone()
        connection.execute(f"PRAGMA wal_autocheckpoint = {CHECKPOINT_LOG_BYTES // page_bytes}")


@contextmanager
def stopped(data: Path, path: Path) -> Iterator[None]:
    """Let Litestream copy a file to its end and close it, for a `with` block that takes its name.

    Open, it would block the checkpoint, and mix the file with another one of that name at the
    target. What has the name then is copied once Litestream is restarted. If the block fails, it
    goes on with the file as it is.
    """
    if not is_used(data):
        yield
        return
    command = {"path": str(path), "timeout": STOP_TIMEOUT_SECONDS}
    with suppress(NotAnswered):  # it does not run, or does not know the file yet
        _call(data, "/stop", command)
    try:
        yield
    except BaseException:
        with suppress(NotAnswered):
            _call(data, "/start", command)
        raise


def delete_state(data: Path, path: Path) -> None:
    """Delete what Litestream keeps here of a deleted tenant; its copies are the operator's."""
    shutil.rmtree(state_folder(data) / f"{path.name}-litestream", ignore_errors=True)


def copy_statuses(data: Path) -> dict[str, tuple[float | None, str]]:
    """Ask Litestream how each file is copied: by its name, (synced at, error).

    It was known to be whole at the target then, in epoch seconds. Raises NotAnswered.
    """
    errors = {
        database["path"]: database.get("error", "")
        for database in _call(data, "/debug/sync-status")["databases"]
    }
    statuses = {}
    for database in _call(data, "/list")["databases"]:
        path, last_sync_at = database["path"], database.get("last_sync_at")
        error = errors.get(path, "")
        if database["status"] != "replicating":
            error = f"it is {database['status']}"
        synced_at = datetime.fromisoformat(last_sync_at).timestamp() if last_sync_at else None
        statuses[Path(path).name] = synced_at, error
    return statuses


def _call(data: Path, address: str, body: dict[str, Any] | None = None) -> Any:
    try:
        with closing(http.client.HTTPConnection("localhost")) as connection:
            connection.sock = socket.socket(socket.AF_UNIX)
            connection.sock.settimeout(CALL_TIMEOUT_SECONDS)
            connection.sock.connect(str(control_socket(data)))
            connection.request("POST" if body else "GET", address, dumps(body) if body else None)
            response = connection.getresponse()
            content = loads(response.read())
    except (OSError, http.client.HTTPException, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
        raise NotAnswered(f"Litestream does not answer: {reason}") from error
    if response.status != 200:
        raise NotAnswered(f"Litestream refuses: {content.get('error')}")
    return content
