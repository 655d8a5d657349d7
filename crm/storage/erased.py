"""Which records of a tenant were erased for good, noted outside its data.

A restore of an older copy erases them again. A tenant is known by a hash that its copies share,
records by their noun and id: nothing of the person. In a file of the data folder, and with
CRM_DATABASE also in `crm.setting` of the database that all nodes share.
"""

import os
from contextlib import suppress
from pathlib import Path

from crm.storage import disk

FOLDER = "erased"  # of the data folder


def note(data: Path, instance: str, records: list[str]) -> None:
    """Add records, such as "client 12", to those that were erased; they are on the disk then."""
    path = data / FOLDER / instance
    disk.make_folder(path.parent)
    with suppress(FileExistsError):
        disk.make(path)
    with path.open("a", encoding="ascii") as file:
        file.write("".join(f"{record}\n" for record in records))
        file.flush()
        os.fsync(file.fileno())
    disk.sync(path.parent)


def read(data: Path, instance: str) -> set[str]:
    """Return the records that were erased."""
    try:
        return set((data / FOLDER / instance).read_text("ascii").splitlines())
    except FileNotFoundError:
        return set()
