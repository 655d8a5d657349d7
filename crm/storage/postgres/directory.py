"""The databases of CRM_DATABASE, and the directory: where each tenant of all nodes lives.

The directory is in the first database. A tenant lives in a database or in a file of one node: a
node enters its files when it first uses the directory, and when they are made.
"""

import platform
import secrets
import threading
from collections.abc import Iterator
from functools import cached_property
from typing import Any

from crm.config import Config, ConfigError
from crm.errors import Conflict, CRMError, TenantElsewhere, TenantUnavailable
from crm.storage import disk, file_errors
from crm.storage.engine import BASE_HOST_FILE
from crm.storage.file_errors import UNSUITABLE, ServerError, cause_of
from crm.storage.postgres import schema, shared_schema
from crm.storage.postgres.connections import Database
from crm.storage.sqlite.engine import FileEngine
from crm.storage.unavailable import Unavailable

MAX_TENANTS_PER_DATABASE = 1000
NODE_FILE = "node"  # in the data folder: the name of this node in the directory
FIND = "SELECT database FROM crm.directory WHERE label = $1"
MISSING = """
    SELECT file FROM unnest(string_to_array($1, ' ')) AS file
    WHERE NOT EXISTS (SELECT 1 FROM crm.directory WHERE label = file)
"""
ENTER = """
    INSERT INTO crm.directory (label, database)
    SELECT file, $2 FROM unnest(string_to_array($1, ' ')) AS file ON CONFLICT DO NOTHING
"""
NOT_MADE = ("42P01", "3F000")  # SQLSTATEs where there is no shared schema yet


