"""The contents of a tenant's files and papers: bytes by their SHA-256, each content once.

A content is stored in chunks, each in a short transaction of its own, outside of the tenant's; it
has its SHA-256, by which it is found, once all of it is on the disk. A row that names a content is
committed after that, and so a copy of the rows that is followed by one of the contents lacks none.
What no row names is deleted after a day. Contents of a tenant in a file are in another one beside
it, those of one in a schema there (sqlite/file_contents.py, postgres/schema_contents.py).
"""

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, suppress
from functools import partial
from typing import Any, BinaryIO

from crm.errors import NotFound
from crm.storage.connection_source import ConnectionSource
from crm.storage.session import current_session, require_room, time_text

CHUNK_BYTES = 1 << 18  # of what is stored; a content is read by it, so it is the same for good
# Between add() and the commit of the row that names the content: so long it is not erased.
NAMING_SECONDS = 60
CHECKED_CONTENTS = 1000  # in one transaction, whether rows name them
DELETED_CHUNKS = 64  # in one transaction
MAX_DELETIONS = 16  # transactions of one sweep
AT_ONCE = ""  # a time before all others

_users: list[str] = []


def declare_users(table: str) -> None:
    """Let the rows of a table name contents by their column `sha256`, which has an index."""
    _users.append(table)


class Contents(ABC):
    """The contents of one tenant."""

    def __init__(self, source: ConnectionSource):
        self._source = source
        self._checked_id = 0  # of the last content of which is known whether rows name it

    @abstractmethod
    def exist(self) -> bool:
        """Whether there may be any."""

    @abstractmethod
    def _using(self, writes: bool) -> AbstractContextManager[Any]:
        """Use a connection in a `with` block. Raises NotFound to read where nothing is."""

    @abstractmethod
    def _transaction(self, connection: Any, syncs: bool = False) -> AbstractContextManager[None]:
        """Write all or nothing in a `with` block; `syncs`: this and all before is on the disk."""

    def allocated_bytes(self, quota: int) -> int:
        """Return at least the bytes that they take beside the tenant's own data, exact or not."""
        return 0

    def used_bytes(self) -> int:
        """Return the bytes that they take beside the tenant's own data."""
        return 0

    def add(self, file: BinaryIO) -> tuple[str, int]:
        """Store what a file contains, from its beginning: its SHA-256 (hex) and bytes.

        A content that is there already is not stored again. The row that names it is to be
        committed within NAMING_SECONDS. Not for use inside `transaction()`. Raises StorageQuota,
        StorageFull, Busy; nothing is stored then.
        """
        assert not current_session().in_transaction
        digest, size = hashlib.sha256(), 0
        file.seek(0)
        for data in _chunks_of(file):
            digest.update(data)
            size += len(data)
        file.seek(0)
        sha256 = digest.hexdigest()
        self.store(sha256, size, _chunks_of(file), require_room)
        return sha256, size

    def store(
        self, sha256: str, size: int, chunks: Iterable[bytes], before: Any = lambda size: None
    ) -> None:
        """Store a content unless it is there; `before` is called with its size if it is not."""
        with self._using(writes=True) as connection:
            with self._transaction(connection, syncs=True):
                if self._touch(connection, sha256):
                    return
            before(size)
            with self._transaction(connection):
                sql = "INSERT INTO file_content (size, stored_at) VALUES (?, ?)"
                id = connection.insert(sql, (size, self._now()))
            try:
                for number, data in enumerate(chunks):
                    with self._transaction(connection):
                        sql = "INSERT INTO file_chunk (content_id, number, data) VALUES (?, ?, ?)"
                        connection.execute(sql, (id, number, data))
                with self._transaction(connection, syncs=True):
                    is_there = self._touch(connection, sha256)  # stored by another meanwhile
                    if not is_there:
                        sql = "UPDATE file_content SET sha256 = ? WHERE id = ?"
                        connection.execute(sql, (sha256, id))
                if is_there:
                    self._delete(connection, id)
            except BaseException:
                with suppress(Exception):  # a sweep does it
                    self._delete(connection, id)
                raise

    def size(self, sha256: str) -> int:
        """Return the bytes of a content. Raises NotFound."""
        return self._find(sha256)[1]

    def read(self, sha256: str, start: int = 0, stop: int | None = None) -> Iterator[bytes]:
        """Return the bytes of a content from `start` to before `stop`, in chunks.

        No session is needed to take them, and nothing is held between two. Raises NotFound, also
        between two chunks for a content that is erased meanwhile.
        """
        id, size = self._find(sha256)
        return self._read(id, start, size if stop is None else min(stop, size))

    def _find(self, sha256: str) -> tuple[int, int]:
        """Return the id and the size of a content; raises NotFound."""
        with self._using(writes=False) as connection:
            sql = "SELECT id, size FROM file_content WHERE sha256 = ?"
            found = connection.execute(sql, (sha256,)).fetchall()
        if not found:
            raise NotFound
        return found[0]

    def _read(self, id: int, start: int, stop: int) -> Iterator[bytes]:
        sql = "SELECT data FROM file_chunk WHERE content_id = ? AND number = ?"
        for first in range(start - start % CHUNK_BYTES, stop, CHUNK_BYTES):
            with self._using(writes=False) as connection:
                found = connection.execute(sql, (id, first // CHUNK_BYTES)).fetchall()
            if not found:
                raise NotFound
            yield found[0][0][max(0, start - first) : stop - first]

    def _touch(self, connection: Any, sha256: str) -> bool:
        """Note that a content was added again; returns False if it is not there."""
        sql = "UPDATE file_content SET unused_since = NULL, stored_at = ? WHERE sha256 = ?"
        return bool(connection.execute(sql, (self._now(), sha256)).rowcount)

    def _now(self) -> str:
        return time_text(int(self._source.installation.clock()))

    def _delete(self, connection: Any, id: int) -> None:
        """Delete an incomplete content, in several transactions."""
        while True:
            with self._transaction(connection):
                if self._delete_some(connection, id):
                    return

    @staticmethod
    def _delete_some(connection: Any, id: int) -> bool:
        """Delete chunks of an incomplete content, and the content with the last of them."""
        sql = (
            "DELETE FROM file_chunk WHERE content_id = ? AND number IN"
            " (SELECT number FROM file_chunk WHERE content_id = ? LIMIT ?)"
        )
        is_last = connection.execute(sql, (id, id, DELETED_CHUNKS)).rowcount < DELETED_CHUNKS
        if is_last:
            connection.execute("DELETE FROM file_content WHERE id = ?", (id,))
        return is_last


def _chunks_of(file: BinaryIO) -> Iterator[bytes]:
    return iter(partial(file.read, CHUNK_BYTES), b"")
