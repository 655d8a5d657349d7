"""The contents of a tenant's files and papers: bytes by their SHA-256, each content once.

A content is stored in chunks, each in a short transaction of its own, outside of the tenant's; it
has its SHA-256, by which it is found, once all of it is on the disk. A row that names a content is
committed after that, and so a copy of the rows that is followed by one of the contents lacks none.
What no row names is deleted after a day. Contents of a tenant in a file are in another one beside
it, those of one in a schema there (sqlite/file_contents.py, postgres/schema_contents.py).
"""

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from functools import partial
from typing import IO, Any

from crm.activity import apart
from crm.errors import NotFound
from crm.json import dumps
from crm.storage.clocks import erasing_before
from crm.storage.commit_groups import MAX_LOCK_WAIT_SECONDS
from crm.storage.connection_source import ConnectionSource
from crm.storage.dialect import among
from crm.storage.quota import require_room
from crm.storage.session import current_session, session_or_none, time_text
from crm.storage.sweeps import DAY_SECONDS

CHUNK_BYTES = 1 << 18  # of all chunks but the last, for good: where a byte is follows from it
# From add() to the commit of the row that names the content; so long erase_unused() leaves it.
NAMING_SECONDS = 60
CHECKED_CONTENTS = 1000  # in one transaction, whether rows name them
DELETED_CHUNKS = 64  # in one transaction
MAX_DELETIONS = 16  # transactions of one sweep
AT_ONCE = ""  # a time before all others
COMPLETE = "SELECT id, sha256, size FROM file_content WHERE sha256 IS NOT NULL"
ADD_CONTENT = "INSERT INTO file_content (size, stored_at) VALUES (?, ?)"
ADD_CHUNK = "INSERT INTO file_chunk (content_id, number, data) VALUES (?, ?, ?)"

_users: list[str] = []


def declare_users(table: str) -> None:
    """Let the rows of a table name contents by their column `sha256`, which has an index."""
    _users.append(table)


def list_missing(rows: Any, stores: Iterable[Any]) -> list[str]:
    """List the SHA-256 that rows name of contents which no store has, by connections to them."""
    named = _read_named(rows)
    for store in stores:
        named.difference_update(sha256 for _, sha256, _ in store.execute(COMPLETE).fetchall())
    return sorted(named)


def _read_named(rows: Any, condition: str = "TRUE", params: Sequence[Any] = ()) -> set[str]:
    """Read the SHA-256 that rows name, of those that meet a condition."""
    query = f"SELECT DISTINCT sha256 FROM {{}} WHERE sha256 IS NOT NULL AND {condition}"
    found = [rows.execute(query.format(table), params).fetchall() for table in _users]
    return {sha256 for of_table in found for (sha256,) in of_table}


