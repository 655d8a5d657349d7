"""The waiting uploads of an installation, wherever the engine of the run keeps them."""

from typing import Any

from tests.installations import on_postgres


def names_of_uploads(tenants: Any) -> list[str]:
    """List `<label>.<session>.<name>` of all waiting uploads, claimed ones too."""
    if on_postgres():
        from crm.storage.postgres import schema

        sql = "SELECT label || '.' || session_id || '.' || name FROM crm.upload"
        return [name for (name,) in schema.read(tenants.postgres.directory.database, sql)]
    return [path.name for path in (tenants.config.data / "uploads").glob("*")]
