"""The contents of a tenant in a schema, in its tables `file_content` and `file_chunk`."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from crm.storage.contents import Contents
from crm.storage.file_errors import ServerError
from crm.storage.postgres.schema_connection import SchemaConnection
from crm.storage.session import session_or_none


class SchemaContents(Contents):
    """The contents of one tenant; `exist` is always true, and quotas count the tables anyway."""

    def exist(self) -> bool:
        return True

    @contextmanager
    def _using(self, writes: bool) -> Iterator[SchemaConnection]:
        """Inside a transaction of this tenant, which holds its lock, it is a part of that."""
        session = session_or_none()
        if session and session.in_transaction and session.source is self._source:
            yield session.connection
            return
        connection: Any = self._source.take(writes)
        try:
            yield connection
        except ServerError as error:
            raise self._source.refusal(error) or error from error
        finally:
            connection.rollback()

    @contextmanager
    def _transaction(self, connection: SchemaConnection, syncs: bool = False) -> Iterator[None]:
        """Write in the tenant's turn, as all do who write to a schema."""
        if connection.in_transaction:
            yield
            return
        connection.begin(self._wait_seconds())
        try:
            if not syncs:  # a later commit that waits for the disk waits for what is before it, too
                connection.execute("SET LOCAL synchronous_commit = off")
            yield
            connection.commit()
        except BaseException:
            connection.rollback()
            raise

    def _row_reader(self, connection: SchemaConnection) -> SchemaConnection:
        return connection

    def _scrub(self, has_deleted: bool) -> None:
        if has_deleted:
            self._source.scrub(("file_content", "file_chunk"))
