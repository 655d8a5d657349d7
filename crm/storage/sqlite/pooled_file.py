"""An SQLite file with its writer lock, whose idle connections are in the installation's pool."""

from pathlib import Path

from crm.errors import StorageReadOnly
from crm.storage import file_errors
from crm.storage.commit_groups import MAX_LOCK_WAIT_SECONDS, WriterLock
from crm.storage.sqlite.connection import ConnectionPool, FileConnection, file_at


class PooledFile:
    """The file at a path, which may become another one while connections are open."""

    def __init__(self, path: Path, pool: ConnectionPool):
        self.path = path
        self.lock = WriterLock(path.with_suffix(".lock"))
        self._pool, self._name = pool, str(path)

    def take_idle(self, writes: bool) -> FileConnection | None:
        """Take an idle connection to the file that is there now. Raises FileNotFoundError."""
        file = file_at(self._name)
        while connection := self._pool.take(self, writes):
            if connection.file == file:
                return connection
            connection.close()  # of a file that is gone: restored, or made anew
        return None

    def give(self, connection: FileConnection, writes: bool) -> None:
        """Give back a connection, which stays open for the next one who takes it."""
        self._pool.give(self, connection, writes)

    def is_current(self, *connections: FileConnection) -> bool:
        """Whether the file at the path is the one that these connections have open."""
        try:
            file = file_at(self._name)
        except FileNotFoundError:
            return False
        return all(connection.file == file for connection in connections)

    def forget_connections(self) -> None:
        """Close the idle connections to the file, as far as nobody writes."""
        self._pool.forget(self, wait_seconds=0)

    def close(
        self, connection: FileConnection, wait_seconds: float = MAX_LOCK_WAIT_SECONDS
    ) -> None:
        """Close a connection. Raises Busy if the file is being written for longer than that."""
        # The last connection to close writes the log back, so it must not meet a writer.
        if not self.is_current(connection):
            connection.close()  # SQLite leaves the log of another file alone
            return
        try:
            with self.lock(wait_seconds):
                connection.close()
        except OSError as error:
            if file_errors.cause_of(error) is not StorageReadOnly:
                raise
            connection.close()  # there the lock cannot be opened, and nobody writes