class Directory:
    """The databases of an installation, and where its tenants live."""

    def __init__(self, config: Config, files: FileEngine, unavailable: Unavailable):
        """Nothing is connected yet. Raises ConfigError."""
        self.config, self.files, self.unavailable = config, files, unavailable
        self.databases = list(_databases(config))
        self.changes_nothing = False  # a shared schema is used as it is; for the doctor
        self._prepared: set[str] = set()
        self._preparing = threading.Lock()

    @property
    def main(self) -> Database:
        """The database that has the directory: the first of CRM_DATABASE."""
        return self.prepared(self.databases[0])

    def prepared(self, database: Database) -> Database:
        """Return the database once its shared schema is there and up to date.

        Raises DatabaseUnavailable, Busy if the server has no connection left, StorageFull.
        """
        if database.name not in self._prepared:
            database.waiters.require_few()
            with database.waiters.wait(), self._preparing:
                try:
                    database.require_no_recent_failure()
                    if not self.changes_nothing:
                        shared_schema.prepare_database(database)
                    if database is self.databases[0]:
                        self.enter_files(self.files.labels())
                except ServerError as error:
                    raise self._refusal(database, error) from error
                except OSError as error:  # of the folder of files, or of the node's name
                    self.unavailable.report_folder(error)
                self._prepared.add(database.name)
        return database

    def _refusal(self, database: Database, error: ServerError) -> CRMError:
        """Return the error to raise for an error of a database as a whole."""
        refusal = file_errors.refusal(error)
        if refusal is None or isinstance(refusal, TenantUnavailable):
            return self.unavailable.report_server(database.name, error)
        self.unavailable.report_refusal(database.name, error)
        return refusal

    def check_databases(self) -> Iterator[CRMError | None]:
        """Yield for each database whether it is ready: None, or the error that its tenants get.

        One whose connections are all in use is ready. Each takes some milliseconds; one that does
        not answer, CONNECT_TIMEOUT_SECONDS.
        """
        for database in self.databases:
            try:
                self.prepared(database).ping()
                yield None
            except ServerError as error:
                yield self._refusal(database, error)
            except CRMError as error:
                yield error

    @cached_property
    def file_place(self) -> str:
        """What the directory calls the files of this node: a slash and the name of the node.

        The name is made on first use, and stays with the data folder. Raises OSError.
        """
        path = self.config.data / NODE_FILE
        if not path.exists() and not self.changes_nothing:
            disk.make_folder(self.config.data)
            with disk.locked(self.config.data):
                if not path.exists():
                    name = f"{platform.node()}-{secrets.token_hex(4)}"
                    disk.write_file(path, name.encode())
        return f"/{path.read_text().strip() if path.exists() else ''}"

    def enter_files(self, labels: list[str]) -> None:
        """Enter files of this node into the directory, unless it has their labels."""
        database, files = self.databases[0], " ".join(labels)
        if not self.changes_nothing and schema.read(database, MISSING, (files,)):
            schema.read(database, ENTER, (files, self.file_place))

    def is_at(self, place: str, label: str) -> bool:
        """Whether a tenant is in a place of the directory: that alone may have the label.

        Nobody knows it of another node's file: then it is taken to be there.
        """
        if place == self.file_place:
            return self.files.has(label)
        return place.startswith("/") or self.has_schema(label, self.database_named(place))

    def find_database(self, label: str) -> Database | None:
        """Return the database that a tenant lives in; None if it lives in a file or nowhere.

        Raises TenantElsewhere, DatabaseUnavailable, also for a database that CRM_DATABASE does not
        name.
        """
        if label == BASE_HOST_FILE:
            return self.main
        rows = self.query(FIND, (label,))
        if not rows and self.files.has(label):
            self.enter_files([label])
            rows = self.query(FIND, (label,))
        if not rows:
            return None
        ((place,),) = rows
        return None if place == self.file_place else self.database_named(place)

    def database_named(self, name: str) -> Database:
        """Return the database that the directory calls so.

        Raises DatabaseUnavailable, TenantElsewhere for the files of another node.
        """
        if name.startswith("/"):
            raise TenantElsewhere(reason=f"its file is on the node {name[1:]}: go there")
        for database in self.databases:
            if self.name_of(database) == name:
                return self.prepared(database)
        raise self.unavailable.report_server(
            name, ServerError("CRM_DATABASE does not name it", UNSUITABLE)
        )

    def name_of(self, database: Database | None) -> str:
        """Return what the directory calls a database, or None for the files of this node.

        Its own database is nothing, so that it may be renamed.
        """
        if database is None:
            return self.file_place
        return "" if database is self.databases[0] else database.name

    def choose_database(self) -> Database:
        """Return the first database with room for another tenant. Raises Conflict."""
        for database in self.databases:
            ((count,),) = self.query("SELECT count(*) FROM crm.tenant", (), database)
            if count < MAX_TENANTS_PER_DATABASE:
                return self.prepared(database)
        raise Conflict(
            f"each database has {MAX_TENANTS_PER_DATABASE} tenants: add one to CRM_DATABASE",
            "databases_full",
        )

    def database_for(self, label: str) -> Database | None:
        """Return the database that a tenant lives in, or that a new one is to; None for a file.

        Raises what find_database() and choose_database() do.
        """
        database = self.find_database(label)
        if database is None and not self.files.has(label):
            database = self.choose_database()
        return database

    def has_schema(self, label: str, database: Database) -> bool:
        """Whether a tenant's schema is in a database: the directory alone may have the label."""
        return bool(self.query("SELECT 1 FROM crm.tenant WHERE label = $1", (label,), database))

    def place_of(self, label: str) -> str:
        """Return the name of the place that the directory has for a label, or nothing."""
        rows = self.query(FIND, (label,))
        return (rows[0][0] or self.databases[0].name) if rows else ""

    def has(self, label: str) -> bool:
        """Whether a tenant is where the directory says."""
        return self.is_found(label, self.query(FIND, (label,)))

    def is_found(self, label: str, rows: list[tuple[Any, ...]]) -> bool:
        """Whether a tenant is in a place that FIND has returned."""
        return any(self.is_at(place, label) for (place,) in rows)

    def query(
        self, sql: str, params: tuple[Any, ...] = (), database: Database | None = None
    ) -> list[tuple[Any, ...]]:
        """Return the rows of a query in the shared schema, of the first database unless given."""
        database = self.prepared(database or self.databases[0])
        try:
            return schema.read(database, sql, params)
        except ServerError as error:
            if self.changes_nothing and error.sqlstate in NOT_MADE:
                return []
            if cause_of(error) is None:
                raise
            raise self._refusal(database, error) from error


def _databases(config: Config) -> Iterator[Database]:
    for number, address in enumerate(config.database, 1):
        which = f" (number {number})" if len(config.database) > 1 else ""
        try:
            yield Database(address, config.database_connections, config.database_roles)
        except ValueError as error:
            raise ConfigError(f"CRM_DATABASE{which}: {error}") from None
