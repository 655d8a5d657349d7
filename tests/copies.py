"""Copies of tenants, as tests make and find them."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result

from crm import cli
from crm.copies.backup_run import MAX_COPIES, BackupRun
from crm.storage import upgrades
from crm.storage.session import current_session
from crm.storage.sqlite import archive
from tests.installations import environ_for


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


def query(path: Path, *statements: str) -> list[tuple[Any, ...]]:
    """Execute statements in a file, and return the rows of the last one."""
    with closing(sqlite3.connect(path, isolation_level=None)) as file:
        return [file.execute(statement).fetchall() for statement in statements][-1]


def command(crm: Any, *words: object, code: int = 0, sent: str | None = None) -> Result:
    """Run a command on the data folder of an app, which must exit with this code."""
    crm.tenants.forget_idle()
    data = crm.tenants.config.data
    line = [*map(str, words), "--data", str(data)]
    result = CliRunner().invoke(cli.group, line, input=sent, env=environ_for(data))
    assert result.exit_code == code, (result.output, result.exception)
    return result
