"""Counts that all processes of an installation share: hash tables in one memory-mapped file.

`<data>/counters` is a header and TABLES. A table is an array of buckets, a bucket has BUCKET_SLOTS
slots, and a slot holds one row: the keyed digest of a name, the number of a time window, and two
counts. Names may be phones and addresses, so they are never written themselves.

Rows are read and written under a lock that excludes the other threads and the other processes. The
kernel releases the locks of a killed process, and a row is written by one copy of 12 or 32 bytes,
so a killed process leaves no half-written row.

In a full bucket a new row replaces one of a past window, else the row with the lowest count. Each
kind of name has a table of its own: strangers' addresses never replace a tenant's row.

Where the file cannot be created, as on a full disk, each process counts in its own memory, and
tries the file again every RETRY_SECONDS.

`crm.tenancy.redis_limits` has the same tables for all machines that share a Redis (`CRM_LIMITS`),
and counts here while it cannot be used.
"""

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
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from crm.tenancy.count_tables import (
    ACCOUNTS,
    EMAILS,
    FAILED_KEYS,
    FORM_VISITORS,
    PAGES,
    PASSWORDS,
    REQUESTS,
)

# Name: buckets, locks. A request of every tenant takes a lock of the first one.
TABLES = {
    REQUESTS: (256, 32),
    FAILED_KEYS: (64, 1),
    FORM_VISITORS: (64, 1),
    PASSWORDS: (64, 1),
    ACCOUNTS: (64, 1),  # not with PASSWORDS: windows of one table are equally long
    EMAILS: (64, 1),
    PAGES: (128, 16),
}

SLOT = struct.Struct("=16s3I4x")  # digest of the name, window, counts
COUNTS = struct.Struct("=3I")  # the same without the digest
DIGEST_BYTES = 16
BUCKET_SLOTS = 64
BUCKET_BYTES = BUCKET_SLOTS * SLOT.size
HEADER = b"crm counters, layout 2\n"
FILE_BYTES = BUCKET_BYTES * (1 + sum(buckets for buckets, _ in TABLES.values()))
MAX_CACHED_NAMES = 10_000  # of a table, in each process
RETRY_SECONDS = 60.0

log = logging.getLogger("crm")


def keyed_digest(key: bytes, name: str) -> bytes:
    """Return 16 bytes that identify a name, and reveal nothing of it without the key."""
    raw = name.encode("utf-8", "surrogatepass")
    return hashlib.blake2b(raw, digest_size=DIGEST_BYTES, key=key[:64]).digest()


class Lock:
    """One lock among threads and processes; `number` is its byte in the file."""

    __slots__ = ("_descriptor", "_lock", "_threads", "_unlock")

    def __init__(self, descriptor: int, number: int):
        self._descriptor = descriptor
        self._threads = threading.Lock()  # the threads share the file's descriptor, so its locks
        self._lock, self._unlock = lock_arguments(number)

    def __enter__(self) -> None:
        self._threads.acquire()
        try:
            change_lock(self._descriptor, *self._lock)
        except BaseException:
            self._threads.release()
            raise

    def __exit__(self, *_: Any) -> None:
        try:
            change_lock(self._descriptor, *self._unlock)
        finally:
            self._threads.release()


def byte_lock(kind: int, number: int) -> bytes:
    """Make a `struct flock` for one byte of a file; `kind` is F_WRLCK or F_UNLCK."""
    return struct.pack("hhqqi4x", kind, os.SEEK_SET, number, 1, 0)  # type, whence, start, length


if hasattr(fcntl, "F_OFD_SETLKW"):
    # Locks of an open file description, on one byte each. POSIX locks would not do: a process
    # loses them as soon as it closes any descriptor of the file.
    change_lock: Callable[..., Any] = fcntl.fcntl

    def lock_arguments(number: int) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        return (
            (fcntl.F_OFD_SETLKW, byte_lock(fcntl.F_WRLCK, number)),
            (fcntl.F_OFD_SETLKW, byte_lock(fcntl.F_UNLCK, number)),
        )

    def make_locks(descriptor: int, count: int) -> list[Lock]:
        return [Lock(descriptor, number) for number in range(count)]

else:  # macOS: flock locks the whole file, so all parts of it share one lock
    change_lock = fcntl.flock

    def lock_arguments(number: int) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        return (fcntl.LOCK_EX,), (fcntl.LOCK_UN,)

    def make_locks(descriptor: int, count: int) -> list[Lock]:
        return [Lock(descriptor, 0)] * count


