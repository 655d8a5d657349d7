"""One run of copies of many tenants, in which unchanged tenants are linked instead of copied.

A copy gets its name once it is whole, checked and synced. Files are synced and named in batches: a
disk syncs a batch in the time of a few files.

A tenant is unchanged since its last copy if its files and their logs have the same inode, size and
times. `.unchanged.json` in the folder of the copies stores these as they were before the copy was
begun, so that what was written meanwhile makes the next run copy again. The file system's times are
no finer than some milliseconds, so a file that was written to in the last seconds is not stored.
The new name of an unchanged tenant is a hard link to the last copy: both share their bytes on the
disk, so a tenant gets a copy of its own again after a week.
"""

import json
import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from secrets import token_hex
from typing import NamedTuple

from crm.storage import disk
from crm.storage.connection_source import ConnectionSource
from crm.storage.sqlite.archive_file import list_copies
from crm.storage.sqlite.tenant import Tenant
from crm.storage.sweeps import DAY_SECONDS

MAX_COPIES = 14  # of a tenant
INDEX_NAME = ".unchanged.json"
MAX_BATCH_FILES = 500
SYNC_THREADS = 16  # which wait for the disk
# After a write, for so long another one may not change the times of the file.
RACY_NANOSECONDS = 2_000_000_000
MAX_LINK_SECONDS = 7 * DAY_SECONDS  # since the last copy of an unchanged tenant
Fingerprint = list[list[int]]


class IndexEntry(NamedTuple):
    """A tenant's last copy: the state of the tenant's file, the copy's name and `_stat`, and when
    it was made, in epoch seconds."""

    state: Fingerprint
    name: str
    copy: list[int]
    made_at: float


class NewCopy(NamedTuple):
    """A copy of the run; `is_link` when the tenant had not changed since the last one."""

    label: str
    path: Path
    is_link: bool


class BackupRun:
    """Copies tenants into a folder: add() each tenant, then finish()."""

    def __init__(self, to: Path, keep: int, clock: Callable[[], float], erasing_now: float):
        """`keep`: how many copies of a tenant stay. `clock` gives the times in their names.

        `erasing_now`: the time by which abandoned files are deleted (steady_clock.py).
        """
        disk.make_folder(to)
        disk.delete_abandoned(to, ".new-*", erasing_now)
        self._to, self._keep, self._clock = to, keep, clock
        self._copies = list_copies(to)
        self._entries = _read(to / INDEX_NAME)
        self._unnamed: list[tuple[str, Path, Fingerprint | None]] = []
        self._linked: list[NewCopy] = []

    def add(self, tenant: ConnectionSource) -> list[NewCopy]:
        """Copy a tenant, or link its last copy; returns the batch's copies if that is full now.

        One that lives in no file is always copied. Raises BadCopy, UnknownTenant, or errors
        of the engine and the disk.
        """
        state = None
        if isinstance(tenant, Tenant):
            state = file_state(tenant.path) + file_state(tenant.contents.path)
        if state is None or not self._link(tenant.label, state):
            self._copy(tenant, state)
        return self.finish() if len(self._unnamed) >= MAX_BATCH_FILES else []

    def finish(self) -> list[NewCopy]:
        """Name the copies of the batch, delete those that are too many, and return the new ones."""
        copies, self._linked = self._linked, []
        try:
            with ThreadPoolExecutor(SYNC_THREADS) as threads:
                list(threads.map(disk.sync, [draft for _, draft, _ in self._unnamed]))
            for label, draft, state in self._unnamed:
                path = self._path(label)
                os.replace(draft, path)
                copies.append(NewCopy(label, path, is_link=False))
                if state is not None:
                    self._entries[label] = IndexEntry(state, path.name, _stat(path), self._clock())
        finally:
            self.close()
        if copies:
            disk.sync(self._to)
            for label, path, _ in copies:
                self._delete_older(label, path)
            with suppress(OSError):  # without it the next run copies everything
                disk.write_file(self._to / INDEX_NAME, json.dumps(self._entries).encode())
        return copies

    def close(self) -> None:
        """Delete what is unfinished."""
        for _, draft, _ in self._unnamed:
            draft.unlink(missing_ok=True)
        self._unnamed = []

    def _path(self, label: str) -> Path:
        return self._to / f"{label}-{disk.stamp(self._clock())}.db"

    def _link(self, label: str, state: Fingerprint) -> bool:
        """Give the last copy another name, if the tenant is unchanged; False if it is not."""
        entry = self._entries.get(label)
        if (
            entry is None
            or entry.state != state
            or not 0 <= self._clock() - entry.made_at < MAX_LINK_SECONDS
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
        self._linked.append(NewCopy(label, path, is_link=True))
        return True

    def _copy(self, tenant: ConnectionSource, state: Fingerprint | None) -> None:
        """Make a copy, which gets its name with the batch."""
        self._entries.pop(tenant.label, None)
        draft = self._to / f".new-{tenant.label}-{token_hex(4)}"
        if state and max(max(times) for _, _, *times in state) >= time.time_ns() - RACY_NANOSECONDS:
            state = None
        try:
            if isinstance(tenant, Tenant):
                tenant.copy(draft)
            else:
                tenant.write_archive(draft)
        except BaseException:
            draft.unlink(missing_ok=True)
            disk.delete_logs(draft)
            raise
        self._unnamed.append((tenant.label, draft, state))

    def _delete_older(self, label: str, path: Path) -> None:
        older = [copy for copy in self._copies.get(label, []) if copy != path]
        surplus = max(0, len(older) - self._keep + 1)
        for copy in older[:surplus]:
            copy.unlink(missing_ok=True)
        self._copies[label] = [*older[surplus:], path]


def file_state(path: Path) -> Fingerprint:
    """Describe a tenant's file and its logs: any change of their contents changes that."""
    state = []
    for name in (path, f"{path}-wal", f"{path}-journal"):
        try:
            stat = _stat(name)
        except FileNotFoundError:
            stat = [0, 0, 0, 0]
        if name != path:
            stat.pop()  # for root, SQLite sets the owner of a log whenever it opens it
        state.append(stat if stat[1] else [0, 0, 0])  # an empty log is as none
    return state


def _stat(path: Path | str) -> list[int]:
    """Return inode, size, and times of the last change of the content and of anything."""
    stat = os.stat(path)
    return [stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns]


def _read(path: Path) -> dict[str, IndexEntry]:
    """Read the index; it is empty where the file is not whole."""
    try:
        return {label: IndexEntry(*entry) for label, entry in json.loads(path.read_bytes()).items()}
    except (OSError, ValueError, TypeError, AttributeError):
        return {}
