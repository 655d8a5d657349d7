"""Counts that all processes of a machine share: hash tables in one memory-mapped file.

`<data>/counters` is a header and a table of each window. A table is an array of buckets, and a
bucket has BUCKET_ROWS rows: the keyed digest of a name, the number of a step, and the counts of
that step and those before it. In a full bucket a new row replaces one whose counts are forgotten,
else the row with the lowest count.

Rows are read and written under one lock of the file, which excludes the other threads and processes
for some microseconds. A row lies within one page of memory and is written by one copy, so a killed
process leaves none that is half written.

Where the file cannot be created, as on a full disk, each process counts in its own memory, and
tries the file again every RETRY_SECONDS.
"""

import dataclasses
import errno
import fcntl
import hashlib
import logging
import mmap
import os
import secrets
import struct
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from pathlib import Path

from crm.limits.windows import BUCKET_ROWS, WINDOWS, Limit, Taken, Window

DIGEST_BYTES = 16
HEADER_BYTES = 4096  # a page
MAX_CACHED_NAMES = 10_000  # of a window, in each process
RETRY_SECONDS = 60.0

log = logging.getLogger("crm")


class CounterRow:
    """Where the row of a name is, or would be, and how it is stored.

    It has the digest of the name, the number of the newest step, and the counts from that one back.
    """

    __slots__ = ("_bucket", "_digest", "_layout", "_offset", "_seconds", "_steps")

    def __init__(self, window: Window, digest: bytes, start: int):
        """`start` is where the table of the window begins."""
        number = int.from_bytes(digest[:8], "little") % window.buckets
        self._seconds, self._steps = window.step_seconds, window.steps
        self._digest, self._layout = digest, layout_of(window.steps)
        start += number * BUCKET_ROWS * self._layout.size
        self._bucket, self._offset = slice(start, start + BUCKET_ROWS * self._layout.size), start

    def read(self, memory: mmap.mmap, moment: float) -> tuple[int, list[int]]:
        """Return the newest step and the counts, as they are at a moment."""
        steps, now = self._steps, int(moment // self._seconds)
        digest, newest, *counts = self._layout.unpack_from(memory, self._offset)
        if digest != self._digest:
            start = memory[self._bucket].find(self._digest)  # mmap.find() compares byte by byte
            if start < 0:
                return now, [0] * steps
            self._offset = self._bucket.start + start
            _, newest, *counts = self._layout.unpack_from(memory, self._offset)
        if newest == now or newest == now + 1:  # the next: another process has begun it already
            return newest, counts
        if newest < now:
            return now, ([0] * min(now - newest, steps) + counts)[:steps]
        # Counted before a restart of the machine, or before its clock was set back: present.
        return now, [sum(counts)] + [0] * (steps - 1)

    def write(self, memory: mmap.mmap, newest: int, counts: Sequence[int]) -> None:
        """Write the row that was read; if there was none, over the one that counts least."""
        if memory[self._offset : self._offset + DIGEST_BYTES] != self._digest:
            rows = self._layout.iter_unpack(memory[self._bucket])
            ranks = [
                sum(others) if newest - self._steps < step <= newest + 1 else 0
                for _, step, *others in rows
            ]
            self._offset = self._bucket.start + ranks.index(min(ranks)) * self._layout.size
        row = self._layout.pack(self._digest, newest, *counts)
        memory[self._offset : self._offset + self._layout.size] = row


@cache
def layout_of(steps: int) -> struct.Struct:
    """Return the layout of a row. Its size is a power of two, so that no row lies in two pages."""
    used = DIGEST_BYTES + 4 * (1 + steps)
    padding = (1 << (used - 1).bit_length()) - used
    return struct.Struct(f"={DIGEST_BYTES}s{1 + steps}I{padding}x")


class MappedBytes:
    """The mapped bytes of the file, or of memory if `descriptor` is None.

    In a `with` block they are this thread's alone; it is not reentrant. The kernel releases the
    lock of a killed process.
    """

    def __init__(self, memory: mmap.mmap, descriptor: int | None):
        self.memory, self.descriptor = memory, descriptor
        self._threads = threading.Lock()  # they share the file's descriptor, so its lock

    def __enter__(self) -> mmap.mmap:
        self._threads.acquire()
        if self.descriptor is not None:
            # Not a POSIX lock: a process loses it as soon as it closes any descriptor of the file.
            fcntl.flock(self.descriptor, fcntl.LOCK_EX)
        return self.memory

    def __exit__(self, *_: object) -> None:
        try:
            if self.descriptor is not None:
                fcntl.flock(self.descriptor, fcntl.LOCK_UN)
        finally:
            self._threads.release()

    def __del__(self) -> None:
        self.close()

    def close(self) -> None:
        self.memory.close()
        if self.descriptor is not None:
            os.close(self.descriptor)
            self.descriptor = None


class Counters:
    """The counts of an installation by window and name.

    Nothing is opened before the first count. `moment` is in seconds, of a clock that all processes
    of the machine share for this window. Names may be phones and addresses: only keyed digests of
    them are stored. Each operation is atomic.
    """

    def __init__(
        self,
        folder: Path,
        secret: Callable[[], bytes],
        windows: Sequence[Window] = WINDOWS,
        monotonic: Callable[[], float] = time.monotonic,
    ):
        """`secret` returns the installation's key, with which names are digested."""
        self._path, self._secret, self._monotonic = folder / "counters", secret, monotonic
        self._opening = threading.Lock()
        self._storage: MappedBytes | None = None
        self._key, self._retry_at = b"", 0.0
        self._tables: dict[str, int] = {}  # by window: where its table begins
        self.size = HEADER_BYTES
        for window in windows:
            self._tables[window.name] = self.size
            self.size += window.buckets * BUCKET_ROWS * layout_of(window.steps).size
        self._row = lru_cache(MAX_CACHED_NAMES)(self._locate)
        layout = repr([dataclasses.astuple(window) for window in windows]).encode()
        self._header = f"crm counters {hashlib.sha256(layout).hexdigest()}\n".encode()
        _instances.add(self)

    def take(self, limits: Sequence[Limit], moment: float) -> Taken:
        """Add one to each count if all are below their limits, else to none.

        Raises OSError if a strict window cannot be counted.
        """
        storage = self._storage
        if storage is None or storage.descriptor is None:
            storage = self._open(any([limit.window.is_strict for limit in limits]))
        rows = [self._row(limit.window, limit.name) for limit in limits]
        totals, states, full = [], [], None
        with storage as memory:
            for number, row in enumerate(rows):
                step, counts = row.read(memory, moment)
                states.append((row, step, counts))
                totals.append(sum(counts))
                if full is None and totals[number] >= limits[number].most:
                    full = number
            for number, (row, step, counts) in enumerate(states):
                if full is None and limits[number].adds:
                    counts[0] += 1
                    totals[number] += 1
                if totals[number]:
                    row.write(memory, step, counts)
        number = full or 0
        ends_at = (states[number][1] + 1) * limits[number].window.step_seconds
        return Taken(full is None, totals, ends_at - moment)

    def read(self, limits: Sequence[Limit], moment: float) -> list[int]:
        """Return the counts. Nothing is written, and the log gets no line."""
        if self._storage is None and not self._is_made():
            return [0] * len(limits)
        storage = self._storage or self._open()
        rows = [self._row(limit.window, limit.name) for limit in limits]
        with storage as memory:
            return [sum(row.read(memory, moment)[1]) for row in rows]

    def reset(self, limits: Sequence[Limit]) -> int:
        """Set the counts to zero; return how many were not."""
        storage, resets = self._storage or self._open(), 0
        rows = [self._row(limit.window, limit.name) for limit in limits]
        with storage as memory:
            for row in rows:
                step, counts = row.read(memory, 0.0)
                if any(counts):
                    row.write(memory, step, [0] * len(counts))
                    resets += 1
        return resets

    def close(self) -> None:
        """Close the file; it is opened again at the next count."""
        with self._opening:
            if self._storage is not None:
                self._storage.close()
                self._storage = None

    def _locate(self, window: Window, name: str) -> CounterRow:
        raw = name.encode("utf-8", "surrogatepass")
        digest = hashlib.blake2b(raw, digest_size=DIGEST_BYTES, key=self._key).digest()
        return CounterRow(window, digest, self._tables[window.name])

    def _open(self, is_strict: bool = False) -> MappedBytes:
        """Return the mapped file, or memory where it cannot be used; if `is_strict` raise OSError
        there.
        """
        with self._opening:
            storage = self._storage
            if storage is not None and (
                storage.descriptor is not None
                or (self._monotonic() < self._retry_at and not is_strict)
            ):
                return storage
            try:
                self._key = hashlib.sha256(b"counters" + self._secret()).digest()
                storage = self._map_file()
            except OSError as error:
                if is_strict:
                    raise
                if storage is None:
                    log.warning(
                        "limits are counted by each process for itself: counters in the data"
                        " folder cannot be used: %s",
                        error.strerror,
                    )
                self._retry_at = self._monotonic() + RETRY_SECONDS
                self._key = self._key or secrets.token_bytes(32)
                storage = storage or MappedBytes(mmap.mmap(-1, self.size), None)
            self._row.cache_clear()  # the key may be another one
            self._storage = storage
            return storage

    def _map_file(self) -> MappedBytes:
        descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            # Written and not made longer: a disk that is full later, when a hole is first written
            # to, would end the process. Never made shorter, for the same reason.
            if not self._is_made():
                if os.pwrite(descriptor, bytes(self.size), 0) < self.size:
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                os.pwrite(descriptor, self._header, 0)
            fcntl.flock(descriptor, fcntl.LOCK_UN)
            return MappedBytes(mmap.mmap(descriptor, self.size), descriptor)
        except BaseException:
            os.close(descriptor)
            raise

    def _is_made(self) -> bool:
        """Whether the file exists, and has the tables of these windows."""
        try:
            with self._path.open("rb") as file:
                is_complete = os.fstat(file.fileno()).st_size >= self.size
                return is_complete and file.read(len(self._header)) == self._header
        except FileNotFoundError:
            return False


_instances: "weakref.WeakSet[Counters]" = weakref.WeakSet()


def _forget_storages() -> None:
    """Close the files after a fork: a child that shared them would share their locks."""
    for store in _instances:
        store._opening = threading.Lock()
        store.close()


os.register_at_fork(after_in_child=_forget_storages)