class Storage:
    """The mapped bytes and their locks: of the file, or of memory if `descriptor` is None."""

    def __init__(self, memory: mmap.mmap, descriptor: int | None):
        self.memory = memory
        self.descriptor = descriptor
        self.locks: Sequence[AbstractContextManager[Any]] = (
            [threading.Lock() for _ in range(LOCKS)]
            if descriptor is None
            else make_locks(descriptor, LOCKS)
        )

    def __del__(self) -> None:
        self.close()

    def close(self) -> None:
        self.memory.close()
        if self.descriptor is not None:
            os.close(self.descriptor)
            self.descriptor = None


LOCKS = 1 + sum(locks for _, locks in TABLES.values())  # the first one is for creating the file


class Counters:
    """All tables of an installation. The file is opened, or created, at the first count."""

    def __init__(self, folder: Path, secret: Callable[[], bytes]):
        """`secret` returns the installation's key, with which names are digested."""
        self._path = folder / "counters"
        self._secret = secret
        self._opening = threading.Lock()
        self._retry_at = 0.0
        self.key = b""
        self.storage: Storage | None = None
        self.memory: mmap.mmap  # that of the storage, set when it is opened
        self.tables: dict[str, Table] = {}
        bucket, lock = 1, 1
        for name, (buckets, locks) in TABLES.items():
            self.tables[name] = Table(self, bucket, buckets, lock, locks)
            bucket, lock = bucket + buckets, lock + locks
        _instances.add(self)

    def open(self) -> Storage:
        """Return the mapped file, or memory where it cannot be used."""
        with self._opening:
            storage = self.storage
            if storage is None or (
                storage.descriptor is None and time.monotonic() >= self._retry_at
            ):
                storage = self._open(storage)
            return storage

    def _open(self, before: Storage | None) -> Storage:
        try:
            self.key = hashlib.sha256(b"counters" + self._secret()).digest()
            storage = _open_file(self._path)
        except OSError as error:
            if before is None:
                log.warning(
                    "limits are counted by each process for itself: counters in the data folder"
                    " cannot be used: %s",
                    error.strerror,
                )
            self._retry_at = time.monotonic() + RETRY_SECONDS
            self.key = self.key or secrets.token_bytes(32)
            storage = before or Storage(mmap.mmap(-1, FILE_BYTES), None)
        for table in self.tables.values():
            table.clear_cache()  # the key may be another one
        self.storage, self.memory = storage, storage.memory
        return storage

    def close(self) -> None:
        """Close the file; it is opened again at the next count."""
        with self._opening:
            if self.storage is not None:
                self.storage.close()
                self.storage = None

    def forget_storage(self) -> None:
        """Close the file after a fork: a child that shared it would share its locks."""
        self._opening = threading.Lock()
        self.close()


