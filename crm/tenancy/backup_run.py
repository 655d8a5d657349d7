"""One run of copies: of many tenants in little time, and of those that did not change by a link.

A copy gets its name once it is whole, checked and on the disk. Files are synced and named in
batches: a disk takes a batch in the time of a few files.

A tenant has not changed since its last copy if its file and its log are the same by number, size
and the times that the file system keeps. `.unchanged.json` in the folder of the copies remembers
them, as they were before the copy was begun: what was written meanwhile makes the next run copy
again. The file system's times are no finer than some milliseconds, so a file that was written to in
the last seconds is not remembered. Then the new name is a link to the last copy: they share their
bytes on the disk, so a tenant gets a copy of its own again after ten days at the latest.
"""

import json
import os
import sqlite3
import time
import zlib
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from pathlib import Path
from secrets import token_hex
from typing import NamedTuple

from crm.tenancy import disk
from crm.tenancy.copies import check, list_copies
from crm.tenancy.files import Tenant
from crm.tenancy.sweeps import DAY_SECONDS

KEEP = 14  # copies of a tenant
INDEX = ".unchanged.json"
BATCH_FILES, BATCH_BYTES = 500, 256 << 20
SYNC_THREADS = 16  # that wait for the disk
IN_MEMORY_BYTES = 16 << 20  # a larger file is copied page by page
RACY_NS = 2_000_000_000  # a file written to within these may be written to again unseen
LINKED_DAYS = 4, 7  # for which links suffice: at least, and a number of more by the label
LEGACY_MODES = b"\1\1"  # in the header: the copy has no log
State = list[list[int]]


class Entry(NamedTuple):
    """A tenant's last copy: of which state of its file, its name, how it stands, and when it was
    made, in epoch seconds."""

    state: State
    name: str
    copy: list[int]
    made_at: float


class Made(NamedTuple):
    """A copy of the run; `is_link` when the tenant had not changed since the last one."""

    label: str
    path: Path
    is_link: bool


class Run:
    """Copies into a folder: add() each tenant, then finish()."""

    def __init__(self, to: Path, keep: int, clock: Callable[[], float], erasing: float):
        """`keep`: how many copies of a tenant stay. `erasing`: before that moment less a day,
        what is unfinished was left by a dead process."""
        disk.make_folder(to)
        disk.forget_abandoned(to, ".new-*", erasing)
        self._to, self._keep, self._clock = to, keep, clock
        self._copies = list_copies(to)
        self._entries = _read(to / INDEX)
        self._unnamed: list[tuple[str, Path, State | None]] = []
        self._bytes = 0
        self._linked: list[Made] = []

    def add(self, tenant: Tenant) -> list[Made]:
        """Copy a tenant; gives the copies of the batch if that is finished by it.

        Raises BadCopy, UnknownTenant, or what SQLite and the disk say.
        """
        state = state_of(tenant.path)
        if not self._link(tenant.label, state):
            self._copy(tenant, state)
        is_full = len(self._unnamed) >= BATCH_FILES or self._bytes >= BATCH_BYTES
        return self.finish() if is_full else []

    def finish(self) -> list[Made]:
        """Name what was copied since the last batch, let older copies go, and give all."""
        made, self._linked = self._linked, []
        try:
            with ThreadPoolExecutor(SYNC_THREADS) as threads:
                list(threads.map(disk.sync, [unseen for _, unseen, _ in self._unnamed]))
            for label, unseen, state in self._unnamed:
                path = self._path(label)
                os.replace(unseen, path)
                made.append(Made(label, path, is_link=False))
                self._remember(label, state, path)
        finally:
            self.close()
        if made:
            disk.sync(self._to)
            for label, path, _ in made:
                self._drop_older(label, path)
            _write(self._to / INDEX, self._entries)
        return made

    def close(self) -> None:
        """Leave nothing unfinished behind."""
        for _, unseen, _ in self._unnamed:
            unseen.unlink(missing_ok=True)
        self._unnamed, self._bytes = [], 0

    def _path(self, label: str) -> Path:
        return self._to / f"{label}-{disk.stamp(self._clock())}.db"

    def _link(self, label: str, state: State) -> bool:
        """Give the last copy one more name, if the tenant is as it was then."""
        entry = self._entries.get(label)
        at_least, more = LINKED_DAYS
        seconds = (at_least + zlib.crc32(label.encode()) % more) * DAY_SECONDS
        if (
            entry is None
            or entry.state != state
            or not 0 <= self._clock() - entry.made_at < seconds
        ):
            return False
        last, path = self._to / entry.name, self._path(label)
        try:
            if _stat(last)[:3] != entry.copy[:3]:
                return False
            if last != path:
                path.unlink(missing_ok=True)
                os.link(last, path)
        except OSError:  # it is gone, or the file system has no links
            return False
        self._entries[label] = entry._replace(name=path.name)
        self._linked.append(Made(label, path, is_link=True))
        return True

    def _copy(self, tenant: Tenant, state: State) -> None:
        self._entries.pop(tenant.label, None)
        newest = max(max(times) for _, _, *times in state)
        is_settled = newest < time.time_ns() - RACY_NS
        unseen = self._to / f".new-{tenant.label}-{token_hex(4)}"
        try:
            connection = tenant.take(writes=False)
            try:
                copy_pages(connection, unseen)
            finally:
                tenant.give(connection, writes=False)
            check(unseen, f"the copy of {tenant.label}")
        except BaseException:
            unseen.unlink(missing_ok=True)
            disk.drop_logs(unseen)
            raise
        self._unnamed.append((tenant.label, unseen, state if is_settled else None))
        self._bytes += unseen.stat().st_size

    def _remember(self, label: str, state: State | None, path: Path) -> None:
        if state is not None:
            self._entries[label] = Entry(state, path.name, _stat(path), self._clock())

    def _drop_older(self, label: str, path: Path) -> None:
        others = [each for each in self._copies.get(label, []) if each != path]
        stay = max(0, len(others) - self._keep + 1)
        for each in others[:stay]:
            each.unlink(missing_ok=True)
        self._copies[label] = [*others[stay:], path]


