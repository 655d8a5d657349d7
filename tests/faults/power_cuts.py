"""Power cuts, simulated: what a traced data folder may look like after one.

`trace.c` records each change that a process makes below a folder. `Disk` plays a trace up to a cut
and makes a folder of it: whatever was synced before the cut is there. Of what was not, each write
is kept, dropped or torn at a 512-byte sector, and of each folder's names an earlier state is found.
A sync of a file does not keep its name: that takes a sync of its folder, as POSIX has it. Names of
one folder change in their order, as in any journal; those of two folders do so independently.
"""

import os
import random
import struct
import subprocess
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from tests import external_programs

HEAD = struct.Struct("=IIQQII")
SECTOR_BYTES = 512
NOT_PROMISED = ("-shm",)  # SQLite makes an index of a log anew


def build_tracer(folder: Path) -> Path:
    """Compile trace.c; gives the library's path."""
    compiler = external_programs.found("gcc libc6-dev", "cc", "gcc")
    library = folder / "trace.so"
    source = Path(__file__).with_name("trace.c")
    command = [compiler, "-shared", "-fPIC", "-O2", "-o", library, source, "-ldl"]
    subprocess.run(command, check=True)
    return library


class Change(NamedTuple):
    """A record of a trace. `end` is its place: the length of the trace up to and with it."""

    end: int
    kind: str
    process: int
    inode: int
    number: int
    path: str
    data: bytes


@dataclass
class Trace:
    """A trace of a data folder, from when the folder was empty or from `begin_with_folder()`."""

    library: Path
    file: Path
    root: Path
    before: dict[str, tuple[int, bytes | None]] = field(default_factory=dict)

    def begin_with_folder(self) -> None:
        """What is in the folder now is on the disk."""
        for path in (self.root, *self.root.rglob("*")):
            data = path.read_bytes() if path.is_file() else None
            self.before[str(path)] = (path.stat().st_ino, data)

    def environ(self) -> dict[str, str]:
        """For processes whose changes are to be recorded."""
        return {
            "LD_PRELOAD": str(self.library),
            "TRACE": str(self.file),
            "TRACE_ROOT": str(self.root),
        }

    def place(self) -> int:
        """Where the trace has come to: all that was done before is in front of it."""
        return self.file.stat().st_size if self.file.exists() else 0

    def changes(self) -> Iterator[Change]:
        end = 0
        with self.file.open("rb") as file:
            while head := file.read(HEAD.size):
                size, path_size, inode, number, process, kind = HEAD.unpack(head)
                rest = file.read(size - HEAD.size)
                end += size
                path, data = rest[:path_size].decode(), rest[path_size:]
                yield Change(end, chr(kind), process, inode, number, path, data)


@dataclass
class File:
    """A file's bytes on the disk, and the writes since, in their order."""

    data: bytearray = field(default_factory=bytearray)
    unsynced: list[Change] = field(default_factory=list)

    def sync(self, before: int) -> None:
        """What was written before that place of the trace is on the disk."""
        while self.unsynced and self.unsynced[0].end <= before:
            _apply(self.data, self.unsynced.pop(0))

    def after(self, cut: "Cut") -> bytearray:
        result = bytearray(self.data)
        for change in self.unsynced:
            fate = cut.fate()
            if fate == "kept":
                _apply(result, change)
            elif fate == "torn" and change.kind == "W":
                for piece in _sectors(change):
                    if cut.dice.random() < 0.5:
                        _apply(result, piece)
        return result


def _apply(data: bytearray, change: Change) -> None:
    if change.kind == "T":
        del data[change.number :]
        data.extend(bytes(change.number - len(data)))
        return
    end = change.number + len(change.data)
    data.extend(bytes(max(0, end - len(data))))
    data[change.number : end] = change.data


