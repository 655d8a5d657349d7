"""Reading many rows: as of one moment, and in parts, so that it takes little memory."""

import errno
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from io import RawIOBase
from itertools import islice
from tempfile import SpooledTemporaryFile
from threading import Condition, RLock, Thread
from typing import Any, BinaryIO, cast

import orjson

from crm.activity import waiting
from crm.errors import Busy, StorageFull
from crm.storage.file_errors import FILE_ERRORS
from crm.storage.session import TenantSession, current_session, settings

BATCH_ROWS = 25  # each may have a hundred contacts
BLOCK_BYTES = 64 * 1024
MAX_MEMORY_BYTES = 1 << 20  # of a spooled file; a longer one is written to the disk
MAX_SPOOLED_FILES = 8  # of a tenant in one process, until their clients have taken them
FIRST_BLOCK_SECONDS = 0.005  # that a file may take to have a block before it is read


@contextmanager
def snapshot() -> Iterator[None]:
    """Read in a `with` block as of one moment, whatever others write meanwhile.

    Keep it short: the log of writes cannot be checkpointed until the end.
    """
    connection = current_session().connection
    if connection.in_transaction:
        yield
        return
    connection.begin_snapshot()
    try:
        yield
    finally:
        with suppress(*FILE_ERRORS):
            connection.rollback()


def batches(sql: str, params: Sequence[Any] = ()) -> Iterator[list[tuple[Any, ...]]]:
    """Yield the rows of a query, BATCH_ROWS at a time; inside `snapshot()`."""
    with iterate_rows(sql, params) as rows_of_query:
        while batch := list(islice(rows_of_query, BATCH_ROWS)):
            yield batch


@contextmanager
def iterate_rows(sql: str, params: Sequence[Any] = ()) -> Iterator[Iterator[tuple[Any, ...]]]:
    """Read the rows of a query one at a time. The query ends with the block, read or not."""
    session = current_session()
    with closing(session.connection.stream(*session.limited(sql, params))) as rows_of_query:
        yield rows_of_query


class BoundedRows:
    """The rows of a page: at most `max_rows`, and at most `max_bytes` as JSON.

    The first row may have any size.
    """

    def __init__(self, max_rows: int, max_bytes: int):
        self.rows: list[tuple[Any, ...]] = []
        self.is_cut = False  # there are more rows, which would exceed max_bytes
        self._max_rows, self._bytes_left = max_rows, max_bytes

    @property
    def remaining(self) -> int:
        """How many more rows may be added."""
        return 0 if self.is_cut else self._max_rows - len(self.rows)

    def read(self, sql: str, params: Sequence[Any]) -> None:
        """Add the rows of a query, which must return no more than `remaining`."""
        session = current_session()
        with closing(session.connection.execute(*session.limited(sql, params))) as cursor:
            for row in cursor:
                self._bytes_left -= _measure(row)
                if self._bytes_left < 0 and self.rows:
                    self.is_cut = True
                    return
                self.rows.append(row)


def _measure(row: tuple[Any, ...]) -> int:
    """How many bytes of JSON a row is; of one that begins with finished JSON, those of that."""
    return len(row[0]) if type(row[0]) is bytes else len(orjson.dumps(row))


class SpooledFile(RawIOBase):
    """A file without a name, which is written at full speed and read at the pace of its reader.

    If it is longer than MAX_MEMORY_BYTES it is on the disk, in the data folder, and gone when it is
    closed or the process has ended. It can be read outside of any session.
    """

    _open: Counter[str] = Counter()  # by the folder and the tenant's label
    _lock = RLock()  # the garbage collector may close another one while it is held

    def __init__(self, write: Callable[[BinaryIO], None], streams: bool = False):
        """`write` appends to the file. This returns when it is complete.

        If it `streams`, `write` runs in a thread and session of its own, of the same actor, and
        this returns when there is something to read. Raises what `write` raises until then, Busy
        when the tenant has MAX_SPOOLED_FILES, StorageFull.
        """
        self._tenant, self._size = "", 0
        self.length: int | None = None  # of a file that is complete
        self._error: BaseException | None = None  # of `write`
        self._change = Condition()
        tenant = f"{settings().data}/{current_session().label}"
        with self._lock:
            if self._open[tenant] >= MAX_SPOOLED_FILES:
                raise Busy("too many files of this tenant are being downloaded, try again later")
            self._file = SpooledTemporaryFile(MAX_MEMORY_BYTES, dir=str(settings().data))  # noqa: SIM115
            self._open[tenant] += 1
            self._tenant = tenant
        try:
            arguments = write, current_session()
            if streams:
                Thread(target=self._fill, args=arguments, name="spool", daemon=True).start()
            else:
                self._fill(*arguments)
            self._wait(1)
            # An error of this time has its status, and a short file its length.
            self._wait(BLOCK_BYTES, FIRST_BLOCK_SECONDS)
        except BaseException as error:
            self.close()
            if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise StorageFull from error
            raise

    def _fill(self, write: Callable[[BinaryIO], None], reader: TenantSession) -> None:
        """Let `write` write the file, in the reader's session or one of this thread like it."""
        try:
            with reader.source.installation.session(reader.label, False) as session:
                session.act_as(reader)
                write(cast(BinaryIO, self))
                self._file.flush()
        except BaseException as error:
            self._error = error
        with self._change:
            self.length = self._size
            self._change.notify()

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        """Append to the file. Raises ValueError once its reader has closed it."""
        with self._change:
            self._file.seek(self._size)
            self._size += self._file.write(data)
            self._change.notify()
        return len(data)

    def _wait(self, size: int, seconds: float | None = None) -> None:
        """Wait until the file is so long or complete. Raises what `write` raises."""
        with waiting(), self._change:  # this thread computes nothing: its request takes no slot
            self._change.wait_for(lambda: self._size >= size or self.length is not None, seconds)
        if self._error is not None:
            try:
                raise self._error
            finally:
                self._error = None  # its traceback has this file: what it holds would stay

    def __iter__(self) -> Iterator[bytes]:
        """Yield the content in blocks, once. Raises what `write` raises, OSError if it is cut."""
        position = 0
        while position != self.length:
            with self._change:
                self._file.seek(position)
                block = self._file.read(BLOCK_BYTES)
            if not block:
                raise OSError(errno.EIO, "a spooled file lost its end")
            yield block
            position += len(block)
            self._wait(position + BLOCK_BYTES)

    def close(self) -> None:
        """Delete the file; closing it again does nothing.

        The garbage collector calls this for a response that no server has read.
        """
        tenant, self._tenant = self._tenant, ""
        if tenant:
            with self._lock:
                self._open[tenant] -= 1
                if not self._open[tenant]:
                    del self._open[tenant]
            with self._change:  # not while the other thread writes
                self._file.close()
