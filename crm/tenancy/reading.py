"""Reading much: as of one moment, and little by little, so that it takes little memory."""

import errno
import shutil
import sqlite3
import tempfile
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from threading import RLock
from typing import IO, Any, BinaryIO

import orjson

from crm.errors import Busy, StorageFull
from crm.tenancy.database import current_session, rows, settings

BATCH_ROWS = 25  # each of which may have a hundred contacts
BLOCK_BYTES = 64 * 1024
MEMORY_BYTES = 1 << 20  # of a spooled file; what is longer stands on the disk
MAX_SPOOLED_FILES = 8  # of a tenant in one process, until their clients have taken them


@contextmanager
def snapshot() -> Iterator[None]:
    """All that is read inside is of one moment, whatever others write meanwhile.

    Only for as long as it takes to compute: the log of writes grows until the end.
    """
    here = current_session()
    connection = here.connection
    if connection.in_transaction:
        yield
        return
    connection.execute("BEGIN")
    try:
        yield
    finally:
        with suppress(sqlite3.Error):
            connection.execute("ROLLBACK")


def batches(sql: str, params: Sequence[Any] = ()) -> Iterator[list[tuple[Any, ...]]]:
    """The rows of a prepared text, BATCH_ROWS at a time; inside `snapshot()`."""
    with closing(current_session().connection.execute(sql, params)) as cursor:
        while found := cursor.fetchmany(BATCH_ROWS):
            yield found


def each_row(sql: str, params: Sequence[Any] = ()) -> Generator[tuple[Any, ...], None, None]:
    """The rows of a prepared text, one at a time. Who stops before the last one closes it."""
    with closing(current_session().connection.execute(sql, params)) as cursor:
        yield from cursor


class BoundedRows:
    """The rows of a page, read until there are `most`, or until the next would be too much.

    The values of all rows have at most `most_bytes` as JSON, but the first row has any size.
    `row_bytes` is what one row may have: as long as `most` of them cannot be too much, none is
    looked at.
    """

    def __init__(self, most: int, row_bytes: int, most_bytes: int):
        self.rows: list[tuple[Any, ...]] = []
        self.is_cut = False  # there are more rows, which would be too much
        self._most, self._row_bytes = most, row_bytes
        self._left = most_bytes
        self._cannot_be_cut = most * row_bytes <= most_bytes

    @property
    def wanted(self) -> int:
        """How many rows more may come."""
        return 0 if self.is_cut else self._most - len(self.rows)

    def read(self, sql: str, params: Sequence[Any]) -> None:
        """Add the rows of a prepared text, which gives no more than are wanted."""
        if self._cannot_be_cut:
            self.rows += rows(sql, params)
            return
        with closing(current_session().connection.execute(sql, params)) as cursor:
            while wanted := self.wanted:
                safe = self._left // self._row_bytes  # so many rows cannot be too much
                part = cursor.fetchmany(min(wanted, max(1, safe)))
                self.rows += part
                if not part or len(part) == wanted <= safe:
                    return
                self._left -= len(orjson.dumps(part))
                while self._left < 0 and len(self.rows) > 1:
                    self._left += len(orjson.dumps(self.rows.pop()))
                    self.is_cut = True


class SpooledFile:
    """A file without a name, written first and read afterwards, at whatever pace its reader takes.

    What is longer than MEMORY_BYTES stands in the data folder, on the disk; it is gone when the
    file is closed, or the process has ended. It belongs to no visit. Raises Busy when the tenant
    has MAX_SPOOLED_FILES of them, StorageFull.
    """

    _open: Counter[str] = Counter()  # by the folder and the tenant's label
    _lock = RLock()  # a collector of garbage may close another one while it is held

    def __init__(self, write: Callable[[BinaryIO], None]):
        self._file: IO[bytes] | None = None
        self._tenant = ""
        tenant = f"{settings().data}/{current_session().label}"
        with self._lock:
            if self._open[tenant] >= MAX_SPOOLED_FILES:
                raise Busy("too many files of this tenant are being downloaded, try again later")
            self._open[tenant] += 1
            self._tenant = tenant
        try:
            folder = settings().data
            self._file = tempfile.SpooledTemporaryFile(MEMORY_BYTES, dir=folder)  # noqa: SIM115
            write(self._file)
            self.length = self._file.tell()
            self._file.seek(0)
        except BaseException as error:
            self.close()
            if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise StorageFull from error
            raise

    def __iter__(self) -> Iterator[bytes]:
        """Its content, once. Raises OSError where it ends too early."""
        left = self.length
        while left:
            block = self._file.read(BLOCK_BYTES)
            if not block:
                raise OSError(errno.EIO, "a spooled file lost its end")
            left -= len(block)
            yield block

    def copy_to(self, to: BinaryIO) -> None:
        shutil.copyfileobj(self._file, to, BLOCK_BYTES)

    def close(self) -> None:
        """Nothing happens the second time."""
        tenant, self._tenant = self._tenant, ""
        if tenant:
            with self._lock:
                self._open[tenant] -= 1
                if not self._open[tenant]:
                    del self._open[tenant]
            if self._file is not None:
                self._file.close()

    def __del__(self) -> None:
        # Of an answer that no server took: nobody else would know.
        self.close()