def _sectors(change: Change) -> Iterator[Change]:
    """The sectors of the disk that a write fills."""
    begun, end = change.number, change.number + len(change.data)
    while begun < end:
        until = min(end, (begun // SECTOR_BYTES + 1) * SECTOR_BYTES)
        part = change.data[begun - change.number : until - change.number]
        yield change._replace(number=begun, data=part)
        begun = until


@dataclass
class Rename:
    """A change of names: `to` gets a file or a folder (None), `old` loses it."""

    end: int
    old: str | None
    to: str | None
    file: File | None

    def folders(self) -> set[str]:
        return {os.path.dirname(path) for path in (self.old, self.to) if path}


class Cut:
    """What becomes of that which was not synced, by chance.

    `way`: "dropped" or "kept", all of it; "names", all names and no bytes, as a journal of metadata
    alone may have it; or "mixed".
    """

    def __init__(self, way: str, seed: int):
        self.way, self.dice = way, random.Random(seed)
        self.kept = self.dice.random()  # some disks lose more than others

    def fate(self) -> str:
        if self.way != "mixed":
            return "kept" if self.way == "kept" else "dropped"
        if self.dice.random() < self.kept:
            return "kept"
        return self.dice.choice(["dropped", "torn"])

    def names_kept(self, count: int) -> int:
        """How many of the last changes of a folder's names are kept, of so many."""
        if self.way == "mixed":
            return self.dice.randint(0, count)
        return 0 if self.way == "dropped" else count


class Disk:
    """A data folder that is played from its trace."""

    def __init__(self, trace: Trace):
        self.root = str(trace.root)
        self.names: dict[str, File | None] = {}  # as processes see them
        self._inodes: dict[int, File] = {}
        self._on_disk: dict[str, File | None] = {}
        self._renames: list[Rename] = []  # that are not on the disk, or in a part of their folders
        self._synced: dict[str, int] = defaultdict(int)  # by folder: names up to which place
        self._syncs: dict[tuple[int, int], int] = {}  # under way: their beginnings
        self._changes = trace.changes()
        self._next: Change | None = next(self._changes, None)
        for path, (inode, data) in trace.before.items():
            file = None
            if data is not None:
                self._inodes[inode] = file = File(bytearray(data))
            self.names[path] = self._on_disk[path] = file

    def play(self, until: int) -> None:
        """Go on to a place of the trace."""
        while self._next and self._next.end <= until:
            self._do(self._next)
            self._next = next(self._changes, None)

    def _do(self, change: Change) -> None:
        path = change.path
        match change.kind:
            case "C":
                response = self.names.get(path)
                if response is None or self._inodes.get(change.inode) is not response:
                    self._inodes[change.inode] = file = File()
                    self._rename(change, None, path, file)
            case "D":
                self._rename(change, None, path, None)
            case "L":
                self._rename(change, None, change.data.decode(), self.names[path])
            case "R":
                self._rename(change, path, change.data.decode(), self.names[path])
            case "U":
                if path in self.names:  # a named pipe is not
                    self._rename(change, path, None, None)
            case "W" | "T":
                # A file that never had a name, such as a body that waits, was not created by one.
                self._inodes.setdefault(change.inode, File()).unsynced.append(change)
            case "B":
                self._syncs[change.process, change.number] = change.end
            case "E":
                begun = self._syncs.pop((change.process, change.number))
                if path:
                    self._sync_names(path, begun)
                else:
                    self._inodes[change.inode].sync(begun)

    def _rename(self, change: Change, old: str | None, to: str | None, file: File | None) -> None:
        rename = Rename(change.end, old, to, file)
        self._renames.append(rename)
        _give(self.names, rename)

    def _sync_names(self, folder: str, begun: int) -> None:
        self._synced[folder] = max(self._synced[folder], begun)
        waiting = []
        for rename in self._renames:
            if all(rename.end <= self._synced[item] for item in rename.folders()):
                _give(self._on_disk, rename)
            else:
                waiting.append(rename)
        self._renames = waiting

    def write_to(self, folder: Path, cut: Cut) -> None:
        """Make the folder that a cut leaves at this place."""
        names = dict(self._on_disk)
        for rename in self._kept_renames(cut):
            _give(names, rename)
        made: dict[int, Path] = {}
        folder.mkdir(mode=0o700, exist_ok=True)
        for path in sorted(names):
            if path == self.root or path.endswith(NOT_PROMISED):
                continue
            to = folder / os.path.relpath(path, self.root)
            file = names[path]
            if not to.parent.is_dir():
                continue  # its folder has no name
            if file is None:
                to.mkdir(mode=0o700)
            elif id(file) in made:
                os.link(made[id(file)], to)
            else:
                made[id(file)] = to
                to.touch(0o600)
                to.write_bytes(file.after(cut))

    def _kept_renames(self, cut: Cut) -> Iterator[Rename]:
        by_folder: dict[str, list[int]] = defaultdict(list)
        for rename in self._renames:
            for folder in rename.folders():
                if rename.end > self._synced[folder]:
                    by_folder[folder].append(rename.end)
        last = dict(self._synced)
        for folder, ends in by_folder.items():
            if count := cut.names_kept(len(ends)):
                last[folder] = ends[count - 1]
        for rename in self._renames:
            # A file that moves to another folder is in one of the two, or in both, never in none.
            to, old = (
                path and last.get(os.path.dirname(path), 0) >= rename.end
                for path in (rename.to, rename.old)
            )
            if rename.to and not to:
                continue
            yield Rename(rename.end, rename.old if old else None, rename.to, rename.file)


def _give(names: dict[str, File | None], rename: Rename) -> None:
    if rename.old:
        names.pop(rename.old, None)
    if rename.to:
        names[rename.to] = rename.file