class Table:
    """Rows of one kind of names. The caller of get() and put() holds the lock of the name.

    take_all() and reset() are for the tables that have one lock for all names.
    """

    def __init__(self, counters: Counters, bucket: int, buckets: int, lock: int, locks: int):
        self._counters = counters
        self._bucket, self._buckets = bucket, buckets
        self._lock, self._locks = lock, locks
        # Name: digest, start of the bucket, number of the lock, offset of the row when last found.
        self._cache: dict[str, list[Any]] = {}

    def take(
        self,
        name: str,
        seconds: int,
        moment: float,
        limit: int,
        part_limit: int | None = None,
        adds: bool = True,
    ) -> tuple[bool, int, float]:
        """See CountTable.take()."""
        with self.lock(name):
            window, count, part = self.get(name, int(moment) // seconds)
            remaining = limit - count
            if part_limit is not None:
                remaining = min(remaining, part_limit - part)
            taken = remaining > 0 and adds
            if taken:
                self.put(name, window, count + 1, part + (part_limit is not None))
                remaining -= 1
        return taken, remaining if remaining > 0 else 0, (window + 1) * seconds - moment

    def add(self, name: str, seconds: int, moment: float) -> tuple[int, float]:
        """See CountTable.add()."""
        with self.lock(name):
            window, first, second = self.get(name, int(moment) // seconds)
            self.put(name, window, first + 1, second)
        return first + 1, (window + 1) * seconds - moment

    def take_all(self, limits: Sequence[tuple[str, int]], seconds: int, moment: float) -> float:
        """See CountTable.take_all()."""
        now = int(moment) // seconds
        with self.lock():
            counts = [self.get(name, now) for name, _ in limits]
            for (_, limit), (window, count, _) in zip(limits, counts, strict=True):
                if count >= limit:
                    return (window + 1) * seconds - moment
            for (name, _), (window, count, _) in zip(limits, counts, strict=True):
                self.put(name, window, count + 1)
        return 0.0

    def read(self, name: str, seconds: int, moment: float) -> int:
        """See CountTable.read()."""
        with self.lock(name):
            return self.get(name, int(moment) // seconds)[1]

    def reset(self, names: Sequence[str]) -> None:
        """See CountTable.reset()."""
        with self.lock():
            for name in names:
                if self._find(self._cache.get(name) or self._locate(name)):
                    self.put(name, 0, 0)

    def lock(self, name: str = "") -> AbstractContextManager[Any]:
        """Return the lock of a name's row; some tables have one for all rows. Not reentrant."""
        storage = self._counters.storage
        if storage is None or storage.descriptor is None:
            storage = self._counters.open()
        if self._locks == 1:
            return storage.locks[self._lock]
        return storage.locks[(self._cache.get(name) or self._locate(name))[2]]

    def get(self, name: str, window: int) -> tuple[int, int, int]:
        """Return the window of the row and its two counts: zero if it is missing or of the past.

        The next window is valid too: another process has begun it already. A later one was counted
        before a restart of the machine: its counts continue in this window.
        """
        place = self._cache.get(name) or self._locate(name)
        digest, _, _, offset = place
        memory = self._counters.memory
        row_digest, row_window, first, second = SLOT.unpack_from(memory, offset)
        if row_digest != digest:
            if not self._find(place):
                return window, 0, 0
            _, row_window, first, second = SLOT.unpack_from(memory, place[3])
        if row_window < window:
            return window, 0, 0
        if row_window > window + 1:
            row_window = window
            self.put(name, window, first, second)
        return row_window, first, second

    def put(self, name: str, window: int, first: int, second: int = 0) -> None:
        """Write the row of a name, over another one if its bucket is full."""
        place = self._cache.get(name) or self._locate(name)
        memory = self._counters.memory
        if self._find(place):
            offset = place[3] + DIGEST_BYTES
            memory[offset : offset + COUNTS.size] = COUNTS.pack(window, first, second)
        else:
            offset = place[3] = self._slot_to_replace(place[1], window)
            memory[offset : offset + SLOT.size] = SLOT.pack(place[0], window, first, second)

    def clear_cache(self) -> None:
        self._cache = {}

    def _locate(self, name: str) -> list[Any]:
        if len(self._cache) >= MAX_CACHED_NAMES:
            self._cache = {}
        digest = keyed_digest(self._counters.key, name)
        bucket = int.from_bytes(digest[:8], "little") % self._buckets
        start = (self._bucket + bucket) * BUCKET_BYTES
        place = self._cache[name] = [digest, start, self._lock + bucket % self._locks, start]
        return place

    def _find(self, place: list[Any]) -> bool:
        """Update the offset in `place`; False if there is no row."""
        digest, start, _, offset = place
        memory = self._counters.memory
        if memory[offset : offset + DIGEST_BYTES] == digest:
            return True
        # Not mmap.find(), which compares byte by byte.
        offset = memory[start : start + BUCKET_BYTES].find(digest)
        if offset >= 0:
            place[3] = start + offset
        return offset >= 0

    def _slot_to_replace(self, start: int, window: int) -> int:
        """Return the offset of the slot of a bucket that a new row replaces."""
        rows = SLOT.iter_unpack(self._counters.memory[start : start + BUCKET_BYTES])
        ranks = [(window <= row_window <= window + 1, first) for _, row_window, first, _ in rows]
        return start + ranks.index(min(ranks)) * SLOT.size


def _open_file(path: Path) -> Storage:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        with Lock(descriptor, 0):
            is_long_enough = os.fstat(descriptor).st_size >= FILE_BYTES
            if not is_long_enough or os.pread(descriptor, len(HEADER), 0) != HEADER:
                # Written and not made longer: a disk that is full later, when a hole is first
                # written to, would end the process. Never made shorter, for the same reason.
                if os.pwrite(descriptor, bytes(FILE_BYTES), 0) < FILE_BYTES:
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                os.pwrite(descriptor, HEADER, 0)
        return Storage(mmap.mmap(descriptor, FILE_BYTES), descriptor)
    except BaseException:
        os.close(descriptor)
        raise


_instances: "weakref.WeakSet[Counters]" = weakref.WeakSet()


def _forget_storages() -> None:
    for counters in _instances:
        counters.forget_storage()


os.register_at_fork(after_in_child=_forget_storages)