class Contents(ABC):
    """The contents of one tenant."""

    def __init__(self, source: ConnectionSource):
        self._source = source
        self._checked_id = 0  # of the last content of which was seen whether rows name it

    @abstractmethod
    def exist(self) -> bool:
        """Whether there may be any."""

    @abstractmethod
    def _using(self, writes: bool) -> AbstractContextManager[Any]:
        """Use a connection in a `with` block. Raises NotFound to read where nothing is."""

    @abstractmethod
    def _transaction(self, connection: Any, syncs: bool = False) -> AbstractContextManager[None]:
        """Write all or nothing in a `with` block; `syncs`: this and all before is on the disk."""

    @abstractmethod
    def _row_reader(self, connection: Any) -> Any:
        """Return the connection by which rows are read that name contents."""

    @abstractmethod
    def _scrub(self, has_deleted: bool) -> None:
        """Remove what was deleted from the bytes of the files too. Raises Busy."""

    def allocated_bytes(self, quota: int) -> int:
        """Return at least the bytes that they take beside the tenant's own data."""
        return 0

    def used_bytes(self) -> int:
        """Return the bytes that they take beside the tenant's own data."""
        return 0

    def add(self, file: IO[bytes]) -> tuple[str, int]:
        """Store what a file contains, from its beginning; returns its SHA-256 (hex) and bytes.

        A content that is there already is not stored again. The row that names it is to be
        committed within NAMING_SECONDS. Inside `transaction()` other writers wait for it. Raises
        StorageQuota, StorageFull, Busy; nothing is stored then.
        """
        digest, size = hashlib.sha256(), 0
        with apart():
            file.seek(0)
            for data in _chunks_of(file):
                digest.update(data)
                size += len(data)
            file.seek(0)
            self.store(digest.hexdigest(), size, _chunks_of(file), require_room)
        return digest.hexdigest(), size

    def store(
        self,
        sha256: str,
        size: int,
        chunks: Iterable[bytes],
        require_room: Callable[[int], object] = lambda size: None,
    ) -> None:
        """Store a content in chunks of CHUNK_BYTES, unless it is there; raises what add() does."""
        with self._using(writes=True) as connection:
            with self._transaction(connection):
                if self._touch(connection, sha256):
                    return
            require_room(size)
            with self._transaction(connection):
                id = connection.insert(ADD_CONTENT, (size, self._now()))
            is_stored = False
            try:
                for number, data in enumerate(chunks):
                    with self._transaction(connection):
                        connection.execute(ADD_CHUNK, (id, number, data))
                with self._transaction(connection, syncs=True):
                    if not self._touch(connection, sha256):  # by another meanwhile
                        sql = "UPDATE file_content SET sha256 = ? WHERE id = ?"
                        is_stored = bool(connection.execute(sql, (sha256, id)).rowcount)
            finally:
                if not is_stored:
                    with suppress(Exception):  # else a sweep does it
                        while not self._delete_some(connection, id):
                            pass

    def size(self, sha256: str) -> int:
        """Return the bytes of a content. Raises NotFound."""
        return self._find(sha256)[1]

    def read(self, sha256: str, start: int = 0, stop: int | None = None) -> Iterator[bytes]:
        """Return the bytes of a content from `start` to before `stop`, in chunks.

        To take them needs no session, and holds nothing between two. Raises NotFound, also between
        two of a content that is erased meanwhile.
        """
        id, size = self._find(sha256)
        return self._read(id, start, size if stop is None else min(stop, size))

    def _find(self, sha256: str) -> tuple[int, int]:
        """Return the id and the size of a content; raises NotFound."""
        with self._using(writes=False) as connection:
            contents = connection.execute(f"{COMPLETE} AND sha256 = ?", (sha256,)).fetchall()
        if not contents:
            raise NotFound
        ((id, _, size),) = contents
        return id, size

    def _read(self, id: int, start: int, stop: int) -> Iterator[bytes]:
        sql = "SELECT data FROM file_chunk WHERE content_id = ? AND number = ?"
        for first in range(start - start % CHUNK_BYTES, stop, CHUNK_BYTES):
            with self._using(writes=False) as connection:
                chunks = connection.execute(sql, (id, first // CHUNK_BYTES)).fetchall()
            if not chunks:
                raise NotFound
            yield chunks[0][0][max(0, start - first) : stop - first]

    def count(self) -> int:
        """Return how many there are."""
        if not self.exist():
            return 0
        with self._using(writes=False) as connection:
            return len(connection.execute(COMPLETE).fetchall())

    def list_missing(self) -> list[str]:
        """List the SHA-256 that rows name of contents that are not there; inside a session."""
        with self._using(writes=False) if self.exist() else nullcontext() as connection:
            return list_missing(current_session().connection, filter(None, [connection]))

    def delete_unused(self) -> bool:
        """Delete what no row has named for a day, and what was not completed in a day.

        It is a bounded piece of that; returns whether it was the last. Raises Busy, StorageFull.
        """
        if not self.exist():
            return True
        with self._using(writes=True) as connection:
            is_checked = self._check(connection)
            return self._delete_incomplete(connection) and is_checked

    def erase_unused(self) -> None:
        """Delete what no row names at once, and remove it from the bytes of the files.

        What was added in the last NAMING_SECONDS is left to a sweep: a row may be about to name it.
        Raises Busy, StorageFull, and is then to be done again.
        """
        if not self.exist():
            return
        with self._using(writes=True) as connection:
            self._checked_id, before = 0, connection.execute(COMPLETE).fetchall()
            while not self._check(connection, at_once=True):
                pass
            while not self._delete_incomplete(connection):
                pass
            has_deleted = connection.execute(COMPLETE).fetchall() != before
        self._scrub(has_deleted)

    def _check(self, connection: Any, at_once: bool = False) -> bool:
        """Take the SHA-256 of the next contents that no row has named for a day, or now.

        In the turn of those who add one: it is there for them, or stored again. Returns whether all
        were checked.
        """
        sql = (
            "SELECT id, sha256, stored_at, unused_since FROM file_content"
            " WHERE sha256 IS NOT NULL AND id > ? ORDER BY id LIMIT ?"
        )
        unnamed_before = self._now(-NAMING_SECONDS)
        with self._transaction(connection):
            contents = connection.execute(sql, (self._checked_id, CHECKED_CONTENTS)).fetchall()
            hashes = dumps([sha256 for _, sha256, _, _ in contents]).decode()
            rows = self._row_reader(connection)
            named = _read_named(rows, among("sha256", "TEXT"), (hashes,))
            for id, sha256, stored_at, since in contents:
                unused_since = None
                if sha256 not in named:
                    unused_since = (
                        AT_ONCE if at_once else since if since is not None else self._now()
                    )
                is_due = unused_since is not None and unused_since < erasing_before(DAY_SECONDS)
                if is_due and stored_at < unnamed_before:
                    update = "UPDATE file_content SET sha256 = NULL, stored_at = ? WHERE id = ?"
                    connection.execute(update, (AT_ONCE, id))
                elif unused_since != since:
                    update = "UPDATE file_content SET unused_since = ? WHERE id = ?"
                    connection.execute(update, (unused_since, id))
        self._checked_id = contents[-1][0] if len(contents) == CHECKED_CONTENTS else 0
        return not self._checked_id

    def _delete_incomplete(self, connection: Any) -> bool:
        """Delete some of what is not complete after a day; returns whether that was all."""
        sql = "SELECT min(id) FROM file_content WHERE sha256 IS NULL AND stored_at < ?"
        for _ in range(MAX_DELETIONS):
            ((id,),) = connection.execute(sql, (erasing_before(DAY_SECONDS),)).fetchall()
            if id is None:
                return True
            self._delete_some(connection, id)
        return False

    def _delete_some(self, connection: Any, id: int) -> bool:
        """Delete chunks of an incomplete content, and it with the last ones; returns whether so."""
        some = "SELECT number FROM file_chunk WHERE content_id = ? LIMIT ?"
        sql = f"DELETE FROM file_chunk WHERE content_id = ? AND number IN ({some})"
        with self._transaction(connection):
            count = connection.execute(sql, (id, id, DELETED_CHUNKS)).rowcount
            if count < DELETED_CHUNKS:
                connection.execute("DELETE FROM file_content WHERE id = ?", (id,))
        return count < DELETED_CHUNKS

    def _touch(self, connection: Any, sha256: str) -> bool:
        """Note that a content was added again; returns False if it is not there."""
        sql = "UPDATE file_content SET unused_since = NULL, stored_at = ? WHERE sha256 = ?"
        return bool(connection.execute(sql, (self._now(), sha256)).rowcount)

    def _now(self, seconds: int = 0) -> str:
        """Return the time in so many seconds by the tenant's clock, also without a session."""
        return time_text(int(self._source.installation.clock()) + seconds)

    def _wait_seconds(self) -> float:
        """Return how long to wait for the turn to write."""
        session = session_or_none()
        return session.lock_wait_seconds if session else MAX_LOCK_WAIT_SECONDS


def _chunks_of(file: IO[bytes]) -> Iterator[bytes]:
    return iter(partial(file.read, CHUNK_BYTES), b"")
