"""Migrations: numbered steps of a tenant's file, whose version is the number of steps it has had.

A step is a file of SQL statements, executed in one transaction with the version it leads to, so a
step happens wholly or not at all. Never change a step that was released: add the next one.

`steps.txt` lists them. Code that finds a step which its own list lacks does not start: the file is
of a newer release, and would migrate tenants beyond what this code can read. `python -m
crm.storage.sqlite.migrations` writes the list.
"""

import sqlite3
from contextlib import closing
from functools import cache
from importlib import resources

from crm.errors import CRMError
from crm.values import folding

# Tables of older files by their names there, and what step 6 calls them.
RENAMED_TABLES = {
    "price_import": "import_run",
    "answer": "idempotency_response",
    "change": "audit_entry",
    "code": "sms_code",
    "link": "one_time_link",
}

LIST_NAME = "steps.txt"
READ_VERSION = "SELECT user_version, application_id FROM pragma_user_version, pragma_application_id"
# The first step after release 0.1.0 sets the id, which files of code in between lack: there were
# more steps, of which none was released.
STEPS_OF_FIRST_RELEASE, APPLICATION_ID = 5, int.from_bytes(b"CRM")


class MixedReleases(CRMError):
    """Files of another release lie among those of this one."""

    code = "mixed_releases"


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
NAMES = [name for name, _ in STEPS]


def require_known_steps() -> None:
    """Raise MixedReleases unless the steps are exactly those of the list of this release."""
    listed = resources.files(__name__).joinpath(LIST_NAME).read_text("utf-8").split()
    if differing := sorted({*NAMES} ^ {*listed}):
        raise MixedReleases(
            f"this installation mixes two releases: {', '.join(differing)} in"
            f" crm/storage/sqlite/migrations is not as in {LIST_NAME} there; install each release"
            " into a venv of its own (upgrading.md), or list a step of your own by"
            " `python -m crm.storage.sqlite.migrations`"
        )


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


def find_version(connection: sqlite3.Connection) -> int:
    """Return the version whose tables and indexes a file has, whatever it says; 0: none's."""
    versions = range(len(STEPS), 0, -1)
    return next((step for step in versions if _schema(connection) == _expected_schema(step)), 0)


@cache
def _expected_schema(version: int) -> frozenset[tuple[str, ...]]:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        migrate(connection, "", version)
        return _schema(connection)


def _schema(connection: sqlite3.Connection) -> frozenset[tuple[str, ...]]:
    sql = "SELECT type, name, sql FROM sqlite_schema WHERE name NOT LIKE 'sqlite\\_%' ESCAPE '\\'"
    return frozenset(connection.execute(sql).fetchall())


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
