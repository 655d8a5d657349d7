"""The database of CRM_DATABASE, and the directory: which node has the file of a tenant.

A tenant lives in a schema, or in a file of one node: a node enters its files when it first uses the
directory, and later ones when they are first used. Of a label that has both, the schema is used.
"""

import platform
import secrets
import threading
from functools import cached_property
from typing import Any

from crm.config import Config, ConfigError
from crm.errors import CRMError, TenantElsewhere, TenantUnavailable
from crm.storage import disk, file_errors
from crm.storage.engine import BASE_HOST_FILE
from crm.storage.file_errors import ServerError, cause_of
from crm.storage.postgres import schema, shared_schema
from crm.storage.postgres.connections import Database
from crm.storage.sqlite.engine import FileEngine
from crm.storage.unavailable import Unavailable

NODE_FILE = "node"  # in the data folder: the name of this node in the directory
FIND = """
    SELECT (SELECT 1 FROM crm.tenant WHERE label = $1), (SELECT node FROM crm.file WHERE label = $1)
"""
ENTER = """
    INSERT INTO crm.file (label, node)
    SELECT label, $2 FROM unnest(string_to_array($1, ' ')) AS label ON CONFLICT DO NOTHING
"""
NOT_MADE = ("42P01", "3F000")  # SQLSTATEs where there is no shared schema yet


class Directory:
    """The database of an installation, and where its tenants live."""

    def __init__(self, config: Config, files: FileEngine, unavailable: Unavailable):
        """Nothing is connected yet. Raises ConfigError."""
        self.config, self.files, self._unavailable = config, files, unavailable
        try:
            self.database = Database(config.database, config.database_connections)
        except ValueError as error:
            raise ConfigError(f"CRM_DATABASE: {error}") from None
        self.changes_nothing = False  # the shared schema is used as it is; for the doctor
        self._is_prepared = False
        self._preparing = threading.Lock()

    def prepared(self) -> Database:
        """Return the database once its shared schema is there and up to date.

        Raises DatabaseUnavailable, Busy if the server has no connection left, StorageFull.
        """
        database = self.database
        if not self._is_prepared:
            database.waiters.require_few()
            with database.waiters.wait(), self._preparing:
                try:
                    database.require_no_recent_failure()
                    if not self.changes_nothing:
                        shared_schema.prepare_database(database)
                    self.enter_files(self.files.labels())
                except ServerError as error:
                    raise self._refusal(error) from error
                except OSError as error:  # of the folder of files, or of the node's name
                    self._unavailable.report_folder(error)
                self._is_prepared = True
        return database

    def _refusal(self, error: ServerError) -> CRMError:
        """Return the error to raise for an error of the database as a whole."""
        refusal = file_errors.refusal(error)
        if refusal is None or isinstance(refusal, TenantUnavailable):
            return self._unavailable.report_server(self.database.name, error)
        self._unavailable.report_refusal(self.database.name, error)
        return refusal

    def check(self) -> None:
        """Raise the error that all tenants get if the database is not ready.

        One whose connections are all in use is ready. It takes some milliseconds; where nothing
        answers, CONNECT_TIMEOUT_SECONDS.
        """
        try:
            self.prepared().ping()
        except ServerError as error:
            raise self._refusal(error) from error

    @cached_property
    def node(self) -> str:
        """The name of this node, made on first use, which stays with the data folder.

        Raises OSError.
        """
        path = self.config.data / NODE_FILE
        if not path.exists() and not self.changes_nothing:
            disk.make_folder(self.config.data)
            with disk.locked(self.config.data):
                if not path.exists():
                    name = f"{platform.node()}-{secrets.token_hex(4)}"
                    disk.write_file(path, name.encode())
        return path.read_text().strip() if path.exists() else ""

    def enter_files(self, labels: list[str]) -> None:
        """Enter files of this node into the directory, unless it has their labels."""
        if labels and not self.changes_nothing:
            schema.read(self.database, ENTER, (" ".join(labels), self.node))

    def find(self, label: str) -> tuple[bool, str | None]:
        """Return whether a tenant has a schema, and which node has a file of it: None for none.

        A file of this node that is gone is none; another node's is taken to be there.
        """
        ((has_schema, node),) = self.query(FIND, (label,)) or [(None, None)]
        if node and node == self.node and not self.files.has(label):
            node = None
        return bool(has_schema), node

    def lives_in_schema(self, label: str) -> bool:
        """Whether a tenant lives in a schema; False if in a file of this node, or nowhere.

        The base host has no other place. Raises TenantElsewhere, DatabaseUnavailable.
        """
        if label == BASE_HOST_FILE:
            return True
        has_schema, node = self.find(label)
        if not has_schema and node is None and self.files.has(label):
            self.enter_files([label])
            has_schema, node = self.find(label)
        if not has_schema and node and node != self.node:
            raise TenantElsewhere(reason=f"its file is on the node {node}: go there")
        return has_schema

    def query(self, sql: str, params: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
        """Return the rows of a query in the shared schema."""
        database = self.prepared()
        try:
            return schema.read(database, sql, params)
        except ServerError as error:
            if self.changes_nothing and error.sqlstate in NOT_MADE:
                return []
            if cause_of(error) is None:
                raise
            raise self._refusal(error) from error
