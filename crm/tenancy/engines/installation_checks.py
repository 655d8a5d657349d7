"""Checks of an installation with CRM_DATABASE for `doctor`: all databases and the directory."""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, Protocol

from crm.config import Config
from crm.tenancy.engines.database_checks import check_database, list_names
from crm.tenancy.engines.postgres import Database
from crm.tenancy.file_errors import ServerError
from crm.tenancy.tenants import DatabaseCheck
from crm.timed_checks import FAULT, WARNING, LevelAndDetail

MAX_TENANTS_PER_DATABASE = 1000
DIRECTORY = "SELECT label, database FROM crm.directory"
PUBLISHED = "SELECT label FROM crm.tenant WHERE label NOT LIKE '.%' AND label <> '_front'"


class Installation(Protocol):
    """What is checked: `schema_tenants.SchemaTenants`."""

    config: Config
    databases: list[Database]

    def name_of(self, database: Database) -> str: ...

    def file_labels(self) -> list[str]: ...


def checks_of(installation: Installation) -> list[DatabaseCheck]:
    """Return the checks of an installation: the name of each, and a function."""
    most = installation.config.database_connections
    checks: list[DatabaseCheck] = [
        ("database", partial(check_database, database, most, MAX_TENANTS_PER_DATABASE))
        for database in installation.databases
    ]
    named = [(installation.name_of(database), database) for database in installation.databases]
    return [
        *checks,
        ("directory", partial(check_directory, named)),
        ("directory", partial(check_files, installation)),
    ]


def check_directory(databases: Sequence[tuple[str, Database]]) -> Iterator[LevelAndDetail]:
    """Check that the directory, in the first of the databases, agrees with all of them.

    `databases` are pairs of what the directory calls a database, and the database.
    """
    rows = _read(databases[0][1], DIRECTORY)
    if rows is None:
        return
    names = dict(databases)
    for name in sorted({name for _, name in rows if name not in names}):
        labels = [label for label, other in rows if other == name]
        yield (
            FAULT,
            f"{list_names(labels)} live in the database {name}, which CRM_DATABASE does not name",
        )
    for name, database in databases:
        published = _read(database, PUBLISHED)
        if published is None:
            continue
        there = {label for (label,) in published}
        entered = {label for label, other in rows if other == name}
        if lost := sorted(entered - there):
            yield (
                WARNING,
                f"without a schema in {database.name}: {list_names(lost)}, left by a process that"
                " ended while creating them: `tenant create` makes them",
            )
        if unreached := sorted(there - entered):
            yield (
                WARNING,
                f"no request reaches the schemas of {list_names(unreached)} in {database.name}:"
                " the directory names another place, or none",
            )


def check_files(installation: Installation) -> Iterator[LevelAndDetail]:
    """Check that tenants are not left in files, which other machines do not have."""
    rows = _read(installation.databases[0], DIRECTORY)
    if rows is None:
        return
    in_schemas = {label for label, _ in rows}
    files = installation.file_labels()
    if left := [label for label in files if label not in in_schemas]:
        text = f"{len(left)} tenants are in files of this machine: {list_names(left)}"
        yield WARNING, f"{text}: `tenant move` moves them"
    if hidden := [label for label in files if label in in_schemas]:
        yield WARNING, f"files that are not used, as there is a schema: {list_names(hidden)}"


def _read(database: Database, sql: str) -> list[tuple[Any, ...]] | None:
    """Return rows; None if the database cannot be used, which check_database() says."""
    try:
        with database.connect() as connection:
            return connection.execute(sql.encode()).fetchall()
    except ServerError:
        return None
