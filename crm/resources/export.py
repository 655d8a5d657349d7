"""The export of a tenant: an archive with its database file, and its records as CSV.

The sheets are made from a copy of the file, so that all of them show one moment and no user of the
tenant waits meanwhile.
"""

import os
import shutil
import tempfile
import time
from pathlib import Path
from typing import BinaryIO, cast
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

from crm import spreadsheets
from crm.tenancy import backup, disk
from crm.tenancy.archive import write as write_archive
from crm.tenancy.database import now
from crm.tenancy.files import UnknownTenant
from crm.tenancy.tenants import Tenants

README = """\
{label}, as it was at {moment}

{label}.db   everything: one SQLite file, which `restore {label}.db --tenant LABEL` takes back.
{sheets}

Keep this archive as safe as the data itself. {label}.db has the personal data of people, hashes of
API keys, passwords and sessions, and the secrets of webhooks as they are.
"""
SHEET = "{name}   CSV, UTF-8, a header line, commas"


def write(tenants: Tenants, label: str, to: Path) -> None:
    """Write the archive of a tenant, readable by its owner only, and name it when it is complete.

    Raises UnknownTenant, BadCopy, or what the database and the disk say.
    """
    _require(tenants, label)
    disk.delete_abandoned(to.parent, f".export-{label}-*", tenants.steady_clock.erasing_now())
    with tempfile.TemporaryDirectory(prefix=f".export-{label}-", dir=to.parent) as apart:
        archive = Path(apart) / "archive"
        disk.make(archive)
        with archive.open("wb") as file:
            _fill(file, tenants, label, Path(apart) / "copy")
            file.flush()
            os.fsync(file.fileno())
        os.replace(archive, to)
        disk.sync(to.parent)


def send(tenants: Tenants, label: str, to: BinaryIO) -> None:
    """Write the archive to an open file or pipe. Raises as write() does, before the first byte."""
    _require(tenants, label)
    data = tenants.config.data
    disk.delete_abandoned(data, f".export-{label}-*", tenants.steady_clock.erasing_now())
    with tempfile.TemporaryDirectory(prefix=f".export-{label}-", dir=data) as apart:
        # Made as a file first: a pipe cannot take back what was written before an error.
        archive = Path(apart) / "archive"
        write(tenants, label, archive)
        with archive.open("rb") as file:
            shutil.copyfileobj(file, to)


def _require(tenants: Tenants, label: str) -> None:
    """Before anything is made. The base host's file, which can be visited too, is no tenant's."""
    if not tenants.exists(label):
        raise UnknownTenant


def _fill(file: BinaryIO, tenants: Tenants, label: str, copy: Path) -> None:
    with tenants.session(label):
        write_archive(copy)
    with backup.copy_session(tenants, copy, label), ZipFile(file, "w", ZIP_DEFLATED) as archive:
        resources = spreadsheets.all_resources()
        named = "\n".join(SHEET.format(name=resource.file_name) for resource in resources)
        archive.writestr("README.txt", README.format(label=label, moment=now(), sheets=named))
        archive.write(copy, f"{label}.db")
        for resource in resources:
            with _entry(archive, resource.file_name, tenants.clock()) as file_of_resource:
                spreadsheets.export_csv(file_of_resource, resource)


def _entry(archive: ZipFile, name: str, seconds: float) -> BinaryIO:
    """Open an entry of the archive for writing in parts of unknown total size."""
    entry = ZipInfo(name, time.gmtime(seconds)[:6])
    entry.compress_type = ZIP_DEFLATED
    entry.external_attr = 0o600 << 16
    return cast(BinaryIO, archive.open(entry, "w", force_zip64=True))
