"""Opening connections to one file, also on a full disk.

There SQLite cannot create the index of the log (`-shm`) of a file that nobody has open, and without
it reads nothing. Then a connection keeps an index of its own in memory, which SQLite does when the
index's file may only be read (`readonly_shm`). Its session holds the file's writer lock from
beginning to end: nobody writes meanwhile, and no other connection of this process is opened, which
would share the index.
"""

import threading
from pathlib import Path
from weakref import WeakValueDictionary

from crm.errors import StorageFull
from crm.storage import disk, file_errors
from crm.storage.causes import Cause
from crm.storage.file_errors import FILE_ERRORS
from crm.storage.sqlite import migrations
from crm.storage.sqlite.connection import Connection, connect
from crm.storage.writer_lock import WriterLock


class OpenFile:
    """What all connections to one file share in this process: SQLite's index of its log.

    `private` is the connection with an index of its own, if one is open.
    """

    def __init__(self, path: Path):
        self.path = path
        self.private: Connection | None = None
        self._lock = threading.Lock()  # held while a connection is opened

    def connect(self, writes: bool, writer_lock: WriterLock) -> Connection:
        """Open a connection to the file as it is. A private one holds the writer lock.

        Raises StorageFull when it would write and the disk is full, Busy, and SQLite's errors.
        """
        try:
            with self._lock:
                if not self.private:
                    return self._connect_and_read(writes)
        except (OSError, *FILE_ERRORS) as error:
            if file_errors.cause_of(error, self.path) is not Cause.FULL:
                raise
        if writes:
            raise StorageFull
        return self._connect_privately(writer_lock)

    def close_private(self, connection: Connection) -> bool:
        """Close the private connection, if this is it; returns whether it is."""
        if connection is not self.private:
            return False
        with self._lock:
            connection.close()
            self.private = None
        return True

    def _connect_and_read(self, writes: bool, own_index: bool = False) -> Connection:
        with disk.locked(self.path.parent, shared=True):  # reading from it opens its log
            connection = connect(self.path, writes or own_index, own_index)
            try:
                migrations.version(connection)
            except BaseException:
                connection.close()
                raise
        return connection

    def _connect_privately(self, writer_lock: WriterLock) -> Connection:
        """Open a connection with its own index of the log, and hold the writer lock until it is
        closed."""
        writer_lock.acquire()
        try:
            with self._lock:
                try:  # while waiting for the lock, another may have made room
                    connection = self._connect_and_read(writes=False)
                except FILE_ERRORS as error:
                    if file_errors.cause_of(error, self.path) is not Cause.FULL:
                        raise
                    disk.make_index_name(self.path)
                    self.private = self._connect_and_read(writes=False, own_index=True)
                    return self.private
        except BaseException:
            writer_lock.release()
            raise
        writer_lock.release()
        return connection


_open_files: "WeakValueDictionary[str, OpenFile]" = WeakValueDictionary()
_open_files_lock = threading.Lock()


def open_file(path: Path) -> OpenFile:
    """Return what the connections of this process to the file at a path share."""
    with _open_files_lock:
        return _open_files.setdefault(str(path), OpenFile(path))