def copy_pages(connection: sqlite3.Connection, to: Path) -> None:
    """Copy all that is committed in an open file to a path where nothing is. Who writes meanwhile
    waits for nobody. The copy is not synced."""
    disk.make(to)
    (pages,), (size,) = (
        connection.execute(f"PRAGMA {each}").fetchone() for each in ("page_count", "page_size")
    )
    if pages * size <= IN_MEMORY_BYTES:
        to.write_bytes(connection.serialize())
    else:
        with closing(sqlite3.connect(to)) as made:
            made.execute("PRAGMA journal_mode = OFF")
            made.execute("PRAGMA synchronous = OFF")
            connection.backup(made)
    with to.open("r+b") as file:
        file.seek(18)
        file.write(LEGACY_MODES)


def state_of(path: Path) -> State:
    """How a tenant's file and its logs stand: any change of what is in them changes that."""
    found = []
    for name in (path, f"{path}-wal", f"{path}-journal"):
        try:
            stat = _stat(name)
        except FileNotFoundError:
            stat = [0, 0, 0, 0]
        if name != path:
            stat.pop()  # for root, SQLite sets the owner of a log whenever it opens it
        found.append(stat if stat[1] else [0, 0, 0])  # an empty log is as none
    return found


def _stat(path: Path | str) -> list[int]:
    """Number, size, times of the last change of the content and of anything."""
    stat = os.stat(path)
    return [stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns]


def _read(path: Path) -> dict[str, Entry]:
    """The entries by label; none where the file is not whole."""
    try:
        return {label: Entry(*entry) for label, entry in json.loads(path.read_bytes()).items()}
    except (OSError, ValueError, TypeError, AttributeError):
        return {}


def _write(path: Path, entries: dict[str, Sequence]) -> None:
    unseen = path.with_name(f".new-index-{token_hex(4)}")
    with suppress(OSError):  # without it the next run copies everything
        disk.make(unseen)
        unseen.write_text(json.dumps(entries))
        os.replace(unseen, path)
