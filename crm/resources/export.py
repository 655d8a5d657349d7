"""The export of a tenant: an archive with its database file, and its records as CSV.

The sheets are made from a copy of the file, so that all of them show one moment and no user of the
tenant waits meanwhile.
"""

import errno
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, cast
from zipfile import ZIP_DEFLATED, ZipFile

from crm import spreadsheets
from crm.copies import backup
from crm.errors import UnknownTenant
from crm.installation.tenants import Tenants
from crm.storage import disk
from crm.storage.session import now, write_archive

README = """\
{label}, as it was at {moment}

{label}.db   everything: one SQLite file, which `restore TENANT {label}.db` takes back.
*.csv   the records: CSV, UTF-8, a header line, commas

Keep this archive as safe as the data itself. {label}.db has the personal data of people, hashes of
API keys, passwords and sessions, and the secrets of webhooks as they are.
"""


def write(tenants: Tenants, label: str, to: Path) -> None:
    """Write the archive of a tenant, readable by its owner only, and name it when it is complete.

    Raises UnknownTenant, BadCopy, or what the database and the disk say.
    """
    with _working_folder(tenants, label, to) as folder:
        archive = folder / "archive"
        disk.make(archive)
        with archive.open("wb") as file:
            _fill(file, tenants, label, folder / "copy")
            file.flush()
            os.fsync(file.fileno())
        os.replace(archive, to)
        disk.sync(to.parent)


def send(tenants: Tenants, label: str, to: BinaryIO) -> None:
    """Write the archive to an open file or pipe. Raises as write() does, before the first byte."""
    with _working_folder(tenants, label, tenants.config.data / label) as folder:
        # Made as a file first: a pipe cannot take back what was written before an error.
        archive = folder / "archive"
        write(tenants, label, archive)
        with archive.open("rb") as file:
            shutil.copyfileobj(file, to)


@contextmanager
def _working_folder(tenants: Tenants, label: str, target: Path) -> Iterator[Path]:
    """A folder beside `target` for the parts of an archive, deleted at the end.

    Those that a crash has left are deleted, too.
    """
    # The base host's file, of which there can be a session too, is no tenant's.
    if not tenants.exists(label):
        raise UnknownTenant
    if not target.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(target))
    prefix = f".export-{label}-"
    disk.delete_abandoned(target.parent, f"{prefix}*", tenants.steady_clock.erasing_now())
    with tempfile.TemporaryDirectory(prefix=prefix, dir=target.parent) as folder:
        yield Path(folder)


def _fill(file: BinaryIO, tenants: Tenants, label: str, copy: Path) -> None:
    with tenants.session(label):
        write_archive(copy)
    with backup.copy_session(tenants, copy, label), ZipFile(file, "w", ZIP_DEFLATED) as archive:
        resources = spreadsheets.all_resources()
        archive.writestr("README.txt", README.format(label=label, moment=now()))
        archive.write(copy, f"{label}.db")
        for resource in resources:
            # In parts of unknown total size.
            with archive.open(resource.file_name, "w", force_zip64=True) as sheet:
                spreadsheets.export_csv(cast(BinaryIO, sheet), resource)
