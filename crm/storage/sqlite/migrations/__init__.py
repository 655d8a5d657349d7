"""Migrations: numbered steps of a tenant's file, whose version is the number of steps it has had.

A step is a file of SQL statements, executed in one transaction with the version it leads to, so a
step happens wholly or not at all. Never change a step that was released: add the next one.
"""

import sqlite3
from importlib import resources

from crm.errors import CRMError
from crm.values import folding

READ_VERSION = "SELECT user_version, application_id FROM pragma_user_version, pragma_application_id"
# The first step after release 0.1.0 sets the id, which files of code in between lack: there were
# more steps, of which none was released.
STEPS_OF_FIRST_RELEASE, APPLICATION_ID = 5, int.from_bytes(b"CRM")


class NewerFile(CRMError):
    """The file was written by a newer release, or by none; this code must not use it."""

    code = "newer_file"


def _steps() -> list[tuple[str, list[str]]]:
    files = [file for file in resources.files(__name__).iterdir() if file.name.endswith(".sql")]
    return [
        (file.name, split_statements(file.read_text("utf-8"))) for file in sorted(files, key=str)
    ]


def split_statements(script: str) -> list[str]:
    """Split a file into statements: `executescript` would commit the step's transaction."""
    statements, statement = [], ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            statements.append(statement.strip())
            statement = ""
    return statements


STEPS = _steps()


def version(connection: sqlite3.Connection) -> int:
    """Return the number of steps that a file has had. Raises NewerFile for an unreleased one."""
    return version_in(*connection.execute(READ_VERSION).fetchone())


def version_in(user_version: int, application_id: int) -> int:
    """Return the version in a row of READ_VERSION. Raises NewerFile for an unreleased one."""
    if user_version > STEPS_OF_FIRST_RELEASE and application_id != APPLICATION_ID:
        raise NewerFile(
            f"it has version {user_version} of code from before release 0.2.0, which no release"
            " reads: make the tenant anew, of a demo the folder"
        )
    return user_version


def newer(name: str, version: int, kind: str = "file") -> NewerFile:
    """Make the error to raise for a file or `schema` of a later version than this code knows."""
    return NewerFile(
        f"the {kind} of {name} has version {version}, this release knows {len(STEPS)}: upgrade it"
    )


def migrate(connection: sqlite3.Connection, name: str, to: int | None = None) -> int:
    """Bring an open file up to date; the caller holds its writer lock.

    `name` is what errors call the file, `to` a version that is not the newest. Returns the number
    of steps taken. Raises NewerFile.
    """
    connection.create_function("fold", -1, folding.fold, deterministic=True)
    connection.create_function("sort_key", 1, folding.sort_key, deterministic=True)
    version_before = version(connection)
    if version_before > len(STEPS):
        raise newer(name, version_before)
    for number, (_, statements) in enumerate(STEPS[version_before:to], version_before + 1):
        connection.execute("BEGIN IMMEDIATE")
        try:
            for statement in statements:
                connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {number}")
        except BaseException:
            connection.execute("ROLLBACK")
            raise
        connection.execute("COMMIT")
    return len(STEPS[version_before:to])
