"""The databases of CRM_DATABASE, and which of them a tenant lives in."""

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from crm.config import Config, ConfigError
from crm.errors import Conflict, CRMError, TenantUnavailable
from crm.tenancy import file_errors
from crm.tenancy.engines import installation_checks, schema
from crm.tenancy.engines.installation_checks import MAX_TENANTS_PER_DATABASE
from crm.tenancy.engines.postgres import Database
from crm.tenancy.file_errors import UNSUITABLE, ServerError, cause_of
from crm.tenancy.tenants import BASE_HOST_FILE, DatabaseCheck, Tenants

NOT_MADE = ("42P01", "3F000")  # SQLSTATEs where there is no shared schema yet


class DatabaseTenants(Tenants):
    """What `schema_tenants.SchemaTenants` knows of its databases as a whole."""

    def __init__(
        self,
        config: Config,
        clock: Callable[[], float] = time.time,
        uptime: Callable[[], float] | None = None,
    ):
        super().__init__(config, clock, uptime)
        self.databases = list(_databases(config))
        self.changes_nothing = False  # a shared schema is used as it is; for the doctor
        self._prepared: set[str] = set()
        self._preparing = threading.Lock()

    @property
    def directory(self) -> Database:
        """The database that has the directory: the first of CRM_DATABASE."""
        return self.prepared(self.databases[0])

    def prepared(self, database: Database) -> Database:
        """Return the database once its shared schema is there and up to date.

        Raises DatabaseUnavailable, Busy if the server has no connection left, StorageFull.
        """
        if database.name not in self._prepared:
            with self._preparing:
                try:
                    database.require_no_recent_failure()
                    if not self.changes_nothing:
                        schema.prepare_database(database)
                except ServerError as error:
                    raise self._refusal(database, error) from error
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

    def database_checks(self) -> list[DatabaseCheck]:
        """Return the doctor's checks of databases: the name of each, and a function."""
        self.changes_nothing = True
        return installation_checks.checks_of(self)

    def find_database(self, label: str) -> Database | None:
        """Return the database that a tenant lives in; None if it lives in a file or nowhere.

        Raises DatabaseUnavailable, also for a database that CRM_DATABASE does not name.
        """
        if label == BASE_HOST_FILE:
            return self.directory
        rows = self._query("SELECT database FROM crm.directory WHERE label = $1", (label,))
        if not rows:
            return None
        return self.database_named(rows[0][0])

    def database_named(self, name: str) -> Database:
        """Return the database that the directory calls so. Raises DatabaseUnavailable."""
        for database in self.databases:
            if self.name_of(database) == name:
                return self.prepared(database)
        raise self.unavailable.report_server(
            name, ServerError("CRM_DATABASE does not name it", UNSUITABLE)
        )

    def name_of(self, database: Database) -> str:
        """Return what the directory calls a database: itself nothing, so that it may be renamed."""
        return "" if database is self.databases[0] else database.name

    def choose_database(self) -> Database:
        """Return the first database with room for another tenant. Raises Conflict."""
        for database in self.databases:
            ((count,),) = self._query("SELECT count(*) FROM crm.tenant", (), database)
            if count < MAX_TENANTS_PER_DATABASE:
                return self.prepared(database)
        raise Conflict(
            f"each database has {MAX_TENANTS_PER_DATABASE} tenants: add one to CRM_DATABASE",
            "databases_full",
        )

    def has_schema(self, label: str, database: Database) -> bool:
        """Whether a tenant's schema is in a database: the directory alone may have the label."""
        return bool(self._query("SELECT 1 FROM crm.tenant WHERE label = $1", (label,), database))

    def _query(
        self, sql: str, params: tuple[Any, ...] = (), database: Database | None = None
    ) -> list[tuple[Any, ...]]:
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
