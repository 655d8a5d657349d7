"""Waiting uploads of a tenant in a schema, in its database: the next page may be another node's."""

from typing import Any

from crm.storage.postgres import schema
from crm.storage.uploads import MAX_PER_SESSION, MAX_PER_TENANT

LOCK = "SELECT pg_advisory_xact_lock(hashtextextended($1, 7275))"  # of a tenant's uploads
DELETE_OLDEST = """
    DELETE FROM crm.upload WHERE name IN (
        SELECT name FROM crm.upload WHERE label = $1 AND ($2::bigint IS NULL OR session_id = $2)
        ORDER BY saved_at DESC, name OFFSET $3)
"""
INSERT = """
    INSERT INTO crm.upload (name, label, session_id, saved_at, data) VALUES ($1, $2, $3, $4, $5)
"""
OF_SESSION = "WHERE name = $1 AND label = $2 AND session_id = $3"
READ = f"SELECT data FROM crm.upload {OF_SESSION} AND saved_at > $4"
DELETE = f"DELETE FROM crm.upload {OF_SESSION} RETURNING 1"


class SchemaUploads:
    """The waiting uploads of one tenant; the methods are those of `FileUploads`.

    The statements are of no tenant's schema, so they run outside of the session's transactions.
    """

    def __init__(self, tenant: Any):
        """`tenant` is the `schema_tenant.SchemaTenant` whose uploads they are."""
        self._tenant = tenant

    def save(self, session_id: int, name: str, data: bytes, moment: float) -> None:
        """Save a file, and delete the oldest of too many."""
        label = self._tenant.label
        with schema.writing(self._tenant.database) as connection:
            connection.send(LOCK, (label,))
            connection.send(DELETE_OLDEST, (label, None, MAX_PER_TENANT - 1))
            connection.send(DELETE_OLDEST, (label, session_id, MAX_PER_SESSION - 1))
            connection.send(INSERT, (name, label, session_id, moment, data))
            connection.receive()

    def read(self, session_id: int, name: str, after: float) -> bytes | None:
        """Return the content of a file that was saved after a moment."""
        rows = self._run(READ, name, session_id, after)
        return rows[0][0] if rows else None

    def delete(self, session_id: int, name: str) -> bool:
        """Delete a file; returns False if it is gone."""
        return bool(self._run(DELETE, name, session_id))

    def delete_until(self, moment: float) -> None:
        """Delete the files of all tenants of the database that were saved until a moment."""
        sql = "DELETE FROM crm.upload WHERE saved_at <= $1"
        schema.read(self._tenant.database, sql, (moment,))

    def _run(self, sql: str, name: str, session_id: int, *more: float) -> list[tuple[Any, ...]]:
        params = (name, self._tenant.label, session_id, *more)
        return schema.read(self._tenant.database, sql, params)
