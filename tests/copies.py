"""Copies of tenants, as tests make and find them."""

import sqlite3
from pathlib import Path
from typing import Any

from crm.copies.backup_run import MAX_COPIES, BackupRun
from crm.storage import upgrades
from crm.storage.session import current_session
from crm.storage.sqlite import archive


def create_copy(to: Path, keep: int = MAX_COPIES) -> Path:
    """Copy the current tenant into a folder and return the path of the copy.

    Of its label's copies there the `keep` newest stay.
    """
    session = current_session()
    run = BackupRun(to, keep, session.clock, session.source.steady_clock.erasing_now())
    try:
        (copy,) = run.add(session.source) or run.finish()
    finally:
        run.close()
    return copy.path


def list_copies_before_upgrades(data: Path, label: str) -> list[Path]:
    """List the copies that upgrades of a tenant have made, that of the newest version first."""
    folder = upgrades.folder(data, label)
    copies = [
        (int(match["version"]), path)
        for path in (folder.iterdir() if folder.exists() else ())
        if (match := upgrades.NAME.match(path.name))
    ]
    return [path for _, path in sorted(copies, reverse=True)]


def contents_of(file: sqlite3.Connection) -> dict[str, list[Any]]:
    """Return the rows of all tables of an archive, in an order of their own."""
    return {
        table.name: sorted(archive.rows(file, table), key=repr) for table in archive.tables(file)
    }
